"""One export of a life, made once: what it takes to move it is what the tests are about."""

import tempfile
from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.testing.clock import patient_clock
from tests.exports.houses import exported, house_at, lived


@pytest.fixture(scope="session")
def life() -> bytes:
    """The export of an agent that has lived a while, with what is shared."""
    found: list[bytes] = []

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with house_at(Path(folder) / "here") as house:
                await lived(house)
                found.append((await exported(house, shared=True))[1])

    trio.run(live, clock=patient_clock())
    return found[0]
