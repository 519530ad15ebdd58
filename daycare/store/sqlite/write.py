"""A write on its way: what is asked of the writer, and what it comes to."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec
import trio

T = TypeVar("T")


class Write(msgspec.Struct, Generic[T], eq=False):
    """A write on its way, and what it came to: the task that asked for it goes on with it as its outcome.

    To make one of trio's outcomes of it, which is checked and kept once more, takes longer than the way here and back.
    One that is `alone` is given the connection, and no transaction.
    """

    fn: Callable[[Any], T]
    size: int
    task: trio.lowlevel.Task | None
    user: str = ""
    alone: bool = False
    value: T | None = None
    error: BaseException | None = None

    def carry_out(self, given: object) -> BaseException | None:
        """Run it, and return what it raised."""
        try:
            self.value = self.fn(given)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the write was asked for
            self.error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        else:
            self.error = None  # it may have been tried before
        return self.error

    def unwrap(self) -> T:
        """Return what it returned, or raise what it raised; once, as trio does."""
        if self.error is None:
            return cast(T, self.value)
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error  # it knows this frame

    def forget(self, _: object) -> trio.lowlevel.Abort:
        """The caller was cancelled: nobody waits for the outcome any more."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED
