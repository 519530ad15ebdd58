"""What the tests of hearing and speaking share."""

from collections.abc import Iterator

import pytest

from tests.voice.spoken import Stub, open_stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Return a program that hears what it was told."""
    with open_stub() as stub:
        yield stub
