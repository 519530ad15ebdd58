"""A short slice of the campaign of stops."""

from tests.chance import SEED, WHOLE
from tests.service import campaign

STOPS = 30 if WHOLE else 3


def test_a_busy_daemon_that_is_told_to_end_loses_doubles_and_leaves_behind_nothing() -> None:
    print(f"python -m tests.service --stops {STOPS} --seed {SEED}")
    figures, stopper = campaign.run(STOPS, SEED)
    assert campaign.broken(figures, stopper) == []
    assert figures.kills == STOPS
    assert figures.acknowledged > STOPS and figures.turns > 0
