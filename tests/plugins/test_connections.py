"""A plugin speaks for its own connectors only, whichever of the calls it uses and wherever it names another's."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from daycare.base.clock import SystemClock
from daycare.base.errors import ConflictError, ForbiddenError
from daycare.connectors.host import Host
from daycare.features import open_store
from daycare.observe.bus import Bus
from daycare.plugin import BaseConnector, Health, Inbound, Unreadable
from daycare.plugins.context import HostContext
from tests.plugins.helpers import Listener, events, surroundings


def context(folder: Path, host: Listener | None) -> HostContext:
    made = HostContext("birds", None, surroundings(folder, host=host))
    made.connectors = ("pigeon", "owl")
    return made


def inbound(connector: str = "pigeon", sender: str = "pigeon:1", **more: str) -> Inbound:
    return Inbound(connector=connector, sender=sender, key="k", text="t", **more)  # type: ignore[arg-type]


Call = Callable[[HostContext], Awaitable[object]]


async def _report(it: HostContext) -> None:
    it.report("telegram", Health(state="up"))


FOREIGN: dict[str, Call] = {
    "receive over": lambda it: it.receive("telegram", []),
    "receive from": lambda it: it.receive("pigeon", [inbound(sender="telegram:1")]),
    "receive in": lambda it: it.receive("pigeon", [inbound(chat="telegram:-1")]),
    "receive within": lambda it: it.receive("pigeon", [inbound(chat="pigeon:-1:2", within="telegram:-1")]),
    "receive for": lambda it: it.receive("pigeon", [inbound("telegram", "telegram:1")]),
    "receive another own": lambda it: it.receive("pigeon", [inbound("owl", "owl:1")]),
    "receive the last": lambda it: it.receive("pigeon", [inbound(), inbound(sender="pigeons:1")]),
    "accept": lambda it: it.accept(inbound("telegram", "telegram:1")),
    "accept in": lambda it: it.accept(inbound(chat="telegram:-1")),
    "recall": lambda it: it.recall("telegram"),
    "remember": lambda it: it.remember("telegram", "cursor", "0"),
    "move old": lambda it: it.moved("pigeon", "telegram:1", "pigeon:2"),
    "move new": lambda it: it.moved("pigeon", "pigeon:1", "telegram:2"),
    "move over": lambda it: it.moved("telegram", "telegram:1", "telegram:2"),
    "report": _report,
}


@pytest.mark.parametrize("call", FOREIGN.values(), ids=FOREIGN)
async def test_nothing_gets_through_for_anothers_connector(tmp_path: Path, call: Call) -> None:
    host = Listener()
    with pytest.raises(ForbiddenError) as caught:
        await call(context(tmp_path, host))
    assert caught.value.code == "CONNECTOR_FOREIGN" and host.heard == []


async def test_all_gets_through_for_its_own(tmp_path: Path) -> None:
    host = Listener()
    it = context(tmp_path, host)
    group = inbound("owl", "owl:1", chat="owl:-1:2", within="owl:-1")
    assert len(await it.receive("owl", [group, Unreadable(key="u", reason="r", body="b")], "5")) == 2
    assert await it.recall("pigeon", "name") == ""
    await it.remember("pigeon", "name", "v")
    await it.moved("owl", "owl:-1", "owl:-2")
    it.report("pigeon", Health(state="up"))
    assert it.commands() and await it.accept(inbound()) == 7
    assert host.heard == [
        ("receive", "owl"), ("recall", "pigeon"), ("remember", "pigeon"), ("moved", "owl"), ("report", "pigeon"),
    ]  # fmt: skip


async def test_a_check_of_a_plugin_connects_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConflictError) as caught:
        await context(tmp_path, None).recall("pigeon")
    assert caught.value.code == "CHECK_ONLY"


async def test_how_a_connection_is_stands_in_the_status_and_a_change_is_an_event(tmp_path: Path) -> None:
    async def receive(*_: object) -> list[object]:
        return []

    bus = Bus()
    async with open_store("memory:") as store:
        host = Host(store, bus, SystemClock(), receive, list)  # type: ignore[arg-type]
        for state, reason in (("starting", ""), ("up", ""), ("up", "still"), ("away", "no route"), ("away", "DNS")):
            host.report("pigeon", Health(state=state, reason=reason))  # type: ignore[arg-type]
        told = host.status({"pigeon": BaseConnector(), "owl": BaseConnector()})  # type: ignore[dict-item]
    assert [(event["state"], event.get("reason", "")) for event in events(bus)] == [
        ("starting", ""), ("up", ""), ("away", "no route"),
    ]  # fmt: skip
    assert list(told) == ["owl", "pigeon"]
    assert (told["pigeon"]["state"], told["pigeon"]["reason"], told["owl"]["state"]) == ("away", "DNS", "up")
    assert told["pigeon"]["since"] > 0
