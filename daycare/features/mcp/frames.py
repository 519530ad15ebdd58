"""What the daemon and the host of a server tell each other: frames of msgpack, each behind its length.

The host is a process of ours in which the library runs that speaks the protocol; what it passes on of a server is data
from outside, and every frame has a bound.
"""

import struct
from typing import Any, Final, Literal

import msgspec

from daycare.features.approvals.questions import QuestionField

FRAME_MAX_BYTES: Final = 4 * 1024 * 1024
RESULT_MAX_CHARS: Final = 400_000  # of one call; the rest is cut
TOOLS_MAX: Final = 128  # of one server
TOOL_NAME_MAX_CHARS: Final = 128
DESCRIPTION_MAX_CHARS: Final = 2_000
SCHEMA_MAX_BYTES: Final = 16_384
REASON_MAX_CHARS: Final = 300
FILES_MAX: Final = 4  # of one result, and
FILES_MAX_BYTES: Final = 2 * 1024 * 1024  # of all of them
QUESTION_MAX_CHARS: Final = 2_000  # of its words
URL_MAX_CHARS: Final = 2_000
QUESTIONS_OPEN_MAX: Final = 8  # of one server
QUESTIONS_MAX: Final = 10  # during one call

# How a call failed; the first three say that surely nothing was done.
NOT_SENT: Final = "not_sent"
CHANGED: Final = "changed"  # the tool is no longer the one that was approved
WRONG: Final = "wrong"  # its arguments
UNSURE: Final = "unsure"  # it may have been done

_LENGTH: Final = struct.Struct(">I")


class McpFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One message between daemon and host."""


# == from the daemon ===================================================================================================


class McpOpen(McpFrame, frozen=True, kw_only=True, tag="open"):
    """Connect: start `command` with exactly this environment, its bounds as the sandbox takes them, or go to `url`.

    `login` is what an earlier one left; with `redirect`, where the browser comes back to, another one is begun.
    `folder` is the server's own, "" for none. `networks` may be reached besides the public Internet. `asks`: there are
    people whom the server may ask something.
    """

    server: str
    deadline_s: float
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    folder: str = ""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False
    sandbox: bool = True
    memory_mb: int = 0
    processes: int = 0
    url: str = ""
    token: str = ""
    login: str = ""
    redirect: str = ""
    networks: tuple[str, ...] = ()
    asks: bool = False


class McpCall(McpFrame, frozen=True, kw_only=True, tag="call"):
    """Call a tool, if what the server says of it has this digest still."""

    id: int
    tool: str
    digest: str
    arguments: dict[str, Any]


class McpCancel(McpFrame, frozen=True, kw_only=True, tag="cancel"):
    """Nobody waits for a call any more."""

    id: int


class McpPing(McpFrame, frozen=True, kw_only=True, tag="ping"):
    """Ask the server whether it is there; the answer is a `McpResult`."""

    id: int


class McpAnswer(McpFrame, frozen=True, kw_only=True, tag="answer"):
    """What a person says to a question of the server; without `fields` to one that has none."""

    id: int
    action: Literal["accept", "decline", "cancel"]
    fields: dict[str, Any] = {}


class McpCode(McpFrame, frozen=True, kw_only=True, tag="code"):
    """What a person came back with, who followed the link of a login."""

    code: str
    state: str
    issuer: str = ""


Outward = McpOpen | McpCode | McpCall | McpCancel | McpPing | McpAnswer


# == from the host =====================================================================================================


class FoundTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a server describes it, within bounds; the digest is that of all that it says.

    `reads_only` and `repeatable` are what its annotations say. `refused` is why it cannot be offered, "" if it can.
    """

    name: str
    digest: str
    description: str = ""
    schema: dict[str, Any] = {}
    reads_only: bool = False
    repeatable: bool = False
    refused: str = ""


class McpListed(McpFrame, frozen=True, kw_only=True, tag="listed"):
    """The tools that there are now; sent once it is connected, and whenever they change. `version` is the server's."""

    tools: tuple[FoundTool, ...]
    title: str = ""
    version: str = ""
    left_out: int = 0


class McpProgress(McpFrame, frozen=True, kw_only=True, tag="progress"):
    """How far a call is."""

    id: int
    text: str


class McpFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a result holds that is no text."""

    name: str
    media_type: str
    data: bytes


class McpResult(McpFrame, frozen=True, kw_only=True, tag="result"):
    """What came of a call; `failed`: the server says that it did not work."""

    id: int
    text: str
    failed: bool = False
    files: tuple[McpFile, ...] = ()


class McpFailed(McpFrame, frozen=True, kw_only=True, tag="failed"):
    """Why nothing came of a call, by one of the codes above."""

    id: int
    code: str
    reason: str


class McpQuestion(McpFrame, frozen=True, kw_only=True, tag="question"):
    """The server asks a person something before it answers a call: a form of `fields`, or to open the page `url`."""

    id: int
    call: int
    message: str
    fields: tuple[QuestionField, ...] = ()
    url: str = ""


class McpUnasked(McpFrame, frozen=True, kw_only=True, tag="unasked"):
    """Nobody wants the answer to a question any more."""

    id: int


class McpSaid(McpFrame, frozen=True, kw_only=True, tag="said"):
    """A line that the server has written to its log."""

    text: str


class McpLink(McpFrame, frozen=True, kw_only=True, tag="link"):
    """Where a person is to log in."""

    url: str


class McpKept(McpFrame, frozen=True, kw_only=True, tag="kept"):
    """What a login has left, to be sealed and given back with `McpOpen`."""

    login: str


class McpEnded(McpFrame, frozen=True, kw_only=True, tag="ended"):
    """The connection is over, and why; the last frame."""

    reason: str


Inward = (
    McpListed | McpProgress | McpResult | McpFailed | McpSaid | McpLink | McpKept | McpEnded | McpQuestion | McpUnasked
)

_encode: Final = msgspec.msgpack.Encoder().encode
from_host: Final = msgspec.msgpack.Decoder(Inward).decode
from_daemon: Final = msgspec.msgpack.Decoder(Outward).decode


class FrameTooLongError(ValueError):
    """The other side says more at once than it may: nothing that follows can be read."""


def encode(frame: McpFrame) -> bytes:
    """Return a frame as it is sent. Raises `FrameTooLongError`."""
    body = _encode(frame)
    if len(body) > FRAME_MAX_BYTES:
        raise FrameTooLongError(f"a frame of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class McpFrames:
    """Puts frames together from what comes of them."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are whole now. Raises `FrameTooLongError`."""
        self._held += data
        found = []
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            if length > FRAME_MAX_BYTES:
                raise FrameTooLongError(f"a frame of {length} bytes")
            if len(self._held) < _LENGTH.size + length:
                break
            found.append(bytes(self._held[_LENGTH.size : _LENGTH.size + length]))
            del self._held[: _LENGTH.size + length]
        return found
