"""Whose defect it was: what foreign code raises becomes an error that names the code, and nothing else sees it."""

import traceback
from collections.abc import Iterator

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.secrecy import without_secrets
from daycare.base.wellformed import well_formed

_REASON_MAX_CHARS = 500
_CAUSES_MAX = 12  # looked at of a chain of causes; between httpx and a socket there are five
_HOSTS = ("trio", "daycare")  # whose exceptions that are no `Exception` are meant for others: being cancelled, a crash


class error_boundary:  # noqa: N801 - it reads as the statement that it is
    """Turn whatever the block raises on its own account into an `error`: `code`, and `doing: what it said`.

    Also what is no `Exception`: a plugin that calls sys.exit() means itself, and asyncio's being cancelled is nothing
    that anybody here has asked for. A `DaycareError` passes as it is. So does being cancelled or interrupted; what went
    wrong on the way out of that is dropped, because nobody waits for it any more.

    It is no generator: many small calls of foreign code are made for each turn, and each would take twice as long.
    """

    def __init__(self, code: str, doing: str, error: type[DaycareError] = UnavailableError, *, hint: str = "") -> None:
        self._code = code
        self._doing = doing
        self._error = error
        self._hint = hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, defect: BaseException | None, trace: object) -> None:
        if defect is None or isinstance(defect, DaycareError):
            return
        own: BaseException | None = defect
        if isinstance(defect, BaseExceptionGroup):
            own, others = defect.split(_is_its_own)
            if others is not None:
                raise others from None
        elif not _is_its_own(defect):
            return
        assert own is not None
        raise self._error(self._code, f"{self._doing}: {reason_of(own)}", hint=self._hint) from defect


def _is_its_own(error: BaseException) -> bool:
    """Whether code has raised something on its own account."""
    if isinstance(error, Exception | SystemExit):
        return True
    host = type(error).__module__.partition(".")[0]
    return not isinstance(error, KeyboardInterrupt | GeneratorExit | BaseExceptionGroup) and host not in _HOSTS


def origin_of(error: BaseException) -> tuple[str, str]:
    """Return the class of an error, or of the first of a group, and the last places it came through, without values."""
    inner = _first(error)
    return type(inner).__name__, "".join(traceback.format_tb(inner.__traceback__)[-4:])


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


def reason_of(error: BaseException) -> str:
    """Return in a line, without secrets, what an error or the first one of a group says."""
    error = _first(error)
    said = _words(error) if isinstance(error, DaycareError) else f"{type(error).__name__}: {_words(error)}"
    return " ".join(without_secrets(well_formed(said)).split())[:_REASON_MAX_CHARS]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _words(error: BaseException) -> str:
    """Return what an error says, cut to what is looked at for secrets; one that cannot even say it says nothing."""
    try:
        return str(error)[: 10 * _REASON_MAX_CHARS]
    except Exception:  # noqa: BLE001 - it is foreign code that is asked, and blamed already
        return "(and it cannot say why)"
