"""What holds for every test."""

from collections.abc import Iterator

import pytest

from daycare.base.secrecy import forget_hidden


@pytest.fixture(autouse=True)
def no_secrets_of_others() -> Iterator[None]:
    """A process knows a handful of secrets; with the hundreds of all tests each line would cost a millisecond."""
    yield
    forget_hidden()
