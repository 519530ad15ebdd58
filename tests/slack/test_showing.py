"""What people see besides answers: reactions, statuses, growing answers; and workspaces beside each other."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from daycare.testing.daemon import OWNER
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.slack.testing.server import APP_TOKEN, BOT, TOKEN, FakeWorkspace, refused
from tests.slack.houses import ANN, BEN, Stage, health, open_stage, until

DM = "D1ANN"
TEAM = "C1TEAM"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as found:
        yield found
        assert not found.slack.links.wrong


async def test_a_reaction_is_seen_by_the_agent_which_puts_one_itself(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    async with stage.daemon() as house:
        model.enqueue(call(("react", {"emoji": "🎉"})), say("done"))
        asked = slack.say(ANN, "we won")["event"]["ts"]
        answer = await stage.sent(1)
        await until(lambda: slack.channels[DM].messages[asked].get("reactions") == {"tada": [BOT]})
        slack.react(ANN, DM, answer["ts"], "+1::skin-tone-3")
        slack.react(BOT, DM, answer["ts"], "eyes")  # as Slack tells of our own
        await until(lambda: not slack.links.unacknowledged)
        model.enqueue(say("thanks"))
        slack.say(ANN, "and?")
        await stage.sent(2)
        prompt = str(model.history[-1].messages)
        assert f"reacted 👍 to message {answer['ts']}" in prompt and "👀" not in prompt
        await house.daemon.connectors["slack"].react(ANN, asked, "")
        assert slack.channels[DM].messages[asked]["reactions"] == {"tada": []}


async def test_where_slack_has_no_streams_a_message_is_updated_and_goes(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    begun: list[str] = []
    slack.on_call.append(lambda method, _, moment: begun.append(method) if moment == "arrived" else None)
    slack.fault("chat.startStream", refused("feature_not_enabled"), times=50)
    slack.dm(ANN).messages["1.000001"] = {"user": ANN, "ts": "1.000001", "text": "root"}
    async with stage.daemon():
        model.enqueue(call(("now", {}), text="Let me see."), 3.0, say("It is so, <!channel>."))
        slack.say(ANN, "why?", thread="1.000001")
        await until(lambda: slack.asked_for("chat.update") or len(slack.asked_for("chat.postMessage")) > 1, 20)
        await until(lambda: stage.texts() == ["It is so, &lt;!channel&gt;."], 20)
    assert begun.count("chat.startStream") == 1, "it is asked once"
    assert slack.statuses[0] == (DM, "1.000001", "is working on it…")
    for params in slack.asked_for("chat.postMessage"):
        assert [params.text(name) for name in ("unfurl_links", "unfurl_media", "link_names")] == ["false"] * 3


async def test_in_a_channel_the_stream_is_for_who_asked_and_names_nobody(stage: Stage) -> None:
    slack, model = stage.slack, stage.model
    slack.channel(TEAM, "team")
    async with stage.daemon() as house:
        await house.store.people.link(f"slack:{TEAM}", "ann")
        model.enqueue(call(("now", {}), text="I ask <@U1ANN> and @here."), 3.0, say("It is so."))
        ts = slack.say(BEN, f"<@{BOT}> why?", TEAM)["event"]["ts"]
        await until(lambda: slack.asked_for("chat.startStream"), 20)
        [begun] = slack.asked_for("chat.startStream")
        assert (begun.text("recipient_user_id"), begun.text("thread_ts")) == (BEN, ts)
        grown = [*slack.asked_for("chat.startStream"), *slack.asked_for("chat.appendStream")]
        said = "".join(each.text("markdown_text") for each in grown)
        assert "<@" not in said and "@here" not in said
        await until(lambda: [each["text"] for each in slack.sent(TEAM)] == ["It is so."], 20)


async def test_workspaces_beside_each_other_have_their_own_people_tokens_and_connectors(stage: Stage) -> None:
    stage.model = Scripted(lambda request: say(f"re {request.messages[-1].text[-1]}"))
    async with FakeWorkspace.serve() as other:
        other.clock = stage.slack.clock
        other.person(ANN, "Ann of the family")
        async with stage.daemon(workspaces={"family": {"base_url": other.url}}) as house:
            await until(lambda: health(house, "slack-family")["state"] == "off")
            assert not other.calls and health(house, "slack-family")["hint"] == "daycare keys add slack.family"
            vault = house.daemon.vault
            await house.store.secrets.put("slack.family", OWNER, vault.seal(TOKEN))
            await house.store.secrets.put("slack.family.app_token", OWNER, vault.seal(APP_TOKEN))
            await until(lambda: health(house, "slack-family")["state"] == "up", 15)
            stage.slack.say(ANN, "m1")
            await stage.sent(1)
            other.say(ANN, "m2")  # the same id, of somebody else
            await until(lambda: other.sent(ANN))
            assert "-" in other.sent(ANN)[0]["text"] and len(stage.model.history) == 1
            await house.store.people.link(f"slack-family:{ANN}", OWNER)
            other.say(ANN, "m3")
            await until(lambda: len(other.sent(ANN)) == 2)
            with trio.fail_after(10):
                while await house.store.outbox.count():
                    await trio.sleep(0.02)
        assert (stage.texts()[0], other.sent(ANN)[1]["text"]) == ("re 1", "re 3")
