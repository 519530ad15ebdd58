"""`daycare service`: the daemon as a systemd unit of your account or of the machine."""

import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from daycare.api.client import Json
from daycare.base.errors import (
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.cli.command import Cli, command, shown_below
from daycare.cli.render import pairs, plain
from daycare.ops.systemctl import Systemctl, told
from daycare.store.home import Home, HomeLock

if TYPE_CHECKING:
    from daycare.ops.unit import Unit

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Keep the daemon running: as a systemd unit that starts by itself.",
    epilog=shown_below("daycare service install\ndaycare service status"),
)

System = Annotated[bool, typer.Option("--system", help="A unit of the machine (needs root), not of your account.")]
Name = Annotated[str, typer.Option(metavar="NAME", help="What the unit is called.")]
Key = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The vault's key, handed in by systemd; *.cred was made by systemd-creds."),
]
_NAME: Final = "daycare"


@command(app, "install", examples="daycare service install\nsudo .venv/bin/daycare service install --system")
def install(
    cli: Cli,
    *,
    system: System = False,
    name: Name = _NAME,
    key: Key = None,
    jit: Annotated[bool, typer.Option("--jit", help="For bridges written in Node or Java.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written and run.")] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit and nothing else.")] = False,
) -> None:
    """Write the unit, enable it and start it; where systemd does not answer, say which commands are left to run.

    It shows what it writes. Run again it changes what is different and nothing else.
    """
    unit = _unit(cli, system=system, name=name, key=key, jit=jit)
    text = unit.text()
    if only_print:
        print(text, end="")
        return
    _refuse_new(unit)
    before = _ours(unit)
    manager = Systemctl(system)
    works = manager.works()
    held = _held(unit, manager, works=works)
    active = works and manager.show(unit.file.name).get("ActiveState") == "active"
    todo = _commands(manager, unit, changed=before != text, active=active, held=held)
    facts: Json = {
        "unit": str(unit.file),
        "home": str(unit.home),
        "change": "written" if before is None else "changed" if before != text else "unchanged",
        "commands": [told(each) for each in todo],
        "text": text,
        "dry_run": dry_run,
        "started": False,
        "hint": held,
    }
    if not cli.json:
        print(_shown(facts, before))
    if not dry_run:
        if before != text:
            _write(unit, text)
        if works:
            for each in todo:
                _do(manager, each)
            facts["started"] = not held
    cli.out(facts, lambda facts: _outcome(facts, works=works))


@command(app, "uninstall", examples="daycare service uninstall\nsudo daycare service uninstall --system")
def uninstall(cli: Cli, *, system: System = False, name: Name = _NAME) -> None:
    """Stop the unit and remove it. The home with everything in it stays."""
    from daycare.ops.unit import Unit, check_unit_name

    unit = Unit(name=check_unit_name(name), home=cli.home, system=system)
    manager = Systemctl(system)
    works = manager.works()
    found = _ours(unit) is not None
    if found and works:
        manager.run("disable", "--now", unit.file.name)
    if found:
        _may(unit.file, unit.file.unlink)
        for wanted in unit.file.parent.glob(f"*.target.wants/{unit.file.name}"):
            _may(wanted, wanted.unlink)
    if works:
        with suppress(DaycareError):
            manager.run("daemon-reload")
            manager.run("reset-failed", unit.file.name)  # fails where nothing had failed
    todo = [manager.command("stop", unit.file.name), manager.command("daemon-reload")]
    left = [told(each) for each in todo] if found and not works else []
    facts = {"unit": str(unit.file), "removed": found, "commands": left}
    lines = [f"removed {unit.file}" if found else f"{unit.file} is not there", "the home stays as it is"]
    cli.out(facts, lambda _: "\n".join([*lines, *(f"left to run: {each}" for each in left)]))


@command(app, "status", examples="daycare service status --json")
def status(cli: Cli, *, system: System = False, name: Name = _NAME) -> None:
    """Show how the unit is, in systemd's words and the daemon's own."""
    from daycare.ops.unit import Unit, check_unit_name

    unit = Unit(name=check_unit_name(name), home=cli.home, system=system)
    if not unit.file.exists():
        hint = f"daycare service install{' --system' if system else ''}"
        raise NotFoundError("SERVICE_MISSING", f"show {unit.file}: it is not installed", hint=hint)
    manager = Systemctl(system)
    if not manager.works():
        raise UnavailableError(
            "SYSTEMD_AWAY", f"ask systemd for {unit.file.name}: it does not answer here", hint="daycare status"
        )
    shown = manager.show(unit.file.name)
    facts: Json = {
        "unit": str(unit.file),
        "active": shown.get("ActiveState", ""),
        "state": shown.get("SubState", ""),
        "enabled": shown.get("UnitFileState", ""),
        "pid": int(shown.get("MainPID") or 0),
        "since": shown.get("ActiveEnterTimestamp", ""),
        "says": shown.get("StatusText", ""),
        "result": shown.get("Result", ""),
        "restarts": int(shown.get("NRestarts") or 0),
    }
    cli.out(facts, lambda facts: pairs((label, plain(value)) for label, value in facts.items()))


@command(app, "logs", examples="daycare service logs -f")
def logs(
    cli: Cli,
    *,
    system: System = False,
    name: Name = _NAME,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new lines until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("-n", "--lines", help="How many of the last lines.", min=0)] = 50,
) -> None:
    """Show what systemd kept of the unit: starts, ends and what was written to stderr. With --json as JSON lines."""
    from daycare.ops.unit import check_unit_name

    program = shutil.which("journalctl")
    if program is None:
        raise UnavailableError("JOURNAL_AWAY", "read the journal: there is no journalctl here", hint="daycare logs")
    words = [program, "--unit" if system else "--user-unit", f"{check_unit_name(name)}.service", "--lines", str(count)]
    words += ["--no-pager", *(["--follow"] if follow else []), *(["--output=json"] if cli.json else [])]
    sys.stdout.flush()
    os.execv(program, words)  # noqa: S606


