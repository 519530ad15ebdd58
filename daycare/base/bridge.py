"""The frames of the bridge protocol, one JSON object a line: doc/extend/bridge.md.

A bridge is a process of its own that connects a messenger. Both sides pass over what they do not know, so that either
may be newer than the other.
"""

from typing import Any, Final, Literal

import msgspec

VERSION: Final = 1
LINE_MAX_BYTES: Final = 1024 * 1024  # sixteen times the longest message that an inbox takes
ID_MAX_CHARS: Final = 180  # of an inbound's id, so that it fits into an inbox's key

# What a bridge may say that it can do.
TYPING: Final = "typing"
EDITS: Final = "edits"
DELETIONS: Final = "deletions"
REACTIONS: Final = "reactions"
FILES: Final = "files"
FETCH: Final = "fetch"
PREVIEWS: Final = "previews"
LOGIN: Final = "login"
ECHO: Final = "echo"

# How a bridge says that its platform is.
CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
UNREACHABLE: Final = "unreachable"
PAIRING: Final = "pairing"
LOGGED_OUT: Final = "logged_out"
REPLACED: Final = "replaced"
RESTART_REQUIRED: Final = "restart_required"
STATES: Final = (CONNECTING, CONNECTED, UNREACHABLE, PAIRING, LOGGED_OUT, REPLACED, RESTART_REQUIRED)

# How a request failed; the first four say that surely nothing was done.
BUSY: Final = "busy"
AWAY: Final = "away"
NOT_SENT: Final = "not_sent"
UNSUPPORTED: Final = "unsupported"
UNKNOWN: Final = "unknown"  # it may have been done
INVALID: Final = "invalid"
GONE: Final = "gone"
FORBIDDEN: Final = "forbidden"


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One line."""


class FileAt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file: at `path` in the exchange folder, or with the platform, to be fetched by `reference`.

    `key` names its content, so that a file that is sent twice is kept once.
    """

    name: str = ""
    media_type: str = ""
    size: int = 0
    path: str = ""
    reference: str = ""
    key: str = ""


# == from daycare ======================================================================================================


class Welcome(Frame, frozen=True, kw_only=True, tag="hello"):
    """The answer to a bridge's hello: now what was not acknowledged may be offered, `unacknowledged_max` at a time."""

    version: int
    connector: str
    unacknowledged_max: int


class Ack(Frame, frozen=True, kw_only=True, tag="ack"):
    """What has these ids is committed: the bridge may forget it."""

    ids: tuple[str, ...]


class Send(Frame, frozen=True, kw_only=True, tag="send"):
    """Send something. `key` is the same when it is tried again: what was sent under it is not sent again.

    `mark` is not empty when it may have been sent before; a bridge that does not know puts it before the text.
    """

    id: str
    key: str
    to: str
    text: str = ""
    mark: str = ""
    files: tuple[FileAt, ...] = ()
    reply_to: str = ""
    silent: bool = False


class Edit(Frame, frozen=True, kw_only=True, tag="edit"):
    """Replace the text of something that was sent. Idempotent."""

    id: str
    to: str
    message: str
    text: str


class Delete(Frame, frozen=True, kw_only=True, tag="delete"):
    """Delete something that was sent. What is gone already is no error."""

    id: str
    to: str
    message: str


class React(Frame, frozen=True, kw_only=True, tag="react"):
    """Put an emoji to somebody's message; an empty one takes it away."""

    id: str
    to: str
    message: str
    emoji: str


class Typing(Frame, frozen=True, kw_only=True, tag="typing"):
    """Show for some seconds that somebody types. Said again for as long as it is true."""

    id: str
    to: str


class Fetch(Frame, frozen=True, kw_only=True, tag="fetch"):
    """Put a file into the exchange folder; the answer has its path."""

    id: str
    reference: str
    max_bytes: int


class Ping(Frame, frozen=True, kw_only=True, tag="ping"):
    """Are you there? The answer has the state."""

    id: str


class Login(Frame, frozen=True, kw_only=True, tag="login"):
    """Begin to pair: with codes to scan, or with a code to type into the telephone with this number."""

    id: str
    phone: str = ""


class Logout(Frame, frozen=True, kw_only=True, tag="logout"):
    """Give the account back: unlink it at the platform and delete what was stored for it."""

    id: str


class Stop(Frame, frozen=True, kw_only=True, tag="stop"):
    """End, in order and soon. The end of standard input says the same."""


# == from a bridge =====================================================================================================


class Hello(Frame, frozen=True, kw_only=True, tag="hello"):
    """The first line of a bridge. `typing_s` is how long its platform shows that somebody types."""

    version: int
    name: str
    software: str = ""
    capabilities: tuple[str, ...] = ()
    typing_s: float = 10.0


class State(Frame, frozen=True, kw_only=True, tag="state"):
    """How the platform is. `identity` is who we are there; `retry_in_s` when it is tried again."""

    state: str
    reason: str = ""
    hint: str = ""
    identity: str = ""
    retry_in_s: float | None = None


