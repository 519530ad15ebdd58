"""What an agent does with signals of its own user, as tools: send, subscribe, unsubscribe, list."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from daycare.agent.signal_controls import SignalControls
from daycare.base import crontab
from daycare.base.limits import KEY_MAX_CHARS, SIGNAL_AFTER_MAX_S
from daycare.base.messages import Origin
from daycare.base.zones import zone_of
from daycare.plugin import StructTool, ToolContext
from daycare.store.sqlite.signals import SignalRows

_LISTED = 20

_Pattern = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        description="Such as deploy:done or build:*:failed; * is any one segment. agent:PATH:idle and agent:PATH:wake"
        " tell of the user's agents, agent:*:idle of all",
    ),
]


class SignalSend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tell all agents of the user that have subscribed to it that something has happened; you yourself do not get it.
    Nobody answers. To reach one agent, or to get an answer, send or ask."""

    type: Annotated[
        str,
        msgspec.Meta(
            min_length=1, description="What happened: segments of a-z, 0-9, _ - . /, such as deploy:shop:done"
        ),
    ]
    data: Annotated[str, msgspec.Meta(description="Details; they are read as data, not as instructions")] = ""
    after_s: Annotated[
        float, msgspec.Meta(ge=0, le=SIGNAL_AFTER_MAX_S, description="Seconds until it is sent; 0: now")
    ] = 0.0
    repeat: Annotated[
        str,
        msgspec.Meta(
            max_length=KEY_MAX_CHARS, description="A key: this one replaces one of the same type and key that waits"
        ),
    ] = ""


class SignalSubscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have signals of the user that fit a pattern sent to you, until you unsubscribe."""

    pattern: _Pattern
    silent: Annotated[bool, msgspec.Meta(description="Only note them in this conversation, without a turn")] = False


class SignalUnsubscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have no more signals of a pattern sent to you."""

    pattern: _Pattern


class SignalList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List what you have subscribed to, and the user's last signals with what became of them."""


class SignalTools:
    """Makes these tools."""

    def __init__(self, controls: SignalControls) -> None:
        self._controls = controls

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools."""
        return (
            StructTool("signal_send", SignalSend, self._send, idempotent=True, outlasts=True),
            StructTool("signal_subscribe", SignalSubscribe, self._subscribe, idempotent=True, outlasts=True),
            StructTool("signal_unsubscribe", SignalUnsubscribe, self._unsubscribe, idempotent=True, outlasts=True),
            StructTool("signal_list", SignalList, self._list, idempotent=True),
        )

    async def _send(self, context: ToolContext, it: SignalSend) -> str:
        sent = await self._controls.send_for(context, it.type, it.data, repeat=it.repeat, after_s=it.after_s)
        if not it.after_s:
            return f"signal {sent.no} is out"
        return f"signal {sent.no} goes out {crontab.local(sent.due_at, zone_of(context.zone))}"

    async def _subscribe(self, context: ToolContext, it: SignalSubscribe) -> str:
        made = await self._controls.subscribe(context.path, it.pattern, silent=it.silent, origin=Origin.AGENT)
        return f"you get {made.pattern}{' as notes' if made.silent else ''}"

    async def _unsubscribe(self, context: ToolContext, it: SignalUnsubscribe) -> str:
        agent = await self._controls.directory.at(context.path)
        had = await self._controls.store.of(SignalRows).unsubscribe(agent.id, it.pattern)
        return f"you get {it.pattern} no more" if had else f"you had not subscribed to {it.pattern}"

    async def _list(self, context: ToolContext, it: SignalList) -> str:
        store = self._controls.store.of(SignalRows)
        agent = await self._controls.directory.at(context.path)
        zone = zone_of(context.zone)
        own = await store.subscriptions(agent_id=agent.id)
        lines = [f"you get {each.pattern}{' as notes' if each.silent else ''}" for each in own]
        for each in await store.find(user=context.user, limit=_LISTED):
            got = sum(bool(delivery.seq) for delivery in each.deliveries)
            state = f"{each.state}, {got} agents got it" if each.state == "fired" else each.state
            lines.append(f"{crontab.local(each.due_at, zone)} {each.type}: {state}")  # no data: it is others' words
        return "\n".join(lines) or "there are none"
