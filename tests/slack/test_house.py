"""The whole way through a daemon: from an event in a workspace to the agent and back, also over faults and kills."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from daycare.testing.scripted import say
from tests.slack.houses import ANN, BEN, Stage, health, open_stage, until


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as found:
        yield found


async def test_a_person_is_answered_and_a_stranger_shown_a_code(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon() as house:
        model.enqueue(say("Hello **Ann** <3 [there](https://a.example/?b=1&c=2)"))
        slack.say(ANN, "hi &amp; bye")
        assert (await stage.sent(1))["text"] == "Hello *Ann* &lt;3 <https://a.example/?b=1&amp;c=2|there>"
        assert model.history[-1].messages[-1].text.endswith("hi & bye")
        await until(lambda: not slack.links.unacknowledged)
        slack.say(BEN, "let me in")
        assert "-" in (await stage.sent(1, BEN))["text"]
        assert len(model.history) == 1
        assert health(house)["state"] == "up"
        assert health(house)["identity"] == "@daycare in Acme"
    assert not slack.links.wrong
