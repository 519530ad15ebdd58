"""What travels: the envelope in an inbox, the message in a history, the reply in an outbox.

`Envelope` is routing (who, to whom, which lane, which key); `Message` is conversation (what a model reads). They are
kept apart because a control message is never conversation, and a conversation outlives every envelope.
"""

from enum import IntEnum, StrEnum
from typing import Any, Literal

import msgspec

from daycare.base import causes
from daycare.base.scope import user_in


class Lane(IntEnum):
    """The two lanes of a mailbox. CONTROL may be claimed by a running turn; MESSAGES go strictly in order."""

    CONTROL = 0
    MESSAGES = 1


class Origin(StrEnum):
    """Where a row's words first came from. Every stored row carries one; permissions and taint build on it."""

    PERSON = "person"
    AGENT = "agent"
    CRON = "cron"
    TIMER = "timer"
    SYSTEM = "system"
    GROUP = "group"
    FORWARD = "forward"
    FILE = "file"
    WEBHOOK = "webhook"


# Where the words of others came from that went into a text of the daemon or of an agent; None: nobody knows.
Origins = tuple[Origin, ...] | None


class EnvelopeKind(StrEnum):
    """What the recipient is to do with an envelope."""

    TEXT = "text"  # read it and answer
    COMMAND = "command"  # a chat command such as `/stop`: body is the command line
    VOICE = "voice"  # its words are in its files: once they were heard, it is one of the others, or `UNHEARD`
    UNHEARD = "unheard"  # nobody could hear it: the text says why, and is all the answer that it gets
    QUERY = "query"  # a question of a person to the agent's memory: a search answers it, no model of the agent's own
    RESULT = "result"  # what became of something asked for, for the call that may wait for it
    NOTE = "note"  # keep it in the conversation for later; no turn of the model is worth it
    NOTICE = "notice"  # read it, answer only if that helps (a result, a failure, a reminder)
    HANDOFF = "handoff"  # to a memory worker: what it is to look at
    DISMISS = "dismiss"  # finish and die with a last word to the parent (the actors' poison pill)


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message on its way to one agent.

    `to` is a path; `agent_id`, when set, pins one incarnation of it: a reply to a dead incarnation does not reach the
    next. `sender` is a path or a connector key (`telegram:42`). `key` is unique per recipient; a repeat is answered
    with the first one's result. `chain` lists the agents that wait for this answer, outermost first; `via` those by
    whose turns it came about since a person, a timer or a schedule began it. `cause` says what came about.
    `origins` is the daemon's own note of what others said that went into the words of an agent: none of it, or None
    where nobody knows. `told` is what of a result is out of memory.
    """

    to: str
    user: str
    origin: Origin
    sender: str
    key: str
    text: str
    trace: str
    kind: EnvelopeKind = EnvelopeKind.TEXT
    lane: Lane = Lane.MESSAGES
    agent_id: str | None = None
    chain: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    files: tuple["File", ...] = ()
    reply_target: str | None = None  # connector-side thread the answer goes to, when not the user's default
    cause: causes.Cause | None = None
    origins: Origins = None
    told: "Told | None" = None

    @property
    def person(self) -> causes.Person:
        """What a connector said of it; nothing, if it came over none."""
        return self.cause if isinstance(self.cause, causes.Person) else causes.NOBODY_IN_PARTICULAR

    @property
    def question(self) -> causes.AgentQuestion | None:
        """Who gets an answer to it as a result, and None if nobody."""
        asked = self.cause.question if isinstance(self.cause, causes.TaskWork) else self.cause
        return asked if isinstance(asked, causes.AgentQuestion) else None

    @property
    def answers(self) -> causes.Answer | None:
        """Which call it answers, of a result."""
        return self.cause if isinstance(self.cause, causes.Answer) else None

    def answer(
        self, text: str, status: Literal["ok", "error"], origins: Origins, told: "Told | None" = None
    ) -> "Envelope | None":
        """Return what tells the asker the answer, or None if nobody asked for one with an `AgentQuestion`."""
        asked = self.question
        if self.origin is not Origin.AGENT or self.kind is not EnvelopeKind.TEXT or asked is None:
            return None
        return Envelope(
            to=self.sender,
            agent_id=asked.asker,
            user=user_in(self.sender, self.user),
            origin=Origin.AGENT,
            sender=self.to,
            key=f"result:{asked.wait}",
            text=text,
            trace=self.trace,
            kind=EnvelopeKind.RESULT,
            lane=Lane.CONTROL,  # it has room when the inbox is full, and goes before what waits
            via=(*self.via, self.to),
            cause=causes.Answer(asked.wait, ok=status == "ok", session=asked.session),
            origins=origins,
            told=told,
        )


class Chains(msgspec.Struct, frozen=True):
    """How a turn came about: `waiting` are the agents that wait for its answer, `via` those that led to it."""

    waiting: tuple[str, ...] = ()
    via: tuple[str, ...] = ()


def dismissal(
    path: str,
    agent_id: str,
    user: str,
    *,
    key: str,
    reason: str,
    trace: str,
    by: str = "",
    quiet: bool = False,
    untold: str = "",
) -> Envelope:
    """Return the message that ends an agent, a living incarnation of `path`: `by` another agent, or by the daemon.

    A `quiet` end costs its parent no turn; the agent with the id `untold` is not notified either.
    """
    return Envelope(
        to=path,
        agent_id=agent_id,
        user=user,
        origin=Origin.AGENT if by else Origin.SYSTEM,
        sender=by or "system",
        key=key,
        text=reason,
        trace=trace,
        kind=EnvelopeKind.DISMISS,
        lane=Lane.CONTROL,
        cause=causes.Ending(quiet, untold),
        origins=(),  # a reason that an agent gives had a person's yes where it needed one
    )


class Choice(msgspec.Struct, frozen=True):
    """An answer that a person can give at a touch: `says` is then taken as if they had written it."""

    label: str
    says: str


REMINDER = "Reminder due now: "  # how a timer's text is introduced to a model
SCHEDULED = "Scheduled job "  # how the line begins that introduces a run of one
TASKED = "Background task "  # how the line begins that introduces the work of one
SIGNALLED = "Signal "  # how the line begins that introduces one
HEARTBEAT = "Heartbeat: "  # how the line begins that introduces one
DELIVERED = "Webhook "  # how the line begins that introduces what one brought
NOT_THE_USER = "Message from "  # how the line begins that introduces what no person said


class Text(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """Words. In a person's message `quoted` tells whose: True: fenced words of others, False: as the person said them.

    None: nobody told, as in what earlier versions kept, where only the words themselves show a fence of `<<<`.
    """

    text: str
    quoted: bool | None = None


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """A model's wish to run a tool; `arguments` is the decoded JSON object, `id` is unique in a turn."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToldDocument(msgspec.Struct, frozen=True):
    """A document of which a tool told something: its path as it was named, the layer it is in, and its version."""

    path: str
    layer: str
    version: int


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was told out of memory: the memories with these `labels`, and `documents`, whole or by a passage.

    `paths` names other documents of which a passage was told, `origins` where all these words came from.
    """

    labels: tuple[str, ...] = ()
    documents: tuple[ToldDocument, ...] = ()
    paths: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()

    def __add__(self, more: "Told") -> "Told":
        return Told(
            *(tuple(dict.fromkeys((*getattr(self, name), *getattr(more, name)))) for name in self.__struct_fields__)
        )

    @property
    def all_paths(self) -> tuple[str, ...]:
        """The paths of all documents of which something was told."""
        return (*(document.path for document in self.documents), *self.paths)


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", kw_only=True):
    """What a tool answered to the call with the same id. `status` tells the model how far to trust that it ran.

    `origins` says whose words are in it, where it is a tool of the daemon's own that tells. `told` is what of it is out
    of memory; earlier versions left that to the text.
    """

    call_id: str
    name: str
    text: str
    status: Literal["ok", "error", "uncertain"] = "ok"
    origins: Origins = None
    told: Told | None = None


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What a model thought, as its provider wants it back: only that `provider` kind understands `data`.

    It belongs to the calls of its own turn; providers read none of earlier turns.
    """

    provider: str
    data: dict[str, Any]


