"""What tests of messages over a platform share: short ways to be heard, and to see what a model was asked."""

from typing import Any

from daycare.base.messages import Origin
from daycare.plugin import Inbound, Outcome, Unreadable
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted

CLUB = "pigeon:-42"


def inbound(key: str, text: str | None = None, **more: Any) -> Inbound:
    """Return what Ann wrote."""
    fields: dict[str, Any] = {
        "connector": "pigeon",
        "sender": "pigeon:ann",
        "key": key,
        "text": f"text {key}" if text is None else text,
    }
    return Inbound(**(fields | more))


def in_club(key: str, text: str | None = None, name: str = "Bob", **more: Any) -> Inbound:
    """Return what somebody wrote in the club."""
    fields: dict[str, Any] = {"sender": "pigeon:7", "chat": CLUB, "name": name, "origin": Origin.GROUP}
    return inbound(key, text, **(fields | more))


async def people(house: TestDaemon) -> None:
    """Let Ann be reached by pigeon, and her club."""
    await house.store.people.link("pigeon:ann", "ann")
    await house.store.people.add(User(id="club", name="The club", kind="group", keys=(CLUB,)))


async def receive(house: TestDaemon, *items: Inbound | Unreadable, cursor: str = "") -> list[Outcome]:
    """Take a batch in, as a plugin's context does."""
    return list(await house.daemon.host.receive("pigeon", items, cursor))


def states(outcomes: list[Outcome]) -> list[str]:
    """Return what became of each."""
    return [outcome.state for outcome in outcomes]


def asked(model: Scripted, call: int = -1) -> list[str]:
    """Return the words of a prompt's messages from people, without their time stamps."""
    request = model.history[call]
    return [message.text.partition("] ")[2] for message in request.messages if message.role == "user"]


async def answered(house: TestDaemon, outcome: Outcome, deadline_s: float = 600.0) -> str:
    """Wait until something that was accepted is answered; return the answer."""
    receipt = await house.store.inbox.receipt(outcome.seq)
    assert receipt is not None
    return await house.hear(receipt, deadline_s)
