"""What people see while an agent works: soon, seldom, never late, and gone when the reply is there."""

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, BusyError, DaycareError, ForbiddenError, UnavailableError
from daycare.base.events import (
    AgentDied,
    Event,
    ModelFailed,
    Notice,
    ReplySent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDelta,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnWaiting,
)
from daycare.base.limits import (
    EVENTS_RING,
    PRESENCE_CALL_S,
    PRESENCE_REPLY_S,
    PRESENCE_TURNS_MAX,
    PREVIEW_MAX_CHARS,
    TURN_DEADLINE_S,
    WITHDRAW_TRIES_MAX,
)
from daycare.connectors.presence import Presence
from daycare.observe.about import About
from daycare.observe.bus import Bus
from daycare.plugin import Capabilities, Inbound, Plugin, StructTool, ToolContext
from daycare.testing.house import open_house
from daycare.testing.pigeon import Pigeon, Shown
from daycare.testing.scripted import Scripted, call, say

PRIVATE = Capabilities(typing_s=5.0, drafts=True, preview_every_s=1.0)
GROUP = Capabilities(typing_s=5.0, edits=True, withdrawals=True, preview_every_s=3.0)
QUIET = Capabilities(edits=True, withdrawals=True, preview_every_s=3.0)


class Stage:
    """A bus with somebody who watches; `memory` outlives it."""

    def __init__(self, pigeon: Pigeon, memory: dict[tuple[str, str], str]) -> None:
        self.bus = Bus()
        self.pigeon = pigeon
        self.memory = memory
        self.asked: list[tuple[str, str, str]] = []
        self.nowhere: set[str] = set()
        self.zero = 0.0  # when the curtain rose

    async def target(self, path: str, user: str, connector: str) -> str | None:
        self.asked.append((path, user, connector))
        await trio.sleep(0)
        return None if user in self.nowhere else f"chat:{user}"

    async def remember(self, connector: str, name: str, value: str) -> None:
        await trio.sleep(0)
        self.memory[connector, name] = value
        if not value:
            del self.memory[connector, name]

    async def recall_all(self, connector: str, prefix: str) -> dict[str, str]:
        await trio.sleep(0)
        return {
            name: value
            for (owner, name), value in self.memory.items()
            if owner == connector and name.startswith(prefix)
        }

    # -- events --

    def start(self, turn: int = 1, user: str = "ann", path: str = "") -> None:
        self.publish(TurnStarted(**self._where(user, path), turn=turn, attempt=1, messages=1))

    def write(self, text: str, turn: int = 1, user: str = "ann") -> None:
        self.publish(TurnDelta(**self._where(user), turn=turn, text=text))

    def tool(self, step: int = 1, name: str = "weather", turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolStarted(**self._where(user), turn=turn, step=step, tool=name))

    def progress(self, text: str, step: int = 1, turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolProgress(**self._where(user), turn=turn, step=step, tool="weather", text=text))

    def tool_done(self, step: int = 1, turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolFinished(**self._where(user), turn=turn, step=step, tool="weather", status="ok"))

    def void(self, turn: int = 1, user: str = "ann") -> None:
        self.publish(
            ModelFailed(
                **self._where(user), turn=turn, provider="p", model="m", code="CUT", reason="cut", retry_in_s=1.0
            )
        )

    def finish(self, reply: str = "done", turn: int = 1, user: str = "ann", *, stopped: bool = False) -> None:
        self.publish(TurnFinished(**self._where(user), turn=turn, reply=reply, seqs=(1,), stopped=stopped))

    def wait(self, turn: int = 1) -> None:
        self.publish(TurnWaiting(**self._where(), turn=turn, answers=1))

    def fail(self, turn: int = 1, retry_in_s: float | None = None) -> None:
        self.publish(TurnFailed(**self._where(), turn=turn, attempt=1, code="BAD", reason="bad", retry_in_s=retry_in_s))

    def sent(self, user: str = "ann", connector: str = "pigeon") -> None:
        self.publish(ReplySent(**self._where(user), outbox=1, connector=connector))

    def publish(self, event: Event) -> None:
        self.bus.publish(event)

    def _where(self, user: str = "ann", path: str = "") -> About:
        return {"at_ms": 1, "path": path or f"/{user}/pigeon", "user": user, "agent_id": "a", "trace": "t"}

    # -- what was seen --

    def times(self, call: str) -> list[float]:
        return [round(shown.at - self.zero, 3) for shown in self.of(call)]

    def texts(self, call: str) -> list[str]:
        return [shown.text for shown in self.of(call)]

    def of(self, call: str) -> list[Shown]:
        return [shown for shown in self.pigeon.shown if shown.call == call]


