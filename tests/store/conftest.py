"""The stores that this suite runs over. A new kind joins by one entry in `STORES`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from daycare.features import open_store
from daycare.store.sqlite.store import Store
from tests.store import counting
from tests.store.samples import HandClock

Opener = Callable[[Path, HandClock], AbstractAsyncContextManager[Store]]

STORES: dict[str, Opener] = {
    "file": lambda folder, clock: open_store(str(folder / "daycare.db"), clock),
    "memory": lambda folder, clock: open_store("memory:", clock),
}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> AsyncIterator[Store]:
    async with STORES[request.param](tmp_path, clock) as store:
        yield store
        assert isinstance(store, Store)
        counting.check(store)  # whatever a test has done, what is kept counted is right
