"""Signals: send them, see what became of them, and say which ones an agent gets."""

import secrets
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.documents import Document, Limit, Number, answer, body, query
from daycare.api.services import Services
from daycare.base.errors import NotFoundError
from daycare.base.limits import KEY_MAX_CHARS, SIGNAL_AFTER_MAX_S
from daycare.store.records_signals import Signal
from daycare.store.sqlite.signals import SignalRows

_Key = Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)]


class SignalsQuery(Document, frozen=True, kw_only=True):
    """Whose signals, newest first, beginning below number `before`; everybody's without. `waiting`: not fired yet."""

    user: str | None = None
    waiting: bool = False
    before: Number | None = None
    limit: Limit = 100


class SignalBody(Document, frozen=True, kw_only=True):
    """A signal to send, in `after_s` seconds; `user` is whose (default: the operator).

    It replaces one of the same type and `repeat` that waits. A repeat with its `key` sends it once.
    """

    type: str
    data: str = ""
    after_s: Annotated[float, msgspec.Meta(ge=0, le=SIGNAL_AFTER_MAX_S)] = 0.0
    repeat: _Key = ""
    user: str = ""
    key: _Key = ""


class SignalQuery(Document, frozen=True, kw_only=True):
    """One signal."""

    no: Number


class SubscriptionsQuery(Document, frozen=True, kw_only=True):
    """Whose subscriptions; everybody's without."""

    user: str | None = None


class SubscriptionBody(Document, frozen=True, kw_only=True):
    """That the agent at `path` is to get what `pattern` names; `silent`: as notes, without a turn."""

    path: str
    pattern: str
    silent: bool = False


class SubscriptionQuery(Document, frozen=True, kw_only=True):
    """One subscription."""

    path: str
    pattern: str


class Signals:
    """`/v1/signals`."""

    def __init__(self, services: Services) -> None:
        self._controls = services.signals
        self._store = services.store
        self._owner = services.owner

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/signals", self.find),
            Route("/v1/signals", self.send, methods=["POST"]),
            Route("/v1/signals/signal", self.show),
            Route("/v1/signals/subscriptions", self.subscriptions),
            Route("/v1/signals/subscriptions", self.subscribe, methods=["POST"]),
            Route("/v1/signals/subscriptions", self.unsubscribe, methods=["DELETE"]),
        ]

    async def find(self, request: Request) -> Response:
        """List signals."""
        wish = query(request, SignalsQuery)
        found = await self._store.of(SignalRows).find(
            user=wish.user, waiting=wish.waiting, before=wish.before, limit=wish.limit
        )
        return answer({"signals": [_view(each) for each in found]})

    async def send(self, request: Request) -> Response:
        """Send a signal."""
        wish = await body(request, SignalBody)
        sent = await self._controls.send(
            wish.user or self._owner,
            wish.type,
            wish.data,
            call=f"api:{wish.key or secrets.token_hex(8)}",
            repeat=wish.repeat,
            after_s=wish.after_s,
        )
        return answer(_view(sent), 201)

    async def show(self, request: Request) -> Response:
        """Show one signal with what became of it."""
        no = query(request, SignalQuery).no
        found = await self._store.of(SignalRows).get(no)
        if found is None:
            raise NotFoundError(
                "SIGNAL_UNKNOWN", f"looking up signal {no}: there is none", hint="daycare signals history"
            )
        return answer(_view(found))

    async def subscriptions(self, request: Request) -> Response:
        """List subscriptions."""
        found = await self._store.of(SignalRows).subscriptions(user=query(request, SubscriptionsQuery).user)
        return answer({"subscriptions": msgspec.to_builtins(found)})

    async def subscribe(self, request: Request) -> Response:
        """Let an agent have signals."""
        wish = await body(request, SubscriptionBody)
        made = await self._controls.subscribe(wish.path, wish.pattern, silent=wish.silent)
        return answer(msgspec.to_builtins(made), 201)

    async def unsubscribe(self, request: Request) -> Response:
        """Let an agent have no more of them."""
        wish = query(request, SubscriptionQuery)
        await self._controls.unsubscribe(wish.path, wish.pattern)
        return answer({"path": wish.path, "pattern": wish.pattern})


def _view(it: Signal) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(it)
    return (
        {"deliveries": []}
        | view
        | {
            "sent": sum(bool(each.seq) for each in it.deliveries),
            "refused": sum(not each.seq for each in it.deliveries),
        }
    )
