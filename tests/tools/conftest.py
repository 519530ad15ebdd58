"""Houses with the policies that tests of memory begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.scene import ALL_AUTO, ALL_SESSION, Scene, scene_of, settings


@pytest.fixture
async def scene(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, settings()) as each:
        yield each


@pytest.fixture
async def session(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, settings(ALL_SESSION)) as each:
        yield each


@pytest.fixture
async def auto(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, settings(ALL_AUTO)) as each:
        yield each
