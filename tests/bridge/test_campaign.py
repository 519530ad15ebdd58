"""A short slice of the campaign, with a seed of its own each time."""

from tests.bridge import campaign
from tests.bridge.helpers import real
from tests.chance import SEED, WHOLE

KILLS = 6 if WHOLE else 3


async def test_some_kills_lose_double_and_reorder_nothing() -> None:
    print(f"SEED={SEED}")
    report = await campaign.run(KILLS, SEED)
    assert not report.harm, (SEED, report.findings[:5])
    assert report.figures["kills"] >= KILLS


@real
async def test_kills_of_daemon_and_sandboxed_bridge_lose_and_double_nothing() -> None:
    print(f"SEED={SEED}")
    report = await campaign.run(KILLS, SEED, sandboxed=True)
    assert not report.harm, (SEED, report.findings[:5])
    assert report.figures["kills"] >= KILLS
