"""What people see in a messenger while an agent works: typing, the reply as it grows, what its tools do.

An observer of the bus: nothing waits for it, and what it cannot show is not shown. Where a platform has drafts the
reply grows in one; elsewhere in a message that is edited and withdrawn once the reply is there. Such a message is
remembered right after it was sent and withdrawn at the next start if a crash left it; one that was on its way in that
very moment may stay.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import trio

from daycare.actors.linking import Linking
from daycare.base.connector import Capabilities, Connector
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import AwayError, BusyError, DaycareError, InvalidError, UnavailableError
from daycare.base.events import (
    AgentDied,
    AgentParked,
    Event,
    LaneBroke,
    ModelFailed,
    ReplySent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDelta,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnWaiting,
)
from daycare.base.limits import PRESENCE_CALL_S, TURN_DEADLINE_S
from daycare.base.path import Kind, Path
from daycare.connectors.preview import Preview
from daycare.observe import log
from daycare.observe.bus import Bus, Gap
from daycare.store.share import Share

PRESENCE_TURNS_MAX: Final = 256  # running turns shown to people at the same time, some 20 KB each; others are not shown
PRESENCE_BATCH: Final = 256  # events looked at in one go: under a millisecond
PRESENCE_PAUSE_S: Final = 5.0  # after a failure without a time to wait
PRESENCE_REPLY_S: Final = 10.0  # how long a preview stays for its reply, so that the chat is not empty in between
PRESENCE_TYPING_SHARE: Final = 0.8  # of the time that typing is seen: then it is shown again
WITHDRAW_TRIES_MAX: Final = 4  # 2, 8 and 32 s apart; what is left then goes at the next start
WITHDRAW_BASE_S: Final = 2.0
WITHDRAW_PAUSE_MAX_S: Final = 60.0

T = TypeVar("T")
_Chat = tuple[str, str]  # connector and target

_LEFT: Final = "status:"  # + target + ":" + receipt is the name under which a message that has to go is remembered
_CRASHED: Final = "CONNECTOR_CRASHED"


class _View:
    """One running turn and the chat it is shown in."""

    def __init__(self, event: TurnStarted, name: str, connector: Connector, preview: Preview) -> None:
        self.path = event.path
        self.user = event.user
        self.turn = event.turn
        self.name = name
        self.connector = connector
        self.target = ""
        self.able = Capabilities()
        self.preview = preview
        self.shown = ""
        self.receipt = ""  # of the message that has to go in the end
        self.changed = trio.Event()
        self.ended = trio.Event()
        self.answered = False  # a reply is on its way
        self.replied = trio.Event()
        self._calls: set[trio.CancelScope] = set()

    @property
    def chat(self) -> _Chat:
        return self.name, self.target

    def end(self, *, answered: bool = False) -> None:
        """Show no more: what is on its way is called back, so that nothing comes after the reply."""
        if not self.ended.is_set():
            self.answered = answered
            self.ended.set()
            self.changed.set()
            for scope in self._calls:
                scope.cancel()

    @contextmanager
    def until_end(self) -> Iterator[None]:
        """Cancel what the block waits for when the turn ends."""
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            if self.ended.is_set():
                scope.cancel()
            try:
                yield
            finally:
                self._calls.discard(scope)


class TypingStatus:
    """Shows running turns of the agents that belong to a chat, where `connectors` push.

    `target` finds the chat of (path, user, connector), None if there is none. `remember(connector, name, value)` keeps
    a value over restarts, and forgets it when it is empty; `recall_all(connector, prefix)` returns what is kept.
    `progress` is the line about tools, `stream` the growing reply.
    """

    def __init__(
        self,
        bus: Bus,
        connectors: Mapping[str, Connector],
        target: Callable[[str, str, str], Awaitable[str | None]],
        remember: Callable[[str, str, str], Awaitable[None]],
        recall_all: Callable[[str, str], Awaitable[dict[str, str]]],
        *,
        progress: bool = True,
        stream: bool = True,
        linking: Linking | None = None,
    ) -> None:
        self._linking = linking or Linking(Share())
        self._bus = bus
        self._connectors, self._pushing = connectors, dict[str, Connector]()
        self._some = trio.Event()  # there is a connector that pushes
        self._target = target
        self._remember = remember
        self._recall_all = recall_all
        self._progress = progress
        self._stream = stream
        self._views: dict[str, _View] = {}  # by path: an agent has one turn at a time
        self._answered: dict[str, _View] = {}  # ended, and their replies are not there yet
        self._tasks = 0
        self._pauses: dict[_Chat, float] = {}  # until when a chat is left alone
        self._told: set[tuple[str, str]] = set()  # (connector, call) whose crash is in the log
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            TurnDelta: self._changed,
            ModelFailed: self._changed,
            ToolStarted: self._changed,
            ToolProgress: self._changed,
            ToolFinished: self._changed,
            TurnFinished: self._finished,
            TurnWaiting: self._ended,
            TurnFailed: self._ended,
            AgentDied: self._gone,
            AgentParked: self._gone,
            LaneBroke: self._gone,
            ReplySent: self._replied,
        }
        self.connect()

    def connect(self) -> None:
        """Show turns over the connectors there are now, those that run already included."""
        self._pushing = {name: connector for name, connector in self._connectors.items() if not connector.pull}
        for view in (*self._views.values(), *self._answered.values()):
            view.connector = self._pushing.get(view.name, view.connector)
        if self._pushing:
            self._some.set()

    async def run(self) -> None:
        """Show turns until the bus is closed, once there is a connector that pushes."""
        await self._some.wait()
        position = self._bus.cursor
        async with trio.open_nursery() as nursery:
            for name in self._pushing:  # before the first turn adds to them
                if self._linking.several:
                    nursery.start_soon(self._linking.while_had, name, partial(self._connected, name, nursery))
                else:
                    await self._recall(name, nursery)
            await self._follow(position, nursery)
            self._forget()
            nursery.cancel_scope.deadline = trio.current_time() + PRESENCE_CALL_S

    async def _connected(self, name: str, nursery: trio.Nursery) -> None:
        """Show turns over a connector for as long as it is this node's."""
        await self._recall(name, nursery)
        try:
            await trio.sleep_forever()
        finally:
            for view in [each for each in self._views.values() if each.name == name]:
                self._end(view.path, view.turn)

    async def _recall(self, name: str, nursery: trio.Nursery) -> None:
        left = await self._try(name, "recall", lambda: self._recall_all(name, _LEFT))
        if isinstance(left, dict):
            nursery.start_soon(self._guard, name, "clear up", partial(self._clear_up, name, left))

    # -- events ------------------------------------------------------------------------------------------------------

    async def _follow(self, position: int, nursery: trio.Nursery) -> None:
        """Heed all events.

        Not a `Subscription`: that one lets everybody else run after each event, and while a hundred agents write at
        once each of them adds another in between.
        """
        bus = self._bus
        while True:
            if position < bus.oldest:  # too slow: what was lost may have been the end of any turn
                bus.dropped += bus.oldest - position
                position = bus.oldest
                self._forget()
            end = min(bus.cursor, position + PRESENCE_BATCH)
            for at in range(position, end):
                self._heed(bus.at(at), nursery)
            position = end
            if position < bus.cursor:
                await trio.lowlevel.checkpoint()
            elif bus.closed:
                return
            else:
                await bus.news()

    def _heed(self, event: Event | Gap, nursery: trio.Nursery) -> None:
        if isinstance(event, Gap):
            self._forget()
            return
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        elif type(event) is TurnStarted:
            self._begin(event, nursery)

    def _begin(self, event: TurnStarted, nursery: trio.Nursery) -> None:
        self._gone(event)
        name = self._shown_at(event.path) or next((each for each in event.answers or () if each in self._pushing), "")
        if event.answers is not None and name not in event.answers:
            return  # asked in a terminal: nobody waits for it there
        if name and self._linking.has(name) and self._tasks < PRESENCE_TURNS_MAX:
            self._tasks += 1
            view = self._views[event.path] = _View(
                event, name, self._pushing[name], Preview(stream=self._stream, progress=self._progress)
            )
            nursery.start_soon(self._show, view)

    def _shown_at(self, path: str) -> str:
        """Return the connector whose agent a path is, empty if it is none of those that push."""
        if path.rpartition("/")[2] not in self._pushing:
            return ""
        try:
            parsed = Path.parse(path, self._pushing)
        except InvalidError:
            return ""
        return parsed.name if parsed.kind is Kind.CONNECTOR else ""

    def _changed(self, event: TurnDelta | ModelFailed | ToolStarted | ToolProgress | ToolFinished) -> None:
        view = self._views.get(event.path)
        if view is None or view.turn != event.turn:
            return
        match event:
            case TurnDelta():
                view.preview.say(event.text, trio.current_time())
            case ModelFailed():
                view.preview.void()
            case ToolStarted():
                view.preview.tool_started(event.step, event.tool, trio.current_time())
            case ToolProgress():
                view.preview.tool_progress(event.step, event.text)
            case ToolFinished():
                view.preview.tool_finished(event.step)
        view.changed.set()

    def _ended(self, event: TurnWaiting | TurnFailed) -> None:
        self._end(event.path, event.turn)

    def _finished(self, event: TurnFinished) -> None:
        view = self._end(event.path, event.turn, answered=bool(event.reply.strip()) and not event.stopped)
        if view is not None and view.answered:
            earlier = self._answered.pop(event.path, None)
            if earlier is not None:
                earlier.replied.set()
            self._answered[event.path] = view

    def _gone(self, event: Event) -> None:
        view = self._views.get(event.path)
        if view is not None:
            self._end(event.path, view.turn)

    def _end(self, path: str, turn: int, *, answered: bool = False) -> _View | None:
        view = self._views.get(path)
        if view is None or view.turn != turn:
            return None
        del self._views[path]
        view.end(answered=answered)
        return view

    def _replied(self, event: ReplySent) -> None:
        view = self._answered.get(event.path)
        if view is not None and view.name == event.connector:
            del self._answered[event.path]
            view.replied.set()

    def _forget(self) -> None:
        for view in self._views.values():
            view.end()
        for view in self._answered.values():
            view.replied.set()
        self._views.clear()
        self._answered.clear()

    # -- showing -----------------------------------------------------------------------------------------------------

    async def _show(self, view: _View) -> None:
        try:
            await self._guard(view.name, "show", lambda: self._show_turn(view))
        finally:
            self._tasks -= 1
            for views in (self._views, self._answered):
                if views.get(view.path) is view:
                    del views[view.path]

    async def _show_turn(self, view: _View) -> None:
        if not await self._prepared(view):
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._type, view)
            nursery.start_soon(self._preview, view)
            with trio.move_on_after(TURN_DEADLINE_S):
                await view.ended.wait()
            view.end()
        if view.receipt:
            if view.answered:
                with trio.move_on_after(PRESENCE_REPLY_S):
                    await view.replied.wait()
            await self._withdraw(view.name, view.target, view.receipt)

    async def _prepared(self, view: _View) -> bool:
        """Find out where and how a turn can be shown."""
        target = await self._try(view.name, "target", lambda: self._target(view.path, view.user, view.name))
        if not isinstance(target, str):
            return False
        view.target = target

        async def ask() -> Capabilities:
            return view.connector.capabilities(target)

        able = await self._try(view.name, "capabilities", ask)
        if not isinstance(able, Capabilities):
            return False
        view.able, view.preview.fleeting = able, able.drafts
        return able.typing_s > 0 or able.drafts or (able.edits and able.withdrawals)

    async def _type(self, view: _View) -> None:
        """Show typing for as long as the turn runs."""
        every_s = max(view.able.typing_s * PRESENCE_TYPING_SHARE, 1.0)
        over = view.able.typing_s <= 0
        next_at = -math.inf
        while not over and not view.ended.is_set():
            next_at = max(next_at, self._pauses.get(view.chat, -math.inf))
            if trio.current_time() < next_at:
                await _wait(view.ended, next_at)
                continue
            next_at = trio.current_time() + every_s
            with view.until_end():
                result = await self._try(view.name, "act", lambda: view.connector.act(view.target, "typing"))
                over = isinstance(result, DaycareError) and self._is_final(view, result)

    async def _preview(self, view: _View) -> None:
        """Show how far the turn is: always the newest, never what has changed since."""
        over = not (view.able.drafts or (view.able.edits and view.able.withdrawals))
        next_at = -math.inf
        while not over and not view.ended.is_set():
            view.changed = trio.Event()
            now = trio.current_time()
            text, changes_at = view.preview.look(now)
            not_before = max(next_at, self._pauses.get(view.chat, -math.inf))
            if text == view.shown:
                await _wait(view.changed, changes_at)
            elif now < not_before:
                await _wait(view.ended, not_before)
            else:
                next_at = now + view.able.preview_every_s
                over = await self._draw(view, text)

    async def _draw(self, view: _View, text: str) -> bool:
        """Put the text where people see it. Returns whether it is no use to go on."""
        connector, target = view.connector, view.target
        result: object = None  # also when it was called back
        if view.able.drafts:
            with view.until_end():
                result = await self._try(view.name, "draft", lambda: connector.draft(target, view.turn, text))
        elif view.receipt:
            with view.until_end():
                result = await self._try(view.name, "edit", lambda: connector.edit(target, view.receipt, text))
        else:
            return await self._send(view, text)
        if isinstance(result, DaycareError):
            return self._is_final(view, result)
        view.shown = text
        return False

    async def _send(self, view: _View, text: str) -> bool:
        """Send the message to be edited. Not called back at the end, or nobody would know what to withdraw."""
        result = await self._try(view.name, "status", lambda: view.connector.status(view.target, text))
        if isinstance(result, str):
            view.receipt, view.shown = result, text
            with trio.CancelScope(shield=True):  # ends within PRESENCE_CALL_S
                await self._try(
                    view.name, "remember", lambda: self._remember(view.name, _label(view.target, result), result)
                )
        if not isinstance(result, DaycareError):
            return not view.receipt
        surely_not_sent = isinstance(result, BusyError | AwayError) or result.code == "NOT_SENT"
        return self._is_final(view, result) or not surely_not_sent

    def _is_final(self, view: _View, error: DaycareError) -> bool:
        """Whether trying again is no use. If it is, the chat is left alone for a while."""
        if error.code == _CRASHED or not isinstance(error, BusyError | UnavailableError):
            return True
        now = trio.current_time()
        if len(self._pauses) >= PRESENCE_TURNS_MAX:
            self._pauses = {chat: until for chat, until in self._pauses.items() if until > now}
        until = now + (error.retry_after_s or PRESENCE_PAUSE_S)
        self._pauses[view.chat] = max(until, self._pauses.get(view.chat, until))
        return False

    # -- withdrawing -------------------------------------------------------------------------------------------------

    async def _clear_up(self, name: str, left: Mapping[str, str]) -> None:
        """Withdraw what an earlier run left in chats."""
        for label, receipt in left.items():
            if receipt:
                target = label.removeprefix(_LEFT).removesuffix(f":{receipt}")
                await self._withdraw(name, target, receipt)

    async def _withdraw(self, name: str, target: str, receipt: str) -> None:
        """Delete a message, and forget it, unless it may still be there: then the next start tries again."""
        for number in range(1, WITHDRAW_TRIES_MAX + 1):
            error = await self._try(name, "withdraw", lambda: self._pushing[name].withdraw(target, receipt))
            if not isinstance(error, BusyError | UnavailableError) or error.code == _CRASHED:
                await self._try(name, "remember", lambda: self._remember(name, _label(target, receipt), ""))
                return
            if number < WITHDRAW_TRIES_MAX:
                pause_s = error.retry_after_s or WITHDRAW_BASE_S * 4.0 ** (number - 1)
                await trio.sleep(min(pause_s, WITHDRAW_PAUSE_MAX_S))

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _try(self, name: str, what: str, call: Callable[[], Awaitable[T]]) -> T | DaycareError:
        """Call a connector, or what serves it, and return what comes back, or the error."""

        async def in_time() -> T | DaycareError:
            with trio.move_on_after(PRESENCE_CALL_S):
                return await call()
            return UnavailableError("CONNECTOR_LATE", f"{name}: {what} took over {PRESENCE_CALL_S:g} s")

        return await self._guard(name, what, in_time)

    async def _guard(self, name: str, what: str, call: Callable[[], Awaitable[T]]) -> T | DaycareError:
        """Call and return: whatever goes wrong here concerns nobody else. A crash is in the log once."""
        try:
            with error_boundary(_CRASHED, f"{name}: {what}"):
                return await call()
        except DaycareError as error:
            if error.code == _CRASHED and (name, what) not in self._told:
                self._told.add((name, what))
                log.logger().warning("presence.crashed", reason=error.message, exc_info=error)
            return error


def _label(target: str, receipt: str) -> str:
    return f"{_LEFT}{target}:{receipt}"


async def _wait(event: trio.Event, until: float) -> None:
    with trio.move_on_at(until):
        await event.wait()
