"""A bridge's process, forked by a thread that waits for it to end.

The kernel ties what runs in bubblewrap to the *thread* that forked it (`--die-with-parent`), not to the daemon's
process. A borrowed worker thread is gone after some idle seconds, and the bridge with it; this one stays for as long as
the bridge runs. So a daemon that is killed takes its sandboxed bridges along at once, deaf ones too: the next daemon
never finds an older bridge that still uses the same account.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import IO

import trio


class BridgeProcess:
    """A running bridge: its streams, and its end."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self.pid = popen.pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = _stream(popen.stdin), _stream(popen.stdout), _stream(popen.stderr)
        self._ended = trio.Event()

    async def wait(self) -> None:
        """Wait until it has ended; `returncode` is known then."""
        await self._ended.wait()

    async def aclose(self) -> None:
        """Close its streams."""
        for stream in (self.stdin, self.stdout, self.stderr):
            await stream.aclose()

    def end(self, returncode: int) -> None:
        """Note that it has ended."""
        self.returncode = returncode
        self._ended.set()


async def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    task_status: trio.TaskStatus[BridgeProcess],
) -> None:
    """Start a process that leads a group of its own, and wait for its end. Raises `OSError` if it cannot be started.

    Cancelling does not end it: whoever starts one ends it.
    """

    def live() -> None:
        popen = subprocess.Popen(  # noqa: S603 -- the operator wrote the command
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        process = trio.from_thread.run_sync(BridgeProcess, popen)
        trio.from_thread.run_sync(task_status.started, process)
        trio.from_thread.run_sync(process.end, popen.wait())

    await trio.to_thread.run_sync(live, limiter=trio.CapacityLimiter(1))  # its own: it holds it for long


def _stream(pipe: IO[bytes] | None) -> trio.lowlevel.FdStream:
    assert pipe is not None
    with pipe:
        return trio.lowlevel.FdStream(os.dup(pipe.fileno()))
