"""TLS of our own: a certificate and its key, read again when they change; what is open keeps what it began with."""

import ssl
import stat
from pathlib import Path
from typing import Final

from daycare.observe import log
from daycare.settings import Live

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_Stamp = tuple[tuple[str, int, int, int], ...]


class Certificates:
    """The pair that `[api] cert` and `key` name. One that cannot be used is told in the log, and the last one stays."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._read: _Stamp = ()  # what the files were when they were read, also if nothing came of it
        self._context: ssl.SSLContext | None = None

    @property
    def wanted(self) -> bool:
        """Whether connections are to be encrypted here."""
        return bool(self._live.now.api.cert)

    def context(self) -> ssl.SSLContext | None:
        """Return what a new connection begins with, None while there is nothing that can be used."""
        cert, key = self._live.now.api.cert_files
        now = _stamp(cert, key)
        if now != self._read:
            self._read = now
            self._renew(cert, key)
        return self._context

    def _renew(self, cert: Path, key: Path) -> None:
        if readable_by_others(key):
            log.logger().warning("api.key_readable", file=str(key), hint=f"chmod 600 {key}")
        try:
            self._context = load(cert, key)
        except OSError as error:
            hint = "the old one stays in use" if self._context else "correct [api] cert and key"
            reason = error.strerror or str(error)
            log.logger().error("api.certificate_unusable", cert=str(cert), key=str(key), reason=reason, hint=hint)
        else:
            log.logger().info("api.certificate", cert=str(cert))


def load(cert: Path, key: Path) -> ssl.SSLContext:
    """Return a context of TLS 1.2 or newer, for HTTP/1.1. Raises `OSError`, which `ssl.SSLError` is, too."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key, password=_no_password)
    return context


def readable_by_others(key: Path) -> bool:
    """Whether somebody else may read a key."""
    try:
        return bool(key.stat().st_mode & _OTHERS)
    except OSError:
        return False


def _no_password() -> str:
    """Keep OpenSSL from asking for one in the terminal."""
    return ""


def _stamp(*files: Path) -> _Stamp:
    return tuple((str(file), *_marks(file)) for file in files)


def _marks(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
