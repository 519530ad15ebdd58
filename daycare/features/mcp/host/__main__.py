"""One connection, from the first frame to the last."""

import gc
import logging
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

import httpx2
import mcp_types as types
import trio
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.auth import AuthorizationCodeResult
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError

import daycare
from daycare.base.error_boundary import causes, error_boundary
from daycare.base.errors import DaycareError
from daycare.features.mcp import frames
from daycare.features.mcp.frames import (
    FoundTool,
    McpAnswer,
    McpCall,
    McpCancel,
    McpCode,
    McpEnded,
    McpFailed,
    McpKept,
    McpLink,
    McpListed,
    McpOpen,
    McpPing,
    McpProgress,
    McpResult,
    McpSaid,
)
from daycare.features.mcp.host.people import CALL, PeopleAsked
from daycare.features.mcp.host.shapes import argument_flaw, files_of, found_tool, text_of
from daycare.features.mcp.host.transports import Program, TooLongError, url

CALLS_MAX: Final = 64
PAGES_MAX: Final = 20
LISTED_EVERY_S: Final = 1.0  # when its tools change; longer and longer while they go on changing
LISTED_EVERY_MAX_S: Final = 60.0
FRAMES_MAX: Final = 256  # that wait for the daemon to read
MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of addresses of this process
CPU_S: Final = 30  # that it may be stuck for

_PROGRESS_EVERY_S: Final = 0.5
_READ_BYTES: Final = 64 * 1024


