"""Imports, as the open transaction sees them: files that nothing names yet, then everything else at once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.documents import Attribution, Layer, NewVersion, Place, digest
from daycare.base.errors import BusyError, ConflictError
from daycare.base.event import Event
from daycare.base.events import AgentCreated, DocumentChanged
from daycare.base.limits import CRON_JOBS_MAX
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Envelope, Origin
from daycare.features.exports import rows_receipts
from daycare.features.exports.records import (
    AgentRecord,
    Anything,
    ArrivingAgent,
    Brought,
    DocumentRecord,
    FileRecord,
    Incoming,
    JobRecord,
    LeftOut,
    MarkRecord,
    MemoryRecord,
    ReceiptRecord,
    ReminderRecord,
    SessionRecord,
    SummaryRecord,
    TurnRecord,
)
from daycare.store.sqlite import timers
from daycare.store.sqlite.agents import encode_config
from daycare.store.sqlite.files import to_carry
from daycare.store.sqlite.ports import BudgetPort, DocumentPort, MemoryPort
from daycare.store.sqlite.writer import Tx

_UNFINISHED: Final = "importing:"  # what the keys of files begin with until their import is visible
_PAGE: Final = 500  # memories put into the index together
_encode = msgspec.json.Encoder().encode


def keep_files(tx: Tx, key: str, user: str, files: Sequence[tuple[int, FileRecord, bytes]]) -> list[int]:
    """Keep files that nothing names yet; return their ids."""
    found = []
    for place, record, data in files:
        tx.run(
            "INSERT INTO files (key, user, origin, name, media_type, created_at, size, data, object)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                f"{_UNFINISHED}{key}:{place}",
                user,
                str(record.origin),
                record.name,
                record.media_type,
                record.created_at,
                len(data),
                data,
                to_carry(tx, data),
            ),
        )
        found.append(tx.db.last_insert_rowid())
    return found


def sweep(tx: Tx) -> int:
    """Remove files of imports that did not come to their end.

    The newest row of all stays without its bytes, so that its number is never given to another; it expires.
    """
    rows = tx.db.execute("SELECT id FROM files WHERE instr(key, ?) = 1", (_UNFINISHED,)).fetchall()
    for (file_id,) in rows:
        tx.run("DELETE FROM files WHERE id = ?1 AND id < (SELECT max(id) FROM files)", (file_id,))
        tx.run(
            "UPDATE files SET key = 'import:gone:' || id, name = '', size = 0, data = x'', object = NULL,"
            " sha256 = NULL, created_at = 0 WHERE id = ?",
            (file_id,),
        )
    return len(rows)


def bring_in(tx: Tx, new: Incoming, records: Iterable[Anything]) -> Brought:
    """Let everything be there."""
    _check_free(tx, new.agents[0].path)
    before = len(tx.commit.events)
    arrival = _Arrivals(tx, new)
    for record in records:
        arrival.take(record)
    brought = arrival.finish()
    tx.commit.events[before:] = _each_once(tx.commit.events[before:])
    return brought


def _each_once(events: Sequence[Event]) -> list[Event]:
    """Return the events of an import: a document comes with all its versions, and is told of once, by its newest."""
    newest: dict[object, Event] = {}
    for number, event in enumerate(events):
        of = (event.path, event.layer, event.document) if isinstance(event, DocumentChanged) else number
        newest[of] = event
    return list(newest.values())


def _check_free(tx: Tx, root: str) -> None:
    row = tx.one(
        "SELECT path FROM agents WHERE state <> 'dead' AND (path = ?1 OR path > ?1 || '/' AND path < ?1 || '0')"
        " ORDER BY path LIMIT 1",
        (root,),
    )
    if row is not None:
        raise ConflictError(
            "PATH_TAKEN",
            f"importing as {root}: {row[0]} lives there",
            hint=f"choose another path, or end it first: daycare agents rm {row[0]}",
        )


class _Arrivals:
    """One import: where the places of its records lead to in this store."""

    def __init__(self, tx: Tx, new: Incoming) -> None:
        self._tx = tx
        self._new = new
        self._memory_port, self._document_port = tx.of(MemoryPort), tx.of(DocumentPort)
        self._taken: Counter[str] = Counter()
        self._left: dict[str, LeftOut] = {}
        self._agent = 0
        self._turn = self._turns = _number(tx, "SELECT coalesce(max(turn), 0) FROM turns")
        self._logged: list[tuple[int, int]] = []  # ranges of turns that are not to be logged once more
        self._memory = self._memories = self._memory_port.last(tx, new.scope, new.user)  # place 1 is the next
        self._page: list[NewMemory] = []
        self._times: list[tuple[int, int]] = []
        self._sources: list[tuple[int, int]] = []
        self._expired: list[tuple[Any, ...]] = []
        self._skipped: set[tuple[Layer, str]] = set()
        self._named_files()
        tx.commit.agents.update(each.id for each in new.agents)

    def take(self, record: Anything) -> None:
        """Let one record be there."""
        match record:
            case AgentRecord():
                self._add_agent(record)
            case SessionRecord():
                self._add_session(record)
            case TurnRecord():
                self._add_turn(record)
            case ReceiptRecord():
                self._add_receipt(record)
            case SummaryRecord():
                self._add_summary(record)
            case DocumentRecord():
                self._add_document(record)
            case MemoryRecord():
                self._add_memory(record)
            case MarkRecord():
                self._add_mark(record)
            case ReminderRecord():
                self._add_reminder(record)
            case JobRecord():
                self._add_job(record)

    def finish(self) -> Brought:
        """Write what is left to write, and return what was taken."""
        self._flush()
        self._tx.db.executemany("INSERT INTO memory_logged (first, last) VALUES (?, ?)", self._logged)
        taken = {**self._taken} | ({"file": len(self._new.files)} if self._new.files else {})
        return Brought(taken=taken, left_out=tuple(self._left.values()))

    # -- agents and what they said -------------------------------------------------------------------------------------

    def _add_agent(self, record: AgentRecord) -> None:
        it = self._new.agents[self._agent]
        self._agent += 1
        self._count("agent")
        self._tx.run(
            "INSERT INTO agents (id, path, kind, role, user, origin, parent, state, config, incarnation, session,"
            " next_sub_index, next_search_index, reason, created_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
            " coalesce(max(incarnation), 0) + 1, ?10, ?11, ?12, ?13, ?14 FROM agents WHERE path = ?2",
            (
                it.id,
                it.path,
                it.kind,
                it.role,
                self._new.user,
                str(record.origin),
                it.parent,
                record.state,
                encode_config(it.path, record.config),
                record.session,
                record.next_sub_index,
                record.next_search_index,
                record.reason,
                record.created_at,
            ),
        )
        made = AgentCreated(at_ms=self._tx.now, path=it.path, user=self._new.user, agent_id=it.id)
        self._tx.commit.events.append(made)
        if record.keeps is not None:
            self._tx.run(
                "INSERT INTO behaviour_states (agent_id, user, origin, turn, at, state) VALUES (?, ?, ?, 0, ?, ?)",
                (it.id, self._new.user, str(record.origin), self._tx.now, record.keeps),
            )
        self._tx.of(BudgetPort).narrow(self._tx, it.path, record.limits)

    def _add_session(self, record: SessionRecord) -> None:
        self._count("session")
        self._tx.run(
            "INSERT INTO sessions (agent_id, session, user, origin, started_at, ended_at, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self._at(record.agent).id,
                record.session,
                self._new.user,
                str(record.origin),
                record.started_at,
                record.ended_at,
                record.reason,
            ),
        )

    def _add_turn(self, record: TurnRecord) -> None:
        self._turn += 1
        self._count("turn")
        if record.logged:
            joins = self._logged and self._logged[-1][1] == self._turn - 1
            self._logged.append((self._logged.pop()[0] if joins else self._turn, self._turn))
        of = (self._turn, self._at(record.agent).id, record.session, self._new.user, str(record.origin))
        self._tx.run(
            "INSERT INTO turns (turn, agent_id, session, user, origin, trace, attempt, seqs, started_at,"
            " replaced_by) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?)",
            (
                *of,
                self._trace(record.trace),
                record.attempt,
                record.started_at,
                self._turns + record.replaced_by if record.replaced_by else None,
            ),
        )
        self._tx.run(
            "INSERT INTO history (turn, agent_id, session, user, origin, state, ended_at, error, messages)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, packed(?))",
            (*of, record.state, record.ended_at, record.error, _encode(record.messages).decode()),
        )

    def _add_receipt(self, record: ReceiptRecord) -> None:
        self._count("receipt")
        turn = self._turns + record.turn if record.turn else None
        rows_receipts.add(self._tx, self._at(record.agent), self._new.user, record, turn, self._trace(record.trace))

    def _add_summary(self, record: SummaryRecord) -> None:
        self._count("summary")
        self._tx.run(
            "INSERT INTO summaries (agent_id, session, through, user, origin, turns, text, tokens_before,"
            " tokens_after, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._at(record.agent).id,
                record.session,
                self._turns + record.through,
                self._new.user,
                str(record.origin),
                record.turns,
                record.text,
                record.tokens_before,
                record.tokens_after,
                record.created_at,
            ),
        )

    # -- documents -----------------------------------------------------------------------------------------------------

    def _add_document(self, record: DocumentRecord) -> None:
        owner = self._at(record.agent).id if record.agent >= 0 else self._owner(record.layer)
        place = Place(record.layer, owner, record.name)
        if record.version == 1 and record.agent < 0 and self._is_there(place):
            self._skipped.add((record.layer, record.name))
        if record.agent < 0 and (record.layer, record.name) in self._skipped:
            if record.version == 1:
                self._leave("shared documents", "there is one of that name here")
            return
        self._count("document")
        by = Attribution(
            origin=record.origin,
            author=record.author,
            approver=record.approver,
            reason=record.reason,
            provenance=record.provenance,
        )
        written = self._document_port.write(
            self._tx, NewVersion(place=place, user=self._new.user, by=by, text=record.text)
        )
        at = (str(record.layer), owner, record.name, written.version)
        hash_ = record.hash or digest(record.text)  # another than the text's: what it said was forgotten
        self._tx.run(
            "UPDATE documents SET created_at = ?, hash = ? WHERE layer = ? AND owner = ? AND name = ? AND version = ?",
            (record.created_at, hash_, *at),
        )

    def _owner(self, layer: Layer) -> str:
        return "" if layer is Layer.GLOBAL else self._new.scope

    def _is_there(self, place: Place) -> bool:
        key = (str(place.layer), place.owner, place.name)
        row = self._tx.one("SELECT 1 FROM documents WHERE layer = ? AND owner = ? AND name = ? LIMIT 1", key)
        return row is not None

    # -- memories ------------------------------------------------------------------------------------------------------

    def _add_memory(self, record: MemoryRecord) -> None:
        self._memory += 1
        self._count("memory")
        it = self._at(record.agent)
        fact = record.fact
        if fact is not None and fact.superseded_by:
            fact = replace(fact, superseded_by=self._memories + fact.superseded_by)
        self._times.append((record.created_at, self._memory))
        for source in record.sources:
            turn = self._turns + source.turn
            if source.memory:
                self._sources.append((self._memory, self._memories + source.memory))
            else:
                self._expired.append(
                    (self._memory, self._new.user, str(record.origin), self._at(source.agent).id, turn)
                )
        self._page.append(
            NewMemory(
                tier=Tier(record.tier),
                scope=self._new.scope,
                user=self._new.user,
                agent_id=it.id,
                path=it.path,
                origin=record.origin,
                text=record.text,
                index=record.index,
                at_ms=record.at_ms,
                session=record.session,
                turn=self._turns + record.turn if record.turn else 0,
                speaker=record.speaker,
                role=record.role,
                fact=fact,
                entity=record.entity,
            )
        )
        if len(self._page) >= _PAGE:
            self._flush_page()

    def _flush_page(self) -> None:
        self._memory_port.insert(self._tx, self._page)
        self._tx.db.executemany("UPDATE memories SET created_at = ? WHERE no = ?", self._times)
        self._page, self._times = [], []

    def _flush(self) -> None:
        """Write what memories have come, with their sources: entries that expired get numbers that lead nowhere."""
        if self._page:
            self._flush_page()
        for no, source in self._sources:  # only now: something is met again in entries that came after it
            self._memory_port.add_source(self._tx, no, source)
        self._sources = []
        if self._expired:
            rows = [(no, self._memory + at, *rest) for at, (no, *rest) in enumerate(self._expired, 1)]
            self._tx.db.executemany(
                "INSERT INTO memory_sources (no, source, user, origin, agent_id, turn) VALUES (?, ?, ?, ?, ?, ?)", rows
            )
            self._tx.run("UPDATE memory_scopes SET next = next + ? WHERE scope = ?", (len(rows), self._new.scope))
            self._expired = []

    def _add_mark(self, record: MarkRecord) -> None:
        self._flush()
        self._count("mark")
        agent_id = self._at(record.agent).id
        self._tx.run(
            "INSERT INTO memory_marks (agent_id, user, origin, through) VALUES (?, ?, 'system', ?)",
            (agent_id, self._new.user, self._memories + record.through if record.through else 0),
        )
        self._memory_port.renew_mark(self._tx, agent_id)

    # -- what is to come -----------------------------------------------------------------------------------------------

    def _add_reminder(self, record: ReminderRecord) -> None:
        if record.due_at <= self._tx.now:
            self._leave("reminders", "they were due before the import")
            return
        self._count("reminder")
        it = self._at(record.agent)
        key = f"import:{self._new.key}:{self._taken['reminder']}"
        envelope = Envelope(
            to=it.path,
            user=self._new.user,
            origin=record.origin,
            sender=it.path,
            key=key,
            text=record.text,
            trace=self._new.key,
            kind=record.kind,
            origins=record.origins,
        )
        no = timers.insert(self._tx, it.id, key, record.due_at, envelope)
        self._tx.run("UPDATE timers SET created_at = ? WHERE no = ?", (record.created_at, no))

    def _add_job(self, record: JobRecord) -> None:
        """Keep a job, paused: it may be one that goes on elsewhere, too."""
        user = self._new.user
        path = f"/{user}/cron/{record.name}"
        if self._tx.one("SELECT 1 FROM cron_jobs WHERE path = ? AND removed_at IS NULL", (path,)) is not None:
            self._leave("scheduled jobs", "there is one of that name here")
            return
        if (
            _number(self._tx, "SELECT count(*) FROM cron_jobs WHERE removed_at IS NULL AND user = ?", user)
            >= CRON_JOBS_MAX
        ):
            raise BusyError("CRON_JOBS_MAX", f"importing the job {path}: {user} has {CRON_JOBS_MAX} already")
        self._count("job")
        by = None if record.agent < 0 else self._at(record.agent).path
        self._tx.run(
            "INSERT INTO cron_jobs (path, user, origin, source, source_ref, key, spec, bounds, paused, created_at,"
            " updated_at) VALUES (?, ?, ?, ?, ?, '', ?, ?, 1, ?, ?)",
            (
                path,
                user,
                str(Origin.PERSON if by is None else Origin.AGENT),
                "cli" if by is None else "agent",
                by or "",
                _encode(record.spec).decode(),
                _encode(record.bounds).decode(),
                record.created_at,
                self._tx.now,
            ),
        )
        self._tx.of(BudgetPort).narrow(self._tx, path, record.limits)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _named_files(self) -> None:
        """Give the files the keys that they keep: what is forgotten with a turn is found by its number."""
        for place, (file_id, record) in enumerate(self._new.files, 1):
            key = f"import:{self._new.key}:{place}"
            if record.of:
                key = f"{record.of}:{self._turns + record.turn}:{record.rest}"
            self._tx.run("UPDATE files SET key = ? WHERE id = ? AND user = ?", (key, file_id, self._new.user))

    def _at(self, place: int) -> ArrivingAgent:
        return self._new.agents[place]

    def _trace(self, first: int) -> str:
        """Return the trace of what came of a turn: turns of one trace are forgotten together, so no other has it."""
        return f"{self._new.key}.{first}"

    def _count(self, what: str) -> None:
        self._taken[what] += 1

    def _leave(self, what: str, why: str) -> None:
        before = self._left.get(what)
        self._left[what] = LeftOut(what=what, count=1 + (before.count if before else 0), why=why)


def _number(tx: Tx, sql: str, *bindings: str) -> int:
    row = tx.one(sql, bindings)
    assert row is not None
    return int(row[0])
