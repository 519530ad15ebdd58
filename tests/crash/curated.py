"""The judge of curation: what the store had of what was said, at every kill and in the end."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from tests.crash.judge import World
from tests.crash.ledger import Finding, Ledger, Sent
from tests.crash.process import Home

FRIEND = "Clara"  # of whom every message speaks: one entity a person
ANSWERED = re.compile(r"\back m (s\d+) (\d+)$", re.MULTILINE)
WORD = re.compile(r"\bX(s\d+)n(\d+)\b")


def word_of(sent: Sent) -> str:
    """Return what only one message speaks of."""
    return f"X{sent.errand.sender}n{sent.errand.number}"


class Entry(NamedTuple):
    """A log entry. `asked` and `answered` are the words of the messages that it is, or that it answers."""

    agent: str
    turn: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]


class Watch:
    """What the store had whenever the daemon was dead. What is wrong with it is in `findings`, once."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}  # all that ever were in the log
        self.expired = 0
        self.moments: Counter[str] = Counter()  # what the kills interrupted
        self.findings: dict[Finding, None] = {}
        self._there: set[int] = set()
        self._marks: dict[str, int] = {}
        self._known_ms = 0  # facts from before were looked at

    def look(self, home: Home) -> None:
        """Look into a copy of a store, which does not change the original as opening it would."""
        with tempfile.TemporaryDirectory() as folder:
            for file in (home.database, home.database.with_name(f"{home.database.name}-wal")):
                if file.exists():
                    shutil.copy(file, folder)
            db = apsw.Connection(str(Path(folder) / home.database.name))
            try:
                self.findings |= dict.fromkeys(self.compare(db))
                self.moments.update(interrupted(db))
            finally:
                db.close()

    def compare(self, db: apsw.Connection) -> Iterator[Finding]:
        """Yield what cannot be, given what there was before."""
        marks = {str(agent): int(str(mark)) for agent, mark in db.execute("SELECT agent_id, through FROM memory_marks")}
        there = {
            int(str(no)): Entry(
                str(agent),
                int(str(turn)),
                tuple(f"X{sender}n{n}" for sender, n in WORD.findall(str(text))) if role == "user" else (),
                tuple(f"X{sender}n{n}" for sender, n in ANSWERED.findall(str(text))) if role != "user" else (),
            )
            for no, agent, turn, role, text in db.execute(
                "SELECT no, agent_id, turn, role, text FROM memories WHERE tier = 'log'"
            )
        }
        yield from self._went(there, marks)
        facts = facts_of(db)
        for no, entry in there.items():
            if self.entries.setdefault(no, entry) != entry:
                yield "broken", f"entry {no} of the log is another one now: {entry}"
            for word in entry.asked:
                if no > marks.get(entry.agent, 0):
                    if facts[word]:
                        yield "processed_twice", f"{word} was learned from, and the mark stands before entry {no}"
                elif not facts[word]:
                    yield "marked_unseen", f"the mark stands behind entry {no}, and nothing is known of {word}"
        for agent, mark in self._marks.items():
            if marks.get(agent, 0) < mark:
                yield "broken", f"the mark of {agent} went back from {mark} to {marks.get(agent, 0)}"
        yield from self._sources(db)
        yield from miscounted(db)
        self._there, self._marks = set(there), marks

    def _went(self, there: dict[int, Entry], marks: dict[str, int]) -> Iterator[Finding]:
        for no in self._there - set(there):
            self.expired += 1
            entry = self.entries[no]
            if no > marks.get(entry.agent, 0):
                yield "expired_uncurated", f"entry {no} ({entry}): the mark is at {marks.get(entry.agent, 0)}"

    def _sources(self, db: apsw.Connection) -> Iterator[Finding]:
        """What is new was learned from the very entries that say it."""
        rows = db.execute(
            "SELECT no, text, created_at, (SELECT json_group_array(source) FROM memory_sources s WHERE s.no = m.no)"
            " FROM memories m WHERE tier = 'fact' AND created_at >= ? ORDER BY created_at",
            (self._known_ms,),
        )
        for no, text, at_ms, sources in rows:
            self._known_ms = int(str(at_ms))
            for sender, number in WORD.findall(str(text)):
                word = f"X{sender}n{number}"
                wrong = [n for n in json.loads(str(sources)) if word not in self.entries.get(n, _NOTHING).asked]
                if wrong or sources == "[]":
                    yield "sourceless", f"fact {no} ({text}) comes from {sources}, of which {wrong} do not say so"


_NOTHING = Entry("", 0, (), ())


def miscounted(db: apsw.Connection) -> Iterator[Finding]:
    """Yield where vectors are not as many as are counted, or are of nothing."""
    counted = dict(db.execute("SELECT model << 20 | scope, vectors FROM memory_embedded WHERE vectors > 0"))
    there = dict(db.execute("SELECT key >> 32, count(*) FROM memory_vectors GROUP BY key >> 32"))
    if counted != there:
        yield "broken", f"vectors by model and scope are {there}, and counted as {counted}"
    nothings = (
        "SELECT count(*) FROM memory_vectors WHERE key & ? NOT IN (SELECT no FROM memories WHERE text IS NOT NULL)"
    )
    [(of_nothing,)] = db.execute(nothings, ((1 << 52) - 1,))
    if of_nothing:
        yield "broken", f"{of_nothing} vectors are of nothing that is remembered"


def facts_of(db: apsw.Connection) -> Counter[str]:
    """Return how many facts there are of each parcel."""
    rows = db.execute("SELECT text FROM memories WHERE tier = 'fact' AND text IS NOT NULL")
    return Counter(f"X{sender}n{number}" for (text,) in rows for sender, number in WORD.findall(str(text)))


