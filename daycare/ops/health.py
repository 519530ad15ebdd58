"""How everything is, in plain words: what `daycare health` and `/system/health` tell."""

import os
import resource
import shutil
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from daycare.base.clock import Clock
from daycare.base.durations import about
from daycare.base.errors import BrokenError, StoreAwayError
from daycare.base.health import Finding
from daycare.feature import Feature
from daycare.inference.pool import Pool
from daycare.observe.keeper import Keeper
from daycare.store.home import Home
from daycare.store.sqlite.store import Store

HEALTH_RECENT_S: Final = 86_400.0  # of which a report tells what went wrong
HEALTH_DISK_MIN_BYTES: Final = 512 * 1024 * 1024  # free, below which the disk is nearly full: a day of a busy home
HEALTH_UNREAD_S: Final = 3_600.0  # that a message waits: no turn takes so long

_DESCRIPTORS_SHARE: Final = 0.9  # past it connections and files are soon refused


@dataclass(frozen=True)
class HealthChecks:
    """Looks at the kernel, and asks `features` for theirs."""

    home: Home
    store: Store
    keeper: Keeper
    pool: Pool
    clock: Clock
    features: Sequence[Feature]

    async def look(self, *, whole: bool) -> list[Finding]:
        """Look at everything, or only at what is watched."""
        found = [*self._now(), *await _read("models", self._models()), *await _read("messages", self._unread())]
        for feature in self._telling:
            found += await _read(feature.name, feature.findings())
        return [*found, *await _read("rows", self._rows())] if whole else found

    @cached_property
    def _telling(self) -> Sequence[Feature]:
        """Most features have nothing to tell, and every minute all are asked."""
        return [each for each in self.features if type(each).findings is not Feature.findings]

    def _now(self) -> Iterator[Finding]:
        free = shutil.disk_usage(self.home.path).free
        yield Finding(name="disk", ok=free >= HEALTH_DISK_MIN_BYTES, text=f"{_size(free)} are free", watched=True)
        yield from _descriptors()
        crashed = self.keeper.problems()
        text = "; ".join(f"{name} crashed: {why}" for name, why in crashed.items())
        yield Finding(name="parts", ok=not crashed, text=text or "all run", watched=True)

    async def _models(self) -> list[Finding]:
        """Look at providers. Whether one is set up may depend on a key, which is in the store."""
        away = self.pool.away
        text = "; ".join(f"{name} is away: {why}" for name, why in away.items())
        configured = len(self.pool.configured)
        text = text or f"{configured} provider{'s'[: configured != 1]}, none away"
        return [Finding(name="models", ok=not away, text=text)]

    async def _unread(self) -> list[Finding]:
        oldest = await self.store.upkeep.oldest_unread()
        if oldest is None:
            return [Finding(name="messages", ok=True, text="nothing waits", watched=True)]
        age_s = max(0.0, (self.clock.now_ms() - oldest.at_ms) / 1000)
        # A provider that is away lets messages wait, and is told of by itself.
        ok = age_s < HEALTH_UNREAD_S or bool(self.pool.away)
        text = f"the oldest unanswered one has waited {about(age_s)}, at {oldest.path}"
        return [Finding(name="messages", ok=ok, text=text, watched=True)]

    async def _rows(self) -> list[Finding]:
        vitals = await self.store.upkeep.vitals(self.clock.now_ms() - round(HEALTH_RECENT_S * 1000))
        space = await self.store.upkeep.space()
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


async def _read(name: str, look: Awaitable[Sequence[Finding]]) -> Sequence[Finding]:
    """Return what is found in the store; that it gives nothing is a finding, too."""
    try:
        return await look
    except (StoreAwayError, BrokenError) as error:
        return [Finding(name=name, ok=False, text=error.message)]


def _descriptors() -> Iterator[Finding]:
    """Look at how many files this process has open, where the system tells."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - it is looked at often, and no path is needed
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
