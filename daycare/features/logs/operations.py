"""What can be asked of the log."""

from typing import Annotated, Any, Literal

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning

LOG_LINES_MAX = 1_000
LOG_WAIT_MAX_S = 20.0  # many programs give up on an answer after 30 s

Level = Literal["debug", "info", "warning", "error"]


class ReadLog(Operation, frozen=True, kw_only=True):
    """Read the end of the log, or what was written after a cursor; waits for something new if that is asked for."""

    ROUTE = "GET /v1/log"
    lines: Annotated[int, meaning("How many lines at most, the last ones", metavar="N", ge=1, le=LOG_LINES_MAX)] = 200
    level: Annotated[Level, meaning("Only lines that are at least so grave", metavar="LEVEL")] = "debug"
    text: Annotated[str, meaning("Only lines with these words", max_length=200)] = ""
    after: Annotated[str, meaning("The cursor of an earlier answer", pattern=r"^(\d{1,20}-\d{1,18})?$")] = ""
    wait_s: Annotated[float, meaning("How long to wait for something new", ge=0, le=LOG_WAIT_MAX_S)] = 0.0


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `more` has its other fields; a line that is no JSON is all `event`."""

    at: str = ""
    level: str = "info"
    event: str = ""
    more: dict[str, Any] = {}


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, the oldest first. `cursor` is where they end; `left_out` says that there were more that fit."""

    lines: tuple[LogLine, ...]
    cursor: str
    left_out: bool = False
