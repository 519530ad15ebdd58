"""Signals in the store: sent once, fired once with all their messages, and who subscribes to them; and heartbeats.

As long as somebody of a user subscribes to it, the transactions that begin and end turns of that user's agents also
write `agent:PATH:wake` and, to be fired after `SIGNAL_IDLE_S`, `agent:PATH:idle`, of which a new turn takes the
latter back. Turns that only handle signals or heartbeats, and turns of helpers, memory workers and searches, write
none.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import apsw

from daycare.base import signal
from daycare.base.errors import BusyError, DaycareError
from daycare.base.events import SignalSubscribed, SignalUnsubscribed
from daycare.base.limits import SIGNAL_IDLE_S
from daycare.base.messages import Envelope, Origin
from daycare.features.signals import lives
from daycare.features.signals.lives import SIGNALS, must_get
from daycare.features.signals.records import (
    Heartbeat,
    NewSignal,
    PlannedDelivery,
    Signal,
    SignalDelivery,
    SignalNews,
    SignalSubscription,
)
from daycare.store.records import Agent, Receipt
from daycare.store.sqlite import agents, inbox
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.writer import Tx

SUBSCRIPTIONS_PAGE: Final = 10_000  # in one answer
SUBSCRIPTIONS_MAX_PER_AGENT: Final = 50
SUBSCRIPTIONS_MAX_PER_USER: Final = 500  # one signal may reach as many agents, with one commit

Fired = tuple[Signal, list[tuple[Envelope, Receipt]]]

_EXPIRE_ROWS: Final = 1_000
_SUBSCRIPTIONS: Final = (
    "SELECT s.no, s.agent_id, a.path, s.user, s.origin, s.pattern, s.silent, s.created_at, a.state = 'dead'"
    " FROM signal_subscriptions s JOIN agents a ON a.id = s.agent_id"
)


class SignalRows(Rows):
    """Signals and subscriptions."""

    news: ClassVar = (SignalNews(),)
    tables: ClassVar = (
        Table(
            "signals",
            why="they are sent from here",
            what="signals that are not due yet",
            query="SELECT count(*) FROM signals WHERE state = 'waiting' AND origin <> 'system'"
            " AND sender_id IN (SELECT id FROM exported)",
        ),
        Table(
            "signal_subscriptions",
            why="which signals there are is decided where they are sent: subscribe it again",
            what="subscriptions to signals",
            query="SELECT count(*) FROM signal_subscriptions WHERE agent_id IN (SELECT id FROM exported)",
            own="agent_id = ?1",
        ),
    )
    followers: ClassVar = (lives.Listeners,)

    async def send(self, new: NewSignal) -> Signal:
        """Add a signal that waits, once for each `call`; the one that it replaces ends.

        Raises `BusyError` SIGNALS_MAX at `SIGNALS_WAITING_MAX` of its user, SIGNALS_RATE at `SIGNALS_PER_MINUTE` of the
        agent that sends it.
        """
        return await self._write(lambda tx: lives.send(tx, new), len(new.data))

    async def due(self, now_ms: int, limit: int) -> list[Signal]:
        """Return waiting signals of this node's users whose time has come, the earliest first."""
        return SIGNALS.find(
            self._reader,
            # What is to tell of idleness waits for no longer than that takes: else the clock was ahead when it was set.
            "state = 'waiting' AND (due_at <= ?1 OR due_at > ?2 AND origin = 'system') /* nodes: AND mine(user) */"
            " ORDER BY due_at, no LIMIT ?3",
            (now_ms, now_ms + int(SIGNAL_IDLE_S * 1000), limit),
        )

    async def next_due(self) -> int | None:
        """Return when the earliest waiting signal is due."""
        row = self._reader.execute(
            "SELECT due_at FROM signals WHERE state = 'waiting' /* nodes: AND mine(user) */ ORDER BY due_at LIMIT 1"
        ).fetchone()
        return None if row is None else int(row[0])

    async def fire(self, no: int, planned: Sequence[PlannedDelivery]) -> Fired:
        """End a signal together with all its messages, once: a repeat returns it as it is, and no message.

        What an inbox refuses keeps no other message back: why stands in the signal's deliveries. A subscription that is
        gone meanwhile gets nothing. `agent:PATH:idle` waits again if the agent works after all, and is forgotten if it
        is dead; what the daemon tells and nobody wants any more is forgotten, too.
        """
        size = sum(len(each.envelope.text) for each in planned if each.envelope is not None)
        return await self._write(lambda tx: _fire(tx, no, planned), size)

    async def get(self, no: int) -> Signal | None:
        """Return a signal."""
        return SIGNALS.one(self._reader, "no = ?", (no,))

    async def find(
        self, *, user: str | None = None, waiting: bool = False, before: int | None = None, limit: int = 100
    ) -> list[Signal]:
        """Return signals, newest first, beginning below number `before`; `waiting`: only those not fired yet."""
        return SIGNALS.find(
            self._reader,
            "(?1 IS NULL OR user = ?1) AND (NOT ?2 OR state = 'waiting') AND (?3 IS NULL OR no < ?3)"
            " ORDER BY no DESC LIMIT ?4",
            (user, waiting, before, limit),
        )

    async def subscribe(self, agent: Agent, pattern: str, *, silent: bool, origin: Origin) -> SignalSubscription:
        """Let an agent have signals; a repeat may change `silent`.

        Raises `BusyError` SUBSCRIPTIONS_MAX at so many of the agent or of its user.
        """
        return await self._write(lambda tx: _subscribe(tx, agent, pattern, silent=silent, origin=origin))

    async def unsubscribe(self, agent_id: str, pattern: str) -> bool:
        """Let an agent have no more of them; idempotent, returns whether it had."""

        def run(tx: Tx) -> bool:
            tx.run("DELETE FROM signal_subscriptions WHERE agent_id = ? AND pattern = ?", (agent_id, pattern))
            if not tx.db.changes():
                return False
            tx.of(lives.Listeners).load(tx.db)
            about = agents.about(tx, agents.must_get(tx, agent_id))
            tx.commit.events.append(SignalUnsubscribed(**about, pattern=pattern))
            return True

        return await self._write(run)

    async def subscriptions(
        self, *, user: str | None = None, agent_id: str | None = None, after: int = 0, limit: int = SUBSCRIPTIONS_PAGE
    ) -> list[SignalSubscription]:
        """Return subscriptions behind number `after`, oldest first.

        They are also of agents that are dead: one that is restored has its own again.
        """
        rows = self._reader.execute(
            f"{_SUBSCRIPTIONS} WHERE (?1 IS NULL OR s.user = ?1) AND (?2 IS NULL OR s.agent_id = ?2)"
            " AND s.no > ?3 ORDER BY s.no LIMIT ?4",
            (user, agent_id, after, limit),
        )
        return [_subscription(row) for row in rows]

    async def expire(self, before_ms: int) -> int:
        """Delete a bounded number of signals that ended before then, and subscriptions of agents that died before."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM signals WHERE no IN (SELECT no FROM signals WHERE state <> 'waiting' AND ended_at < ?"
                " ORDER BY no LIMIT ?)",
                (before_ms, _EXPIRE_ROWS),
            )
            deleted = tx.db.changes()
            tx.run(
                "DELETE FROM signal_subscriptions WHERE no IN (SELECT s.no FROM signal_subscriptions s"
                " LEFT JOIN agents a ON a.id = s.agent_id WHERE a.id IS NULL OR (a.state = 'dead' AND a.ended_at < ?)"
                " LIMIT ?)",
                (before_ms, _EXPIRE_ROWS),
            )
            if tx.db.changes():
                tx.of(lives.Listeners).load(tx.db)
            return deleted + tx.db.changes()

        return await self._write(run)


def _fire(tx: Tx, no: int, planned: Sequence[PlannedDelivery]) -> Fired:
    it = SIGNALS.one(tx.db, "no = ?", (no,))
    if it is None or it.state != "waiting":  # taken back, or fired before
        return it or _gone(no), []
    if it.origin is Origin.SYSTEM and (later := _is_not_so(tx, it, planned)) is not None:
        if later:
            tx.run("UPDATE signals SET due_at = ? WHERE no = ?", (later, no))
        else:
            tx.run("DELETE FROM signals WHERE no = ?", (no,))
        return it, []
    sent: list[tuple[Envelope, Receipt]] = []
    deliveries: list[SignalDelivery] = []
    for each in planned:
        to = each.subscription
        if tx.one("SELECT 1 FROM signal_subscriptions WHERE no = ?", (to.no,)) is None:
            continue  # it was given up meanwhile
        told = SignalDelivery(path=to.path, agent_id=to.agent_id, code=each.code, reason=each.reason)
        if each.envelope is not None:
            try:
                receipt = inbox.post(tx, each.envelope)
            except DaycareError as refused:
                told = SignalDelivery(path=to.path, agent_id=to.agent_id, code=refused.code, reason=refused.message)
            else:
                told = SignalDelivery(path=to.path, agent_id=to.agent_id, seq=receipt.seq)
                sent.append((each.envelope, receipt))
        deliveries.append(told)
    tx.run(
        "UPDATE signals SET state = 'fired', ended_at = ?, deliveries = ? WHERE no = ?",
        (tx.now, lives.encode(deliveries), no),
    )
    return must_get(tx, no), sent


def _is_not_so(tx: Tx, it: Signal, planned: Sequence[PlannedDelivery]) -> int | None:
    """Return why not to tell of an agent: 0 for not at all, when to look again; None to go on."""
    living = tx.one("SELECT 1 FROM agents WHERE id = ? AND state <> 'dead'", (it.sender_id,))
    if living is None:
        return 0
    if lives.is_idle_signal(it) and lives.is_at_work(tx.db, it.sender_id):
        return tx.now + int(SIGNAL_IDLE_S * 1000)
    return None if planned else 0


def _gone(no: int) -> Signal:
    return Signal(
        no=no, user="", origin=Origin.SYSTEM, type="", data="", sender="", sender_id="", trace="", via=(), key="",
        state="replaced", created_at=0, due_at=0, ended_at=0,
    )  # fmt: skip


def _subscribe(tx: Tx, agent: Agent, pattern: str, *, silent: bool, origin: Origin) -> SignalSubscription:
    agents.must_get(tx, agent.id)
    known = tx.one("SELECT no FROM signal_subscriptions WHERE agent_id = ? AND pattern = ?", (agent.id, pattern))
    if known is None:
        counts = tx.one(
            "SELECT coalesce(sum(agent_id = ?), 0), count(*) FROM signal_subscriptions WHERE user = ?",
            (agent.id, agent.user),
        )
        own, all_ = counts or (0, 0)
        if own >= SUBSCRIPTIONS_MAX_PER_AGENT or all_ >= SUBSCRIPTIONS_MAX_PER_USER:
            whose, many = (agent.path, own) if own >= SUBSCRIPTIONS_MAX_PER_AGENT else (agent.user, all_)
            raise BusyError(
                "SUBSCRIPTIONS_MAX",
                f"subscribing {agent.path} to {pattern}: {whose} has {many} subscriptions",
                hint="give up some: daycare signals unsubscribe PATH PATTERN",
            )
        tx.run(
            "INSERT INTO signal_subscriptions (agent_id, user, origin, pattern, silent, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (agent.id, agent.user, str(origin), pattern, silent, tx.now),
        )
    else:
        tx.run("UPDATE signal_subscriptions SET silent = ? WHERE no = ?", (silent, known[0]))
    if signal.tells_of_life(pattern):
        tx.of(lives.Listeners).load(tx.db)
    tx.commit.events.append(SignalSubscribed(**agents.about(tx, agent), pattern=pattern, silent=silent))
    row = tx.one(f"{_SUBSCRIPTIONS} WHERE s.agent_id = ? AND s.pattern = ?", (agent.id, pattern))
    assert row is not None
    return _subscription(row)


def _subscription(row: Sequence[Any]) -> SignalSubscription:
    no, agent_id, path, user, origin, pattern, silent, created_at, dead = row
    return SignalSubscription(
        no=no,
        agent_id=agent_id,
        path=path,
        user=user,
        origin=Origin(origin),
        pattern=pattern,
        silent=bool(silent),
        created_at=created_at,
        dead=bool(dead),
    )


class HeartbeatRows(Rows):
    """Since when an agent has a heartbeat, and its last beat. How often it beats is among the agent's settings."""

    tables: ClassVar = (Table("heartbeats", why="when a heart has beaten here", own="agent_id = ?1"),)

    async def look(self, now_ms: int, limit: int) -> list[tuple[Agent, Heartbeat]]:
        """Return living agents with a heartbeat. What is new begins now, what was switched off is forgotten.

        What lies ahead of a clock that was set back becomes now.
        """
        found = agents.with_heartbeat(self._reader, limit)
        ids = {agent.id for agent in found}
        rows = self._reader.execute("SELECT agent_id, max(since, coalesce(beat_at, 0)) > ? FROM heartbeats", (now_ms,))
        known = {str(agent_id): bool(ahead) for agent_id, ahead in rows}
        if ids != known.keys() or any(known.values()):
            await self._write(lambda tx: _sync(tx, sorted(ids - known.keys()), sorted(known.keys() - ids)))
        each = [(agent, _state(self._reader, agent)) for agent in found]
        return [(agent, state) for agent, state in each if state is not None]

    async def of(self, agent: Agent) -> Heartbeat | None:
        """Return how the heartbeat of one agent stands; None if it has none, or it was not seen yet."""
        return _state(self._reader, agent) if agent.config.heartbeat_s else None

    async def beat(self, agent_id: str, envelope: Envelope) -> Receipt | None:
        """Post a beat and record it, together, if it is due and its agent is not busy; else None."""

        def run(tx: Tx) -> Receipt | None:
            agent = agents.must_get(tx, agent_id)
            state = _state(tx.db, agent) if agent.state == "living" and agent.config.heartbeat_s else None
            if state is None or state.busy or state.next_at(tx.now) > tx.now:
                return None
            receipt = inbox.post(tx, envelope)
            tx.run(
                "UPDATE heartbeats SET beats = beats + 1, beat_at = ?, seq = ? WHERE agent_id = ?",
                (tx.now, receipt.seq, agent_id),
            )
            return receipt

        return await self._write(run, len(envelope.text))