@asynccontextmanager
async def on_stage(
    able: Capabilities = PRIVATE,
    *,
    pigeon: Pigeon | None = None,
    memory: dict[tuple[str, str], str] | None = None,
    progress: bool = True,
    stream: bool = True,
) -> AsyncIterator[Stage]:
    """Leaving the block is a crash."""
    stage = Stage(pigeon or Pigeon(able), {} if memory is None else memory)
    presence = Presence(
        stage.bus,
        {"pigeon": stage.pigeon},
        stage.target,
        stage.remember,
        stage.recall_all,
        progress=progress,
        stream=stream,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(presence.run)
        await trio.testing.wait_all_tasks_blocked()
        stage.zero = trio.current_time()
        yield stage
        nursery.cancel_scope.cancel()


# -- typing ----------------------------------------------------------------------------------------------------------


async def test_typing_is_shown_at_once_and_until_the_very_end(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(1)
        stage.tool()
        await trio.sleep(300)
        stage.tool_done()
        stage.finish()
        await trio.sleep(60)
        times = stage.times("act")
        assert times[0] == 0.0
        assert times[-1] == pytest.approx(301, abs=4)
        assert {round(later - earlier, 3) for earlier, later in itertools.pairwise(times)} == {4.0}
        assert set(stage.texts("act")) == {"typing"}
        assert stage.asked == [("/ann/pigeon", "ann", "pigeon")]


@pytest.mark.parametrize("ending", ["finished", "stopped", "waiting", "retry", "parked", "died", "forgotten"])
async def test_typing_ends_however_the_turn_ends(ending: str, autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(6)
        match ending:
            case "finished":
                stage.finish()
            case "stopped":
                stage.finish("", stopped=True)
            case "waiting":
                stage.wait()
            case "retry":
                stage.fail(retry_in_s=4.0)
            case "parked":
                stage.fail()
            case "died":
                stage.publish(AgentDied(at_ms=1, path="/ann/pigeon", user="ann", reason="dismissed"))
        await trio.sleep(2 * TURN_DEADLINE_S)
        assert stage.times("act")[:2] == [0.0, 4.0]
        last = stage.times("act")[-1]
        assert last <= TURN_DEADLINE_S if ending == "forgotten" else last == 4.0


async def test_a_retried_turn_is_shown_again(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.fail(retry_in_s=100)
        await trio.sleep(100)
        stage.start()
        await trio.sleep(1)
        assert stage.times("act")[-1] == 100.0


async def test_the_end_of_another_turn_ends_nothing(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start(turn=8)
        stage.finish("late answer of a turn that was set aside", turn=7)
        stage.write("something else altogether", turn=7)
        await trio.sleep(10)
        assert stage.times("act") == [0.0, 4.0, 8.0]
        assert not stage.of("draft")


async def test_only_agents_of_pushing_connectors_are_shown(autojump_clock: object) -> None:
    async with on_stage() as stage:
        for path in ("/ann/agent/pigeon", "/ann/pigeon/sub/0", "/ann/direct", "/system/pigeon", "/ann/cron/pigeon", ""):
            stage.start(path=path or "/")
        stage.nowhere.add("bob")
        stage.start(user="bob")
        await trio.sleep(10)
        assert not stage.pigeon.shown
        assert stage.asked == [("/bob/pigeon", "bob", "pigeon")]


async def test_nobody_watches_where_no_connector_pushes() -> None:
    puller = Pigeon(PRIVATE)
    puller.pull = True
    stage = Stage(puller, {})
    presence = Presence(stage.bus, {"pigeon": puller}, stage.target, stage.remember, stage.recall_all)
    with trio.fail_after(1):
        await presence.run()


# -- drafts ----------------------------------------------------------------------------------------------------------


async def test_a_draft_grows_by_the_second_and_always_shows_the_newest(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start(turn=42)
        words = [f"word{n} " for n in range(100)]
        for word in words:
            stage.write(word, turn=42)
            await trio.sleep(0.07)
        stage.finish("".join(words), turn=42)
        stage.sent()
        await trio.sleep(60)
        drafts = stage.of("draft")
        assert stage.times("draft") == pytest.approx([0.21, 1.21, 2.21, 3.21, 4.21, 5.21, 6.21], abs=0.01)
        assert [draft.text.split()[-1] for draft in drafts] == [
            "word3",
            "word17",
            "word31",
            "word45",
            "word60",
            "word74",
            "word88",
        ]
        assert {draft.number for draft in drafts} == {42}
        assert not stage.of("status"), "nothing has to be withdrawn"


async def test_few_words_are_shown_after_half_a_second_and_once(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(3)
        stage.write(" \n")
        stage.write("Hm.")
        await trio.sleep(20)
        assert (stage.times("draft"), stage.texts("draft")) == ([3.5], ["Hm."])


async def test_a_slow_draft_holds_up_nothing_and_is_never_followed_by_old_ones(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", 7.5)
        stage.start()
        for n in range(100):
            stage.write(f"a longer word {n} ")
            await trio.sleep(0.1)
        assert stage.times("draft") == pytest.approx([0.1, 7.6, 8.6, 9.6], abs=0.11)
        assert stage.texts("draft")[1].endswith(("74", "75", "76"))
        assert stage.times("act") == [0.0, 4.0, 8.0]


async def test_what_is_on_its_way_when_the_turn_ends_is_called_back(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", 9.0)
        stage.pigeon.upset("act", 9.0)
        stage.start()
        stage.write("twenty characters at least")
        await trio.sleep(1)
        stage.finish()
        with trio.fail_after(1):
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(30)
        assert sorted(shown.call for shown in stage.pigeon.shown) == ["act", "draft"]


async def test_words_of_a_failed_try_vanish(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("The capital of Australia is Syd")
        await trio.sleep(2)
        stage.void()
        await trio.sleep(2)
        stage.write("Canberra")
        await trio.sleep(2)
        assert stage.texts("draft") == ["The capital of Australia is Syd", "…", "Canberra"]


async def test_a_long_text_shows_its_end_and_keeps_code_open(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("Here it is:\n```python\n")
        for n in range(3_000):
            stage.write(f"line_{n} = {n}\n")
            await trio.sleep(0.01)
        await trio.sleep(2)
        last = stage.texts("draft")[-1]
        assert last.startswith("…\n\n```\nline_")
        assert last.endswith("line_2999 = 2999")
        assert max(map(len, stage.texts("draft"))) <= PREVIEW_MAX_CHARS + 10


async def test_nothing_is_streamed_where_that_is_switched_off(autojump_clock: object) -> None:
    async with on_stage(stream=False) as stage:
        stage.start()
        stage.write("twenty characters at least")
        stage.tool()
        await trio.sleep(5)
        assert stage.texts("draft") == ["⏳ using weather … 2 s"]
    async with on_stage(progress=False) as stage:
        stage.start()
        stage.write("twenty characters at least")
        stage.tool()
        await trio.sleep(5)
        assert stage.texts("draft") == ["twenty characters at least"]


# -- tools -----------------------------------------------------------------------------------------------------------


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


# -- failing connectors ----------------------------------------------------------------------------------------------


async def test_a_busy_platform_is_left_alone_for_as_long_as_it_says(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", BusyError("FLOOD", "too many", retry_after_s=33.0))
        stage.start()
        stage.start(user="bob")
        for n in range(50):
            stage.write(f"this is the word {n} ")
            stage.write(f"this is the word {n} ", user="bob")
            await trio.sleep(1)
        calls = [shown for shown in stage.pigeon.shown if shown.target == stage.of("draft")[0].target]
        times = [round(shown.at - stage.zero) for shown in calls]
        assert not [at for at in times if 0 < at < 33]
        assert max(times) > 45
        assert len(stage.of("draft")) > 50, "another chat is not concerned"
        stage.finish()
        stage.start(turn=2)
        await trio.sleep(0.1)
        assert stage.times("act")[-1] == 50.0


async def test_a_pause_outlives_the_turn(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("act", BusyError("FLOOD", "too many", retry_after_s=60.0))
        stage.start()
        await trio.sleep(1)
        stage.finish()
        stage.start(turn=2)
        await trio.sleep(70)
        assert stage.times("act")[:2] == [0.0, 60.0]


async def test_a_platform_that_is_away_is_tried_again(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", *[AwayError("AWAY", "away") for _ in range(5)])
        stage.pigeon.upset("act", *[UnavailableError("CUT", "cut") for _ in range(5)])
        stage.start()
        stage.write("twenty characters at least")
        await trio.sleep(120)
        assert len(stage.of("draft")) == 6
        assert max(stage.times("act")) > 110


async def test_a_refusal_ends_what_was_refused(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", ForbiddenError("NO_DRAFTS", "no"))
        stage.start()
        for n in range(59):
            stage.write(f"this is the word {n} ")
            await trio.sleep(1)
        assert len(stage.of("draft")) == 1
        assert len(stage.of("act")) == 15


async def test_a_message_that_may_have_been_sent_is_not_sent_again(autojump_clock: object) -> None:
    async with on_stage(QUIET) as stage:
        stage.pigeon.upset("status", BusyError("FLOOD", "no", retry_after_s=9.0), Pigeon.LOST)
        stage.start()
        stage.tool()
        await trio.sleep(200)
        assert stage.times("status") == [2.0, 11.0]
        stage.finish("")
        await trio.sleep(60)
        assert {shown.call for shown in stage.pigeon.shown} == {"status"}


@pytest.mark.parametrize("what", ["act", "draft", "status", "edit", "withdraw"])
async def test_a_crashing_plugin_is_in_the_log_once_and_disturbs_nobody(
    what: str, autojump_clock: object, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    pigeon = Pigeon(GROUP)
    pigeon.able["chat:ann"] = PRIVATE
    pigeon.upset(what, *[ZeroDivisionError("in the plugin") for _ in range(1_000)])
    async with on_stage(pigeon=pigeon) as stage:
        for turn in range(3):
            for user in ("ann", "bob"):
                stage.start(turn, user)
                stage.tool(turn=turn, user=user)
            await trio.sleep(8)
            for user in ("ann", "bob"):
                stage.write("and so on and so on", turn=turn, user=user)
            await trio.sleep(8)
            for user in ("ann", "bob"):
                stage.finish("", turn=turn, user=user)
        await trio.sleep(60)
    told = capsys.readouterr()
    assert (told.out + told.err + caplog.text).count("presence.crashed") == 1
    healthy = {"act": "draft", "draft": "status", "status": "draft", "edit": "draft", "withdraw": "draft"}[what]
    assert len(stage.of(healthy)) >= 3


async def test_capabilities_and_targets_may_crash_as_well(autojump_clock: object) -> None:
    class Broken(Pigeon):
        def capabilities(self, target: str) -> Capabilities:
            raise KeyError(target)

    async with on_stage(pigeon=Broken()) as stage:
        stage.start()
        await trio.sleep(5)
        assert not stage.pigeon.shown


async def test_answers_that_nobody_expects_disturb_nobody(autojump_clock: object) -> None:
    class Odd(Pigeon):
        async def act(self, target: str, action: str) -> None:
            raise BusyError("FLOOD", "flood", retry_after_s="soon")  # type: ignore[arg-type]

        async def draft(self, target: str, number: int, text: str) -> None:
            await super().draft(target, number, text)
            return True  # type: ignore[return-value]

        async def status(self, target: str, text: str) -> str:
            await super().status(target, text)
            return None  # type: ignore[return-value]

    pigeon = Odd(QUIET)
    pigeon.able["chat:ann"] = Capabilities(drafts=True)
    pigeon.able["chat:eve"] = Capabilities(typing_s=5.0)
    async with on_stage(pigeon=pigeon) as stage:
        for user in ("ann", "bob", "eve"):
            stage.start(user=user)
        for n in range(10):
            stage.write(f"and so on and so on {n} ")
            stage.write(f"and so on and so on {n} ", user="bob")
            await trio.sleep(1)
        assert len(stage.of("draft")) == 10
        assert len(stage.of("status")) == 1


async def test_a_silent_connector_has_a_deadline(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("act", Pigeon.LOST)
        stage.pigeon.upset("draft", Pigeon.LOST)
        stage.start()
        stage.write("twenty characters at least")
        await trio.sleep(PRESENCE_CALL_S + 6)
        assert stage.times("act") == pytest.approx([0.0, PRESENCE_CALL_S + 5], abs=0.1)
        assert stage.times("draft") == pytest.approx([0.0, PRESENCE_CALL_S + 5], abs=0.1)


# -- left over -------------------------------------------------------------------------------------------------------


async def test_what_a_crash_left_is_withdrawn_at_the_next_start(autojump_clock: object) -> None:
    memory: dict[tuple[str, str], str] = {}
    pigeon = Pigeon(GROUP)
    async with on_stage(pigeon=pigeon, memory=memory) as stage:
        for user in ("ann", "bob", "eve"):
            stage.start(user=user)
            stage.tool(user=user)
        await trio.sleep(5)
    assert len(pigeon.standing) == len(memory) == 3
    pigeon.upset("withdraw", AwayError("AWAY", "not yet"))
    async with on_stage(pigeon=pigeon, memory=memory):
        await trio.sleep(10)
        assert not pigeon.standing and not memory
        assert {shown.target for shown in pigeon.shown if shown.call == "withdraw"} == {
            "chat:ann",
            "chat:bob",
            "chat:eve",
        }


@pytest.mark.parametrize(
    ("trouble", "tries", "kept"),
    [
        (AwayError("AWAY", "away"), WITHDRAW_TRIES_MAX, 1),
        (BusyError("FLOOD", "flood", retry_after_s=10_000.0), WITHDRAW_TRIES_MAX, 1),
        (ForbiddenError("TOO_OLD", "too old"), 1, 0),
    ],
)
async def test_a_message_that_cannot_be_withdrawn_is_kept_for_later_if_that_may_help(
    trouble: DaycareError, tries: int, kept: int, autojump_clock: object
) -> None:
    memory: dict[tuple[str, str], str] = {}
    async with on_stage(GROUP, memory=memory) as stage:
        stage.pigeon.upset("withdraw", *[trouble] * 100)
        stage.start()
        stage.tool()
        await trio.sleep(5)
        stage.finish("")
        await trio.sleep(1_000)
        assert (len(stage.of("withdraw")), len(memory)) == (tries, kept)


async def test_a_memory_that_fails_disturbs_nobody(autojump_clock: object) -> None:
    class Forgetful(dict[tuple[str, str], str]):
        def __setitem__(self, key: tuple[str, str], value: str) -> None:
            raise UnavailableError("DISK_FULL", "no")

    async with on_stage(GROUP, memory=Forgetful()) as stage:
        stage.start()
        stage.tool()
        await trio.sleep(5)
        assert stage.pigeon.standing
        stage.finish("")
        await trio.sleep(5)
        assert not stage.pigeon.standing


# -- load ------------------------------------------------------------------------------------------------------------


async def test_a_hundred_streams_of_a_hundred_pieces_a_second_lose_no_event(autojump_clock: object) -> None:
    async with on_stage() as stage:

        async def stream(user: str) -> None:
            stage.start(user=user)
            for n in range(300):
                await trio.sleep(0.01)
                stage.write(f"{n} ", user=user)
            stage.finish(user=user)

        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(stream, f"user{n}")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.bus.dropped == 0
        assert len(stage.of("draft")) == 300, "three seconds of a hundred chats"
        assert len(stage.of("act")) == 100


async def test_no_event_is_lost_while_everybody_is_busy(autojump_clock: object) -> None:
    async with on_stage() as stage:

        async def stream(user: str) -> None:
            stage.start(user=user)
            for n in range(300):
                await trio.lowlevel.checkpoint()
                stage.write(f"{n} ", user=user)

        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(stream, f"user{n}")
        await trio.sleep(2)
        assert stage.bus.dropped == 0
        assert {text.split()[-1] for text in stage.texts("draft")[-100:]} == {"299"}


async def test_more_turns_than_the_bound_are_simply_not_shown(autojump_clock: object) -> None:
    async with on_stage() as stage:
        total = PRESENCE_TURNS_MAX + 50
        for n in range(total):
            stage.start(user=f"user{n}")
        await trio.sleep(1)
        assert len(stage.of("act")) == PRESENCE_TURNS_MAX
        for n in range(total):
            stage.finish(user=f"user{n}")
        await trio.sleep(1)
        stage.start(user=f"user{total - 1}")
        await trio.sleep(1)
        assert len(stage.of("act")) == PRESENCE_TURNS_MAX + 1


async def test_an_observer_that_was_too_slow_forgets_all_and_goes_on(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        stage.tool()
        await trio.sleep(5)
        for n in range(EVENTS_RING + 10):
            stage.publish(Notice(at_ms=n, text="x"))
        await trio.sleep(30)
        assert stage.bus.dropped == 10
        assert not stage.pigeon.standing
        assert max(stage.times("act")) < 5
        stage.start(turn=2)
        await trio.sleep(1)
        assert stage.times("act")[-1] == 35.0


async def test_the_end_of_the_bus_ends_it_within_seconds(autojump_clock: object) -> None:
    stage = Stage(Pigeon(GROUP), {})
    presence = Presence(stage.bus, {"pigeon": stage.pigeon}, stage.target, stage.remember, stage.recall_all)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(presence.run)
        await trio.testing.wait_all_tasks_blocked()
        stage.start()
        stage.tool()
        await trio.sleep(5)
        stage.pigeon.upset("withdraw", Pigeon.LOST)
        stage.bus.close()
        with trio.fail_after(PRESENCE_CALL_S + 1):
            while nursery.child_tasks:
                await trio.sleep(0.5)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_left_in_any_chat_whatever_happens(seed: int, autojump_clock: object) -> None:
    chance = random.Random(seed)
    pigeon = Pigeon(GROUP)
    pigeon.able = {"chat:ann": PRIVATE, "chat:eve": QUIET}
    for what in ("act", "draft", "status", "edit", "withdraw"):
        troubles: list[float | BaseException] = []
        for _ in range(200):
            busy = BusyError("FLOOD", "flood", retry_after_s=chance.choice((None, 1.0, 20.0)))
            away = AwayError("AWAY", "away")
            troubles.append(chance.choice((0.0, 0.0, 0.1, 3.0, busy, away)))
        pigeon.upset(what, *troubles)
    async with on_stage(pigeon=pigeon) as stage:
        turns = {"ann": 0, "bob": 0, "eve": 0}
        for _ in range(400):
            user = chance.choice(("ann", "bob", "eve"))
            turn = turns[user]
            match chance.randrange(10):
                case 0:
                    turns[user] += 1
                    stage.start(turns[user], user)
                case 1 | 2 | 3:
                    stage.write("some more words ", turn, user)
                case 4:
                    stage.tool(chance.randrange(3), turn=turn, user=user)
                case 5:
                    stage.tool_done(chance.randrange(3), turn, user)
                case 6:
                    stage.progress(f"{chance.random()}", chance.randrange(3), turn, user)
                case 7:
                    stage.void(turn, user)
                case 8:
                    stage.finish(chance.choice(("", "an answer")), turn, user)
                case 9:
                    stage.sent(user)
            await trio.sleep(chance.choice((0.0, 0.1, 1.0, 4.0)))
        for user, turn in turns.items():
            stage.finish("", turn, user)
        await trio.sleep(300)
        after = trio.current_time()
        for _ in range(4):  # what could not be withdrawn goes at a next start
            async with on_stage(pigeon=pigeon, memory=stage.memory):
                await trio.sleep(300)
        assert not pigeon.standing and not stage.memory
        assert {shown.call for shown in pigeon.shown if shown.at > after} <= {"withdraw"}
        assert {shown.call for shown in pigeon.shown if shown.target == "chat:ann"} <= {"act", "draft"}


# -- a whole house ---------------------------------------------------------------------------------------------------


class Ponder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take half a minute."""


async def _ponder(context: ToolContext, arguments: Ponder) -> str:
    await trio.sleep(20)
    context.progress("nearly done")
    await trio.sleep(9)
    return "pondered"


async def test_in_a_house_a_turn_is_seen_from_its_first_moment_to_its_reply(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = Pigeon(GROUP)
    model = Scripted()
    model.enqueue(2.0, call(("ponder", {}), text="I wait."), 3.0, say("I have waited."))
    tools = Plugin(name="pondering", tools=(StructTool("ponder", Ponder, _ponder, idempotent=True),))
    async with open_house(tmp_path, model, plugins=[pigeon.plugin(), tools]) as house:
        await house.store.people.link("pigeon:7", "ann")
        receipt = await house.daemon.flow.accept(
            Inbound(connector="pigeon", sender="pigeon:7", key="p1", text="wait a little")
        )
        assert await house.hear(receipt) == "I have waited."
        await trio.sleep(30)
        assert {shown.target for shown in pigeon.shown} == {"7"}
        assert [shown.text for shown in pigeon.shown if shown.call in ("status", "edit")][:4] == [
            "I wait.\n\n⏳ using ponder … 2 s",
            "I wait.\n\n⏳ using ponder … 12 s",
            "I wait.\n\n⏳ using ponder … 20 s · `nearly done`",
            "I wait.\n\n✓ 1 tool done",
        ]
        assert [flight.text for flight in pigeon.arrived] == ["I have waited."]
        assert not pigeon.standing
        assert await house.store.intake.recall_all("pigeon", "status:") == {}
