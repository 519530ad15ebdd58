"""Running something asynchronous to its end from a program that is not: an error comes as it is, without groups."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(main: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """`trio.run`, but an error comes bare, without the groups that nurseries put around it; so does an exit.

    A handler of signals raises an exit wherever it finds the program; where that is the loop itself, trio takes it for
    a defect of its own.
    """
    try:
        return trio.run(main, *args)
    except BaseExceptionGroup as group:
        raise _bared(group) from None
    except trio.TrioInternalError as error:
        cause = _bared(error.__cause__ or error)
        if isinstance(cause, SystemExit):
            raise cause from None
        raise


def _bared(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
