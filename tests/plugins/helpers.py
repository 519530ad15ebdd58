"""Plugins that are values, in a house or alone."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio

from daycare.base.clock import SystemClock
from daycare.base.messages import Envelope, Message, Origin, Text
from daycare.observe.bus import Bus
from daycare.plugin import Health, Inbound, Outcome, Plugin, StructTool, ToolContext, Unreadable
from daycare.plugins.admission import Admitted
from daycare.plugins.context import HostContext, Surroundings
from daycare.plugins.discovery import DiscoveredPlugin
from daycare.store.records import Agent, AgentConfig, Receipt, Turn


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say a word."""

    word: Annotated[str, msgspec.Meta(min_length=1)]


def tool(name: str) -> StructTool[Word]:
    async def run(context: ToolContext, arguments: Word) -> str:
        return arguments.word

    return StructTool(name, Word, run, idempotent=True)


class Listener:
    """A host of connectors that notes what gets through to it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    async def receive(self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str) -> Sequence[Outcome]:
        self.heard.append(("receive", connector))
        return [Outcome(state="accepted") for _ in batch]

    async def recall(self, connector: str, name: str) -> str:
        self.heard.append(("recall", connector))
        return ""

    async def remember(self, connector: str, name: str, value: str) -> None:
        self.heard.append(("remember", connector))

    def commands(self) -> Sequence[tuple[str, str]]:
        return [("help", "show what can be said here")]

    async def moved(self, connector: str, old: str, new: str) -> None:
        self.heard.append(("moved", connector))

    def report(self, connector: str, health: Health) -> None:
        self.heard.append(("report", connector))


def surroundings(folder: Path, secrets: dict[str, str] | None = None, host: Listener | None = None) -> Surroundings:
    async def accept(inbound: Inbound) -> Receipt:
        return Receipt(7, "agent-1")

    def token(name: str) -> bytes | None:
        value = (secrets or {}).get(name)
        return value.encode() if value is not None else None

    return Surroundings(folder, SystemClock(), token, bytes.decode, accept, host)


def found(plugin: Plugin) -> DiscoveredPlugin:
    return DiscoveredPlugin(name=plugin.name, reference=f"{plugin.name}:plugin", source="installed", plugin=plugin)


def admitted(plugin: Plugin, folder: Path) -> Admitted:
    return Admitted(found(plugin), plugin, HostContext(plugin.name, None, surroundings(folder)), {})


def events(bus: Bus) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(bus.at(cursor)) for cursor in range(bus.oldest, bus.cursor)]


def agent(path: str = "/ann/direct") -> Agent:
    return Agent(
        id="agent-1",
        path=path,
        kind="connector",
        role="user",
        user="ann",
        origin=Origin.PERSON,
        parent=None,
        state="living",
        config=AgentConfig(),
        incarnation=1,
        session=3,
        created_at=0,
    )


def turn(number: int = 1) -> Turn:
    return Turn(turn=number, agent_id="agent-1", session=3, trace=f"trace-{number}", attempt=1, seqs=(number,))


def said(text: str) -> Message:
    return Message("user", (Text(text),))


def envelope(text: str = "hi") -> Envelope:
    return Envelope(
        to="/ann/direct", user="ann", origin=Origin.PERSON, sender="direct:ann", key=text, text=text, trace="t"
    )


@contextmanager
def importable(folder: Path, **modules: str) -> Iterator[None]:
    """Write modules into a folder and let them be imported."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in modules:
            sys.modules.pop(name, None)


async def stubborn() -> None:
    """Hang, and do not let oneself be cancelled for an hour."""
    with trio.CancelScope(shield=True):
        await trio.sleep(3_600)
