"""How everything is, in plain words: what `daycare health` and `/system/health` tell."""

import resource
import shutil
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Final, Protocol

from daycare.base.clock import Clock
from daycare.base.durations import about
from daycare.base.errors import BrokenError, StoreAwayError
from daycare.base.health import Finding
from daycare.base.limits import (
    EXPIRE_EVERY_S,
    HEALTH_DISK_MIN_BYTES,
    HEALTH_LAG_S,
    HEALTH_RECENT_S,
    HEALTH_UNREAD_S,
)
from daycare.connectors.host import Host
from daycare.inference.pool import Pool
from daycare.observe.keeper import Keeper
from daycare.ops.announcing import Announcer
from daycare.ops.reloading import Reloading
from daycare.plugin import Connector
from daycare.plugins.extensions import Extensions
from daycare.schedule.gc import GC
from daycare.schedule.upkeep import Upkeep
from daycare.store.home import Home
from daycare.store.sqlite.store import SqliteStore

_FINE: Final = ("up", "off", "starting")  # of a connection: `starting` for long becomes another state
_DESCRIPTORS_SHARE: Final = 0.9  # past it connections and files are soon refused
_GC_LATE: Final = 3  # rounds that may be missing before something is wrong


class Parts(Protocol):
    """What is looked at of a daemon, which is wired on a floor with this."""

    home: Home
    store: SqliteStore
    clock: Clock
    started_at: int
    announcer: Announcer
    pool: Pool
    host: Host
    connectors: dict[str, Connector]
    extensions: Extensions
    upkeep: Upkeep
    reloading: Reloading
    keeper: Keeper


async def findings(daemon: Parts, *, whole: bool) -> list[Finding]:
    """Look at everything, or only at what is watched."""
    found = [*_now(daemon), *await _read("models", _models(daemon))]
    found += [*await _read("messages", _unread(daemon)), *await _read("upkeep", _upkeep(daemon))]
    found += [daemon.upkeep.backups.finding(), daemon.reloading.finding(), daemon.upkeep.horizon.finding()]
    return [*found, *await _read("rows", _rows(daemon))] if whole else found


async def _read(name: str, look: Awaitable[list[Finding]]) -> list[Finding]:
    """Return what is found in the store; that it gives nothing is a finding, too."""
    try:
        return await look
    except (StoreAwayError, BrokenError) as error:
        return [Finding(name=name, ok=False, text=error.message)]


def _now(daemon: Parts) -> Iterator[Finding]:
    trouble = daemon.announcer.trouble
    try:
        daemon.store.trusted()
    except StoreAwayError as refusal:
        trouble = str(refusal)
    yield Finding(name="store", ok=trouble is None, text=trouble or "it takes what is written", watched=True)
    yield _commits(daemon)
    free = shutil.disk_usage(daemon.home.path).free
    yield Finding(name="disk", ok=free >= HEALTH_DISK_MIN_BYTES, text=f"{_size(free)} are free", watched=True)
    yield from _descriptors()
    lag = daemon.upkeep.health.lag_s
    yield Finding(name="loop", ok=lag < HEALTH_LAG_S, text=f"it was {lag:.1f} s late at most", watched=True)
    crashed = daemon.keeper.problems()
    text = "; ".join(f"{name} crashed: {why}" for name, why in crashed.items())
    yield Finding(name="parts", ok=not crashed, text=text or "all run", watched=True)
    states = daemon.host.status(daemon.connectors)
    bad = {name: each for name, each in states.items() if each["state"] not in _FINE}
    text = "; ".join(f"{name} is {each['state']}: {each.get('reason', '')}".rstrip(": ") for name, each in bad.items())
    yield Finding(name="connectors", ok=not bad, text=text or f"{len(states)}, all up", watched=True)
    problems = daemon.extensions.problems()
    text = "; ".join(f"{name}: {why}" for name, why in problems.items())
    yield Finding(
        name="plugins", ok=not problems, text=text or f"{len(daemon.extensions.plugins)}, all run", watched=True
    )


