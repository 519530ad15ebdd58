"""Plain code that lets others run while it waits, where it was called by an operation that is `suspended`.

The operations of the store are written once for both engines, and ask it as one asks a file: with a call that returns
the answer. Under `suspended` each step of such an operation runs in a greenlet of its own. Where that waits for
something, the greenlet stands still, and the task waits as any other does: with deadlines and cancellation.
"""

import inspect
import types
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, TypeVar, cast

import greenlet

T = TypeVar("T")
R = TypeVar("R")


class _Step(greenlet.greenlet):  # type: ignore[misc]  # it has no types
    """A step of an operation; its parent is what runs the loop, and goes on with what it is to wait for."""


def may_wait() -> bool:
    """Whether what runs now may `wait_for` something: else it has the loop, or is in a thread."""
    return type(greenlet.getcurrent()) is _Step


def wait_for(what: Coroutine[Any, Any, T]) -> T:
    """Let others run until this has ended; return or raise what it does. Only where one `may_wait`."""
    return cast(T, greenlet.getcurrent().parent.switch(what))


@types.coroutine
def suspended(operation: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run an operation, in which plain code may wait."""
    resume: Callable[[Any], Any] = operation.send
    value: Any = None
    while True:
        step = _Step(_ending)
        step.gr_context = greenlet.getcurrent().gr_context
        found = step.switch(resume, value)
        while not step.dead:  # it waits in the midst of plain code
            try:
                answer = yield from found.__await__()
            except BaseException as error:  # noqa: BLE001  # it is the operation's
                go_on, came = step.throw, error
            else:
                go_on, came = step.switch, answer
            step.parent = greenlet.getcurrent()  # another step by now, where this is part of another operation
            found = go_on(came)
        if type(found) is _Ended:
            return cast(T, found.value)
        try:
            value = yield found
            resume = operation.send
        except BaseException as error:  # noqa: BLE001  # as above
            resume, value = operation.throw, error


def suspend_methods(part: R) -> R:
    """Let the async methods of an object be `suspended`, those of its own use excepted."""
    for name, method in inspect.getmembers(part, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(part, name, _suspending(method))
    return part


def _suspending(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(method)
    async def call(*args: Any, **named: Any) -> Any:
        return await suspended(method(*args, **named))

    return call


def _ending(resume: Callable[[Any], Any], value: Any) -> Any:
    try:
        return resume(value)
    except StopIteration as end:
        return _Ended(end.value)


class _Ended:
    """What an operation returned, in the place of what it asks the loop for."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
