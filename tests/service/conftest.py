"""Daemons that are forked from a process that has their imports."""

from collections.abc import Iterator

import pytest

from tests.telegram.campaign.warm import Kennel


@pytest.fixture(scope="module")
def kennel() -> Iterator[Kennel]:
    with Kennel() as opened:
        yield opened
