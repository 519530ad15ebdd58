"""Tokens of the API: who may use it over the network, as a program or in a browser."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.base.clock import Clock
    from daycare.settings import Live
    from daycare.store.records import Commit
    from daycare.store.sqlite.store import Store


class TokensFeature(Feature):
    """All of it. `owner` is whose tokens are that are nobody else's; `reached` is whether this daemon listens."""

    name = "tokens"
    roles: ClassVar = {"tokens of the API": ""}
    reached = False

    def __init__(self, store: "Store", clock: "Clock", live: "Live", owner: str) -> None:
        from daycare.features.tokens.service import ApiTokens

        self.tokens = ApiTokens(store, clock, owner)
        self._live = live

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/tokens`, and what logs browsers in."""
        from daycare.features.tokens.faces import TokenOperations
        from daycare.features.tokens.login import LoginRoutes

        operations = TokenOperations(self.tokens, self._live, reached=self.reached)
        return [*operations.routes(), *LoginRoutes(self.tokens).routes()]

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what ends the calls of people who were removed."""
        return {"tokens of the API": self.tokens.run}

    def committed(self, commit: "Commit") -> None:
        """Something was committed; perhaps somebody was removed."""
        if commit.people:
            self.tokens.people_removed()

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what deletes old tokens."""
        return {"tokens of the API": lambda now_ms: self.tokens.expire(now_ms - self._live.now.store.keep_ms)}
