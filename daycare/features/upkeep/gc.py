"""`/system/gc`: deletes what is kept no longer, in small bites, and gives space back to the disk."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from daycare.base.behaviour import BehaviourContext, BehaviourMessage
from daycare.base.clock import Clock
from daycare.base.error_boundary import reason_of
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.features.upkeep.horizon import Horizon
from daycare.store.sqlite.store import Store

GC_PAUSE_S: Final = 1.0  # between two bites, each some 10 to 50 ms: messages go first
GC_TURN_S: Final = 900.0  # of one round; what is left then is for the next
GC_SHRINK_BYTES: Final = 4 * 1024 * 1024  # given back to the disk in one bite
GC_FREE_SHARE: Final = 0.2  # of the file that stays free for new rows ...
GC_FREE_MIN_BYTES: Final = 16 * 1024 * 1024  # ... and so much at least: giving it back and taking it again costs more

GC: Final = "/system/gc"
VACUUM: Final = "vacuum"
Sweep = Callable[[int], Awaitable[int]]


@dataclass
class Gc:
    """Walks `sweeps`, by what they delete: each deletes a bounded number of rows and returns how many, 0 for all done.

    They are given the wall time (ms) that has surely come, as `horizon` knows it, and left out while the clock is not
    to be trusted. A crash anywhere is harmless, as what is left is found by the next round.
    """

    store: Store
    sweeps: Mapping[str, Sweep]
    clock: Clock
    horizon: Horizon
    name: str = "gc"
    description: str = (
        "Deletes what is kept no longer. vacuum: rewrite the database, so that it is small; ?: last round"
    )
    plugin: str = ""

    def problem(self) -> str:
        """Nothing keeps it from working."""
        return ""

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Make a round, or tell of the last one."""
        words = {word.lower() for message in messages for word in message.text.split()}
        if words == {"?"}:
            return told(context.state) if context.state else "I have not made a round yet."
        self.horizon.carry(context.state.get("horizon") if isinstance(context.state, Mapping) else None)
        began = trio.current_time()
        round_: dict[str, Any] = {"at_ms": self.clock.now_ms(), "deleted": {}, "problems": [], "complete": True}
        for what, sweep in self.sweeps.items():
            if problem := self.horizon.problem():
                round_["problems"].append({"code": "CLOCK_SET", "message": problem, "hint": "daycare health"})
                break
            await self._sweep(what, sweep, round_, until=began + GC_TURN_S)
        try:
            round_["freed_bytes"] = await self._give_back(whole=VACUUM in words)
        except (UnavailableError, BusyError) as refused:
            round_["problems"].append(_problem(refused))
        space = await self.store.upkeep.space()
        round_ |= {
            "bytes": space.bytes,
            "free_bytes": space.free_bytes,
            "took_s": round(trio.current_time() - began, 1),
            "horizon": self.horizon.state(),
        }
        context.state = round_
        return told(round_)

    async def _sweep(self, what: str, sweep: Sweep, round_: dict[str, Any], *, until: float) -> None:
        try:
            while many := await sweep(self.horizon.now_ms()):
                round_["deleted"][what] = round_["deleted"].get(what, 0) + many
                if trio.current_time() >= until:
                    round_["complete"] = False
                    return
                await trio.sleep(GC_PAUSE_S)
        except (UnavailableError, BusyError) as refused:  # the disk refuses: nothing is lost by expiring later
            round_["problems"].append(_problem(refused))
        except Exception as defect:  # noqa: BLE001 - what cannot be swept must not keep the rest from it
            round_["problems"].append({"code": "SWEEP_FAILED", "message": f"{what}: {reason_of(defect)}", "hint": ""})

    async def _give_back(self, *, whole: bool) -> int:
        """Give space back to the disk; return how many bytes."""
        before = await self.store.upkeep.space()
        if whole:
            await self.store.upkeep.rewrite()
            return max(0, before.bytes - (await self.store.upkeep.space()).bytes)
        freed = 0
        spare = before.free_bytes - max(GC_FREE_MIN_BYTES, int(before.bytes * GC_FREE_SHARE))
        while before.shrinks and freed < spare:
            given = await self.store.upkeep.shrink(min(GC_SHRINK_BYTES, spare - freed))
            if not given:
                break
            freed += given
            await trio.sleep(GC_PAUSE_S)
        return freed


def _problem(error: DaycareError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def told(round_: Mapping[str, Any]) -> str:
    """Return what a round came to in words."""
    deleted = ", ".join(f"{many:,} {what}" for what, many in round_["deleted"].items())
    lines = [f"Deleted: {deleted or 'nothing'}."]
    if not round_["complete"]:
        lines.append("More is left, which the next round takes.")
    size = f"The database has {_mb(round_['bytes'])}, {_mb(round_['free_bytes'])} of it free for new rows."
    if round_.get("freed_bytes"):
        size += f" {_mb(round_['freed_bytes'])} were given back to the disk."
    return "\n".join([*lines, size, *(f"Problem: {each['message']}" for each in round_["problems"])])


def _mb(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
