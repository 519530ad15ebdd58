"""A short slice of the campaign, with a seed of its own each time."""

import random

from tests.bridge import campaign
from tests.slices import WHOLE

KILLS = 6 if WHOLE else 3


async def test_some_kills_lose_double_and_reorder_nothing() -> None:
    seed = random.randrange(1, 2**31)
    print(f"seed {seed}")
    report = await campaign.run(KILLS, seed)
    assert not report.harm, (seed, report.findings[:5])
    assert report.figures["kills"] >= KILLS
