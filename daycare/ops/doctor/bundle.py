"""The bundle for bug reports: what helps to understand a fault, without secrets and without what anybody said.

Every text in it is made of what is known to be harmless, or goes through redaction and pseudonyms. It is all text, so
that its sender can read it before.
"""

import gzip
import io
import json
import os
import platform
import re
import tarfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare import __version__
from daycare.base.errors import ConflictError, DaycareError, UnavailableError
from daycare.base.secrecy import hide_key
from daycare.base.store_location import is_server
from daycare.observe.redact import without_secrets
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.ops.doctor.pseudonyms import Plainly, Pseudonyms
from daycare.ops.doctor.service import units_of
from daycare.ops.doctor.versions import libraries
from daycare.ops.probing import StoredSecrets
from daycare.plugin import CONTRACT_VERSION
from daycare.store.home import MEMORY
from daycare.store.looking import tokens_in
from daycare.store.sqlite import inspection

LOG_MAX_LINES: Final = 2_000  # some hours of a busy home
LOG_READ_BYTES: Final = 4 * 1024 * 1024  # of the file's end
VALUE_MAX_CHARS: Final = 600  # of one value of a line: a traceback's last frames
COUNT_S: Final = 20.0
_MODE: Final = 0o600
_SAID: Final = re.compile("text|prompt|result|body|reply|answer|question|said|words|arguments|query|caption")
_KEPT: Final = re.compile(  # sections of which texts are names of models, tools and choices
    "daemon|models|tools|budgets|backup|memory|notify|store|api|approvals|metrics|tracing|observe"
)
_CHOICES: Final = re.compile(  # and keys of the others
    "kind|sandbox|groups|misfire|overlap|session|cron|zone|policy|personality|load|disable|embedder|mode"
)
_LARGE: Final = 10_000  # a number of this size in a plugin's section may be somebody's account

