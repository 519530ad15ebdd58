"""Turns and their journal: begun before they work, resumed after a crash, committed once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import apsw
import msgspec

from daycare.base.bounded import Bounded
from daycare.base.errors import ConflictError, DaycareError
from daycare.base.limits import LIVING_CACHE_MAX_PATHS
from daycare.base.messages import Envelope, EnvelopeKind, Message
from daycare.store.records import Agent, Effects, InboxRow, Reply, Step, Turn, TurnEnd
from daycare.store.records_conversations import APART, TurnResult, TurnStart, session_of
from daycare.store.records_prompts import ShownPrompt
from daycare.store.share import Owns, everybody
from daycare.store.sqlite import (
    behaviours,
    inbox,
    journal,
    letters,
    mailbox,
    outbox,
    replacing,
    timers,
    waits,
)
from daycare.store.sqlite.facts import PromptShown, TurnAnswered, TurnBegan, TurnCommitted
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.tails import Tails
from daycare.store.sqlite.writer import Tx, Writer, user_of

T = TypeVar("T", Turn, Turn | None)

_OPEN = "NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = turns.turn)"
_END: Final = (
    "INSERT INTO history (turn, agent_id, session, user, origin, state, ended_at, error, hint, messages)"
    " SELECT turn, agent_id, session, user, origin, ?, ?, ?, ?, packed(?) FROM turns WHERE turn = ?"
    " ON CONFLICT DO NOTHING"
)
_RUNS, _ALONE = 1, 2
_INTERRUPTED_MAX: Final = 2  # deaths of the process with a turn at work, before the turn is tried while no other runs
_ALONE_DEATH_TRIES: Final = 2  # attempts that a death costs the turn which ran alone, so that five deaths end it
_encode = msgspec.json.Encoder().encode
_decode_seqs = msgspec.json.Decoder(tuple[int, ...]).decode
_decode_history = msgspec.json.Decoder(tuple[Message, ...]).decode


class TurnStore:
    """Turns and their journal: begun before they work, resumed after a crash, ended once.

    A turn is open until `finish`, `split`, `park` or its agent's burial ends it. Whatever would change an ended one
    raises `ConflictError` (`TURN_GONE`), or does nothing where that is said.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection, tails: Tails) -> None:
        self._write = writer.write
        self._asks_whose = writer.asks_whose
        self._reader = reader
        self._tails = tails
        self._users: Bounded[int, str] = Bounded(LIVING_CACHE_MAX_PATHS)  # whose turns are, of those that began lately

    async def begin(self, agent: Agent, rows: Sequence[InboxRow]) -> Turn:
        """Journal that a turn starts on these rows (at least one), in the agent's current session, or apart from it.

        Its attempt is one more than the most tried of them. Raises `ConflictError` (`AGENT_DEAD`) after a burial.
        """
        user = user_of(agent.path) if self._asks_whose else ""
        return self._noted(agent, await self._write(lambda tx: _begin(tx, agent, rows), 0, user))

    async def open_turn(self, agent_id: str) -> Turn | None:
        """Return the turn that this agent has not finished, if any."""
        turn = _TURNS.one(self._reader, "agent_id = ? ORDER BY turn DESC LIMIT 1", (agent_id,))
        return turn if turn is not None and turn.state == "open" else None

    async def recover(self) -> list[str]:
        """Look after a start, before any turn is tried, which open turns were at work when the process before died.

        That costs a turn no attempt, unless it ran alone: then two. Returns the agents whose turn was found so twice,
        the least suspicious first: one of them may be what the process dies of.
        """
        return await self._write(recover)

    async def resume(self, turn: int, *, alone: bool = False) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Count a new attempt unless the last was interrupted, then `load`. An ended turn is returned as it is.

        `alone` says that no other turn runs meanwhile. Not idempotent.
        """

        def run(tx: Tx) -> tuple[Turn, list[InboxRow], list[Step]]:
            tx.run(
                f"UPDATE turns SET attempt = attempt + (trying = 0), trying = ? WHERE turn = ? AND {_OPEN}",
                (_ALONE if alone else _RUNS, turn),
            )
            return _load(tx, turn)

        return await self._write(run, user=self._users.get(turn, ""))

    async def load(self, turn: int, *, unread: bool = False) -> tuple[Turn, list[InboxRow], list[Step]]:
        """Return a turn, those of its rows (steered ones included) that wait, and its steps in order.

        With `unread` also the answers to its calls that have come and were not read: a turn that ends before it can
        read them takes them along. It takes its place among the writes: all that were asked for before are seen.
        """
        user = self._users.get(turn, "")
        return await self._write(lambda tx: _load_ending(tx, turn) if unread else _load(tx, turn), user=user)

    async def journal(self, steps: Sequence[Step], shown: ShownPrompt | None = None) -> None:
        """Record steps, replacing those with the same number, and what a model was `shown` before it answered so.

        A call of a model or a tool that is done makes the running attempt the first again: a long turn that gets on
        is no poison. What a person adds is no progress.
        """

        def run(tx: Tx) -> None:
            for step in steps:
                journal.put(tx, step)
                if step.state != "done":
                    continue
                if step.kind in ("model", "tool"):
                    tx.run("UPDATE turns SET attempt = 1 WHERE turn = ? AND attempt > 1", (step.turn,))
                if step.wait:
                    waits.answered(tx, step.wait)
            if shown is not None:
                tx.tell(PromptShown(shown))

        users = {self._users.get(step.turn, "") for step in steps}
        await self._write(run, 1024 * len(steps), users.pop() if len(users) == 1 else "")

    async def finish(self, agent: Agent, turn: Turn, end: TurnEnd, following: Sequence[InboxRow] = ()) -> Turn | None:
        """Commit everything a turn changes, all or nothing; a second call raises `ConflictError`.

        Posts that are refused become dead letters with the refusal as their reason; the turn still commits. With
        `following` the agent's next turn begins on these rows in the same transaction and is returned.
        """

        def run(tx: Tx) -> Turn | None:
            _finish(tx, agent, turn, end)
            return _begin(tx, agent, following) if following else None

        user = user_of(agent.path, *_reached(end)) if self._asks_whose else ""
        return self._noted(agent, await self._write(run, 4096, user))

    async def set_aside(
        self, agent: Agent, turn: Turn, steps: Sequence[Step], following: Sequence[InboxRow] = ()
    ) -> Turn | None:
        """Let an open turn wait for the answers to these steps, without being the agent's open turn meanwhile.

        Its rows are held. `begin` with a RESULT that names one of the steps' `wait` makes it go on: the new turn takes
        over rows and steps. Past `wait_until` such a RESULT comes from a timer. `following` as for `finish`. Raises
        `ConflictError` if the turn has ended.
        """

        def run(tx: Tx) -> Turn | None:
            if _load(tx, turn.turn)[0].state != "open":
                raise ConflictError("TURN_GONE", f"setting turn {turn.turn} aside: it ended meanwhile")
            waits.set_aside(tx, agent, turn, steps)
            return _begin(tx, agent, following) if following else None

        return self._noted(agent, await self._write(run, user=user_of(agent.path)))

    async def aside(self, agent_id: str) -> list[tuple[Turn, list[InboxRow], list[Step]]]:
        """Return an agent's turns that were set aside, as `load` with `unread`; `finish` as `stopped` ends one."""

        def run(tx: Tx) -> list[tuple[Turn, list[InboxRow], list[Step]]]:
            return [_load_ending(tx, number) for number in waits.turns_aside(tx, agent_id)]

        return await self._write(run)

    async def suspend(self, turn: int) -> None:
        """Take back one attempt of an open turn, for an orderly stop; never below zero."""
        await self._write(
            lambda tx: tx.run(
                f"UPDATE turns SET attempt = max(attempt - 1, 0), trying = 0 WHERE turn = ? AND {_OPEN}",
                (turn,),
            ),
            user=self._users.get(turn, ""),
        )

    async def retry(self, turn: int, error: str, retry_at: int, *, uncounted: bool = False) -> None:
        """Record why a try of an open turn failed and when (wall ms) the next may start.

        `uncounted` takes the attempt back: what failed had nothing to do with the turn.
        """
        await self._write(
            lambda tx: tx.run(
                "UPDATE turns SET error = ?, retry_at = ?, attempt = max(attempt - ?, 0), trying = 0"
                f" WHERE turn = ? AND {_OPEN}",
                (error, retry_at, int(uncounted), turn),
            ),
            user=self._users.get(turn, ""),
        )

    async def split(self, turn: Turn) -> None:
        """Give up a turn of several messages that has no finished step, so that each is tried alone."""

        def run(tx: Tx) -> None:
            _must_end(tx, turn, "split")
            for seq in turn.seqs:
                tx.run("UPDATE inbox SET attempts = ? WHERE seq = ? AND state = 0", (turn.attempt, seq))

        await self._write(run)

    async def park(
        self,
        agent: Agent,
        turn: Turn,
        *,
        code: str,
        reason: str,
        hint: str = "",
        history: Sequence[Message] = (),
        shown: ShownPrompt | None = None,
        replies: Sequence[Reply] = (),
        posts: Sequence[Envelope] = (),
        answers: Sequence[int] = (),
    ) -> None:
        """Give up a turn: its messages become dead letters, their senders are told by `replies` and `posts`.

        `hint` is what helps, for who reads its history.
        `answers` are rows that came for its calls and are in its `history`. What else was added while it ran has done
        nothing wrong: it waits for a turn of its own.
        """

        def run(tx: Tx) -> None:
            waits.give_up(tx, turn)
            _must_end(tx, turn, "parked", history, reason, hint)
            for seq in turn.seqs:
                inbox.bury(tx, seq, code, reason, turn.attempt)
            mailbox.complete(tx, agent.id, answers, turn.turn, "")
            _send(tx, agent, turn, replies, Effects(posts=tuple(posts)))
            if shown is not None:
                tx.tell(PromptShown(shown))

        await self._write(run)

    def _noted(self, agent: Agent, turn: T) -> T:
        if self._asks_whose and isinstance(turn, Turn):
            self._users[turn.turn] = user_of(agent.path)
        return turn

    async def history(self, agent_id: str, session: int, limit: int) -> list[Message]:
        """Return the newest messages of the current session, oldest first: whole turns, until there are `limit`."""
        known = self._tails.lately(agent_id)[:limit]
        found, enough = _newest(known, session, limit)
        if enough or len(known) == limit:
            return found
        rows = self._reader.execute(
            "SELECT t.turn, t.session, unpacked(h.messages) FROM turns t LEFT JOIN history h USING (turn)"
            " WHERE t.agent_id = ? AND t.session > ? AND t.replaced_by IS NULL ORDER BY t.turn DESC LIMIT ?",
            (agent_id, APART, limit),
        )
        return _newest(rows, session, limit)[0]

    async def replaceable(self, agent: Agent) -> int | None:
        """Return the turn of an agent whose place a message may take (`Person.instead`), None while one is open."""
        if await self.open_turn(agent.id) is not None:
            return None
        return replacing.last_turn(self._reader, agent.id, agent.session)


