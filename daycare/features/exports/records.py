"""What a store hands out and takes in of an agent that moves: records without ids, users or numbers of its own.

Agents are numbered from 0, the root of the subtree; turns, memories and files from 1, each in the order in which they
stand. So a record names nothing of the store that it comes from, and two exports of the same content are the same.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Final, Literal, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from daycare.base.consent import Consent
from daycare.base.cron import CronSpec
from daycare.base.documents import Layer
from daycare.base.limits import (
    BEHAVIOUR_STATE_MAX_BYTES,
    DOCUMENT_REASON_MAX_CHARS,
    FILE_MAX_BYTES,
    KEY_MAX_CHARS,
    MEMORY_TEXT_MAX_CHARS,
    MESSAGE_MAX_BYTES,
    RULES_MAX,
)
from daycare.base.memories import EntityPart, FactPart
from daycare.base.messages import EnvelopeKind, Lane, Message, Origin, Origins
from daycare.base.permission import OwnRule, Permissions, Rule
from daycare.base.times import LATEST_MS, is_moment, is_time, moment, nearest
from daycare.store.records import AgentConfig

Agents = Annotated[int, Meta(ge=0, lt=2**31)]  # a place in the list of agents
Place = Annotated[int, Meta(ge=1, lt=2**31)]  # in another list, from 1
Any0 = Annotated[int, Meta(ge=0, lt=2**31)]  # such a place, or 0 for none
Ms = Annotated[int, Meta(ge=0, le=LATEST_MS)]
Line = Annotated[str, Meta(max_length=DOCUMENT_REASON_MAX_CHARS)]
Name = Annotated[str, Meta(max_length=1_000)]
Limits = dict[str, Annotated[int, Meta(ge=0, le=2**53)]]  # of a budget, by their names


class ExportRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of an export."""


class JobBounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What narrows the agent of a job, as whoever made the job was narrowed: settings of these names."""

    tools: tuple[str, ...] | None = None
    permissions: Permissions = Permissions()
    approvals: Consent | None = None


class AgentRecord(ExportRecord, frozen=True, kw_only=True, tag="agent"):
    """An agent. `path` is what stands behind the root's: empty, `/sub/0`, `/memory`; `kind` is only for readers.

    `keeps` is what one with a behaviour keeps, as JSON. What binds it from outside of its settings: `narrowed` are
    rules that its installation has about its path, `guards` those that keep others from it, `limits` its own budget.
    """

    path: Annotated[str, Meta(max_length=300)]
    kind: Annotated[str, Meta(max_length=16)]
    state: Literal["living", "parked"]
    origin: Origin
    config: AgentConfig
    session: Place
    created_at: Ms
    next_sub_index: Any0 = 0
    next_search_index: Any0 = 0
    reason: Line | None = None
    keeps: Annotated[str, Meta(max_length=BEHAVIOUR_STATE_MAX_BYTES)] | None = None
    narrowed: tuple[OwnRule, ...] = ()
    guards: Annotated[tuple[Rule, ...], Meta(max_length=RULES_MAX)] = ()
    limits: Limits = {}


class SessionRecord(ExportRecord, frozen=True, kw_only=True, tag="session"):
    """A session of an agent."""

    agent: Agents
    session: Place
    origin: Origin
    started_at: Ms
    ended_at: Ms | None = None
    reason: Line | None = None


class TurnRecord(ExportRecord, frozen=True, kw_only=True, tag="turn"):
    """A turn that has ended, with its messages. `trace` is the first turn that came of the same thing, maybe itself.

    `replaced_by` is the later turn that stands in its place, 0 if it stands itself.
    `logged`: the log of what was said has had it; what it kept is among the memories.
    In the messages, ids of files are places in the list of files, 0 for one that is not kept any more.
    """

    agent: Agents
    session: Place
    trace: Place
    origin: Origin
    state: Literal["done", "stopped", "parked", "split", "continued"]
    attempt: Any0
    started_at: Ms
    ended_at: Ms
    messages: tuple[Message, ...]
    error: Annotated[str, Meta(max_length=100_000)] | None = None
    logged: bool = False
    replaced_by: Any0 = 0


class ReceiptRecord(ExportRecord, frozen=True, kw_only=True, tag="receipt"):
    """A message that was answered, without its words: a repeat of it, which has its key, gets this answer.

    `turn` answered it and `trace` is the first turn that came of the same thing; 0 for one that is not there.
    """

    agent: Agents
    key: Annotated[str, Meta(min_length=1, max_length=KEY_MAX_CHARS)]
    lane: Lane
    kind: EnvelopeKind
    origin: Origin
    sender: Name
    turn: Any0 = 0
    trace: Any0 = 0
    created_at: Ms
    done_at: Ms
    result: str


class SummaryRecord(ExportRecord, frozen=True, kw_only=True, tag="summary"):
    """A summary of a session up to the turn `through`."""

    agent: Agents
    session: Place
    through: Place
    origin: Origin
    turns: Any0
    text: str
    tokens_before: Any0
    tokens_after: Any0
    created_at: Ms


class DocumentRecord(ExportRecord, frozen=True, kw_only=True, tag="document"):
    """A version of a document; those of one document stand together, in order. Without a text it is a deletion.

    `agent` says whose, -1 for one that is shared. `hash` differs from the text's where that was forgotten.
    """

    layer: Layer
    agent: Annotated[int, Meta(ge=-1, lt=2**31)]
    name: Annotated[str, Meta(max_length=300)]
    version: Place
    origin: Origin
    author: Line
    created_at: Ms
    approver: Line = ""
    reason: Line = ""
    provenance: tuple[Line, ...] = ()
    text: str | None = None
    hash: Annotated[str, Meta(max_length=64)] = ""


class SourceRecord(ExportRecord, frozen=True, kw_only=True):
    """From which log entry something was learned: its place, 0 for one that has expired, and of which turn it was."""

    turn: Any0
    agent: Agents
    memory: Any0 = 0


class MemoryRecord(ExportRecord, frozen=True, kw_only=True, tag="memory"):
    """A log entry, a fact or an entity. In `fact`, `superseded_by` is a place in this list, 0 for one that is not."""

    agent: Agents
    tier: Literal["log", "fact", "entity"]
    origin: Origin
    text: Annotated[str, Meta(min_length=1, max_length=MEMORY_TEXT_MAX_CHARS)]
    at_ms: Ms
    created_at: Ms
    session: Any0 = 0
    turn: Any0 = 0
    speaker: Name = ""
    role: Name = ""
    index: Annotated[str, Meta(max_length=4 * MEMORY_TEXT_MAX_CHARS)] = ""
    fact: FactPart | None = None
    entity: EntityPart | None = None
    sources: tuple[SourceRecord, ...] = ()


class MarkRecord(ExportRecord, frozen=True, kw_only=True, tag="mark"):
    """How far the memory worker of an agent has come: up to this log entry, 0 for none."""

    agent: Agents
    through: Any0


class ReminderRecord(ExportRecord, frozen=True, kw_only=True, tag="reminder"):
    """A reminder that is not due yet."""

    agent: Agents
    due_at: Ms
    created_at: Ms
    origin: Origin
    kind: EnvelopeKind
    text: Annotated[str, Meta(max_length=MESSAGE_MAX_BYTES)]
    origins: Origins = None


class JobRecord(ExportRecord, frozen=True, kw_only=True, tag="job"):
    """A scheduled job of the agent. `agent` made it, -1: a person did. `target` in `spec` is a path as it was.

    `bounds` are those of its own agent; `narrowed` and `limits` are of its path as those of an agent.
    """

    name: Annotated[str, Meta(max_length=64)]
    agent: Annotated[int, Meta(ge=-1, lt=2**31)]
    paused: bool
    spec: CronSpec
    created_at: Ms
    bounds: JobBounds = JobBounds()
    narrowed: tuple[OwnRule, ...] = ()
    limits: Limits = {}


class FileRecord(ExportRecord, frozen=True, kw_only=True, tag="file"):
    """A file. A tool's long result belongs to a turn: `of` and `rest` are the beginning and end of its key then."""

    name: Name
    media_type: Name
    size: Annotated[int, Meta(ge=0, le=FILE_MAX_BYTES)]
    sha256: Annotated[str, Meta(min_length=64, max_length=64)]
    origin: Origin
    created_at: Ms
    of: Literal["", "result", "shortened", "turn"] = ""
    turn: Any0 = 0
    rest: Name = ""


