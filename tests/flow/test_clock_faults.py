"""A slice of the campaign of clock faults; each replays with `python -m tests.flow.clock_faults --seed N`."""

import pytest

from tests.chance import sliced

from .clock_faults import run


@pytest.mark.parametrize("seed", sliced(range(1, 31), 5))
def test_a_clock_that_is_set_while_the_process_dies_holds_nothing_up(seed: int) -> None:
    run(seed)  # raises with what happened, and how to replay it
