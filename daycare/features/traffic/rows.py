"""Which messages moved, read from inbox and outbox themselves: each is a row there, and nothing more is written.

Everything here may read many rows: call it in a thread of its own.
"""

from typing import Any, Final

import apsw

from daycare.features.traffic.records import FoundTrace, Movement, PathScope
from daycare.store.sqlite.rows import Rows

ROWS_SCANNED_MAX: Final = 50_000  # of each table for one page: some hundredths of a second

_NEWEST: Final = 2**62
_STATES: Final = ("waiting", "done", "dead", "waiting")
_REPLY_STATES: Final = ("waiting", "sending", "sent", "dead", "dead")

_OWN: Final = "(path = :own OR (:own_below AND substr(path, 1, length(:own) + 1) = :own || '/'))"
_TO: Final = "path = :at OR (:at_below AND substr(path, 1, length(:at) + 1) = :at || '/')"
_FROM: Final = "sender = :at OR (:at_below AND substr(sender, 1, length(:at) + 1) = :at || '/')"
_MESSAGES: Final = (
    "SELECT seq, created_at, sender, path, trace, state, turn, done_at FROM inbox"
    f" WHERE seq >= :first AND seq < :before AND {_OWN} AND ({_TO} OR {_FROM}) ORDER BY seq DESC LIMIT :limit"
)
_REPLIES: Final = (
    "SELECT seq, created_at, path, connector, trace, state, turn, sent_at FROM outbox"
    f" WHERE seq >= :first AND seq < :before AND {_OWN} AND ({_TO}) ORDER BY seq DESC LIMIT :limit"
)
_MESSAGE_FROM: Final = "SELECT seq, created_at FROM inbox WHERE seq >= ? ORDER BY seq LIMIT 1"
_REPLY_FROM: Final = "SELECT seq, created_at FROM outbox WHERE seq >= ? ORDER BY seq LIMIT 1"

_BY_NAME: Final = f"""
SELECT trace, created_at, path, 'message ' || seq FROM inbox WHERE (seq = :number OR key = :text) AND {_OWN}
UNION ALL SELECT trace, created_at, path, 'message ' || seq FROM inbox WHERE trace = :text AND {_OWN}
UNION ALL SELECT trace, created_at, path, 'reply ' || seq FROM outbox WHERE trace = :text AND {_OWN}
ORDER BY 2 LIMIT :limit
"""
_BY_PATH: Final = f"""
SELECT trace, created_at, path, 'message ' || seq FROM inbox
    WHERE seq > :newest - {ROWS_SCANNED_MAX} AND (path = :text OR (:named AND sender = :text)) AND {_OWN}
    ORDER BY seq DESC LIMIT :limit
"""
_BY_ERROR: Final = f"""
SELECT trace, created_at, path, code || ': ' || reason FROM dead_letters
    WHERE instr(lower(code || ': ' || reason), :text) AND {_OWN}
UNION ALL SELECT trace, at, path, (event ->> '$.code') || ': ' || (event ->> '$.reason') FROM events
    WHERE instr(lower(event), :text) AND {_OWN} AND event ->> '$.event' = 'turn.failed'
    AND instr(lower((event ->> '$.code') || ': ' || (event ->> '$.reason')), :text)
UNION ALL SELECT trace, created_at, path, connector || ': ' || error FROM outbox
    WHERE instr(lower(error), :text) AND {_OWN}
ORDER BY 2 DESC LIMIT :limit
"""


