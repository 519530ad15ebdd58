"""What a turn has read, told from its rows and its journal: where the words came from on which it acts.

A turn is clean when all of it is its person's own words and results of the daemon's own tools.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from daycare.base.limits import DOCUMENT_PROVENANCE_MAX
from daycare.base.messages import VOUCHED, Envelope, EnvelopeKind, File, Message, Origin, Part, Text, ToolResult
from daycare.base.signal import SENDER
from daycare.store.records import InboxRow, Step
from daycare.store.records_approvals import DESK

# Tools of ours whose results are somebody else's words.
RELAYING: Final = frozenset(("read_result", "ask", "spawn", "read_history"))
_HELPED: Final = ("ask", "spawn")

# The worst first: a text is as trustworthy as the least that went into it.
_WORST: Final = (
    Origin.FORWARD,
    Origin.FILE,
    Origin.GROUP,
    Origin.AGENT,
    Origin.CRON,
    Origin.TIMER,
    Origin.SYSTEM,
    Origin.PERSON,
)
_WHAT: Final = {
    Origin.FORWARD: "forwarded message",
    Origin.GROUP: "group message",
    Origin.TIMER: "reminder",
    Origin.CRON: "scheduled message",
    Origin.FILE: "message with a file",
}
_NOBODY_ELSES: Final = (Origin.PERSON, Origin.TIMER, Origin.CRON)
_SOURCE_MAX_CHARS: Final = 160
_NAME_MAX_CHARS: Final = 64


class Source(msgspec.Struct, frozen=True):
    """Something that a turn has read: in words for a person, and where it came from.

    `vouched`: a turn that had read nothing of others has made it, or a person has said yes to it.
    """

    told: str
    origin: Origin
    vouched: bool = False


class Sources(msgspec.Struct, frozen=True):
    """All that a turn has read."""

    read: tuple[Source, ...] = ()

    @property
    def origins(self) -> frozenset[Origin]:
        """Where it came from."""
        return frozenset(source.origin for source in self.read)

    @property
    def clean(self) -> bool:
        """Whether all of it is the person's own words."""
        return self.origins <= {Origin.PERSON}

    @property
    def tainted(self) -> bool:
        """Whether somebody else may have spoken through it: reminders and jobs of others' making had a person's yes."""
        return any(source.origin not in _NOBODY_ELSES and not source.vouched for source in self.read)

    @property
    def origin(self) -> Origin:
        """The origin of a text that was made of it: the least trustworthy."""
        return next((origin for origin in _WORST if origin in self.origins), Origin.PERSON)

    @property
    def provenance(self) -> tuple[str, ...]:
        """What was read, in words for a person: from outside first, as that is what must not get lost."""
        told = dict.fromkeys(
            source.told for source in sorted(self.read, key=lambda source: source.origin is Origin.PERSON)
        )
        return tuple(told)[:DOCUMENT_PROVENANCE_MAX]

    def __add__(self, more: "Sources") -> "Sources":
        return Sources((*self.read, *more.read))


def sources_of(rows: Sequence[InboxRow], steps: Sequence[Step], trusted: Collection[str]) -> Sources:
    """Return what a turn has read so far. `trusted` are the daemon's own tools.

    A foreign tool counts from its start: it may act on what it has read before it returns.
    """
    read: list[Source] = []
    for row in rows:
        read += _of_row(row)
    for step in steps:
        waits_for_none = step.name in _HELPED and not step.wait  # the answer comes as a message, if at all
        if step.kind == "tool" and not waits_for_none and not _is_harmless(step.name, trusted):
            read.append(Source(_told(step), Origin.AGENT if step.wait else Origin.FILE))
    return Sources(tuple(read))


def sources_in(history: Sequence[Message], trusted: Collection[str]) -> Sources:
    """Return what a conversation has read from outside in earlier turns, which its model reads again in each."""
    read = []
    for message in history:
        if message.role == "user" and not _is_own(message.origin, message.sender):
            read.append(Source(f"an earlier message of {_one_line(message.sender)}", message.origin, message.vouched))
        for part in message.parts:
            if isinstance(part, File):
                read.append(Source(f'file {part.id} "{_one_line(part.name)}"', Origin.FILE))
            elif isinstance(part, ToolResult) and not _is_harmless(part.name, trusted):
                read.append(Source(f"an earlier result of {part.name}", Origin.FILE))
        if message.role == "user" and any(map(_is_quoted, message.parts)):
            read.append(Source("words quoted in an earlier message", Origin.FORWARD))
    return Sources(tuple(read))


def is_vouched(envelope: Envelope) -> bool:
    """Return whether no words of others went into an agent's message, or a person has said yes to it.

    Connectors' senders are no paths, programs' signals have one of their own; a task and an agent's signal had a yes
    where they needed one.
    """
    ours = envelope.origin is Origin.AGENT and envelope.sender.startswith("/") and envelope.sender != SENDER
    return ours and not envelope.meta.keys().isdisjoint((VOUCHED, "task", "signal"))


def _of_row(row: InboxRow) -> Iterator[Source]:
    envelope = row.envelope
    if envelope.origin is Origin.SYSTEM and envelope.sender == DESK:
        yield Source("a decision on an earlier request", Origin.PERSON)
        return
    name = _one_line(envelope.meta.get("name", ""), _NAME_MAX_CHARS)
    who = f"{name} ({envelope.sender})" if name else envelope.sender
    what = "answer" if envelope.kind is EnvelopeKind.RESULT else _WHAT.get(envelope.origin, "message")
    yield Source(f"{what} {row.seq} of {_one_line(who)}", envelope.origin, is_vouched(envelope))
    if envelope.meta.get("context"):
        yield Source(f"words quoted in message {row.seq}", Origin.FORWARD)
    if envelope.meta.get("chat") and envelope.origin is Origin.PERSON:
        yield Source(f"group message {row.seq}", Origin.GROUP)
    for file in envelope.files:
        yield Source(f'file {file.id} "{_one_line(file.name)}"', Origin.FILE)


def _is_harmless(tool: str, trusted: Collection[str]) -> bool:
    return tool in trusted and tool not in RELAYING


def _is_quoted(part: Part) -> bool:
    """Tell whether a part has words of others. What earlier versions kept tells it by its fence only."""
    return isinstance(part, Text) and ("<<<" in part.text if part.quoted is None else part.quoted)


def _is_own(origin: Origin, sender: str) -> bool:
    return origin is Origin.PERSON or (origin is Origin.SYSTEM and sender == DESK)


def _told(step: Step) -> str:
    arguments = msgspec.json.encode(step.arguments).decode() if step.arguments else ""
    return _one_line(f"result of {step.name} {arguments}")


def _one_line(text: str, chars: int = _SOURCE_MAX_CHARS) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= chars else f"{line[: chars - 3]}..."
