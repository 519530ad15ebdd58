"""Starts daemons out of a process that has imported what they need, so that a test can start some without waiting.

Each is a process of its own in a session of its own, that runs a daemon and dies of SIGKILL as any other does.
Only the start of Python and the imports are left out.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from daycare.testing.daemon_process import DaemonProcess
from tests.crash.process import REPOSITORY, Home

_IMPORTED: Final = (
    "cryptography.fernet",
    "cuid2",
    "daycare.api.app",
    "daycare.api.server",
    "daycare.cli.daemon",
    "daycare.daemon",
    "daycare.inference.anthropic",
    "daycare_plugins.offline.plugin",
    "daycare.inference.openai",
    "daycare.features.memory.embed.vectors",
    "daycare.features.memory.search.question",
    "daycare.features.memory.search.search_scope",
    "daycare_migrations",
    "daycare_plugins.telegram.outgoing",
    "daycare_plugins.telegram.plugin",
    "daycare_plugins.telegram.serving",
    "daycare_plugins.whatsapp_cloud.plugin",
    "httpcore",
    "hypercorn.trio",
    "structlog",
    "tests.telegram.campaign.mind",
    "tests.planted.faults",
)
_NO_PACE: Final = "--no-pace"
_POLL_S: Final = 0.005


class Kennel:
    """The process that they come from. Where it ends, they end.

    Without `pace` their bots send much faster than Telegram would allow: most tests would wait for nothing else.
    `also` are modules that are imported besides.
    """

    def __init__(self, *, pace: bool = True, also: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._parent = subprocess.Popen(
            [sys.executable, "-m", __name__, *([] if pace else [_NO_PACE]), *also],
            env=dict(os.environ) | {"PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parent.communicate()

    def start(
        self, home: Home, *, module: str = "daycare.cli.daemon", environment: Mapping[str, str] | None = None
    ) -> DaemonProcess:
        """Start a daemon, as `DaemonProcess` does."""
        return _Warm(self, home, module, environment)

    def ask(self, *order: Any) -> Any:
        """Give an order, and return what came of it."""
        with self._lock:
            assert self._parent.stdin is not None and self._parent.stdout is not None
            self._parent.stdin.write(json.dumps(order).encode() + b"\n")
            self._parent.stdin.flush()
            return json.loads(self._parent.stdout.readline())


class _Warm(DaemonProcess):
    def __init__(self, kennel: Kennel, home: Home, module: str, environment: Mapping[str, str] | None) -> None:
        self._kennel = kennel
        super().__init__(home, module=module, environment=environment)

    def _spawn(self, command: list[str], environment: dict[str, str]) -> "_Child":
        return _Child(self._kennel, command, environment, str(self._home.folder), str(self._errors))


class _Child:
    def __init__(self, kennel: Kennel, *order: Any) -> None:
        self._kennel = kennel
        self._status: int | None = None
        self.pid: int = kennel.ask("start", *order)

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._kennel.ask("poll", self.pid)
        return self._status

    def wait(self) -> int:
        while (status := self.poll()) is None:
            time.sleep(_POLL_S)
        return status

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


# == in the process that they come from ================================================================================


def _serve() -> None:
    for name in (*_IMPORTED, *(each for each in sys.argv[1:] if each != _NO_PACE)):
        import_module(name)
    if _NO_PACE in sys.argv:
        _hurry()
    gc.freeze()  # what is here already is not looked at, so not copied, in every daemon anew
    alive: set[int] = set()
    for line in sys.stdin:
        match json.loads(line):
            case ["start", *order]:
                pid = _start(*order)
                alive.add(pid)
                print(pid, flush=True)
            case ["poll", pid]:
                status = _status(pid)
                if status is not None:
                    alive.discard(pid)
                print(json.dumps(status), flush=True)
    for pid in alive:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _hurry() -> None:
    from daycare.messenger import governor
    from daycare_plugins.telegram import connector, rates

    quick = governor.Rate(governor.STEP_S, 3)
    connector.new_governor = partial(rates.new_governor, person=quick)  # type: ignore[attr-defined]
    governor.ASKED_S = 0.1  # type: ignore[misc]


def _status(pid: int) -> int | None:
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _start(command: list[str], environment: dict[str, str], folder: str, errors: str) -> int:
    """Fork a daemon; return its number once it has a session of its own."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        os.read(told, 1)
        os.close(told)
        return pid
    try:
        os.setsid()
        os.close(told)
        os.close(tell)
        _become(command, environment, folder, errors)
    finally:  # it never goes back to what was before the fork
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def _become(command: list[str], environment: dict[str, str], folder: str, errors: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    said = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number, target in enumerate((nothing, nothing, said)):
        os.dup2(target, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    module = command[command.index("-m") + 1]
    sys.argv = [module, *command[command.index("-m") + 2 :]]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


if __name__ == "__main__":
    _serve()
