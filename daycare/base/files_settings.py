"""Where the bytes of files are kept: `[files]` in config.toml."""

from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from daycare.base.toml_positions import Key

FilePlace = Literal["store", "s3"]

_PREFIX = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}){0,4}$"
_HERE = ("localhost", "127.0.0.1", "::1")


class S3Section(msgspec.Struct, frozen=True, kw_only=True):
    """`[files.s3]`: a bucket that speaks the protocol of S3.

    `endpoint` is its address, `https://` but for this machine, unless `insecure` lets files cross a network without
    encryption. `key` names the stored key, `ACCESS_KEY_ID:SECRET_ACCESS_KEY`; without one those of the environment
    count (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN). All objects begin with `prefix`. `path_style`:
    the bucket stands in the path, else in the name of the server. It is waited for `timeout_s` at each try, and for a
    second more for each MB.
    """

    endpoint: Annotated[str, Meta(max_length=500)] = "https://s3.amazonaws.com"
    bucket: Annotated[str, Meta(pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$")] = ""
    region: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,64}$")] = "us-east-1"
    prefix: Annotated[str, Meta(pattern=_PREFIX)] = "daycare"
    key: Annotated[str, Meta(max_length=64)] = "s3"
    path_style: bool = True
    insecure: bool = False
    timeout_s: Annotated[float, Meta(ge=1, le=120)] = 10.0


class FilesSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[files]`: where the bytes of new files go: into the store, or into the bucket of `[files.s3]`.

    Those that are in a bucket are read there as long as its name is set, whatever `backend` says.
    """

    backend: FilePlace = "store"
    s3: S3Section = S3Section()


def flaws(section: FilesSection) -> Iterator[tuple[Key, str]]:
    """Yield what is wrong in it, by key."""
    s3 = section.s3
    if section.backend == "s3" and not s3.bucket:
        yield ("files", "s3", "bucket"), 'is needed with backend = "s3"'
    url = _read(s3.endpoint)
    if url is None:
        yield ("files", "s3", "endpoint"), 'expected such as "https://s3.eu-central-1.amazonaws.com"'
    elif url.scheme == "http" and url.hostname not in _HERE and not s3.insecure:
        yield (
            ("files", "s3", "endpoint"),
            "nothing would be encrypted on the way: expected https://, or write insecure = true",
        )


def _read(endpoint: str) -> SplitResult | None:
    """Return an address that requests can be sent to: a server alone, without an account."""
    try:
        url = urlsplit(endpoint)
        right = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return None
    right = right and endpoint.isascii() and endpoint.isprintable() and "@" not in url.netloc
    return url if right and url.path in ("", "/") and not (url.query or url.fragment) else None
