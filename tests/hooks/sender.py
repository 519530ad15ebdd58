"""A sender of deliveries, for tests that need no socket."""

from typing import Any

import msgspec

from daycare.features.hooks import WebhooksFeature
from daycare.features.hooks.receiving import HookReceiver
from daycare.features.hooks.records import HookAnswer, HookScheme, InboundHook
from daycare.features.hooks.refusals import HookRefusals
from daycare.testing.daemon import TestDaemon

NAME = "gh"


def receiver(house: TestDaemon) -> HookReceiver:
    """Return what takes deliveries in a daemon."""
    daemon = house.daemon
    hooks = next(each for each in daemon.features if isinstance(each, WebhooksFeature)).hooks
    refusals = HookRefusals(hooks.rows, daemon.clock)
    return HookReceiver(hooks.rows, refusals, daemon.directory, daemon.router, daemon.vault, daemon.clock)


async def delivered(house: TestDaemon, payload: Any, *, delivery: str = "d1", **wish: Any) -> HookAnswer:
    """Deliver something to the webhook `NAME`, which is made first if there is none."""
    hooks = next(each for each in house.daemon.features if isinstance(each, WebhooksFeature)).hooks
    hook = await hooks.rows.get(NAME)
    if hook is None:
        hook, _ = await hooks.add(InboundHook(no=0, name=NAME, user="", scheme=HookScheme.GITHUB, **wish))
    taking, body = receiver(house), msgspec.json.encode(payload)
    return await taking.receive(NAME, await taking.sample(hook, body, "issues", delivery), body)