class TrafficRows(Rows):
    """Movements and traces; its tables are those of the two borders."""

    def moved(
        self, own: PathScope, at: PathScope, *, since_ms: int, until_ms: int, before: tuple[int, int], limit: int
    ) -> tuple[list[Movement], tuple[int, int] | None]:
        """Return the newest movements in a span of time, newest first, and below which numbers older ones are.

        `before` are numbers of inbox and outbox. Only what agents in `own` got or sent is there, of that what has to do
        with paths in `at`. Few may come with more to follow: so many rows are read at a time and no more.
        """
        bound = {"own": own.root, "own_below": own.below, "at": at.root, "at_below": at.below, "limit": limit}
        with self._readers.lent() as db:
            starts = (_first_since(db, _MESSAGE_FROM, since_ms), _first_since(db, _REPLY_FROM, since_ms))
            ends = (
                min(before[0], _first_since(db, _MESSAGE_FROM, until_ms + 1)),
                min(before[1], _first_since(db, _REPLY_FROM, until_ms + 1)),
            )
            floors = tuple(max(start, end - ROWS_SCANNED_MAX) for start, end in zip(starts, ends, strict=True))
            messages = db.execute(_MESSAGES, bound | {"first": floors[0], "before": ends[0]}).fetchall()
            replies = db.execute(_REPLIES, bound | {"first": floors[1], "before": ends[1]}).fetchall()
        found = [*map(_message, messages), *map(_reply, replies)]
        found.sort(key=lambda each: (each.at_ms, each.kind == "reply", each.seq), reverse=True)
        shown = found[:limit]
        nexts = tuple(
            min((it.seq for it in shown if it.kind == kind), default=ends[no])
            if len(rows) == limit or any(it.kind == kind for it in found[limit:])
            else floors[no]
            for no, (kind, rows) in enumerate((("message", messages), ("reply", replies)))
        )
        return shown, (nexts[0], nexts[1]) if nexts[0] > starts[0] or nexts[1] > starts[1] else None

    def search(self, text: str, own: PathScope, limit: int) -> list[FoundTrace]:
        """Return traces that a text names: a message's number or key, a trace id, a path, or words of an error.

        What it names exactly comes first; of paths and errors the newest.
        """
        number = int(text) if text.isdecimal() and len(text) <= len(str(_NEWEST)) - 1 else -1
        bound = {"text": text, "number": number, "own": own.root, "own_below": own.below, "limit": limit}
        bound["named"] = own.has(text)  # who writes to somebody is named to those who may see both
        with self._readers.lent() as db:
            if text.startswith("/"):
                [[newest]] = db.execute("SELECT coalesce(max(seq), 0) FROM inbox").fetchall()
                found = db.execute(_BY_PATH, bound | {"newest": newest}).fetchall()
            else:
                found = db.execute(_BY_NAME, bound).fetchall()
                found = found or db.execute(_BY_ERROR, bound | {"text": text.lower()}).fetchall()
        traces: dict[str, FoundTrace] = {}
        for trace, at_ms, path, what in found:
            named = FoundTrace(trace=str(trace), at_ms=int(str(at_ms)), path=str(path), what=str(what))
            traces.setdefault(named.trace, named)
        return [each for each in traces.values() if each.trace]


def _first_since(db: apsw.Connection, following: str, at_ms: int) -> int:
    """Return the number of the first row made at or after a time, one above the last if there is none.

    Numbers grow with time: it is found by halving, without an index that each message would have to pay for.
    """
    low, high = 0, _NEWEST
    while low < high:
        middle = (low + high) // 2
        row = db.execute(following, (middle,)).fetchone()
        if row is None or int(str(row[1])) >= at_ms:
            high = middle
        else:
            low = int(str(row[0])) + 1
    return low


def _message(row: tuple[Any, ...]) -> Movement:
    seq, at_ms, sender, path, trace, state, turn, ended_at = row
    return Movement(
        kind="message",
        seq=seq,
        at_ms=at_ms,
        source=outside(sender),
        target=path,
        trace=trace,
        state=_STATES[state],
        turn=turn,
        ended_at=ended_at,
    )


def _reply(row: tuple[Any, ...]) -> Movement:
    seq, at_ms, path, connector, trace, state, turn, ended_at = row
    return Movement(
        kind="reply",
        seq=seq,
        at_ms=at_ms,
        source=path,
        target=connector,
        trace=trace,
        state=_REPLY_STATES[state],
        turn=turn,
        ended_at=ended_at,
    )


def outside(sender: str) -> str:
    """Return where a message came from: a path, or without who it was there, a connector or a part of the daemon."""
    return sender if sender.startswith("/") else sender.partition(":")[0]