def _newest(rows: Iterable[tuple[Any, ...]], session: int, limit: int) -> tuple[list[Message], bool]:
    """Return the messages of the newest turns of a session, and whether no more rows can add any."""
    turns: list[tuple[Message, ...]] = []
    total, enough = 0, False
    for _, of_session, text in rows:
        if enough := of_session != session or total >= limit:
            break
        if text is not None:
            turns.append(_decode_history(text))
            total += len(turns[-1])
    return [message for turn in reversed(turns) for message in turn], enough or total >= limit


def end_all(tx: Tx, agent_id: str, reason: str) -> None:
    """End every turn of an agent that dies; what they worked on waits again, to be buried."""
    newest = tx.one("SELECT coalesce(max(turn), 0) FROM turns WHERE agent_id = ?", (agent_id,))
    assert newest is not None
    for number in {*waits.turns_aside(tx, agent_id), int(newest[0])} - {0}:
        waits.give_up(tx, _load(tx, number)[0])
        end(tx, agent_id, number, "parked", error=reason)


def seqs_of(tx: Tx, agent_id: str, turn: int) -> list[int]:
    """Return the numbers of all inbox rows of a turn of an agent, none for another's or one that never was."""
    it = _TURNS.one(tx.db, "turn = ? AND agent_id = ?", (turn, agent_id))
    return journal.seqs_of(tx, it) if it is not None else []


