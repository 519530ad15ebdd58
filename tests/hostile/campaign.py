"""The whole campaign: inputs of all kinds in chunks, several processes, and figures of what became of them."""

import multiprocessing
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.hostile.api import Api
from tests.hostile.archives import Archives
from tests.hostile.bridge import Bridge
from tests.hostile.commands import Commands
from tests.hostile.files import Files
from tests.hostile.held import HELD_MAX_MS
from tests.hostile.messages import Messages
from tests.hostile.plugins import Plugins
from tests.hostile.rendering import Rendering
from tests.hostile.telegram import Telegram
from tests.hostile.tools import Tools
from tests.hostile.trial import Failure, Kind, Tally, play

KINDS: Final[dict[str, Kind]] = {
    each.name: each
    for each in (
        Messages(),
        Commands(),
        Tools(),
        Files(),
        Rendering(),
        Telegram(),
        Plugins(),
        Archives(),
        Bridge(),
        Api(),
        Api("api-threads", virtual=False),
    )
}
# Of all inputs, in parts; an archive costs as much as forty requests.
SHARES: Final[dict[str, float]] = {
    "messages": 50, "commands": 90, "tools": 35, "files": 10, "rendering": 50, "telegram": 3, "plugins": 1,
    "archives": 2, "bridge": 10, "api": 20, "api-threads": 1,
}  # fmt: skip
SLICE: Final[dict[str, int]] = {
    "messages": 100, "commands": 200, "tools": 100, "files": 30, "rendering": 100, "telegram": 15, "plugins": 3,
    "archives": 6, "bridge": 40, "api": 100, "api-threads": 10,
}  # fmt: skip
assert SHARES.keys() == SLICE.keys() == KINDS.keys()


class Figures(msgspec.Struct, kw_only=True):
    """What came of a campaign; `failures` and the counts of harm must be empty and 0."""

    seed: int
    inputs: dict[str, int]
    total: int = 0
    answered: int = 0
    refused: int = 0
    dead: int = 0
    ended_daemons: int = 0
    hung: int = 0
    lane_broke: int = 0
    part_crashed: int = 0
    errors_5xx: int = 0
    no_end: int = 0
    vanished: int = 0
    held: int = 0
    other_harm: int = 0
    why_refused: dict[str, dict[str, int]] = {}  # by kind, of those kinds that look at it
    unrepeated: int = 0
    rows_set_aside: int = 0
    held_ms_max: float = 0.0
    held_ms_max_by: str = ""
    held_ms_max_input: str = ""
    failures: list[Failure] = []


_COUNTED: Final = {
    "ended": "ended_daemons", "hung": "hung", "LaneBroke": "lane_broke", "PartCrashed": "part_crashed",
    "5xx": "errors_5xx", "no end": "no_end", "held": "held",
    "vanished": "vanished",
}  # fmt: skip


def run(seed: int, inputs: int, only: Sequence[str], jobs: int, held_ms: float = HELD_MAX_MS) -> Figures:
    """Run so many inputs of these kinds."""
    whole = sum(SHARES[name] for name in only)
    work: list[tuple[str, int, range, float]] = []
    for name in only:
        wanted = round(inputs * SHARES[name] / whole)
        chunk = KINDS[name].chunk
        work += [(name, seed, range(at, min(at + chunk, wanted)), held_ms) for at in range(0, wanted, chunk)]
    tallies: dict[str, Tally] = {name: Tally() for name in only}
    left = Counter(name for name, *_ in work)
    if jobs == 1:
        warm(only)
        for each in work:
            _told(tallies, left, *_chunk(each))
    else:
        with multiprocessing.get_context("fork").Pool(jobs, initializer=warm, initargs=(only,)) as pool:
            for name, tally in pool.imap_unordered(_chunk, work):
                _told(tallies, left, name, tally)
    return _figures(seed, tallies)


def replay(name: str, seed: int, numbers: range, held_ms: float = HELD_MAX_MS) -> Figures:
    """Run these inputs alone."""
    warm([name])
    return _figures(seed, {name: play(KINDS[name], seed, numbers, held_ms=held_ms)})


def warm(only: Sequence[str]) -> None:
    """Let what is imported and made once be there: that is not what is measured."""
    for name in only:
        KINDS[name].ready()
        play(KINDS[name], 0, range(3), alone=1)


def _chunk(work: tuple[str, int, range, float]) -> tuple[str, Tally]:
    name, seed, numbers, held_ms = work
    return name, play(KINDS[name], seed, numbers, held_ms=held_ms)


def _told(tallies: dict[str, Tally], left: Counter[str], name: str, tally: Tally) -> None:
    tallies[name].add(tally)
    left[name] -= 1
    for failure in tally.failures:
        where = "-".join(map(str, failure.inputs))
        print(f"{failure.what}: --only {name} --input {where}: {failure.text}", file=sys.stderr, flush=True)
    if not left[name]:
        it = tallies[name]
        ends = f"{it.answered} answered, {it.refused} refused, {it.dead} dead, {len(it.failures)} harms"
        print(f"{name}: {it.inputs} inputs, {ends}, {it.held_ms:.0f} ms at most", file=sys.stderr, flush=True)


def _figures(seed: int, tallies: dict[str, Tally]) -> Figures:
    figures = Figures(seed=seed, inputs={name: tally.inputs for name, tally in tallies.items()})
    figures.total = sum(figures.inputs.values())
    for name, tally in tallies.items():
        figures.answered += tally.answered
        figures.refused += tally.refused
        figures.dead += tally.dead
        if tally.why:
            figures.why_refused[name] = dict(sorted(tally.why.items()))
        figures.unrepeated += tally.unrepeated
        figures.rows_set_aside += tally.set_aside
        figures.failures = [*figures.failures, *tally.failures]
        for failure in tally.failures:
            count = _COUNTED.get(failure.what, "other_harm")
            setattr(figures, count, getattr(figures, count) + 1)
        if tally.held_ms > figures.held_ms_max:
            figures.held_ms_max, figures.held_ms_max_by = tally.held_ms, tally.held_by
            figures.held_ms_max_input = f"--only {name} --input {tally.held_input}"
    return figures
