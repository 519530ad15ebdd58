"""What is planted: each function makes the daemon's process, in which it runs, do one thing wrong.

They take hold of what connectors and the flow promise each other, not of lines of code, so that they survive a change
of how it is done. Each begins to do wrong when the daemon has its plugins and before it serves anybody.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from daycare.base.errors import BusyError
from daycare.base.messages import Origin
from daycare.connectors.host import Host
from daycare.plugin import Inbound, Outgoing, Unreadable
from daycare_plugins.bridge.connector import BridgeConnector
from daycare_plugins.bridge.intake import BridgeIntake
from daycare_plugins.bridge.session import Session
from daycare_plugins.telegram import reading
from daycare_plugins.telegram.client import TelegramClient
from daycare_plugins.telegram.connector import TelegramConnector
from daycare_plugins.telegram.polling import Polling
from tests.telegram.campaign.stage import FIRST_PERSON

ONE_IN: Final = 33  # three of a hundred
_Send = Callable[[Outgoing], Awaitable[str]]


def _sending(connector: Any, does: Callable[[_Send, Outgoing], Awaitable[str]]) -> None:
    """Let a connector send otherwise: `does` is given how it sends, and what."""
    send = connector.send

    async def sends(self: Any, outgoing: Outgoing) -> str:
        async def really(other: Outgoing) -> str:
            receipt: str = await send(self, other)
            return receipt

        return await does(really, outgoing)

    connector.send = sends


def _coming_in(change: Callable[[Inbound], Inbound]) -> None:
    """Change what connectors hand to the flow."""
    receive = Host.receive

    async def receives(self: Host, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = "") -> Any:
        items = [change(item) if isinstance(item, Inbound) else item for item in batch]
        return await receive(self, connector, items, cursor)

    Host.receive = receives  # type: ignore[method-assign]


# == where answers go ==================================================================================================


def answers_to_another() -> None:
    """Send what is for one person to another."""

    mine, other = (str(FIRST_PERSON + 10 * number) for number in (3, 2))

    async def astray(send: _Send, outgoing: Outgoing) -> str:
        return await send(replace(outgoing, target=other, reply_to="") if outgoing.target == mine else outgoing)

    _sending(TelegramConnector, astray)


def some_bridge_answers_to_another() -> None:
    """Send three of a hundred messages over a bridge to another person."""
    sent = count(1)

    async def astray(send: _Send, outgoing: Outgoing) -> str:
        other = "p0" if outgoing.target != "p0" else "p1"
        return await send(replace(outgoing, target=other) if next(sent) % ONE_IN == 0 else outgoing)

    _sending(BridgeConnector, astray)


def answers_beside_their_topic() -> None:
    """Send answers to the forum and not to the topic."""

    async def beside(send: _Send, outgoing: Outgoing) -> str:
        return await send(replace(outgoing, target=outgoing.target.partition(":")[0], reply_to=""))

    _sending(TelegramConnector, beside)


def topics_are_one_conversation() -> None:
    """Take all topics of a forum for the forum, and answer in the right one."""

    def merged(item: Inbound) -> Inbound:
        if not item.within:
            return item
        return replace(item, chat=item.within, within="", reply_target=item.chat.partition(":")[2])

    _coming_in(merged)


# == what the model is told ============================================================================================


def quotes_are_dropped() -> None:
    """Tell the model nothing of what a message refers to."""
    _coming_in(lambda item: replace(item, context=""))


def forwards_are_ones_own_words() -> None:
    """Take what was forwarded for the words of who forwarded it."""

    def own(item: Inbound) -> Inbound:
        if item.origin is not Origin.FORWARD:
            return item
        return replace(item, origin=Origin.GROUP if item.chat else Origin.PERSON, context="")

    _coming_in(own)


def files_are_empty() -> None:
    """Fetch no byte of a file."""

    async def nothing(self: Any, reference: str, max_bytes: int) -> bytes:
        return b""

    TelegramConnector.fetch = nothing  # type: ignore[method-assign]
    BridgeConnector.fetch = nothing  # type: ignore[method-assign]


def speakers_have_no_name() -> None:
    """Do not tell who speaks in a group."""
    _coming_in(lambda item: replace(item, name=""))


def everybody_in_a_group_is_meant() -> None:
    """Answer also those who talk with others."""
    reading.is_addressed = lambda *_: True  # type: ignore[attr-defined]


# == what is promised to the platform ==================================================================================


def pressed_buttons_spin() -> None:
    """Answer no pressed button."""

    async def spins(self: TelegramConnector, press: Any) -> None:
        pass

    TelegramConnector.answer_button = spins  # type: ignore[method-assign]


def updates_are_confirmed_before_their_commit() -> None:
    """Confirm updates when they have come, and not when they are kept."""
    take = Polling._take

    async def early(self: Polling, updates: Sequence[Any]) -> None:
        await self._client.poll(updates[-1]["update_id"] + 1, 0, 1, reading.UPDATES)
        await take(self, updates)

    Polling._take = early  # type: ignore[method-assign]


def updates_are_never_confirmed() -> None:
    """Ask with no offset."""
    poll = TelegramClient.poll

    async def without(self: TelegramClient, offset: int | None, *rest: Any) -> Any:
        return await poll(self, None, *rest)

    TelegramClient.poll = without  # type: ignore[method-assign, assignment]


def bridges_are_acknowledged_before_the_commit() -> None:
    """Acknowledge what a bridge says before it is kept."""

    async def run(self: BridgeIntake, session: Session) -> None:
        async for frame in session.inward:
            await session.acknowledge((frame.id,))
            await self._take([frame])

    BridgeIntake.run = run  # type: ignore[method-assign]


# == whether and in which order answers arrive =========================================================================


def replies_are_sent_twice() -> None:
    """Send each part twice."""

    async def twice(send: _Send, outgoing: Outgoing) -> str:
        await send(outgoing)
        return await send(outgoing)

    _sending(TelegramConnector, twice)


def bridge_replies_have_new_keys() -> None:
    """Send a reply that is tried again under another key."""
    sent = count(1)

    async def anew(send: _Send, outgoing: Outgoing) -> str:
        await send(outgoing)
        return await send(replace(outgoing, key=f"{outgoing.key}.{next(sent)}"))

    _sending(BridgeConnector, anew)


def replies_refused_for_their_pace_are_lost() -> None:
    """Take a reply that was refused with 429 for sent."""

    async def lost(send: _Send, outgoing: Outgoing) -> str:
        try:
            return await send(outgoing)
        except BusyError:
            return "1"

    _sending(TelegramConnector, lost)


def long_replies_end_first() -> None:
    """Send the parts of a long reply in the wrong order."""
    split = TelegramConnector.split
    TelegramConnector.split = lambda self, outgoing: [*reversed(split(self, outgoing))]  # type: ignore[method-assign]


def previews_stay() -> None:
    """Leave what showed a growing answer in the chat, beside the answer."""

    async def stays(self: TelegramConnector, target: str, receipt: str) -> None:
        pass

    TelegramConnector.withdraw = stays  # type: ignore[method-assign]