def _commits(daemon: Parts) -> Finding:
    """Return whether what the run before had committed was there at the start. The operator is told of that at once."""
    lost = daemon.store.lost
    if lost is not None and lost.is_recent(daemon.clock.now_ms()):
        return Finding(name="commits", ok=False, text=str(lost))
    return Finding(name="commits", ok=True, text="everything known to be there was found at the start")


async def _models(daemon: Parts) -> list[Finding]:
    """Look at providers. Whether one is set up may depend on a key, which is in the store."""
    away = daemon.pool.away
    text = "; ".join(f"{name} is away: {why}" for name, why in away.items())
    configured = len(daemon.pool.configured)
    text = text or f"{configured} provider{'s'[: configured != 1]}, none away"
    return [Finding(name="models", ok=not away, text=text)]


async def _unread(daemon: Parts) -> list[Finding]:
    oldest = await daemon.store.upkeep.oldest_unread()
    if oldest is None:
        return [Finding(name="messages", ok=True, text="nothing waits", watched=True)]
    age_s = max(0.0, (daemon.clock.now_ms() - oldest.at_ms) / 1000)
    # A provider that is away lets messages wait, and is told of by itself.
    ok = age_s < HEALTH_UNREAD_S or bool(daemon.pool.away)
    text = f"the oldest unanswered one has waited {about(age_s)}, at {oldest.path}"
    return [Finding(name="messages", ok=ok, text=text, watched=True)]


async def _upkeep(daemon: Parts) -> list[Finding]:
    agent = await daemon.store.agents.at(GC)
    kept = await daemon.store.behaviours.kept(agent.id) if agent is not None else None
    at_ms = kept.at_ms if kept is not None else 0
    late_s = (daemon.clock.now_ms() - max(at_ms, daemon.started_at)) / 1000
    text = f"{GC} made its last round {about((daemon.clock.now_ms() - at_ms) / 1000)} ago" if at_ms else "no round yet"
    return [Finding(name="upkeep", ok=late_s < _GC_LATE * EXPIRE_EVERY_S, text=text, watched=True)]


async def _rows(daemon: Parts) -> list[Finding]:
    vitals = await daemon.store.upkeep.vitals(daemon.clock.now_ms() - round(HEALTH_RECENT_S * 1000))
    space = await daemon.store.upkeep.space()
    parked = ", ".join(vitals.parked)
    failed = "; ".join(f"{path}: {reason}" for path, reason in vitals.failed)
    late = f"{vitals.failures} runs failed and {vitals.missed} were missed within a day; {failed}".rstrip("; ")
    fine = not vitals.failures and not vitals.missed
    letters = f"{vitals.letters} wait for a decision, {vitals.new_letters} of them new within a day"
    stops = f"used up {vitals.stops} times within a day" if vitals.stops else "none was used up within a day"
    return [
        Finding(name="size", ok=True, text=f"{_size(space.bytes)}, {_size(space.free_bytes)} free for new rows"),
        Finding(name="dead letters", ok=not vitals.new_letters, text=letters if vitals.letters else "none"),
        Finding(name="parked agents", ok=not parked, text=parked or "none"),
        Finding(name="scheduled jobs", ok=fine, text="none failed or missed within a day" if fine else late),
        Finding(name="budgets", ok=True, text=stops),
    ]


def _descriptors() -> Iterator[Finding]:
    """Look at how many files this process has open, where the system tells."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except FileNotFoundError:
        return
    except OSError:
        used = most  # to look takes one
    if most == resource.RLIM_INFINITY:
        return
    ok = used < _DESCRIPTORS_SHARE * most
    text = f"{used} of {most} are open" + ("" if ok else ": raise the limit, LimitNOFILE of the service or `ulimit -n`")
    yield Finding(name="descriptors", ok=ok, text=text, watched=True)


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
