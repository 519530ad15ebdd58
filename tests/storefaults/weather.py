"""A disk that is bad for a while, whoever uses the database: it fails now and then, is full, or is read-only."""

import random
from collections import Counter
from typing import Final, Literal

import apsw
import msgspec

from daycare.base.clock import Clock
from daycare.testing.clock import EPOCH_MS
from tests.storefaults.places import PER_S, Disk, Place

Kind = Literal["failing", "full", "read-only"]
ERRORS: Final[dict[Kind, apsw.Error]] = {
    "failing": apsw.IOError("disk I/O error"),
    "full": apsw.FullError("database or disk is full"),
    "read-only": apsw.ReadOnlyError("attempt to write a readonly database"),
}
SHARES: Final = (0.1, 0.3, 0.7, 1.0)
SPELLS_MAX: Final = 3
SPELL_MAX_S: Final = 60.0
STRETCHES_S: Final = ((0.0, 100.0), (0.0, 1_700.0))  # of a day: where most happens, and all of it


class Spell(msgspec.Struct, frozen=True):
    """From one wall time to another (ms) so many uses fail: of a failing disk all, else those that write."""

    kind: Kind
    begin_ms: int
    end_ms: int
    share: float = 1.0

    def __str__(self) -> str:
        lasting_s, at_s = (self.end_ms - self.begin_ms) / 1000, (self.begin_ms - EPOCH_MS) / 1000
        return f"{self.kind} ({self.share:.0%}) for {lasting_s:.1f} s from {at_s:.1f} s on"


def forecast(seed: int) -> tuple[Spell, ...]:
    """Draw the spells of a day."""
    dice = random.Random(f"weather/{seed}")
    spells = []
    for _ in range(dice.randint(1, SPELLS_MAX)):
        kind: Kind = dice.choice(tuple(ERRORS))
        begin_ms = EPOCH_MS + round(dice.uniform(*dice.choice(STRETCHES_S)) * 1000)
        end_ms = begin_ms + round(dice.uniform(1, SPELL_MAX_S) * 1000)
        spells.append(Spell(kind, begin_ms, end_ms, dice.choice(SHARES) if kind == "failing" else 1.0))
    return tuple(spells)


class Weather(Disk):
    """A disk in such spells."""

    def __init__(self, clock: Clock, spells: tuple[Spell, ...], seed: int) -> None:
        super().__init__(clock)
        self._spells = spells
        self._dice = random.Random(f"uses/{seed}")
        self._tried: Counter[tuple[Place, int]] = Counter()

    def use(self, place: Place) -> None:
        """Count a place, and fail if the weather is so."""
        super().use(place)
        now_ms = self._clock.now_ms()
        for spell in self._spells:
            if not spell.begin_ms <= now_ms < spell.end_ms or (place.kind == "read" and spell.kind != "failing"):
                continue
            if self._dice.random() < spell.share and not self.busy:
                self._fail(place, spell.kind, now_ms)
        if place.kind == "write":
            self.refused_ms = None

    def _fail(self, place: Place, kind: Kind, now_ms: int) -> None:
        self.failures += 1
        self.met[kind] += 1
        self._tried[place, now_ms // 1000] += 1
        self.busy = self._tried[place, now_ms // 1000] > 10 * PER_S  # it would go on for ever, as in `Disk`
        if place.kind == "write" and self.refused_ms is None:
            self.refused_ms = now_ms
        raise type(ERRORS[kind])(*ERRORS[kind].args)
