"""Webhooks as routes: `/v1/hooks` and `/v1/hook` for operators, `/v1/hooks/NAME` for whoever knows its secret."""

import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.routing import Route

from daycare.api.callers import anybody, caller_of
from daycare.api.described import With, described
from daycare.api.documents import answer
from daycare.api.errors import UnauthorizedError
from daycare.api.operations import route
from daycare.features.hooks.operations import (
    AddHook,
    EditHook,
    ListHooks,
    MadeHook,
    RemoveHook,
    RotateHook,
    ShowHook,
    TryHook,
)
from daycare.features.hooks.receiving import HookReceiver
from daycare.features.hooks.records import HookAnswer, HookScheme, InboundHook
from daycare.features.hooks.refusals import HookRefusals
from daycare.features.hooks.service import Webhooks

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_SHOWN: Final = With(InboundHook, {"route": str})
_HEADERS: Final = {
    "Idempotency-Key": "What a repeat is known by, of the scheme `bearer`, whose secret is sent as bearer token.",
    "X-Hub-Signature-256": "The signature of the scheme `github`, whose deliveries have `X-GitHub-Event` and"
    " `X-GitHub-Delivery`, too.",
    "Stripe-Signature": "The signature of the scheme `stripe`, with its time.",
    "webhook-signature": "The signature of the scheme `standard`, with `webhook-id` and `webhook-timestamp`.",
}


class HookOperations:
    """These routes."""

    def __init__(self, hooks: Webhooks, refusals: HookRefusals, receiver: HookReceiver) -> None:
        self._hooks = hooks
        self._refusals = refusals
        self._receiver = receiver

    def routes(self) -> list[Route]:
        """Return the routes of webhooks."""
        return [
            route(AddHook, self.add),
            route(ListHooks, self.find),
            route(RemoveHook, self.remove),
            route(ShowHook, self.show),
            route(EditHook, self.edit),
            route(RotateHook, self.rotate),
            route(TryHook, self.test),
            Route("/v1/hooks/{name}", self.deliver, methods=["POST"]),
        ]

    @anybody
    @described({200: HookAnswer, 202: HookAnswer}, body=dict[str, Any], headers=_HEADERS)
    async def deliver(self, request: "Request") -> "Response":
        """Take what a program outside delivers."""
        headers = {name.lower(): value for name, value in reversed(request.headers.items())}  # the first of each
        try:
            taken = await self._receiver.receive(request.path_params["name"], headers, await request.body())
        except UnauthorizedError as error:
            raise caller_of(request).wrong(error) from None
        return answer(taken, 202 if taken.state == "accepted" else 200)

    @described({201: MadeHook}, refuses=(409,))
    async def add(self, wish: AddHook) -> MadeHook:
        """Make a webhook."""
        wanted = InboundHook(
            no=0,
            name=wish.name,
            user=wish.user,
            scheme=wish.scheme,
            path=wish.to,
            signal=wish.signal,
            events=wish.events,
            template=wish.template,
            instruction=wish.instruction,
        )
        return _made(*await self._hooks.add(wanted, wish.secret))

    @described({200: {"hooks": [_SHOWN]}})
    async def find(self, wish: ListHooks) -> dict[str, Any]:
        """List webhooks."""
        return {"hooks": [self._view(each) for each in await self._hooks.rows.find(wish.user)]}

    @described({200: _SHOWN})
    async def show(self, wish: ShowHook) -> dict[str, Any]:
        """Show one."""
        return self._view(await self._hooks.get(wish.name))

    @described({200: {"removed": _SHOWN}})
    async def remove(self, wish: RemoveHook) -> dict[str, Any]:
        """Remove one."""
        return {"removed": self._view(await self._hooks.rows.remove(wish.name))}

    @described({200: With(InboundHook, {"route": str, "secret": str | None})}, refuses=(409,))
    async def edit(self, wish: EditHook) -> dict[str, Any]:
        """Change one; `secret` is another one that was asked for."""
        fields = ("to", "signal", "scheme", "events", "template", "instruction", "user")
        given = {name: value for name in fields if (value := getattr(wish, name)) is not None}
        if "to" in given:
            given["path"] = given.pop("to")
        wanted = wish.secret if wish.secret or wish.new_secret else None
        hook, secret = await self._hooks.edit(wish.name, wanted, **given)
        return self._view(hook) | {"secret": secret or None}

    @described({200: MadeHook})
    async def rotate(self, wish: RotateHook) -> MadeHook:
        """Give one another secret."""
        return _made(*await self._hooks.rotate(wish.name, wish.hours, wish.secret))

    @described({200: HookAnswer})
    async def test(self, wish: TryHook) -> HookAnswer:
        """Deliver an example."""
        hook = await self._hooks.get(wish.name)
        event = wish.event or next(iter(hook.events), "test")
        body = wish.payload or {"test": f"This is an example that the operator of {hook.name} has sent."}
        if hook.scheme is not HookScheme.GITHUB:
            body = {"type": event, "id": f"test_{secrets.token_hex(8)}", **body}
        elif "." in event:  # the second half is in the payload
            event, _, action = event.partition(".")
            body = {"action": action, **body}
        encoded = msgspec.json.encode(body)
        headers = await self._receiver.sample(hook, encoded, event, f"test-{secrets.token_hex(8)}")
        return await self._receiver.receive(hook.name, headers, encoded)

    def _view(self, hook: InboundHook) -> dict[str, Any]:
        view: dict[str, Any] = msgspec.to_builtins(self._refusals.with_them(hook))
        return view | {"route": _route(hook)}


def _made(hook: InboundHook, secret: str) -> MadeHook:
    return MadeHook(
        name=hook.name,
        user=hook.user,
        scheme=hook.scheme,
        route=_route(hook),
        secret=secret,
        older_until=hook.older_until,
    )


def _route(hook: InboundHook) -> str:
    return f"/v1/hooks/{hook.name}"
