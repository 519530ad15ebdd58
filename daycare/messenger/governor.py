"""Flood control: how soon the next call may go, for each chat and for all together, and cool-downs after a refusal.

Each bucket is a generic cell rate algorithm (ITU-T Recommendation I.371, annex A, as virtual scheduling): it keeps only
the theoretical arrival time of the next call. A call may come earlier than that by the tolerance, which is what allows
bursts. Which rates hold is for the platform's connector to say.

Final answers are important and go first, in the order in which they came. Status lines and edits are not: they wait for
every important call that waits for the same room, and leave room for one that may come.
"""

import math
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final, Generic, TypeVar

import msgspec
import trio

CHATS_MAX: Final = 10_000  # remembered at a time, some 2 MB; at 30 calls a second a few hundred carry a debt
LOOK_S: Final = 60.0  # how often chats without a debt are forgotten
ASKED_S: Final = 3.0  # so long beyond its time an answer that was told to wait, or the one behind it, is expected
STEP_S: Final = 0.001  # the least that a waiting call sleeps, so that no rounding makes it spin
TOGETHER_S: Final = 1.0  # two chats refused within this time: it is the bot that is too fast
COOL_DOWN_MAX_S: Final = 86_400.0  # of a restored one; more can only be a clock that was set
EXPORT_MAX_CHATS: Final = 100  # in the exported state, which must stay a short value

K = TypeVar("K", bound=Hashable)


class Rate(msgspec.Struct, frozen=True):
    """So many calls at once, and after that one each `interval_s`; in any time t at most `burst + t / interval_s`."""

    interval_s: float
    burst: int

    @property
    def tolerance_s(self) -> float:
        """How much earlier than in theory a call may come."""
        return (self.burst - 1) * self.interval_s


class _State(msgspec.Struct, frozen=True):
    """Cool-downs in wall time, milliseconds since the epoch."""

    everybody: int = 0
    chats: dict[str, int] = {}


