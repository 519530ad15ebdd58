"""A short slice of the campaign, with a seed of its own each time."""

from tests.bridge import campaign
from tests.bridge.helpers import CAN_SANDBOX
from tests.chance import SEED, WHOLE

KILLS = 6 if WHOLE else 3


async def test_kills_of_bridges_and_daemons_lose_double_and_misdirect_nothing() -> None:
    print(f"SEED={SEED}")
    report = await campaign.run(KILLS, SEED)
    assert not report.harm, (SEED, report.findings[:5])
    assert report.figures["kills"] >= KILLS
    assert sum(report.figures["faults"][deed] for deed in report.figures["faults"] if deed.startswith("daemon"))
    assert bool(report.figures["daemon_lives"].get("sandboxed")) == CAN_SANDBOX
