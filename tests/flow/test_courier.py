"""Replies on their way out: in order per person, tried again, given up visibly, never marked without need."""

import itertools
from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.agent.sending import DELIVERY_ATTEMPTS_MAX, DELIVERY_DEADLINE_S, DELIVERY_STARTS_MAX
from daycare.base.errors import ForbiddenError, InvalidError, StoreAwayError, UnavailableError
from daycare.base.limits import OUTBOX_MAX_MESSAGES
from daycare.connectors.courier import COURIER_PAGE
from daycare.plugin import Inbound
from daycare.store.records import OutboxRow, Receipt, Reply, User
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts

AWAY = UnavailableError("PIGEON_AWAY", "sending: the pigeon is away")


async def _people(house: TestDaemon, *names: str) -> None:
    for name in names:
        if name == "ann":
            await house.store.people.link("pigeon:ann", "ann")
        else:
            await house.store.people.add(User(id=name, name=name, keys=(f"pigeon:{name}",)))


async def _say(house: TestDaemon, text: str, user: str = "ann", reply_target: str | None = None) -> Receipt:
    house.counter += 1
    return await house.daemon.intake.accept(
        Inbound(
            connector="pigeon",
            sender=f"pigeon:{user}",
            key=f"p{house.counter}",
            text=text,
            reply_target=reply_target,
        )
    )


