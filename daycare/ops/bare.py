"""Running something asynchronous to its end from a program that is not: an error comes as it is, without groups."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(main: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """`trio.run`, but an error comes bare, without the groups that nurseries put around it; so does an exit."""
    try:
        return trio.run(main, *args)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
