"""A provider whose plugin failed: it stands where the real one would, and says at each call why it is not there.

A daemon whose configuration names it starts all the same, and other models answer.
"""

from collections.abc import AsyncGenerator, Callable

import trio

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, UnavailableError
from daycare.plugin import InferRequest, Plugin, Provider, ProviderConfig, StreamEvent

Factory = Callable[[ProviderConfig], Provider]


class Absent:
    """A `Provider` that cannot be called."""

    needs_key = False

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Say why not."""
        await trio.lowlevel.checkpoint()
        for event in self._refuse():
            yield event

    async def models(self) -> list[str]:
        """Say why not."""
        await trio.lowlevel.checkpoint()
        self._refuse()
        return []

    def _refuse(self) -> list[StreamEvent]:
        raise UnavailableError("PROVIDER_ABSENT", f"calling {self.name}: {self._reason}", hint="daycare plugins list")


def sure(plugin: str, make: Factory) -> Factory:
    """Return a factory that never raises: it gives an absent provider instead."""

    def build(config: ProviderConfig) -> Provider:
        try:
            with error_boundary("PLUGIN_FAILED", f"its plugin {plugin} could not make it"):
                return make(config)
        except DaycareError as error:
            return Absent(config.name, error.message)

    return build


def stand_in(kinds: set[str]) -> Plugin:
    """Return what provides kinds that the configuration names and that a plugin that was left out may have provided."""

    def build(config: ProviderConfig) -> Provider:
        return Absent(config.name, f"no plugin provides {config.kind}, and at least one was left out")

    return Plugin(name="absent", providers=dict.fromkeys(kinds, build))
