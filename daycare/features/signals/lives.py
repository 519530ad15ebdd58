"""Signals as the open transaction sees them: sent, taken back; and what the daemon tells of agents by them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from daycare.base import signal
from daycare.base.errors import BusyError
from daycare.base.limits import HOPS_MAX, SIGNAL_IDLE_S, SIGNALS_PER_MINUTE, SIGNALS_WAITING_MAX
from daycare.base.messages import EnvelopeKind, Origin
from daycare.base.path import Kind
from daycare.features.signals.records import NewSignal, Signal, SignalDelivery, SignalNews
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite import agents, journal, mailbox
from daycare.store.sqlite.facts import Follower, Heed, TurnBegan, TurnCommitted, UserLeaving
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx

_COLUMNS: Final = (
    "no, user, origin, type, data, sender, sender_id, trace, via, key, state, created_at, due_at, ended_at, deliveries"
)
_NAMES = tuple(_COLUMNS.split(", "))
_UNTOLD: Final = (Kind.SUB, Kind.SEARCH, Kind.MEMORY, Kind.SYSTEM)  # they belong to other agents, which are told of
_OWN_KEYS: Final = ("signal:", "heartbeat:")  # of messages that make no work known to others
_encode = msgspec.json.Encoder().encode
_decode_via = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_seqs = msgspec.json.Decoder(tuple[int, ...]).decode
_decode_deliveries = msgspec.json.Decoder(tuple[SignalDelivery, ...]).decode


def send(tx: Tx, new: NewSignal) -> Signal:
    """Insert a signal, or find the one that this call has sent."""
    known = tx.one("SELECT no FROM signals WHERE call = ?", (new.call,))
    if known is not None:
        return must_get(tx, int(known[0]))
    count = tx.one(
        "SELECT count(*) FROM signals INDEXED BY signals_waiting"
        " WHERE user = ? AND state = 'waiting' AND origin <> 'system'",
        (new.user,),
    )
    if count and count[0] >= SIGNALS_WAITING_MAX:
        raise BusyError(
            "SIGNALS_MAX",
            f"sending {new.type}: {count[0]} signals of {new.user} wait already",
            hint="give delayed ones a key: a later one replaces an earlier one",
        )
    if new.sender_id:
        _refuse_haste(tx, new)
    if new.key:
        tx.run(
            "UPDATE signals SET state = 'replaced', ended_at = ?"
            " WHERE user = ? AND type = ? AND key = ? AND key <> '' AND state = 'waiting'",
            (tx.now, new.user, new.type, new.key),
        )
    return must_get(tx, _insert(tx, new))


def _refuse_haste(tx: Tx, new: NewSignal) -> None:
    lately = tx.one(
        "SELECT count(*) FROM signals WHERE sender_id = ? AND created_at > ? AND created_at <= ?"
        " AND origin <> 'system'",
        (new.sender_id, tx.now - 60_000, tx.now),
    )
    if lately and lately[0] >= SIGNALS_PER_MINUTE:
        raise BusyError(
            "SIGNALS_RATE",
            f"sending {new.type}: {new.sender} has sent {lately[0]} signals within a minute",
            hint="one signal with all of it in its data is enough",
            retry_after_s=60.0,
        )


def must_get(tx: Tx, no: int) -> Signal:
    """Return a signal that there is."""
    it = SIGNALS.one(tx.db, "no = ?", (no,))
    assert it is not None, f"no signal {no}"
    return it


def _signal(row: Sequence[Any]) -> Signal:
    values = dict(zip(_NAMES, row, strict=True))
    values["origin"] = Origin(values["origin"])
    values["via"] = _decode_via(values["via"])
    values["deliveries"] = _decode_deliveries(values["deliveries"])
    return Signal(**values)


SIGNALS: Final = Select(_COLUMNS, "signals", _signal)


def encode(deliveries: Sequence[SignalDelivery]) -> str:
    """Return what became of a signal as its row has it."""
    return _encode(deliveries).decode()


# -- what the daemon tells of agents: called only where somebody subscribes to such signals ----------------------------


class Listeners(Follower):
    """Who wants to hear of agents: `patterns` by user."""

    def __init__(self) -> None:
        self.patterns: dict[str, tuple[str, ...]] = {}

    def load(self, db: apsw.Connection) -> None:
        """Read them."""
        found: dict[str, set[str]] = {}
        for user, pattern in db.execute("SELECT DISTINCT user, pattern FROM signal_subscriptions"):
            if signal.tells_of_life(str(pattern)):
                found.setdefault(str(user), set()).add(str(pattern))
        self.patterns = {user: tuple(sorted(patterns)) for user, patterns in found.items()}

    def heeds(self) -> Mapping[type, Heed]:
        """Follow turns and users."""
        return {
            TurnBegan: self._begun,
            TurnCommitted: self._ended,
            UserLeaving: self._leaving,
        }

    def _begun(self, tx: Tx, it: TurnBegan) -> None:
        patterns = self.patterns.get(it.agent.user)
        if patterns is not None:
            _begun(tx, it, patterns)

    def _ended(self, tx: Tx, it: TurnCommitted) -> None:
        if self.patterns:
            _ended(tx, it.turn, self.patterns)

    def _leaving(self, tx: Tx, it: UserLeaving) -> None:
        tx.run("DELETE FROM signal_subscriptions WHERE user = ?", (it.user,))
        tx.run(
            "UPDATE signals SET state = 'replaced', ended_at = ? WHERE user = ? AND state = 'waiting'",
            (tx.now, it.user),
        )
        self.patterns.pop(it.user, None)


def _begun(tx: Tx, it: TurnBegan, patterns: Sequence[str]) -> None:
    """A turn begins: its agent is not about to be idle, and wakes if it was."""
    agent = it.agent
    if agent.kind in _UNTOLD or not (it.goes_on or _is_work(it.rows)):
        return
    awake = _take_back(tx, agent.user, agent.path)
    if not awake and not it.goes_on and _is_wanted(patterns, signal.life_of(agent.path, signal.WAKE)):
        _tell(tx, agent, signal.WAKE, it.rows, it.trace, f"wake:{it.turn}", tx.now)


def _ended(tx: Tx, turn: int, listened: Mapping[str, Sequence[str]]) -> None:
    """A turn has ended, its messages wait for the last time: its agent is idle if nothing else begins."""
    row = tx.one("SELECT agent_id, user, trace, seqs FROM turns WHERE turn = ?", (turn,))
    if row is None or (patterns := listened.get(str(row[1]))) is None:
        return
    agent = agents.must_get(tx, str(row[0]))
    wanted = any(_is_wanted(patterns, signal.life_of(agent.path, what)) for what in (signal.IDLE, signal.WAKE))
    if agent.kind in _UNTOLD or not wanted:
        return
    steered = (seq for step in journal.steps_of(tx, turn) for seq in step.seqs)
    rows = mailbox.waiting_rows(tx, [*_decode_seqs(row[3]), *steered])
    if not _is_work(rows):
        return
    _take_back(tx, agent.user, agent.path)
    _tell(tx, agent, signal.IDLE, rows, str(row[2]), f"idle:{turn}", tx.now + int(SIGNAL_IDLE_S * 1000))


def is_idle_signal(it: Signal) -> bool:
    """Return whether a signal says that an agent is idle."""
    return it.origin is Origin.SYSTEM and it.type == signal.life_of(it.sender, signal.IDLE)


def is_at_work(db: apsw.Connection, agent_id: str) -> bool:
    """Return whether an agent has a turn that has not ended, or one that was set aside."""
    row: tuple[Any, ...] | None = db.execute(
        "SELECT (SELECT h.turn IS NULL FROM turns t LEFT JOIN history h USING (turn) WHERE t.agent_id = ?1"
        " ORDER BY t.turn DESC LIMIT 1) OR EXISTS (SELECT 1 FROM waits WHERE agent_id = ?1)",
        (agent_id,),
    ).fetchone()
    return row is not None and bool(row[0])


def _is_work(rows: Sequence[InboxRow]) -> bool:
    """Return whether a turn on these rows is worth telling: else two that listen to each other never fell silent."""
    kinds = [_weight(row) for row in rows]
    return "work" in kinds or ("result" in kinds and "own" not in kinds)


def _weight(row: InboxRow) -> str:
    envelope = row.envelope
    if envelope.kind in (EnvelopeKind.NOTICE, EnvelopeKind.NOTE) and envelope.key.startswith(_OWN_KEYS):
        return "own"
    if envelope.kind is EnvelopeKind.NOTE:
        return "note"
    return "result" if envelope.kind is EnvelopeKind.RESULT else "work"


def _is_wanted(patterns: Sequence[str], type_: str) -> bool:
    return any(signal.fits(pattern, type_) for pattern in patterns)


def _take_back(tx: Tx, user: str, path: str) -> bool:
    """Delete the signal that an agent is about to be idle; return whether there was one."""
    tx.run(
        "DELETE FROM signals WHERE user = ? AND type = ? AND key = ? AND key <> '' AND state = 'waiting'",
        (user, signal.life_of(path, signal.IDLE), signal.IDLE),
    )
    return tx.db.changes() > 0


def _tell(tx: Tx, agent: Agent, what: str, rows: Sequence[InboxRow], trace: str, call: str, due_at: int) -> None:
    via = (*max((row.envelope.via for row in rows), key=len, default=()), agent.path)
    if len(via) > HOPS_MAX:
        return  # a chain that long ends here, as one of messages does
    new = NewSignal(
        user=agent.user,
        origin=Origin.SYSTEM,
        type=signal.life_of(agent.path, what),
        sender=agent.path,
        sender_id=agent.id,
        trace=trace,
        via=via,
        key=what if what == signal.IDLE else "",
        call=call,
        due_at=due_at,
    )
    _insert(tx, new)


def _insert(tx: Tx, new: NewSignal) -> int:
    values: dict[str, Any] = {
        "user": new.user,
        "origin": str(new.origin),
        "type": new.type,
        "data": new.data,
        "sender": new.sender,
        "sender_id": new.sender_id,
        "trace": new.trace,
        "via": _encode(new.via).decode(),
        "key": new.key,
        "call": new.call,
        "state": "waiting",
        "created_at": tx.now,
        "due_at": new.due_at,
    }
    tx.run(insert_into("signals", values), tuple(values.values()))
    tx.commit.add(SignalNews)
    return tx.db.last_insert_rowid()
