"""Waiting for an answer: a deadline and an end for every waiter."""

from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.connector import DIRECT
from daycare.base.errors import BusyError, ConflictError, NotFoundError, UnavailableError
from daycare.base.limits import ATTEMPTS_MAX, INBOX_MAX_MESSAGES
from daycare.base.messages import Envelope, Origin
from daycare.base.path import FetchPolicy, Kind
from daycare.plugin import Completion, Inbound, InferRequest
from daycare.store.records import Receipt, User
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.actors.helpers import tools

A, B = "/ann/agent/a", "/ann/agent/b"


def _question(to: str, *, key: str = "q", chain: tuple[str, ...] = (), agent_id: str | None = None) -> Envelope:
    return Envelope(
        to=to,
        user=OWNER,
        origin=Origin.AGENT,
        sender=A,
        key=key,
        text="why?",
        trace="t",
        chain=chain,
        agent_id=agent_id,
    )


async def _two(house: TestDaemon) -> None:
    await house.agent(A)
    await house.agent(B)


async def _asked(house: TestDaemon, question: Envelope, deadline_s: float = 300.0) -> str:
    receipt = await house.daemon.router.post(question)
    return (await house.daemon.router.wait(receipt, deadline_s)).result or ""


async def test_ask_returns_the_answer(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await _two(house)
        assert (await _asked(house, _question(B))).endswith("why?")
        assert house.daemon.router.unheard == 0


async def test_an_ask_repeated_with_its_key_gets_the_first_answer(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(say("because"), say("never mind"))
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        assert [await _asked(house, _question(B)) for _ in range(2)] == ["because", "because"]
        assert len(model.history) == 1


async def test_agents_that_ask_each_other_from_their_turns_do_not_deadlock(
    tmp_path: Path, autojump_clock: object
) -> None:
    """A asks B, whose turn asks A: B is told at once, and A gets its answer."""

    def brain(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "tool":
            return say(f"it said: {last.parts[0].text}")  # type: ignore[union-attr]
        asked_by_b = "back?" in last.text
        return call(
            (
                "ask",
                {
                    "to": A if f"Your address is {B}." in request.system else B,
                    "text": "back?" if not asked_by_b else "again?",
                },
            )
        )

    async with open_daemon(tmp_path, Scripted(brain), plugins=[tools]) as house:
        await _two(house)
        answer = await house.talk("go", path=A)
        assert trio.current_time() < 5, "nobody waited for a deadline"
        assert "it waits for this answer itself" in answer


async def test_an_ask_has_a_deadline_and_its_late_answer_is_counted(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(50.0)
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        with pytest.raises(UnavailableError) as caught:
            await _asked(house, _question(B), 10.0)
        assert caught.value.code == "ANSWER_LATE" and trio.current_time() == pytest.approx(10.0)
        assert house.daemon.router.unheard == 0
        await trio.sleep(60)
        assert house.daemon.router.unheard == 1
        assert (await _asked(house, _question(B))).endswith("why?"), "a repeat still gets it"


async def test_an_asker_that_went_away_is_counted_too(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(50.0)
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        with trio.move_on_after(5):
            await _asked(house, _question(B))
        await trio.sleep(60)
        assert house.daemon.router.unheard == 1
        assert house.daemon.router._waiters == {}


async def test_one_who_comes_back_for_the_answer_has_heard_it(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(50.0)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        with pytest.raises(UnavailableError):
            await house.hear(receipt, 10)
        assert await house.hear(receipt, 100) == "echo: hello"
        assert house.daemon.router.unheard == 0


async def test_asking_a_dead_agent_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await _two(house)
        b = await house.daemon.directory.at(B)
        await house.store.agents.set_state(b.id, "dead", "gone")
        with pytest.raises(NotFoundError) as caught:
            await _asked(house, _question(B))
        assert caught.value.code == "AGENT_UNKNOWN"
        await house.agent(B)
        with pytest.raises(NotFoundError) as caught:
            await _asked(house, _question(B, agent_id=b.id))
        assert caught.value.code == "AGENT_DEAD", "the next incarnation is somebody else"


async def test_one_who_asked_an_agent_that_dies_is_told(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(500.0)
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        b = await house.daemon.directory.at(B)

        async def kill() -> None:
            await trio.sleep(10)
            await house.store.agents.set_state(b.id, "dead", "gone")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill)
            with pytest.raises(ConflictError) as caught:
                await _asked(house, _question(B))
            assert caught.value.code == "MESSAGE_DEAD" and "gone" in caught.value.message
        assert trio.current_time() < 11


async def test_one_who_asked_for_what_is_given_up_is_told(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[BusyError("REQUEST_REFUSED", "the model refuses the request")] * ATTEMPTS_MAX)
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        with pytest.raises(ConflictError, match="the model refuses"):
            await _asked(house, _question(B))


async def test_a_turn_survives_the_death_of_its_agent(tmp_path: Path, autojump_clock: object) -> None:
    """The agent is buried by another hand while its turn runs: the lane ends, nothing else does."""
    model = Scripted()
    model.enqueue(20.0)
    async with open_daemon(tmp_path, model) as house:
        await _two(house)
        await house.post(B, "think", sender=A, key="k")
        await trio.sleep(5)
        b = await house.daemon.directory.at(B)
        await house.store.agents.set_state(b.id, "dead", "gone")
        await trio.sleep(60)
        assert b.id not in house.daemon.supervisor.awake
        assert await house.talk("hello") == "echo: hello"


async def test_posting_to_the_most_recent_foreground_agent(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        envelope = _question("/ann/direct")
        assert await house.daemon.router.post_to_user_agents(FetchPolicy.MOST_RECENT_FOREGROUND, envelope) == []
        await _two(house)
        await house.talk("hello")
        await house.talk("hello", path=A)
        [(_, receipt)] = await house.daemon.router.post_to_user_agents(FetchPolicy.MOST_RECENT_FOREGROUND, envelope)
        assert isinstance(receipt, Receipt)
        assert receipt.agent_id == (await house.daemon.directory.at("/ann/direct")).id
        [(_, again)] = await house.daemon.router.post_to_user_agents(FetchPolicy.MOST_RECENT_FOREGROUND, envelope)
        assert isinstance(again, Receipt) and again.duplicate and again.seq == receipt.seq
        assert house.events("message.accepted")[-1]["duplicate"] is True


async def test_what_a_person_says_to_all_reaches_whom_they_talk_with_and_nobody_elses(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, Scripted(echo)) as house:
        await _two(house)
        await house.talk("hello")
        direct = await house.daemon.directory.at("/ann/direct")
        await house.daemon.directory.spawn(direct, Kind.SUB, origin=Origin.AGENT)
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        await house.talk("hi", user="bob")
        posted = await house.daemon.intake.accept_all(_said_to_all())
        receipts = [receipt for _, receipt in posted if isinstance(receipt, Receipt)]
        assert {receipt.path for receipt in receipts} == {A, B, "/ann/direct"}
        assert len(receipts) == len(posted) and len({receipt.trace for receipt in receipts}) == 1
        for receipt in receipts:
            assert (await house.daemon.router.wait(receipt, 300.0)).result == "echo: I am away"
        again = await house.daemon.intake.accept_all(_said_to_all())
        repeats = {(it.seq, it.duplicate) for _, it in again if isinstance(it, Receipt)}
        assert repeats == {(receipt.seq, True) for receipt in receipts}


async def test_an_agent_that_is_full_keeps_a_message_to_all_from_itself_alone(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await _two(house)
        rows = [(replace(_question(A), key=str(n)), None) for n in range(INBOX_MAX_MESSAGES)]
        await house.store.inbox.post_all(rows)
        posted = {envelope.to: it for envelope, it in await house.daemon.intake.accept_all(_said_to_all())}
        full = posted[A]
        assert isinstance(full, BusyError) and full.code == "INBOX_FULL"
        assert isinstance(posted[B], Receipt)
        again = {envelope.to: it for envelope, it in await house.daemon.intake.accept_all(_said_to_all())}
        assert isinstance(again[A], BusyError) and getattr(again[B], "duplicate", False)


async def test_a_message_to_too_many_agents_reaches_none(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.actors.router._ALL_MAX_AGENTS", 1)
    async with open_daemon(tmp_path) as house:
        await _two(house)
        with pytest.raises(ConflictError, match="there are 2, more than 1") as refused:
            await house.daemon.intake.accept_all(_said_to_all())
        assert refused.value.code == "AGENTS_MANY" and house.events("message.accepted") == []


def _said_to_all() -> Inbound:
    return Inbound(connector=DIRECT, sender=f"{DIRECT}:{OWNER}", key="all", text="I am away")
