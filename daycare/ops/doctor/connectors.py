"""Connectors: whether messages really come in, what each needs of this machine, and what runs in a sandbox."""

import ctypes.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import trio

from daycare.api.client import Json
from daycare.base.connector import DIRECT
from daycare.base.durations import duration
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, UnavailableError
from daycare.config import plugin_settings
from daycare.observe.redact import without_secrets
from daycare.ops import bare
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding, Level
from daycare.ops.probing import StoredSecrets, connectors_in_use, plugins_of, probe_connector

PROBE_S: Final = 15.0
STARTING_S: Final = 120.0  # a connection that is still starting then does not come up
SANDBOX_S: Final = 5.0
_LEVELS: Final[dict[str, Level]] = {
    "up": "ok",
    "off": "ok",
    "starting": "ok",
    "away": "warn",
    "stalled": "warn",
    "held": "fail",
    "conflict": "fail",
    "refused": "fail",
}
_PROBE: Final = ("--unshare-user-try", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/true")
_SPACES: Final = (  # where the kernel says that nobody but root may make namespaces, and the value that says so
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
)


def connectors(context: DoctorContext) -> Iterator[DoctorFinding]:
    """How each connection is by the daemon's word; without one, whether its credentials are taken."""
    if context.status is not None:
        states = {name: state for name, state in context.status["connectors"].items() if name != DIRECT}
        health = _plugin_health(context)
        for name, state in sorted(states.items()):
            yield _state(context, name, state, health.get(name, ""))
        if not states:
            yield DoctorFinding("ok", "connectors", "none but the terminal")
    elif context.readable and context.offline:
        yield DoctorFinding("ok", "connectors", "nobody was asked, as you wished")
    elif context.readable:
        yield from bare.run(_probed, context)
    if context.readable:
        yield from _needs(context)


def _state(context: DoctorContext, name: str, state: Json, health: str) -> DoctorFinding:
    kind = state.get("state", "up")
    since_ms = int(state.get("since") or 0)
    age_s = (context.now_ms - since_ms) / 1000 if since_ms else 0.0
    level = _LEVELS.get(kind, "warn")
    if kind == "starting" and age_s > STARTING_S:
        level = "warn"
    parts = [f"{kind}{f' for {duration(age_s)}' if since_ms and kind != 'off' else ''}"]
    parts += [text for text in (state.get("identity"), state.get("reason")) if text]
    heard = dict(context.inside.heard) if context.inside is not None else {}
    if kind == "up" and name in heard:
        parts.append(f"the last message came {duration((context.now_ms - heard[name]) / 1000)} ago")
    if health and f"{name}: {kind}" not in health:
        parts.append(health)
    return DoctorFinding(
        level, name, ", ".join(dict.fromkeys(parts)), state.get("hint") or "daycare status, then daycare logs"
    )


def _plugin_health(context: DoctorContext) -> dict[str, str]:
    """Return what plugins say of themselves, by the names of their connectors."""
    told: dict[str, str] = {}
    try:
        plugins = context.ask("GET", "/v1/plugins")["plugins"]
    except DaycareError:
        return told
    for each in plugins:
        for name in (each.get("provides") or {}).get("connectors", ()):
            told[name] = str(each.get("health") or "")
    return told


async def _probed(context: DoctorContext) -> list[DoctorFinding]:
    found: dict[str, DoctorFinding] = {}
    names = connectors_in_use(context.config, context.home.path)

    async def one(name: str) -> None:
        try:
            verified = await probe_connector(context.config, context.home.path, name, deadline_s=PROBE_S)
        except DaycareError as error:
            level: Level = "warn" if isinstance(error, UnavailableError) else "fail"
            hint = without_secrets(error.hint) or f"daycare keys add {name.replace('-', '.', 1)}"
            found[name] = DoctorFinding(level, name, without_secrets(error.message), hint)
        else:
            who = f" as {verified.identity}" if verified.identity else ""
            told = f"its credentials are taken{who}; whether messages come in shows once a daemon runs"
            found[name] = DoctorFinding("ok", name, told)

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    if not names:
        return [DoctorFinding("ok", "connectors", "none but the terminal has credentials")]
    return [found[name] for name in names]


# -- what they need ----------------------------------------------------------------------------------------------------


def _needs(context: DoctorContext) -> Iterator[DoctorFinding]:
    """What is missing on this machine for the connectors in use."""
    media = False
    for name, step, used in _steps(context):
        if not used:
            continue
        with error_boundary("SETUP_FAILED", f"asking the plugin {name} what is missing"):
            why = step.missing()
        if why:
            what, _, hint = why.partition(": ")
            yield DoctorFinding("fail", used[0], what, hint or f"doc/operate/connectors/{name.replace('_', '-')}.md")
        media = media or step.check is None  # paired by a code, so a bridge: pictures and voices pass through it
    if media or _bridges(context):
        for what, there, package in (
            ("ffmpeg", shutil.which("ffmpeg") is not None, "ffmpeg"),
            ("libmagic", ctypes.util.find_library("magic") is not None, "libmagic1"),
        ):
            if not there:
                told = f"{what} is not installed: bridges may be unable to send pictures and voices"
                yield DoctorFinding("warn", "bridges", told, f"sudo apt-get install {package}")


def _steps(context: DoctorContext) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield each plugin that can be set up, how, and its connectors in use."""
    secrets = StoredSecrets(context.home.path, context.config)
    for plugin in plugins_of(context.config):
        if plugin.wizard is not None:
            kind = plugin.config
            own = None if kind is None else plugin_settings(context.home.path, context.config, plugin.name, kind)
            with error_boundary("SETUP_FAILED", f"asking the plugin {plugin.name} for its connectors"):
                yield plugin.name, plugin.wizard, list(plugin.wizard.connectors(own, secrets.value))


def _bridges(context: DoctorContext) -> list[str]:
    """Return the names of the bridges that are configured."""
    section = context.config.plugins.settings.get("bridge") or {}
    to = section.get("to")
    found = sorted(to) if isinstance(to, dict) else []
    if (context.config.plugins.settings.get("whatsapp") or {}).get("enabled") is True:
        found.append("whatsapp")
    return found


def sandbox(context: DoctorContext) -> Iterator[DoctorFinding]:
    """What is fenced in: bridges, where bubblewrap works. Plugins and tools are the daemon itself."""
    bridges = _bridges(context)
    why, hint = _no_sandbox()
    rest = "plugins and tools run in the daemon, with its rights"
    if not bridges:
        can = why or "bubblewrap works"
        yield DoctorFinding("ok", "sandbox", f"no bridges to fence in ({can}); {rest}")
    elif why:
        told = f"{', '.join(bridges)} not fenced in: {why}"
        yield DoctorFinding("warn", "sandbox", told, hint)
    else:
        yield DoctorFinding("ok", "sandbox", f"{', '.join(bridges)} fenced in by bubblewrap; {rest}")


def _no_sandbox() -> tuple[str, str]:
    """Return why a bridge cannot be fenced in, and what to do; empty if it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed", "sudo apt-get install bubblewrap"
    try:
        done = subprocess.run([program, *_PROBE], capture_output=True, timeout=SANDBOX_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return "bubblewrap does not run here", "bwrap --version"
    if done.returncode == 0:
        return "", ""
    for file, closed in _SPACES:
        if _value(Path(file)) == closed:
            setting = file.removeprefix("/proc/sys/").replace("/", ".")
            wanted = "15000" if closed == "0" and "max" in file else "1" if closed == "0" else "0"
            return f"the kernel lets nobody make namespaces ({setting})", f"sudo sysctl {setting}={wanted}"
    told = done.stderr.decode(errors="replace").strip().splitlines()
    return f"bubblewrap does not work here ({told[-1][:120] if told else done.returncode})", "doc/operate/service.md"


def _value(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
