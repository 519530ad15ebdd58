"""A real daemon is killed at each step from a proposal to the word that it is done, and the person just goes on.

The daemon, the model's server and Telegram talk over real sockets. Each of these dies of SIGKILL at one named moment,
is started again in the same home, and the person on the phone presses again if they see that nothing has happened.
"""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from daycare.base.documents import digest
from daycare.testing.openai_server import FakeOpenAI
from daycare_plugins.telegram.testing.server import FakeMessage, FakeTelegram
from tests import program
from tests.chance import SEED, sliced
from tests.telegram.campaign import approve, papers
from tests.telegram.campaign.killer import Asked, Call, Commit, Killer, Point
from tests.telegram.campaign.phone import Deed, Phone, Plan
from tests.telegram.campaign.proposer import REASON, TOLD, Proposer
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import Stage, rooms_of, staged
from tests.telegram.campaign.warm import Kennel

PEOPLE: Final = 4  # in the home
RACES_MAX: Final = 8  # of each person, until either decider has won once
DIES_S: Final = 40.0
QUIET_S: Final = 60.0


def step(when: str, plan: Plan, point: Point, *states: str) -> Any:
    """`states`: what may be found after the kill."""
    return pytest.param(plan, point, states, id=when.replace(" ", "-"))


before, after = partial(Commit, "before"), partial(Commit, "after")
TAKEN_AWAY: Final = (Call("arrived", "editMessageText", "Decided"), before(approve.SETTLED))
STEPS: Final = (
    # proposed and shown
    step("what was said is not kept yet", "approve", before(approve.HEARD), "nothing"),
    step("what was said is kept", "approve", after(approve.HEARD), "nothing"),
    step("the model is asked", "approve", Asked("please remember"), "nothing"),
    step("the request is not made yet", "approve", before(approve.REQUESTED), "nothing"),
    step("the request is made", "approve", after(approve.REQUESTED), "pending"),
    step("the request is on its way to the phone", "approve", Call("arrived", words="Request 1:"), "pending"),
    step("the request is on the phone", "approve", Call("executed", words="Request 1:"), "pending"),
    step("that it is on the phone is not kept yet", "approve", before(approve.SHOWN), "pending"),
    step("that it is on the phone is kept", "approve", after(approve.SHOWN), "pending"),
    step("the turn that proposes is not over yet", "approve", before(approve.TURN_OVER), "pending"),
    step("the turn that proposes is over", "approve", after(approve.TURN_OVER), "pending"),
    # decided and carried out
    step("the press is not kept yet", "approve", before(approve.PRESSED), "pending"),
    step("the press is kept", "approve", after(approve.PRESSED), "pending"),
    step("the press is acknowledged", "approve", Call("arrived", "answerCallbackQuery"), "pending", "approved"),
    step("the decision is not made yet", "approve", before(approve.DECIDED), "pending"),
    step("the decision is made and carried out", "approve", after(approve.DECIDED), "approved"),
    step("the answer to the press is kept", "approve", after(approve.ANSWERED), "approved"),
    step("the answer to the press is on the phone", "approve", Call("executed", words="Approved"), "approved"),
    # followed up
    step("the follow-up turn has begun", "approve", after(approve.FOLLOW_UP_BEGUN), "approved"),
    step("the model is told", "approve", Asked("was approved"), "approved"),
    step("the follow-up turn is not over yet", "approve", before(approve.FOLLOWED_UP), "approved"),
    step("the follow-up turn is over", "approve", after(approve.FOLLOWED_UP), "approved"),
    step("the follow-up is on its way to the phone", "approve", Call("arrived", words=TOLD), "approved"),
    step("the follow-up is on the phone", "approve", Call("executed", words=TOLD), "approved"),
    step("that the follow-up is on the phone is not kept yet", "approve", before(approve.DELIVERED), "approved"),
    step("that the follow-up is on the phone is kept", "approve", after(approve.DELIVERED), "approved"),
    step("the buttons are being taken away", "approve", TAKEN_AWAY[0], "approved"),
    step("that the buttons are gone is not kept yet", "approve", TAKEN_AWAY[1], "approved"),
    # decided otherwise
    step("an edit is not made yet", "edit", before(approve.REVISED), "pending"),
    step("an edit is made", "edit", after(approve.REVISED), "pending"),
    step("an edit is on the phone", "edit", Call("executed", words="The text is by"), "pending"),
    step("the decision on an edit is not made yet", "edit", before(approve.DECIDED), "pending"),
    step("the decision on an edit is made and carried out", "edit", after(approve.DECIDED), "edited"),
    step("a rejection is not made yet", "reject", before(approve.DECIDED), "pending"),
    step("a rejection is made", "reject", after(approve.DECIDED), "rejected"),
    step("the model is told of a rejection", "reject", Asked("was rejected"), "rejected"),
    step("an undo is not made yet", "undo", before(approve.UNDONE), "approved"),
    step("an undo is made", "undo", after(approve.UNDONE), "undone"),
    step("an undo is in the conversation", "undo", after(approve.NOTED), "undone"),
    step("of two decisions none is made yet", "race", before(approve.DECIDED), "pending"),
    step("of two decisions one is made", "race", after(approve.DECIDED), "approved", "rejected"),
    step("a request on a changed document is not renewed yet", "stale", before(approve.REVISED), "pending"),
    step("a request on a changed document is renewed", "stale", after(approve.REVISED), "pending"),
)


