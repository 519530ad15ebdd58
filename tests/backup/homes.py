"""Homes on the disk to be backed up, and dying in the middle of something."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import trio

from daycare.features import open_store
from daycare.features.backups.archive import BackupManifest, opened
from daycare.features.backups.backup_store import publish
from daycare.features.backups.making import Making
from daycare.features.exports.stored import anonymous
from daycare.store.home import Home
from tests.store.samples import post
from tests.stored import rows

__all__ = ["rows"]
WORDS = "correct horse battery staple"
DIED = 9
_BESIDE = ("daycare.lock", "-wal", "-shm", ".mark", ".server", ".copied")


def home_at(folder: Path, *, messages: int = 3) -> Home:
    """Return a home with a few of everything."""
    home = Home(folder)
    folder.mkdir(mode=0o700, parents=True)
    home.config.write_text("[agent]\nname = 'Nanny'\n")
    home.key_file.write_text("a key\n")
    home.log_file.write_text("a log\n")
    for name in ("memory/users/ann/USER.md", "cron/morning.md", "personalities/calm.json", "plugins/lists/state"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"what is in {name}")

    async def fill() -> None:
        async with open_store(home.database("daycare.db")) as store:
            for number in range(messages):
                await post(store, f"k{number}")

    trio.run(fill)
    return home


def make(
    home: Home,
    target: Path,
    *,
    with_key: bool = False,
    passphrase: str = "",
    check: Callable[[], None] = lambda: None,
    now_ms: int = 1_800_000_000_000,
) -> BackupManifest:
    """Make a backup of a home that nobody uses."""
    with anonymous(home.path) as file:
        Making(home, home.database("daycare.db"), now_ms, with_key, check, pause=False).write(file)
        file.seek(0)
        return publish(iter(partial(file.read, 65_536), b""), target, passphrase)


def contents(file: Path, passphrase: str = "") -> dict[str, bytes]:
    """Return the files in a backup."""
    found: dict[str, bytes] = {}
    with opened(file, lambda: passphrase) as archive:
        for entry, pieces in archive.files():
            found[entry.path] = found.get(entry.path, b"") + b"".join(pieces)
    return found


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, but the lock and what is beside a database: of SQLite's, or of a test's."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith(_BESIDE))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def dies(work: Callable[[], object]) -> bool:
    """Do something in a process of its own; return whether it was killed in the middle by `die`."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - nothing of the parent's test may run on here
            print(f"the child failed: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, DIED), code
    return code == DIED


class Death:
    """Kills this process at the n-th call, like `kill -9`: nothing is tidied up."""

    def __init__(self, n: int) -> None:
        self._left = n

    def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os._exit(DIED)


def numbers(step: int = 1) -> Iterator[int]:
    """Yield 1, 1 + step, ... without end."""
    number = 1
    while True:
        yield number
        number += step
