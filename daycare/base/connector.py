"""The contract of connectors: what comes in, what goes out, and what a platform can do in between."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec.structs import replace

from daycare.base import wellformed
from daycare.base.causes import ClientContext
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice, File, Origin

DIRECT: Final = "direct"  # the connector of terminals and programs: they fetch their replies and confirm them

# Codes of an error that says of a target, and not of a message, that nothing can be brought there.
UNREACHABLE: Final = frozenset({"CHAT_GONE", "NO_ADDRESS", "RECIPIENT_GONE"})

_UPWARD_BYTES_A_S: Final = 125_000  # of a slow line

# -- in --------------------------------------------------------------------------------------------------------------


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its bytes. `media_type` as the platform says, empty if it does not.

    In a reply that is to be split it has its `size` only, and the `number` under which it is kept: its bytes are read
    when the part that carries it goes out.
    """

    name: str
    media_type: str = ""
    data: bytes = b""
    size: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        """With its bytes a file has as many."""
        if self.data:
            msgspec.structs.force_setattr(self, "size", len(self.data))

    @property
    def travel_s(self) -> float:
        """How long it may be on its way to a platform, seconds: over a line of 1 Mbit/s, as many have upwards."""
        return self.size / _UPWARD_BYTES_A_S


class RemoteFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that stays with the platform until somebody reads it: `Connector.fetch` is given `reference` then.

    `key` names the file itself, so that one sent twice is kept once; `size` in bytes, 0 if not known.
    """

    name: str
    media_type: str = ""
    size: int = 0
    reference: str
    key: str


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person (or program) said, on its way in.

    Who: `sender` is the connector key of who speaks, `telegram:42`, and `name` what they call themselves. In a chat of
    several people `chat` is that chat's key: it has a user of its own, to whom the message belongs. `within` is the
    key of the chat that `chat` is a part of (a forum's topic); where that one is known, its part gets a user by itself.

    What: `key` is the platform's stable id of this very event, so that a repeat is recognised; `text` is what they
    wrote and nothing else. `context` is what it refers to (a quoted message, where a forward comes from), shown to the
    model as data. `kind` `note` is put into the conversation and nobody expects an answer. `edits` is the key of the
    message that this one replaces. A note whose `deletes` is the platform's number of a message takes that one back:
    nobody answers it, unless a turn has begun with it. Messages of one `album` are read as one. `replies_to` is the
    platform's number of the message that this one replies to. `instead` is the last turn of the conversation, whose
    place the turn of this message takes: its words stand in no later prompt. `origin` is whose words they are: a
    forward is its author's, and never a command.

    Where: `path` is the agent meant, empty for the one that belongs to the connector. `message` is the platform's
    number of it, which the answer may name as its question; `reply_target` sends the answer elsewhere on that platform.
    `at_ms` is when the platform says that it was said, 0 for now. `trace` joins it to what others record of it (the
    32 hex digits of a W3C trace id); without one it begins a trace of its own. `client` is what the program in which
    they write adds to it.
    """

    connector: str
    sender: str
    key: str
    text: str
    path: str = ""
    origin: Origin = Origin.PERSON
    files: "tuple[Attachment | RemoteFile | File, ...]" = ()  # a `File` is one that the store keeps already
    reply_target: str | None = None
    meta: Mapping[str, str] = {}
    chat: str = ""
    within: str = ""
    name: str = ""
    chat_name: str = ""
    kind: Literal["message", "note"] = "message"
    edits: str = ""
    deletes: str = ""
    album: str = ""
    context: str = ""
    message: str = ""
    replies_to: str = ""
    instead: int = 0
    at_ms: int = 0
    trace: str = ""
    client: ClientContext | None = None


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """Something came that cannot be understood: it becomes a dead letter, and what follows it is read.

    `key` is stable over repeats; of `body` the first 4,000 characters are kept.
    """

    key: str
    reason: str
    body: str


_Item = TypeVar("_Item", bound=Inbound | Unreadable)