class Qr(Frame, frozen=True, kw_only=True, tag="qr"):
    """A code to be scanned with the telephone, for so long."""

    data: str
    expires_in_s: float = 60.0


class Code(Frame, frozen=True, kw_only=True, tag="code"):
    """A code to be typed into the telephone, for so long."""

    code: str
    expires_in_s: float = 180.0


class Said(Frame, frozen=True, kw_only=True, tag="message"):
    """Something that somebody said. `id` is stable: the same when it is offered again.

    `chat` is empty in a conversation of two; in one of several it is that chat, and `addressed` says whether we are
    meant. `message` is how the platform refers to it; `edits` is the `id` of the message that this one replaces.
    `quoted` is the text that it answers to, `quoted_by` whose that is, `forwarded` that the words are somebody else's.
    `about` is how others have named what is shared: a contact, a place.
    """

    id: str
    sender: str
    name: str = ""
    chat: str = ""
    chat_name: str = ""
    addressed: bool = True
    text: str = ""
    files: tuple[FileAt, ...] = ()
    message: str = ""
    replies_to: str = ""
    quoted: str = ""
    quoted_by: str = ""
    about: str = ""
    forwarded: bool = False
    album: str = ""
    edits: str = ""
    at_ms: int = 0


class Reacted(Frame, frozen=True, kw_only=True, tag="reaction"):
    """Somebody put an emoji to a message, or took it away (it is empty then). `to_us`: the message was ours."""

    id: str
    sender: str
    message: str
    emoji: str = ""
    name: str = ""
    chat: str = ""
    chat_name: str = ""
    to_us: bool = True
    at_ms: int = 0


class Deleted(Frame, frozen=True, kw_only=True, tag="deletion"):
    """Somebody deleted a message."""

    id: str
    sender: str
    message: str
    name: str = ""
    chat: str = ""
    chat_name: str = ""
    at_ms: int = 0


class Unread(Frame, frozen=True, kw_only=True, tag="unreadable"):
    """Something came that the bridge cannot pass on: it becomes a dead letter that a person can look at."""

    id: str
    reason: str
    body: str = ""


class Moved(Frame, frozen=True, kw_only=True, tag="moved"):
    """A person or chat has another key from now on; acknowledged like a message."""

    id: str
    old: str
    new: str


class Result(Frame, frozen=True, kw_only=True, tag="result"):
    """A request was done. `receipt` is how the platform refers to what was sent."""

    id: str
    receipt: str = ""
    path: str = ""
    state: str = ""


class Failed(Frame, frozen=True, kw_only=True, tag="error"):
    """A request was not done, or not surely."""

    id: str
    code: str
    message: str = ""
    retry_after_s: float | None = None


class Note(Frame, frozen=True, kw_only=True, tag="log"):
    """A line for the log. Never what people said."""

    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"


Inward = Said | Reacted | Deleted | Unread | Moved
FromBridge = Hello | State | Qr | Code | Said | Reacted | Deleted | Unread | Moved | Result | Failed | Note
ToBridge = Welcome | Ack | Send | Edit | Delete | React | Typing | Fetch | Ping | Login | Logout | Stop
Request = Send | Edit | Delete | React | Typing | Fetch | Ping | Login | Logout

_from_bridge: Final[msgspec.json.Decoder[FromBridge]] = msgspec.json.Decoder(FromBridge)
_to_bridge: Final[msgspec.json.Decoder[ToBridge]] = msgspec.json.Decoder(ToBridge)
_encode: Final = msgspec.json.Encoder().encode


def encode(frame: Frame) -> bytes:
    """Return the line of a frame, its end included."""
    return _encode(frame) + b"\n"


def from_bridge(line: bytes) -> FromBridge:
    """Read what a bridge says. Raises `msgspec.DecodeError` for what is none, or not known."""
    return _from_bridge.decode(line)


def to_bridge(line: bytes) -> ToBridge:
    """Read what daycare says. Raises `msgspec.DecodeError` for what is none, or not known."""
    return _to_bridge.decode(line)


def plain(frame: Frame) -> dict[str, Any]:
    """Return a frame as plain data, for a journal."""
    data: dict[str, Any] = msgspec.to_builtins(frame)
    return data


class Lines:
    """Cuts a stream into lines. What is longer than the bound is passed over to its end, and never kept."""

    def __init__(self, max_bytes: int = LINE_MAX_BYTES) -> None:
        self.too_long = 0  # lines that were passed over
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._over = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that end in them, without their ends."""
        found: list[bytes] = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._over and len(self._kept) + len(piece) <= self._max_bytes:
                found.append(bytes(self._kept + piece))
            elif not self._over:
                self.too_long += 1
            self._kept.clear()
            self._over = False
        if not self._over:
            if len(self._kept) + len(rest) > self._max_bytes:
                self._kept.clear()
                self._over = True
                self.too_long += 1
            else:
                self._kept += rest
        return found
