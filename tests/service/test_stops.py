"""A short slice of the campaign of stops."""

import random

from tests.service import campaign


def test_a_busy_daemon_that_is_told_to_end_loses_doubles_and_leaves_behind_nothing() -> None:
    seed = random.randrange(1 << 16)
    print(f"python -m tests.service --stops 5 --seed {seed}")
    figures, stopper = campaign.run(5, seed)
    assert campaign.broken(figures, stopper) == []
    assert figures.kills == 5
    assert figures.acknowledged > 5 and figures.turns > 0
