"""Socket Mode, from Slack's side: tickets, envelopes that are delivered until they are acknowledged, disconnects."""

import itertools
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest

REDELIVER_S: Final = 3.0  # Slack waits so long for an acknowledgement


class SlackEnvelope(msgspec.Struct, kw_only=True, eq=False):
    """Something that the app has to be told. `numbers` are the ids under which it was sent."""

    kind: str
    payload: dict[str, Any]
    numbers: list[str] = []
    link: object = None
    due: float = 0.0


class FakeLinks:
    """The connections of one app. `acks` are the ids acknowledged, in order; `wrong` is what no app should send.

    `on_acknowledged` are told of each envelope at its first acknowledgement.
    """

    def __init__(self) -> None:
        self.redeliver_s = REDELIVER_S
        self.paused = False  # nothing is delivered
        self.acks: list[str] = []
        self.wrong: list[str] = []
        self.on_acknowledged: list[Callable[[SlackEnvelope], None]] = []
        self.pushed = 0
        self.delivered = 0
        self.opened = 0
        self._waiting: list[SlackEnvelope] = []
        self._tickets: set[str] = set()
        self._open: dict[WebSocketConnection, bool] = {}  # whether it is still given envelopes
        self._numbers = itertools.count(1)
        self._news = trio.Event()

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._open)

    @property
    def unacknowledged(self) -> int:
        """How many envelopes are not acknowledged."""
        return len(self._waiting)

    def ticket(self) -> str:
        """Return what lets one connection in."""
        found = f"ticket-{next(self._numbers)}"
        self._tickets.add(found)
        return found

    def push(self, kind: str, payload: dict[str, Any]) -> None:
        """Deliver something, until it is acknowledged."""
        self.pushed += 1
        self._waiting.append(SlackEnvelope(kind=kind, payload=payload, numbers=[]))
        self.tell()

    def mix(self, chance: random.Random) -> None:
        """Let what waits come in another order from now on."""
        chance.shuffle(self._waiting)

    def tell(self) -> None:
        """Look again whether something is to be delivered."""
        self._news.set()
        self._news = trio.Event()

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask the app to connect again; what the old connections were not given goes to new ones."""
        for link in list(self._open):
            self._open[link] = False
            try:
                await link.send_message(msgspec.json.encode({"type": "disconnect", "reason": reason}).decode())
            except ConnectionClosed:
                pass

    async def drop(self) -> None:
        """Break all connections."""
        for link in list(self._open):
            self._open.pop(link, None)
            await trio.aclose_forcefully(link._stream)

    async def handle(self, request: WebSocketRequest) -> None:
        """Serve one connection."""
        ticket = request.path.rpartition("ticket=")[2]
        if ticket not in self._tickets:
            await request.reject(403)
            return
        self._tickets.discard(ticket)
        link = await request.accept()
        self._open[link] = True
        self.opened += 1
        hello = {"type": "hello", "num_connections": len(self._open), "connection_info": {"app_id": "A0FAKE"}}
        try:
            await link.send_message(msgspec.json.encode(hello).decode())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, link)
                while True:
                    self._acknowledged(await link.get_message())
        except* (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._open.pop(link, None)
            for each in self._waiting:
                if each.link is link:
                    each.link, each.due = None, 0.0
            self.tell()

    async def _send(self, link: WebSocketConnection) -> None:
        while True:
            now = trio.current_time()
            for each in list(self._waiting):
                if not self.paused and self._open.get(link) and each.due <= now and each in self._waiting:
                    each.link, each.due = link, now + self.redeliver_s
                    each.numbers.append(f"envelope-{next(self._numbers)}")
                    self.delivered += 1
                    await link.send_message(self._written(each))
            news = self._news
            with trio.move_on_after(self.redeliver_s / 2):
                await news.wait()

    def _written(self, each: SlackEnvelope) -> str:
        retries: dict[str, Any] = {
            "retry_attempt": len(each.numbers) - 1,
            "retry_reason": "timeout" if len(each.numbers) > 1 else "",
        }
        envelope: dict[str, Any] = {"type": each.kind, "envelope_id": each.numbers[-1], "payload": each.payload}
        envelope |= {"accepts_response_payload": each.kind != "events_api"}
        return msgspec.json.encode(envelope | retries).decode()

    def _acknowledged(self, message: str | bytes) -> None:
        try:
            found = msgspec.json.decode(message, type=dict[str, Any])
        except msgspec.MsgspecError:
            self.wrong.append(str(message))
            return
        number = found.get("envelope_id")
        if set(found) - {"envelope_id", "payload"} or not isinstance(number, str):
            self.wrong.append(str(message))
            return
        self.acks.append(number)
        known = [each for each in self._waiting if number in each.numbers]
        self._waiting = [each for each in self._waiting if each not in known]
        for each in known:
            for told in self.on_acknowledged:
                told(each)