def well_formed(item: _Item) -> _Item:
    """Return an item without halves of surrogate pairs, which JSON can carry and no store takes."""
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    mended: dict[str, Any] = {
        name: wellformed.well_formed(value)
        for name, value in fields.items()
        if isinstance(value, str) and not value.isascii()
    }
    if meta := fields.get("meta"):
        mended["meta"] = {wellformed.well_formed(name): wellformed.well_formed(value) for name, value in meta.items()}
    return replace(item, **mended) if mended else item


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of something that came in. All of it is durable when it is returned.

    `accepted` and `repeated` have an inbox row; `stranger`, `limited` (too many for now), `refused` (it cannot be
    taken, a dead letter) and `unreadable` have none. `say`, where it is not empty, is for the one who wrote, and is
    given once: send it to them directly.
    """

    state: Literal["accepted", "repeated", "stranger", "limited", "refused", "unreadable"]
    seq: int = 0
    say: str = ""


# -- out -------------------------------------------------------------------------------------------------------------


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way out, or one part of it, as `Connector.split` returned it.

    `target` is the connector key's part after `name:`; `key` is stable over retries and of its own for each part.
    `text` is Markdown, of a `reaction` the emoji that is put to the message `reply_to`; in a part it is whatever
    the connector made of it, as is `markup`. `reply_to` is the platform's number of the question.
    `maybe_duplicate`: an earlier try may have arrived, so the text should say so.
    """

    outbox: int
    key: str
    path: str
    user: str
    target: str
    text: str
    maybe_duplicate: bool = False
    files: tuple[Attachment, ...] = ()
    choices: tuple[Choice, ...] = ()
    reply_to: str = ""
    silent: bool = False  # without a sound
    effect: str = ""  # the platform's name of an animation
    reaction: bool = False
    markup: Any = None


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform can do in one chat. What is not there is never asked for."""

    typing_s: float = 0.0  # how long `act` is seen; 0: it cannot be shown
    drafts: bool = False  # a reply can be shown as it grows without being sent
    edits: bool = False
    withdrawals: bool = False
    reactions: bool = False
    choices: bool = False  # buttons
    files: bool = False
    preview_every_s: float = 1.0  # between two pictures of a growing reply


class Identity(msgspec.Struct, frozen=True):
    """Who the connector is on its platform."""

    id: str
    name: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection is. Only `up` means that messages come in: something was received, or a wait for it ended well.

    `off` is not set up; `starting` has not received yet; `away`: the platform cannot be reached; `stalled`: connected,
    and nothing moves; `conflict`: somebody else receives in its place; `refused`: the platform does not let it in;
    `held`: the daemon keeps it down after it crashed again and again, which no connector says of itself.
    With `alert` the operator is told of the change: nothing but they can mend it.
    """

    state: Literal["off", "starting", "up", "away", "stalled", "conflict", "refused", "held"]
    reason: str = ""
    hint: str = ""
    identity: str = ""
    alert: bool = False


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is to pair a connector with an account: a code to scan (`qr`) or to type (`code`), until `until_ms`.

    `state` is `pairing` while there are codes, `connected` when it is done, else how the connection is.
    """

    state: str
    qr: str = ""
    code: str = ""
    until_ms: int = 0
    reason: str = ""
    hint: str = ""
    identity: str = ""


@runtime_checkable
class Paired(Protocol):
    """A connector whose account is paired by a code that its owner scans or types with their telephone."""

    async def pair(self, phone: str) -> Pairing:
        """Begin; with a number of a telephone the code is to be typed there. Raises `ConflictError` if it is paired."""
        ...

    def pairing(self) -> Pairing:
        """Return how far it is."""
        ...

    async def unpair(self) -> None:
        """Give the account back, and delete what was stored for it."""
        ...


class Connector(Protocol):
    """A way people talk to agents. `BaseConnector` has all of it but `name` and `send`.

    Errors decide what happens to a reply. `BusyError`: surely not taken, tried again after `retry_after_s`, for a day.
    `AwayError`: surely not taken, the platform is away; tried again for a day. `UnavailableError`: it may have arrived;
    tried again a few times, marked as a possible duplicate unless its code is `NOT_SENT`. Any other `DaycareError`:
    given up, a dead letter, and the agent is told; with a code of `UNREACHABLE` the person only over another connector.

    Calls of `send` for one target come one after another, in order; those of `edit`, `act` and `draft` may come beside
    them, and may be dropped: a reply does not depend on any.
    """

    name: str
    pull: bool  # True: readers fetch replies and confirm them, nothing is pushed
    manner: str  # what the model is told of how its words arrive there: one or two sentences that never change

    def capabilities(self, target: str) -> Capabilities:
        """Return what can be done in a chat. Constant for one target."""
        ...

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in parts that the platform takes, at least one. The same reply gives the same parts.

        Each is sent, journaled and confirmed by itself, so that a crash repeats one part at most. Called in a worker
        thread for a long reply.
        """
        ...

    def delay_s(self, target: str) -> float:
        """Return how long a reply to a target has to wait now, seconds; 0: it may go. Asked before each `send`."""
        ...

    async def send(self, outgoing: Outgoing) -> str:
        """Deliver one part and return the platform's receipt, with which it may be edited or withdrawn.

        May be called again with the same `key` after a crash: `maybe_duplicate` is set then.
        """
        ...

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace the text of something that was sent, or what is written below a file; its buttons go. Idempotent."""
        ...

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete something that was sent. Idempotent: what is gone already is no error."""
        ...

    async def act(self, target: str, action: str) -> None:
        """Show for a few seconds what the agent does: `typing`, `upload_photo`, `record_voice`."""
        ...

    async def draft(self, target: str, number: int, text: str) -> None:
        """Show a reply as far as it has come, without sending it; `number`, not 0, stays the same as it grows."""
        ...

    async def status(self, target: str, text: str) -> str:
        """Send a line that says what is going on; return its receipt for `edit` and `withdraw`. No sound."""
        ...

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a person's message; empty takes it away. Idempotent."""
        ...

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return the bytes of a `RemoteFile`. Raises `InvalidError` FILE_TOO_LARGE, `NotFoundError`; idempotent."""
        ...

    def identity(self) -> Identity | None:
        """Return who the connector is, None before it knows."""
        ...


def parts_of(connector: Connector, outgoing: Outgoing) -> Sequence[Outgoing]:
    """Return the parts in which something goes out. A reaction is one."""
    return (outgoing,) if outgoing.reaction else connector.split(outgoing)


async def bring(connector: Connector, part: Outgoing) -> str:
    """Bring one part to its target and return its receipt; a reaction, which may be put twice, has none."""
    if not part.reaction:
        return await connector.send(part)
    await connector.react(part.target, part.reply_to, part.text)
    return ""


class BaseConnector:
    """The smallest connector: replies go out in one part, and it can do nothing else."""

    name: str
    pull: bool = False
    manner: str = ""

    def capabilities(self, target: str) -> Capabilities:
        """Nothing."""
        return Capabilities()

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return it whole."""
        return (outgoing,)

    def delay_s(self, target: str) -> float:
        """It may go."""
        return 0.0

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Refuse."""
        raise self._cannot("edit")

    async def withdraw(self, target: str, receipt: str) -> None:
        """Refuse."""
        raise self._cannot("withdraw")

    async def act(self, target: str, action: str) -> None:
        """Refuse."""
        raise self._cannot("act")

    async def draft(self, target: str, number: int, text: str) -> None:
        """Refuse."""
        raise self._cannot("draft")

    async def status(self, target: str, text: str) -> str:
        """Refuse."""
        raise self._cannot("status")

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Refuse."""
        raise self._cannot("react")

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Refuse."""
        raise self._cannot("fetch")

    def identity(self) -> Identity | None:
        """Nobody."""
        return None

    def _cannot(self, what: str) -> InvalidError:
        return InvalidError("CONNECTOR_CANNOT", f"asking {self.name} for {what}: it cannot do that")