def interrupted(db: apsw.Connection) -> Iterator[str]:
    """Yield what a kill came into, as far as the store shows it."""
    of_workers = "SELECT id FROM agents WHERE kind = 'memory'"
    unlogged = (
        "SELECT 1 FROM history h WHERE turn NOT IN (SELECT turn FROM turns WHERE agent_id IN"
        f" ({of_workers})) AND NOT EXISTS (SELECT 1 FROM memory_logged WHERE h.turn BETWEEN first AND last)"
    )
    waiting = f"SELECT agent_id, key FROM inbox WHERE state = 0 AND agent_id IN ({of_workers})"
    open_ = (
        "SELECT a.parent, (SELECT max(CAST(i.extra ->> '$.cause.through' AS INTEGER)) FROM inbox i, json_each(t.seqs) s"
        " WHERE i.seq = s.value) FROM turns t JOIN agents a ON a.id = t.agent_id WHERE a.kind = 'memory'"
        " AND t.turn NOT IN (SELECT turn FROM history)"
    )
    marks = dict(db.execute("SELECT agent_id, through FROM memory_marks"))
    turns = db.execute(open_).fetchall()
    if db.execute(unlogged).fetchone():
        yield "before_log"
    if db.execute("SELECT 1 FROM memory_marks WHERE newest > through").fetchone():
        yield "uncurated"
    if db.execute(waiting).fetchone():
        yield "handed_off"
    if any(marks.get(agent, 0) < through for agent, through in turns):
        yield "before_learning"
    if any(marks.get(agent, 0) >= through for agent, through in turns):
        yield "after_learning"


def remembered(db: apsw.Connection, ledger: Ledger, watch: Watch) -> Iterator[Finding]:
    """Compare, once all is quiet and the daemon has stopped, what was said with what was kept of it."""
    yield from watch.findings
    dead = {errand for _, errand in World(db).dead}
    asked = Counter(word for entry in watch.entries.values() for word in entry.asked)
    answered = Counter(word for entry in watch.entries.values() for word in entry.answered)
    facts = facts_of(db)
    for sent in ledger.acknowledged:
        word = word_of(sent)
        for what, times in (("is", asked[word]), ("its answer is", answered[word])):
            if times > 1:
                yield "doubled", f"{sent.errand}: {what} {times} times in the log"
            elif not times and sent.errand not in dead:
                yield "lost", f"{sent.errand}: {what} not in the log"
        if facts[word] > 1:
            yield "processed_twice", f"{word} is {facts[word]} facts"
        elif not facts[word] and sent.errand not in dead:
            yield "unprocessed", f"nothing is known of {word}"
    yield from _left(db)
    yield from _merged(db, watch)


def _left(db: apsw.Connection) -> Iterator[Finding]:
    """Nothing waits to be looked at, nothing was learned from nowhere, and nobody was told of workers."""
    for agent, through, newest in db.execute(
        "SELECT agent_id, through, newest FROM memory_marks WHERE newest > through"
    ):
        yield "unprocessed", f"the worker of {agent} has come to {through}, its log goes to {newest}"
    nowhere = (
        "SELECT no, text FROM memories m WHERE tier IN ('fact', 'entity') AND text IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM memory_sources s WHERE s.no = m.no)"
    )
    for no, text in db.execute(nowhere):
        yield "sourceless", f"{no}: {text}"
    bare = (
        "SELECT count(*) FROM memories m WHERE text IS NOT NULL AND EXISTS (SELECT 1 FROM memory_models)"
        " AND NOT EXISTS (SELECT 1 FROM memory_models k JOIN memory_vectors v ON v.key = k.no << 52 | m.no)"
    )
    [(without,)] = db.execute(bare)
    if without:
        yield "unprocessed", f"{without} memories have no vector"
    for (text,) in db.execute("SELECT text FROM outbox WHERE text LIKE '%/memory%'"):
        yield "broken", f"a person was told of a memory worker: {text}"


def _merged(db: apsw.Connection, watch: Watch) -> Iterator[Finding]:
    """Of each person one number holds, their friend is one entity that counts all mentions, and each parcel is one."""
    said_by: Counter[int] = Counter()
    for no, entry in watch.entries.items():
        said_by[no >> 32] += bool(entry.asked)
    entities: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for no, extra in db.execute("SELECT no, extra FROM memories WHERE tier = 'entity' AND text IS NOT NULL"):
        entity = json.loads(str(extra))["entity"]
        entities.setdefault((int(str(no)) >> 32, entity["name"]), []).append(entity)
    for (scope, name), rows in entities.items():
        if len(rows) > 1:
            yield "processed_twice", f"{name} is {len(rows)} entities of scope {scope}"
        elif name == FRIEND and (mentions := rows[0].get("mentions", 1)) != said_by[scope]:
            kind = "processed_twice" if mentions > said_by[scope] else "unprocessed"
            yield kind, f"{name} is mentioned {mentions} times in scope {scope}, of {said_by[scope]}"
    holding: Counter[int] = Counter()
    for no, extra in db.execute("SELECT no, extra FROM memories WHERE tier = 'fact' AND text IS NOT NULL"):
        fact = json.loads(str(extra))["fact"]
        holding[int(str(no)) >> 32] += fact.get("attribute") == "favourite number" and not fact.get("valid_until_ms")
    for scope, numbers in holding.items():
        if numbers != 1:
            yield "broken", f"{numbers} favourite numbers hold in scope {scope}"
