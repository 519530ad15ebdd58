"""The house in which tests of approvals happen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daycare.testing.clock import VirtualClock
from daycare.testing.house import open_house
from daycare.testing.pigeon import Pigeon
from daycare.testing.scripted import Scripted
from tests.approvals.story import Proposing, Scene, ann


@pytest.fixture
async def scene(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    pigeon, proposing, model, calendar = Pigeon(), Proposing(), Scripted(), VirtualClock()
    async with open_house(tmp_path, model, plugins=[pigeon.plugin(), proposing.plugin()], clock=calendar) as house:
        proposing.enter(house)
        yield Scene(calendar, house, pigeon, model, await ann(house))
