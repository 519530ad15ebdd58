"""Calls that were approved in advance, in the store."""

from typing import Final

import apsw
import msgspec

from daycare.base.errors import BusyError
from daycare.base.limits import CALL_GRANTS_MAX
from daycare.features.approvals.call_patterns import CallPattern, PatternGrant, PatternWish, check_wish
from daycare.features.approvals.records import Approval
from daycare.store.sqlite.database import count
from daycare.store.sqlite.writer import Tx

_GIVEN: Final = "request, agent_id, user, by, session, others, pattern, created_at"
_COLUMNS: Final = f"no, {_GIVEN}"
_pattern = msgspec.json.Decoder(CallPattern).decode


def add(tx: Tx, it: Approval, wish: PatternWish, by: str) -> None:
    """Grant what a person approves along with a request. Raises as `check_wish`, `BusyError` GRANTS_MAX."""
    check_wish(wish, it)
    tx.run("DELETE FROM call_grants WHERE agent_id = ? AND session < ?", (it.agent_id, it.session))
    if count(tx.db, "SELECT count(*) FROM call_grants WHERE agent_id = ?", (it.agent_id,)) >= CALL_GRANTS_MAX:
        what = f"approving calls of {it.path} in advance: {CALL_GRANTS_MAX} patterns are the most"
        raise BusyError("GRANTS_MAX", what, hint="take one back: daycare approvals revoke N")
    tx.run(
        f"INSERT INTO call_grants ({_GIVEN}, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'person')",
        (
            it.no,
            it.agent_id,
            it.decider,
            by,
            it.session if wish.scope == "session" else None,
            wish.others,
            msgspec.json.encode(wish.pattern).decode(),
            tx.now,
        ),
    )


def find(db: apsw.Connection, agent_id: str | None = None) -> list[PatternGrant]:
    """Return what was granted to an agent, or to all."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM call_grants WHERE ?1 IS NULL OR agent_id = ?1 ORDER BY no LIMIT 1000", (agent_id,)
    )
    return [
        PatternGrant(
            no=int(str(no)),
            request=int(str(request)),
            agent_id=str(agent),
            user=str(user),
            by=str(by),
            session=None if session is None else int(str(session)),
            others=bool(others),
            pattern=_pattern(str(pattern)),
            created_at=int(str(created_at)),
        )
        for no, request, agent, user, by, session, others, pattern, created_at in found
    ]


def revoke(tx: Tx, no: int) -> None:
    """Take one back."""
    tx.run("DELETE FROM call_grants WHERE no = ?", (no,))
