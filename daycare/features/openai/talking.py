"""A request becomes a message to an agent, and what came of it an answer.

Which conversation it is part of is the program's choice: the agent's own, `main`; one by another name, which is kept
here and of which the agent is told, and from which its memory learns as well; or none, and then what the program tells
of is all, and nothing of it stays.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio
from starlette.requests import Request

from daycare.actors.router import Router
from daycare.api.callers import Caller
from daycare.api.replies import DirectReplies
from daycare.api.wanted import outcome
from daycare.base.causes import ClientContext, ClientSaid
from daycare.base.clock import Clock
from daycare.base.connector import DIRECT
from daycare.base.errors import NotFoundError, UnavailableError
from daycare.base.ids import new_trace_id
from daycare.base.limits import API_WAIT_MAX_S
from daycare.features.openai.background import TASK_HEADER, is_background
from daycare.features.openai.models import check_model, path_of
from daycare.features.openai.records import ProgramExchange
from daycare.features.openai.requests import AgentRequest, bounded, conversation_in
from daycare.features.openai.rows import ExchangeRows
from daycare.features.openai.speakers import Speakers
from daycare.observe.bus import Bus, Subscription
from daycare.plugin import Inbound
from daycare.store.records import OutboxRow, Receipt
from daycare.store.sqlite.store import Store

EXCHANGES_TOLD_MAX: Final = 200  # of a conversation that is kept here, the newest: some 50,000 words

MAIN: Final = "main"  # the agent's own conversation
HEADER: Final = "x-daycare-conversation"
HEADERS: Final = {
    "idempotency-key": "A repeat with it is answered as the first was",
    HEADER: "The conversation: main, the agent's own; another name, one that the daemon keeps; none: it stands alone",
    TASK_HEADER: "What a program asks for beside the conversation, such as a title: it stands alone",
}
_HEARD: Final = frozenset({"turn.delta", "tool.started"})


class Talking:
    """Speaks to agents for programs; what waits ends when it is `closing`."""

    def __init__(
        self,
        store: Store,
        router: Router,
        bus: Bus,
        clock: Clock,
        accept: Callable[[Inbound], Awaitable[Receipt]],
        owner: str,
        speakers: Speakers,
        closing: trio.Event,
    ) -> None:
        self.exchanges = store.of(ExchangeRows)
        self.speakers = speakers
        self.router = router
        self.closing = closing
        self.clock = clock
        self._store = store
        self._bus = bus
        self._accept = accept
        self._owner = owner
        self._replies = DirectReplies(store.outbox, bus, clock)

    def whose(self, caller: Caller) -> str:
        """Return the user in whose name somebody speaks."""
        return caller.user or self._owner

    def listen(self) -> Subscription:
        """Hear of turns from here on: to be called before anything is said, as the answer may begin at once."""
        return self._bus.subscribe(types=_HEARD)

    async def say(
        self,
        request: Request,
        caller: Caller,
        asked: AgentRequest,
        model: str,
        named: object = None,
        previous: str = "",
        *,
        store: bool = False,
    ) -> tuple[Receipt, ProgramExchange]:
        """Say something to the agent that a model is; return the receipt, and the exchange that it makes.

        The conversation is that of the request's header, or `named`; without one it goes on from the exchange with the
        ref `previous`. With `store` others can go on from it. A repeat of the request's Idempotency-Key is the same
        message. Raises `NotFoundError`, and what taking in a message does.
        """
        path = path_of(model)
        check_model(caller, path)
        user, key = self.whose(caller), request.headers.get("idempotency-key", "")
        conversation = conversation_in(request.headers.get(HEADER, "") or named)
        if previous and (before := await self.exchange(previous, caller)).model == model:
            conversation = before.conversation
        if is_background(request.headers, asked.said, asked.system, asked.text):
            conversation, store = "", False
        mine, past = asked.said, await self._past(user, model, conversation, previous)
        if conversation == MAIN or (conversation and past):
            mine = ()  # the program's own account of what is kept is left out
        if conversation == MAIN:
            client = ClientContext(system=asked.system) if asked.system else None
        else:
            told = bounded([*(message for each in past for message in each.messages), *mine])
            kept = f"{user} {model} {conversation}" if conversation else ""
            client = ClientContext(system=asked.system, apart=True, said=told, conversation=kept)
        receipt = await self._accept(
            Inbound(
                connector=DIRECT,
                sender=f"{DIRECT}:{user}",
                key=f"openai:{caller.name}:{key}" if key else f"openai:{new_trace_id()}",
                text=asked.text,
                path=path,
                files=asked.files,
                client=client,
            )
        )
        words_asked = asked.text or f"[{len(asked.files)} files]"
        exchange = ProgramExchange(
            ref=receipt.trace,
            user=user,
            path=receipt.path,
            agent_id=receipt.agent_id,
            seq=receipt.seq,
            model=model,
            conversation=conversation,
            previous=previous,
            instructions=asked.system,
            said=() if conversation == MAIN else (*mine, ClientSaid("user", words_asked)),
            created_at=self.clock.now_ms(),
        )
        if store or conversation not in ("", MAIN):
            await self.exchanges.add(exchange)
        return receipt, exchange

    async def answered(self, request: Request, receipt: Receipt) -> tuple[Receipt, list[OutboxRow]]:
        """Wait for the answer to a message; return its final receipt and its replies, which are to be confirmed.

        Raises `UnavailableError` ANSWER_LATE, `ConflictError` MESSAGE_DEAD.
        """
        receipt = await outcome(request, self.closing, self.router, receipt, API_WAIT_MAX_S)
        if receipt.state == "waiting":
            raise UnavailableError(
                "ANSWER_LATE",
                f"waiting for an agent: no answer to message {receipt.seq} yet",
                hint="the message is kept and will be answered: send it again with the same Idempotency-Key",
            )
        return receipt, await self.replies(receipt)

    async def replies(self, receipt: Receipt) -> list[OutboxRow]:
        """Return what is to be shown of an answer, nothing if it was shown before."""
        return await self._replies.answering(receipt)

    async def confirm(self, rows: Sequence[OutboxRow]) -> None:
        """Take it that replies were shown."""
        await self._replies.confirm(rows)

    async def tokens(self, turn: int | None) -> tuple[int, int]:
        """Return how many tokens the models of a turn were given, and how many they made."""
        return (0, 0) if turn is None else await self._store.ledger.tokens(turn)

    async def exchange(self, ref: str, caller: Caller) -> ProgramExchange:
        """Return an exchange of somebody. Raises `NotFoundError` RESPONSE_UNKNOWN."""
        found = await self.exchanges.get(ref, self.whose(caller))
        if found is None or not caller.sees(found.path):
            raise NotFoundError(
                "RESPONSE_UNKNOWN",
                "looking up a response: there is none of this id",
                hint="it is kept for store.keep_days",
            )
        return found

    async def _past(self, user: str, model: str, conversation: str, previous: str) -> list[ProgramExchange]:
        """Return the exchanges that a request goes on from, oldest first."""
        if conversation == MAIN:
            return []
        if conversation:
            return await self.exchanges.newest(user, model, conversation, EXCHANGES_TOLD_MAX)
        return await self._up_to(previous, user)

    async def _up_to(self, ref: str, user: str) -> list[ProgramExchange]:
        """Return an exchange and those that it goes on from, oldest first; before one that was deleted, none."""
        found: list[ProgramExchange] = []
        while ref and len(found) < EXCHANGES_TOLD_MAX:
            exchange = await self.exchanges.get(ref, user)
            if exchange is None:
                break
            found.insert(0, exchange)
            ref = exchange.previous
        return found
