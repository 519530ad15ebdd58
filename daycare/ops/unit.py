"""The systemd unit of an installation: what it says, and where it lies.

A system unit is closed as far as a daemon that talks to the network can be. A user unit takes what an unprivileged
manager can enforce everywhere: file systems of its own need rights that some machines do not give.
"""

import os
import pwd
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from daycare.base.errors import BrokenError, InvalidError
from daycare.base.limits import SHUTDOWN_REST_S

MARK: Final = "# Written by `daycare service install`, which replaces it"
STATE: Final = Path("/var/lib")  # homes in here are made and owned by systemd
WATCHDOG_S: Final = 60
START_S: Final = 90  # and more while it is at work
_LINKS_MAX: Final = 16
STOP_SPARE_S: Final = 5  # after the daemon's own deadline, before systemd kills

_COMMON: Final = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
UMask=0077
"""
_SYSTEM: Final = """\
AmbientCapabilities=
CapabilityBoundingSet=
DevicePolicy=closed
KeyringMode=private
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
"""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit. `key` is a file that systemd hands in as the vault's key; `*.cred` was encrypted by `systemd-creds`.

    `jit` is for bridges whose runtime writes machine code while it runs, as that of Node and Java does.
    """

    name: str
    home: Path
    system: bool
    user: str = ""  # whose account a system unit runs in; empty: one that systemd makes up, for a home of its own
    key: Path | None = None
    jit: bool = False
    grace_s: float = 8.0
    program: tuple[str, ...] = field(default_factory=lambda: program())

    @property
    def file(self) -> Path:
        """Where it lies."""
        return folder(system=self.system) / f"{self.name}.service"

    @property
    def state(self) -> str:
        """The home's name below /var/lib, empty for one elsewhere."""
        return self.home.name if self.system and self.home.parent == STATE else ""

    def text(self) -> str:
        """Return what is in the file."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        command = " ".join(map(_word, self.program))
        home = _word(str(self.home))
        stop_s = self.grace_s + SHUTDOWN_REST_S + STOP_SPARE_S
        yield from (
            MARK + "; changes belong in `systemctl edit`.",
            "[Unit]",
            "Description=daycare, personal AI agents",
            "Documentation=man:systemd.service(5)",
            "StartLimitIntervalSec=600",
            "StartLimitBurst=10",
        )
        if self.system:
            yield from ("Wants=network-online.target", "After=network-online.target time-sync.target")
        yield from (
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStartPre={command} config check --home {home}",
            f"ExecStart={command} run --home {home}",
            f"ExecReload={command} config reload --home {home}",
            f"TimeoutStartSec={START_S}",
            f"TimeoutStopSec={stop_s:.0f}",
            f"WatchdogSec={WATCHDOG_S}",
            "KillMode=mixed",
            "Restart=on-failure",
            "RestartSec=5",
            "RestartPreventExitStatus=78",
            "OOMPolicy=stop",
            "",
        )
        yield from self._whose()
        if not self.jit:
            yield "MemoryDenyWriteExecute=yes"
        yield from _COMMON.splitlines()
        if self.system:
            yield from _SYSTEM.splitlines()
            yield from self._seen()
        yield from ("", "[Install]", f"WantedBy={'multi-user' if self.system else 'default'}.target")

    def _whose(self) -> Iterator[str]:
        if self.system:
            yield f"User={self.user}" if self.user else "DynamicUser=yes"
        if self.state:
            yield from (f"StateDirectory={self.state}", "StateDirectoryMode=0700")
        if self.key is not None:
            how = "LoadCredentialEncrypted" if self.key.suffix == ".cred" else "LoadCredential"
            yield f"{how}=daycare-key:{_path(self.key, quoted=False)}"

    def _seen(self) -> Iterator[str]:
        """Let people's own folders be out of sight, but for the home and this program."""
        yield "ProtectHome=tmpfs"
        if not self.state:
            yield f"BindPaths={_path(self.home)}" if _hidden(self.home) else f"ReadWritePaths={_path(self.home)}"
        needed = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2], Path(self.program[0]).parent]
        shown: list[Path] = []
        for path in (*needed, *_hops(Path(sys.executable))):
            if _hidden(path) and not any(path.is_relative_to(other) for other in shown):
                shown.append(path)
                yield f"BindReadOnlyPaths={_path(path)}"


def folder(*, system: bool) -> Path:
    """Return where units lie that are not a package's."""
    if system:
        return Path("/etc/systemd/system")
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if config.startswith("/") else Path.home() / ".config") / "systemd" / "user"


def program() -> tuple[str, ...]:
    """Return the absolute command of this installation, which needs no PATH and no activated environment."""
    script = Path(sys.prefix) / "bin" / "daycare"
    if script.is_file() and os.access(script, os.X_OK):
        return (str(script),)
    if not sys.executable:
        raise BrokenError(
            "PROGRAM_UNKNOWN", "finding the program of this installation: Python does not say where it is"
        )
    return (sys.executable, "-P", "-m", "daycare")


def owner_of(home: Path) -> str:
    """Return the account that a home belongs to."""
    return account(home.stat().st_uid)


def account(uid: int) -> str:
    """Return the name of an account, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def check_unit_name(name: str) -> str:
    """Return a name that a unit may have. Raises `InvalidError` UNIT_NAME."""
    if not name or len(name) > 64 or not all(sign.isascii() and (sign.isalnum() or sign in "-_") for sign in name):
        raise InvalidError("UNIT_NAME", f"naming a unit {name!r}: letters, digits, - and _ only", hint="--name daycare")
    return name


def _hidden(path: Path) -> bool:
    """Tell whether a system unit sees an empty folder instead."""
    return any(path.is_relative_to(where) for where in ("/home", "/root", "/run/user", "/tmp", "/var/tmp"))  # noqa: S108


def _hops(file: Path) -> Iterator[Path]:
    """Yield the folders that a chain of links leads through: a virtual environment's Python is one."""
    for _ in range(_LINKS_MAX):
        yield file.parent
        if not file.is_symlink():
            return
        file = Path(os.path.normpath(file.parent / file.readlink()))


def _word(text: str) -> str:
    """Return a word of a command line, as systemd reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    if any(ord(sign) < 32 for sign in text):
        raise InvalidError("PATH_UNFIT", f"writing {text!r} into a unit: it has control characters")
    return f'"{escaped}"' if any(sign in text for sign in " \t'\";") else escaped


def _path(path: Path, *, quoted: bool = True) -> str:
    """Return a path of a setting; a credential's is the rest of its line, which takes no quotes."""
    text = str(path)
    if any(ord(sign) < 32 for sign in text) or ":" in text:
        raise InvalidError("PATH_UNFIT", f"writing {text!r} into a unit: it has control characters or a colon")
    text = text.replace("%", "%%")
    if not quoted:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if any(sign in text for sign in " '\";") else escaped
