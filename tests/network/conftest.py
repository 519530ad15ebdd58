"""A daemon that listens on loopback, with two people and a token of each kind."""

import atexit
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from daycare.api.client import Client, pause
from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon
from daycare.store.home import Home
from daycare.store.sqlite import store
from daycare.store.sqlite.engine import open_engine
from tests.stored import tell

Json = dict[str, Any]


@dataclass
class Network:
    """Where it listens, and tokens by name: `operator`, `read`, `ann` and `bob`; an empty one is none."""

    home: Path
    port: int
    daemon: Any
    tokens: dict[str, str] = field(default_factory=lambda: {"": ""})

    def call(
        self,
        who: str,
        method: str,
        route: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> httpx.Response:
        """Call the API with somebody's token."""
        sent = {"Authorization": f"Bearer {self.tokens[who]}"} if self.tokens[who] else {}
        return httpx.request(
            method,
            f"http://127.0.0.1:{self.port}{route}",
            params=query or None,
            json=body,
            headers=sent | (headers or {}),
            timeout=30.0,
            verify=False,  # there is no TLS; else each call reads all certificates of the world
            trust_env=False,  # nor a proxy: each call would look through all variables of the environment
        )

    def stream(self, who: str, *, until: str) -> list[Json]:
        """Read the events since the start as somebody sees them, up to the first of the path `until`."""
        found: list[Json] = []
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        url = f"http://127.0.0.1:{self.port}/v1/events"
        with httpx.stream("GET", url, params={"after": 0}, headers=headers, timeout=30.0) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                    if found[-1].get("path") == until:
                        break
        return [each for each in found if "event" in each]

    def locally(self, method: str, route: str, body: Any = None, **query: Any) -> Json:
        """Call the API on the socket."""
        client = Client(Home(self.home).socket)
        try:
            return client.call(method, route, body, **query)
        finally:
            client.close()

    def add(self, name: str, **wish: Any) -> str:
        """Make a token, keep and return it."""
        self.tokens[name] = self.locally("POST", "/v1/tokens", {"name": name, **wish})["token"]
        return self.tokens[name]


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with opened(tmp_path) as found:
        yield found


@contextmanager
def opened(folder: Path) -> Iterator[Network]:
    """Let a daemon listen, with its home in a folder."""
    home, port = folder / "home", free_port()
    if vars(store)["open_engine"] is open_engine:
        tokens = _settled()[1]
        shutil.copytree(_settled()[0], home)
    else:  # the store is not in the folder
        tokens = _settle(home)
        tell(home)
    config = home / "config.toml"
    section = f'\n[api]\nlisten = "127.0.0.1:{port}"\norigins = ["https://chat.example"]\n'
    config.write_text(config.read_text() + section)
    with EmbeddedDaemon(home, work=True) as daemon:
        _listens(port)
        yield Network(home, port, daemon, dict(tokens))


def _listens(port: int) -> None:
    """Return when somebody listens."""
    give_up = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < give_up, "the daemon does not listen"
            pause(0.005)


@cache
def _settled() -> tuple[Path, dict[str, str]]:
    """Make one home that all others are copies of: to make it takes longer than to let a daemon listen."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return folder / "home", _settle(folder / "home")


def _settle(home: Path) -> dict[str, str]:
    """Make a home of two people; return its tokens."""
    home.mkdir(mode=0o700)
    initialise(home, user_id="ann")
    with EmbeddedDaemon(home, work=True) as daemon:
        found = Network(home, 0, daemon)
        found.locally("POST", "/v1/users", {"id": "bob"})
        for name, wish in (
            ("operator", {"may": "operator"}),
            ("read", {"may": "read"}),
            ("ann", {}),
            ("bob", {"user": "bob"}),
        ):
            found.add(name, **wish)
    return found.tokens