_README: Final = """\
A report about an installation of daycare, written by `daycare doctor --bundle`.

In it are versions, what doctor found, settings without free text, how the daemon is, how many rows each table has, and
the last lines of the log, which has no conversations. Secrets are replaced by [secret]; people, agents, accounts, hosts
and folders by words such as user-1f3a2b4c, which mean the same thing in each file and in each report of this
installation. Not in it: messages, memories, documents, prompts, keys, backups, the database.

Read it before you send it. {names}
"""


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A file of the bundle, and what it is for."""

    name: str
    bytes: int
    about: str


def refuse_target(target: Path) -> None:
    """Raise `ConflictError` FILE_EXISTS, `UnavailableError` BUNDLE_UNWRITABLE before the long part begins."""
    if os.path.lexists(target):
        raise ConflictError("FILE_EXISTS", f"writing {target}: there is one", hint="choose another name")
    if not target.absolute().parent.is_dir():
        raise UnavailableError("BUNDLE_UNWRITABLE", f"writing {target}: its folder does not exist", hint="mkdir -p")


def write_bundle(
    target: Path, context: DoctorContext, findings: Sequence[DoctorFinding], *, keep_names: bool = False
) -> list[BundleMember]:
    """Write the bundle, mode 0600, and return what is in it. `keep_names` leaves names and paths as they are."""
    _hide_all(context)
    names = Plainly() if keep_names else Pseudonyms.of(context)
    said = "Names are left as they are." if keep_names else "Names left out: `daycare doctor --bundle FILE --names`."
    parts = [("README.txt", "what this is", _README.format(names=said)), *_parts(context, findings, names)]
    members, packed = [], io.BytesIO()
    now = int(time.time())
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=now) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, about, text in parts:
            data = without_secrets(text).encode(errors="backslashreplace")
            entry = tarfile.TarInfo(f"daycare-report/{name}")
            entry.size, entry.mode, entry.mtime = len(data), _MODE, now
            archive.addfile(entry, io.BytesIO(data))
            members.append(BundleMember(name, len(data), about))
    try:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, _MODE)
            file.write(packed.getvalue())
    except OSError as error:
        raise UnavailableError("BUNDLE_UNWRITABLE", f"writing {target}: {error.strerror or error}") from error
    return members


def _hide_all(context: DoctorContext) -> None:
    """Let redaction know every secret of the home, whether this program has used it or not."""
    secrets = StoredSecrets(context.home.path, context.config)
    with suppress(DaycareError):
        for name in tokens_in(context.location):
            with suppress(DaycareError):  # one that another key has sealed: nobody can read it here
                secrets.value(name)
    with suppress(OSError):
        for line in context.home.key_file.read_text(errors="replace").splitlines():
            hide_key(line.strip())


def _parts(
    context: DoctorContext, findings: Sequence[DoctorFinding], names: Pseudonyms
) -> Iterator[tuple[str, str, str]]:
    """Yield (file, what it is, its text)."""

    def shown(document: Any) -> str:
        return json.dumps(names.document(document), indent=1, ensure_ascii=False, default=str) + "\n"

    yield "findings.json", "what doctor found", shown([each.document() for each in findings])
    yield "versions.json", "versions of daycare and its libraries", shown(_versions())
    yield "system.json", "the machine: system, processors, memory", shown(_system())
    yield "config.json", "settings without free text", shown(_config(context))
    if context.status is not None:
        yield "status.json", "what the daemon says of itself", shown(context.status)
        yield "health.json", "how it finds its parts", shown(context.health)
        with suppress(DaycareError):
            told = [_plugin(each) for each in context.ask("GET", "/v1/plugins")["plugins"]]
            yield "plugins.json", "plugins and how they are", shown(told)
    if is_server(context.location) or (context.location != MEMORY and Path(context.location).exists()):
        try:
            schema, counts = inspection.tables_in(context.location, COUNT_S)
        except DaycareError as error:
            yield "tables.json", "rows in each table", shown({"problem": error.message})
        else:
            shape = None if context.inside is None else _shape(context.inside)
            yield "tables.json", "rows in each table", shown({"rows": counts, "file": shape})
            yield "schema.sql", "the database's schema", schema + "\n"
    for file, system, text in units_of(context.home.path):
        yield f"unit-{'system' if system else 'user'}-{len(file.stem)}.service", "the systemd unit", names.text(text)
    with suppress(OSError):
        yield "starts.json", "how the last runs ended", names.text(context.home.starts_file.read_text(errors="replace"))
    lines = list(_log(context.home.log_file, names))
    yield "log.jsonl", f"the last {len(lines)} lines of the log", "".join(f"{line}\n" for line in lines)


def _versions() -> dict[str, Any]:
    return {
        "daycare": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "contract": CONTRACT_VERSION,
        **inspection.versions(),
        "libraries": libraries(),
    }


def _system() -> dict[str, Any]:
    memory = 0
    with suppress(ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    release: dict[str, str] = {}
    with suppress(OSError):
        release = platform.freedesktop_os_release()
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "distribution": release.get("PRETTY_NAME", ""),
        "processors": os.cpu_count(),
        "memory_bytes": memory,
        "container": any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")),
        "systemd": Path("/run/systemd/system").is_dir(),
        "zone": time.tzname[0],
    }


def _shape(inside: inspection.Inspection) -> dict[str, Any]:
    kept = ("schema", "known", "bytes", "free_bytes", "log_bytes", "letters", "unread", "memories", "vectors", "astray")
    found: dict[str, Any] = msgspec.to_builtins(inside)
    return {name: found[name] for name in kept}


def _plugin(told: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "version", "source", "state", "crashes", "provides", "problem", "hint", "hooks")
    return {name: told.get(name) for name in kept}


def _config(context: DoctorContext) -> dict[str, Any]:
    """Return the settings in force: numbers, switches and choices as they are, of other texts how long they are."""
    found: dict[str, Any] = msgspec.to_builtins(context.config)
    return {name: _settings(value, (name,)) for name, value in found.items()} | {"readable": context.readable}


def _settings(value: Any, at: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _settings(inner, (*at, str(key))) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_settings(inner, at) for inner in value]
    if isinstance(value, str):
        plain = (
            _KEPT.fullmatch(at[0])
            or _CHOICES.fullmatch(at[-1])
            or (at[0] == "providers" and at[-1] in ("base_url", "key"))
        )
        return value if plain or not value else f"[{len(value)} characters]"
    if isinstance(value, int) and not isinstance(value, bool) and at[0] == "plugins" and abs(value) >= _LARGE:
        return "[number]"
    return value


def _log(file: Path, names: Pseudonyms) -> Iterator[str]:
    """Yield the last lines of the log, each made anew of its fields; lines that are none of ours are only counted."""
    foreign = 0
    lines: deque[str] = deque(maxlen=LOG_MAX_LINES)
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - LOG_READ_BYTES))
            if size > LOG_READ_BYTES:
                opened.readline()  # the rest of one that was cut
            lines.extend(raw.decode(errors="replace") for raw in opened)
    except OSError:
        return
    for line in lines:
        try:
            fields = json.loads(line)
        except ValueError:
            foreign += 1
            continue
        if isinstance(fields, dict):
            yield json.dumps({key: _logged(key, value, names) for key, value in fields.items()}, ensure_ascii=False)
    if foreign:
        yield json.dumps({"event": "report.lines_left_out", "count": foreign})


def _logged(key: str, value: Any, names: Pseudonyms) -> Any:
    if _SAID.fullmatch(key) and isinstance(value, str):
        return f"[{len(value)} characters]"
    treated = names.document({key: value})
    [inner] = treated.values()
    return inner[-VALUE_MAX_CHARS:] if isinstance(inner, str) else inner
