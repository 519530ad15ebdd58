"""Whose defect it was: what foreign code raises becomes an error that names the code, and nothing else sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from daycare.base.errors import DaycareError, UnavailableError

_REASON_MAX_CHARS = 500
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


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) if isinstance(error, DaycareError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:_REASON_MAX_CHARS]
