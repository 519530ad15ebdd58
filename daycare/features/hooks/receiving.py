"""The way in for deliveries: who sends it, what it says, and a committed message or signal before anybody is told so.

What keeps a genuine delivery out for a while (a full inbox, an agent that has ended, the disk) is answered with 503 and
when to try again. An unknown webhook and a wrong secret are told alike, and take as long.
"""

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import Final, TypeVar

import trio

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.api.errors import UnauthorizedError
from daycare.base import foreign
from daycare.base.bounded import Bounded
from daycare.base.causes import WebhookCall
from daycare.base.clock import Clock
from daycare.base.errors import BrokenError, BusyError, DaycareError, NotFoundError, UnavailableError
from daycare.base.ids import new_trace_id
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import FOREGROUND
from daycare.base.secrecy import names_known
from daycare.features.hooks import schemes
from daycare.features.hooks.payload import HOOK_READ_AT_ONCE_BYTES, read_payload
from daycare.features.hooks.records import HookAnswer, HookScheme, InboundHook
from daycare.features.hooks.refusals import HookRefusals
from daycare.features.hooks.rows import HOOKS_MAX, HookRows
from daycare.features.hooks.schemes import Headers
from daycare.features.hooks.service import is_wanted
from daycare.features.hooks.template import fill
from daycare.features.signals.records import NewSignal
from daycare.store.vault import Vault

HOOK_BURST: Final = 60  # deliveries of one webhook at once: a push of many branches ...
HOOK_PER_S: Final = 1.0  # ... and for long: each may begin a turn of a model
HOOK_RETRY_S: Final = 60.0  # said to a sender whose delivery cannot be taken now, where nobody knows better

T = TypeVar("T")
_EVENT_MAX_CHARS: Final = 100
_is_key: Final = re.compile(r"[\x21-\x7e]{1,100}").fullmatch
_unnamed: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")


