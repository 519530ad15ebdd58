"""Talking on a socket: a message, its answer as it comes, and stopping it."""

from typing import Annotated, Any, Final, Literal

import msgspec

from daycare.api.callers import persons
from daycare.api.following import HEARD, follow
from daycare.api.replies import DirectReplies, spoken
from daycare.api.routes_files import FileNumbers, attached
from daycare.api.services import Services
from daycare.api.sockets import ClientMessage, Heard, Ok, ServerMessage, Socket, SocketPart, refusal
from daycare.api.stopping import fresh_key, stop_turn
from daycare.base.connector import DIRECT
from daycare.base.errors import BusyError, ConflictError, DaycareError
from daycare.base.events import Event, ToolFinished, ToolProgress, ToolStarted, TurnDelta
from daycare.base.limits import KEY_MAX_CHARS
from daycare.observe.bus import Subscription
from daycare.plugin import Inbound
from daycare.store.records import OutboxRow, Receipt

WS_CHATS_MAX: Final = 16  # messages of one socket whose answers are awaited
WS_DELTAS_S: Final = 0.02  # pieces of an answer that come within it are sent together


class ChatSend(ClientMessage, frozen=True, kw_only=True, tag="chat.send"):
    """Say something to the agent at `path`, without one to the user's `direct`. A repeat of a `key` is harmless.

    `files` are numbers of the user's files that were uploaded before.
    """

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    text: str
    files: FileNumbers = ()
    path: str | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX_CHARS)] | None = None


class ChatStop(ClientMessage, frozen=True, kw_only=True, tag="chat.stop"):
    """Stop what the agent at `path`, without one the user's `direct`, does at the moment."""

    path: str | None = None


class ChatAccepted(ServerMessage, frozen=True, kw_only=True, tag="chat.accepted"):
    """The message is committed, and will be answered whatever happens. `duplicate`: its key was used before."""

    id: str
    seq: int
    path: str
    trace: str
    duplicate: bool


class ChatDelta(ServerMessage, frozen=True, kw_only=True, tag="chat.delta"):
    """A piece of the answer as the model makes it: a preview, the answer is what `chat.reply` says."""

    id: str
    text: str


class ChatTool(ServerMessage, frozen=True, kw_only=True, tag="chat.tool"):
    """The agent uses a tool. `state` is started, progress, or how it ended: ok, error or uncertain."""

    id: str
    tool_call_id: str
    tool: str
    state: str
    text: str = ""


class ChatUsage(msgspec.Struct, frozen=True):
    """The tokens of all calls of models that an answer took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(ServerMessage, frozen=True, kw_only=True, tag="chat.reply"):
    """The answer: `text` is all of it, `replies` are its messages. `stopped`: the turn was stopped before its end."""

    id: str
    seq: int
    path: str
    state: Literal["done", "stopped"]
    text: str
    replies: list[OutboxRow]
    usage: ChatUsage


class Chatting(SocketPart):
    """The conversations of one socket."""

    def __init__(self, socket: Socket, services: Services) -> None:
        self._socket = socket
        self._services = services
        self._replies = DirectReplies(services.store.outbox, services.bus, services.clock)
        self._awaited: set[str] = set()

    def messages(self) -> list[Heard]:
        """Return what it takes."""
        return [Heard(ChatSend, self.say), Heard(ChatStop, self.stop)]

    @persons
    async def say(self, wish: ChatSend) -> None:
        """Take a message in, and begin to send its answer."""
        caller = self._socket.caller
        user = caller.user or self._services.owner
        caller.check_path(wish.path or f"/{user}/{DIRECT}")
        if wish.id in self._awaited:
            raise ConflictError("CHAT_TAKEN", f"sending {wish.id}: one of this id is being answered", hint="another id")
        if len(self._awaited) >= WS_CHATS_MAX:
            raise BusyError(
                "CHATS_FULL", f"sending {wish.id}: {WS_CHATS_MAX} messages of this socket are being answered"
            )
        files = await attached(self._services.store, wish.files, user)
        heard = self._services.bus.subscribe(types=HEARD)
        receipt = await self._services.accept(
            Inbound(
                connector=DIRECT,
                sender=f"{DIRECT}:{user}",
                key=fresh_key() if wish.key is None else wish.key,
                text=wish.text,
                files=files,
                path=wish.path or "",
            )
        )
        await self._socket.send(
            ChatAccepted(
                id=wish.id, seq=receipt.seq, path=receipt.path, trace=receipt.trace, duplicate=receipt.duplicate
            )
        )
        self._awaited.add(wish.id)
        self._socket.start(self._answer, wish.id, receipt, heard)

    @persons
    async def stop(self, wish: ChatStop) -> None:
        """Let a turn end."""
        caller = self._socket.caller
        await stop_turn(self._services, caller, wish.path or f"/{caller.user or self._services.owner}/{DIRECT}")
        await self._socket.send(Ok(id=wish.id))

    async def _answer(self, name: str, receipt: Receipt, heard: Subscription) -> None:
        async def tell(event: Event | None) -> None:
            if event is not None and (message := _message(name, event)) is not None:
                await self._socket.send(message)

        try:
            try:
                async with heard:
                    done = await follow(self._services.router, receipt, heard, tell, pause_s=WS_DELTAS_S)
                rows = await self._replies.answering(done)
                answer = ChatAnswer(
                    id=name,
                    seq=done.seq,
                    path=done.path,
                    state="stopped" if done.state == "stopped" else "done",
                    text=spoken(rows, done),
                    replies=rows,
                    usage=await self._usage(done),
                )
            finally:
                self._awaited.discard(name)  # before the client hears: it may send the next one at once
            await self._socket.send(answer)
            await self._replies.confirm(rows)
        except DaycareError as error:
            await self._socket.send(refusal(name, error))

    async def _usage(self, receipt: Receipt) -> ChatUsage:
        given, made = (0, 0) if receipt.turn is None else await self._services.store.ledger.tokens(receipt.turn)
        return ChatUsage(given, made, given + made)


def _message(name: str, event: Event) -> ServerMessage | None:
    """Return what a client is shown of an event of its turn."""
    if isinstance(event, TurnDelta):
        return ChatDelta(id=name, text=event.text)
    fields: dict[str, Any] = {"id": name}
    if isinstance(event, ToolStarted | ToolProgress | ToolFinished):
        fields |= {"tool_call_id": tool_call_id(event.turn, event.step), "tool": event.tool}
    if isinstance(event, ToolStarted):
        return ChatTool(**fields, state="started")
    if isinstance(event, ToolProgress):
        return ChatTool(**fields, state="progress", text=event.text)
    if isinstance(event, ToolFinished):
        return ChatTool(**fields, state=event.status)
    return None


def tool_call_id(turn: int, step: int) -> str:
    """Return what a call of a tool is named by: its turn and its step in that."""
    return f"call_{turn}_{step}"
