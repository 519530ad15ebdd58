"""Long polling: ask, commit, and only then confirm.

Telegram forgets updates as soon as it is asked with an offset above their ids. So the offset goes out right after the
commit, in a request that does not wait, and *in that one request only*; every other one carries none and is given what
is not confirmed. This keeps to three rules:

* Nothing is confirmed that is not committed. A repeat costs nothing, because what is received has keys; a loss cannot
  be repaired. So an offset that may or may not have arrived is not sent again: what comes next tells. For the same
  reason none is taken over from before a restart.
* Ids may start anew at a lower number (after a week without updates). An offset from before would confirm unseen ones;
  here none is older than the answer that it confirms.
* If ids start anew in the middle of an answer, the offset is that of its last one: it confirms the new ids only. The
  old ones come again, alone, and are confirmed by their own offset then.

A whole answer of repeats is looked at twice before it is confirmed: a server that gives out old updates once more has
forgotten them already, and their offset would reach what nobody has seen.

The cursor that is kept with the messages says how far we are. Only where an update has no id that can be read is it
needed: such a one is taken for the next after the last.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
import trio

from daycare.base.errors import ConflictError, DaycareError, UnavailableError
from daycare_plugins.telegram import albums, health
from daycare_plugins.telegram.client import TelegramClient
from daycare_plugins.telegram.intake import TelegramIntake
from daycare_plugins.telegram.reading import UPDATES

BATCH_MAX: Final = 100  # updates in one answer
CONTESTED_S: Final = 5  # without being ended by anybody, before a conflict is over: other programs are back within that
STALLED_AFTER_S: Final = 12.0  # beyond the time that the server holds a poll: the client itself gives up after 10

Update = Any  # raw: an object, if all is well


class _Cursor(msgspec.Struct, frozen=True):
    """`at` in milliseconds of wall time."""

    offset: int
    at: int = 0


class Polling:
    """Receives for one bot, until cancelled."""

    def __init__(
        self,
        client: TelegramClient,
        intake: TelegramIntake,
        monitor: health.Monitor,
        *,
        poll_s: int,
        prepare: Callable[[], Awaitable[str]],
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._intake = intake
        self._monitor = monitor
        self._poll_s = poll_s
        self._prepare = prepare  # returns the cursor that was kept
        self._now_ms = now_ms
        self._prepared = False
        self._last: int | None = None  # the id that was committed last
        self._offset: int | None = None  # for the next request, and for no other
        self._repeated: int | None = None  # the first id of an answer that was nothing but repeats
        self._at_once = True  # the next request does not wait for news: it tells how we are
        self._contested = False  # somebody else polls as well
        self._alone_since: float | None = None  # how long nobody has ended our polls, since a conflict

    async def run(self) -> None:
        """Receive. Whatever happens to the connection or the store, it goes on."""
        while True:
            try:
                await self._round()
            except DaycareError as error:
                self._at_once = True
                self._alone_since = None
                self._contested = self._contested or isinstance(error, ConflictError)
                await trio.sleep(self._monitor.trouble(error))

    async def _round(self) -> None:
        if not self._prepared:
            self._last = _last(await self._prepare())
            self._prepared = True
        wait_s = 0 if self._at_once else self._poll_s
        if self._contested and self._offset is None:
            wait_s = min(CONTESTED_S, self._poll_s)
        began = trio.current_time()
        updates = await self._ask(wait_s)
        self._at_once = False
        if updates:
            updates = await self._whole(updates)
            await self._take(updates)
            self._at_once = True
        if self._is_alone(began):
            self._monitor.up()

    def _is_alone(self, began: float) -> bool:
        """Whether we are the only one who polls, as far as polls tell that end well.

        A poll ends the other one's. So one that does not wait always ends well, and only waiting shows who is there.
        """
        if self._contested:
            self._alone_since = began if self._alone_since is None else self._alone_since
            alone_s = trio.current_time() - self._alone_since
            self._contested = alone_s < 0.9 * min(CONTESTED_S, self._poll_s)
        return not self._contested

    async def _ask(self, wait_s: int) -> list[Update]:
        offset, self._offset = self._offset, None
        try:
            with trio.fail_after(wait_s + STALLED_AFTER_S):
                return await self._client.poll(offset, wait_s, BATCH_MAX, UPDATES)
        except trio.TooSlowError:
            raise UnavailableError(
                health.STALLED[0],
                f"waiting for messages: the connection stands, and for {STALLED_AFTER_S:g} s "
                "longer than agreed nothing has come over it",
            ) from None
        except ConflictError as error:
            if await self._removed_webhook():
                raise ConflictError(health.WEBHOOK_SET, error.message) from error
            raise

    async def _removed_webhook(self) -> bool:
        """Whether it was a webhook that took the updates; it is gone now."""
        info = await self._client.call("getWebhookInfo")
        if not isinstance(info, dict) or not info.get("url"):
            return False
        await self._client.call("deleteWebhook", drop_pending_updates=False)
        return True

    async def _whole(self, updates: list[Update]) -> list[Update]:
        """Wait for the other parts of an album. What is asked for again begins with what is there already."""
        for _ in range(albums.ROUNDS_MAX):
            if len(updates) >= BATCH_MAX:
                return updates[: albums.before_open_end(updates)]
            parts = albums.growing(updates)
            if not parts:
                return updates
            await trio.sleep(albums.QUIET_S)
            try:
                more = await self._ask(0)
            except DaycareError:
                return updates  # they are here, and the next request will say what is wrong
            if more[: len(updates)] != updates:
                return updates
            updates = more
            if albums.growing(updates) == parts:
                return updates
        return updates

    async def _take(self, updates: Sequence[Update]) -> None:
        ids = _ids(updates, self._last)
        if not ids:
            raise UnavailableError("TELEGRAM_NO_IDS", "receiving: what the server sends has no update_id")
        cursor = msgspec.json.encode(_Cursor(offset=ids[-1] + 1, at=self._now_ms())).decode()
        news = await self._intake.take(updates, cursor)
        self._last = ids[-1]
        if not news and self._repeated != ids[0]:
            self._repeated = ids[0]
            return
        self._repeated = None
        self._offset = ids[-1] + 1


def _ids(updates: Sequence[Any], last: int | None) -> list[int]:
    """Return the ids of updates in order; `last` is the one before them."""
    found = []
    for update in updates:
        number = update.get("update_id") if isinstance(update, dict) else None
        if type(number) is int and number >= 0:
            last = number
        elif last is not None:
            last += 1
        else:
            continue
        found.append(last)
    return found


def _last(cursor: str) -> int | None:
    try:
        return msgspec.json.decode(cursor, type=_Cursor).offset - 1 if cursor else None
    except msgspec.DecodeError:  # of a later version
        return None
