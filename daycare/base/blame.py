"""Whose defect it was: what foreign code raises becomes an error that names the code, and nothing else sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.secrecy import without_secrets

_REASON_MAX_CHARS = 500
_CAUSES_MAX = 12  # looked at of a chain of causes; between httpx and a socket there are five
_LEAVING = (Exception, SystemExit)  # a plugin that calls sys.exit() means itself


@contextmanager
def blamed(code: str, doing: str) -> Iterator[None]:
    """Turn whatever the block raises on its own account into a `DaycareError`: `code`, and `doing: what it said`.

    A `DaycareError` passes as it is. So does being cancelled or interrupted; what went wrong on the way out of that is
    dropped, because nobody waits for it any more.
    """
    try:
        yield
    except DaycareError:
        raise
    except BaseExceptionGroup as group:
        own, foreign = group.split(_LEAVING)
        if foreign is not None:
            raise foreign from None
        assert own is not None
        raise UnavailableError(code, f"{doing}: {_reason(own)}") from group
    except _LEAVING as defect:
        raise UnavailableError(code, f"{doing}: {_reason(defect)}") from defect


def causes(error: BaseException) -> Iterator[BaseException]:
    """Return an error and what it comes from, the nearest first."""
    waiting: list[BaseException] = [error]
    for _ in range(_CAUSES_MAX):
        if not waiting:
            return
        found = waiting.pop(0)
        yield found
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions
        if (cause := found.__cause__ or found.__context__) is not None:
            waiting.append(cause)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) if isinstance(error, DaycareError) else f"{type(error).__name__}: {error}"
    return " ".join(without_secrets(said).split())[:_REASON_MAX_CHARS]
