"""What is worth remembering of what happened: events kept in the store, and people told of some."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from daycare.agent.blocks import one_line
from daycare.agent.notify import Notifier
from daycare.base.connector import UNREACHABLE
from daycare.base.events import (
    ConnectorHealth,
    DeadLettered,
    Event,
    MemoryRecalled,
    PairingRequested,
    PartCrashed,
    ProviderAway,
)
from daycare.base.messages import Choice
from daycare.observe.bus import Bus, Gap, Subscription
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

_BUTTON_MAX_BYTES = 64  # what Telegram gives back of one; a longer address has no buttons

NOTEWORTHY: Final = frozenset(
    (
        "agent.created",
        "agent.changed",
        "agent.parked",
        "agent.died",
        "agent.unparked",
        "agent.restored",
        "user.added",
        "user.changed",
        "user.paired",
        "user.removed",
        "key.stored",
        "key.removed",
        "key.resealed",
        "token.made",
        "token.revoked",
        "turn.failed",
        "dead.lettered",
        "store.trouble",
        "lane.broke",
        "part.crashed",
        "row.set_aside",
        "notice",
        "cron.failed",
        "cron.broken",
        "config.reloaded",
        "config.refused",
        "plugin.failed",
        "provider.away",
        "budget.warned",
        "budget.exhausted",
        "connector.health",
        "stranger.knocked",
        "approval.requested",
        "approval.decided",
        "identity.held",
        "permission.refused",
        "approval.used",
        "skill.changed",
        "storm.stopped",
        "context.compaction_failed",
        "context.trimmed",
        "memory.learned",
        "memory.recalled",
        "memory.forgotten",
        "memory.embedder",
        "memory.away",
    )
)

_NAME_MAX_CHARS: Final = 40


@dataclass
class EventRecord:
    """Keeps it, each node its own, from the first event of the bus on.

    One that cannot be kept is left out when it is run again.
    """

    _store: Store
    _bus: Bus
    _notifier: Notifier
    _owner: str
    _only_memory: Callable[[str], bool]  # whether nothing else is set to use a provider, or a model PROVIDER/MODEL
    _read: int = -1  # the cursor of the last event that was looked at

    async def run(self) -> None:
        """Keep noteworthy events, and tell people of letters that died on the daemon's own account; until cancelled."""
        async with self._bus.subscribe(max(self._read, self._bus.start), types=NOTEWORTHY, here=True) as events:
            async for self._read, event in events:
                await self._keep(event, events)

    async def _keep(self, event: Event | Gap, events: Subscription) -> None:
        """Keep an event. Each turn recalls: that makes no commit of its own, and what many do is kept together."""
        rows: list[tuple[int, str, str, str, str]] = []
        item: tuple[int, Event | Gap] | None = None
        while isinstance(event, MemoryRecalled):
            rows.append(_row(event))
            item = events.take()
            if item is None:
                break
            self._read, event = item
        may_wait = bool(rows) and item is None
        if not isinstance(event, Gap | MemoryRecalled):
            rows.append(_row(event))
        if rows:
            await with_retry(lambda: self._store.ledger.record(rows, may_wait=may_wait))
        if not isinstance(event, Gap):
            await self._tell(event)

    async def _tell(self, event: Event) -> None:
        if isinstance(event, DeadLettered) and event.user:
            await self._tell_of_letter(event)
        if isinstance(event, PairingRequested):
            await self._tell_of_pairing_request(event)
        if isinstance(event, ProviderAway):
            await self._tell_of_provider(event)
        if isinstance(event, PartCrashed) and event.alert:
            text = (
                f"A part of me crashed and is started again: {event.part} ({event.reason}). No message is "
                "lost; `daycare logs` shows the details, `daycare health` whether it works again."
            )
            await self._notifier.notify(self._owner, text, topic=f"part:{event.part}")
        if isinstance(event, ConnectorHealth) and event.alert:
            hint = f" {event.hint}" if event.hint else ""
            text = f"The connection {event.connector} does not work: {event.reason}.{hint}"
            await self._notifier.notify(self._owner, text, topic=f"connector:{event.connector}:{event.state}")

    async def _tell_of_letter(self, event: DeadLettered) -> None:
        """Senders are told of their own messages; a notice that nobody could be given must not lead to another."""
        letter = await with_retry(lambda: self._store.dead.get(event.no))
        if letter is None or letter.source in ("inbox", "intake"):
            return
        without = ""
        if letter.source == "outbox":
            reply = await with_retry(lambda: self._store.outbox.get(letter.seq))
            if reply is not None and reply.turn is None:
                return
            if reply is not None and letter.code in UNREACHABLE:
                without = reply.connector
        await self._notifier.notify(
            event.user,
            f"A message of {event.path} could not be delivered: {event.reason}. "
            f"`daycare dead show {event.no}` tells more.",
            topic=f"dead:{event.source}:{event.path}",
            path=event.path,
            without=without,
        )

    async def _tell_of_pairing_request(self, event: PairingRequested) -> None:
        """The name and the address are a stranger's words: shown as code, they can format or link nothing."""
        name, key = (one_line(words, _NAME_MAX_CHARS).replace("`", "'") for words in (event.name, event.key))
        who = f"Somebody (`{key}`)" if not name else f"Somebody who calls themselves `{name}` (`{key}`)"
        text = (
            f"{who} wants to talk to me and was shown a code. `daycare pair list` shows who waits, "
            "`daycare pair approve CODE` lets them in."
        )
        await self._notifier.notify(self._owner, text, topic="knock", choices=_choices_about(event.key))

    async def _tell_of_provider(self, event: ProviderAway) -> None:
        what = event.provider if "/" in event.provider else f"provider {event.provider}"
        text = f"The model {what} is back."
        if not event.cleared:
            waits = "Messages that need it wait and are answered when it is back;"
            if self._only_memory(event.provider):
                waits = "Only memory is set to use it: messages are answered, and what was said is learned later;"
            text = f"The model {what} is away: {event.reason}. {waits} `daycare models` shows how it is."
        topic = f"provider:{event.provider}:{'back' if event.cleared else 'away'}"
        await self._notifier.notify(self._owner, text, topic=topic)


def _row(event: Event) -> tuple[int, str, str, str, str]:
    return event.at_ms, event.user, event.path, event.trace, msgspec.json.encode(event).decode()


def _choices_about(key: str) -> tuple[Choice, ...]:
    """Return the buttons below the notice that a stranger wrote."""
    both = (Choice("Let them in", f"/pair approve {key}"), Choice("Refuse", f"/pair deny {key}"))
    return both if all(len(choice.says.encode()) <= _BUTTON_MAX_BYTES for choice in both) else ()
