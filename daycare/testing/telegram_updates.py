"""What waits for a bot at Telegram: numbered updates, given out until an offset confirms them."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio

from daycare.testing.telegram_wire import RefusedError

KINDS: Final = frozenset(
    {
        *("message", "edited_message", "channel_post", "edited_channel_post", "business_connection"),
        *("business_message", "edited_business_message", "deleted_business_messages", "message_reaction"),
        *("message_reaction_count", "inline_query", "chosen_inline_result", "callback_query", "shipping_query"),
        *("pre_checkout_query", "purchased_paid_media", "poll", "poll_answer", "my_chat_member", "chat_member"),
        *("chat_join_request", "chat_boost", "removed_chat_boost", "managed_bot", "guest_message"),
    }
)
NOT_BY_DEFAULT: Final = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
_CONFIRMED_KEPT: Final = 10_000  # for `redeliver`
_AHEAD: Final = 10  # an offset further than this beyond the last update is ignored, as the real queue does
OTHER_POLLER: Final = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)


class Update(msgspec.Struct, frozen=True):
    """An update that waits, as it will be sent."""

    update_id: int
    raw: bytes


class _Run:
    """Updates whose ids follow each other. After `restart` the next run has ids of its own."""

    def __init__(self, next_id: int) -> None:
        self.next_id = next_id
        self.waiting: deque[Update] = deque()


class UpdateQueue:
    """The queue of one bot.

    `confirmed` is the highest offset that was ever passed. An offset forgets all updates below it for ever; one that
    lies more than ten beyond the last update is taken for a mistake, and for none at all. That is what saves the first
    updates after the ids have started anew.
    """

    def __init__(self, first_id: int) -> None:
        self.allowed = KINDS - NOT_BY_DEFAULT
        self.confirmed = 0
        self.forgotten: deque[Update] = deque(maxlen=_CONFIRMED_KEPT)
        self.on_confirm: list[Callable[[list[Update]], None]] = []  # called with what an offset confirms
        self._runs: deque[_Run] = deque([_Run(first_id)])
        self._again: deque[Update] = deque()
        self._poller: object | None = None
        self._ended_by = OTHER_POLLER
        self._changed = trio.Event()

    def __len__(self) -> int:
        return sum(len(run.waiting) for run in self._runs)

    @property
    def next_id(self) -> int:
        """The id of the next update."""
        return self._runs[-1].next_id

    def restart(self, next_id: int) -> None:
        """Number the updates from now on from here; those that wait already keep theirs, and go first."""
        if self._runs[-1].waiting:
            self._runs.append(_Run(next_id))
        else:
            self._runs[-1].next_id = next_id

    def allow(self, kinds: list[str]) -> None:
        """Choose what updates are made from now on: none named is the default, names unknown are ignored."""
        self.allowed = frozenset(kinds) & KINDS or KINDS - NOT_BY_DEFAULT

    def push(self, kind: str, payload: Any) -> int | None:
        """Add an update, and return its id; None if the bot does not want this kind."""
        if kind not in self.allowed:
            return None
        return self.push_raw(msgspec.json.encode({"update_id": self.next_id, kind: payload}))

    def push_raw(self, raw: bytes) -> int:
        """Add an update as it stands, and return the id that it has for the queue."""
        run = self._runs[-1]
        run.waiting.append(Update(run.next_id, raw))
        run.next_id += 1
        self._wake()
        return run.next_id - 1

    def redeliver(self, count: int) -> None:
        """Give out the last `count` confirmed updates once more, with the next answer."""
        self._again.extend(list(self.forgotten)[-count:] if count else ())
        self._wake()

    def drop(self) -> None:
        """Forget all that waits."""
        for run in self._runs:
            run.waiting.clear()

    def end_poll(self, why: str) -> None:
        """Let a poll that waits end with a conflict."""
        self._ended_by = why
        self._poller = None
        self._wake()

    async def get(self, offset: int, limit: int, timeout_s: float) -> list[Update]:
        """Return what waits from this offset on, as soon as there is something; forget what is below it."""
        self.end_poll(OTHER_POLLER)
        me = self._poller = object()
        self.confirmed = max(self.confirmed, offset)
        try:
            with trio.move_on_after(timeout_s):
                while not (found := self._take(offset, limit)) and timeout_s:
                    await self._changed.wait()
                    if self._poller is not me:
                        raise RefusedError(409, self._ended_by)
                return found
            return []
        finally:
            if self._poller is me:
                self._poller = None

    def head(self, limit: int) -> list[Update]:
        """Return what waits, without forgetting anything."""
        self._skip_empty_runs()
        return list(self._runs[0].waiting)[:limit]

    def confirm(self, update: Update) -> None:
        """Forget the first update that waits: a webhook took it."""
        assert self._runs[0].waiting.popleft() is update
        self.forgotten.append(update)

    def _take(self, offset: int, limit: int) -> list[Update]:
        self._forget(offset)
        if not self._runs[0].waiting and len(self._runs) > 1:
            self._skip_empty_runs()  # the offset spoke of the ids of the run that ended
        if self._again:
            return [self._again.popleft() for _ in range(min(limit, len(self._again)))]
        waiting = self._runs[0].waiting
        return [waiting[index] for index in range(min(limit, len(waiting)))]

    def _forget(self, offset: int) -> None:
        run = self._runs[0]
        if offset < 0:
            offset = max(run.next_id + offset, 0)
        if offset > run.next_id + _AHEAD:
            return
        confirmed: list[Update] = []
        while run.waiting and run.waiting[0].update_id < offset:
            confirmed.append(run.waiting.popleft())
        self.forgotten.extend(confirmed)
        for listener in self.on_confirm if confirmed else ():
            listener(confirmed)

    def _skip_empty_runs(self) -> None:
        while len(self._runs) > 1 and not self._runs[0].waiting:
            self._runs.popleft()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def bounded(limit: int, timeout: int) -> tuple[int, int]:
    """Return a limit and a timeout brought into their bounds, as the real server does without a word."""
    return min(max(limit, 1), 100), min(max(timeout, 0), 50)
