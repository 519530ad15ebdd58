"""The vault: secrets are encrypted with a key that lies in a file of its own, so a copy of the database tells nothing.

It does not protect against somebody who can read the key file, or the memory of the running daemon.
"""

import base64
import hashlib
import hmac
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from daycare.base.errors import BrokenError, ConflictError, InvalidError
from daycare.base.path import check_name
from daycare.base.secrecy import hide, hide_key

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet  # imported with the first secret: a tenth of a second, and 7 MB

VAULT_KEYS_MAX: Final = 16  # in the key file; each key is tried on a token that the newer ones do not open

_KEY_BYTES: Final = 32
_FILE_MAX_BYTES: Final = 16 * 1024
_OTHERS: Final = 0o077


def open_vault(key_file: Path) -> "Vault":
    """Read the keys, from `$CREDENTIALS_DIRECTORY/daycare-key` if systemd hands one in, else from `key_file`.

    A key file that does not exist is created, mode 0600, with a fresh key. Raises `BrokenError` for one that others
    may read, that cannot be read, or that holds anything but keys (one a line, the newest first; `#` starts a comment).
    """
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    credential = Path(folder) / "daycare-key" if folder else None
    if credential and credential.exists():
        return Vault(credential, _keys(credential, private=False), writable=False)  # its mode is systemd's care
    if not key_file.exists():
        with suppress(FileExistsError):  # another process was faster: its key is ours
            _create(key_file)
    return Vault(key_file, _keys(key_file, private=True))


def check_key_name(name: str) -> str:
    """Return `name` if a secret can be stored under it: a name, or a plugin's and one more, `telegram.family`.

    Raises `InvalidError` KEY_NAME_INVALID.
    """
    first, dot, more = name.partition(".")
    try:
        return check_name(first, "name of a key") + (dot + check_name(more, "name of a key") if dot else "")
    except InvalidError as error:
        raise InvalidError("KEY_NAME_INVALID", error.message, hint="daycare keys add openai") from None


