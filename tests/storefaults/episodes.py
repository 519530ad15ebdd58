"""Episodes: the same day again and again, each under other weather of the disk that holds the database."""

import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import msgspec

from daycare.testing.clock import VirtualClock
from daycare.testing.daemon_process import die_tidily
from tests.storefaults.campaign import Counts, Day, Harm, judge, live
from tests.storefaults.places import Disk
from tests.storefaults.weather import Spell, Weather, forecast


class Figures(Counts, kw_only=True):
    """What came of so many episodes."""

    episodes: int = 0
    failures: dict[str, int] = msgspec.field(default_factory=dict)  # by the kind of the weather


def run(episodes: int, seed: int, jobs: int = 1) -> Figures:
    """Live through so many episodes: the n-th has the seed `seed` + n."""
    numbers = range(seed, seed + episodes)
    figures = Figures()
    if jobs == 1:
        _add(figures, live_through(numbers))
        return figures
    with ProcessPoolExecutor(jobs, get_context("spawn"), die_tidily) as pool:
        for found in pool.map(live_through, [numbers[job::jobs] for job in range(min(jobs, episodes))]):
            _add(figures, found)
    return figures


def live_through(numbers: Iterable[int]) -> list[tuple[int, Day, Harm]]:
    """Live through the episodes with these seeds."""
    good = live(Disk)
    assert not good.ended, good.ended
    found = []
    for number in numbers:
        spells = forecast(number)
        day = live(partial(_weather, spells=spells, seed=number))
        harm = judge(good, day)
        if harm:
            print(f"seed {number}, {'; '.join(map(str, spells))}: {harm}", file=sys.stderr, flush=True)
        found.append((number, day, harm))
    return found


def _weather(clock: VirtualClock, spells: tuple[Spell, ...], seed: int) -> Disk:
    return Weather(clock, spells, seed)


def _add(figures: Figures, found: list[tuple[int, Day, Harm]]) -> None:
    for number, day, harm in found:
        figures.episodes += 1
        figures.struck += day.failures > 0
        figures.failures = dict(sorted((Counter(figures.failures) + day.met).items()))
        figures.refusals_told += day.told
        for name in Harm.__struct_fields__:
            setattr(figures, name, getattr(figures, name) + len(getattr(harm, name)))
        if harm:
            figures.findings[f"--episodes 1 --seed {number}"] = harm
