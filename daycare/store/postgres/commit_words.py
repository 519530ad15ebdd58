"""What one node tells the others of a commit: enough for each to do what it does after one of its own.

Messages are named, and read by the node whose they are. What only observers hear of (events, dead letters) stays with
the node where it happened.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from daycare.store.records import Commit
from daycare.store.sqlite.mailbox import ROWS
from daycare.store.sqlite.sql import those

_PAGE: Final = 200  # messages read with one statement


class CommitWord(msgspec.Struct, array_like=True, omit_defaults=True):
    """A commit, for other nodes. `news` are those of capabilities, by name; `tables` those whose rows are kept."""

    posted: list[int] = []
    completed: list[tuple[int, str | None]] = []
    connectors: list[str] = []
    timers: bool = False
    agents: list[str] = []
    reworded: list[int] = []
    memories: bool = False
    documents: bool = False
    forgotten: bool = False
    cut_off: list[str] = []
    people: bool = False
    secrets: bool = False
    news: list[str] = []
    tables: list[str] = []


_NOTHING: Final = CommitWord()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CommitWord).decode


def encoded(commit: Commit, tables: Iterable[str]) -> str:
    """Return what is told of a commit that changed rows of these watched tables; empty for nothing."""
    told = CommitWord(
        posted=[row.seq for row in commit.posted],
        completed=[(seq, None) for seq, _ in commit.completed],
        connectors=sorted(commit.connectors),
        timers=commit.timers,
        agents=sorted(commit.agents),
        reworded=[row.seq for row in commit.reworded],
        memories=commit.memories,
        documents=commit.documents,
        forgotten=commit.forgotten,
        cut_off=sorted(commit.cut_off),
        people=commit.people,
        secrets=commit.secrets,
        news=[kind.__name__ for kind in commit.news],
        tables=sorted(tables),
    )
    return "" if told == _NOTHING else _encode(told).decode()


class HeardCommits:
    """What other nodes have told since somebody last listened; `commit` is all of it together, in order."""

    def __init__(self, news: Mapping[str, Any]) -> None:
        self._news = news  # of capabilities, by the names of their classes: what another node's amount to
        self.commit = blank()
        self.tables: set[str] = set()
        self.any = False

    def add(self, db: Any, texts: Iterable[str]) -> None:
        """Take what was told, all or nothing, and read the messages that are this node's."""
        words = [_decode(text) for text in texts]
        posted = _rows(db, [seq for told in words for seq in told.posted])
        reworded = _rows(db, [seq for told in words for seq in told.reworded])
        commit = self.commit
        commit.posted += posted
        commit.reworded += reworded
        for told in words:
            self.any = True
            commit.completed += told.completed
            commit.connectors.update(told.connectors)
            commit.timers |= told.timers
            commit.agents.update(told.agents)
            commit.memories |= told.memories
            commit.documents |= told.documents
            commit.forgotten |= told.forgotten
            commit.cut_off.update(told.cut_off)
            commit.people |= told.people
            commit.secrets |= told.secrets
            for name in told.news:
                if (news := self._news.get(name)) is not None:
                    commit.news[type(news)] = news
            self.tables.update(told.tables)


def _rows(db: Any, seqs: list[int]) -> list[Any]:
    rows: list[Any] = []
    for start in range(0, len(seqs), _PAGE):
        # The agent's user counts, whoever the message is from.
        rows += ROWS.find(
            db,
            "seq IN (SELECT value FROM carray(?)) AND state = 0"
            " AND (SELECT mine(a.user) FROM agents a WHERE a.id = agent_id) ORDER BY seq",
            (those(seqs[start : start + _PAGE]),),
        )
    return rows


def blank() -> Commit:
    """Return a commit in which nothing has happened."""
    return Commit(posted=[], completed=[], connectors=set(), timers=False, dead=[], unheard=0, agents=set())
