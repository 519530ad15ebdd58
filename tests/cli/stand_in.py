"""The program `daycare` with a stand-in for the daemon in its process, with the real lock and the fake daemon's API.

A module for `tests.program`; each embedded daemon adds a line to HOME/embedded.
"""

import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from daycare.cli import chat_link
from daycare.cli import process as cli_process
from daycare.store.home import Home, HomeLock
from tests.cli.fake_daemon import FakeDaemon

ADOPT_S = 0.5  # a window waits for another daemon to come so long


class EmbeddedDaemon:
    def __init__(self, home: Path, *, work: bool) -> None:
        self._lock = HomeLock(Home(home))
        self._mode: Any = "chat" if work else "tool"
        self._fake = FakeDaemon(home, pid=1, working=work, first=int(time.time()))
        self._stack = ExitStack()

    def __enter__(self) -> "EmbeddedDaemon":
        self._lock.acquire(self._mode, time.time_ns() // 1_000_000)
        self._stack.enter_context(self._lock)
        self._stack.enter_context(self._fake)
        with (self._fake.socket.parent / "embedded").open("a") as stream:
            stream.write(f"{self._mode}\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def initialise(
    home: Path,
    *,
    agent_name: str,
    user_name: str,
    user_id: str | None,
    tone: str,
    personality: str,
    zone: str,
    embedder: str,
) -> dict[str, Any]:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.toml").write_text(f"# {agent_name}|{user_name}|{user_id}|{tone}|{personality}|{zone}\n")
    return {"home": str(home), "agent": f"/{user_id}/direct"}


def become_daemon(home: Path, *, as_json: bool, breaker: bool) -> NoReturn:
    assert breaker
    print(f"runs {home}, errors {'as JSON' if as_json else 'in words'}")
    raise SystemExit(7)


def modules() -> dict[str, ModuleType]:
    """Return what stands where `daycare` has the real ones."""
    process, setup = ModuleType("process"), ModuleType("setup")
    process.__dict__.update(EmbeddedDaemon=EmbeddedDaemon)
    setup.__dict__.update(
        initialise=initialise,
        AGENT_NAME="Bo",
        TONE="dry",
        PERSONALITY="default",
        local_zone=lambda: "Europe/Paris",
        usual_embedder=lambda: "none",
    )
    return {"daycare.process": process, "daycare.ops.setup": setup}


def main() -> None:
    import daycare.cli.main

    chat_link.EventFollower = partial(chat_link.EventFollower, adopt_s=ADOPT_S)  # type: ignore[assignment, misc]
    vars(cli_process).update(become_daemon=become_daemon)
    for name, module in modules().items():
        sys.modules[name] = module
        package, _, own = name.rpartition(".")
        setattr(sys.modules[package], own, module)
    daycare.cli.main.main()
