"""Days of life with crashes at any moment leave every promise kept."""

from dataclasses import asdict

import pytest

from tests.chance import sliced

from .days import quick_folder, simulate


@pytest.mark.parametrize("seed", sliced(range(1, 21), 20))
def test_a_day_with_crashes_keeps_every_promise(seed: int) -> None:
    with quick_folder() as folder:
        figures = simulate(seed, 1, folder)  # raises with the seed, and how to replay it
    assert figures.turns > 10 * figures.dead, f"hardly anything was answered, so this shows little: {figures}"
    assert figures.helpers and figures.results and figures.continued, f"nobody helped anybody: {figures}"


@pytest.mark.parametrize("seed", sliced(range(1, 21), 20))
def test_a_day_over_the_real_writer_keeps_every_promise_also_to_those_who_hung_up(seed: int) -> None:
    """Writes wait in a queue, share commits, and lose their callers, as in a daemon."""
    with quick_folder() as folder:
        figures = simulate(seed, 0.45, folder, threads=True)
    assert figures.turns > 10 and figures.lives > 1, f"hardly anything happened: {figures}"


def test_a_seed_replays_everything() -> None:
    runs = []
    for _ in range(2):
        with quick_folder() as folder:
            runs.append(asdict(simulate(77, 0.3, folder)))
    assert runs[0] == runs[1]
    assert runs[0]["killed"] > 0, "nothing was tested"
