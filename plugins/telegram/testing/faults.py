"""Everything that goes wrong with Telegram's server, on order: faults of single calls, outages, flood limits."""

from collections import deque
from typing import Any, Final, Literal

import msgspec
import trio

from daycare_plugins.telegram.testing.limits import EVERYWHERE, FloodLimits, Impatient
from daycare_plugins.telegram.testing.methods import IN_CHATS, OF_THE_BOT
from daycare_plugins.telegram.testing.people import FakePeople

METHODS: Final = {name.lower(): name for name in (*IN_CHATS, *OF_THE_BOT, "getUpdates")}
DOWNLOAD: Final = "download"  # the name of file downloads for `fault` and `calls`


class TelegramFault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a call.

    First it waits `delay_s`. With a `status` the call is refused, in Telegram's shape with `description` and
    `parameters`, or with `raw` as the body. Else it is executed, unless `drop` or `stall` say `before`; and its answer
    is replaced by `raw`, cut off, dropped with the connection, or never sent. A `retry_after` among the parameters is
    announced for the chat of the call, or with `everywhere` for all chats: who comes earlier is refused once more, and
    listed in `impatient`.
    """

    status: int | None = None
    description: str = ""
    parameters: dict[str, int] = {}
    everywhere: bool = False
    delay_s: float = 0.0
    drop: Literal["before", "after"] | None = None
    stall: Literal["before", "after"] | None = None
    raw: bytes | None = None
    content_type: str = "application/json"
    cut_after_bytes: int | None = None


def flood(retry_after: int, *, everywhere: bool = False) -> TelegramFault:
    """Return a 429."""
    return TelegramFault(
        status=429,
        description=f"Too Many Requests: retry after {retry_after}",
        parameters={"retry_after": retry_after},
        everywhere=everywhere,
    )


def lost() -> TelegramFault:
    """Return a lost answer: the call has its effect, and the connection breaks."""
    return TelegramFault(drop="after")


def refused(status: int, description: str) -> TelegramFault:
    """Return a refusal, as 500 Internal Server Error or 409 Conflict."""
    return TelegramFault(status=status, description=description)


def bad_gateway() -> TelegramFault:
    """Return the HTML page of a proxy."""
    page = b"<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"
    return TelegramFault(status=502, raw=page, content_type="text/html")


def garbage(body: bytes = b'{"ok":tru\xff\xfe') -> TelegramFault:
    """Return an answer with status 200 that is no JSON; the call has its effect."""
    return TelegramFault(raw=body)


class _Planned(msgspec.Struct):
    method: str
    fault: TelegramFault
    times: int
    chat: int | None


class Troubles(FakePeople):
    """A world in which things go wrong when a test says so."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.stalls = 0  # how often it began to stall
        self._away = False
        self._stalled = False
        self._faults: list[_Planned] = []
        self._open: set[trio.CancelScope] = set()

    def fault(self, method: str, fault: TelegramFault, *, times: int = 1, chat: int | None = None) -> None:
        """Let the next `times` calls of a method (`*`: of any, `download`: of files) to a chat, or at all, go wrong."""
        if method not in (EVERYWHERE, DOWNLOAD) and method not in METHODS.values():
            raise ValueError(f"no method {method!r}")
        self._faults.append(_Planned(method, fault, times, chat))

    def no_more_faults(self) -> None:
        """Forget the faults that did not happen yet."""
        self._faults.clear()

    def next_fault(self, method: str, chat: int | None) -> TelegramFault | None:
        """Take the fault that was ordered first of those for a call."""
        for planned in self._faults:
            if planned.method in (EVERYWHERE, method) and planned.chat in (None, chat):
                planned.times -= 1
                if planned.times <= 0:
                    self._faults.remove(planned)
                return planned.fault
        return None

    @property
    def away(self) -> bool:
        """Whether the server is gone: connections break when it goes, and new ones are closed at once."""
        return self._away

    @away.setter
    def away(self, value: bool) -> None:
        self._away = value
        if value:
            for scope in self._open:
                scope.cancel()

    @property
    def stalled(self) -> bool:
        """Whether calls are taken and not answered. Those that wait when it begins never are."""
        return self._stalled

    @stalled.setter
    def stalled(self, value: bool) -> None:
        self.stalls += value and not self._stalled
        self._stalled = value

    @property
    def limits(self) -> FloodLimits | None:
        """The policy by which calls are refused with 429."""
        return self.flood.limits

    @limits.setter
    def limits(self, limits: FloodLimits | None) -> None:
        self.flood.limits = limits

    @property
    def impatient(self) -> deque[Impatient]:
        """The calls that came before an announced time."""
        return self.flood.impatient

    @property
    def confirmed(self) -> int:
        """The highest offset that the bot ever passed."""
        return self.queue.confirmed

    @property
    def next_update_id(self) -> int:
        """The id of the next update; set it to let the ids start anew, as Telegram does after a week of silence."""
        return self.queue.next_id

    @next_update_id.setter
    def next_update_id(self, value: int) -> None:
        self.queue.restart(value)

    def redeliver(self, count: int) -> None:
        """Give out the last `count` confirmed updates once more."""
        self.queue.redeliver(count)
