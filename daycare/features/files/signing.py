"""Signatures of requests to S3: AWS Signature Version 4, with the headers and the hash of the whole body.

Source: "Authenticating Requests: Using the Authorization Header", Amazon S3 API Reference. Without I/O.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from daycare.base.times import local_time

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SAFE: Final = "-_.~"


class S3Credentials(NamedTuple):
    """An account: its name and secret, and a token where these are good for some hours only."""

    key_id: str
    secret: str
    token: str = ""


class S3Request(NamedTuple):
    """What is asked for: `path` and `query` as they are meant, not encoded; `headers` by their names in lower case.

    `sha256` is the hash of the body, where it is known.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""
    sha256: str = ""

    @property
    def target(self) -> str:
        """The path with the query, as they stand in a request."""
        query = _query(self.query)
        return _path(self.path) + (f"?{query}" if query else "")


def signed(request: S3Request, host: str, account: S3Credentials, region: str, now_ms: int) -> dict[str, str]:
    """Return the headers of a request, with those that sign it; `host` is as its header has it."""
    moment = local_time(now_ms).strftime("%Y%m%dT%H%M%SZ")
    hashed = request.sha256 or hashlib.sha256(request.body).hexdigest()
    headers = {**request.headers, "x-amz-content-sha256": hashed, "x-amz-date": moment}
    if account.token:
        headers["x-amz-security-token"] = account.token
    covered = {"host": host, **headers}
    names = ";".join(sorted(covered))
    lines = "".join(f"{name}:{' '.join(covered[name].split())}\n" for name in sorted(covered))
    asked = "\n".join((request.method, _path(request.path), _query(request.query), lines, names, hashed))
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    said = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(asked.encode()).hexdigest()))
    key = f"AWS4{account.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, said.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"{_ALGORITHM} Credential={account.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _path(path: str) -> str:
    return quote(path, safe=f"/{_SAFE}")


def _query(query: Sequence[tuple[str, str]]) -> str:
    """Return a query in the order in which it is signed."""
    pairs = sorted((quote(name, safe=_SAFE), quote(value, safe=_SAFE)) for name, value in query)
    return "&".join(f"{name}={value}" for name, value in pairs)
