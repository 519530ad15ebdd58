"""One trial: some inputs of a kind against one daemon, and what became of each."""

import math
import re
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, Literal, Protocol

import msgspec
import trio
import trio.testing

from daycare.base.secrecy import forget_hidden
from daycare.testing.clock import patient_clock
from tests.hostile.held import HELD_MAX_MS, Hold, HungError, Watch

Ending = Literal["answered", "refused", "dead"]
SHOWN_MAX_CHARS: Final = 1_500
HARMS_MAX: Final = 30  # in one trial, which is ended then: there is enough to look into
KNOWN_MAX: Final = 3  # failures of one cause whose inputs are looked for, in one process
_KNOWN: Final[Counter[str]] = Counter()


class Harm(msgspec.Struct):
    """Something that no input may do: `what` kind of harm, `text` its details, `input` its number where it is known."""

    what: str
    text: str
    input: int | None = None


class Kind(Protocol):
    """A kind of input. `chunk` of them share a daemon; `virtual`: time is trio's mock clock."""

    name: str
    chunk: int
    virtual: bool

    async def play(self, trial: "Trial", folder: Path) -> None:
        """Give the daemon the trial's inputs; each must `end`."""
        ...

    def ready(self) -> None:
        """Make what takes long, once in a process."""
        ...

    def shown(self, rng: Random) -> str:
        """Return an input as a person may look at it."""
        ...


class Prepared:
    """A kind that needs nothing made before."""

    def ready(self) -> None:
        """Nothing."""


class Trial:
    """The inputs of one daemon and what became of them."""

    def __init__(self, kind: Kind, seed: int, numbers: Sequence[int], held_ms: float = HELD_MAX_MS) -> None:
        self.held_ms = held_ms
        self.kind = kind
        self.seed = seed
        self.numbers = numbers
        self.ended: dict[int, Ending] = {}
        self.why: dict[int, str] = {}
        self.harms: list[Harm] = []
        self.holds: list[Hold] = []
        self.set_aside = 0
        self.longest_ms = 0.0
        self.longest_task = ""
        self.watch = Watch(held_ms)
        self._scope = trio.CancelScope()

    def draw(self, number: int) -> Random:
        """Return what decides an input: always the same for the same seed, kind and number."""
        return drawn(self.kind.name, self.seed, number)

    def end(self, number: int, how: Ending, why: str = "") -> None:
        """Note how an input ended, and for one that was refused what the daemon said of it, where that is looked at."""
        self.ended[number] = how
        if why:
            self.why[number] = why

    def harm(self, what: str, text: str, number: int | None = None) -> None:
        """Note harm."""
        self.harms.append(Harm(what, text[:SHOWN_MAX_CHARS], number))
        if len(self.harms) >= HARMS_MAX:
            self._scope.cancel()

    def count(self, how: Ending) -> int:
        """Return how many inputs ended so."""
        return sum(each == how for each in self.ended.values())

    def run(self) -> None:
        """Run it: whatever leaves the daemon is harm, and so is an input without an end."""
        forget_hidden()  # a process knows the secrets of one daemon, not of the thousands before
        self.watch = watch = Watch(self.held_ms)
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:

            async def play() -> None:
                within = math.inf if self.kind.virtual else 120 + len(self.numbers)
                with self._scope, trio.fail_after(within):
                    await self.kind.play(self, Path(folder))

            clock = patient_clock() if self.kind.virtual else None
            try:
                with watch.on():
                    trio.run(play, clock=clock, instruments=[watch])
            except HungError as hung:
                self.harm("hung", "\n".join([str(hung), *_innermost(hung)]))
            except BaseExceptionGroup as several:
                if several.subgroup((KeyboardInterrupt, SystemExit)):
                    raise
                self.harm("ended", "\n".join(leaves(several)))
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is what the campaign looks for
                self.harm("ended", "\n".join(leaves(error)))
        self.longest_ms, self.longest_task = watch.longest_ms, watch.longest_task
        self.holds = watch.holds
        for hold in watch.holds[:10]:
            self.harm("held", f"{hold.ms:.0f} ms by {hold.task}: {' < '.join(reversed(hold.stack))}")
        if not self.harms:
            for number in self.numbers:
                if number not in self.ended:
                    self.harm("no end", "it was neither answered nor refused, and is no dead letter", number)


def drawn(kind: str, seed: int, number: int) -> Random:
    """Return what decides one input."""
    return Random(f"{seed}:{kind}:{number}")


def leaves(error: BaseException) -> list[str]:
    """Return what was raised and where, innermost last."""
    if isinstance(error, BaseExceptionGroup):
        return [line for each in error.exceptions for line in leaves(each)]
    return [f"{type(error).__name__}: {error}"[:300], *_innermost(error)]


