"""A client of the WebSocket, over any stream."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from tests.network.conftest import Json, Network

PATIENCE_S: Final = 60.0


class Talking:
    """An open socket."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self.connection = connection
        self.hello: Json = {}

    async def say(self, type_: str, **fields: Any) -> None:
        """Send a message."""
        await self.connection.send_message(json.dumps({"type": type_, **fields}))

    async def hear(self) -> Json:
        """Return the next message."""
        with trio.fail_after(PATIENCE_S):
            found: Json = json.loads(await self.connection.get_message())
            return found

    async def hears(self, *types: str) -> Json:
        """Return the next message of one of these types; others are passed over."""
        while (found := await self.hear())["type"] not in types:
            pass
        return found

    async def asked(self, type_: str, **fields: Any) -> Json:
        """Send a message with an id, and return what answers it first."""
        await self.say(type_, **({"id": "q"} | fields))
        about = fields.get("id", "q")
        while (found := await self.hear()).get("id") != about:
            pass
        return found

    async def events(self, count: int, name: str = "s") -> list[Json]:
        """Return the next events of a subscription, each with its cursor."""
        found: list[Json] = []
        while len(found) < count:
            message = await self.hears("events")
            found += message["events"] if message["id"] == name else []
        return found

    async def closed(self) -> tuple[int, str]:
        """Read to the end; return how the daemon closed it."""
        with trio.fail_after(PATIENCE_S):
            try:
                while True:
                    await self.connection.get_message()
            except ConnectionClosed as error:
                assert error.reason is not None
                return error.reason.code, error.reason.reason or ""


@asynccontextmanager
async def talk_over(
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream], headers: dict[str, str], queue: int = 1_000
) -> AsyncIterator[Talking]:
    """Open a socket over a stream; beyond `queue` messages nothing is read. Raises `ConnectionRejected`."""
    async with trio.open_nursery() as nursery:
        with trio.fail_after(PATIENCE_S):
            connection = await wrap_client_stream(
                nursery,
                stream,
                headers.pop("Host", "localhost"),
                headers.pop("resource", "/v1/ws"),
                subprotocols=[headers.pop("protocol", "daycare.v1")],
                extra_headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                message_queue_size=queue,
            )
            talking = Talking(connection)
            talking.hello = await talking.hear()
        yield talking
        with trio.move_on_after(1):
            await connection.aclose()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def talk(network: Network, who: str, **headers: str) -> AsyncIterator[Talking]:
    """Open a socket over the network with somebody's token."""
    sent = {"Authorization": f"Bearer {network.tokens[who]}"} if network.tokens[who] else {}
    async with (
        await trio.open_tcp_stream("127.0.0.1", network.port) as stream,
        talk_over(stream, sent | headers) as talking,
    ):
        yield talking