def _begin(tx: Tx, agent: Agent, rows: Sequence[InboxRow]) -> Turn:
    first = rows[0].envelope
    person = first.person
    seqs = tuple([row.seq for row in rows])
    trace = first.trace
    old: Turn | None = None
    if (answer := first.answers) and (number := waits.awaited_by(tx, agent.id, answer.wait)):
        old = _load(tx, number)[0]
        seqs, trace = (*seqs, *old.seqs), old.trace
    attempt = (rows[0].attempts if len(rows) == 1 else max(row.attempts for row in rows)) + 1
    # The agent's struct may be older than a burial or a new session; its row is not.
    session = tx.memory.sessions.get(agent.id)
    if session is None:
        row = tx.one("SELECT session FROM agents WHERE id = ? AND state <> 'dead'", (agent.id,))
        if row is None:
            raise ConflictError(
                "AGENT_DEAD", f"starting a turn of {agent.path}: this incarnation is dead", hint="daycare agents"
            )
        session = int(row[0])
        tx.memory.sessions[agent.id] = session
    session = old.session if old is not None and old.session <= APART else session_of(person.client, session)
    turn = tx.insert(
        "INSERT INTO turns (agent_id, session, user, origin, trace, attempt, interrupted, seqs, started_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (agent.id, session, agent.user, first.origin, trace, attempt, attempt > 1, _encode(seqs).decode(), tx.now),
    )
    assert turn is not None, "nothing is there that it could be in conflict with"
    tx.commit.started.append(TurnStart(agent.id, turn, session))
    if old is not None:
        waits.go_on(tx, old, turn)
        _must_end(tx, old, "continued")
    if person.instead:
        replacing.replace_turn(tx, agent.id, session, person.instead, turn)
    tx.tell(TurnBegan(agent, turn, trace, seqs, rows, goes_on=old is not None))
    return Turn(
        turn=turn,
        agent_id=agent.id,
        session=session,
        trace=trace,
        attempt=attempt,
        seqs=seqs,
        started_at=tx.now,
        goes_on=old is not None,
    )


