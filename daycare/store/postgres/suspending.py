"""Plain code that lets others run while it waits, where it was called by an operation that is `suspended`.

The operations of the store are written once for both engines, and ask it as one asks a file: with a call that returns
the answer. Under `suspended` each step of such an operation runs in a greenlet of its own. Where that waits for
something, the greenlet stands still, and the task waits as any other does: with deadlines and cancellation.
"""

import inspect
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import greenlet

T = TypeVar("T")
R = TypeVar("R")


class _Step(greenlet.greenlet):  # type: ignore[misc]  # it has no types
    """Runs steps of operations, one after another; its parent is what runs the loop.

    It `waits` while it stands still in the midst of one.
    """

    waits = False


class _Ended(NamedTuple):
    """What an operation returned, in the place of what it asks the loop for."""

    value: Any


class _Raised(NamedTuple):
    """What it raised, in the same place."""

    error: BaseException


class _Idle(threading.local):
    """Steps of a thread that have nothing to do: to make one takes as long as all else that it does."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []


_idle: Final = _Idle()
_IDLE_MAX: Final = 64  # some kilobytes each


def may_wait() -> bool:
    """Whether what runs now may `wait_for` something: else it has the loop, or is in a thread."""
    return type(greenlet.getcurrent()) is _Step


def wait_for(what: Coroutine[Any, Any, T]) -> T:
    """Let others run until this has ended; return or raise what it does. Only where one `may_wait`."""
    step = greenlet.getcurrent()
    step.waits = True
    try:
        return cast(T, step.parent.switch(what))
    finally:
        step.waits = False


@types.coroutine
def suspended(operation: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run an operation, in which plain code may wait."""
    resume: Callable[[Any], Any] = operation.send
    value: Any = None
    while True:
        step = _idle.steps.pop() if _idle.steps else _Step(_run_steps)
        here = greenlet.getcurrent()
        step.parent, step.gr_context = here, here.gr_context
        found = step.switch(resume, value)
        while step.waits:
            try:
                answer = yield from found.__await__()
            except BaseException as error:  # noqa: BLE001  # it is the operation's
                go_on, came = step.throw, error
            else:
                go_on, came = step.switch, answer
            step.parent = greenlet.getcurrent()  # another step by now, where this is part of another operation
            found = go_on(came)
        if len(_idle.steps) < _IDLE_MAX:
            _idle.steps.append(step)
        if type(found) is _Ended:
            return cast(T, found.value)
        if type(found) is _Raised:
            raise found.error
        try:
            value = yield found
            resume = operation.send
        except BaseException as error:  # noqa: BLE001  # as above
            resume, value = operation.throw, error


def _run_steps(resume: Callable[[Any], Any], value: Any) -> None:
    """Go on with operations, each until it asks the loop for something, ends or raises."""
    me = greenlet.getcurrent()
    while True:
        found: Any
        try:
            found = resume(value)
        except StopIteration as end:
            found = _Ended(end.value)
        except greenlet.GreenletExit:  # nobody goes on with it
            raise
        except BaseException as error:  # noqa: BLE001  # it is the operation's
            found = _Raised(error)
        resume = value = None  # type: ignore[assignment]  # it keeps nothing alive while it is idle
        resume, value = me.parent.switch(found)


def suspend_methods(part: R) -> R:
    """Let the async methods of an object be `suspended`, those of its own use excepted."""
    for name, _ in inspect.getmembers(type(part), inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(part, name, _suspending(getattr(part, name)))
    return part


def _suspending(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(method)
    async def call(*args: Any, **named: Any) -> Any:
        return await suspended(method(*args, **named))

    return call
