"""A daemon that dies at each commit of a conversation: what was said is answered once, and nothing is said twice."""

from itertools import product
from pathlib import Path
from typing import Literal

import pytest
import trio

from daycare.testing.faults import Killed, Switch
from daycare.testing.scripted import Scripted, say
from tests.chance import sliced
from tests.whatsapp_cloud.houses import ANN, Stage, health, open_stage, until

MARK = "(this may be a duplicate)\n"
COMMITS = 12  # of a message, its turn, its reply and the statuses of that, and some more


@pytest.mark.parametrize(("commit", "when"), sliced(list(product(range(1, COMMITS + 1), ("before", "after"))), 3))
async def test_a_kill_at_any_commit_loses_and_doubles_nothing(
    tmp_path: Path, commit: int, when: Literal["before", "after"]
) -> None:
    async with open_stage(tmp_path) as stage:
        died = await converse(stage, commit, when)
        stage.model = Scripted(lambda request: say("hello"))
        async with stage.daemon(confirm_s=5) as house:
            with trio.fail_after(15):
                while not stage.graph.sent(ANN) or stage.graph.queue or await house.store.outbox.count():
                    await trio.sleep(0.02)
        said = [message.text for message in stage.graph.sent(ANN)]
    assert [text.removeprefix(MARK) for text in said] == ["hello"], f"died: {died}"


async def converse(stage: Stage, commit: int, when: Literal["before", "after"]) -> bool:
    """Let a conversation be killed at a commit; return whether it came to that."""
    stage.model = Scripted(lambda request: say("hello"))
    try:
        with trio.CancelScope() as scope:
            async with stage.daemon(confirm_s=5) as house:
                await until(lambda: health(house)["identity"])
                switch = Switch(house.store, scope.cancel)
                switch.kill_at(commit, when)
                stage.graph.say(ANN, "hi")
                with trio.move_on_after(1.5):
                    while not switch.dead:
                        await trio.sleep(0.02)
    except* Killed:
        pass
    return switch.dead
