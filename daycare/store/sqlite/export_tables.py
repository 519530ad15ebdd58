"""Every table, and what an export does with it: the one place to say so. A test compares it with the schema.

The queries are over `temp.exported`, the agents that are exported: `place`, `id`, `path`.
"""

from typing import Final, NamedTuple

TAKEN: Final = {
    "agents": "agent",
    "behaviour_states": "agent",
    "budgets": "agent",
    "sessions": "session",
    "turns": "turn",
    "history": "turn",
    "inbox": "receipt",
    "summaries": "summary",
    "documents": "document",
    "memories": "memory",
    "memory_sources": "memory",
    "memory_marks": "mark",
    "timers": "reminder",
    "cron_jobs": "job",
    "files": "file",
}  # by the tag of its record

MADE_ANEW: Final = {
    "living_documents": "from the documents",
    "documents_grown": "from the documents",
    "memory_scopes": "from the memories",
    "memory_names": "from the memories",
    "memory_logged": "for the turns that came",
    "memory_documents": "chunks are cut from the documents",
    "memory_changes": "with the first change",
    "memory_models": "vectors are computed again, or found by their text",
    "memory_embedded": "vectors are computed again, or found by their text",
    "memory_vectors": "vectors are computed again, or found by their text",
}


class Left(NamedTuple):
    """A table that is not exported: why, and the query that counts what is worth telling people about."""

    why: str
    what: str = ""
    query: str = ""


_OF = "agent_id IN (SELECT id FROM exported)"

LEFT_OUT: Final[dict[str, Left]] = {
    "outbox": Left(
        "they are on their way from here",
        "undelivered replies",
        f"SELECT count(*) FROM outbox WHERE state < 2 AND {_OF}",
    ),
    "waits": Left(
        "they are asked from here: an answer finds no way elsewhere",
        "open questions to other agents",
        f"SELECT count(*) FROM waits WHERE {_OF}",
    ),
    "approvals": Left(
        "a decision binds the agent that asked",
        "requests that wait for a decision",
        f"SELECT count(*) FROM approvals WHERE state = 'pending' AND {_OF}",
    ),
    "approval_messages": Left("they belong to requests"),
    "approval_grants": Left(
        "a right is given to this agent alone",
        "rights to act without asking",
        f"SELECT count(*) FROM approval_grants WHERE {_OF}",
    ),
    "dead_letters": Left(
        "replay them first: daycare dead list",
        "dead letters",
        f"SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL AND {_OF}",
    ),
    "dropped_letters": Left("of what was given up on here"),
    "reservations": Left("of calls that run"),
    "spend": Left("what was spent was spent here"),
    "spending": Left("what was spent was spent here"),
    "budget_marks": Left("of what was spent here"),
    "budget_sums": Left("of what was spent here"),
    "cron_runs": Left("the ledger of what ran here"),
    "tasks": Left(
        "who asked waits for them here",
        "tasks that have not ended",
        f"SELECT count(*) FROM tasks WHERE ended_at IS NULL AND {_OF}",
    ),
    "signals": Left(
        "they are sent from here",
        "signals that are not due yet",
        "SELECT count(*) FROM signals WHERE state = 'waiting' AND origin <> 'system'"
        " AND sender_id IN (SELECT id FROM exported)",
    ),
    "signal_subscriptions": Left(
        "which signals there are is decided where they are sent: subscribe it anew",
        "subscriptions to signals",
        f"SELECT count(*) FROM signal_subscriptions WHERE {_OF}",
    ),
    "heartbeats": Left("when a heart has beaten here"),
    "steps": Left("the journal of turns, for crashes and `trace`: what was said is in the turns"),
    "events": Left("the log of this installation"),
    "forgotten_turns": Left("hashes of what was forgotten stay with who forgot it"),
    "forgetting": Left("the state of this file"),
    "secrets": Left("secrets never leave"),
    "users": Left("people are of an installation"),
    "user_connector_keys": Left("people are of an installation"),
    "strangers": Left("people are of an installation"),
    "connector_memory": Left("of the connectors of this installation"),
}
