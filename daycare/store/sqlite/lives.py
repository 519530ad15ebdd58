"""Births of helpers, and deaths: what they change beside the agent's own row, in one transaction."""

from contextlib import suppress

from msgspec.structs import replace

from daycare.base.errors import BusyError, ConflictError, DaycareError
from daycare.base.events import AgentDied, AgentParked, AgentUnparked
from daycare.base.limits import HELPERS_MAX, SEARCHES_MAX
from daycare.base.messages import Envelope, EnvelopeKind, dismissal
from daycare.store.records import Agent, NewAgent
from daycare.store.sqlite import agents, inbox, mailbox, turns
from daycare.store.sqlite.facts import AgentBuried
from daycare.store.sqlite.writer import Tx


def spawn(tx: Tx, parent: Agent, kind: str, new: NewAgent, first: Envelope) -> Agent:
    """Make a child with its first message, once for each `new.born`.

    Raises `BusyError` HELPERS_MAX when so many of its kind are at work.
    """
    known = agents.born_of(tx, new.born)
    if known is not None:
        return known
    what = "search" if kind == "search" else "helper"
    alike = (child for child in agents.children(tx.db, parent.path) if child.kind == new.kind)
    busy = sum(agents.is_busy(tx.db, child.id) for child in alike)
    if busy >= (SEARCHES_MAX if kind == "search" else HELPERS_MAX):
        raise BusyError(
            "HELPERS_MAX",
            f"making a {what} of {parent.path}: {busy} are at work for it already",
            hint="wait until some have answered, or end one",
        )
    child = agents.create_child(tx, parent.id, kind, replace(new, by=parent.path, trace=first.trace))
    inbox.post(tx, replace(first, to=child.path, agent_id=child.id))
    return child


def set_state(tx: Tx, agent_id: str, state: str, reason: str, untold: str | None) -> Agent:
    """Change the stored state; `dead` is final. Whoever asked the dead, but `untold`, learns that no answer comes."""
    agent = agents.must_get(tx, agent_id)
    if agent.state == "dead":
        raise ConflictError("AGENT_DEAD", f"changing {agent.path}: this incarnation is dead", hint="daycare agents")
    ended = tx.now if state == "dead" else None
    tx.run("UPDATE agents SET state = ?, reason = ?, ended_at = ? WHERE id = ?", (state, reason, ended, agent_id))
    tx.commit.agents.add(agent_id)
    tx.memory.forget(agent_id, agent.path)
    if state == "dead":
        _bury(tx, agent, reason or "its agent ended", untold)
        tx.commit.events.append(AgentDied(**agents.about(tx, agent), reason=reason))
    elif state == "parked":
        tx.commit.events.append(AgentParked(**agents.about(tx, agent), reason=reason))
    elif agent.state == "parked":
        tx.commit.events.append(AgentUnparked(**agents.about(tx, agent)))
    return agents.must_get(tx, agent_id)


def _bury(tx: Tx, agent: Agent, reason: str, untold: str | None) -> None:
    turns.end_all(tx, agent.id, reason)
    tx.run("DELETE FROM timers WHERE agent_id = ?", (agent.id,))
    rows = tx.db.execute(
        "SELECT seq, kind FROM inbox WHERE agent_id = ? AND state = 0 ORDER BY seq", (agent.id,)
    ).fetchall()
    for row in rows:
        seq = int(str(row[0]))
        if row[1] == EnvelopeKind.DISMISS:
            mailbox.complete(tx, agent.id, [seq], None, reason)  # it has been obeyed by this
        elif row[1] == EnvelopeKind.RESULT:
            mailbox.complete(tx, agent.id, [seq], None, reason)
            tx.commit.unheard += 1
        else:
            inbox.bury(tx, seq, "AGENT_DEAD", reason, 0, untold=untold)
    tx.tell(AgentBuried(agent.id, reason))
    for child in agents.children(tx.db, agent.path):
        if child.parent == agent.id:
            _dismiss(tx, agent, child)


def _dismiss(tx: Tx, parent: Agent, child: Agent) -> None:
    """A helper has nobody left to help."""
    message = dismissal(
        child.path,
        child.id,
        child.user,
        by=parent.path,
        key=f"dismiss:{parent.id}",
        reason="its parent ended",
        trace="",
    )
    with suppress(DaycareError):  # its control lane is full: it is found idle later
        inbox.post(tx, message)
