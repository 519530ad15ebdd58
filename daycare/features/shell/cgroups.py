"""A control group for one command, where the kernel and our rights allow one: processes, memory, the least of the CPU.

Version 2 has one hierarchy, version 1 one for each of these. Without a group the limits of each process bound it.
"""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from daycare.base.workspace import ShellSection

_MOUNT: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "daycare-shell-"
_WANTED: Final = ("pids", "memory", "cpu")


class ControlGroup(NamedTuple):
    """Folders of one group; `bounds` are what it bounds, of pids, memory and cpu."""

    folders: tuple[Path, ...]
    bounds: frozenset[str]

    @property
    def doors(self) -> tuple[str, ...]:
        """The files that a process writes itself into."""
        return tuple(str(folder / "cgroup.procs") for folder in self.folders)

    def end(self) -> None:
        """Kill all that is in it."""
        for folder in self.folders:
            with suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
                return
        for folder in self.folders[:1]:
            with suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)


@contextmanager
def control_group(bounds: ShellSection) -> Iterator[ControlGroup]:
    """Make a group for the length of a `with` block; one without folders where none can be made."""
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    folders: list[Path] = []
    bound: set[str] = set()
    for controllers, parent in _parents():
        folder = parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        folders.append(folder)
        bound |= {each for each in controllers if _bind(folder, each, bounds)}
    made = ControlGroup(tuple(folders), frozenset(bound))
    try:
        yield made
    finally:
        made.end()
        for folder in folders:
            _remove(folder)


def sweep() -> None:
    """End the groups of daemons that were killed, with all that is still in them."""
    for _, parent in _parents():
        for folder in parent.glob(f"{_PREFIX}*-*"):
            if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
                ControlGroup((folder,), frozenset()).end()
                _remove(folder)


def _bind(folder: Path, controller: str, bounds: ShellSection) -> bool:
    wanted: dict[str, list[tuple[str, str]]] = {
        "pids": [("pids.max", str(bounds.processes + 2))],  # with bubblewrap's own
        "memory": [
            ("memory.max", str(bounds.memory_mb << 20)),
            ("memory.swap.max", "0"),
            ("memory.limit_in_bytes", str(bounds.memory_mb << 20)),
        ],
        "cpu": [("cpu.weight", "20"), ("cpu.shares", "200")],
    }
    done = False
    for file, value in wanted[controller]:
        if (folder / file).exists():
            with suppress(OSError):
                (folder / file).write_text(value)
                done = True
    return done


def _remove(folder: Path) -> None:
    for _ in range(200):  # what was killed takes a moment to be gone
        try:
            folder.rmdir()
        except FileNotFoundError:
            break
        except OSError:
            signal.sigtimedwait([], 0.005)


def _parents() -> Iterator[tuple[list[str], Path]]:
    """Yield folders in which a group may be made, each with what it can bound."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, named, path = line.split(":", 2)
        if not named:
            yield from _second(path)
            continue
        known = [each for each in named.split(",") if each in _WANTED]
        if known:
            mounted = _MOUNT / named
            inner = mounted / path.lstrip("/")
            yield known, inner if inner.is_dir() else mounted


def _second(path: str) -> Iterator[tuple[list[str], Path]]:
    own = _MOUNT / path.lstrip("/")
    for folder in (own, own.parent):
        try:
            known = (folder / "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        found = [each for each in known if each in _WANTED]
        if found and os.access(folder, os.W_OK):
            yield found, folder
            return
