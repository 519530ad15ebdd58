"""Short ways to say what the store tests are about."""

from collections.abc import Callable
from typing import Any

from daycare.base.messages import Envelope, Message, Origin, Text
from daycare.store.records import (
    Agent,
    Commit,
    InboxRow,
    NewAgent,
    NewTimer,
    Receipt,
    Reply,
    Step,
    Turn,
    TurnEnd,
)
from daycare.store.sqlite.store import Store

EPOCH_MS = 1_798_761_600_000
PATH = "/u1/telegram"


class HandClock:
    """A wall clock that only the test moves."""

    def __init__(self) -> None:
        self.ms = EPOCH_MS

    def now_ms(self) -> int:
        return self.ms

    def steady_s(self) -> float:
        return self.ms / 1000


def new_agent(path: str = PATH, *, agent_id: str | None = None, user: str = "u1", kind: str = "connector") -> NewAgent:
    return NewAgent(
        id=agent_id or "id-" + path.strip("/").replace("/", "-"),
        path=path,
        kind=kind,
        role="user",
        user=user,
        origin=Origin.PERSON,
    )


def letter(key: str, to: str = PATH, **more: Any) -> Envelope:
    fields: dict[str, Any] = {
        "user": "u1",
        "origin": Origin.PERSON,
        "sender": "telegram:42",
        "text": f"text of {key}",
        "trace": f"trace-{key}",
    }
    return Envelope(to=to, key=key, **(fields | more))


def said(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def timer(agent: Agent, key: str, due_at: int, **more: Any) -> NewTimer:
    return NewTimer(agent_id=agent.id, key=key, due_at=due_at, envelope=letter(f"timer-{key}", agent.path, **more))


async def post(store: Store, key: str, to: str = PATH, **more: Any) -> Receipt:
    return await store.inbox.post(letter(key, to, **more), new_agent(to))


async def begin(store: Store, *keys: str, to: str = PATH) -> tuple[Agent, Turn, list[InboxRow]]:
    """Post messages and begin a turn on all that wait."""
    for key in keys:
        await post(store, key, to)
    agent = await store.agents.at(to)
    assert agent is not None
    rows = await store.inbox.waiting(agent.id)
    return agent, await store.turns.begin(agent, rows), rows


def end(turn: Turn, *replies: str, result: str = "answer", **more: Any) -> TurnEnd:
    return TurnEnd(
        turn=turn.turn,
        state="done",
        seqs=turn.seqs,
        history=more.pop("history", (said("question"), Message(role="assistant", parts=(Text(result),)))),
        result=result,
        replies=tuple(Reply(connector="telegram", text=text) for text in replies),
        **more,
    )


async def answer(store: Store, *keys: str, to: str = PATH, **more: Any) -> Turn:
    """Post messages and finish a turn on all that wait."""
    agent, turn, _ = await begin(store, *keys, to=to)
    await store.turns.finish(agent, turn, end(turn, **more))
    return turn


async def reply(store: Store, *texts: str) -> list[int]:
    """Finish a turn with these replies; return their outbox numbers."""
    agent, turn, _ = await begin(store, f"ask-{texts[0]}")
    await store.turns.finish(agent, turn, end(turn, *texts))
    return [row.seq for row in await store.outbox.unread(PATH, limit=5_000) if row.turn == turn.turn]


def tool_step(turn: Turn, step: int, **more: Any) -> Step:
    return Step(turn=turn.turn, step=step, name="search", **({"kind": "tool", "state": "started"} | more))


async def conclude(store: Store, seq: int, result: str = "done") -> None:
    """Finish one message without a turn."""
    [row] = await store.inbox.rows([seq])
    agent = await store.agents.get(row.agent_id)
    assert agent is not None
    await store.inbox.conclude(agent, row, result)


def commits(store: Store) -> list[Commit]:
    """Collect what the store announces from now on."""
    seen: list[Commit] = []
    listener: Callable[[Commit], None] = seen.append
    store.subscribe(listener)
    return seen