def _load(tx: Tx, turn: int) -> tuple[Turn, list[InboxRow], list[Step]]:
    it = _TURNS.one(tx.db, "turn = ?", (turn,))
    if it is None:
        raise ConflictError("TURN_GONE", f"loading turn {turn}: it does not exist", hint="daycare status")
    steps = journal.steps_of(tx, turn)
    seqs = [*it.seqs, *(seq for step in steps for seq in step.seqs)]
    return it, mailbox.waiting_rows(tx, seqs, held=it.state == "waiting"), steps


def _load_ending(tx: Tx, turn: int) -> tuple[Turn, list[InboxRow], list[Step]]:
    it, rows, steps = _load(tx, turn)
    return it, [*rows, *waits.unread(tx, it, steps)], steps


def _finish(tx: Tx, agent: Agent, turn: Turn, end: TurnEnd) -> None:
    if end.state == "stopped":
        waits.give_up(tx, turn)
    _must_end(tx, turn, end.state, end.history)
    mailbox.complete(tx, agent.id, end.seqs, turn.turn, end.result)
    sent: list[int] = []
    if end.replies or end.effects.posts or end.effects.timers:
        sent += _send(tx, agent, turn, end.replies, end.effects)
    for each in end.deliveries:
        key = (each.agent.id, each.agent.path, each.agent.user, str(each.agent.origin))
        sent.append(outbox.insert(tx, key, turn.turn, turn.trace, each.reply))
    if end.effects.state is not None:
        behaviours.keep(tx, agent, turn.turn, end.effects.state)
    if end.shown is not None:
        tx.tell(PromptShown(end.shown))
    tx.tell(TurnAnswered(end.seqs, sent, end.state == "stopped", end.result))


def end(tx: Tx, agent_id: str, turn: int, state: str, error: str) -> bool:
    """Write how a turn ended that may have ended before; only the first end counts. False if there was none open."""
    tx.run(_END, (state, tx.now, error, "", "[]", turn))
    ended = tx.db.changes() > 0
    if ended:
        _has_ended(tx, agent_id, turn, state, "[]")
    return ended


def _must_end(
    tx: Tx, turn: Turn, state: str, messages: Sequence[Message] = (), error: str | None = None, hint: str = ""
) -> None:
    said = _encode(messages).decode()
    if not tx.changes_one(_END, (state, tx.now, error, hint, said, turn.turn)):
        raise ConflictError("TURN_GONE", f"ending turn {turn.turn}: it ended meanwhile", hint="daycare status")
    _has_ended(tx, turn.agent_id, turn.turn, state, said)