@pytest.fixture(scope="module")
def kennel() -> Iterator[Kennel]:
    """Where daemons come from. None of this is about Telegram's pace."""
    with Kennel(pace=False) as kennel:
        yield kennel


@pytest.fixture(scope="module")
def household(tmp_path_factory: pytest.TempPathFactory, kennel: Kennel) -> Path:
    """A home at rest, in which the bot's token is kept and its people are known."""
    folder = tmp_path_factory.mktemp("household")

    async def furnish() -> None:
        async with staged(Report("approve", SEED), poll_s=1) as stage:
            stage.starter = kennel.start
            await stage.introduce(rooms_of(stage.server, PEOPLE))
            assert stage.process is not None
            await stage.process.stop()
            shutil.copytree(stage.home.path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))

    trio.run(furnish)
    return folder


Opened = Callable[[Report], Any]


@pytest.fixture
def opened(household: Path, kennel: Kennel) -> Opened:
    """Opens a stage in a copy of the home, with a killer on it; nothing runs yet."""

    @asynccontextmanager
    async def opens(report: Report) -> AsyncGenerator[tuple[Stage, Killer], None]:
        print(f"SEED={SEED}")
        proposer = Proposer()
        async with FakeOpenAI.serve(reply=proposer) as models, staged(report, poll_s=1, models=models) as stage:
            stage.furnish(household, rooms_of(stage.server, PEOPLE))
            stage.starter = kennel.start
            killer = Killer(stage)
            proposer.on_asked.append(killer.asked)
            yield stage, killer

    return opens


async def judged(stage: Stage, phones: Sequence[Phone], report: Report) -> papers.Papers:
    """Assert that no promise is broken once all is quiet; return what the store says."""
    deeds = [deed for phone in phones for deed in phone.deeds]
    await stage.quiet(QUIET_S)
    with stage.store() as db:
        found = papers.read(db)
        papers.left_over(db, report)
    papers.judge(found, deeds, stage.server, report)
    assert not report.findings
    return found


@pytest.mark.parametrize(("plan", "point", "states"), sliced(STEPS, 8))
async def test_killed_when(opened: Opened, plan: Plan, point: Point, states: tuple[str, ...]) -> None:
    """Killed there it is pending or carried out, never half; and with a new daemon it comes to its end, once."""
    report = Report("approve", SEED, papers.KINDS)
    async with opened(report) as (stage, killer):
        phone = Phone(stage, stage.rooms[0], random.Random(SEED))
        async with trio.open_nursery() as nursery:
            process = killer.start(point)
            nursery.start_soon(phone.do, plan)
            assert await process.died(DIES_S), "it comes to this point"
            with stage.store() as db:
                found = papers.read(db)
            assert list(papers.of_one_mind(found)) == []
            assert found.standing(phone.deeds[0].name) in states
            phone.lose_patience()
            killer.start(None)
        if point in TAKEN_AWAY:
            await approve.at_rest(stage, phone.deeds)
        await judged(stage, [phone], report)
        assert phone.deeds[0].ended