class McpHost:
    """One connection. `outward` takes frames for the daemon."""

    def __init__(self, told: McpOpen, outward: trio.MemorySendChannel[frames.McpFrame]) -> None:
        self._told = told
        self._outward = outward
        self._client: Client
        self._tools: dict[str, FoundTool] = {}
        self._calls: dict[int, trio.CancelScope] = {}
        self._changed = trio.Event()
        self._people = PeopleAsked(outward, self._calls, self._says)

    async def run(self, inward: trio.MemoryReceiveChannel[frames.Outward]) -> None:
        """Be connected until that ends by itself, or nobody asks for anything any more; say why."""
        program = Program(self._told, self._says) if self._told.command else None
        scope = trio.CancelScope(deadline=trio.current_time() + self._told.deadline_s)
        why = ""
        try:
            with error_boundary("MCP_CRASHED", self._told.server), scope:
                self._client = Client(
                    program.connected() if program is not None else url(self._told, self._login(inward)),
                    client_info=types.Implementation(name="daycare", version=daycare.__version__),
                    message_handler=self._hear,
                    elicitation_callback=self._people.ask if self._told.asks else None,
                    cache=None,
                )
                async with self._client:
                    await self._list()
                    scope.deadline = float("inf")
                    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))  # not its program's
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._follow_changes)
                        nursery.start_soon(self._listen)
                        nursery.start_soon(self._serve, inward, nursery)
                        await (program.ended if program is not None else trio.Event()).wait()
                        nursery.cancel_scope.cancel()
        except DaycareError as error:
            why = _told(error, self._told.server)
        if scope.cancelled_caught:
            why = f"it was not connected within {self._told.deadline_s:g} s"
        elif program is not None and program.ended.is_set():
            why = f"it left with {program.code}"
        await self._outward.send(McpEnded(reason=why or "it was ended"))

    def _login(self, inward: trio.MemoryReceiveChannel[frames.Outward]) -> httpx2.Auth | None:
        """Return what adds tokens to requests, None where the operator has given one."""
        if self._told.token:
            return None
        from daycare.features.mcp.host.login import login

        async def keep(left: str) -> None:
            await self._outward.send(McpKept(login=left))

        async def show(link: str) -> None:
            await self._outward.send(McpLink(url=link))

        async def come_back() -> AuthorizationCodeResult:
            async for frame in inward:
                if isinstance(frame, McpCode):
                    return AuthorizationCodeResult(code=frame.code, state=frame.state, iss=frame.issuer or None)
            raise TimeoutError("nobody came back from the login")

        return login(self._told, keep, show, come_back)

    # -- its tools -----------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        found: list[FoundTool] = []
        left_out, cursor = 0, None
        for _ in range(PAGES_MAX):
            page = await self._client.list_tools(cursor=cursor)
            for tool in page.tools:
                if len(found) < frames.TOOLS_MAX:
                    found.append(found_tool(tool))
                else:
                    left_out += 1
            cursor = page.next_cursor
            if not cursor:
                break
        tools = {tool.name: tool for tool in reversed(found)}  # of two with one name the first
        left_out += len(found) - len(tools) + bool(cursor)
        if tools != self._tools or not self._tools:
            self._tools = tools
            info = self._client.server_info
            title, version = (info.title or info.name, info.version) if info is not None else ("", "")
            await self._outward.send(
                McpListed(
                    tools=tuple(reversed(tools.values())), title=title[:100], version=version[:40], left_out=left_out
                )
            )

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _listen(self) -> None:
        """Ask to be told of changes, where the protocol of the server wants that."""
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self._changed.set()
                return
            except (ListenNotSupportedError, MCPError):
                return
            except SubscriptionLost:
                self._changed.set()
                await trio.sleep(LISTED_EVERY_MAX_S)

    async def _follow_changes(self) -> None:
        pause_s = LISTED_EVERY_S
        while True:
            with trio.move_on_after(LISTED_EVERY_MAX_S) as calm:
                await self._changed.wait()
            if calm.cancelled_caught:
                pause_s = LISTED_EVERY_S
                continue
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, LISTED_EVERY_MAX_S)
            self._changed = trio.Event()
            await self._list()

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def _serve(self, inward: trio.MemoryReceiveChannel[frames.Outward], nursery: trio.Nursery) -> None:
        async for frame in inward:
            match frame:
                case McpCall() if len(self._calls) < CALLS_MAX:
                    nursery.start_soon(self._call, frame)
                case McpCall():
                    await self._fail(frame, frames.NOT_SENT, "too many calls at a time")
                case McpCancel():
                    if (scope := self._calls.get(frame.id)) is not None:
                        scope.cancel()
                case McpAnswer():
                    self._people.answer(frame)
                case McpPing():
                    nursery.start_soon(self._ping, frame)
                case McpOpen() | McpCode():
                    pass  # of what is over
        nursery.cancel_scope.cancel()

    async def _call(self, frame: McpCall) -> None:
        tool = self._tools.get(frame.tool)
        if tool is None or tool.digest != frame.digest:
            await self._fail(frame, frames.CHANGED, "the server has changed what it says of this tool")
            return
        if flaw := argument_flaw(tool.schema, frame.arguments):
            await self._fail(frame, frames.WRONG, flaw)
            return
        with trio.CancelScope() as scope:
            self._calls[frame.id] = scope
            CALL.set(frame.id)
            try:
                with error_boundary("MCP_CRASHED", "calling"):
                    result = await self._client.call_tool(
                        frame.tool, frame.arguments, progress_callback=self._progress(frame.id)
                    )
                said, files = text_of(result), files_of(result)
                await self._outward.send(McpResult(id=frame.id, text=said, failed=bool(result.is_error), files=files))
            except DaycareError as error:
                known = error.__cause__
                if isinstance(known, MCPError) and known.code == types.URL_ELICITATION_REQUIRED and self._told.asks:
                    pages = await self._people.pages(known.data)
                    await self._outward.send(McpResult(id=frame.id, text=pages, failed=True))
                elif isinstance(known, MCPError) and known.code != types.CONNECTION_CLOSED:
                    text = known.message[: frames.RESULT_MAX_CHARS]  # an answer, too, in words of the server
                    await self._outward.send(McpResult(id=frame.id, text=text, failed=True))
                else:
                    await self._fail(frame, frames.UNSURE, _told(error, self._told.server))
            finally:
                del self._calls[frame.id]
                self._people.over(frame.id)

    async def _ping(self, frame: McpPing) -> None:
        with error_boundary("MCP_CRASHED", "asking"):
            await self._client.list_tools()
        await self._outward.send(McpResult(id=frame.id, text=""))

    async def _fail(self, frame: McpCall, code: str, reason: str) -> None:
        await self._outward.send(McpFailed(id=frame.id, code=code, reason=reason[: frames.REASON_MAX_CHARS]))

    def _progress(self, call: int) -> ProgressFnT:
        told_at = float("-inf")

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told_at
            if trio.current_time() - told_at >= _PROGRESS_EVERY_S:
                told_at = trio.current_time()
                share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                await self._outward.send(McpProgress(id=call, text=f"{share} {(message or '')[:200]}".rstrip()))

        return tell

    def _says(self, line: str) -> None:
        with suppress(trio.WouldBlock):  # a flood of lines is worth no memory
            self._outward.send_nowait(McpSaid(text=line))


