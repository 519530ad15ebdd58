"""The last turn of a conversation, whose place another may take: prompts from then on have that one instead.

What was said in it stays in the history, as what it did stays done.
"""

from typing import Any, Final

import apsw

from daycare.store.sqlite.writer import Tx

# A part of a WHERE with the number of the turn that is prompted: what has been replaced since, its prompt had.
STANDS: Final = "(t.replaced_by IS NULL OR t.replaced_by > ?)"
_LAST: Final = (
    "SELECT t.turn FROM turns t JOIN history h USING (turn) WHERE t.agent_id = ? AND t.session = ? AND t.turn < ?"
    " AND t.replaced_by IS NULL AND h.state NOT IN ('split', 'continued') AND NOT EXISTS (SELECT 1 FROM summaries s"
    " WHERE s.agent_id = t.agent_id AND s.session = t.session AND s.through >= t.turn) ORDER BY t.turn DESC LIMIT 1"
)
_ANY: Final = 2**62


def last_turn(db: apsw.Connection, agent_id: str, session: int, before: int = _ANY) -> int | None:
    """Return the turn whose place another may take: the last of a session that has ended and is in no summary."""
    row: Any = db.execute(_LAST, (agent_id, session, before)).fetchone()
    return int(row[0]) if row is not None else None


def replace_turn(tx: Tx, agent_id: str, session: int, old: int, new: int) -> None:
    """Let a turn that begins take the place of another, unless something was said after that: then both stand."""
    if last_turn(tx.db, agent_id, session, new) == old:
        tx.run("UPDATE turns SET replaced_by = ? WHERE turn = ?", (new, old))
        tx.commit.agents.add(agent_id)