async def test_the_phone_shows_the_change_with_its_reason_and_what_is_suspicious(opened: Opened) -> None:
    report = Report("approve", SEED, papers.KINDS)
    async with opened(report) as (stage, killer):
        phones = [Phone(stage, room, random.Random(SEED)) for room in stage.rooms[:2]]
        killer.start(None)
        async with trio.open_nursery() as nursery:
            for phone in phones:
                nursery.start_soon(phone.do, "approve")
        await judged(stage, phones, report)
        plain, flagged = [stage.server.sent(phone.deeds[0].room.id)[0].text for phone in phones]
    assert "/c0/telegram wants to add to MEMORY.md" in plain and f"Why: {REASON}" in plain
    assert "\n+ - p0-1 likes tea\n" in plain and "⚠" not in plain
    assert "\n+ - p1-1 gets mail as p1-1@example.org\n" in flagged
    assert "⚠ warning: " in flagged and '"p1-1@example.org"' in flagged


async def test_a_phone_and_the_api_race_and_who_loses_is_told(opened: Opened) -> None:
    report = Report("approve", SEED, papers.KINDS)
    async with opened(report) as (stage, killer):
        phones = [Phone(stage, room, random.Random(SEED + room.number)) for room in stage.rooms]
        killer.start(None)
        winners: set[str] = set()
        for number in range(RACES_MAX):
            async with trio.open_nursery() as nursery:
                for phone in phones:
                    phone.race_s = 0.03 * 2**number  # who is quicker depends on the machine
                    nursery.start_soon(phone.do, "race")
            found = await judged(stage, phones, report)
            winners |= {it.decided_by.partition(":")[0] for it in found.requests.values()}
            if len(winners) == 2:
                return
    raise AssertionError(f"only {winners} ever won")


class AtTerminal(Phone):
    """A person who also has a terminal."""

    race_s = 0.3  # as long as it takes until the command has come to the point

    async def decide_elsewhere(self, deed: Deed, verdict: str) -> str:
        options = [*(["--yes"] if verdict == "approve" else []), "--user", deed.user, "--json"]
        command = ["--home", str(self.stage.home.path), "approvals", verdict, str(deed.no), *options]
        done = await trio.to_thread.run_sync(partial(program.call, command, env=os.environ, deadline_s=DIES_S))
        if done.returncode:
            return str(json.loads(done.stderr)["error"]["code"])
        return str(json.loads(done.stdout)["state"])


async def test_a_phone_and_a_terminal_race_and_who_loses_is_told(opened: Opened) -> None:
    report = Report("approve", SEED, papers.KINDS)
    async with opened(report) as (stage, killer):
        phones = [AtTerminal(stage, room, random.Random(SEED + room.number)) for room in stage.rooms[1:]]
        killer.start(None)
        program.call(["--version"], env=os.environ, deadline_s=DIES_S)  # all is imported when the race begins
        async with trio.open_nursery() as nursery:
            for phone in phones:
                nursery.start_soon(phone.do, "race")
        await judged(stage, phones, report)
        assert all(phone.deeds[0].terminal for phone in phones)


