"""One lock per bot: two daemons of one OS user never ask Telegram for the same bot's messages."""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daycare.base.errors import ConflictError

_PERSON: Final = b"daycare.telegram"  # separates these hashes from all others; at most 16 bytes
_TOLD_MAX_BYTES: Final = 1_000


@contextmanager
def locked(bot: str, owner: str) -> Iterator[None]:
    """Hold the lock of a bot, which is named by its server and id; `owner` is what others are told meanwhile.

    Raises `ConflictError` TELEGRAM_LOCKED that names who holds it. The kernel frees it when its process ends, however
    it ends. Raises `OSError` where no lock can be kept.
    """
    name = hashlib.blake2b(bot.encode(), digest_size=16, person=_PERSON).hexdigest()
    file = os.open(_folder() / f"telegram-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(file, _TOLD_MAX_BYTES, 0).decode("utf-8", "replace").strip()
            raise ConflictError(
                "TELEGRAM_LOCKED",
                f"receiving for this bot: another daemon on this machine does ({other or 'it is just starting'})",
                hint="stop the other one, or give this one a bot of its own",
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, owner.encode()[:_TOLD_MAX_BYTES], 0)
        yield
    finally:
        os.close(file)


def _folder() -> Path:
    """Return the folder that all daemons of this OS user find, whatever home and environment they have."""
    uid = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    folder = Path(runtime) / "daycare" if _mine(Path(runtime)) else Path(tempfile.gettempdir()) / f"daycare-{uid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _mine(folder):
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def _mine(folder: Path) -> bool:
    """Whether a folder is nobody else's to write into."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