def _told(error: DaycareError, server: str) -> str:
    """Return what went wrong in words that are none of the server's: models read them as the daemon's own."""
    for cause in causes(error):
        if type(cause).__name__ == "LoginWantedError":  # its module is not loaded for servers that want none
            return f"it wants a login: daycare mcp login {server}"
        if isinstance(cause, OSError | TooLongError | httpx2.TransportError):
            return str(cause)[: frames.REASON_MAX_CHARS]
        if isinstance(cause, httpx2.HTTPStatusError):
            return f"it answers with status {cause.response.status_code}"
        if isinstance(cause, MCPError):
            return f"it answers with error {cause.code}"
    last = [type(cause).__name__ for cause in causes(error) if not isinstance(cause, BaseExceptionGroup)]
    return f"its answer could not be read ({last[-1]})"


async def main(given: int, taken: int) -> None:
    """Serve the daemon at the ends of two pipes."""
    async with trio.lowlevel.FdStream(given) as stream, trio.lowlevel.FdStream(taken) as out:
        whole = frames.McpFrames()
        first: list[bytes] = []
        while not first:
            data = await stream.receive_some(_READ_BYTES)
            if not data:
                return
            first = whole.feed(bytes(data))
        told = frames.from_daemon(first[0])
        assert isinstance(told, McpOpen)
        to_host, inward = trio.open_memory_channel[frames.Outward](CALLS_MAX)
        outward, to_daemon = trio.open_memory_channel[frames.McpFrame](FRAMES_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_still_alive)
            nursery.start_soon(_write, to_daemon, out, nursery.cancel_scope)
            nursery.start_soon(_read, stream, whole, first[1:], to_host)
            async with outward:
                await McpHost(told, outward).run(inward)


async def _read(
    stream: trio.abc.ReceiveStream,
    whole: frames.McpFrames,
    found: list[bytes],
    to_host: trio.MemorySendChannel[frames.Outward],
) -> None:
    async with to_host:
        while True:
            for each in found:
                await to_host.send(frames.from_daemon(each))
            data = await stream.receive_some(_READ_BYTES)
            if not data:
                return
            found = whole.feed(bytes(data))


async def _write(
    to_daemon: trio.MemoryReceiveChannel[frames.McpFrame], out: trio.abc.SendStream, over: trio.CancelScope
) -> None:
    async for frame in to_daemon:
        await out.send_all(frames.encode(frame))
    over.cancel()


async def _still_alive() -> None:
    """Move the bound of processor time on, for as long as this loop runs."""
    while True:
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_S, resource.RLIM_INFINITY))
        await trio.sleep(CPU_S / 3)


def fork(control: socket.socket) -> None:
    """Fork a host for each three pipes that come, until nobody is there to send any."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they are known by their handles
    while True:
        said, pipes, _, _ = socket.recv_fds(control, 1, 3)
        if not said:
            return
        number = os.fork()
        if number == 0:
            control.close()
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(pipes[2], 2)
            given, taken = pipes[:2]
            trio.run(main, given, taken)
            return
        for pipe in pipes:
            os.close(pipe)
        handles = [os.pidfd_open(number)] if hasattr(os, "pidfd_open") else []
        socket.send_fds(control, [b"f"], handles)
        for handle in handles:
            os.close(handle)


if __name__ == "__main__":
    logging.disable()
    gc.freeze()  # so that what is loaded stays shared
    fork(socket.socket(fileno=int(sys.argv[1])))
