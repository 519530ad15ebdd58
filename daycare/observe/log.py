"""The log: JSON lines in a file that rotates, readable lines on stderr, and no secrets in either.

What people and agents say is not logged, only how much.
"""

import json
import logging
import os
import stat
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TextIO

import msgspec

from daycare.base import events
from daycare.base.connector import DIRECT
from daycare.base.errors import UnavailableError
from daycare.base.times import local_time
from daycare.observe.bus import Bus, Gap
from daycare.observe.redact import redact, without_secrets
from daycare.observe.streams import Redacted

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger  # structlog is imported late: it costs a tenth of a second

LOG_FILES_KEPT: Final = 3  # full log files beside the current one
LOG_VALUE_MAX_CHARS: Final = 2_000  # of one field of a log line

_NUMBERS_MAX: Final = 5  # of one field: those of fifty memories make a kilobyte a turn. Traces stand whole
_ROOT: Final = "daycare"
_CHATTY: Final = (
    "httpx",
    "httpcore",
    "hypercorn",
    "asyncio",
    "telegram",
)  # they log every request, with its URL

_ours: list[logging.Handler] = []


# -- setting up ------------------------------------------------------------------------------------------------------


def configure(
    level: str, file: Path | None = None, *, stderr: bool = False, max_mb: int = 10, pretty: bool = True
) -> None:
    """Send the log of the whole process to `file` (mode 0600, kept under `max_mb` MB) and to stderr.

    The file has JSON lines, stderr, too, unless they are to be `pretty`.
    `level` is debug, info, warning or error. Called again, it replaces what was set up; with neither file nor stderr
    it ends the log. Raises `UnavailableError` when the file cannot be opened.
    """
    _load()
    import structlog

    number = logging.getLevelNamesMapping()[level.upper()]
    handlers: list[logging.Handler] = []
    if file is not None:
        handlers.append(_file_handler(file, max_mb))
    if stderr:
        err = sys.stderr
        handlers.append(_Terminal(err.stream if isinstance(err, Redacted) else err))  # a line is redacted once
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _add_time,
        structlog.processors.format_exc_info,
        redact,  # once for all who are told
    ]
    for handler in handlers:
        render = _readable if pretty and isinstance(handler, _Terminal) else _as_json
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=shared,
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
            )
        )
    root = logging.getLogger()
    for old in _ours:
        root.removeHandler(old)
        old.close()
    _ours[:] = handlers or [logging.NullHandler()]
    for handler in _ours:
        root.addHandler(handler)
    _level(number)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _load() -> None:
    """Import structlog without what it takes where it is there and nobody here uses, 4 MB and 50 ms.

    Those are rich, with which it could draw tracebacks, and greenlet, for contexts of threads that are none.
    """
    if "structlog" in sys.modules:
        return
    missed = {"rich", "greenlet"} - sys.modules.keys()
    sys.modules |= dict.fromkeys(missed)  # type: ignore[arg-type]
    import structlog  # noqa: F401

    for name in missed:
        del sys.modules[name]


def adjust(level: str, max_mb: int) -> None:
    """Tell as much as that from now on, and keep so much of it. Does nothing where there is no log."""
    import structlog

    if not _ours:
        return
    _level(logging.getLevelNamesMapping()[level.upper()])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.getLogger().level))
    for handler in _ours:
        if isinstance(handler, _PrivateFile):
            handler.maxBytes = _each(max_mb)


def _level(number: int) -> None:
    logging.getLogger().setLevel(number)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def logger(name: str = _ROOT) -> "FilteringBoundLogger":
    """Return a logger: `logger().warning("what.happened", path=..., trace=...)`."""
    import structlog

    made: FilteringBoundLogger = structlog.get_logger(name)
    return made


# -- lines -----------------------------------------------------------------------------------------------------------


