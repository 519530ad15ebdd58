"""Removing a user: whatever is theirs or below them ends in one transaction. Rows stay, for people to look at.

doors (keys) | what comes by itself, of capabilities (`UserLeaving`) | agents with their turns, messages and timers |
what was to be heard (replies) | what else capabilities keep (`UserLeft`)
"""

from typing import Final

from daycare.base.errors import ConflictError
from daycare.base.events import UserRemoved
from daycare.store.records import User
from daycare.store.sqlite import lives, outbox, people
from daycare.store.sqlite.facts import AgentCutOff, UserLeaving, UserLeft
from daycare.store.sqlite.writer import Tx

_REASON: Final = "its user was removed"


def remove(tx: Tx, user_id: str) -> list[str]:
    """Remove a user with everybody below; return the ids, theirs first. The last operator cannot be removed."""
    first = people.must(tx, user_id)
    gone = [first, *_below(tx, first)]
    if any(user.operator for user in gone) and not {it.id for it in people.operators(tx.db)} - {it.id for it in gone}:
        raise ConflictError(
            "LAST_OPERATOR",
            f"removing {user_id}: nobody else operates this installation",
            hint="add another operator first: daycare users add ID --operator",
        )
    for user in gone:
        tx.run("DELETE FROM user_connector_keys WHERE user = ?", (user.id,))
        tx.run("UPDATE users SET removed_at = ? WHERE id = ?", (tx.now, user.id))
        tx.tell(UserLeaving(user.id, _REASON))
    for user in gone:
        _end_agents(tx, user)
    for user in gone:
        for seq in _numbers(tx, "SELECT seq FROM outbox WHERE state < 2 AND user = ?", user.id):
            outbox.give_up(tx, seq, "USER_REMOVED", _REASON)
        tx.tell(UserLeft(user.id, _REASON))
        tx.commit.events.append(UserRemoved(at_ms=tx.now, user=user.id))
    tx.commit.people = True
    return [user.id for user in gone]


def _below(tx: Tx, user: User) -> list[User]:
    """Return who is below a user and was not removed."""
    found = tx.db.execute(
        "WITH RECURSIVE below (id) AS (VALUES (?1) UNION SELECT u.id FROM users u JOIN below b ON u.parent = b.id)"
        " SELECT id FROM users WHERE id IN (SELECT id FROM below) AND id <> ?1 AND removed_at IS NULL ORDER BY id",
        (user.id,),
    ).fetchall()
    return [people.must(tx, str(row[0])) for row in found]


def _end_agents(tx: Tx, user: User) -> None:
    """End a user's agents, helpers before their parents: so nobody is told of an end who ends as well."""
    found = tx.db.execute(
        "SELECT id FROM agents WHERE user = ? AND state <> 'dead' ORDER BY path DESC", (user.id,)
    ).fetchall()
    for (agent_id,) in found:
        lives.set_state(tx, str(agent_id), "dead", _REASON, None)
        tx.commit.cut_off.add(str(agent_id))
        tx.tell(AgentCutOff(str(agent_id)))


def _numbers(tx: Tx, sql: str, user_id: str) -> list[int]:
    return [int(str(row[0])) for row in tx.db.execute(sql, (user_id,)).fetchall()]
