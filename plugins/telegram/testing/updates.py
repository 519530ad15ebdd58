"""What waits for a bot at Telegram: numbered updates, given out until an offset confirms them."""

import math
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec
import trio

from daycare.testing.http_server import RefusedError

KINDS: Final = frozenset(
    {
        *("message", "edited_message", "channel_post", "edited_channel_post", "business_connection"),
        *("business_message", "edited_business_message", "deleted_business_messages", "message_reaction"),
        *("message_reaction_count", "inline_query", "chosen_inline_result", "callback_query", "shipping_query"),
        *("pre_checkout_query", "purchased_paid_media", "poll", "poll_answer", "my_chat_member", "chat_member"),
        *("chat_join_request", "chat_boost", "removed_chat_boost", "managed_bot", "guest_message"),
        "stopped_message_generation",
    }
)
NOT_BY_DEFAULT: Final = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
_REPEAT_HELD_S: Final = 3.0  # so long a request with the same offset is held, so soon after the one before ...
_REPEAT_ONE_S: Final = 0.5  # ... and so soon it is given one update only
_CONFLICT_S: Final = 3.0  # the next conflict within this time is told so much later
_ANSWER_MAX_BYTES: Final = 1 << 22  # of all updates in an answer, with 50 bytes for each
_CONFIRMED_KEPT: Final = 10_000  # for `redeliver`
_AHEAD: Final = 10  # an offset further than this beyond the last update is ignored, as the real queue does
OTHER_POLLER: Final = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_ACTIVE: Final = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
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
        self._last_offset: int | None = None
        self._last_asked = -math.inf
        self._conflict_at = -math.inf  # from when on a conflict is told at once
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

    def forgive(self) -> None:
        """Forget when the bot asked last: the next request is not held."""
        self._last_offset = None

    def ask(self, offset: int, limit: int, timeout_s: float) -> tuple[list[Update], float]:
        """Return what is there from this offset on, and how long to wait if that is nothing; forget what is below it.

        Who asks with the same offset again has not seen what they were given: they are slowed down.
        """
        now = trio.current_time()
        if offset == self._last_offset:
            if now < self._last_asked + _REPEAT_HELD_S:
                timeout_s = max(timeout_s, _REPEAT_HELD_S)
            if now < self._last_asked + _REPEAT_ONE_S:
                limit = 1
        self._last_offset, self._last_asked = offset, now
        self.confirmed = max(self.confirmed, offset)
        return self._take(offset, limit), timeout_s

    async def wait(self, offset: int, limit: int, timeout_s: float) -> list[Update]:
        """Wait for updates after `ask`. That ends whoever waits already, and nobody else."""
        self.end_poll(OTHER_POLLER)
        me = self._poller = object()
        try:
            with trio.move_on_after(timeout_s):
                while not (found := self._take(offset, limit)) and self._poller is me:
                    await self._changed.wait()
                if self._poller is me:
                    return found
            if self._poller is me:
                return []
        finally:
            if self._poller is me:
                self._poller = None
        raise await self.conflict(self._ended_by)

    async def conflict(self, why: str) -> RefusedError:
        """Return a conflict: the first at once, those that follow it some seconds late."""
        now = trio.current_time()
        if now < self._conflict_at:
            await trio.sleep(_CONFLICT_S)
        else:
            self._conflict_at = now + _CONFLICT_S
        return RefusedError(409, why)

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
        found: list[Update] = []
        room = _ANSWER_MAX_BYTES
        for update in islice(waiting, limit):
            room -= 50 + len(update.raw)
            if room <= 0:
                break
            found.append(update)
        return found

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
