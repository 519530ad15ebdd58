"""Killers that strike at a chosen system call of the daemon: with `strace`, or from inside where tracing is forbidden.

What there is to hit is measured first: a first start, a second one, and some work. A strike then names a call and its
ordinal in that record. `strace` counts per thread; the calls of interest are those of the home's files and sockets.
"""

import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, client_of
from tests.crash.process import Home

When = Literal["birth", "start", "work"]
WORK_MESSAGES = 24
MISSED_S = 3.0  # a call that does not come in this time after the start: the daemon is killed as it is
_NAMED = ("openat", "unlink", "unlinkat", "rename", "renameat", "link", "linkat")  # many are not ours: imports
_OFTEN = ("fdatasync", "pwrite64", "write", "sendto")  # what a promise is made of
_OFTEN_WEIGHT = 3  # against any other call
_CALLS = ",".join(f"?{call}" for call in (*_OFTEN, *_NAMED, "fsync", "ftruncate"))  # "?": not every machine has it
_STRACE = ("strace", "-f", "-qq")  # not --seccomp-bpf: it is quicker, and on some kernels the signal never comes
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")
Targets = dict[str, list[int]]  # a call's name, and which of them are worth hitting


class Injector:
    """Starts daemons that die at a chosen call; `Strace` and `Inside` know how."""

    traced: bool

    def __init__(self) -> None:
        self._targets: dict[When, Targets] = {}
        self.missed = 0
        self.hits: Counter[str] = Counter()
        self._chosen = ""

    async def prepare(self, rng: random.Random) -> None:
        """Record which calls a first start, a later one and some work make."""
        home = Home()
        try:
            self._targets["birth"] = await self._record(home, 0)
            self._targets["start"] = started = await self._record(home, 0)
            worked = await self._record(home, WORK_MESSAGES)
        finally:
            home.remove()
        self._targets["work"] = {
            call: [n for n in ordinals if n > max(started.get(call, [0]))] or ordinals
            for call, ordinals in worked.items()
        }

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """Start a daemon that dies at a random call of a random kind."""
        targets = self._targets[when]
        calls = sorted(targets)
        [self._chosen] = rng.choices(calls, [_OFTEN_WEIGHT if call in _OFTEN else 1 for call in calls])
        return self._start(home, self._chosen, rng.choice(targets[self._chosen]))

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Wait until it is dead; one that does not come to its call in time is killed."""
        await process.ready()
        if await process.died(MISSED_S):
            self.hits[self._chosen] += 1
        else:
            self.missed += 1
            await process.kill()

    def summary(self) -> dict[str, object]:
        """Return what to say of the strikes."""
        return {"traced": self.traced, "missed": self.missed, "hits": dict(sorted(self.hits.items()))}

    async def _record(self, home: Home, messages: int) -> Targets:
        file = home.folder / "record"
        file.unlink(missing_ok=True)
        process = self._recording(home, file)
        try:
            await process.ready()
            if messages:
                await _work(home, messages)
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()
        return self._read(file.read_text(errors="replace").splitlines(), home)

    def _recording(self, home: Home, file: Path) -> DaemonProcess:
        raise NotImplementedError

    def _start(self, home: Home, call: str, ordinal: int) -> DaemonProcess:
        raise NotImplementedError

    def _read(self, lines: Iterable[str], home: Home) -> Targets:
        raise NotImplementedError


class Strace(Injector):
    """Real system calls: the signal comes as the kernel enters the call, which then does not happen."""

    traced = True

    def _recording(self, home: Home, file: Path) -> DaemonProcess:
        return DaemonProcess(home, [*_STRACE, "-s", "200", "-o", str(file), "-e", f"trace={_CALLS}"])

    def _start(self, home: Home, call: str, ordinal: int) -> DaemonProcess:
        return DaemonProcess(home, _strace(call, ordinal))

    def _read(self, lines: Iterable[str], home: Home) -> Targets:
        return targets_of(lines, str(home.path))


class Inside(Injector):
    """Where tracing is forbidden: the daemon counts its own writes, syncs and deletions and kills itself."""

    traced = False

    def _recording(self, home: Home, file: Path) -> DaemonProcess:
        return DaemonProcess(home, module="tests.crash.hook", environment={"DAYCARE_CRASH_RECORD": str(file)})

    def _start(self, home: Home, call: str, ordinal: int) -> DaemonProcess:
        return DaemonProcess(home, module="tests.crash.hook", environment={"DAYCARE_CRASH_AT": f"{call}:{ordinal}"})

    def _read(self, lines: Iterable[str], home: Home) -> Targets:
        found: Targets = {}
        for line in lines:
            ordinals = found.setdefault(line, [])
            ordinals.append(len(ordinals) + 1)
        return found


def targets_of(lines: Iterable[str], home: str) -> Targets:
    """Read the record of `strace -f`: per call, the ordinals within its thread that are worth hitting."""
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, set[int]] = {}
    for line in lines:
        if match := _LINE.match(line):
            thread, call, rest = match.groups()
            counts[thread, call] += 1
            if call not in _NAMED or home in rest:
                found.setdefault(call, set()).add(counts[thread, call])
    return {call: sorted(ordinals) for call, ordinals in found.items()}


def _strace(call: str, ordinal: int) -> list[str]:
    inject = f"inject={call}:signal=SIGKILL:when={ordinal}"
    return [*_STRACE, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]


def choose() -> Injector:
    """Return the injector that works here."""
    return Strace() if may_trace() else Inside()


_TWO_CUTS = "import os, sys; f = open(sys.argv[1], 'wb'); [os.ftruncate(f.fileno(), n) for n in (1, 2)]"


def may_trace() -> bool:
    """Tell whether `strace` is here, may trace, and kills where it is told to."""
    if shutil.which("strace") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "written")
        done = subprocess.run(
            [*_strace("ftruncate", 2), sys.executable, "-S", "-c", _TWO_CUTS, str(target)],
            capture_output=True,
            timeout=30,
            check=False,
        )
        return done.returncode == -9 and target.exists() and target.stat().st_size == 1


async def _work(home: Home, messages: int) -> None:
    async with client_of(home.socket) as client, trio.open_nursery() as nursery:
        for number in range(1, messages + 1):
            verb = ("m", "note", "charge", "remind")[number % 4]
            body = {"text": f"{verb} s0 {number}", "key": f"work:{number}", "wait_s": 10 * (number % 2)}
            nursery.start_soon(_post, client, body)
            await trio.sleep(0.02)
        await trio.sleep(1.2)  # the reminders


async def _post(client: httpx.AsyncClient, body: dict[str, object]) -> None:
    (await client.post("/v1/messages", json=body)).raise_for_status()