async def test_a_document_that_was_changed_meanwhile_is_shown_again_and_nothing_is_overwritten(opened: Opened) -> None:
    report = Report("approve", SEED, papers.KINDS)
    async with opened(report) as (stage, killer):
        phone = Phone(stage, stage.rooms[0], random.Random(SEED))
        killer.start(None)
        deed = await phone.do("stale")
        found = await judged(stage, [phone], report)
        assert deed.shown_again and deed.presses == 2
        again = phone.said("MEMORY.md was changed meanwhile, and nothing was written")
        assert again is not None and f"  {deed.by_others}\n+ - p0-1 likes tea\n" in again.text
        [it] = found.requests.values()
        *_, changed, newest = [version.text or "" for version in found.documents[it.place]]
        assert deed.by_others in changed and newest == f"{changed}- p0-1 likes tea\n"


# == the judge ========================================================================================================

PLACE: Final = ("agent", "a1", "MEMORY.md")
FACT: Final = "- p0-1 likes tea\n"


def told() -> papers.Papers:
    """A request that was approved and carried out, and followed up."""
    versions, before = [], ""
    for number, text in enumerate(("# Memory\n", f"# Memory\n{FACT}"), 1):
        author, approver = ("system", "") if number == 1 else ("/c0/telegram", "telegram:1000")
        versions.append(papers.Version(number, author, approver, digest(text), before, text))
        before = digest(text)
    return papers.Papers(
        requests={1: papers.Request(1, "/c0/telegram", "approved", "telegram:1000", "", 2, None, PLACE, FACT)},
        documents={PLACE: versions},
        heard={("/c0/telegram", 1): ["Request 1 (append MEMORY.md) was approved and carried out."]},
        posted=Counter({"approval:1": 1}),
    )


def findings(found: papers.Papers, *texts: str) -> set[str]:
    """Return the kinds of what is wrong when a phone shows these messages, the last of which has a receipt."""
    server = FakeTelegram()
    [room] = rooms_of(server, 1)
    for text in texts:
        chat = server.chat_of(room.place)
        wire = server.skeleton(chat, server.me) | {"text": text}
        server.store(chat, FakeMessage(wire=wire, chat_id=room.id, by_bot=True, at=0.0))
    found.sent = [("c0", [message.id for message in server.messages(room.id)][-1:] or [1])]
    deed = Deed("p0-1", "approve", room, no=1, verdict="approved", ended=True)
    report = Report("approve", 0, papers.KINDS)
    papers.judge(found, [deed], server, report)
    return {kind for kind, _ in report.findings}


def test_the_judge_is_content_with_what_is_right() -> None:
    assert findings(told(), f"{TOLD} 1 was approved.") == set()
    assert findings(told(), f"{TOLD} 1 was approved.", f"(this may be a duplicate)\n{TOLD} 1 was approved.") == set()


def test_the_judge_sees_half_a_decision() -> None:
    undecided = told()
    undecided.requests[1].state = "pending"
    assert {kind for kind, _ in papers.of_one_mind(undecided)} == {"broken", "follow_ups_missing"}
    unwritten = told()
    del unwritten.documents[PLACE][1:]
    assert "broken" in findings(unwritten, f"{TOLD} 1 was approved.")
    untold = told()
    untold.posted.clear()
    assert {kind for kind, _ in papers.of_one_mind(untold)} == {"follow_ups_missing"}


def test_the_judge_sees_what_was_written_twice_or_over_something() -> None:
    twice = told()
    text = f"# Memory\n{FACT}{FACT}"
    newest = twice.documents[PLACE][-1]
    twice.documents[PLACE].append(papers.Version(3, newest.author, newest.approver, digest(text), newest.hash, text))
    assert "applied_twice" in findings(twice, f"{TOLD} 1 was approved.")
    over = told()
    over.documents[PLACE][1].base_hash = digest("something else")
    assert findings(over, f"{TOLD} 1 was approved.") == {"history_broken"}


def test_the_judge_sees_what_is_missing_on_the_phone_or_there_twice() -> None:
    assert findings(told()) == {"follow_ups_missing", "lost"}
    assert findings(told(), f"{TOLD} 1 was approved.", f"{TOLD} 1 was approved.") == {"doubled"}
    unheard = told()
    unheard.heard.clear()
    assert findings(unheard, f"{TOLD} 1 was approved.") == {"follow_ups_missing"}
