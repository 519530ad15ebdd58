"""A whole daemon without sockets or processes, for tests on virtual time: the real store, actors and flow."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.clock import Clock
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.daemon import Daemon
from daycare.features import open_store
from daycare.features.memory.loading import load
from daycare.ops.run import Run
from daycare.plugin import Inbound, Plugin
from daycare.rules.grammar import grammar
from daycare.settings import NodeSection
from daycare.store.home import Home
from daycare.store.records import Agent, AgentConfig, Receipt, User
from daycare.store.sqlite.store import Store
from daycare.store.vault import open_vault
from daycare.testing.clock import VirtualClock
from daycare.testing.scripted import Scripted
from daycare.testing.tools import plugin as testing_tools

OWNER = "ann"
INLINE = True  # whether the store commits in the task that writes, where a daemon is not told


@dataclass
class TestDaemon:
    """A daemon with one operator, `ann`, whose model is `model`. `events` are the bus's, in order."""

    __test__ = False  # it is no class of tests, whatever its name begins with

    daemon: Daemon
    model: Scripted
    counter: int = field(default=0)

    @property
    def store(self) -> Store:
        """The daemon's store."""
        return self.daemon.store

    async def say(self, text: str, *, key: str = "", path: str = "", user: str = OWNER) -> Receipt:
        """Let a person say something; returns once it is committed."""
        self.counter += 1
        inbound = Inbound(
            connector="direct", sender=f"direct:{user}", key=key or f"say:{self.counter}", text=text, path=path
        )
        return await self.daemon.intake.accept(inbound)

    async def hear(self, receipt: Receipt, deadline_s: float = 3_600.0) -> str:
        """Wait for the answer to something that was said."""
        return (await self.daemon.router.wait(receipt, deadline_s)).result or ""

    async def talk(self, text: str, **where: str) -> str:
        """Say something and wait for the answer."""
        return await self.hear(await self.say(text, **where))

    async def agent(self, path: str, config: AgentConfig | None = None) -> Agent:
        """Create an agent."""
        return await self.daemon.directory.create(
            self.daemon.directory.parse(path), origin=Origin.PERSON, config=config
        )

    async def post(self, to: str, text: str, *, sender: str, key: str, control: bool = False) -> Receipt:
        """Post as another agent would, but as much as is wanted: the pace of agents is not looked at."""
        envelope = Envelope(
            to=to,
            user=OWNER,
            origin=Origin.AGENT,
            sender=sender,
            key=key,
            text=text,
            trace=f"trace-{key}",
            kind=EnvelopeKind.COMMAND if control else EnvelopeKind.TEXT,
            lane=Lane.CONTROL if control else Lane.MESSAGES,
            origins=(),
        )
        receipt = await self.store.inbox.post(envelope)
        self.daemon.router.announce(envelope, receipt)
        return receipt

    def events(self, name: str = "") -> list[dict[str, object]]:
        """Return the events so far, of one name or all."""
        import msgspec

        bus = self.daemon.bus
        found = [msgspec.to_builtins(bus.at(cursor)) for cursor in range(bus.oldest, bus.cursor)]
        return [event for event in found if not name or event["event"] == name]


@asynccontextmanager
async def open_daemon(
    tmp: Path,
    model: Scripted | None = None,
    *,
    location: str = "memory:",
    config: Config | None = None,
    plugins: Sequence[Plugin] = (),
    work: bool = True,
    curates: bool = False,
    clock: Clock | None = None,
    inline: bool | None = None,
    node: NodeSection | None = None,
) -> AsyncIterator[TestDaemon]:
    """Open a daemon; leaving the block is a crash: whatever runs is cancelled and nothing is suspended or said.

    With a file as `location` the next daemon over the same folder goes on where this one was. Memory workers wake by
    themselves only if it `curates`: they ask the model, too. Not `inline` the store writes in its own thread, as in a
    daemon: on real time, or on virtual time that waits for threads before it jumps (`INLINE` is the default). On a
    server it works as one `node` of several.
    """
    model = model or Scripted()
    clock = clock or VirtualClock()
    home = Home(tmp)
    config = config or Config(
        models=ModelsSection(default="scripted/model"), providers={"scripted": ProviderSection(kind="scripted")}
    )
    ingestion = replace(config.memory.ingestion, background=curates)
    config = replace(config, memory=replace(config.memory, ingestion=ingestion))
    extra = [model.plugin(), testing_tools, *plugins]
    grammar()  # else these are read in a thread, during which virtual time would jump
    load()
    of_several = None if node is None else (node, open_vault(home.key_file), "")
    inline = INLINE if inline is None else inline
    async with open_store(home.database(location), clock, inline=inline, node=of_several) as store:
        if await store.people.get(OWNER) is None:
            await store.people.add(User(id=OWNER, name="Ann", operator=True, keys=(f"direct:{OWNER}",)))
        vault = open_vault(home.key_file)
        daemon = Daemon(Run(home, "run", OWNER, clock), config, store, vault, extra)
        async with trio.open_nursery() as nursery:
            if work:
                nursery.start_soon(daemon.work)
                await trio.testing.wait_all_tasks_blocked()
            yield TestDaemon(daemon, model)
            nursery.cancel_scope.cancel()
