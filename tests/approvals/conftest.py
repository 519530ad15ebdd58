"""The house in which tests of approvals happen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted
from tests.approvals.story import Proposing, Scene, ann


@pytest.fixture
async def scene(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    pigeon, proposing, model, calendar = FakeConnector(), Proposing(), Scripted(), VirtualClock()
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin(), proposing.plugin()], clock=calendar) as house:
        proposing.enter(house)
        yield Scene(calendar, house, pigeon, model, await ann(house))
