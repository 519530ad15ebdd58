"""A commit wakes, whatever else happens at that moment."""

import pytest
import trio

from daycare.actors.lifecycle import Activation
from daycare.actors.supervisor import Supervisor
from tests.chance import WHOLE, sliced

from .wakes import interleave

SEED = 20_270_101
POSTS = 3_000 if WHOLE else 500
REPLAY = f"replay: python -m tests.simulation.wakes --seed {SEED} --count {POSTS}"


def test_no_wake_is_lost_and_nobody_is_awake_twice() -> None:
    figures = interleave(SEED, POSTS)
    assert figures.faults == 0, f"{figures}; {REPLAY}"
    assert figures.posts == POSTS, figures
    assert figures.activations > POSTS / 10, f"agents hardly slept, so this shows nothing: {figures}"


class Drowsy(Supervisor):
    """Decides to sleep, looks away for a moment, and removes the lane then: the classic way to lose a wake."""

    async def _work(self, lane: Activation) -> None:
        await super()._work(lane)
        await trio.lowlevel.checkpoint()  # the defect


class Hasty(Supervisor):
    """Takes an agent that is about to sleep for one that sleeps already."""

    def posted(self, rows: list) -> None:  # type: ignore[type-arg]
        for row in rows:
            lane = self.awake.get(row.agent_id)
            if lane is not None and lane.retiring:
                del self.awake[row.agent_id]
        super().posted(rows)


@pytest.mark.parametrize("seed", sliced(range(SEED, SEED + 3), 3))
def test_the_witness_sees_a_lost_wake(seed: int) -> None:
    figures = interleave(seed, 500, Drowsy)
    assert figures.lost > 0, figures


@pytest.mark.parametrize("seed", sliced(range(SEED, SEED + 3), 3))
def test_the_witness_sees_a_second_activation(seed: int) -> None:
    figures = interleave(seed, 500, Hasty)
    assert figures.doubles > 0, figures