def _add_time(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.setdefault("at", datetime.now(UTC).isoformat(timespec="milliseconds"))
    return event


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    first = {key: event.pop(key) for key in ("at", "level", "logger", "event") if key in event}
    return json.dumps({**first, **event}, ensure_ascii=False)


def _readable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    at = datetime.fromisoformat(event.pop("at")).astimezone().strftime("%H:%M:%S")
    level, name = event.pop("level", ""), event.pop("logger", _ROOT)
    trouble = event.pop("exception", "")
    what = _word(event.pop("event", ""), " ")
    fields = [f"{key}={_word(value)}" for key, value in event.items()]
    line = " ".join([f"{at} {level:7} {what}", *fields, *([f"({name})"] if name != _ROOT else [])])
    return "\n  ".join([line, *(_word(row, ' "') for row in trouble.splitlines())])


def _word(value: Any, allowed: str = "") -> str:
    """Return text that cannot steer a terminal: quoted if it holds anything but visible characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.isprintable() and not any(sign in text for sign in ' "' if sign not in allowed):
        return text or "-"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in f'"{text}"')


class _Terminal(logging.StreamHandler[TextIO]):
    """stderr."""


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner reads, and whose trouble (a full disk) is told once and costs nobody anything."""

    _told = False
    _last: tuple[logging.LogRecord, str] | None = None

    def _open(self) -> IO[str]:  # type: ignore[override]
        fd = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.fchmod(fd, 0o600)
        return os.fdopen(fd, "a", encoding="utf-8", errors="backslashreplace")

    def format(self, record: logging.LogRecord) -> str:
        if self._last is None or self._last[0] is not record:  # asked twice: for the size and for the file
            self._last = (record, super().format(record))
        return self._last[1]

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802
        """Tell whether a line goes to a new file, of the open one: the library looks at the path twice for each."""
        if self.stream is None:
            self.stream = self._open()  # type: ignore[assignment]
        assert self.stream is not None
        opened = os.fstat(self.stream.fileno())
        fits = opened.st_size + len(self.format(record)) + 1 < self.maxBytes  # with its end
        return self.maxBytes > 0 and not fits and stat.S_ISREG(opened.st_mode)

    def close(self) -> None:
        with suppress(OSError):  # what a full disk did not take
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        if not self._told:
            self._told = True
            sys.stderr.write(f"daycare: the log {self.baseFilename} cannot be written: {sys.exc_info()[1]}\n")


def _file_handler(file: Path, max_mb: int) -> logging.Handler:
    try:
        return _PrivateFile(file, maxBytes=_each(max_mb), backupCount=LOG_FILES_KEPT)
    except OSError as error:
        raise UnavailableError(
            "LOG_UNUSABLE", f"opening the log {file}: {error.strerror or error}", hint="daycare doctor"
        ) from error


def _each(max_mb: int) -> int:
    """Return how large each file may become."""
    return max_mb * 1024 * 1024 // (LOG_FILES_KEPT + 1)


# -- events ----------------------------------------------------------------------------------------------------------

_NEVER: Final = "never"
_LEVELS: Final[Mapping[type[events.Event], str]] = {
    events.TurnDelta: _NEVER,  # a preview, a hundred a second
    events.AgentWoke: "debug",
    events.AgentSlept: "debug",
    events.MessageAccepted: "debug",  # a line costs 0.2 ms; the turn's own line has the trace id
    events.TurnStarted: "debug",
    events.ToolStarted: "debug",
    events.ModelCalled: "debug",
    events.MemoryRecalled: "debug",  # where it fell short it is told
    events.AgentParked: "warning",
    events.TurnFailed: "warning",
    events.ModelFailed: "warning",
    events.ProviderAway: "warning",
    events.CompactionFailed: "warning",
    events.IdentityHeld: "warning",
    events.RowSetAside: "warning",
    events.EmbedderAway: "warning",
    events.MemoryAway: "warning",
    events.DeadLettered: "warning",
    events.DeliveryFailed: "warning",
    events.PluginFailed: "warning",
    events.CronMissed: "warning",
    events.CronFailed: "warning",
    events.CronBroken: "warning",
    events.ConfigRefused: "warning",
    events.DiskTrouble: "error",
    events.LaneBroke: "error",
    events.PartCrashed: "error",
}
_NUMBERS: Final = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()} | {_NEVER: -1}
_SAID: Final = "reply"  # the field that is conversation


async def follow(bus: Bus) -> None:
    """Write each event that the bus has or gets as one line, until the bus is closed. Run one, in its own task."""
    async with bus.subscribe(after=bus.start, here=True) as found:
        async for _, event in found:
            try:
                write(event)
            except Exception:  # noqa: BLE001 - one event that cannot be written must not end the log
                logger().exception("log.unwritable", of=type(event).__name__)


def _level_of(event: events.Event) -> str:
    match event:
        case events.ReplySent(connector=connector) if connector == DIRECT:
            return "debug"  # a program took it, whose turn has a line
        case events.DiskTrouble(cleared=True) | events.ProviderAway(cleared=True):
            return "info"
        case events.MemoryRecalled() if event.without:
            return "info"
        case _:
            return _LEVELS.get(type(event), "info")


def write(event: events.Event | Gap) -> None:
    """Write one event as one line."""
    if isinstance(event, Gap):
        logger().warning("log.gap", missed=event.missed)
        return
    level = _level_of(event)
    if not logging.getLogger(_ROOT).isEnabledFor(_NUMBERS[level]):
        return
    fields = msgspec.to_builtins(event)
    name = fields.pop("event")
    at_ms = fields.pop("at_ms")
    at = local_time(at_ms, UTC).isoformat(timespec="milliseconds")
    known = ("path", "agent_id", "turn", "trace")
    line: dict[str, Any] = {key.removesuffix("_id"): fields.pop(key) for key in known if fields.get(key)}
    for key, value in fields.items():
        if key == _SAID:
            line[f"{key}_chars"] = len(value)
        elif isinstance(value, list | tuple) and len(value) > _NUMBERS_MAX and isinstance(value[0], int | float):
            line[key], line[f"{key}_more"] = value[:_NUMBERS_MAX], len(value) - _NUMBERS_MAX  # events have all of them
        else:
            # Cut after it was redacted: of a secret that is cut nobody knows any more that it is one.
            line[key] = without_secrets(value)[:LOG_VALUE_MAX_CHARS] if isinstance(value, str) else value
    getattr(logger(), level)(name, at=at, **line)