Anything = (
    AgentRecord
    | SessionRecord
    | TurnRecord
    | ReceiptRecord
    | SummaryRecord
    | DocumentRecord
    | MemoryRecord
    | MarkRecord
    | ReminderRecord
    | JobRecord
)
ORDER: Final[tuple[type[ExportRecord], ...]] = (
    AgentRecord,
    SessionRecord,
    TurnRecord,
    ReceiptRecord,
    SummaryRecord,
    DocumentRecord,
    MemoryRecord,
    MarkRecord,
    ReminderRecord,
    JobRecord,
)  # in which they come: what a record names stands before it


_MOMENTS: Final = ("created_at", "started_at", "ended_at", "done_at", "at_ms", "due_at")


def in_time(it: Anything) -> Anything:
    """Return a record whose times a calendar holds: one that is wrong in a store keeps nobody from moving out of it."""
    wrong: dict[str, object] = {
        name: moment(at) for name in _MOMENTS if (at := getattr(it, name, None)) is not None and not is_moment(at)
    }
    if isinstance(it, TurnRecord) and not all(is_moment(message.at_ms) for message in it.messages):
        wrong["messages"] = tuple(replace(message, at_ms=moment(message.at_ms)) for message in it.messages)
    if isinstance(it, MemoryRecord):
        for part, held in (("fact", it.fact), ("entity", it.entity)):
            if held is not None and (off := _off(held)):
                wrong[part] = replace(held, **off)
    return replace(it, **wrong) if wrong else it


def _off(held: FactPart | EntityPart) -> dict[str, int]:
    """Return the times within a memory that no calendar holds, mended."""
    times = ((name, getattr(held, name)) for name in held.__struct_fields__ if name.endswith("_ms"))
    return {name: nearest(at) for name, at in times if at is not None and not is_time(at)}


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What an export or an import did not take, how many, and why."""

    what: str
    count: int
    why: str


class Snapshot(Protocol):
    """A subtree as it was at one moment. Everything blocks: call it in a thread, in the order that is written here."""

    @property
    def left_out(self) -> list[LeftOut]:
        """What is not handed out."""

    def paths(self) -> list[str]:
        """Return where the agents are, in the order of their records."""

    def records(self) -> Iterator[Anything]:
        """Yield the records in `ORDER`; files in messages have the store's own ids."""

    def files_of_turns(self) -> list[tuple[int, FileRecord]]:
        """Return (id, record without hash) of files that belong to turns, in the order of these."""

    def file(self, file_id: int) -> tuple[FileRecord, bytes] | None:
        """Return a file of the agent's user with its bytes, None for one that is not there, or not any more."""


Opened = AbstractContextManager[Snapshot]


class ArrivingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of an import as it is to be: its id, and what its path says of it."""

    id: str
    path: str
    kind: str
    role: str | None
    parent: str | None


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """An import that is about to become visible. `agents` are in the order of their records.

    `files` are ids of kept files by place; those of turns get their keys with them. `key` names the import for good.
    """

    key: str
    user: str
    scope: str
    agents: tuple[ArrivingAgent, ...]
    files: tuple[tuple[int, FileRecord], ...] = ()


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to: how many of each, by the tag of its record, and what was not taken."""

    taken: dict[str, int]
    left_out: tuple[LeftOut, ...]