class File(msgspec.Struct, frozen=True, tag="file", kw_only=True, omit_defaults=True):
    """Something attached: the store keeps its bytes under `id`. A prompt shows it as text, as an image, or by name.

    `said`: it is a recording of the message's own words, which were heard, and brings none of others.
    """

    id: int
    name: str
    media_type: str
    size: int
    said: bool = False


class Image(msgspec.Struct, frozen=True, tag="image"):
    """A picture for a model that sees, only in requests: a history names the file instead."""

    media_type: str
    data: bytes


class Audio(msgspec.Struct, frozen=True, tag="audio"):
    """Sound for a model that hears, only in requests: as long as `seconds`."""

    media_type: str
    data: bytes
    seconds: float


Part = Text | ToolCall | ToolResult | Thinking | File | Image | Audio


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a conversation, neutral of any provider.

    A `tool` message holds results only and follows the `assistant` message that holds their calls. `at_ms` is wall
    time; `origin` and `sender` say whose words they are; `origins` where the words of others came
    from that went into an agent's. `asks` marks a question to memory: it tells memory nothing.
    """

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]
    at_ms: int = 0
    origin: Origin = Origin.PERSON
    sender: str = ""
    asks: bool = False
    origins: Origins = None

    @property
    def text(self) -> str:
        """The words of this message without tool calls and results."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Text):
            return self.parts[0].text  # as most are: a prompt has hundreds
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this message, in the model's order."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Text):
            return ()
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model call as the provider counted them; zero where it did not say.

    `input_tokens` is the whole prompt; `cached_tokens` of it were read from the provider's cache, `cache_write_tokens`
    of it were written there.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class _Kept(Envelope, frozen=True, kw_only=True):
    """An envelope as any version kept it."""

    meta: dict[str, str] = {}


_decode = msgspec.json.Decoder(_Kept).decode


def read_envelope(text: str | bytes) -> Envelope:
    """Return an envelope that was kept as JSON, by this version or an earlier one."""
    kept = _decode(text)
    fields = {name: getattr(kept, name) for name in Envelope.__struct_fields__}
    if kept.meta:
        fields["cause"] = causes.of_earlier(kept.meta, kept.origin, kept.kind, kept.sender)
    return Envelope(**fields)
