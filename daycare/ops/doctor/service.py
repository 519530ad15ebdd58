"""The service: whether a systemd unit keeps the daemon running, and how its last runs ended."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from daycare.base.english import plural
from daycare.base.limits import UNCLEAN_STARTS_MAX
from daycare.base.times import when
from daycare.ops.crash_log import CrashRecord
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.ops.systemctl import Systemctl
from daycare.ops.unit import MARK, Unit, account, folder

LINGER: Final = Path("/var/lib/systemd/linger")
_FILE_MAX_BYTES: Final = 16 * 1024


def service(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Each unit of this home: as this version would write it, enabled, active, and kept when its owner logs out."""
    units = units_of(context.home.path)
    if not units:
        yield DoctorFinding("ok", "service", "no unit keeps it running; daycare service install makes one")
    for file, system, text in units:
        flag = " --system" if system else ""
        name = "" if file.stem == "daycare" else f" --name {file.stem}"
        install = f"{'sudo ' if system else ''}daycare service install{flag}{name}"
        wanted, options = _wanted(context, file, system=system, text=text)
        if text != wanted:
            yield DoctorFinding("warn", "service", f"{file} is not as this version would write it", install + options)
        yield from _managed(context, file, system=system, install=install + options)
        if not system and not os.path.lexists(LINGER / account(os.geteuid())):
            yield DoctorFinding("warn", "service", "the daemon ends when you log out", "loginctl enable-linger")
    yield from _starts(context)


def units_of(home: Path) -> list[tuple[Path, bool, str]]:
    """Return the units that run this home, as (file, of the machine, text)."""
    found = []
    for system in (False, True):
        for file in sorted(folder(system=system).glob("*.service")):
            try:
                text = file.read_text(errors="replace")
            except OSError:
                continue
            if text.startswith(MARK) and _home_of(text) == str(home):
                found.append((file, system, text))
    return found


def _home_of(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("ExecStart="):
            try:
                words = shlex.split(line.removeprefix("ExecStart=").replace("%%", "%").replace("$$", "$"))
            except ValueError:
                return ""
            return words[-1] if "--home" in words else ""
    return ""


def _wanted(context: DoctorContext, file: Path, *, system: bool, text: str) -> tuple[str, str]:
    """Return the unit that this version would write with the choices in `text`, and the options that make them."""
    lines = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    credential = lines.get("LoadCredential") or lines.get("LoadCredentialEncrypted") or ""
    path = credential.partition(":")[2].replace("%%", "%")
    jit = "MemoryDenyWriteExecute" not in lines
    unit = Unit(
        name=file.stem,
        home=context.home.path,
        system=system,
        user=lines.get("User", ""),
        key=Path(path) if path else None,
        jit=jit,
        grace_s=context.config.daemon.shutdown_grace_s,
    )
    return unit.text(), (f" --key {shlex.quote(path)}" if path else "") + (" --jit" if jit else "")


def _managed(context: DoctorContext, file: Path, *, system: bool, install: str) -> Iterator[DoctorFinding]:
    manager = Systemctl(system)
    if not manager.works():
        told = f"{file} is installed, and systemd does not answer here"
        yield DoctorFinding("warn", "service", told, "daycare run" if not context.running else "daycare status")
        return
    shown = manager.show(file.name)
    command = "systemctl" if system else "systemctl --user"
    if shown.get("UnitFileState") not in ("enabled", "enabled-runtime", "static"):
        told = f"{file.name} is {shown.get('UnitFileState') or 'not'} enabled"
        yield DoctorFinding("warn", "service", told, f"{command} enable {file.stem}")
    active = shown.get("ActiveState")
    restarts = int(shown.get("NRestarts") or 0)
    if active == "failed":
        told = f"{file.name} has failed ({shown.get('Result')})"
        yield DoctorFinding("fail", "service", told, f"daycare service logs; then {command} restart {file.stem}")
    elif active != "active":
        yield DoctorFinding("warn", "service", f"{file.name} is {active or 'unknown'}", install)
    elif context.status is not None and shown.get("MainPID") != str(context.status["pid"]):
        told = f"{file.name} is not the daemon that answers, process {context.status['pid']}"
        yield DoctorFinding("warn", "service", told, f"daycare stop; {command} restart {file.stem}")
    else:
        again = f", started again {restarts} {plural('time', restarts)}" if restarts else ""
        yield DoctorFinding("ok", "service", f"{file.name} is active since {shown.get('ActiveEnterTimestamp')}{again}")


def _starts(context: DoctorContext) -> Iterator[DoctorFinding]:
    """How the last runs ended, by what the daemon notes of its starts."""
    try:
        with context.home.starts_file.open("rb") as opened:
            record = msgspec.json.decode(opened.read(_FILE_MAX_BYTES), type=CrashRecord)
    except FileNotFoundError:
        return
    except ValueError:
        yield DoctorFinding(
            "warn", "starts", f"{context.home.starts_file} cannot be read (harmless)", "daycare restart"
        )
        return
    held = [name for name, each in ((context.status or {}).get("connectors") or {}).items() if each["state"] == "held"]
    if held:
        told = f"the breaker is open: {', '.join(held)} kept down after {len(record.unclean)} crashes"
        yield DoctorFinding("fail", "starts", told, "daycare logs; then daycare stop; daycare run --no-breaker")
    elif not context.running and context.holder is None and record.running_since is not None:
        told = f"the run that began {when(record.running_since)} did not end in order"
        yield DoctorFinding("warn", "starts", told, "daycare logs, then daycare run")
    elif record.unclean:
        count = len(record.unclean)
        told = f"{count} {plural('start', count)} lately followed a crash; the last {when(record.unclean[-1])}"
        worse = count >= UNCLEAN_STARTS_MAX
        yield DoctorFinding("fail" if worse else "warn", "starts", told, "daycare logs")