def _sync(tx: Tx, new: list[str], gone: list[str]) -> None:
    tx.run("UPDATE heartbeats SET since = min(since, ?1), beat_at = min(beat_at, ?1)", (tx.now,))
    for agent_id in new:
        tx.run("INSERT INTO heartbeats (agent_id, since) VALUES (?, ?) ON CONFLICT DO NOTHING", (agent_id, tx.now))
    for agent_id in gone:
        tx.run("DELETE FROM heartbeats WHERE agent_id = ?", (agent_id,))


def _state(db: apsw.Connection, agent: Agent) -> Heartbeat | None:
    row: tuple[Any, ...] | None = db.execute(
        "SELECT since, beats, beat_at FROM heartbeats WHERE agent_id = ?", (agent.id,)
    ).fetchone()
    if row is None:
        return None
    last: tuple[Any, ...] | None = db.execute(
        "SELECT t.turn, h.ended_at FROM turns t LEFT JOIN history h USING (turn) WHERE t.agent_id = ?"
        " ORDER BY t.turn DESC LIMIT 1",
        (agent.id,),
    ).fetchone()
    waits = count(db, "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent_id = ? AND state = 0)", (agent.id,))
    return Heartbeat(
        agent_id=agent.id,
        every_s=agent.config.heartbeat_s,
        since=row[0],
        beats=row[1],
        beat_at=row[2],
        busy=bool(waits) or lives.is_at_work(db, agent.id),
        worked_at=last[1] if last is not None else None,
    )
