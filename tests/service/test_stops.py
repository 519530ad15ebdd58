"""A short slice of the campaign of stops."""

import random

from tests.service import campaign
from tests.slices import WHOLE

STOPS = 30 if WHOLE else 3


def test_a_busy_daemon_that_is_told_to_end_loses_doubles_and_leaves_behind_nothing() -> None:
    seed = random.randrange(1 << 16)
    print(f"python -m tests.service --stops {STOPS} --seed {seed}")
    figures, stopper = campaign.run(STOPS, seed)
    assert campaign.broken(figures, stopper) == []
    assert figures.kills == STOPS
    assert figures.acknowledged > STOPS and figures.turns > 0
