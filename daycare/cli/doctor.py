"""`daycare doctor`: looks at everything a daemon needs, one line each, without changing anything."""

import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import typer

from daycare.base.errors import DaycareError
from daycare.base.limits import BACKUP_LATE
from daycare.cli.client import Client
from daycare.cli.command import Cli
from daycare.cli.render import plain, size, when
from daycare.store.home import MEMORY, Home

DISK_WARN_BYTES: Final = 1024**3
DISK_FAIL_BYTES: Final = 64 * 1024**2  # a snapshot before a migration and the write-ahead log need some


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found out."""

    level: Literal["ok", "warn", "fail"]
    about: str
    message: str
    hint: str = ""


def doctor(cli: Cli) -> None:
    """Look for what is wrong: configuration, permissions, database, key file, daemon, providers, disk space.

    Prints ok, warn or fail for each with a hint, and exits with 1 when something failed.
    """
    findings = list(examine(Home(cli.home)))
    cli.out({"findings": [asdict(each) for each in findings]}, lambda _: report(findings))
    if any(each.level == "fail" for each in findings):
        raise typer.Exit(1)


def examine(home: Home) -> Iterator[Finding]:
    """Yield one finding for each thing that a daemon needs; stops early when there is no home."""
    if not home.path.is_dir():
        yield Finding("fail", "home", f"{home.path} does not exist", "daycare init")
        return
    looks: tuple[Callable[[Home], Iterator[Finding]], ...] = (
        _home,
        _config,
        _personalities,
        _plugins,
        _database,
        _keys,
        _daemon,
        _backups,
        _disk,
    )
    for look in looks:
        try:
            yield from look(home)
        except (DaycareError, OSError) as error:
            hint = error.hint if isinstance(error, DaycareError) else ""
            message = error.message if isinstance(error, DaycareError) else str(error)
            yield Finding("fail", look.__name__.strip("_"), message, hint)


def report(findings: list[Finding]) -> str:
    """Return findings as lines for people."""
    lines = []
    for each in findings:
        lines.append(plain(f"{each.level:<5} {each.about:<10} {each.message}"))
        if each.hint and each.level != "ok":
            lines.append(plain(f"{'':<16} hint: {each.hint}"))
    return "\n".join(lines)


def _home(home: Home) -> Iterator[Finding]:
    yield _private("home", home.path, 0o700)


def _config(home: Home) -> Iterator[Finding]:
    from daycare import config

    problems = config.check(home.path)
    for problem in problems:
        yield Finding("fail", "config", str(problem), "daycare config check")
    if not problems:
        yield Finding("ok", "config", f"{home.config}, no problem found")


def _personalities(home: Home) -> Iterator[Finding]:
    from daycare.agent.personality import Personalities
    from daycare.config import load

    known = Personalities(home.personalities)
    chosen = load(home.path).agent.personality
    for name in sorted({chosen, *filter(known.is_own, known.names())}):
        try:
            known.get(name)
        except DaycareError as error:
            yield Finding("warn", "speech", error.message.replace("\n", "; "), error.hint)


def _plugins(home: Home) -> Iterator[Finding]:
    """Ask the daemon, or, without one, import plugins and read their settings."""
    client = Client(home.socket)
    if client.status() is not None:
        told = client.call("GET", "/v1/plugins")["plugins"]
        wrong = [(each["name"], each["problem"], each["hint"]) for each in told if each["problem"]]
        count = len(told)
    else:
        from daycare import config
        from daycare.plugins import extensions

        found = extensions.look(config.load(home.path), home.path)
        wrong = [(one.name, one.problem.message, one.problem.hint) for one in found if one.problem is not None]
        count = len(found)
    for name, problem, hint in wrong:
        yield Finding("warn", "plugins", f"{name}: {problem}", hint or "daycare plugins list")
    if not wrong:
        yield Finding("ok", "plugins", f"{count}, none left out")


def _database(home: Home) -> Iterator[Finding]:
    from daycare import config
    from daycare.store.sqlite import database

    location = home.database(config.load(home.path).store.location)
    if location == MEMORY:
        yield Finding("warn", "database", "messages are kept in memory and lost at the end", "[store] in the config")
    elif not Path(location).exists():
        yield Finding("warn", "database", f"{location} does not exist yet", "the first start makes it")
    elif problem := database.check(location):
        yield Finding("fail", "database", f"{location}: {problem}", "daycare restore BACKUP --force")
    else:
        yield Finding("ok", "database", f"{location}, {size(Path(location).stat().st_size)}, intact")


def _keys(home: Home) -> Iterator[Finding]:
    if home.key_file.exists():
        yield _private("keys", home.key_file, 0o600)


def _daemon(home: Home) -> Iterator[Finding]:
    client = Client(home.socket)
    now = client.status()
    if now is None:
        stale = ", a socket of a dead one is left (harmless)" if client.socket.exists() else ""
        yield Finding("warn", "daemon", f"none runs{stale}", "daycare run")
        return
    yield _private("socket", client.socket, 0o600)
    yield Finding("ok", "daemon", f"process {now['pid']} answers")
    trouble = now.get("store", {}).get("trouble")
    if trouble:
        yield Finding("fail", "store", str(trouble), "free disk space, then daycare status")
    if now.get("providers"):
        yield Finding("ok", "providers", f"{', '.join(now['providers'])}; daycare models test calls each model in use")
    else:
        yield Finding("warn", "providers", "none is configured", "daycare models")
    if now.get("dead_letters"):
        yield Finding("warn", "dead", f"{now['dead_letters']} dead letters", "daycare dead list")


def _backups(home: Home) -> Iterator[Finding]:
    from daycare import config
    from daycare.backups.engine import folder_of
    from daycare.backups.restoring import refuse_half
    from daycare.backups.shelf import scheduled_in
    from daycare.store.sqlite.copies import restored_in

    refuse_half(home)
    settings = config.load(home.path)
    section = settings.backup
    found = scheduled_in(folder_of(home, section))
    last = f"the last one is of {when(found[-1][0])}" if found else "there is none yet"
    if not section.every_ms:
        yield Finding("warn", "backup", "none is made by itself", "daycare backup /media/disk --every 24h")
    elif not found or time.time() * 1000 - found[-1][0] > BACKUP_LATE * section.every_ms:
        yield Finding("warn", "backup", f"every {section.every}, but {last}", "daycare status, then daycare logs")
    else:
        yield Finding("ok", "backup", f"every {section.every}, {last}")
    location = home.database(settings.store.location)
    restored = restored_in(location) if Path(location).exists() else None
    if restored is not None:
        told = f"this home was restored {when(restored.restored_at)}, as of {when(restored.made_at)}"
        yield Finding("ok", "restored", told)


def _disk(home: Home) -> Iterator[Finding]:
    free = shutil.disk_usage(home.path).free
    level: Literal["ok", "warn", "fail"] = (
        "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    )
    yield Finding(level, "disk", f"{size(free)} free", "free some, or move the home directory")


def _private(about: str, file: Path, mode: int) -> Finding:
    """Judge whether only the owner may reach `file`."""
    found = stat.S_IMODE(file.stat().st_mode)
    if found & 0o077:
        return Finding("fail", about, f"{file} is open to others (mode {found:04o})", f"chmod {mode:o} {file}")
    return Finding("ok", about, f"{file}, mode {found:04o}")
