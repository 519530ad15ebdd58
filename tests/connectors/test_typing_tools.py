"""What people see while tools run: one message that changes, and goes when the reply is there."""

import pytest
import trio
import trio.testing

from daycare.connectors.typing_status import PRESENCE_REPLY_S
from daycare.plugin import Capabilities
from tests.connectors.stage import GROUP, on_stage


async def test_a_line_follows_a_long_tool_below_the_words(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("Let me look at the sky.")
        await trio.sleep(1)
        stage.tool()
        await trio.sleep(3)
        stage.progress("page 3\nof 9")
        await trio.sleep(10)
        stage.tool_done()
        await trio.sleep(5)
        stage.write("It rains.")
        await trio.sleep(5)
        look = "Let me look at the sky."
        assert stage.texts("draft") == [
            look,
            f"{look}\n\n⏳ using weather … 2 s",
            f"{look}\n\n⏳ using weather … 3 s · `page 3 of 9`",
            f"{look}\n\n⏳ using weather … 13 s · `page 3 of 9`",
            f"{look}\n\n✓ 1 tool done",
            "It rains.",
        ]


async def test_short_tools_never_flash_a_message(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        for step in range(20):
            stage.tool(step)
            await trio.sleep(1.9)
            stage.tool_done(step)
        stage.write("Short.")
        await trio.sleep(1)
        stage.finish()
        await trio.sleep(60)
        assert not stage.of("status")


async def test_a_group_sees_one_line_that_changes_and_goes(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        stage.tool(1)
        await trio.sleep(6)
        stage.tool_done(1)
        stage.tool(2, "search")
        await trio.sleep(6)
        stage.tool_done(2)
        await trio.sleep(6)
        stage.write("Here is what I found")
        await trio.sleep(6)
        assert stage.pigeon.standing == {"line-1": "Here is what I found"}
        assert list(stage.memory.items()) == [(("pigeon", "status:chat:ann:line-1"), "line-1")]
        stage.finish("Here is what I found: nothing.")
        await trio.sleep(1)
        assert stage.pigeon.standing, "it stays until the reply is there"
        stage.sent(connector="direct")
        stage.sent(user="bob")
        await trio.sleep(1)
        assert stage.pigeon.standing
        stage.sent()
        await trio.sleep(0)
        await trio.testing.wait_all_tasks_blocked()
        assert not stage.pigeon.standing
        assert not stage.memory
        assert stage.texts("status") == ["⏳ using weather … 2 s"]
        assert stage.texts("edit") == [
            "⏳ using search … 0 s · 1 tool done",
            "✓ 2 tools done",
            "Here is what I found",
        ]


async def test_edits_come_as_seldom_as_the_platform_wants(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        for n in range(1_000):
            stage.write(f"{n} ")
            await trio.sleep(0.03)
        stage.finish()
        assert stage.times("status") == pytest.approx([2.0], abs=0.01)
        assert stage.times("edit") == pytest.approx([5, 8, 11, 14, 17, 20, 23, 26, 29], abs=0.05)


async def test_a_tool_that_runs_for_minutes_is_told_every_ten_seconds(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        stage.tool()
        for _ in range(600):
            stage.progress("still the same")
            await trio.sleep(1)
        assert len(stage.of("edit")) == pytest.approx(60, abs=1)
        assert stage.texts("edit")[-1] == "⏳ using weather … 9 min 52 s · `still the same`"


async def test_words_of_tools_are_data(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("```\ncode")
        stage.tool(1, "[click](http://evil.example)")
        await trio.sleep(3)
        stage.progress("`](http://evil.example)\n\n# HEAD\u202e\x1b[2J" + 300 * "x")
        await trio.sleep(3)
        first, second = stage.texts("draft")[-2:]
        assert first == "```\ncode\n```\n\n⏳ using a tool … 2 s"
        line = second.partition("\n\n")[2]
        assert "\n" not in line and "\u202e" not in line and "\x1b" not in line
        assert line.count("`") == 2 and len(line) < 300


@pytest.mark.parametrize("ending", ["stopped", "empty", "waiting", "retry", "unsent"])
async def test_the_message_goes_when_no_reply_comes(ending: str, autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        stage.tool()
        await trio.sleep(5)
        match ending:
            case "stopped":
                stage.finish("so far", stopped=True)
            case "empty":
                stage.finish("")
            case "waiting":
                stage.wait()
            case "retry":
                stage.fail(retry_in_s=1.0)
            case "unsent":
                stage.finish()
        await trio.sleep(PRESENCE_REPLY_S + 1)
        assert stage.times("withdraw") == [5.0 + PRESENCE_REPLY_S if ending == "unsent" else 5.0]
        assert not stage.pigeon.standing and not stage.memory


async def test_a_turn_may_begin_before_the_last_one_has_left(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        for turn in (1, 2, 3):
            stage.start(turn)
            stage.tool(turn=turn)
            await trio.sleep(5)
            stage.finish(turn=turn)
        stage.sent()
        await trio.sleep(0.1)
        assert not stage.pigeon.standing
        assert len(stage.of("status")) == len(stage.of("withdraw")) == 3


async def test_a_message_on_its_way_when_the_turn_ends_is_withdrawn(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.pigeon.upset("status", 5.0)
        stage.start()
        stage.tool()
        await trio.sleep(3)
        stage.finish("")
        await trio.sleep(10)
        assert [shown.call for shown in stage.pigeon.shown if shown.call != "act"] == ["status", "withdraw"]
        assert not stage.pigeon.standing and not stage.memory


async def test_no_message_is_sent_that_could_not_be_withdrawn(autojump_clock: object) -> None:
    async with on_stage(Capabilities(typing_s=5.0, edits=True)) as stage:
        stage.start()
        stage.tool()
        await trio.sleep(30)
        assert {shown.call for shown in stage.pigeon.shown} == {"act"}


async def test_nothing_is_done_where_nothing_can_be_shown(autojump_clock: object) -> None:
    async with on_stage(Capabilities()) as stage:
        stage.start()
        stage.write("twenty characters at least")
        stage.tool()
        await trio.sleep(30)
        assert not stage.pigeon.shown
