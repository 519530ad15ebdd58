"""The daemon's own words: to the right place, once, not at night; and helpers that nobody needs end."""

from pathlib import Path

import pytest
import trio

from daycare.agent.notify import quiet_hours
from daycare.base.errors import BusyError, ForbiddenError, UnavailableError
from daycare.base.limits import ATTEMPTS_MAX
from daycare.base.messages import Origin
from daycare.base.path import Kind
from daycare.config import Config, ModelsSection, NotifySection, ProviderSection
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, call, say
from tests.flow.platform import answered, inbound, people, receive


async def unread(house: TestDaemon, path: str = "/ann/direct") -> list[str]:
    return [row.text for row in await house.store.outbox.unread(path)]


async def test_a_notice_reaches_the_foreground_agent(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await house.daemon.notifier.notify("ann", "the cellar is full")
        assert await unread(house) == ["echo: hello", "the cellar is full"]


async def test_repeats_of_one_topic_are_told_together(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        for number in range(5):
            await house.daemon.notifier.notify("ann", f"leak {number}", topic="leak")
        assert (await unread(house))[1:] == ["leak 0"]
        await trio.sleep(700)
        assert (await unread(house))[1:] == ["leak 0", "leak 4 (3 more of this kind meanwhile)"]


async def test_a_notice_waits_for_the_end_of_the_quiet_hours(tmp_path: Path, autojump_clock: object) -> None:
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        notify=NotifySection(quiet="23:00-06:00"),  # the house's clock starts at midnight, UTC
    )
    async with open_daemon(tmp_path, config=config) as house:
        await house.talk("hello")
        await house.daemon.notifier.notify("ann", "a pipe burst")
        await trio.sleep(5 * 3600)
        assert (await unread(house))[1:] == []
        await trio.sleep(1.1 * 3600)
        assert (await unread(house))[1:] == ["a pipe burst"]
        assert await house.talk("are you there?") == "echo: are you there?", "answers know no quiet hours"


async def test_a_notice_that_nobody_can_be_given_is_still_recorded(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.daemon.notifier.notify("ann", "nobody listens")
        await trio.testing.wait_all_tasks_blocked()
        assert any("nobody listens" in event for event in await house.store.ledger.events())


async def test_an_undeliverable_notice_causes_no_other(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await house.store.people.link("pigeon:7", "ann")
        await house.daemon.directory.create(house.daemon.directory.parse("/ann/pigeon"), origin=Origin.PERSON)
        pigeon.enqueue(*[UnavailableError("ROOF_SHUT", "nobody opens") for _ in range(100)])
        await house.daemon.notifier.notify("ann", "the well is dry")
        await trio.sleep(6 * 3600)
        assert await house.store.dead.count() == 1


async def test_owner_is_told_that_somebody_knocked_and_a_flood_is_one_notice(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.talk("hello")
        await receive(house, inbound("k", "let me in", sender="pigeon:7", name="Eve\n`[now](http://x)" + "x" * 300))
        await trio.sleep(1)
        told = (await unread(house))[-1]
        assert "wants to talk to me" in told and "(`pigeon:7`)" in told and "`daycare pair list`" in told
        assert "`Eve '[now](http://x)xxx" in told and len(told) < 250, "a stranger's name is one short line, and code"
        await receive(house, *[inbound(f"k{n}", "me too", sender=f"pigeon:{n}", name=f"E{n}") for n in range(8, 14)])
        await trio.sleep(700)
        assert len(await unread(house)) == 3, "the greeting, the first, and one for all that followed"
        assert "5 more of this kind" in (await unread(house))[-1]


async def test_a_stranger_is_let_in_or_refused_by_the_buttons_of_the_notice_and_by_operators_only(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.store.people.add(User(id="bob", name="Bob", keys=("pigeon:bob",)))
        [said] = await receive(house, inbound("a", "hello"))
        await answered(house, said)
        await receive(house, inbound("k7", "let me in", sender="pigeon:7", name="Eve"))
        await trio.sleep(1)
        let_in, refuse = (choice.says for choice in pigeon.arrived[-1].choices)
        assert (let_in, refuse) == ("/pair approve pigeon:7", "/pair deny pigeon:7")
        for number, (who, press, told) in enumerate(
            (
                ("pigeon:bob", let_in, "Only an operator"),
                ("pigeon:ann", let_in, "pigeon:7 is eve, and talks to /eve/pigeon. They are told."),
                ("pigeon:ann", let_in, "nobody waits at that address"),
                ("pigeon:ann", refuse, "nobody wrote from that address"),
            )
        ):
            await receive(house, inbound(f"press{number}", press, sender=who))
            await trio.sleep(1)
            assert any(told in flight.text for flight in pigeon.arrived), told
            eve = await house.store.people.by_key("pigeon:7")
            assert (eve is not None) == (number > 0)
        assert sum("connected as eve" in flight.text for flight in pigeon.arrived) == 1
        await receive(house, inbound("k8", "me too", sender="pigeon:8", name="Mallory"))
        await receive(house, inbound("no", "/pair deny pigeon:8"))
        await receive(house, inbound("yes", "/pair approve pigeon:8"))
        await trio.sleep(1)
        assert await house.store.people.by_key("pigeon:8") is None, "who was turned away is let in by nobody's slip"
        [stranger] = await house.store.strangers.find()
        assert stranger.denied


async def test_somebody_who_blocked_the_bot_is_called_once_and_told_elsewhere(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        pigeon.enqueue(*[ForbiddenError("RECIPIENT_GONE", "the loft is shut") for _ in range(9)])
        [outcome] = await receive(house, inbound("a", "hello"))
        await answered(house, outcome)
        await trio.sleep(6 * 3600)
        assert len(pigeon.flights) == 1
        assert await house.store.dead.count() == 1
        assert await unread(house) == []
        await house.talk("I am at the terminal now")
        [second] = await receive(house, inbound("b", "and again"))
        await answered(house, second)
        await trio.sleep(6 * 3600)
        assert len(pigeon.flights) == 2
        told = (await unread(house))[-1]
    assert "could not be delivered: the loft is shut" in told


async def test_the_owner_is_told_when_a_reminder_fails_that_nobody_sent(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await house.agent("/ann/agent/clerk")
        model.enqueue(call(("remind", {"after_s": 60, "text": "count"})), say("set"))
        await house.hear(await house.post("/ann/agent/clerk", "count later", sender="/ann/direct", key="job"))
        model.enqueue(*[BusyError("REQUEST_REFUSED", "the model refuses the request") for _ in range(ATTEMPTS_MAX)])
        await trio.sleep(3600)
        assert "/ann/agent/clerk could not finish a turn: the model refuses the request" in (await unread(house))[-1]


async def test_an_idle_helper_ends_without_costing_its_parent_a_turn(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        parent = await house.agent("/ann/agent/boss")
        child = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        await house.hear(await house.post(child.path, "count", sender=parent.path, key="job"))
        await trio.sleep(500)
        assert (await house.daemon.directory.get(child.id)).state == "living"
        await trio.sleep(300)
        assert (await house.daemon.directory.get(child.id)).state == "dead"
        assert await house.store.turns.history(parent.id, 1, 10) == []
        assert [event["reason"] for event in house.events("agent.died")] == ["idle for 600 s"]
        assert await house.store.dead.count() == 0
        again = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        assert again.path == "/ann/agent/boss/sub/1"


@pytest.mark.parametrize("text", ["", "22:00-07:00", "09:30-12:15"])
def test_quiet_hours_are_read(text: str) -> None:
    found = quiet_hours(text)
    assert (found is None) == (text == "")
    if found is not None:
        assert f"{found[0]:%H:%M}-{found[1]:%H:%M}" == text
