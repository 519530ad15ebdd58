"""One life of a bridge: its lines read and written, requests answered in time, and no sign of life told from one.

What a bridge says is bounded in every way: a line's length, what is not acknowledged, what goes to the log.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import msgspec
import trio

from daycare.base import bridge
from daycare.base.bridge import Failed, Frame, Hello, Inward, Lines, Result
from daycare.base.errors import (
    AwayError,
    BusyError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.plugin import Logger
from daycare_plugins.bridge.settings import Supervision

HELLO_S: Final = 30.0  # an interpreter that imports a large library on a busy machine
CHUNK_BYTES: Final = 64 * 1024
LINES_AT_ONCE: Final = 256  # read in a millisecond or two
PAUSE_S: Final = 0.005
UNACKNOWLEDGED_MAX: Final = 64  # inbound at a time: a commit takes all of them
REQUESTS_MAX: Final = 128  # that wait to be written
ERROR_LINE_MAX_BYTES: Final = 4 * 1024
STATES_MAX: Final = 30  # and codes, within so long: each becomes an event
STATES_S: Final = 10.0
LINES_A_MINUTE: Final = 60  # of a bridge's in the log
REASON_MAX_CHARS: Final = 300
AGAIN_S: Final = 1.0  # until a reply that a bridge did not answer is tried again

_IDS: Final = count(1)


@dataclass
class _Waiting:
    """A request and what became of it."""

    done: trio.Event = field(default_factory=trio.Event)
    written: bool = False
    answer: Result | Failed | None = None


class Session:
    """Talks with a running bridge. `told` hears what it says of itself, `quiet` is called when it says nothing."""

    def __init__(
        self,
        name: str,
        process: trio.Process,
        settings: Supervision,
        log: Logger,
        told: Callable[[bridge.State | bridge.Qr | bridge.Code | Result], None],
        quiet: Callable[[], None],
    ) -> None:
        self.hello: Hello | None = None
        self.deaf = False  # it was ended because it said nothing
        self.problem = ""  # why it was ended, where we did it
        self.alive_at = trio.current_time()  # when it answered last
        self._inward, self.inward = trio.open_memory_channel[Inward](UNACKNOWLEDGED_MAX)
        self._outward, self._to_write = trio.open_memory_channel[tuple[Frame, _Waiting | None]](REQUESTS_MAX)
        self._name = name
        self._process = process
        self._settings = settings
        self._log = log
        self._told = told
        self._quiet = quiet
        self._scope = trio.CancelScope()
        self._waiting: dict[str, _Waiting] = {}
        self._greeted = trio.Event()
        self._blocked = False
        self._over = False
        self._states, self._states_at = 0, trio.current_time()
        self._lines_left, self._lines_at = LINES_A_MINUTE, trio.current_time()

    # == for others ====================================================================================================

    async def run(self, serve: Callable[["Session"], object]) -> None:
        """Talk until the bridge ends or is of no use; `serve` is called once it has said hello."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read_errors)
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch)
                    await self._read(serve)
                    nursery.cancel_scope.cancel()
        finally:
            self._over = True
            for waiting in self._waiting.values():
                waiting.done.set()

    async def request(self, make: Callable[[str], bridge.Request], deadline_s: float) -> Result:
        """Ask for something and return the answer; `make` is given the number of the request.

        Raises `BusyError` and `AwayError` for what was surely not done, `UnavailableError` for what may have been.
        """
        frame = make(f"r{next(_IDS)}")
        waiting = _Waiting()
        try:
            if self._over:
                raise AwayError("NOT_SENT", f"asking {self._name}: it does not run", retry_after_s=AGAIN_S)
            self._outward.send_nowait((frame, waiting))
        except trio.WouldBlock as full:
            raise BusyError("BRIDGE_BUSY", f"asking {self._name}: it does not listen", retry_after_s=AGAIN_S) from full
        self._waiting[frame.id] = waiting
        try:
            with trio.move_on_after(deadline_s):
                await waiting.done.wait()
        finally:
            del self._waiting[frame.id]
        if isinstance(waiting.answer, Result):
            return waiting.answer
        if waiting.answer is not None:
            raise _error(self._name, waiting.answer)
        if not waiting.written:
            raise AwayError("NOT_SENT", f"asking {self._name}: it ended before", retry_after_s=AGAIN_S)
        why = "it ended" if self._over else f"no answer within {deadline_s:g} s"
        raise UnavailableError("BRIDGE_SILENT", f"asking {self._name}: {why}", retry_after_s=AGAIN_S)

    def finish(self, why: str) -> None:
        """Talk no more."""
        self.problem = self.problem or why
        self._scope.cancel()

    async def acknowledge(self, ids: tuple[str, ...]) -> None:
        """Tell that these are committed."""
        await self._outward.send((bridge.Ack(ids=ids), None))

    # == reading =======================================================================================================

    async def _read(self, serve: Callable[["Session"], object]) -> None:
        lines = Lines()
        assert self._process.stdout is not None
        async with self._inward:
            while data := await _received(self._process.stdout):
                before = lines.too_long
                for number, line in enumerate(lines.feed(data), 1):
                    await self._line(line, serve)
                    if number % LINES_AT_ONCE == 0:
                        await trio.sleep(PAUSE_S)  # a flood of short lines must not hold up everybody else
                if lines.too_long > before:
                    self._garbage(f"a line of more than {bridge.LINE_MAX_BYTES} bytes")

    async def _line(self, line: bytes, serve: Callable[["Session"], object]) -> None:
        if not line.strip():
            return
        try:
            frame = bridge.from_bridge(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._garbage(str(error)[:REASON_MAX_CHARS])  # where it is wrong, and none of what it says
            return
        if self.hello is None:
            if isinstance(frame, Hello):
                await self._greet(frame, serve)
            else:
                self._garbage("something before its hello")
            return
        match frame:
            case Result() | Failed():
                self._answered(frame)
            case bridge.State() | bridge.Qr() | bridge.Code():
                self._of_itself(frame)
            case bridge.Note():
                self._note(frame.level, frame.text)
            case Hello():
                self._garbage("a second hello")
            case _:
                self._blocked = True
                try:
                    await self._inward.send(frame)
                finally:
                    self._blocked = False
                    self.alive_at = trio.current_time()  # what it said meanwhile was not read

    async def _greet(self, hello: Hello, serve: Callable[["Session"], object]) -> None:
        if hello.version != bridge.VERSION:
            self.finish(f"it speaks version {hello.version} of the protocol, this daycare {bridge.VERSION}")
            return
        self.hello, self.alive_at = hello, trio.current_time()
        self._greeted.set()
        serve(self)
        await self._outward.send(
            (
                bridge.Welcome(version=bridge.VERSION, connector=self._name, unacknowledged_max=UNACKNOWLEDGED_MAX),
                None,
            )
        )

    def _of_itself(self, frame: bridge.State | bridge.Qr | bridge.Code) -> None:
        """Pass on what it says of itself, as far as somebody can follow; the next ping tells the state again."""
        now = trio.current_time()
        if now - self._states_at >= STATES_S:
            self._states, self._states_at = 0, now
        self._states += 1
        if self._states <= STATES_MAX:
            self._told(frame)
        elif self._states == STATES_MAX + 1:
            self._garbage(f"more than {STATES_MAX} states and codes within {STATES_S:g} s")

    def _answered(self, frame: Result | Failed) -> None:
        waiting = self._waiting.get(frame.id)
        if waiting is not None and waiting.answer is None:  # else nobody waits for it any more
            waiting.answer = frame
            waiting.done.set()
            if isinstance(frame, Result):
                self.alive_at = trio.current_time()
                self._told(frame)  # not by who waits: what it said right after it is heard before that one goes on

    # == writing =======================================================================================================

    async def _write(self) -> None:
        assert self._process.stdin is not None
        async for frame, waiting in self._to_write:
            if waiting is not None:
                waiting.written = True
            try:
                await self._process.stdin.send_all(bridge.encode(frame))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # it ends: whoever reads from it finds out

    # == watching ======================================================================================================

    async def _watch(self) -> None:
        """Ask whether it is there; end it when it does not say so."""
        with trio.move_on_after(HELLO_S):
            await self._greeted.wait()
        if self.hello is None:
            self.finish(f"it did not say hello within {HELLO_S:g} s")
            return
        async with trio.open_nursery() as nursery:
            while True:
                silent_s = 0.0 if self._blocked else trio.current_time() - self.alive_at
                if silent_s > self._settings.deaf_s:
                    self.deaf = True
                    self.finish(f"it did not answer for {self._settings.deaf_s:g} s")
                    return
                if silent_s > self._settings.deaf_s / 2:
                    self._quiet()
                nursery.start_soon(self._ping)
                await trio.sleep(self._settings.heartbeat_s)

    async def _ping(self) -> None:
        with suppress(DaycareError):  # it is told by time
            await self.request(lambda id_: bridge.Ping(id=id_), self._settings.deaf_s)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        lines = Lines(ERROR_LINE_MAX_BYTES)
        while data := await _received(self._process.stderr):
            for line in lines.feed(data):
                self._note("info", line.decode("utf-8", "replace"), "bridge_stderr")

    def _garbage(self, what: str) -> None:
        self._note("warning", what, "bridge_garbage")

    def _note(self, level: str, text: str, event: str = "bridge_says") -> None:
        """Write a line to the log, which redacts it; past some lines a minute only that there were more."""
        now = trio.current_time()
        if now - self._lines_at >= 60.0:
            self._lines_left, self._lines_at = LINES_A_MINUTE, now
        self._lines_left -= 1
        if self._lines_left == 0:
            self._log.warning("bridge_lines_dropped", connector=self._name)
        elif self._lines_left > 0:
            getattr(self._log, level)(event, connector=self._name, line=text[:REASON_MAX_CHARS])


async def _received(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await stream.receive_some(CHUNK_BYTES))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


def _error(name: str, failed: Failed) -> DaycareError:
    """Return what a bridge's refusal means for whoever asked."""
    message = f"asking {name}: {failed.message[:REASON_MAX_CHARS] or failed.code}"
    after_s = failed.retry_after_s
    match failed.code:
        case bridge.BUSY:
            return BusyError("BRIDGE_BUSY", message, retry_after_s=5.0 if after_s is None else after_s)
        case bridge.AWAY:
            return AwayError("NOT_SENT", message, retry_after_s=5.0 if after_s is None else after_s)
        case bridge.NOT_SENT:
            return UnavailableError("NOT_SENT", message, retry_after_s=after_s)
        case bridge.UNSUPPORTED | bridge.INVALID:
            return InvalidError("BRIDGE_REFUSED", message)
        case bridge.GONE:
            return NotFoundError("BRIDGE_GONE", message)
        case bridge.FORBIDDEN:
            return ForbiddenError("BRIDGE_FORBIDDEN", message)
        case _:
            return UnavailableError("BRIDGE_UNSURE", message, retry_after_s=after_s)
