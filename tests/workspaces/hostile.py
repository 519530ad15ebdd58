"""Ways out of a workspace by the paths of its files, tried through every door; and races of those who swap folders."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from daycare.base.errors import DaycareError
from daycare.features.workspaces.folder import WorkspaceFolder, mark_of

SECRET: Final = b"the secret outside"

_PARTS: Final = (
    *(
        "..",
        ".",
        "",
        "link",
        "to-file",
        "abs",
        "loop",
        "a",
        "hard",
        "pipe",
        "..\\..",
        "%2e%2e",
        "\uff0e\uff0e",
        "\u2024\u2024",
    ),
    *(".git", ".GIT", ".git ", ".daycare-new", "\0", "\udcff", "a" * 300, "secret", "etc", "proc", "self", "root", "~"),
)
_FIXED: Final = (
    *("../secret", "/etc/passwd", "link/secret", "to-file", "abs/passwd", "a/../../secret", "./../secret", "loop/x"),
    *("hard", "pipe", "socket", "/proc/self/root/etc/passwd", "a/./../../secret", "//etc/passwd", "link/../secret"),
    *(".git/config", "a/.git/hooks/x", ".Git/config", "\0/etc", "a\0/../secret", "", ".", "..", "~/x", "link", "abs"),
)


def stage(root: Path) -> WorkspaceFolder:
    """Make a workspace with traps in it, and a secret beside it."""
    folder = WorkspaceFolder(root, "ws", make=True)
    folder.replace("a/b.txt", b"inside", "")
    (root / "secret").write_bytes(SECRET)
    (root / "kept").write_bytes(SECRET)
    here = root / "ws"
    for name, target in (
        ("link", ".."),
        ("to-file", "../secret"),
        ("abs", "/etc"),
        ("loop", "loop"),
        ("a/up", "../.."),
    ):
        (here / name).symlink_to(target)
    os.link(root / "secret", here / "hard")
    os.mkfifo(here / "pipe")
    (here / ".git").mkdir()
    (here / ".git/config").write_bytes(SECRET)
    return folder


def doors(folder: WorkspaceFolder) -> dict[str, Callable[[str], Any]]:
    """Return what can be done with a path."""
    return {
        "read": folder.read,
        "list": lambda path: folder.entries(path, deep=True),
        "search": lambda path: folder.search("secret", path, 10),
        "write": lambda path: folder.replace(path, b"overwritten", ""),
        "replace": lambda path: folder.replace(path, b"overwritten", mark_of(SECRET)),
        "remove": lambda path: folder.replace(path, None, mark_of(SECRET)),
    }


def paths(seed: int, many: int) -> list[str]:
    """Return hostile paths."""
    chance = random.Random(seed)
    return [*_FIXED, *("/".join(chance.choices(_PARTS, k=chance.randint(1, 6))) for _ in range(many))]


def escapes(root: Path, seed: int, many: int) -> tuple[int, list[str]]:
    """Try paths through every door; return how often that was, and what got out."""
    folder = stage(root)
    before = {path: path.read_bytes() for path in (root / "secret", root / "kept", root / "ws/.git/config")}
    names = {path.name for path in root.iterdir()}
    found: list[str] = []
    tried = 0
    for path in paths(seed, many):
        for name, door in doors(folder).items():
            tried += 1
            with suppress(DaycareError):
                told = repr(door(path))
                if SECRET.decode() in told or "passwd" in told:
                    found.append(f"{name} {path!r}: {told[:80]}")
            if any(not kept.exists() or kept.read_bytes() != data for kept, data in before.items()):
                found.append(f"{name} {path!r} has changed what is outside")
                return tried, found
    if {path.name for path in root.iterdir()} != names:
        found.append("something new is outside")
    return tried, found


def race(root: Path, tries: int) -> tuple[int, list[str]]:
    """Read and write while somebody swaps a folder for a link that leads out; return tries and what got out."""
    folder = stage(root)
    here = root / "ws"
    outside = root / "outside"
    outside.mkdir()
    (outside / "b.txt").write_bytes(SECRET)
    (here / "evil").symlink_to(outside)
    (here / "real").mkdir()
    (here / "real/b.txt").write_bytes(b"inside")
    swapper = subprocess.Popen([sys.executable, "-c", _SWAPPER, str(here)])
    found: list[str] = []
    try:
        for number in range(tries):
            with suppress(DaycareError):
                if folder.read("real/b.txt") == SECRET:
                    found.append(f"read {number}")
            if number % 10 == 0:
                with suppress(DaycareError):
                    folder.replace(f"real/new{number % 7}.txt", b"x", "")
    finally:
        swapper.send_signal(signal.SIGKILL)
        swapper.wait()
    if (outside / "b.txt").read_bytes() != SECRET or len(list(outside.iterdir())) != 1:
        found.append("a write came out")
    return tries, found


_SWAPPER: Final = """
import ctypes, sys, os
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
while True:  # RENAME_EXCHANGE: one is there at every moment
    libc.renameat2(-100, b"real", -100, b"evil", 2)
"""


def kills(root: Path, rounds: int, seed: int) -> tuple[int, list[str]]:
    """Kill whoever writes at any moment; return how often, and what was neither old nor new."""
    chance = random.Random(seed)
    folder = WorkspaceFolder(root, "ws", make=True)
    texts = [bytes([letter]) * 300_000 for letter in b"ab"]
    folder.replace("file", texts[0], "")
    found: list[str] = []
    for number in range(rounds):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        os.read(writer.stdout.fileno(), 1)  # it has written once
        threading.Event().wait(chance.random() * 0.03)  # some writes take that long
        assert writer.poll() is None, "it ended by itself"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if folder.read("file") not in texts:
            found.append(f"round {number}")
        folder.replace("file", texts[0], mark_of(folder.read("file")))  # what was left behind is no hindrance
        if left := [each.path for each in folder.entries(".", deep=True)[0] if each.path != "file"]:
            found.append(f"round {number}: left {left}")
    return rounds, found


_WRITER: Final = """
import os, sys
from pathlib import Path
from daycare.features.workspaces.folder import WorkspaceFolder, mark_of
folder = WorkspaceFolder(Path(sys.argv[1]), "ws")
while True:
    for letter in b"ba":
        folder.replace("file", bytes([letter]) * 300_000, mark_of(folder.read("file")))
        os.write(1, b".")
"""