def _has_ended(tx: Tx, agent_id: str, turn: int, state: str, said: str) -> None:
    tx.commit.ended.append(TurnResult(agent_id, turn, state, said))
    if state not in ("continued", "split"):
        tx.tell(TurnCommitted(turn))


def _send(tx: Tx, agent: Agent, turn: Turn, replies: Sequence[Reply], effects: Effects) -> list[int]:
    """Queue what a turn says and sends; return the numbers of its replies."""
    key = (agent.id, agent.path, agent.user, str(agent.origin))
    sent = [outbox.insert(tx, key, turn.turn, turn.trace, reply) for reply in replies]
    # Asked before anything is posted: a search agent's turn ends it in its parent's name, and answers it all the same.
    posts = [each for each in effects.posts if not _unheard(tx, agent, each)]
    # What is refused becomes a dead letter: the turn still commits, and what could not be sent stays visible.
    for number, timer in enumerate(effects.timers):
        try:
            timers.add(tx, timer)
        except DaycareError as refused:
            letters.bury(tx, "timer", number, agent.id, timer.envelope, refused.code, refused.message, 1)
    for number, envelope in enumerate(posts):
        try:
            inbox.post(tx, envelope)
        except DaycareError as refused:
            if envelope.kind is EnvelopeKind.RESULT and refused.code == "AGENT_DEAD":
                tx.commit.unheard += 1
                continue
            letters.bury(tx, "post", number, agent.id, envelope, refused.code, refused.message, 1)
    return sent


def _reached(end: TurnEnd) -> Iterator[str]:
    """Yield the paths of those whom the end of a turn writes to."""
    yield from (envelope.to for envelope in end.effects.posts)
    yield from (timer.envelope.to for timer in end.effects.timers)
    yield from (each.agent.path for each in end.deliveries)


def _unheard(tx: Tx, agent: Agent, it: Envelope) -> bool:
    """Return whether it answers who has told this helper to end and waits for no word of it: the turn was faster."""
    parent = agent.path.rsplit("/", 2)[0]
    return it.kind is EnvelopeKind.RESULT and it.to == parent and mailbox.told_to_end_by(tx, agent.id, parent)


def _turn(row: tuple[Any, ...]) -> Turn:
    return Turn(
        turn=row[0],
        agent_id=row[1],
        session=row[2],
        trace=row[3],
        attempt=row[4],
        seqs=_decode_seqs(row[5]),
        retry_at=row[6],
        error=row[7],
        started_at=row[8],
        state=row[9],
    )


_TURNS: Final = Select(
    "turn, agent_id, session, trace, attempt, seqs, retry_at, error, started_at,"
    " coalesce((SELECT state FROM history h WHERE h.turn = turns.turn),"
    " (SELECT 'waiting' FROM waits w WHERE w.turn = turns.turn AND w.aside = 1 LIMIT 1), 'open')",
    "turns",
    _turn,
)


def recover(tx: Tx, owns: Owns = everybody) -> list[str]:
    """See `TurnStore.recover`: of the users that `owns` names, whom this process takes over."""
    rows: list[Any] = tx.db.execute(  # an open turn is its agent's newest, and has rows that wait
        "SELECT turn, agent_id, trying, attempt, interrupted, user FROM turns WHERE trying > 0 AND turn IN (SELECT"
        " max(turn) FROM turns WHERE agent_id IN (SELECT DISTINCT agent_id FROM inbox WHERE state = 0)"
        f" GROUP BY agent_id) AND {_OPEN}"
    ).fetchall()
    suspects = []
    for turn, agent_id, trying, attempt, interrupted, user in rows:
        if not owns(user):
            continue
        attempt += _ALONE_DEATH_TRIES if trying == _ALONE else 0
        tx.run(
            "UPDATE turns SET trying = ?, retry_at = 0, attempt = ?, interrupted = ? WHERE turn = ?",
            (_RUNS, attempt, interrupted + 1, turn),
        )
        if interrupted + 1 >= _INTERRUPTED_MAX:
            suspects.append((attempt, turn, agent_id))
    return [agent_id for _, _, agent_id in sorted(suspects)]
