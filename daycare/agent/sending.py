"""Bringing a reply out: where it goes, its parts, the call of the platform, and what becomes of a try that failed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import trio
from msgspec.structs import replace

from daycare.agent.attachments import AttachedFiles
from daycare.base.clock import Clock, TimeLimit
from daycare.base.connector import Connector, Outgoing, bring, parts_of
from daycare.base.errors import AwayError, BusyError, DaycareError, InvalidError, UnavailableError
from daycare.base.events import DeliveryFailed, ReplySent
from daycare.base.limits import RETRY_MAX_S
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.store.records import OutboxRow
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

DELIVERY_ATTEMPTS_MAX: Final = 8  # 1 s .. 5 min apart: about ten minutes of a platform being away
DELIVERY_STARTS_MAX: Final = 16  # tries that ended with the daemon itself among them
DELIVERY_DEADLINE_S: Final = 60.0
SPLIT_INLINE_MAX_CHARS: Final = 4_000  # a longer reply is cut in a thread: one of nothing but signs takes 50 ms

T = TypeVar("T")


@dataclass(frozen=True)
class Sending:
    """What a delivery is made of. A reply waits for a platform that is away as long as `outage` allows."""

    store: Store
    connectors: Mapping[str, Connector]
    files: AttachedFiles
    bus: Bus
    clock: Clock
    outage: TimeLimit

    async def target(self, row: OutboxRow) -> str | None:
        """Return where a reply goes."""
        return row.target if row.target is not None else await self.address(row.user, row.connector)

    async def address(self, user_id: str, connector: str) -> str | None:
        """Return where a user is on a connector, as it is known now."""
        user = await self.store.people.get(user_id)
        prefix = f"{connector}:"
        keys = [key for key in user.keys if key.startswith(prefix)] if user else []
        return keys[0].removeprefix(prefix) if keys else None

    async def part(self, row: OutboxRow, target: str) -> tuple[Outgoing, bool]:
        """Return the next part of a reply, with its files, and whether it is the last.

        The parts are those that the platform takes, and always the same for the same reply.
        """
        if row.damaged:
            raise InvalidError("OUTBOX_UNREADABLE", f"reading reply {row.seq}: only its text is left")
        files, missing = await self.files.outgoing(row.files, row.user)
        spoken, _ = await self.files.outgoing((row.spoken,) if row.spoken else (), row.user)
        text = "" if spoken else row.text
        outgoing = Outgoing(
            outbox=row.seq,
            key=f"{row.agent_id}:{row.seq}",
            path=row.path,
            user=row.user,
            target=target,
            text="\n\n".join((text, *(f"[{name} is kept no longer]" for name in missing))),
            files=(*spoken, *files),
            choices=row.choices,
            reply_to=row.reply_to,
            silent=row.silent,
            effect=row.effect,
            reaction=row.reaction,
        )
        if len(outgoing.text) > SPLIT_INLINE_MAX_CHARS:
            parts = await trio.to_thread.run_sync(lambda: self._connector(row, lambda it: parts_of(it, outgoing)))
        else:
            parts = self._connector(row, lambda it: parts_of(it, outgoing))
        if row.parts_sent >= len(parts):
            raise InvalidError("PARTS_GONE", f"{row.connector} now makes {len(parts)} parts of reply {row.seq}")
        again = row.state == "sending"
        n = row.parts_sent
        part = replace(parts[n], key=f"{outgoing.key}:{n}" if n else outgoing.key, maybe_duplicate=again)
        return await self.files.loaded(part, row.user), n + 1 == len(parts)

    def delay_s(self, row: OutboxRow, target: str) -> float:
        """Return how long the platform wants to be left alone before the next message to a chat."""
        return self._connector(row, lambda it: it.delay_s(target))

    def _connector(self, row: OutboxRow, ask: Callable[[Connector], T]) -> T:
        """Ask a connector for what needs no waiting; what it raises by mistake gives the reply up."""
        try:
            return ask(self.connectors[row.connector])
        except DaycareError:
            raise
        except Exception as defect:
            what = f"{row.connector} crashed: {type(defect).__name__}: {defect}"
            raise InvalidError("CONNECTOR_CRASHED", what, hint="daycare logs") from defect

    async def send(self, row: OutboxRow, part: Outgoing) -> str:
        """Bring a part out; return the platform's receipt. Raises `DaycareError` only."""
        deadline_s = DELIVERY_DEADLINE_S + sum(file.travel_s for file in part.files)
        try:
            with trio.fail_after(deadline_s):
                return await bring(self.connectors[row.connector], part)
        except trio.TooSlowError as late:
            raise UnavailableError(
                "DELIVERY_LATE", f"{row.connector} did not answer within {deadline_s:.0f} s"
            ) from late
        except DaycareError:
            raise
        except Exception as defect:
            raise UnavailableError(
                "CONNECTOR_CRASHED", f"{row.connector} crashed: {type(defect).__name__}: {defect}", hint="daycare logs"
            ) from defect

    async def confirm(self, row: OutboxRow, receipt: str, *, last: bool) -> float | None:
        """Commit that a part has arrived; return as `deliver`."""
        if not last:
            await with_retry(lambda: self.store.outbox.part_sent(row.seq, row.parts_sent + 1, receipt))
            return 0.0
        await with_retry(lambda: self.store.outbox.sent([row.seq], receipt))
        self.bus.publish(
            ReplySent(
                **about_row(self.clock, row),
                outbox=row.seq,
                connector=row.connector,
                waited_ms=self.clock.now_ms() - row.created_at,
            )
        )
        return None

    async def refused(self, row: OutboxRow, error: DaycareError) -> float | None:
        """The platform will not take a reply: one that is spoken is tried in words, any other is given up."""
        if row.spoken is None or row.parts_sent:
            await self.give_up(row, error)
            return None
        await with_retry(lambda: self.store.outbox.unspeak(row))
        return 0.0

    async def give_up(self, row: OutboxRow, error: DaycareError, *, taken: bool = False) -> None:
        """Give a reply up; `taken`: its last try may have arrived."""
        untouched = row.state != "sending" and not taken
        await with_retry(lambda: self.store.outbox.give_up(row.seq, error.code, error.message, untouched=untouched))

    async def try_later(self, row: OutboxRow, attempt: int, error: UnavailableError) -> float | None:
        """The platform did not confirm: try again, a few times, or for a day if it is away altogether."""
        now_ms = self.clock.now_ms()
        away = isinstance(error, AwayError)
        taken = not away and error.code != "NOT_SENT"
        if attempt >= DELIVERY_ATTEMPTS_MAX if not away else self.outage.is_over(row.seq, row.created_at):
            await self.give_up(row, error, taken=taken)
            return None
        retry_s = error.retry_after_s or (RETRY_MAX_S / 10 if away else min(2.0**attempt, RETRY_MAX_S))
        retry_at = now_ms + int(retry_s * 1000)
        untouched = row.state != "sending" and not taken
        await with_retry(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=untouched, uncounted=away)
        )
        if row.error != error.message:
            failed = DeliveryFailed(
                **about_row(self.clock, row), outbox=row.seq, connector=row.connector, reason=error.message
            )
            self.bus.publish(failed)
        return retry_s

    async def cut_short(self, row: OutboxRow, tries: int) -> None:
        """Give up a reply whose tries ended again and again with the daemon itself: it may be what ends it."""
        ends = UnavailableError("DELIVERY_CUT_SHORT", f"daycare ended in {tries} tries to send it", hint="daycare logs")
        await self.give_up(row, ends, taken=True)

    async def unready(self, row: OutboxRow, error: DaycareError) -> float | None:
        """A reply could not even be made ready: that counts as a try, so that it ends where somebody sees it."""
        attempt = await with_retry(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None
        unsent = UnavailableError("NOT_SENT", error.message, hint=error.hint, retry_after_s=error.retry_after_s)
        return await self.try_later(row, attempt, unsent)

    async def wait(self, row: OutboxRow, error: BusyError) -> float | None:
        """The platform takes nothing for a while, and surely not this: that costs the reply no try, for a day."""
        if self.outage.is_over(row.seq, row.created_at):
            await self.give_up(row, error)
            return None
        retry_s = error.retry_after_s or 1.0
        retry_at = self.clock.now_ms() + int(retry_s * 1000)
        untouched = row.state != "sending"  # a try before this one may have arrived
        await with_retry(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=untouched, uncounted=True)
        )
        return retry_s
