"""A daemon on loopback, and a browser."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.network.conftest import Network, network

__all__ = ["Network", "network"]

expect.set_options(timeout=20_000)  # a busy machine
# The shell shows pages with the same engine, without windows, menus and services of their own: it needs a third.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


def launched(playwright: Playwright) -> Browser:
    """Start the browser that is installed."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium is installed (Debian: apt install chromium-headless-shell)")
    with sync_playwright() as playwright:
        found = launched(playwright)
        yield found
        found.close()
