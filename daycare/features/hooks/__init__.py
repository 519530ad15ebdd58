"""Inbound webhooks: programs outside deliver what happened, to an agent or as a signal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from daycare.base.health import Finding
from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.store.records import Commit
    from daycare.store.vault import Vault

HOOK_BODY_MAX_BYTES: Final = 25 * 1024 * 1024  # GitHub's longest; of it a message has 16 KiB
HOOK_FAILING_MAX: Final = 5  # deliveries refused in a row, after which health tells of it: one typo is not worth it


class WebhooksFeature(Feature):
    """All of it. Secrets are sealed by `vault`."""

    name = "webhooks"
    bodies: ClassVar = {"/v1/hooks/": HOOK_BODY_MAX_BYTES}

    def __init__(self, core: Core, vault: "Vault") -> None:
        from daycare.features.hooks.refusals import HookRefusals
        from daycare.features.hooks.service import Webhooks

        self._core = core
        self.hooks = Webhooks(core.store, core.directory, vault, core.bus, core.clock, core.owner)
        self._refusals = HookRefusals(self.hooks.rows, core.clock)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/hooks`, and where deliveries come in."""
        from daycare.features.hooks.faces import HookOperations
        from daycare.features.hooks.receiving import HookReceiver

        core, hooks = self._core, self.hooks
        receiver = HookReceiver(hooks.rows, self._refusals, core.directory, core.router, hooks.vault, core.clock)
        return HookOperations(hooks, self._refusals, receiver).routes()

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what deletes secrets that were replaced."""
        return {"earlier secrets of webhooks": self.hooks.rows.expire}

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern webhooks."""
        self.hooks.committed(commit)

    async def findings(self) -> Sequence[Finding]:
        """Return which webhooks take nothing any more."""
        found = [self._refusals.with_them(hook) for hook in await self.hooks.rows.find()]
        failing = [hook for hook in found if hook.failing >= HOOK_FAILING_MAX]
        if not found:
            return ()
        text = "; ".join(f"{hook.name}: {hook.failing} refused in a row: {hook.refused_why}" for hook in failing)
        text = text or f"{len(found)} webhook{'s'[: len(found) != 1]}, none refuses all that comes"
        return [Finding(name="webhooks", ok=not failing, text=text)]