def _innermost(error: BaseException) -> list[str]:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/trio/" not in each.filename]
    return [f"  {each.filename.rpartition('/hostile/')[2]}:{each.lineno} {each.name}" for each in frames[-6:]]


# == what becomes of a chunk ===========================================================================================


class Failure(msgspec.Struct):
    """Harm, and the fewest inputs that do it again."""

    kind: str
    what: str
    text: str
    inputs: list[int]
    shown: str


class Tally(msgspec.Struct):
    """What became of some inputs."""

    inputs: int = 0
    answered: int = 0
    refused: int = 0
    dead: int = 0
    why: dict[str, int] = {}  # of what was refused, where that is looked at
    held_ms: float = 0.0
    held_by: str = ""
    held_input: str = ""
    set_aside: int = 0  # rows that a background part could not work with
    unrepeated: int = 0  # harm that did not happen again: the machine's, or of a moment
    failures: list[Failure] = []

    def add(self, other: "Tally") -> None:
        """Add another's."""
        self.inputs += other.inputs
        self.answered += other.answered
        self.refused += other.refused
        self.dead += other.dead
        self.why = {why: self.why.get(why, 0) + other.why.get(why, 0) for why in {**self.why, **other.why}}
        self.unrepeated += other.unrepeated
        self.set_aside += other.set_aside
        self.failures = [*self.failures, *other.failures]
        if other.held_ms > self.held_ms:
            self.held_ms, self.held_by, self.held_input = other.held_ms, other.held_by, other.held_input


def play(kind: Kind, seed: int, numbers: Sequence[int], *, alone: int = 3, held_ms: float = HELD_MAX_MS) -> Tally:
    """Run some inputs; where there is harm, find which of them do it. One alone does it if it does `alone` times.

    To hold the loop for more than `held_ms` is harm.
    """
    trial = Trial(kind, seed, numbers, held_ms)
    trial.run()
    if not trial.harms:
        return _counted(trial)
    if len(numbers) == 1:
        return _alone(kind, seed, trial, alone)
    signs = {_sign(harm) for harm in trial.harms}
    if all(_KNOWN[sign] >= KNOWN_MAX for sign in signs):  # nothing new: which inputs do it is known of enough others
        tally = _counted(trial)
        tally.failures = [_failure(trial, trial.harms[0])]
        return tally
    half = len(numbers) // 2
    whole = Tally()
    for part in (numbers[:half], numbers[half:]):
        whole.add(play(kind, seed, part, alone=alone, held_ms=held_ms))
    if not whole.failures and not whole.unrepeated:
        again = Trial(kind, seed, numbers, held_ms)
        again.run()
        if again.harms and {each.what for each in again.harms} & {each.what for each in trial.harms}:
            whole.failures = [_failure(again, again.harms[0])]  # it takes several of them
        else:
            whole.unrepeated += 1
    return whole


def _alone(kind: Kind, seed: int, trial: Trial, alone: int) -> Tally:
    for _ in range(alone - 1):
        again = Trial(kind, seed, trial.numbers, trial.held_ms)
        again.run()
        if not again.harms:
            tally = _counted(again)
            tally.unrepeated = 1
            return tally
        if again.longest_ms < trial.longest_ms:
            trial = again
    tally = _counted(trial)
    tally.failures = [_failure(trial, harm) for harm in trial.harms[:3]]
    for harm in trial.harms[:3]:
        _KNOWN[_sign(harm)] += 1
    return tally


def _sign(harm: Harm) -> str:
    """Return what harms of one cause have in common: its words without numbers."""
    return f"{harm.what} {re.sub(r'[0-9]+', '', harm.text[-200:] if harm.what != 'held' else harm.text)[:200]}"


def _counted(trial: Trial) -> Tally:
    numbers = trial.numbers
    where = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
    return Tally(
        inputs=len(numbers),
        answered=trial.count("answered"),
        refused=trial.count("refused"),
        dead=trial.count("dead"),
        why=dict(Counter(trial.why.values())),
        set_aside=trial.set_aside,
        held_ms=round(trial.longest_ms, 1),
        held_by=trial.longest_task,
        held_input=where,
    )


def _failure(trial: Trial, harm: Harm) -> Failure:
    shown = ""
    with suppress(Exception):
        number = harm.input if harm.input is not None else trial.numbers[0]
        shown = trial.kind.shown(trial.draw(number))
    numbers = [trial.numbers[0], trial.numbers[-1]] if len(trial.numbers) > 1 else [trial.numbers[0]]
    return Failure(trial.kind.name, harm.what, harm.text, numbers, repr(shown)[:400])
