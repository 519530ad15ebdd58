"""Exports: a subtree of agents, read as of one moment, and where imports come in.

A snapshot is a connection of its own with tables of its own, which say which agents, turns and memories have which
place in the export.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeVar

import apsw
import msgspec
import trio
from msgspec.structs import replace

from daycare.base.consent import Consent
from daycare.base.cron import CronSpec
from daycare.base.documents import Layer
from daycare.base.errors import BrokenError, NotFoundError
from daycare.base.messages import Message, Origin, read_envelope
from daycare.base.scope import scope_of
from daycare.base.times import moment
from daycare.features.exports import importing, rows_receipts
from daycare.features.exports.records import (
    AgentRecord,
    Anything,
    Brought,
    DocumentRecord,
    FileRecord,
    Incoming,
    JobRecord,
    LeftOut,
    MarkRecord,
    MemoryRecord,
    ReminderRecord,
    SessionRecord,
    SourceRecord,
    SummaryRecord,
    TurnRecord,
    in_time,
)
from daycare.features.exports.rows_bounds import bound_above, bounds_from
from daycare.features.exports.rows_tables import LEFT_OUT
from daycare.store.bucket import PlacedObject
from daycare.store.records import AgentConfig
from daycare.store.sqlite.database import count
from daycare.store.sqlite.ports import BudgetPort, DocumentPort, MemoryPort
from daycare.store.sqlite.rows import Rows, Table

T = TypeVar("T")
_Ports = tuple[MemoryPort, DocumentPort, BudgetPort]
Fetch = Callable[[PlacedObject], bytes]


def _nothing_fetched(it: PlacedObject) -> bytes:
    raise BrokenError("BUCKET_NONE", f"reading {it.name}: no bucket is set", hint="[files.s3] bucket")


_SHARED: Final = tuple(layer for layer in Layer if layer is not Layer.AGENT)
# What the keys of files begin with that belong to a turn:
_OF_TURNS: Final[tuple[Literal["result", "shortened", "turn"], ...]] = ("result", "shortened", "turn")
_decode_messages = msgspec.json.Decoder(tuple[Message, ...]).decode
_decode_config = msgspec.json.Decoder(AgentConfig).decode
_decode_lines = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_spec = msgspec.json.Decoder(CronSpec).decode

_PLACES: Final = """
CREATE TEMP TABLE exported (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE);
INSERT INTO exported SELECT row_number() OVER (ORDER BY path) - 1, id, path FROM agents
    WHERE state <> 'dead' AND user = :user AND (path = :path OR path > :path || '/' AND path < :path || '0');
CREATE TEMP TABLE turn_places (place INTEGER PRIMARY KEY, turn INTEGER NOT NULL UNIQUE, trace TEXT NOT NULL);
INSERT INTO turn_places SELECT row_number() OVER (ORDER BY t.turn), t.turn, t.trace FROM turns t
    JOIN history h USING (turn) JOIN exported e ON e.id = t.agent_id WHERE t.session > 0;
