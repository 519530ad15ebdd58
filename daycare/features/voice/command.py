"""A program of the operator's own that hears or speaks: run on files in a folder of its own, with bounds.

It reads what strangers sent, so it runs in the sandbox of agents' commands, without network, where one can be started;
else as a process with the same bounds of its own. The folder is gone when it has ended.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from daycare.base.clock import Clock
from daycare.base.errors import UnavailableError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.workspace import ShellSection

if TYPE_CHECKING:
    from daycare.features.shell.running import ShellRun

SAID: Final = "said"  # where its output goes
PROCESSES_MAX: Final = 64  # a thread counts as one
TOLD_MAX_CHARS: Final = 200  # of its last line, where it fails

_DISK_MB: Final = 64
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_BOUND: Final = (
    'ulimit -c 0; ulimit -t {cpu}; ulimit -f {blocks}; ulimit -v {memory}; ulimit -n 1024; exec /bin/sh -c "$1"'
)


class VoiceProgram(NamedTuple):
    """A command line: words with placeholders, and what it may use."""

    words: tuple[str, ...]
    seconds: int
    memory_mb: int
    readable: tuple[str, ...]

    @property
    def bounds(self) -> ShellSection:
        """As those of a shell's command."""
        from daycare.features.shell.sandbox import program_folders

        found = shutil.which(self.words[0]) or self.words[0]
        return ShellSection(
            readable=(*program_folders(found), *self.readable),
            seconds=self.seconds,
            processes=PROCESSES_MAX,
            memory_mb=self.memory_mb,
            disk_mb=_DISK_MB,
        )

    def line(self, names: Mapping[str, str], stdin: str) -> str:
        """Return it as a line of a shell, with names in place of the placeholders."""
        words = [shutil.which(self.words[0]) or self.words[0], *self.words[1:]]
        for key, name in names.items():
            words = [word.replace(f"{{{key}}}", name) for word in words]
        return f"{shlex.join(words)} < {stdin} > {SAID}"


class CommandRunner:
    """Runs programs, each in a new folder below `home`, which nobody else writes to."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._home, self._clock = home, clock

    def sweep(self) -> None:
        """Remove what programs have left that a killed daemon ran."""
        shutil.rmtree(self._home, ignore_errors=True)

    async def run(
        self, program: VoiceProgram, given: Mapping[str, bytes], names: Mapping[str, str], wanted: str, stdin: str = ""
    ) -> bytes:
        """Run a program over files by name and return the file `wanted`, or what it said where that is not there.

        Raises `UnavailableError` VOICE_COMMAND with its last line. Cancelled, it is killed.
        """
        self._home.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._home, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            for each, data in given.items():
                await trio.Path(folder, each).write_bytes(data)  # off the loop: twenty megabytes would hold it up
            line = program.line(names, stdin or "/dev/null")
            code, told = await self._carried_out(folder, line, program.bounds)
            if code != 0:
                last = "".join(told.strip().splitlines()[-1:])[:TOLD_MAX_CHARS].rstrip(".")
                why = f"it ended with {code}{f': {last}' if last else ''}" if code is not None else told
                what = f"running {Path(program.words[0]).name}: {why}"
                raise UnavailableError("VOICE_COMMAND", what, hint="try it by hand; daycare voice test FILE")
            found = next((each for each in (folder / wanted, folder / SAID) if each.is_file()), None)
            return b"" if found is None else await trio.to_thread.run_sync(_beginning, found)

    async def _carried_out(self, folder: Path, line: str, bounds: ShellSection) -> tuple[int | None, str]:
        """Return its status, None if it was stopped, and the end of what it printed besides, or why."""
        from daycare.features.shell.running import ShellRun
        from daycare.features.shell.sandbox import why_not
        from daycare.features.workspaces.folder import WorkspaceFolder

        if (await trio.to_thread.run_sync(why_not))[0]:
            return await _plain(folder, line, bounds)
        run = ShellRun(line, WorkspaceFolder(folder.parent, folder.name), bounds, self._clock, lambda _: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_when_cancelled, run)
            result = await trio.to_thread.run_sync(run.run, limiter=_threads)
            nursery.cancel_scope.cancel()
        return result.code, result.stopped or result.output


async def _stop_when_cancelled(run: "ShellRun") -> None:
    try:
        await trio.sleep_forever()
    finally:
        run.stop("nobody waits for it any more")


async def _plain(folder: Path, line: str, bounds: ShellSection) -> tuple[int | None, str]:
    script = _BOUND.format(cpu=bounds.seconds, blocks=bounds.disk_mb << 11, memory=bounds.memory_mb << 10)
    start = partial(
        trio.lowlevel.open_process,
        ["/bin/sh", "-c", script, "sh", f"{line} 2> errors"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={"PATH": _PATH, "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        process = await start()
    except OSError as error:
        return None, str(error.strerror)
    try:
        with trio.move_on_after(bounds.seconds):
            code = await process.wait()
            return code, _beginning(folder / "errors").decode(errors="replace")
        return None, f"it took longer than {bounds.seconds} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()


def _beginning(file: Path) -> bytes:
    try:
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as it:
            return it.read(FILE_MAX_BYTES)
    except OSError:
        return b""


_threads: Final = trio.CapacityLimiter(32)  # as many as may hear and speak at once
