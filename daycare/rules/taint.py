"""What a turn has read, told from its rows and its journal: where the words came from on which it acts.

What an agent says carries the origins of the words of others that it had read, and whoever reads that has read them,
too: over any number of agents. What an agent says that had read its person's own words and results of the daemon's own
tools alone carries none.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from daycare.base.consent import APPROVALS_SENDER
from daycare.base.limits import DOCUMENT_PROVENANCE_MAX
from daycare.base.messages import EnvelopeKind, File, Message, Origin, Origins, Part, Text, ToolResult
from daycare.store.records import InboxRow, Step

# Tools of ours whose results are somebody else's words, where the result itself does not tell whose.
RELAYING: Final = frozenset(("read_result", "ask", "spawn", "read_history"))
_HELPED: Final = ("ask", "spawn")

# The worst first: a text is as trustworthy as the least that went into it.
_WORST: Final = (
    Origin.FORWARD,
    Origin.WEBHOOK,
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
    Origin.WEBHOOK: "delivery",
}
_NOBODY_ELSES: Final = (Origin.PERSON, Origin.TIMER, Origin.CRON)
_SOURCE_MAX_CHARS: Final = 160
_NAME_MAX_CHARS: Final = 64


class TaintSource(msgspec.Struct, frozen=True):
    """Something that a turn has read: in words for a person, and where it came from.

    `vouched`: whoever said it had read nothing of others, or a person has said yes to it.
    """

    told: str
    origin: Origin
    vouched: bool = False


class Sources(msgspec.Struct, frozen=True):
    """All that a turn has read."""

    read: tuple[TaintSource, ...] = ()

    @property
    def origins(self) -> frozenset[Origin]:
        """Where it came from."""
        return frozenset(source.origin for source in self.read)

    @property
    def clean(self) -> bool:
        """Whether all of it is the person's own words."""
        return self.origins <= {Origin.PERSON}

    @property
    def others(self) -> tuple[Origin, ...]:
        """Where the words of others in it came from: reminders and jobs of others' making had a person's yes."""
        found = {source.origin for source in self.read if not source.vouched}
        return tuple(origin for origin in _WORST if origin in found and origin not in _NOBODY_ELSES)

    @property
    def origin(self) -> Origin:
        """The origin of a text that was made of it: the least trustworthy."""
        found = {source.origin for source in self.read if not source.vouched}
        return worst(found)

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
    read: list[TaintSource] = []
    for row in rows:
        read += _of_row(row)
    for step in steps:
        if step.kind == "tool":
            read += _of_step(step, trusted)
    return Sources(tuple(read))


def sources_in(history: Sequence[Message], trusted: Collection[str]) -> Sources:
    """Return what a conversation has read from outside in earlier turns, which its model reads again in each."""
    read: list[TaintSource] = []
    for message in history:
        if message.role == "user" and not _is_own(message.origin, message.sender):
            told = f"an earlier message of {_one_line(message.sender)}"
            read += _said(told, message.origin, message.origins)
        elif message.role == "assistant":
            read += [TaintSource("what an earlier turn had read", origin) for origin in message.origins or ()]
        for part in message.parts:
            if isinstance(part, File) and not part.said:
                read.append(TaintSource(f'file {part.id} "{_one_line(part.name)}"', Origin.FILE))
            elif isinstance(part, ToolResult):
                told = f"an earlier result of {part.name}"
                read += _brought(told, part.name, part.origins, Origin.FILE, trusted)
        if message.role == "user" and any(map(_is_quoted, message.parts)):
            read.append(TaintSource("words quoted in an earlier message", Origin.FORWARD))
    return Sources(tuple(read))


def spoken_in(messages: Sequence[Message]) -> Origins:
    """Return the origins of the words of others in what an agent said; None where it said something unknown."""
    found: set[Origin] = set()
    for message in messages:
        if message.role == "assistant":
            if message.origins is None:
                return None
            found.update(message.origins)
    return tuple(origin for origin in _WORST if origin in found)


def worst(origins: Collection[Origin]) -> Origin:
    """Return the least trustworthy of some origins."""
    return next((origin for origin in _WORST if origin in origins), Origin.PERSON)


def _of_row(row: InboxRow) -> Iterator[TaintSource]:
    envelope = row.envelope
    if envelope.origin is Origin.SYSTEM and envelope.sender == APPROVALS_SENDER:
        yield TaintSource("a decision on an earlier request", Origin.PERSON)
        return
    said = envelope.person
    name = _one_line(said.name, _NAME_MAX_CHARS)
    who = f"{name} ({envelope.sender})" if name else envelope.sender
    what = "answer" if envelope.kind is EnvelopeKind.RESULT else _WHAT.get(envelope.origin, "message")
    yield from _said(f"{what} {row.seq} of {_one_line(who)}", envelope.origin, envelope.origins)
    if said.context:
        yield TaintSource(f"words quoted in message {row.seq}", Origin.FORWARD)
    if said.chat and envelope.origin is Origin.PERSON:
        yield TaintSource(f"group message {row.seq}", Origin.GROUP)
    for file in envelope.files:
        if file.said:
            continue
        yield TaintSource(f'file {file.id} "{_one_line(file.name)}"', Origin.FILE)


def _of_step(step: Step, trusted: Collection[str]) -> Iterator[TaintSource]:
    if step.wait and step.message is None and step.name in trusted:
        return  # nothing of it was read yet
    results = step.message.parts if step.message is not None else ()
    origins = next((part.origins for part in results if isinstance(part, ToolResult)), None)
    if origins is None and step.name in _HELPED and not step.wait:
        return  # the answer comes as a message, if at all
    yield from _brought(_told(step), step.name, origins, Origin.AGENT if step.wait else Origin.FILE, trusted)


def _brought(
    told: str, tool: str, origins: Origins, otherwise: Origin, trusted: Collection[str]
) -> Iterator[TaintSource]:
    """What a tool's result brought: only the daemon's own are believed what they tell of it."""
    if tool not in trusted or (origins is None and tool in RELAYING):
        yield TaintSource(told, otherwise)
    else:
        yield from (TaintSource(told, origin) for origin in origins or ())


def _said(told: str, origin: Origin, origins: Origins) -> Iterator[TaintSource]:
    """Yield what somebody said: with the words of others that went into it, where that is known."""
    if origins:
        yield from (TaintSource(told, each) for each in origins)
    else:
        yield TaintSource(told, origin, vouched=origins is not None)


def _is_quoted(part: Part) -> bool:
    """Tell whether a part has words of others. What earlier versions kept tells it by its fence only."""
    return isinstance(part, Text) and ("<<<" in part.text if part.quoted is None else part.quoted)


def _is_own(origin: Origin, sender: str) -> bool:
    return origin is Origin.PERSON or (origin is Origin.SYSTEM and sender == APPROVALS_SENDER)


def _told(step: Step) -> str:
    arguments = msgspec.json.encode(step.arguments).decode() if step.arguments else ""
    return _one_line(f"result of {step.name} {arguments}")


def _one_line(text: str, chars: int = _SOURCE_MAX_CHARS) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= chars else f"{line[: chars - 3]}..."
