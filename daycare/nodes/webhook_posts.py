"""What a platform posts to any node, taken by the one that is connected with the account.

Nothing is kept on the way. Whoever posts is answered once all of it is committed, and posts it again where nobody can
tell: each message has a key, by which a repeat is known.
"""

import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import trio

from daycare.base.errors import UnavailableError

WEBHOOK_POST: Final = "webhook"  # the name of the call
WEBHOOK_POST_MAX_BYTES: Final = 4 * 1024 * 1024  # of one, unpacked: more than any platform posts

Take = Callable[[bytes], Awaitable[None]]
Ask = Callable[[str, bytes, str], Awaitable[bytes]]


class WebhookPost(msgspec.Struct, array_like=True):
    """What was posted for a connector, packed: words between nodes are short."""

    connector: str
    packed: bytes


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(WebhookPost).decode


class WebhookPosts:
    """Hands on what was posted. `ask` asks the other nodes, see `NodeCalls`; None where there are none."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask
        self._takers: dict[str, _Taker] = {}

    @contextmanager
    def taking(self, connector: str, take: Take) -> Iterator[None]:
        """Have `take` take what is posted for a connector; what is under way at the end is refused."""
        taker = self._takers[connector] = _Taker(take)
        try:
            yield
        finally:
            if self._takers.get(connector) is taker:
                del self._takers[connector]
            taker.end()

    async def hand_on(self, connector: str, body: bytes) -> None:
        """Return once somebody has taken it. Raises what they do, and `UnavailableError` NOT_CONNECTED or NODE_SILENT:
        it has to be posted again.
        """
        taker = self._takers.get(connector)
        if taker is not None:
            await taker.take(body)
        elif self._ask is not None:
            packed = _encode(WebhookPost(connector, zlib.compress(body, 1)))
            await self._ask(WEBHOOK_POST, packed, f"handing on what was posted for {connector}")
        else:
            raise _not_connected(f"taking what was posted for {connector}")

    async def asked(self, arguments: bytes) -> bytes | None:
        """Take what was posted to another node, if it is for this one."""
        post = _decode(arguments)
        taker = self._takers.get(post.connector)
        if taker is None:
            return None
        await taker.take(zlib.decompressobj().decompress(post.packed, WEBHOOK_POST_MAX_BYTES))
        return b"null"


class _Taker:
    def __init__(self, take: Take) -> None:
        self._take = take
        self._under_way: set[trio.CancelScope] = set()

    async def take(self, body: bytes) -> None:
        with trio.CancelScope() as scope:
            self._under_way.add(scope)
            try:
                await self._take(body)
                return
            finally:
                self._under_way.discard(scope)
        raise _not_connected("taking what was posted")

    def end(self) -> None:
        for scope in self._under_way:
            scope.cancel()


def _not_connected(doing: str) -> UnavailableError:
    return UnavailableError(
        "NOT_CONNECTED", f"{doing}: the account is not connected now", hint="it is posted again: daycare connections"
    )
