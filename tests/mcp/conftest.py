"""Where no sandbox can be started most of these tests cannot say anything."""

import pytest

from daycare.features.shell.sandbox import why_not


@pytest.fixture(autouse=True)
def sandbox() -> None:
    if why := why_not()[0]:
        pytest.skip(f"no sandbox here: {why}")