class Governor(Generic[K]):
    """Says when calls may go. Times are trio's.

    `rate` is that of one chat, `everybody` that of all together; `key` reads a chat's name as `str` has written it.
    """

    def __init__(
        self,
        rate: Callable[[K], Rate],
        everybody: Rate,
        *,
        key: Callable[[str], K],
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        assert everybody.burst >= 2, "a reserve needs room beside it"
        self._now = now
        self._rate = rate
        self._everybody = everybody
        self._key = key
        self._due = -math.inf  # theoretical arrival time of the next call, over all chats
        self._chats: dict[K, float] = {}  # the same of each chat that carries a debt
        self._last: dict[K, float] = {}  # when the last call of each of these chats went
        self._bursts: set[K] = set()  # those of which it came sooner than one interval after the one before
        self._cool: dict[K, float] = {}  # cool-downs of chats
        self._cool_all = -math.inf
        self._refused: tuple[K, float] | None = None  # the chat refused last, and when
        self._looked = -math.inf
        self._tickets = count()
        self._waiting: dict[int, K] = {}  # ticket -> chat of the important calls that wait, in their order
        self._asked: dict[K, float] = {}  # chats of which an important call was told to wait, and until when it may

    def delay_s(self, chat: K, *, important: bool) -> float:
        """Return the seconds that a call has to wait now, behind all important ones that wait already; 0: it may go.

        An important one that has to wait is expected when its time has come: until then nothing else takes its place.
        """
        now = self._now()
        ready = self._ready_at(chat, None, important=important)
        if ready - now < STEP_S:
            return 0.0
        if important:
            self._asked[chat] = ready + ASKED_S
        return ready - now

    def frozen_s(self, chat: K) -> float:
        """Return the seconds that no call at all may go to a chat, also one that is no message; 0: it may."""
        return max(0.0, max(self._cool_all, self._cool.get(chat, -math.inf)) - self._now())

    def take(self, chat: K, *, important: bool = True) -> None:
        """Book a call that goes now."""
        now = self._now()
        if important and chat in self._asked:
            self._asked[chat] = now + ASKED_S  # where one waited, the next may wait behind it
        self._due = max(now, self._due) + self._everybody.interval_s
        interval_s = self._rate(chat).interval_s
        self._chats[chat] = max(now, self._chats.get(chat, now)) + interval_s
        if now - self._last.get(chat, -math.inf) < interval_s:
            self._bursts.add(chat)
        else:
            self._bursts.discard(chat)
        self._last[chat] = now
        self._forget(now)

    async def acquire(self, chat: K, *, important: bool) -> None:
        """Wait until a call may go, and book it. Needs trio's time; what is cancelled is not booked."""
        await trio.lowlevel.checkpoint()
        ticket = next(self._tickets)
        if important:
            self._waiting[ticket] = chat
        try:
            while True:
                ready, now = self._ready_at(chat, ticket, important=important), self._now()
                if ready <= now:
                    self.take(chat, important=important)
                    return
                await trio.sleep_until(max(ready, now + STEP_S))  # then look again: much may have happened
        finally:
            self._waiting.pop(ticket, None)

    # == cool-downs ====================================================================================================

    def freeze(self, chat: K | None, retry_after_s: float) -> None:
        """Let no call to the chat go for so long, None: to any chat. When two chats are refused together, it is all.

        What was refused had no room left, so there is none for a burst afterwards either. The refusal of a burst says
        nothing of other chats: it was that chat's own.
        """
        now = self._now()
        until = now + max(0.0, retry_after_s)
        if chat is None:
            self._cool_all = max(self._cool_all, until)
            self._due = max(self._due, self._cool_all + self._everybody.tolerance_s - STEP_S)
            return
        self._cool[chat] = max(self._cool.get(chat, until), until)
        self._chats[chat] = max(self._chats.get(chat, now), self._cool[chat] + self._rate(chat).tolerance_s - STEP_S)
        if chat not in self._bursts:
            if self._refused is not None and self._refused[0] != chat and now - self._refused[1] <= TOGETHER_S:
                self._cool_all = max(self._cool_all, self._cool[chat], self._cool.get(self._refused[0], now))
                self._due = max(self._due, self._cool_all + self._everybody.tolerance_s - STEP_S)
            self._refused = (chat, now)
        self._forget(now)

    def frozen_until(self, now_ms: int) -> str:
        """Return the cool-downs as a short text for `restore`, empty if there are none; `now_ms` is the wall time."""
        now = self._now()
        wall = {chat: now_ms + math.ceil((until - now) * 1000) for chat, until in self._cool.items() if until > now}
        longest = sorted(wall, key=lambda chat: wall[chat], reverse=True)[:EXPORT_MAX_CHATS]
        everybody = now_ms + math.ceil((self._cool_all - now) * 1000) if self._cool_all > now else 0
        if not everybody and not longest:
            return ""
        return msgspec.json.encode(_State(everybody, {str(chat): wall[chat] for chat in longest})).decode()

    def restore(self, state: str, now_ms: int) -> None:
        """Take over cool-downs from before a restart. What cannot be read is ignored: it costs one more refusal."""
        try:
            found = msgspec.json.decode(state, type=_State) if state else _State()
            chats = {self._key(chat): until_ms for chat, until_ms in found.chats.items()}
        except (ValueError, UnicodeError):  # msgspec's errors are ValueErrors
            return
        now = self._now()
        self._cool_all = max(self._cool_all, _until(now, found.everybody, now_ms))
        for chat, until_ms in list(chats.items())[:EXPORT_MAX_CHATS]:
            self._cool[chat] = max(self._cool.get(chat, now), _until(now, until_ms, now_ms))

    # == inside ========================================================================================================

    def _ready_at(self, chat: K, ticket: int | None, *, important: bool) -> float:
        """When the call may go if nothing else comes. Calls before it count as if they were booked."""
        now = self._now()
        here = ready = 0
        for other, where in self._waiting.items():
            if important and ticket is not None and other >= ticket:
                break
            if where == chat:
                here += 1
            elif self._chat_ready_at(where) <= now:
                ready += 1
        if not important:  # the room that an important call would take right after it
            ready += 1 + sum(
                until > now and where != chat and self._chat_ready_at(where) <= now
                for where, until in self._asked.items()
            )
            here += 1
        everybody = max(self._due, now) if ready else self._due
        at = max(everybody + ready * self._everybody.interval_s - self._everybody.tolerance_s, self._cool_all)
        if not important:
            at = max(at, self._asked.get(chat, at))
        return max(at, self._chat_ready_at(chat, here))

    def _chat_ready_at(self, chat: K, ahead: int = 0) -> float:
        rate = self._rate(chat)
        now = self._now()
        due = self._chats.get(chat, -math.inf)
        due = max(due, now) if ahead else due
        return max(due + ahead * rate.interval_s - rate.tolerance_s, self._cool.get(chat, -math.inf))

    def _forget(self, now: float) -> None:
        most = max(len(self._chats), len(self._cool), len(self._asked))
        if now - self._looked >= LOOK_S or most > CHATS_MAX:
            self._looked = now
            self._chats = _longest({chat: due for chat, due in self._chats.items() if due > now})
            self._last = {chat: at for chat, at in self._last.items() if chat in self._chats}
            self._bursts &= self._last.keys()
            self._cool = _longest({chat: until for chat, until in self._cool.items() if until > now})
            self._asked = _longest({chat: until for chat, until in self._asked.items() if until > now})


def _until(now: float, until_ms: int, now_ms: int) -> float:
    return now + min(max(until_ms - now_ms, 0) / 1000, COOL_DOWN_MAX_S)


def _longest(times: dict[K, float]) -> dict[K, float]:
    """Bound the memory: beyond it the earliest are forgotten, and with room to spare, so that this is seldom."""
    if len(times) <= CHATS_MAX:
        return times
    return dict(sorted(times.items(), key=lambda item: item[1])[-CHATS_MAX * 9 // 10 :])
