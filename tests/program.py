"""The real program in a process of its own, for tests, without what its imports cost each time.

A process that has imported the command line forks one for each call. That one has arguments, environment, folder and
standard streams of its own and leaves with the program's exit code; only its interpreter did not start anew.
"""

import atexit
import contextlib
import fcntl
import gc
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, NoReturn, Self

_REQUEST_MAX_BYTES = 256 * 1024
_FORK_MAX_S: Final = 60.0  # the first has to wait for imports
_NUMBER = struct.Struct("<q")
PROGRAM: Final = "daycare.cli.main"
_LATE = (  # what most calls import only when they need it
    "anyio",
    "cryptography.fernet",
    "cuid2",
    "daycare.base.secret_encodings",
    "daycare.features.memory.embed.vectors",
    "daycare.features.memory.search.question",
    "daycare.features.memory.search.search_scope",
    "daycare.ops.doctor.checks",
    "daycare.store.sqlite.store",
    "daycare_migrations",
    "httpcore",
    "httpx",
    "hypercorn.trio",
    "prompt_toolkit.shortcuts",
    "rich.console",
    "rich.table",
    "structlog",
)


class Started:
    """A process that runs the program. It is the caller's to end; `with` kills it where it is still there."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        stdin: str,
        cwd: Path | None,
        terminal: int | None,
        module: str,
    ) -> None:
        self.arguments = ["daycare", *arguments]
        self.returncode: int | None = None
        self._closing = contextlib.ExitStack()
        enter = self._closing.enter_context
        streams = [enter(tempfile.TemporaryFile()) for _ in range(3)]  # noqa: SIM115 - `__exit__` closes them
        streams[0].write(stdin.encode())
        streams[0].seek(0)
        self._said = streams[1:]
        self._ended, told = os.pipe()
        self._closing.callback(os.close, self._ended)
        request = {
            "arguments": list(arguments),
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "terminal": terminal is not None,
            "module": module,
        }
        fds = [stream.fileno() if terminal is None else terminal for stream in streams]
        try:
            data = json.dumps(request).encode()
            socket.send_fds(_forker(os.getpid()), [data], [*fds, told])
        finally:
            os.close(told)
        pid = self._told(_FORK_MAX_S)
        assert pid is not None, "the process that forks has not answered"
        self.pid = pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self.kill()
            self.wait(_FORK_MAX_S)
        self._closing.close()

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        if self.returncode is None:
            self.returncode = self._told(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait until it ends; return its exit code. Raises `subprocess.TimeoutExpired` when it does not in time."""
        if self.returncode is None:
            self.returncode = self._told(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def said(self) -> tuple[str, str]:
        """Return what it has written to its output and to its errors."""
        out, errors = (_text(stream.fileno()) for stream in self._said)
        return out, errors

    def _told(self, deadline_s: float) -> int | None:
        """Return the next number that is told, None if it does not come in time. Each has its size: two may wait."""
        if not select.select([self._ended], [], [], deadline_s)[0]:
            return None
        number: int = _NUMBER.unpack(os.read(self._ended, _NUMBER.size))[0]
        return number


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: str = "",
    cwd: Path | None = None,
    terminal: int | None = None,
    module: str = PROGRAM,
) -> Started:
    """Start `daycare` with these arguments and return at once; where its `terminal` is given, that has its streams.

    `module` is the one whose `main` is called.
    """
    return Started(arguments, env, stdin, cwd, terminal, module)


def call(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: str = "",
    cwd: Path | None = None,
    module: str = PROGRAM,
    deadline_s: float,
) -> "subprocess.CompletedProcess[str]":
    """Run `daycare` with these arguments until it ends. Raises `subprocess.TimeoutExpired` as `subprocess.run` does."""
    with start(arguments, env=env, stdin=stdin, cwd=cwd, module=module) as process:
        code = process.wait(deadline_s)
        return subprocess.CompletedProcess(process.arguments, code, *process.said())


def _text(fd: int) -> str:
    said = os.pread(fd, os.fstat(fd).st_size, 0)  # its place in the file is that of the process, too
    return said.decode().replace("\r\n", "\n")


@cache
def _forker(_of: int) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()], start_new_session=True
        )
    atexit.register(process.kill)
    return ours


# -- the process that forks --------------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    _prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        data, fds, _, _ = socket.recv_fds(requests, _REQUEST_MAX_BYTES, 4)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            _wait_for(data, fds)
        for fd in fds:
            os.close(fd)


def _prepare() -> None:
    """Have what each call would import or build anew: each takes half the time that it took."""
    import typer.main

    import daycare.api.app
    import daycare.api.server
    import daycare.cli.main
    import daycare.process

    for name in _LATE:
        import_module(name)
    for plugin in entry_points(group="daycare.plugins"):
        if plugin.module.startswith(("daycare.", "daycare_plugins.")):
            plugin.load()
    command = typer.main.get_command(daycare.cli.main.app)
    typer.main.get_command = lambda typer_instance: command
    with contextlib.redirect_stdout(io.StringIO()):  # what reads arguments and writes help is imported late, too
        command(["keys", "--help"], prog_name="daycare", standalone_mode=False)
    gc.freeze()  # what is here already is not looked at, so not copied, in every process anew


def _wait_for(data: bytes, fds: Sequence[int]) -> NoReturn:
    """Fork the program and tell of its process and then of its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(fds[3])
        _be(json.loads(data), fds[:3])
    for fd in fds[:3]:  # a terminal is at its end when nobody has it any more
        os.close(fd)
    os.write(fds[3], _NUMBER.pack(pid))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(fds[3], _NUMBER.pack(code))
    os._exit(0)


def _be(request: Mapping[str, object], fds: Sequence[int]) -> NoReturn:
    import time

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, max(fds) + 1)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    time.tzset()
    os.chdir(str(request["cwd"]))
    sys.argv = ["daycare", *request["arguments"]]  # type: ignore[misc]
    code: object = 1
    try:
        import_module(str(request["module"])).main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
