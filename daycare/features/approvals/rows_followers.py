"""What approvals do in the transactions of the core: keep what shows a request, end and forget requests."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.base.messages import EnvelopeKind
from daycare.features.approvals import rows_deciding as deciding
from daycare.features.approvals import rows_requests as rows
from daycare.features.approvals.records import ApprovalState, DocumentAction
from daycare.store.sqlite.facts import (
    AgentBuried,
    Follower,
    Heed,
    ReplyQueued,
    RowsExpired,
    TracesForgotten,
    UserLeft,
    VersionForgotten,
)
from daycare.store.sqlite.sql import delete_older
from daycare.store.sqlite.writer import Tx

_KEY: Final = "approval:"  # what the keys of versions begin with that a request has written
_encode = msgspec.json.Encoder().encode


class RequestFollower(Follower):
    """Requests of those who leave or die end, and those of what is forgotten lose their words."""

    def heeds(self) -> Mapping[type, Heed]:
        """Follow replies, users, agents that die, what is forgotten, and what expires."""
        return {
            ReplyQueued: _queued,
            UserLeft: _left,
            AgentBuried: _buried,
            TracesForgotten: _forget_traces,
            VersionForgotten: _forget_version,
            RowsExpired: _expire,
        }


def _queued(tx: Tx, it: ReplyQueued) -> None:
    """Keep which message shows which content of a request."""
    if it.shows is not None:
        tx.run(
            "INSERT INTO approval_messages (outbox, no, user, origin, content_hash, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (it.seq, it.shows.no, it.user, it.origin, it.shows.content_hash, tx.now),
        )


def _left(tx: Tx, it: UserLeft) -> None:
    """End what a user's agents have asked for and what a user was to decide; forget what they granted."""
    theirs = "state = 'pending' AND (user = ?1 OR decider = ?1) ORDER BY no"
    for each in rows.APPROVALS.find(tx.db, theirs, (it.user,)):
        why = it.reason if each.user == it.user else "the person who was to decide it was removed"
        text = f"Request {each.no} ({each.action.name}) cannot be decided any more: {why}. Nothing was changed."
        deciding.end(tx, each, ApprovalState.STALE, "", why, text, EnvelopeKind.NOTICE)
    tx.run(
        "DELETE FROM approval_grants WHERE user = ?1 OR agent_id IN (SELECT id FROM agents WHERE user = ?1)", (it.user,)
    )
    tx.run("DELETE FROM call_grants WHERE user = ?1 OR agent_id IN (SELECT id FROM agents WHERE user = ?1)", (it.user,))


def _buried(tx: Tx, it: AgentBuried) -> None:
    """End what an agent that has died wanted to do: only it could have."""
    for each in rows.APPROVALS.find(tx.db, "state = 'pending' AND agent_id = ? ORDER BY no", (it.agent_id,)):
        if not isinstance(each.action, DocumentAction):
            deciding.end(tx, each, ApprovalState.STALE, "", "the agent that asked for it has ended", "")


def _forget_traces(tx: Tx, it: TracesForgotten) -> None:
    """Requests of turns that are forgotten."""
    asked = tx.db.execute(
        "SELECT no FROM approvals WHERE trace IN (SELECT key FROM json_each(?1))"
        " AND created_at >= (SELECT CAST(value AS BIGINT) FROM json_each(?1) WHERE key = trace)",
        (_encode(it.began).decode(),),
    ).fetchall()
    _forget(tx, (int(str(no)) for (no,) in asked), it.instead, it.shreds)


def _forget_version(tx: Tx, it: VersionForgotten) -> None:
    """The request that wrote a version of a document that is forgotten."""
    number = it.key.removeprefix(_KEY)
    if number != it.key and number.isdigit():
        _forget(tx, [int(number)], it.instead, it.shreds)


def _expire(tx: Tx, it: RowsExpired) -> None:
    """Delete decided requests, and which messages showed them."""
    for table, key, ended in (("approvals", "no", "decided_at"), ("approval_messages", "outbox", "created_at")):
        tx.run(delete_older(table, key, ended), (it.before_ms, it.now_ms, it.limit))
        it.deleted.append(tx.db.changes())


def _forget(tx: Tx, numbers: Iterable[int], instead: str, shreds: list[str | bytes]) -> None:
    """Remove what requests ask for, and why; one that waits cannot be decided any more."""
    for no in numbers:
        it = rows.get(tx.db, no)
        if it is None:
            continue
        shreds += [it.action.text, it.reason, it.why, *(each.excerpt for each in it.findings)]
        bare = replace(
            it,
            action=it.action.bare(instead),
            reason=instead if it.reason else "",
            why=instead if it.why else "",
            findings=tuple(replace(each, excerpt="") for each in it.findings),
        )
        if it.state is ApprovalState.PENDING:
            bare = replace(bare, state=ApprovalState.STALE, decided_at=tx.now)
        rows.save(tx, bare)
        tx.run("DELETE FROM call_grants WHERE request = ?", (no,))