# -- what is to be done ------------------------------------------------------------------------------------------------


def _unit(cli: Cli, *, system: bool, name: str, key: Path | None, jit: bool) -> "Unit":
    from daycare import config
    from daycare.ops.unit import STATE, Unit, check_unit_name, owner_of

    home = cli.home
    if system and not _there(Home(home).config) and home == Home.default().path and "DAYCARE_HOME" not in os.environ:
        home = STATE / check_unit_name(name)  # nobody's own: systemd makes it, and an account for it
    own = home.parent == STATE
    if key is not None and not key.is_absolute():
        key = key.absolute()
    if key is not None and not key.exists():
        raise InvalidError(
            "KEY_MISSING", f"hand {key} to the unit: it does not exist", hint="doc/operate/service.md shows how"
        )
    if key is None and system and _there(Home(home).key_file):
        key = Home(home).key_file
    problems = config.check(home)
    grace_s = config.Config().daemon.shutdown_grace_s if problems else config.load(home).daemon.shutdown_grace_s
    user = owner_of(home) if system and not own and _there(home) else ""
    return Unit(name=check_unit_name(name), home=home, system=system, user=user, key=key, jit=jit, grace_s=grace_s)


def _there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False also for what may not be looked at


def _refuse_new(unit: "Unit") -> None:
    if not unit.state and not _there(Home(unit.home).config):
        raise NotFoundError(
            "HOME_MISSING",
            f"install a service for {unit.home}: it is not set up",
            hint=f"daycare init --home {unit.home}",
        )


def _ours(unit: "Unit") -> str | None:
    """Return the unit that is there. Raises `ConflictError` for one that somebody else wrote."""
    from daycare.ops.unit import MARK

    try:
        text = unit.file.read_text(errors="replace")
    except FileNotFoundError:
        return None
    if not text.startswith(MARK):
        raise ConflictError(
            "UNIT_FOREIGN", f"use {unit.file}: daycare did not write it", hint="move it away, or choose another --name"
        )
    return text


def _held(unit: "Unit", manager: Systemctl, *, works: bool) -> str:
    """Return what to do about a daemon that has the home already and is not the unit's, empty if there is none."""
    holder = HomeLock(Home(unit.home)).holder() if unit.home.is_dir() and os.access(unit.home, os.X_OK) else None
    if holder is None or holder.mode != "run":
        return ""
    if works and manager.show(unit.file.name).get("MainPID") == str(holder.pid):
        return ""
    return f"{holder} has the home: daycare stop, then {told(manager.command('start', unit.file.name))}"


def _commands(manager: Systemctl, unit: "Unit", *, changed: bool, active: bool, held: str) -> list[list[str]]:
    file = unit.file.name
    found = [manager.command("daemon-reload")] if changed else []
    found.append(manager.command("enable", file))
    if not held:
        found += [manager.command("restart" if changed and active else "start", file)] if changed or not active else []
    if not unit.system and not _lingers():
        found.append(["loginctl", "enable-linger"])  # else it ends when its owner logs out
    return found


def _lingers() -> bool:
    from daycare.ops.unit import account

    return _there(Path("/var/lib/systemd/linger") / account(os.geteuid()))


def _do(manager: Systemctl, words: list[str]) -> None:
    if words[0] == "systemctl":
        manager.run(*(word for word in words[1:] if word != "--user"))
        return
    program = shutil.which(words[0])
    done = subprocess.run([program, *words[1:]], capture_output=True, check=False, timeout=30) if program else None  # noqa: S603
    if done is None or done.returncode:
        print(f"warning: {' '.join(words)} failed: the daemon ends when you log out", file=sys.stderr)


def _write(unit: "Unit", text: str) -> None:
    def write() -> None:
        unit.file.parent.mkdir(parents=True, exist_ok=True)
        beside = unit.file.with_name(f".{unit.file.name}.new")
        beside.write_text(text)
        beside.chmod(0o644)
        beside.replace(unit.file)

    _may(unit.file, write)


def _may(file: Path, change: Callable[[], None]) -> None:
    from daycare.ops.unit import program

    try:
        change()
    except PermissionError as error:
        raise ForbiddenError(
            "UNIT_FORBIDDEN", f"change {file}: {error.strerror}", hint=f"with sudo: {' '.join(program())} service ..."
        ) from error
    except OSError as error:
        raise UnavailableError("UNIT_UNWRITABLE", f"change {file}: {error.strerror or error}") from error


# -- what is shown -----------------------------------------------------------------------------------------------------


def _shown(facts: Json, before: str | None) -> str:
    if facts["change"] == "written":
        return f"{facts['unit']}:\n\n{facts['text']}"
    if facts["change"] == "unchanged":
        return f"{facts['unit']} is as it should be"
    assert before is not None
    lines = difflib.unified_diff(
        before.splitlines(), facts["text"].splitlines(), "as it is", "as it will be", lineterm=""
    )
    return "\n".join([facts["unit"], *lines])


def _outcome(facts: Json, *, works: bool) -> str:
    lines = [f"note: {facts['hint']}"] if facts["hint"] else []
    if facts["dry_run"] or not works:
        why = "nothing was changed; it would run" if facts["dry_run"] else "systemd does not answer here; left to run"
        return "\n".join([*lines, f"{why}:", *(f"  {each}" for each in facts["commands"])])
    return "\n".join([*lines, "it runs: daycare service status" if facts["started"] else "enabled, not started"])
