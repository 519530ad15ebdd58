"""An answer as it comes: what is heard of the turn that makes it, until it is there."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

import trio

from daycare.actors.router import Router
from daycare.base.errors import DaycareError
from daycare.base.events import Event
from daycare.base.limits import API_WAIT_MAX_S
from daycare.observe.bus import Gap, Subscription
from daycare.store.records import Receipt

HEARD: Final = frozenset({"turn.delta", "tool.started", "tool.progress", "tool.finished"})


async def follow(
    router: Router,
    receipt: Receipt,
    heard: Subscription,
    tell: Callable[[Event | None], Awaitable[None]],
    *,
    pause_s: float = 0,
    quiet_s: float = inf,
) -> Receipt:
    """`tell` each event of a message's turn until it is answered, and return the message as it is then.

    `heard` was subscribed before the message was taken in: its answer may begin at once. What comes within `pause_s` is
    told together; None is told when nothing was for `quiet_s`. Raises what `Router.wait` does.
    """
    final: list[Receipt | DaycareError] = []
    waiting = trio.CancelScope()

    async def wait() -> None:
        try:
            final.append(await router.wait(receipt, API_WAIT_MAX_S))
        except DaycareError as error:
            final.append(error)
        waiting.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        while not final:
            waiting = trio.CancelScope(deadline=trio.current_time() + quiet_s)
            with waiting:  # what was heard is told in any case, before the answer is
                if not await heard.waited(pause_s):
                    await trio.sleep_forever()  # the daemon stops, and ends this in a moment
            if waiting.cancelled_caught and not final:
                await tell(None)
            while (item := heard.take()) is not None:
                if not isinstance(item[1], Gap) and item[1].trace == receipt.trace:
                    await tell(item[1])
    [found] = final
    if isinstance(found, DaycareError):
        raise found
    return found
