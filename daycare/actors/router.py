"""The router: the one way a message gets into an inbox."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.postbox import Postbox, check
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import (
    BusyError,
    ConflictError,
    DaycareError,
    NotFoundError,
    UnavailableError,
)
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import FetchPolicy
from daycare.base.permission import MESSAGE
from daycare.observe.bus import Bus
from daycare.store.records import Agent, Commit, NewAgent, Receipt
from daycare.store.sqlite.store import Store

Permit = Callable[[str, str, str], Awaitable[object]]
Posted: TypeAlias = tuple[Envelope, Receipt | DaycareError]  # what was posted, and what came of it

_ALL_MAX_AGENTS: Final = 200  # that get a message at once; each may begin a turn of a model
_OPEN_MAX: Final = 1_000  # messages known to wait: who waits for an answer begins with that when it has posted


async def permit_all(subject: str, action: str, target: str) -> None:
    """Let agents do what they like, where there are no rules."""


async def count_nothing(envelope: Envelope) -> None:
    """Let agents write as much as they like."""


class Router:
    """Posts messages, and waits for what becomes of them.

    Every check is made before the commit; what `post` returned is durable. `unheard` counts answers that came after
    their asker had given up. `permit(subject, action, object)` raises for what an agent may not do, `count` for
    messages of agents that are too many.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        bus: Bus,
        clock: Clock,
        permit: Permit = permit_all,
        count: Callable[[Envelope], Awaitable[None]] = count_nothing,
    ) -> None:
        self._store = store
        self._directory = directory
        self._postbox = Postbox(store, bus, clock)
        self.announce = self._postbox.announce
        self._permit = permit
        self._count = count
        self._waiters: dict[int, list[_Waiter]] = {}
        self._open: Bounded[int, None] = Bounded(_OPEN_MAX)  # messages that wait, of those posted lately
        self._gone: set[int] = set()
        self.unheard = 0

    async def post(self, envelope: Envelope, create: NewAgent | None = None, began: int = 0) -> Receipt:
        """Commit a message to the agent at `envelope.to`; with `create` the agent comes into being if need be.

        `began` is when it was received (wall ms), 0 for just now.
        A repeat of the key is answered with the first message's receipt. Raises `InvalidError` (too long, no key),
        `NotFoundError` (no such agent, dead incarnation), `ForbiddenError` (another user's), `BusyError` (inbox full).
        """
        check(envelope)
        if envelope.origin is Origin.AGENT and envelope.kind is EnvelopeKind.TEXT:
            recipient = await self.admit(envelope)
            envelope = replace(envelope, user=recipient.user)
        elif envelope.agent_id is None:
            agent = await self._directory.find(envelope.to)
            if agent is None and create is None:
                raise NotFoundError("AGENT_UNKNOWN", f"posting to {envelope.to}: no such agent", hint="daycare agents")
            if agent is not None and agent.user != envelope.user:
                await self._directory.of_user(envelope.to, envelope.user)  # refuses
        return await self._postbox.commit(envelope, create, began)

    async def admit(self, envelope: Envelope) -> Agent:
        """Return who gets what an agent writes to another, if it may write this; it is counted as if it were posted.

        Raises `ForbiddenError` that names the rule, `NotFoundError`, and what `count` raises.
        """
        check(envelope)
        await self._permit(envelope.sender, MESSAGE, envelope.to)
        recipient = await self._directory.at(envelope.to)
        await self._count(envelope)
        return recipient

    async def count(self, envelope: Envelope) -> None:
        """Count what an agent writes to one that comes into being with it. Raises what `count` raises."""
        check(envelope)
        await self._count(envelope)

    async def post_to_user_agents(self, strategy: FetchPolicy, envelope: Envelope, began: int = 0) -> list[Posted]:
        """Post to each of the user's agents that a fetch strategy names; return what came of each, in that order.

        Each gets the key with its own path appended, so that a repeat adds nothing where it was taken. One that is full
        or has just ended keeps it from no other. Raises `ConflictError` AGENTS_MANY for too many of them, and
        `InvalidError`, before anything is posted. An empty list means that nobody fits.
        """
        agents = await self._directory.fetch(strategy, envelope.user)
        if len(agents) > _ALL_MAX_AGENTS:
            raise ConflictError(
                "AGENTS_MANY",
                f"posting to all agents of {envelope.user}: there are {len(agents)}, more than {_ALL_MAX_AGENTS}",
                hint="name one: daycare send PATH TEXT",
            )
        batch = [replace(envelope, to=agent.path, key=f"{envelope.key}:{agent.path}") for agent in agents]
        for each in batch:
            check(each)
        posted: list[Posted] = []
        for each in batch:
            try:
                posted.append((each, await self.post(each, began=began)))
            except (BusyError, NotFoundError) as refused:
                posted.append((each, refused))
        return posted

    async def wait(self, receipt: Receipt, deadline_s: float) -> Receipt:
        """Wait until a message was answered; returns its final receipt.

        Raises `UnavailableError` (`ANSWER_LATE`) when the deadline passes first, `ConflictError` (`MESSAGE_DEAD`) when
        the message was given up: asking again will not help.
        """
        waiter = _Waiter()
        done = waiter.done
        self._waiters.setdefault(receipt.seq, []).append(waiter)
        self._gone.discard(receipt.seq)
        now: Receipt | None = receipt
        try:
            with trio.move_on_after(deadline_s):
                if receipt.seq not in self._open:
                    now = await self._store.inbox.receipt(receipt.seq)
                if now is not None and now.state == "waiting":
                    await done.wait()
        finally:
            if not done.is_set():
                self._leave(receipt.seq, waiter)
                if now is not None and now.state == "waiting" and receipt.seq not in self._waiters:
                    self._gone.add(receipt.seq)
        if waiter.answer is not None:
            return replace(receipt, duplicate=False, **waiter.answer)
        if done.is_set():  # perhaps in the same moment as the deadline
            now = await self._store.inbox.receipt(receipt.seq)
        if now is None or now.state == "waiting":
            raise UnavailableError(
                "ANSWER_LATE",
                f"waiting for the answer to message {receipt.seq}: none within {deadline_s:g} s",
                hint="the message is kept and will be answered; look later",
            )
        if now.state == "dead":
            raise ConflictError(
                "MESSAGE_DEAD",
                f"waiting for the answer to message {receipt.seq}: it was given up: {now.result}",
                hint="daycare dead list",
            )
        return now

    def committed(self, commit: Commit) -> None:
        """Wake whoever waits for a message that a commit completed."""
        for row in commit.posted:
            self._open[row.seq] = None
        for seq, result in commit.completed:
            self._open.pop(seq, None)
            for waiter in self._waiters.pop(seq, ()):
                waiter.answer = None if result is None else _answer(commit, seq, result)
                waiter.done.set()
            if seq in self._gone:
                self._gone.discard(seq)
                self.unheard += 1
        if commit.people:
            self._open.clear()  # theirs are gone, and nobody says which

    def _leave(self, seq: int, waiter: "_Waiter") -> None:
        waiting = self._waiters.get(seq, [])
        if waiter in waiting:
            waiting.remove(waiter)
        if not waiting:
            self._waiters.pop(seq, None)


class _Waiter:
    """Who waits for a message, and the end of its receipt, if the commit that completed it has told it."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.answer: dict[str, Any] | None = None


def _answer(commit: Commit, seq: int, result: str) -> dict[str, Any]:
    """Return what a commit has made of the receipt of a message that it completed."""
    turn = commit.answered.get(seq)
    stopped = any(each.turn == turn and each.state == "stopped" for each in commit.ended)
    return {"state": "stopped" if stopped else "done", "result": result, "turn": turn}