class HookReceiver:
    """Takes deliveries."""

    def __init__(
        self, rows: HookRows, refusals: HookRefusals, directory: Directory, router: Router, vault: Vault, clock: Clock
    ) -> None:
        self._rows = rows
        self._refusals = refusals
        self._directory = directory
        self._router = router
        self._vault = vault
        self._clock = clock
        self._left: Bounded[int, tuple[float, float]] = Bounded(HOOKS_MAX)  # deliveries, and when that was
        self._reading = trio.CapacityLimiter(1)
        self._nobodys = schemes.new_secret(HookScheme.STANDARD)  # what is tried where there is no secret: any scheme's

    async def receive(self, name: str, headers: Headers, body: bytes) -> HookAnswer:
        """Take one delivery; what was accepted is durable.

        Raises `UnauthorizedError` HOOK_REFUSED for a webhook or secret that there is not, HOOK_STALE for a genuine one
        signed over five minutes ago, `BusyError` HOOK_RATE, `InvalidError` HOOK_PAYLOAD, `UnavailableError`
        HOOK_UNREADY with the time after which it may be sent again.
        """
        began = self._clock.now_ms()
        hook = await self._rows.get(name)
        known, trouble = await self._secrets(hook, began)
        scheme = hook.scheme if hook else HookScheme.GITHUB
        genuine = await self._apart(body, lambda: schemes.is_genuine(scheme, known, headers, body))
        if hook is None or not genuine:
            if hook is not None:
                await self._refusals.count(hook, trouble or "its signature or secret is wrong")
            raise UnauthorizedError(
                "HOOK_REFUSED",
                "deliver to a webhook: there is none of this name, or this is not its secret",
                hint="daycare hooks list; daycare hooks rotate NAME",
            )
        try:
            return await self._receive(hook, headers, body, began)
        except DaycareError as error:
            await self._refusals.count(hook, error.message)
            raise self._told(hook, error) from error

    async def sample(self, hook: InboundHook, body: bytes, event: str, delivery: str) -> dict[str, str]:
        """Return the headers with which the sender of a webhook would deliver a body just now."""
        now_ms = self._clock.now_ms()
        (secret, _), trouble = await self._secrets(hook, now_ms)
        if trouble:
            raise BrokenError(
                "SECRET_SEALED", f"trying the webhook {hook.name}: {trouble}", hint="daycare hooks rotate"
            )
        return schemes.signed(hook.scheme, secret, body, delivery=delivery, event=event, now_s=now_ms / 1000)

    async def _receive(self, hook: InboundHook, headers: Headers, body: bytes, began: int) -> HookAnswer:
        if not schemes.is_fresh(hook.scheme, headers, began / 1000):
            raise UnauthorizedError(
                "HOOK_STALE",
                f"deliver to the webhook {hook.name}: signed over {schemes.HOOK_TOLERANCE_S:g} s ago, or to come",
                hint="set the clocks of both machines",
            )
        self._count(hook)
        payload, pretty = await self._apart(body, lambda: read_payload(headers, body))
        event = _unnamed.sub("_", schemes.event_of(headers, payload))[:_EVENT_MAX_CHARS]
        if hook.scheme is HookScheme.GITHUB and event.partition(".")[0] == "ping":
            self._refusals.forgive(hook)
            return HookAnswer(state="pong")
        if not is_wanted(hook.events, event):
            await self._rows.ignored(hook.no)
            self._refusals.forgive(hook)
            return HookAnswer(state="ignored")
        delivery = schemes.delivery_of(hook.scheme, headers, payload)
        own = {"@event": event, "@delivery": delivery, "@hook": hook.name, "@json": pretty}
        text = foreign.text(fill(hook.template, payload, headers, own))
        key = f"webhook:{hook.no}:{_key(delivery)}"
        what = await self._message(hook, event, text, key) if hook.path else _signal(hook, text, key, began)
        answer, receipt = await self._rows.take(hook, what, event)
        self._refusals.forgive(hook)
        if isinstance(what, Envelope) and receipt is not None:
            self._router.announce(what, receipt, began)
        return answer

    async def _message(self, hook: InboundHook, event: str, text: str, key: str) -> Envelope:
        agent = await self._directory.find(hook.path)
        if agent is None or agent.user != hook.user:
            raise NotFoundError(
                "AGENT_UNKNOWN", f"deliver to {hook.path}: {hook.user} has no such agent", hint="daycare agents"
            )
        return Envelope(
            to=agent.path,
            agent_id=agent.id,
            user=agent.user,
            origin=Origin.WEBHOOK,
            sender=f"webhook:{hook.name}",
            key=key,
            text=text,
            trace=new_trace_id(),
            kind=EnvelopeKind.NOTICE,
            cause=WebhookCall(hook.name, event, hook.instruction, told=agent.kind in FOREGROUND),
        )

    async def _apart(self, body: bytes, work: Callable[[], T]) -> T:
        """Do something with a body; with a long one in a thread, one at a time, so that others wait less."""
        if len(body) <= HOOK_READ_AT_ONCE_BYTES:
            return work()
        return await trio.to_thread.run_sync(work, limiter=self._reading)

    async def _secrets(self, hook: InboundHook | None, now_ms: int) -> tuple[list[str], str]:
        """Return the two secrets to try, as many for each webhook and for none, and why its own cannot be had."""
        known, trouble = [], ""
        current, older = await self._rows.secrets(hook.name) if hook is not None else (None, None)
        if hook is not None and (hook.older_until is None or hook.older_until <= now_ms):
            older = None
        try:
            known = [self._vault.open(token) for token in (current, older) if token is not None]
        except BrokenError as error:
            trouble = error.message
        return [*known, self._nobodys, self._nobodys][:2], trouble

    def _count(self, hook: InboundHook) -> None:
        now_s = self._clock.steady_s()
        left, at_s = self._left.get(hook.no, (float(HOOK_BURST), now_s))
        left = min(float(HOOK_BURST), left + (now_s - at_s) * HOOK_PER_S)
        if left < 1:
            raise BusyError(
                "HOOK_RATE",
                f"deliver to the webhook {hook.name}: too many at once",
                retry_after_s=(1 - left) / HOOK_PER_S,
            )
        self._left[hook.no] = (left - 1, now_s)

    def _told(self, hook: InboundHook, error: DaycareError) -> DaycareError:
        """Return what a sender is told: of what concerns its own delivery all, else that it may send it again."""
        if error.code in ("HOOK_STALE", "HOOK_RATE", "HOOK_PAYLOAD"):
            return error
        return UnavailableError(
            "HOOK_UNREADY",
            f"deliver to the webhook {hook.name}: it cannot be taken now",
            hint=f"send it again later; daycare hooks show {hook.name} says why",
            retry_after_s=error.retry_after_s or HOOK_RETRY_S,
        )


def _signal(hook: InboundHook, text: str, key: str, now_ms: int) -> NewSignal:
    return NewSignal(
        user=hook.user,
        origin=Origin.WEBHOOK,
        type=hook.signal,
        data=text,
        sender=f"webhook:{hook.name}",
        trace=new_trace_id(),
        call=key,
        due_at=now_ms,
    )


def _key(delivery: str) -> str:
    """Return what a repeat is known by, which is no secret. One without a name is always new."""
    if not delivery:
        return secrets.token_hex(16)
    plain = _is_key(delivery) and not names_known(delivery)
    return delivery if plain else hashlib.sha256(delivery.encode(errors="replace")).hexdigest()
