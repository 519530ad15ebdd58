"""The real program in a process of its own, for tests, without what its imports cost each time.

A process that has imported the command line forks one for each call. That one has arguments, environment, folder and
standard streams of its own and leaves with the program's exit code; only its interpreter did not start anew.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

_REQUEST_MAX_BYTES = 256 * 1024
_NUMBER = struct.Struct("<q")


def call(
    arguments: Sequence[str], *, env: Mapping[str, str], stdin: str = "", cwd: Path | None = None, deadline_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run `daycare` with these arguments until it ends. Raises `subprocess.TimeoutExpired` as `subprocess.run` does."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(stdin.encode())
        streams[0].seek(0)
        ended, told = os.pipe()
        stack.callback(os.close, ended)
        request = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd or Path.cwd())}
        try:
            data = json.dumps(request).encode()
            socket.send_fds(_forker(os.getpid()), [data], [*(stream.fileno() for stream in streams), told])
        finally:
            os.close(told)
        pid = _told(ended, deadline_s)
        assert pid is not None, "the process that forks has not answered"
        code = _told(ended, deadline_s)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["daycare", *arguments], deadline_s)
        out, errors = (_text(stream.fileno()) for stream in streams[1:])
    return subprocess.CompletedProcess(["daycare", *arguments], code, out, errors)


def _told(fd: int, deadline_s: float) -> int | None:
    """Return the next number that is told, None if it does not come in time. Each has its size: two may wait there."""
    if not select.select([fd], [], [], deadline_s)[0]:
        return None
    number: int = _NUMBER.unpack(os.read(fd, _NUMBER.size))[0]
    return number


def _text(fd: int) -> str:
    with open(fd, "rb", closefd=False) as stream:
        stream.seek(0)
        return stream.read().decode().replace("\r\n", "\n")


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
    import daycare.api.app
    import daycare.api.server
    import daycare.cli.main
    import daycare.ops.process  # noqa: F401

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


def _wait_for(data: bytes, fds: Sequence[int]) -> NoReturn:
    """Fork the program and tell of its process and then of its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(fds[3])
        _be(json.loads(data), fds[:3])
    os.write(fds[3], _NUMBER.pack(pid))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(fds[3], _NUMBER.pack(code))
    os._exit(0)


def _be(request: Mapping[str, object], fds: Sequence[int]) -> NoReturn:
    import time

    from daycare.cli.main import main

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, max(fds) + 1)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    time.tzset()
    os.chdir(str(request["cwd"]))
    sys.argv = ["daycare", *request["arguments"]]  # type: ignore[misc]
    code: object = 1
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
