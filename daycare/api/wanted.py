"""Waiting on behalf of a client, and not a moment longer than somebody wants the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from starlette.requests import Request
from starlette.types import Receive

from daycare.actors.router import Router
from daycare.base.errors import DaycareError
from daycare.store.records import Receipt


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


async def outcome(request: Request, closing: trio.Event, router: Router, receipt: Receipt, wait_s: float) -> Receipt:
    """Return what became of a message within the time; as it is when that is up, or when nobody wants to know."""
    failure: DaycareError | None = None
    final = receipt
    async with while_wanted(closing, request.receive):
        try:
            final = await router.wait(receipt, wait_s)
        except DaycareError as error:
            failure = error
    if failure is not None and failure.code != "ANSWER_LATE":
        raise failure
    return final


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _until_set(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