class Vault:
    """Encrypts with the newest key, decrypts with each. Tokens are authenticated: a changed one is refused."""

    def __init__(self, file: Path, keys: list[str], *, writable: bool = True) -> None:
        self._file = file
        self._writable = writable
        self._use(keys)

    def seal(self, text: str) -> bytes:
        """Encrypt. Whatever is sealed or opened is hidden from everything that is shown."""
        hide(text)
        return self._fernet.encrypt(text.encode())

    def open(self, token: bytes) -> str:
        """Decrypt. Raises `BrokenError` SECRET_SEALED when no key fits or the token was changed."""
        from cryptography.fernet import InvalidToken

        try:
            text = self._fernet.decrypt(token).decode()
        except InvalidToken:
            raise self._sealed() from None
        hide(text)
        return text

    def load(self) -> None:
        """Import now what seals and opens, and takes a tenth of a second: to be called in a thread."""
        assert self._fernet

    def derived(self, purpose: str) -> bytes:
        """Return a secret of this installation that is good for one purpose; it changes when the key does."""
        return hmac.new(self._newest, purpose.encode(), hashlib.sha256).digest()

    def reseal(self, token: bytes) -> bytes:
        """Decrypt with whatever key fits, encrypt with the newest one. Raises `BrokenError` SECRET_SEALED."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.rotate(token)
        except InvalidToken:
            raise self._sealed() from None

    @property
    def has_older(self) -> bool:
        """Whether there are keys besides the newest one."""
        return len(self._keys) > 1

    def rotate(self) -> None:
        """Put a fresh key in front, on disk before it is used. What older keys sealed can still be opened.

        Raises `ConflictError` when the keys come from systemd, or are too many.
        """
        self._refuse_foreign()
        keys = [_new_key(), *_keys(self._file, private=True)]
        if len(keys) > VAULT_KEYS_MAX:
            raise ConflictError(
                "TOO_MANY_KEYS",
                f"rotating the key {self._file}: it holds {VAULT_KEYS_MAX} keys already",
                hint="daycare keys rotate",
            )
        self._replace(keys)

    def drop_older(self, tokens: Iterable[bytes]) -> None:
        """Leave only the newest key in the file, if it opens each of these tokens by itself.

        Raises `ConflictError` KEY_NEEDED if it does not, or when the keys come from systemd.
        """
        from cryptography.fernet import InvalidToken

        self._refuse_foreign()
        newest = self._newest.decode()
        alone = _fernet([newest])
        try:
            for token in tokens:
                alone.decrypt(token)
        except InvalidToken:
            raise ConflictError(
                "KEY_NEEDED",
                f"dropping the older keys of {self._file}: a stored secret is sealed with one of them",
                hint="daycare keys rotate",
            ) from None
        self._replace([newest])

    def _refuse_foreign(self) -> None:
        if not self._writable:
            raise ConflictError(
                "KEY_NOT_OURS",
                f"rotating the key {self._file}: systemd hands it in, it cannot be written",
                hint="put a new first line into the credential `daycare-key` and restart the daemon",
            )

    def _replace(self, keys: list[str]) -> None:
        target = self._file.resolve()
        _write_beside(target, keys).replace(target)
        _sync(target.parent)
        self._use(keys)

    def __repr__(self) -> str:
        return f"Vault({str(self._file)!r})"

    def _use(self, keys: list[str]) -> None:
        for number, key in enumerate(keys, 1):
            hide_key(key)
            _check_key(self._file, number, key)
        self._keys = keys
        self._made: MultiFernet | None = None

    @property
    def _fernet(self) -> "MultiFernet":
        if self._made is None:
            self._made = _fernet(self._keys)
        return self._made

    @property
    def _newest(self) -> bytes:
        return self._keys[0].encode()

    def _sealed(self) -> BrokenError:
        return BrokenError(
            "SECRET_SEALED",
            f"opening a stored secret: it is damaged, or was sealed with none of the {len(self._keys)} key(s) in"
            f" {self._file}",
            hint=f"restore {self._file} from your backup, or store the secret again: daycare keys add NAME",
        )


def _fernet(keys: list[str]) -> "MultiFernet":
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys])


def _check_key(file: Path, number: int, key: str) -> None:
    """Raise `BrokenError` for what Fernet would refuse, which is loaded with the first secret: it takes 7 MB."""
    try:
        right = len(base64.urlsafe_b64decode(key)) == _KEY_BYTES
    except ValueError:  # its text may hold the key
        right = False
    if not right:
        raise _unusable(file, f"key {number} is not {_KEY_BYTES} bytes in URL-safe base64")


def _new_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode()


def _keys(file: Path, *, private: bool) -> list[str]:
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if private:
                _check_private(file, found)
            text = opened.read(_FILE_MAX_BYTES + 1).decode("ascii")
    except OSError as error:
        raise _unusable(file, error.strerror or str(error)) from error
    except UnicodeDecodeError:
        raise _unusable(file, "it is not text") from None
    lines = [line.strip() for line in text.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys or len(text) > _FILE_MAX_BYTES or len(keys) > VAULT_KEYS_MAX:
        raise _unusable(file, f"it holds {len(keys)} keys, expected 1 to {VAULT_KEYS_MAX}")
    return keys


def _check_private(file: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS:
        raise BrokenError(
            "KEY_FILE_UNSAFE",
            f"reading the key file {file}: others may read it (mode {stat.S_IMODE(found.st_mode):04o})",
            hint=f"chmod 600 {file}",
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise BrokenError(
            "KEY_FILE_UNSAFE",
            f"reading the key file {file}: it belongs to user id {found.st_uid}",
            hint=f"chown $(id -u) {file}",
        )


def _create(file: Path) -> None:
    """Let the file appear whole or not at all. Raises `FileExistsError` if there is one by now."""
    written = _write_beside(file, [_new_key()])
    try:
        os.link(written, file)
    except FileExistsError:
        raise
    except OSError as error:
        raise _unusable(file, error.strerror or str(error)) from error
    finally:
        written.unlink()
    _sync(file.parent)


def _write_beside(file: Path, keys: list[str]) -> Path:
    try:
        fd, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # mode 0600
        with os.fdopen(fd, "w", encoding="ascii") as opened:
            opened.write("\n".join(keys) + "\n")
            opened.flush()
            os.fsync(fd)
    except OSError as error:
        raise _unusable(file, error.strerror or str(error)) from error
    return Path(name)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unusable(file: Path, why: str) -> BrokenError:
    return BrokenError("KEY_FILE_UNUSABLE", f"using the key file {file}: {why}", hint="restore it from your backup")
