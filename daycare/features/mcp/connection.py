"""One life of a server: its host process, what is asked of it, and what comes back.

A request waits in a bounded queue until it is written; what was never written was surely not done, and what was is
never written again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec
import trio

from daycare.base.errors import BusyError, ConflictError, InvalidError, UncertainError
from daycare.features.mcp import frames
from daycare.features.mcp.frames import (
    McpAnswer,
    McpCall,
    McpCancel,
    McpCode,
    McpEnded,
    McpFailed,
    McpFrame,
    McpKept,
    McpLink,
    McpListed,
    McpOpen,
    McpPing,
    McpProgress,
    McpQuestion,
    McpResult,
    McpSaid,
    McpUnasked,
)
from daycare.features.mcp.hosts import HostProcess, McpHosts
from daycare.plugin import Logger

FRAMES_MAX: Final = 64  # that wait to be written

_READ_BYTES: Final = 64 * 1024
_ERRORS_MAX_BYTES: Final = 4_096
_LINES_A_MINUTE: Final = 60  # of a server's in the log
_IDS: Final = count(1)


def _nobody(_: object) -> None:
    """Hear nothing."""


@dataclass(frozen=True)
class CallEars:
    """What hears of a call: how far it is, what its server asks a person, and the number of what it asks no more."""

    told: Callable[[str], None] = _nobody
    asked: Callable[[McpQuestion], None] = _nobody
    unasked: Callable[[int], None] = _nobody


@dataclass
class _Waiting:
    """A request and what came of it."""

    ears: CallEars
    done: trio.Event = field(default_factory=trio.Event)
    written: bool = False
    answer: McpResult | McpFailed | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)  # of the time that there is for it
    questions: set[int] = field(default_factory=set)  # that are open: a person has a time of their own


async def _nothing(_: str) -> None:
    """Keep nothing of a login."""


class McpConnection:
    """Speaks with one host. `listed` hears which tools there are, before anything that comes after is read.

    `kept` gets what a login leaves, whenever that changes.
    """

    def __init__(
        self,
        opening: McpOpen,
        hosts: McpHosts,
        log: Logger,
        listed: Callable[[McpListed], Awaitable[None]],
        kept: Callable[[str], Awaitable[None]] = _nothing,
    ) -> None:
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.link = ""  # where a person is to log in
        self.linked = trio.Event()
        self.answered = 0  # calls so far
        self.idle_since = trio.current_time()
        self._opening = opening
        self._hosts = hosts
        self._log = log
        self._listed = listed
        self._kept = kept
        self._outward, self._to_write = trio.open_memory_channel[tuple[McpFrame, _Waiting | None]](FRAMES_MAX)
        self._waiting: dict[int, _Waiting] = {}
        self._scope = trio.CancelScope()
        self._problem: str | None = None  # why it ended, "" where that is fine
        self._over = False
        self._lines_left, self._lines_at = _LINES_A_MINUTE, trio.current_time()

    @property
    def why(self) -> str:
        """Why it has ended, "" while it has not."""
        return self._problem or ""

    @property
    def busy(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiting)

    async def run(self) -> str:
        """Start it and speak with it until it ends; return why. Raises `UnavailableError` if it cannot be started."""
        host = await self._hosts.begin()
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, host)
                    nursery.start_soon(self._read_errors, host)
                    self._outward.send_nowait((self._opening, None))
                    await self._read(host)
                    nursery.cancel_scope.cancel()
        finally:
            self._over = True
            self.ended.set()
            for waiting in self._waiting.values():
                waiting.done.set()
            with trio.CancelScope(shield=True):
                await host.end()
            self._hosts.over()
        return "its host has ended" if self._problem is None else self._problem

    def finish(self, why: str) -> None:
        """End it; `why` is "" where nothing is wrong with it."""
        self._problem = why if self._problem is None else self._problem
        self._scope.cancel()

    def come_back(self, code: McpCode) -> None:
        """Pass on what a person came back with from the link. Raises `BusyError` MCP_BUSY."""
        try:
            self._outward.send_nowait((code, None))
        except trio.WouldBlock:
            raise BusyError("MCP_BUSY", f"logging in to {self._opening.server}: it does not listen now") from None

    async def ping(self, deadline_s: float) -> None:
        """Ask whether the server answers. Raises `UnavailableError`."""
        await self._ask(McpPing(id=next(_IDS)), deadline_s, CallEars())

    async def call(
        self, tool: str, digest: str, arguments: dict[str, Any], deadline_s: float, ears: CallEars
    ) -> McpResult:
        """Call a tool as it was approved of, and return its result. While a person is asked no time passes for it.

        Raises `InvalidError` MCP_ARGUMENTS, `ConflictError` MCP_CHANGED and `BusyError` MCP_BUSY for what was surely
        not done, `UncertainError` MCP_UNSURE for what may have been.
        """
        frame = McpCall(id=next(_IDS), tool=tool, digest=digest, arguments=arguments)
        try:
            return await self._ask(frame, deadline_s, ears)
        finally:
            self.idle_since = trio.current_time()

    def answer(self, answer: McpAnswer, deadline_s: float) -> None:
        """Pass on what a person says to a question; from now on its call has `deadline_s` again."""
        with suppress(trio.WouldBlock):  # then it ends by its deadline
            self._outward.send_nowait((answer, None))
        for waiting in self._waiting.values():
            if answer.id in waiting.questions:
                waiting.questions.discard(answer.id)
                if not waiting.questions:
                    waiting.scope.deadline = trio.current_time() + deadline_s

    async def _ask(self, frame: McpCall | McpPing, deadline_s: float, ears: CallEars) -> McpResult:
        doing = f"asking {self._opening.server}"
        waiting = _Waiting(ears)
        try:
            if self._over:
                raise trio.WouldBlock
            self._outward.send_nowait((frame, waiting))
        except trio.WouldBlock:
            raise BusyError("MCP_BUSY", f"{doing}: it does not listen now; nothing was done", retry_after_s=5) from None
        self._waiting[frame.id] = waiting
        try:
            waiting.scope.deadline = trio.current_time() + deadline_s
            with waiting.scope:
                await waiting.done.wait()
        finally:
            del self._waiting[frame.id]
            if waiting.answer is None and waiting.written and not self._over:
                with suppress(trio.WouldBlock):
                    self._outward.send_nowait((McpCancel(id=frame.id), None))
        match waiting.answer:
            case McpResult():
                self.answered += 1
                return waiting.answer
            case McpFailed(code=frames.WRONG, reason=reason):
                raise InvalidError("MCP_ARGUMENTS", f"{doing}: {reason}", hint="correct the arguments")
            case McpFailed(code=frames.CHANGED, reason=reason):
                raise ConflictError("MCP_CHANGED", f"{doing}: {reason}", hint="tell the user; they can approve it")
            case McpFailed(code=frames.NOT_SENT, reason=reason):
                raise BusyError("MCP_BUSY", f"{doing}: {reason}", retry_after_s=5)
            case McpFailed(reason=reason):
                raise UncertainError("MCP_UNSURE", f"{doing}: {reason}")
        why = (
            f"it ended ({self._problem or 'nobody needed it'})" if self._over else f"no answer within {deadline_s:g} s"
        )
        if not waiting.written:
            raise BusyError("MCP_BUSY", f"{doing}: {why}; nothing was done", retry_after_s=5)
        raise UncertainError("MCP_UNSURE", f"{doing}: {why}")

    # == the pipes =====================================================================================================

    async def _read(self, host: HostProcess) -> None:
        whole = frames.McpFrames()
        try:
            while data := await host.taken.receive_some(_READ_BYTES):
                for each in whole.feed(bytes(data)):
                    await self._frame(frames.from_host(each))
        except (msgspec.DecodeError, frames.FrameTooLongError) as error:
            self._problem = f"its host says what nobody understands: {error}"

    async def _frame(self, frame: frames.Inward) -> None:
        match frame:
            case McpResult() | McpFailed():
                if (waiting := self._waiting.get(frame.id)) is not None:
                    waiting.answer = frame
                    waiting.done.set()
            case McpProgress():
                if (waiting := self._waiting.get(frame.id)) is not None:
                    waiting.ears.told(frame.text)
            case McpQuestion():
                if (waiting := self._waiting.get(frame.call)) is not None:
                    waiting.questions.add(frame.id)
                    waiting.scope.deadline = float("inf")
                    waiting.ears.asked(frame)
            case McpUnasked():
                for waiting in self._waiting.values():
                    if frame.id in waiting.questions:
                        waiting.ears.unasked(frame.id)
            case McpListed():
                await self._listed(frame)
                self.ready.set()
            case McpLink():
                self.link = frame.url
                self.linked.set()
            case McpKept():
                await self._kept(frame.login)
            case McpSaid():
                self._line(frame.text)
            case McpEnded():
                self._problem = frame.reason if self._problem is None else self._problem

    async def _write(self, host: HostProcess) -> None:
        async for frame, waiting in self._to_write:
            data = frames.encode(frame)
            if waiting is not None:
                waiting.written = True
            try:
                await host.given.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # whoever reads finds out

    async def _read_errors(self, host: HostProcess) -> None:
        """Keep the end of what the host itself complains of: it is a defect of ours."""
        held = b""
        async for data in host.errors:
            held = (held + bytes(data))[-_ERRORS_MAX_BYTES:]
            last = held.decode(errors="replace").strip().rpartition("\n")[2]
            self._log.warning("mcp_host", server=self._opening.server, line=last[: frames.REASON_MAX_CHARS])

    def _line(self, text: str) -> None:
        """Write a line of the server to the log, which redacts it; past some a minute only that there were more."""
        now = trio.current_time()
        if now - self._lines_at >= 60.0:
            self._lines_left, self._lines_at = _LINES_A_MINUTE, now
        self._lines_left -= 1
        if self._lines_left == 0:
            self._log.warning("mcp_lines_dropped", server=self._opening.server)
        elif self._lines_left > 0:
            self._log.info("mcp_says", server=self._opening.server, line=text[: frames.REASON_MAX_CHARS])
