"""The client's side of the HTTP API (doc/extend/api.md): plain calls over the Unix socket, errors as DaycareError.

It blocks; a client may be shared by threads. Documents are returned as decoded JSON, so that a newer daemon may add
fields.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote

from daycare.base.errors import (
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.sse import SseParser

if TYPE_CHECKING:
    import httpx  # its import takes a tenth of a second: a command that calls nobody does not pay for it

Json = dict[str, Any]  # a decoded JSON object

REQUEST_S: Final = 30.0  # an answer that does not wait for an agent takes milliseconds; a full disk takes seconds
SILENCE_S: Final = 40.0  # the event stream says something every 15 s
WAIT_SLICE_S: Final = 25.0  # one waiting request; longer waits repeat it under the same key
ENDED: Final = ("done", "stopped")  # what a message is when nothing more comes of it
_FIRST_SLICE_S: Final = 2.0  # whoever waits soon hears what is missing
RECONNECT_S: Final = 30.0  # how long a lost daemon is looked for: a restart with running turns takes 10 s
RETRY_S: Final = 0.25
T = TypeVar("T")
REPLIES_PAGE: Final = 100
_PAGE: Final = 500

DAEMON_AWAY: Final = "DAEMON_AWAY"

_BY_STATUS: Final[Mapping[int, type[DaycareError]]] = {
    413: InvalidError,
    **{
        error.http_status: error
        for error in (InvalidError, NotFoundError, ForbiddenError, ConflictError, BusyError, UnavailableError)
    },
}


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of the stream. `name` is `open` right after connecting and `tick` for a sign of life."""

    name: str
    data: Json = field(default_factory=dict)
    cursor: str = ""


def new_key() -> str:
    """Return a fresh idempotency key."""
    return f"cli-{secrets.token_hex(12)}"


def segment(text: str) -> str:
    """Quote `text` so that it is one segment of a route."""
    return quote(text, safe="")


