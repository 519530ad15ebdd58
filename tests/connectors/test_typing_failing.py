"""A connector that fails, hangs or crashes: nobody else is disturbed, and nothing of it stays in a chat."""

import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, BusyError, DaycareError, ForbiddenError, UnavailableError
from daycare.base.limits import PRESENCE_CALL_S
from daycare.connectors.typing_status import WITHDRAW_TRIES_MAX
from daycare.plugin import Capabilities
from daycare.testing.fake_connector import FakeConnector
from tests.connectors.stage import GROUP, PRIVATE, QUIET, on_stage

# -- failing connectors ------------------------------------------------------------------------------------------------


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
        stage.pigeon.upset("status", BusyError("FLOOD", "no", retry_after_s=9.0), FakeConnector.LOST)
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
    pigeon = FakeConnector(GROUP)
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
    class Broken(FakeConnector):
        def capabilities(self, target: str) -> Capabilities:
            raise KeyError(target)

    async with on_stage(pigeon=Broken()) as stage:
        stage.start()
        await trio.sleep(5)
        assert not stage.pigeon.shown


async def test_answers_that_nobody_expects_disturb_nobody(autojump_clock: object) -> None:
    class Odd(FakeConnector):
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
        stage.pigeon.upset("act", FakeConnector.LOST)
        stage.pigeon.upset("draft", FakeConnector.LOST)
        stage.start()
        stage.write("twenty characters at least")
        await trio.sleep(PRESENCE_CALL_S + 6)
        assert stage.times("act") == pytest.approx([0.0, PRESENCE_CALL_S + 5], abs=0.1)
        assert stage.times("draft") == pytest.approx([0.0, PRESENCE_CALL_S + 5], abs=0.1)


# -- left over ---------------------------------------------------------------------------------------------------------


async def test_what_a_crash_left_is_withdrawn_at_the_next_start(autojump_clock: object) -> None:
    memory: dict[tuple[str, str], str] = {}
    pigeon = FakeConnector(GROUP)
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
