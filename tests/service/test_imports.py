"""What the process of a daemon does not load: each module is memory and time that somebody pays for at every start."""

import subprocess
import sys

import pytest

_DAEMON = """
import sys
import daycare.cli.daemon, daycare.daemon, daycare.api.app, daycare.api.server
import daycare.inference.anthropic, daycare.inference.openai, daycare.inference.pool
first = {*sys.modules}
from daycare.observe import log
from daycare.process import tune
tune()
log.configure("info", stderr=True)
import httpx
from h2.connection import H2Connection
print(*first)
print(*{*sys.modules} - first)
"""


@pytest.fixture(scope="module")
def loaded() -> tuple[set[str], set[str]]:
    """What a daemon loads to start, and what comes with libraries that a part of it may need later."""
    done = subprocess.run([sys.executable, "-c", _DAEMON], capture_output=True, text=True, timeout=120, check=True)
    first, later = done.stdout.splitlines()
    return {*first.split()}, {*later.split()}


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param({"pypdf", "openpyxl", "defusedxml", "bs4", "daycare.formats.parsing"}, id="documents"),
        pytest.param({"h2", "hpack", "hyperframe"}, id="http-2"),
        pytest.param({"httpx", "anyio.from_thread"}, id="httpx"),
        pytest.param({"daycare.api.openapi"}, id="the-description-of-the-api"),
        pytest.param({"daycare.testing", "daycare.cli.selftest"}, id="tests"),
        pytest.param({"daycare.rules.suspicion", "daycare.rules.vocabulary", "difflib"}, id="what-few-need"),
        pytest.param({"daycare.features.exports.engine", "daycare.features.exports.records"}, id="exports"),
        pytest.param({"daycare.store.moving.copier", "daycare.store.postgres.writer"}, id="another-store"),
        pytest.param({"structlog", "rich", "greenlet"}, id="what-comes-with-the-log"),
        pytest.param({"numpy", "mcp", "cryptography", "jinja2"}, id="parts-that-are-off"),
    ],
)
def test_a_daemon_starts_without(loaded: tuple[set[str], set[str]], modules: set[str]) -> None:
    assert "hypercorn.trio.tcp_server" in loaded[0]
    assert not modules & loaded[0]


def test_a_daemon_loads_no_command_line_of_a_library(loaded: tuple[set[str], set[str]]) -> None:
    """With httpx and structlog come a command line, rich, a highlighter and greenlet: 5 MB that no daemon needs."""
    assert {"httpx", "structlog"} <= loaded[1]
    assert {"rich", "click", "pygments", "greenlet"}.isdisjoint(loaded[0] | loaded[1])


def test_who_needs_http_2_later_has_it(loaded: tuple[set[str], set[str]]) -> None:
    assert {"h2.connection", "h2.events"} <= loaded[1]