class Client:
    """Calls the daemon that listens on `socket`; nothing is opened before the first call."""

    def __init__(self, socket: Path) -> None:
        import httpx

        self.socket = socket
        # verify=False: nothing is encrypted on a Unix socket, and reading the certificates takes 40 ms.
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket), verify=False), base_url="http://daycare"
        )

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def status(self) -> Json | None:
        """Return the daemon's status, or None when none listens on the socket."""
        if not os.path.lexists(self.socket):
            return None
        try:
            return self.call("GET", "/v1/status")
        except UnavailableError as error:
            if error.code == DAEMON_AWAY:
                return None
            raise

    def call(
        self, method: str, route: str, body: Json | None = None, *, timeout_s: float = REQUEST_S, **query: Any
    ) -> Json:
        """Make one call and return its document; query arguments that are None are left out.

        Raises the DaycareError that the daemon answered, or UnavailableError DAEMON_AWAY when there is none.
        """
        answer = self._ask(method, route, json=body, params=_present(query), timeout=timeout_s)
        document = _decode(answer.content) if answer.content else {}
        return document if isinstance(document, dict) else {"value": document}

    def listed(self, route: str, name: str, by: str, **query: Any) -> list[Json]:
        """Return all rows of a listing that comes in pages, in the order of their field `by`."""
        found: list[Json] = []
        page: list[Json] = self.call("GET", route, limit=_PAGE, **query)[name]
        while page:
            found += page
            page = self.call("GET", route, limit=_PAGE, after=page[-1][by], **query)[name] if len(page) == _PAGE else []
        return found

    def upload(self, file: Path, *, key: str, user: str | None = None) -> int:
        """Have the daemon keep a file; return its number, for `post`. A repeat with its key keeps it once.

        Raises InvalidError FILE_UNREADABLE or FILE_TOO_LARGE.
        """
        try:
            with file.open("rb") as opened:
                data = opened.read(FILE_MAX_BYTES + 1)
        except OSError as error:
            raise InvalidError("FILE_UNREADABLE", f"attaching {file}: {error.strerror or error}") from error
        if len(data) > FILE_MAX_BYTES:
            raise InvalidError("FILE_TOO_LARGE", f"attaching {file}: over {FILE_MAX_BYTES} bytes", hint="attach a part")
        query = _present({"name": file.name, "key": key, "user": user})
        answer = self._ask("POST", "/v1/files", content=data, params=query)
        return int(_decode(answer.content)["id"])

    def download(self, number: int, *, user: str | None = None) -> tuple[str, bytes]:
        """Return a kept file's name and bytes. Raises NotFoundError FILE_UNKNOWN."""
        answer = self._ask("GET", f"/v1/files/{number}", params=_present({"user": user}))
        name = unquote(answer.headers.get("Content-Disposition", "").rpartition("''")[2])
        return name, answer.content

    def post(
        self,
        text: str,
        *,
        key: str,
        path: str | None,
        user: str | None = None,
        files: Sequence[int] = (),
        wait_s: float = 0,
        everywhere: bool = False,
        instead: int = 0,
    ) -> Json:
        """Commit a message; with `wait_s`, wait so long for its answer. `files` are numbers of kept files.

        `everywhere`: one for each agent of the user. `instead`: the last turn, whose place its turn takes.
        """
        body: Json = {"text": text, "key": key, "path": path, "user": user, "wait_s": wait_s or None}
        body |= {"all": everywhere or None, "instead": instead or None}
        if files:
            body["files"] = list(files)
        return self.call("POST", "/v1/messages", _present(body), timeout_s=REQUEST_S + wait_s)

    def ask(
        self,
        text: str,
        *,
        timeout_s: float,
        key: str = "",
        path: str | None = None,
        user: str | None = None,
        files: Sequence[int] = (),
        instead: int = 0,
        troubled: Callable[[Json], None] = lambda _: None,
    ) -> Json:
        """Commit a message and wait for its answer; survives a restart of the daemon.

        `troubled` hears why the answer has not come yet, once for each reason.

        Raises BusyError NO_ANSWER_YET after `timeout_s` (the message stays queued) and ConflictError MESSAGE_DEAD
        when it was given up on.
        """
        key = key or new_key()
        deadline = time.monotonic() + timeout_s
        slice_s, reason = _FIRST_SLICE_S, ""
        while True:
            left = deadline - time.monotonic()
            wait_s = max(min(left, slice_s), 0.05)
            answer = self.persist(text, key=key, path=path, user=user, files=files, wait_s=wait_s, instead=instead)
            slice_s = WAIT_SLICE_S
            trouble = answer.get("trouble") if answer["state"] == "waiting" else None
            if trouble and trouble["reason"] != reason:
                reason = trouble["reason"]
                troubled(trouble)
            if answer["state"] in ENDED:
                return answer
            if answer["state"] == "dead":
                raise ConflictError(
                    "MESSAGE_DEAD",
                    f"wait for the answer to message {answer['seq']}: it was given up on",
                    hint=f"daycare trace {answer['seq']}, then daycare dead list",
                )
            if deadline <= time.monotonic():
                raise BusyError(
                    "NO_ANSWER_YET",
                    f"wait for the answer to message {answer['seq']}: none after {timeout_s:g} s; it stays queued",
                    hint=f"daycare trace {answer['seq']}",
                )

    def persist(
        self,
        text: str,
        *,
        key: str,
        path: str | None,
        user: str | None = None,
        files: Sequence[int] = (),
        wait_s: float = 0,
        everywhere: bool = False,
        instead: int = 0,
    ) -> Json:
        """Like `post`, but tries again under the same key while the daemon is away, for at most RECONNECT_S."""
        about: Json = {"path": path, "user": user, "files": files, "wait_s": wait_s, "everywhere": everywhere}
        about["instead"] = instead
        return self.with_retry(lambda: self.post(text, key=key, **about))

    def with_retry(self, call: Callable[[], T]) -> T:
        """Make a call that may be repeated, again while the daemon is away, for at most RECONNECT_S."""
        give_up = time.monotonic() + RECONNECT_S
        while True:
            try:
                return call()
            except UnavailableError as error:
                if error.code != DAEMON_AWAY or time.monotonic() >= give_up:
                    raise
            pause(RETRY_S)

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Yield the lines of a document that has one JSON object on each."""
        with self._streaming("GET", path, params=_present(query)) as answer:
            yield from answer.iter_lines()

    def work(self, route: str, body: Json, told: Callable[[Json], None]) -> Json:
        """Have the daemon do something that takes a while; return its report. `told` is given how far it is."""
        with self._streaming("POST", route, json=body) as answer:
            for line in answer.iter_lines():
                document = _decode(line.encode())
                if "report" in document:
                    return dict(document["report"])
                if "error" in document:
                    raise _refusal(int(document["status"]), line.encode())
                told(document.get("progress") or {})
        raise UnavailableError(DAEMON_AWAY, f"call the daemon at {self.socket}: it went away", hint="daycare status")

    def fetch(self, route: str) -> Iterator[bytes]:
        """Yield the bytes of a document of any size; raises UnavailableError when not all of them come."""
        with self._streaming("GET", route) as answer:
            yield from answer.iter_bytes()

    def send(self, route: str, pieces: Iterable[bytes]) -> Json:
        """Upload a document of any size."""
        return dict(_decode(self._ask("POST", route, content=iter(pieces), timeout=SILENCE_S).content))

    def replies(self, path: str) -> list[Json]:
        """Return the replies of `path` that no terminal has confirmed, oldest first; none of an unknown path."""
        try:
            return list(self.call("GET", "/v1/replies", path=path, limit=REPLIES_PAGE)["replies"])
        except NotFoundError:
            return []

    def acknowledge(self, seqs: Iterable[int]) -> int:
        """Confirm that these replies were shown; return how many of them were not confirmed before."""
        numbers = sorted(seqs)
        return int(self.call("POST", "/v1/replies/ack", {"seqs": numbers})["acknowledged"]) if numbers else 0

    def events(
        self, *, path: str | None = None, after: str | None = None, types: str | None = None
    ) -> Iterator[StreamEvent]:
        """Yield live events until the daemon ends the stream; raises UnavailableError when it is lost."""
        import httpx

        timeout = httpx.Timeout(REQUEST_S, read=SILENCE_S)
        query = _present({"path": path, "after": after, "types": types})
        with self._streaming("GET", "/v1/events", params=query, timeout=timeout) as answer:
            yield StreamEvent("open")
            yield from parse_events(answer.iter_bytes())

    def _ask(self, method: str, route: str, *, timeout: float = REQUEST_S, **options: Any) -> "httpx.Response":
        """Return the answer to one request. Raises as `call`."""
        with self._reaching():
            answer = self._http.request(method, route, timeout=timeout, **options)
        if not answer.is_success:
            raise _refusal(answer.status_code, answer.content)
        return answer

    @contextmanager
    def _streaming(
        self, method: str, route: str, *, timeout: "float | httpx.Timeout" = SILENCE_S, **options: Any
    ) -> "Iterator[httpx.Response]":
        """Give the answer to one request before its body was read. Raises as `call`."""
        with self._reaching(), self._http.stream(method, route, timeout=timeout, **options) as answer:
            if not answer.is_success:
                raise _refusal(answer.status_code, answer.read())
            yield answer

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except UnicodeEncodeError as error:
            raise InvalidError(
                "NOT_TEXT", f"call the daemon: {error.object!a} is not text in UTF-8", hint="write it in UTF-8"
            ) from error
        except httpx.TimeoutException as error:
            raise UnavailableError(
                "DAEMON_SLOW",
                f"call the daemon at {self.socket}: no answer in time",
                hint="daycare status, then daycare logs",
            ) from error
        except httpx.TransportError as error:
            raise UnavailableError(
                DAEMON_AWAY,
                f"call the daemon at {self.socket}: {str(error) or type(error).__name__}",
                hint="start one with: daycare run",
            ) from error


def parse_events(chunks: Iterable[bytes]) -> Iterator[StreamEvent]:
    """Turn the bytes of an event stream into events, and into a tick what ends none: a comment, or a part of one."""
    parser = SseParser()
    for chunk in chunks:
        with _readable():
            found = parser.feed(chunk)
        for event in found:
            yield StreamEvent(event.name, _decode(event.data.encode()), event.id)
        if not found:
            yield StreamEvent("tick")


def pause(seconds: float) -> None:
    """Wait between two tries of something outside that gives no signal."""
    threading.Event().wait(seconds)


def _present(query: Json) -> Json:
    return {key: value for key, value in query.items() if value is not None}


def _decode(content: bytes) -> Any:
    with _readable():
        return json.loads(content)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UnavailableError(
            "ANSWER_UNREADABLE",
            "read the daemon's answer: it is no JSON, so the socket belongs to some other program",
            hint="daycare doctor",
        ) from error


def _refusal(status: int, content: bytes) -> DaycareError:
    if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:  # the server says no more than that
        return InvalidError(
            "REQUEST_TOO_LONG",
            "call the daemon: expected a shorter name, path or query",
            hint="some 10,000 letters fit",
        )
    try:
        document = json.loads(content)["error"]
        code, message = str(document["code"]), str(document["message"])
        hint, retry_after_s = str(document.get("hint") or ""), document.get("retry_after_s")
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message, hint, retry_after_s = f"HTTP_{status}", f"call the daemon: it answered {status}", "", None
    return _BY_STATUS.get(status, DaycareError)(code, message, hint=hint, retry_after_s=retry_after_s)
