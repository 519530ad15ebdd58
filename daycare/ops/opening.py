"""Opening a home: its key and its store, checked, and the daemon over them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daycare.agent.prompt import Persona
from daycare.agent.sections import introduce
from daycare.base.clock import Clock, SystemClock
from daycare.config import Config
from daycare.daemon import Daemon
from daycare.features import open_store
from daycare.ops.owner import owner_of
from daycare.ops.run import Run
from daycare.store.home import Home
from daycare.store.records import User
from daycare.store.sqlite import mark
from daycare.store.sqlite.database import refuse_damage
from daycare.store.vault import open_vault


@asynccontextmanager
async def open_daemon(
    home: Home, config: Config, *, mode: str, clock: Clock | None = None, inline: bool = False
) -> AsyncIterator[Daemon]:
    """Open a home's store and wire a daemon over it; the caller holds the home's lock. `inline` is for virtual time."""
    clock = clock or SystemClock()
    vault = open_vault(home.key_file)
    location = home.database(config.store.location)
    refuse_damage(location, whole=bool(mark.read(location).damage))
    async with open_store(location, clock, inline=inline) as store:
        owner = await owner_of(store, config)
        operator = await store.people.get(owner) or User(id=owner, name=owner)
        await introduce(store.documents, Persona(config.agent.name, config.agent.tone), operator)
        yield Daemon(Run(home, mode, owner, clock), config, store, vault, ())