CREATE TEMP TABLE trace_places (trace TEXT PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO trace_places SELECT trace, min(place) FROM turn_places GROUP BY trace;
CREATE TEMP TABLE memory_places (place INTEGER PRIMARY KEY, no INTEGER NOT NULL UNIQUE);
INSERT INTO memory_places SELECT row_number() OVER (ORDER BY no), no FROM memories
    WHERE no BETWEEN :first AND :last AND tier <> 'chunk' AND text IS NOT NULL
    AND agent_id IN (SELECT id FROM exported);
"""  # 0 is the character after the slash


class ExportRows(Rows):
    """Subtrees of agents as records."""

    @contextmanager
    def snapshot(
        self, path: str, tables: Sequence[Table], fetch: Fetch = _nothing_fetched, *, shared: bool = False
    ) -> Iterator["Subtree"]:
        """Open the subtree of a living agent as it is now; `shared` adds what its person's agents have in common.

        `tables` are those that capabilities declare: what of theirs is left out is counted by their queries. `fetch`
        returns the bytes of files that lie in a bucket.
        What is written meanwhile is not in it, and nothing waits for it. Raises `NotFoundError` when nobody lives
        there.
        """
        db, of = self._readers.open(), self._writer.memory.followers.of
        try:
            db.execute("BEGIN")
            ports = of(MemoryPort), of(DocumentPort), of(BudgetPort)
            yield Subtree(db, path, tables, ports, fetch, shared=shared)
        finally:
            db.close()

    async def keep_files(self, key: str, user: str, files: Sequence[tuple[int, FileRecord, bytes]]) -> list[int]:
        """Keep files (place, record, bytes) of an import in one commit; return their ids.

        Nothing names them before `bring_in`; `sweep` removes them.
        """
        size = sum(len(data) for *_, data in files)
        return await self._write(lambda tx: importing.keep_files(tx, key, user, files), size)

    async def bring_in(self, new: Incoming, records: Callable[[], Iterable[Anything]]) -> Brought:
        """Let everything be there, in one commit: checked records in their order, with paths as they are to be.

        `records` may be called again when the commit has to be tried again. Raises, with nothing changed,
        `ConflictError` PATH_TAKEN when somebody lives at one of the paths, or below the first; and what the rules of
        documents and memories refuse.
        """
        return await self._write(lambda tx: importing.bring_in(tx, new, records()))

    async def apart(self, work: Callable[[], T]) -> T:
        """Run what blocks for long, such as the reading of a snapshot, where it holds up nobody."""
        return work() if self._writer.inline else await trio.to_thread.run_sync(work)

    async def sweep(self) -> int:
        """Remove what imports left that did not come to their end; return how many files. No import may run."""
        return await self._write(importing.sweep)


class Subtree:
    """See `records.Snapshot`."""

    def __init__(
        self, db: apsw.Connection, path: str, tables: Sequence[Table], ports: _Ports, fetch: Fetch, *, shared: bool
    ) -> None:
        self._db = db
        self._fetch = fetch
        self._memory_port, self._document_port, self._budget_port = ports
        self._path = path
        self._shared = shared
        row = db.execute("SELECT user FROM agents WHERE path = ? AND state <> 'dead'", (path,)).fetchone()
        if row is None:
            raise NotFoundError("AGENT_UNKNOWN", f"exporting {path}: no such agent", hint="daycare agents")
        self._user = str(row[0])
        self._scope = scope_of(path)
        first, last = self._memory_port.span(db, self._scope) or (0, -1)
        bounds = {"first": first, "last": last}
        for statement in _PLACES.strip().split(";\n"):  # by itself each: one may not have all the names
            wanted = {"user": self._user, "path": path} | bounds
            db.execute(statement, {name: value for name, value in wanted.items() if f":{name}" in statement})
        self._left: dict[str, LeftOut] = {}
        self._away: set[int] = set()
        self._lost: set[int] = set()
        for table in (*LEFT_OUT, *tables):
            if table.query:
                self._leave(table.what, count(db, table.query), table.why)
        waiting = "SELECT count(*) FROM inbox WHERE state IN (0, 3) AND agent_id IN (SELECT id FROM exported)"
        self._leave("waiting messages", count(db, waiting), "they are not answered yet: let the agent answer first")
        self._leave(
            "unfinished turns",
            count(db, "SELECT count(*) FROM turns t JOIN exported e ON e.id = t.agent_id"
                  " WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)"),
            "only what has ended is taken",
        )  # fmt: skip
        self._leave(
            "agents that have ended",
            count(db, "SELECT count(*) FROM agents WHERE state = 'dead' AND (path = ?1 OR path > ?1 || '/'"
                  " AND path < ?1 || '0')", (path,)),
            "what they said to living ones is in the turns of these",
        )  # fmt: skip
        self._leave("agents of other users", count(
            db, "SELECT count(*) FROM agents WHERE state <> 'dead' AND user <> ?2 AND path > ?1 || '/'"
            " AND path < ?1 || '0'", (path, self._user)), "they are not this user's")  # fmt: skip

    @property
    def left_out(self) -> list[LeftOut]:
        """What is not handed out; known in full once everything else was read."""
        return [each for each in self._left.values() if each.count]

    def paths(self) -> list[str]:
        """Return where the agents are."""
        return [path for (path,) in self._rows("SELECT path FROM exported ORDER BY place")]

    def records(self) -> Iterator[Anything]:
        """Yield the records in their order."""
        parts = (self._agents, self._sessions, self._turns, self._receipts, self._summaries, self._documents)
        for part in (*parts, self._memories, self._marks, self._reminders, self._jobs):
            yield from map(in_time, part())

    def files_of_turns(self) -> list[tuple[int, FileRecord]]:
        """Return the files whose keys name one of the turns, in the order of these."""
        found = []
        for of in _OF_TURNS:
            rows = self._rows(
                "SELECT id, key FROM files WHERE user = ? AND key > ? AND key < ?",
                (self._user, f"{of}:", f"{of};"),  # the character after the colon
            )
            for file_id, key in rows:
                turn, _, rest = key.removeprefix(f"{of}:").partition(":")
                place = self._turn(int(turn)) if turn.isdecimal() and len(turn) < 19 else 0
                known = self._file(file_id) if place else None
                if known is not None:
                    found.append((file_id, replace(known, of=of, turn=place, rest=rest)))
        return sorted(found, key=lambda each: (each[1].turn, each[1].of, each[1].rest))

    def file(self, file_id: int) -> tuple[FileRecord, bytes] | None:
        """Return a file with its bytes: none of one that its bucket has lost."""
        known = self._file(file_id)
        if known is None:
            return None
        [(data, name, size, sha256)] = self._rows(
            "SELECT data, object, size, sha256 FROM files WHERE id = ?", (file_id,)
        )
        if data is None and file_id not in self._lost:
            try:
                data = self._fetch(PlacedObject(name, size, sha256))
            except BrokenError:
                self._lost.add(file_id)
                self._leave("bytes of files", 1, "they are lost or changed in the bucket: daycare health")
        return known, data or b""

    # -- one kind each -------------------------------------------------------------------------------------------------

    def _agents(self) -> Iterator[AgentRecord]:
        for path, kind, state, origin, config, session, made, subs, searches, reason, keeps, parent in self._rows(
            "SELECT a.path, kind, a.state, a.origin, config, session, created_at, next_sub_index, next_search_index,"
            " reason, b.state, parent FROM exported e JOIN agents a USING (id)"
            " LEFT JOIN behaviour_states b ON b.agent_id = a.id ORDER BY e.place"
        ):
            yield AgentRecord(
                path=path.removeprefix(self._path),
                kind=kind,
                state=state,
                origin=Origin(origin),
                config=self._settings(bound_above(self._db, _decode_config(config), kind, parent)),
                session=session,
                created_at=made,
                next_sub_index=subs,
                next_search_index=searches,
                reason=reason,
                keeps=keeps,
                limits=self._budget_port.limits(self._db, path),
            )

    def _settings(self, config: AgentConfig) -> AgentConfig:
        """Return an agent's settings without what it was allowed."""
        if config.approvals is not Consent.AUTO:
            return config
        self._leave("setting `approvals`", 1, "a person chooses what is done without asking them")
        return replace(config, approvals=None)

    def _sessions(self) -> Iterator[SessionRecord]:
        for agent, session, origin, started, ended, reason in self._rows(
            "SELECT e.place, session, origin, started_at, ended_at, reason FROM exported e"
            " JOIN sessions s ON s.agent_id = e.id ORDER BY e.place, session"
        ):
            yield SessionRecord(
                agent=agent, session=session, origin=Origin(origin), started_at=started, ended_at=ended, reason=reason
            )

    def _turns(self) -> Iterator[TurnRecord]:
        for agent, session, trace, origin, state, attempt, started, ended, messages, error, logged, by in self._rows(
            "SELECT e.place, t.session, tr.place, t.origin, h.state, t.attempt, t.started_at, h.ended_at,"
            " unpacked(h.messages), h.error,"
            " coalesce((SELECT last FROM memory_logged WHERE first <= p.turn ORDER BY first DESC LIMIT 1), 0)"
            " >= p.turn OR EXISTS (SELECT 1 FROM forgotten_turns f WHERE f.turn = p.turn),"
            " coalesce((SELECT r.place FROM turn_places r WHERE r.turn = t.replaced_by), 0)"
            " FROM turn_places p JOIN turns t ON t.turn = p.turn JOIN history h ON h.turn = p.turn"
            " JOIN exported e ON e.id = t.agent_id JOIN trace_places tr ON tr.trace = p.trace ORDER BY p.place"
        ):
            yield TurnRecord(
                agent=agent,
                session=session,
                trace=trace,
                origin=Origin(origin),
                state=state,
                attempt=attempt,
                started_at=started,
                ended_at=ended,
                messages=_decode_messages(messages),
                error=error,
                logged=bool(logged),
                replaced_by=by,
            )

    def _receipts(self) -> Iterator[Anything]:
        return map(rows_receipts.read, self._rows(rows_receipts.SELECT))

    def _summaries(self) -> Iterator[SummaryRecord]:
        last = (-1, 0, 0)
        for agent, session, through, origin, turns, text, before, after, made in self._rows(
            "SELECT e.place, session, (SELECT max(p.place) FROM turn_places p JOIN turns t USING (turn)"
            " WHERE p.turn <= s.through AND t.agent_id = e.id AND t.session = s.session), origin, turns, text,"
            " tokens_before, tokens_after, created_at FROM exported e JOIN summaries s ON s.agent_id = e.id"
            " ORDER BY e.place, session, through"
        ):
            if through is None or (agent, session, through) == last:
                self._leave("summaries", 1, "their turns are not there")
                continue
            last = (agent, session, through)
            yield SummaryRecord(
                agent=agent,
                session=session,
                through=through,
                origin=Origin(origin),
                turns=turns,
                text=text,
                tokens_before=before,
                tokens_after=after,
                created_at=made,
            )

    def _documents(self) -> Iterator[DocumentRecord]:
        for agent, agent_id in self._rows("SELECT place, id FROM exported ORDER BY place"):
            yield from self._versions(Layer.AGENT, agent, agent_id)
        for layer in _SHARED:
            owner = "" if layer is Layer.GLOBAL else self._scope
            if not self._shared:
                many = count(
                    self._db, "SELECT count(*) FROM living_documents WHERE layer = ? AND owner = ?", (str(layer), owner)
                )
                self._leave("shared documents", many, "they are not this agent's alone; --with-shared takes them")
                continue
            yield from self._versions(layer, -1, owner)

    def _versions(self, layer: Layer, agent: int, owner: str) -> Iterator[DocumentRecord]:
        return _documents((layer, agent, *row) for row in self._document_port.versions(self._db, layer, owner))

    def _memories(self) -> Iterator[MemoryRecord]:
        for no, agent, tier, origin, text, at_ms, made, session, turn, speaker, role, index, extra in self._rows(
            "SELECT m.no, e.place, tier, m.origin, text, at_ms, m.created_at, session, p.place, speaker, m.role,"
            " indexed, extra FROM memory_places mp JOIN memories m ON m.no = mp.no JOIN exported e ON e.id = m.agent_id"
            " LEFT JOIN turn_places p ON p.turn = m.turn ORDER BY mp.place"
        ):
            fact, entity = self._memory_port.parts(extra)
            if fact is not None and fact.superseded_by:
                fact = replace(fact, superseded_by=self._memory(fact.superseded_by))
            yield MemoryRecord(
                agent=agent,
                tier=tier,
                origin=Origin(origin),
                text=text,
                at_ms=at_ms,
                created_at=made,
                session=max(session, 0),
                turn=turn or 0,
                speaker=speaker,
                role=role,
                index=index or "",
                fact=fact,
                entity=entity,
                sources=() if tier == "log" else self._sources(no),
            )
        if self._memory_port.span(self._db, self._scope) is not None:
            others = "memories m JOIN memory_scopes s ON s.no = m.no >> 32 WHERE s.scope = ? AND text IS NOT NULL AND"
            many = count(
                self._db,
                f"SELECT count(*) FROM {others} tier <> 'chunk' AND NOT EXISTS"
                " (SELECT 1 FROM memory_places p WHERE p.no = m.no)",
                (self._scope,),
            )
            self._leave("memories of other agents", many, "they come from conversations that are not exported")

    def _sources(self, no: int) -> tuple[SourceRecord, ...]:
        rows = self._rows(
            "SELECT coalesce(p.place, 0), coalesce(e.place, -1), coalesce(mp.place, 0) FROM memory_sources s"
            " LEFT JOIN turn_places p ON p.turn = s.turn LEFT JOIN exported e ON e.id = s.agent_id"
            " LEFT JOIN memory_places mp ON mp.no = s.source WHERE s.no = ? ORDER BY 1, 3",
            (no,),
        )
        found = []
        for turn, agent, memory in rows:
            if agent < 0 or not turn:
                self._leave("sources of memories", 1, "the conversation that they come from is not exported")
                continue
            found.append(SourceRecord(turn=turn, agent=agent, memory=memory))
        return tuple(found)

    def _marks(self) -> Iterator[MarkRecord]:
        for agent, through in self._rows(
            "SELECT e.place, coalesce((SELECT max(mp.place) FROM memory_places mp JOIN memories n ON n.no = mp.no"
            " WHERE mp.no <= m.through AND n.agent_id = e.id AND n.tier = 'log'), 0)"
            " FROM exported e JOIN memory_marks m ON m.agent_id = e.id ORDER BY e.place"
        ):
            yield MarkRecord(agent=agent, through=through)

    def _reminders(self) -> Iterator[ReminderRecord]:
        for agent, due_at, made, text in self._rows(
            "SELECT e.place, due_at, created_at, envelope FROM exported e JOIN timers t ON t.agent_id = e.id"
            " ORDER BY e.place, due_at, no"
        ):
            envelope = read_envelope(text)
            if envelope.origin is not Origin.TIMER or envelope.cause is not None:
                self._leave("deadlines", 1, "of what is asked from here")
                continue
            yield ReminderRecord(
                agent=agent,
                due_at=due_at,
                created_at=made,
                origin=envelope.origin,
                kind=envelope.kind,
                text=envelope.text,
                origins=envelope.origins or None,
            )

    def _jobs(self) -> Iterator[JobRecord]:
        for path, source, agent, spec, paused, made, bounds in self._rows(
            "SELECT j.path, source, e.place, spec, paused, created_at, bounds FROM cron_jobs j"
            " LEFT JOIN exported e ON source = 'agent' AND e.path = source_ref"
            " WHERE removed_at IS NULL AND j.user = ? AND (e.place IS NOT NULL OR j.path = ?"
            " OR spec ->> 'target' IN (SELECT path FROM exported)) ORDER BY j.path",
            (self._user, self._path),
        ):
            if source not in ("cli", "agent"):
                self._leave("scheduled jobs of config.toml or cron/", 1, "they stand in files: copy these")
                continue
            yield JobRecord(
                name=path.rsplit("/", 1)[-1],
                agent=-1 if agent is None else agent,
                paused=bool(paused),
                spec=_decode_spec(spec),
                created_at=made,
                bounds=bounds_from(bounds),
                limits=self._budget_port.limits(self._db, path),
            )

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _rows(self, sql: str, bindings: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        return iter(self._db.execute(sql, bindings))

    def _leave(self, what: str, many: int, why: str) -> None:
        before = self._left.get(what)
        self._left[what] = LeftOut(what=what, count=many + (before.count if before else 0), why=why)

    def _turn(self, turn: int) -> int:
        return count(self._db, "SELECT coalesce((SELECT place FROM turn_places WHERE turn = ?), 0)", (turn,))

    def _memory(self, no: int) -> int:
        return count(self._db, "SELECT coalesce((SELECT place FROM memory_places WHERE no = ?), 0)", (no,))

    def _file(self, file_id: int) -> FileRecord | None:
        for name, media_type, size, origin, made, away in self._rows(
            "SELECT name, media_type, size, origin, created_at, data IS NULL AND object IS NULL FROM files"
            " WHERE id = ? AND user = ?",
            (file_id, self._user),
        ):
            if not away:
                at = moment(made)
                return FileRecord(
                    name=name, media_type=media_type, size=size, sha256="0" * 64, origin=Origin(origin), created_at=at
                )
            self._leave("files", int(file_id not in self._away), "they are still with the messenger they came over")
            self._away.add(file_id)
        return None


def _documents(rows: Iterable[tuple[Any, ...]]) -> Iterator[DocumentRecord]:
    """Yield versions, those of each document numbered without the gaps that older ones have left."""
    last: tuple[Any, ...] = ()
    number = 0
    for row in rows:
        number = number + 1 if row[:3] == last else 1
        last = row[:3]
        yield _document(row, number)


def _document(row: tuple[Any, ...], version: int) -> DocumentRecord:
    layer, agent, name, _, origin, author, approver, reason, provenance, hash_, made, text = row
    return DocumentRecord(
        layer=Layer(layer), agent=agent, name=name, version=version, origin=Origin(origin), author=author,
        approver=approver, reason=reason, provenance=_decode_lines(provenance), hash=hash_, created_at=made, text=text,
    )  # fmt: skip
