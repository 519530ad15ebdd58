"""What holds for every test."""

import os
import signal
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import structlog
import trio.testing

from daycare.base.secrecy import forget_hidden
from daycare.features.memory.loading import load
from daycare.plugins import discovery
from daycare.process import tune
from daycare.testing.clock import patient_clock
from tests import chance
from tests.schema import copied

chance.settle()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what it runs in the background ignore Ctrl-C, and so would every program that the tests press it in.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where no daemon has set its log up, structlog would draw an error with all values of each frame: that took up to a
# minute for one that a test provokes.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

_installed = cache(lambda points=discovery._points: tuple(points()))


@pytest.fixture(autouse=True)
def no_secrets_of_others() -> Iterator[None]:
    """A process knows a handful of secrets; with the hundreds of all tests each line would cost a millisecond."""
    yield
    forget_hidden()


def pytest_collection_finish() -> None:
    """Run as the daemon's process does; what was imported and collected is there to stay, and not looked at again."""
    load()
    tune()


THREADS: Final = "threads"
_THREADED_OF: Final = int(os.environ.get("THREADED_OF", "24"))  # tests, one runs a second time, with threads


@pytest.fixture
def autojump_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    """Virtual time. With real `threads` the house's store writes in its own, as a daemon's does."""
    if getattr(request, "param", "") == THREADS:
        monkeypatch.setattr("daycare.testing.daemon.INLINE", False)
    return patient_clock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a part of every suite with the store's real threads, too: on virtual time alone nothing is ever at once."""
    # At a chosen commit some crash, which a thread would make at its own time; others count.
    inline = hasattr(metafunc.module, "Doom") or hasattr(metafunc.module, "INLINE_ONLY")
    if "autojump_clock" in metafunc.fixturenames and not inline:
        name = metafunc.definition.nodeid
        if chance.WHOLE or zlib.crc32(name.encode()) % _THREADED_OF == 0:
            metafunc.parametrize("autojump_clock", ["", THREADS], indirect=True, ids=["inline", THREADS])


@pytest.fixture(autouse=True)
def installed_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed stays so, but for the tests of plugins: finding it takes a third of what a house does."""
    if request.path.parent.name != "plugins":
        monkeypatch.setattr("daycare.plugins.discovery._points", _installed)


@pytest.fixture(autouse=True)
def schema_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new databases be copies of one; `MIGRATES` in a module says that its own are made as a daemon makes them."""
    if not hasattr(request.module, "MIGRATES"):
        monkeypatch.setattr("daycare.store.sqlite.database.migrate", copied)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", choices=("sqlite", "postgresql"), default="sqlite", help="the engine of every store")
    parser.addoption("--memory", choices=("store", "redis"), default="store", help="where every search looks")


_LONG: Final = {  # files whose tests take longest; one that is begun last would keep a single worker busy at the end
    *("dashboard/test_campaign.py", "crash/test_campaign.py", "crash/test_between.py", "openapi/test_openapi.py"),
    *("observe/test_secrets.py", "storefaults/test_storefaults.py", "behaviours/test_clock_set.py"),
    *("flow/test_clock_set.py", "telegram/test_campaigns.py", "service/test_stops.py", "exports/test_commands.py"),
    *("slack/test_campaigns.py", "bridge/test_campaign.py", "cli/test_selftest.py", "crash/test_poison.py"),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    long = {tests / file for file in _LONG}
    assert all(map(Path.exists, long)), "a file of _LONG is gone: take it out of the list"
    items.sort(key=lambda item: item.path not in long)  # first, and all others as they were
    left_out: dict[str, str] = {}
    if config.getoption("--store") == "postgresql":
        from tests.postgres import OF_A_FILE

        left_out |= OF_A_FILE
    if config.getoption("--memory") == "redis":
        from tests.redis_server import OF_THE_STORE

        left_out |= OF_THE_STORE
    for item in items if left_out else ():
        for name in (item.path.parent.name, item.path.stem, getattr(item, "originalname", item.name), item.name):
            if why := left_out.get(name):
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(autouse=True)
def store_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With `--store postgresql` each store is a database on a server, wherever the test thinks that it is."""
    if request.config.getoption("--store") == "sqlite":
        yield
        return
    from tests import postgres

    monkeypatch.setattr("daycare.store.sqlite.store.open_engine", postgres.instead)
    monkeypatch.setattr("daycare.store.home.Home.database", postgres.where)
    monkeypatch.setattr("daycare.store.postgres.engine.open_reader", postgres.noted_reader)
    yield
    postgres.take_back()


@pytest.fixture(autouse=True)
def memory_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With `--memory redis` each search asks a copy in Redis, which has all that was committed before."""
    if request.config.getoption("--memory") == "store":
        yield
        return
    from tests import redis_server

    with redis_server.instead(monkeypatch):
        yield


class FailuresAtOnce:
    """Names a failure when it happens: a run that is cut off before its summary has told what it found."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write(f"\n{report.nodeid}: {report.when} failed\n{report.longreprtext[-3000:]}\n", flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if "tests.postgres" in sys.modules:
        sys.modules["tests.postgres"].drop_all()
    if "tests.redis_server" in sys.modules:
        sys.modules["tests.redis_server"].remove_all()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that prints, not one of its workers
        config.pluginmanager.register(FailuresAtOnce(config), "failures-at-once")