async def test_a_reply_reaches_the_address_its_question_came_from(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await _say(house, "in the thread", reply_target="ann#7")
        await trio.sleep(1)
        assert [(flight.target, flight.text) for flight in pigeon.arrived] == [
            ("ann", "echo: hello"),
            ("ann#7", "echo: in the thread"),
        ]
        assert not any(flight.maybe_duplicate for flight in pigeon.arrived)
        assert len({flight.key for flight in pigeon.arrived}) == 2
        sent = [await house.store.outbox.get(flight.outbox) for flight in pigeon.arrived]
        assert [(row.state, row.receipt) for row in sent if row] == [("sent", "feather-1"), ("sent", "feather-2")]
        assert [event["outbox"] for event in house.events("reply.sent")] == [1, 2]


async def test_replies_to_one_person_arrive_in_order_though_one_has_to_wait(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(AWAY, AWAY)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        for n in range(5):
            await house.hear(await _say(house, f"m{n}"))
        await trio.sleep(60)
        assert texts(pigeon.arrived) == [f"echo: m{n}" for n in range(5)]
        assert texts(pigeon.flights)[:4] == ["echo: m0"] * 3 + ["echo: m1"], "the first holds the others back"
        assert [pigeon.started_at[n] for n in range(3)] == pytest.approx([0.0, 2.0, 6.0], abs=0.1)


async def test_more_replies_than_a_page_keep_their_order(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(30.0)
    total = COURIER_PAGE * 2 + 5
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        for n in range(total):
            await house.hear(await _say(house, f"m{n}"))
        await trio.sleep(60)
        assert texts(pigeon.arrived) == [f"echo: m{n}" for n in range(total)]


async def test_a_slow_person_holds_up_no_other(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.slow["ann"] = 50.0
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann", "bob")
        await _say(house, "far away")
        await trio.sleep(1)
        await _say(house, "nearby", "bob")
        await trio.sleep(1)
        assert texts(pigeon.arrived) == ["echo: nearby"]
        await trio.sleep(60)
        assert texts(pigeon.arrived) == ["echo: nearby", "echo: far away"]


async def test_a_reply_that_cannot_be_delivered_becomes_a_dead_letter_and_can_be_replayed(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(*[AWAY] * DELIVERY_ATTEMPTS_MAX)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(3_600)
        tries = [at for at, text in zip(pigeon.started_at, texts(pigeon.flights), strict=True) if text == "echo: hello"]
        assert len(tries) == DELIVERY_ATTEMPTS_MAX
        waits = [later - sooner for sooner, later in itertools.pairwise(tries)]
        assert waits == pytest.approx([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], abs=0.1)
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code, letter.attempts) == ("outbox", "PIGEON_AWAY", DELIVERY_ATTEMPTS_MAX)
        assert await house.store.outbox.count() == 0
        await house.hear(await _say(house, "next"))
        await trio.sleep(1)
        [notice, following] = texts(pigeon.arrived)
        assert "could not be delivered: sending: the pigeon is away" in notice, "the person is told when it works again"
        assert following == "echo: next", "and the next reply is not held back"
        await house.store.dead.replay(letter.no)
        await trio.sleep(1)
        assert texts(pigeon.arrived)[2:] == ["echo: hello"]


async def test_a_reply_in_whose_tries_the_daemon_ends_again_and_again_is_given_up(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(AWAY)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(1)
        [row] = await house.store.outbox.waiting("pigeon")
        for _ in range(DELIVERY_STARTS_MAX - 1):
            await house.store.outbox.start(row.seq)
        await trio.sleep(600)
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code, letter.attempts) == ("outbox", "DELIVERY_CUT_SHORT", 17)
        assert texts(pigeon.flights).count("echo: hello") == 1, "it is not sent once more"


@pytest.mark.parametrize("refusal", [InvalidError("TOO_HEAVY", "no"), ForbiddenError("BLOCKED", "no")])
async def test_a_refused_reply_is_not_tried_again(
    tmp_path: Path, autojump_clock: object, refusal: InvalidError | ForbiddenError
) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(refusal)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(600)
        assert texts(pigeon.flights).count("echo: hello") == 1
        assert [letter.code for letter in await house.store.dead.find()] == [refusal.code]


async def test_a_platform_says_how_long_to_wait(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(UnavailableError("FLOOD", "too many", retry_after_s=77.0))
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(100)
        assert pigeon.started_at == pytest.approx([0.0, 77.0], abs=0.1)


async def test_only_what_may_have_arrived_is_marked_on_a_retry(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(UnavailableError("NOT_SENT", "surely not sent"), AWAY)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(60)
        assert [flight.maybe_duplicate for flight in pigeon.flights] == [False, False, True]
        assert len({flight.key for flight in pigeon.flights}) == 1, "the key is stable"


async def test_a_flight_without_end_is_a_failed_try(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(FakeConnector.LOST)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(DELIVERY_DEADLINE_S + 10)
        assert [flight.maybe_duplicate for flight in pigeon.arrived] == [False, True]
        assert "did not answer within" in str(house.events("reply.failed")[0]["reason"])


async def test_a_defect_of_a_connector_costs_its_try_only(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    pigeon.enqueue(KeyError("a defect"))
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(10)
        assert [flight.maybe_duplicate for flight in pigeon.flights] == [False, True]
        assert "pigeon crashed: KeyError" in str(house.events("reply.failed")[0]["reason"])
        assert await house.talk("still there?") == "echo: still there?"


async def test_waiting_for_the_next_try_survives_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    pigeon, clock = FakeConnector(), VirtualClock()
    pigeon.enqueue(UnavailableError("FLOOD", "too many", retry_after_s=100.0))
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()], clock=clock) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(10)
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()], clock=clock):
        await trio.sleep(80)
        assert pigeon.arrived == []
        await trio.sleep(20)
        assert texts(pigeon.arrived) == ["echo: hello"]


async def test_what_overflows_while_it_waits_is_not_sent_after_all(tmp_path: Path, autojump_clock: object) -> None:
    """Past its bound the outbox gives up the oldest reply, perhaps the one the courier holds until its next try."""
    pigeon = FakeConnector()
    pigeon.enqueue(UnavailableError("FLOOD", "too many", retry_after_s=100.0))
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        await house.hear(await _say(house, "m0"))
        agent = await house.daemon.directory.at("/ann/pigeon")
        for n in range(OUTBOX_MAX_MESSAGES):
            await house.store.outbox.add(agent, Reply(connector="pigeon", text=f"news {n}"), f"trace-{n}")
        assert 1 in [letter.seq for letter in await house.store.dead.find()]
        await trio.sleep(200)
        assert "echo: m0" not in texts(pigeon.arrived)
        news = [text for text in texts(pigeon.arrived) if text.startswith("news")]
        assert len(news) >= OUTBOX_MAX_MESSAGES - 1 and news[-1] == f"news {OUTBOX_MAX_MESSAGES - 1}"


async def test_without_an_address_a_reply_is_a_visible_failure(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann")
        receipt = await _say(house, "hello")
        await house.store.people.unlink("pigeon:ann")
        await house.hear(receipt)
        await trio.sleep(1)
        assert pigeon.flights == []
        first = (await house.store.dead.find())[-1]
        assert (first.code, first.reason) == ("NO_ADDRESS", "ann has no address on pigeon")


async def test_a_reply_that_was_confirmed_meanwhile_is_not_sent_again(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()], work=False) as house:
        await _people(house, "ann")
        agent = await house.agent("/ann/pigeon")
        seq = await house.store.outbox.add(agent, Reply(connector="pigeon", text="news"), "trace")
        row = await house.store.outbox.get(seq)
        assert row is not None
        await house.store.outbox.sent([seq], "by another way")
        assert await house.daemon.delivery.deliver(row) is None
        assert pigeon.flights == []


@pytest.mark.parametrize("what", ["outbox.waiting", "outbox.get", "people.get"])
async def test_replies_go_out_once_after_the_store_could_not_be_read(
    what: str, tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann", "ben")
        group, method = what.split(".")
        read = getattr(getattr(house.store, group), method)
        tries, until = 0, trio.current_time() + 30

        async def away(*of: object, **more: object) -> object:
            nonlocal tries
            if trio.current_time() < until:
                tries += 1
                raise StoreAwayError("STORE_IO", "using the database: disk I/O error")
            return await read(*of, **more)

        agents = {user: await house.agent(f"/{user}/pigeon") for user in ("ann", "ben")}
        monkeypatch.setattr(getattr(house.store, group), method, away)
        for user, agent in agents.items():
            await house.store.outbox.add(agent, Reply(connector="pigeon", text=f"for {user}"), "trace")
        await trio.sleep(25)
        assert pigeon.arrived == []
        await trio.sleep(10)
        assert sorted(texts(pigeon.arrived)) == ["for ann", "for ben"]
        assert not any(flight.maybe_duplicate for flight in pigeon.arrived)
        assert 10 < tries < 200, "about once a second"
        assert await house.store.dead.count() == 0


async def test_a_reply_that_crashes_its_delivery_becomes_a_dead_letter_and_others_go_out(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await _people(house, "ann", "ben")
        courier = house.daemon.courier
        deliver = courier._deliver

        async def crash(row: OutboxRow) -> float | None:
            if row.text == "echo: bad":
                raise ZeroDivisionError("a defect")
            return await deliver(row)

        monkeypatch.setattr(courier, "_deliver", crash)
        for text, user in (("bad", "ann"), ("good", "ann"), ("fine", "ben")):
            await house.hear(await _say(house, text, user))
        await trio.sleep(1)
        told, *arrived = sorted(texts(pigeon.arrived))
        assert arrived == ["echo: fine", "echo: good"]
        assert "could not be delivered" in told
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code) == ("outbox", "DELIVERY_CRASHED")
        assert "ZeroDivisionError: a defect" in letter.reason
