"""The conformance suite: green for what keeps the protocol, and a finding for each promise that is broken."""

from daycare.testing.bridge_suite import Suite
from tests.bridge.helpers import FAKE


async def test_the_fake_conforms() -> None:
    suite = Suite(FAKE)
    assert await suite.run(), suite.checks
    assert {check.state for check in suite.checks} == {"ok"}
