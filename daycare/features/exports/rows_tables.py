"""Every table of the core, and what an export does with it; those of capabilities say it themselves (`rows.Table`).

A test compares both with the schema.

The queries are over `temp.exported`, the agents that are exported: `place`, `id`, `path`.
"""

from typing import Final

from daycare.store.sqlite.rows import Table

TAKEN: Final = {
    "agents": "agent",
    "behaviour_states": "agent",
    "sessions": "session",
    "turns": "turn",
    "history": "turn",
    "inbox": "receipt",
    "summaries": "summary",
    "timers": "reminder",
    "files": "file",
}  # by the tag of its record


def _left(name: str, why: str, what: str = "", query: str = "") -> Table:
    return Table(name, why=why, what=what, query=query)


_OF = "agent_id IN (SELECT id FROM exported)"

LEFT_OUT: Final = (
    _left(
        "outbox",
        "they are on their way from here",
        "undelivered replies",
        f"SELECT count(*) FROM outbox WHERE state < 2 AND {_OF}",
    ),
    _left(
        "waits",
        "they are asked from here: an answer finds no way elsewhere",
        "open questions to other agents",
        f"SELECT count(*) FROM waits WHERE {_OF}",
    ),
    _left(
        "dead_letters",
        "replay them first: daycare dead list",
        "dead letters",
        f"SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL AND {_OF}",
    ),
    _left("dropped_letters", "of what was given up on here"),
    _left("spend", "what was spent was spent here"),
    _left("steps", "the journal of turns, for crashes and `trace`: what was said is in the turns"),
    _left("events", "the log of this installation"),
    _left("forgotten_turns", "hashes of what was forgotten stay with who forgot it"),
    _left("forgetting", "the state of this file"),
    _left("secrets", "secrets never leave"),
    _left("users", "people are of an installation"),
    _left("user_connector_keys", "people are of an installation"),
    _left("strangers", "people are of an installation"),
    _left("connector_memory", "of the connectors of this installation"),
)
