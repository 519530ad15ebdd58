"""One command in its sandbox, from start to end: its output bounded, stopped in time, nothing of it left behind.

It runs in a thread of its own from the fork to the end: the kernel ties the sandbox to the thread that forked it, so
that it dies with a daemon that is killed.
"""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import msgspec

from daycare.base.clock import Clock
from daycare.base.errors import UnavailableError
from daycare.base.workspace import ShellSection
from daycare.features.shell.network import ENVIRONMENT as REACHING
from daycare.features.shell.sandbox import ENVIRONMENT, sandboxed
from daycare.features.workspaces.folder import WorkspaceFolder

HEAD_MAX_BYTES: Final = 32_000  # of the output: its beginning, and
TAIL_MAX_BYTES: Final = 96_000  # its end
TOLD_EVERY_S: Final = 0.5
LOOKED_EVERY_S: Final = 0.1
DISK_SPARE_BYTES: Final = 256 * 1024 * 1024  # the daemon's own: below that no command goes on

_READ_BYTES: Final = 65_536
_INODES_MAX: Final = 200_000
_TOLD_MAX_CHARS: Final = 200


class ShellResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `output` has its beginning and end; `code` is None where it was `stopped` for a reason."""

    output: str
    code: int | None
    stopped: str = ""
    seconds: float = 0.0


class ShellRun:
    """`run` blocks; `stop` may be called meanwhile from any thread. `tell` hears the last line now and then.

    `files` are there to be read besides the workspace, by their paths in the sandbox.
    """

    def __init__(
        self,
        command: str,
        folder: WorkspaceFolder,
        bounds: ShellSection,
        clock: Clock,
        tell: Callable[[str], None],
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self._command, self._folder, self._bounds = command, folder, bounds
        self._files = files
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = ""
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def stop(self, why: str) -> None:
        """Kill the command and all that it has started; does nothing once it has ended."""
        with self._lock:
            self._stopped = self._stopped or why
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def said(self) -> str:
        """Return what it has printed so far: the beginning and the end."""
        gap = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return bytes(self._head + gap + self._tail).decode(errors="replace")

    def run(self, door: int | None = None) -> ShellResult:
        """Run it, with the network that `door` gives it if any does.

        Raises `UnavailableError` SHELL_START, and what opening the workspace raises.
        """
        began = self._clock.steady_s()
        with self._folder.opened() as folder:
            try:
                with sandboxed(self._command, folder, self._bounds, self._files, door) as (line, handles, _):
                    environment = ENVIRONMENT if door is None else ENVIRONMENT | REACHING
                    code = self._run(line, handles, environment, folder, began)
            except OSError as error:
                raise UnavailableError("SHELL_START", f"starting a sandbox: {error}", hint="daycare doctor") from None
        seconds = self._clock.steady_s() - began
        if self._stopped:
            return ShellResult(output=self.said(), code=None, stopped=self._stopped, seconds=seconds)
        return ShellResult(output=self.said(), code=code, seconds=seconds)

    def _run(
        self, line: list[str], handles: tuple[int, ...], environment: dict[str, str], folder: int, began: float
    ) -> int:
        with self._lock:
            if self._stopped:
                return -1
            self._process = process = subprocess.Popen(  # noqa: S603
                line,
                env=environment,
                cwd="/",
                stdin=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=handles,
                start_new_session=True,
            )
        try:
            assert process.stdout is not None
            self._follow(process.stdout.fileno(), folder, began)
            process.wait()
        finally:
            self.stop("the daemon stopped it" if process.returncode is None else "")
            process.wait()
            with self._lock:
                self._process = None
            if process.stdout is not None:
                process.stdout.close()
        return process.returncode

    def _follow(self, output: int, folder: int, began: float) -> None:
        """Read what it writes until it ends; stop it where it takes too long, or fills the disk."""
        poll = select.poll()
        poll.register(output, select.POLLIN | select.POLLHUP)
        before, told, looked = os.statvfs(folder), began, began
        while True:
            if poll.poll(LOOKED_EVERY_S * 1000):
                if not (data := os.read(output, _READ_BYTES)):
                    return
                self._take(data)
            now = self._clock.steady_s()
            if now - began > self._bounds.seconds:
                self.stop(f"it took longer than {self._bounds.seconds} s")
            if now - looked >= LOOKED_EVERY_S:
                looked = now
                if why := self._filled(before, os.statvfs(folder)):
                    self.stop(why)
            if now - told >= TOLD_EVERY_S:
                told = now
                last = bytes(self._tail or self._head)[-_READ_BYTES:].decode(errors="replace").strip()
                if last:
                    self._tell(last.splitlines()[-1][:_TOLD_MAX_CHARS])

    def _filled(self, before: os.statvfs_result, now: os.statvfs_result) -> str:
        written = (before.f_bavail - now.f_bavail) * now.f_frsize
        if written > self._bounds.disk_mb << 20 or before.f_favail - now.f_favail > _INODES_MAX:
            return f"it filled the disk with more than {self._bounds.disk_mb} MB, or with too many files"
        if now.f_bavail * now.f_frsize < DISK_SPARE_BYTES and written > 0:
            return "the disk is full"
        return ""

    def _take(self, data: bytes) -> None:
        room = HEAD_MAX_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if (over := len(self._tail) - TAIL_MAX_BYTES) > 0:
            del self._tail[:over]
            self._left_out += over
