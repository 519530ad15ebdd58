"""Waiting on behalf of a client, and not a moment longer than somebody wants the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from starlette.types import Receive


@asynccontextmanager
async def while_wanted(closing: trio.Event, receive: Receive) -> AsyncIterator[None]:
    """Cancel the block, silently, when the client goes away or `closing` is set.

    What the block raises comes out in an exception group: catch inside what the client is to be told.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
        nursery.start_soon(_until_set, closing, nursery.cancel_scope)
        yield
        nursery.cancel_scope.cancel()


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _until_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
