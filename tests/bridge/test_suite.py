"""The conformance suite: green for what keeps the protocol, and a finding for each promise that is broken."""

import sys
from pathlib import Path

import pytest

from daycare.testing.bridge_suite import Suite
from tests.bridge.helpers import FAKE


async def test_the_fake_conforms() -> None:
    suite = Suite(FAKE)
    assert await suite.run(), suite.checks
    assert {check.state for check in suite.checks} == {"ok"}


async def test_a_bridge_named_as_it_is_called_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bridge.py").write_text("import sys; sys.exit('no account is set up')")
    suite = Suite([sys.executable, "bridge.py"])
    assert not await suite.run()
    assert suite.checks[0].why == "it ended with 1 instead of hello (no account is set up)"
