"""Talking to systemd: its commands, run or only told."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daycare.api.client import Json
from daycare.base.errors import UnavailableError

COMMAND_S: Final = 30.0
START_S: Final = 150.0  # a unit is started when the daemon answers; it may have a database to bring up to date
_SHOWN: Final = (
    "ActiveState",
    "SubState",
    "UnitFileState",
    "MainPID",
    "Result",
    "StatusText",
    "NRestarts",
    "ActiveEnterTimestamp",
    "FragmentPath",
)


@dataclass(frozen=True)
class Systemctl:
    """The manager of the machine (`system`), or of the account that runs this."""

    system: bool

    def command(self, *words: str, program: str = "systemctl") -> list[str]:
        """Return a command line for this manager."""
        return [program, *(() if self.system else ("--user",)), *words]

    def works(self) -> bool:
        """Tell whether the manager answers: it does not in most containers, and over `su`."""
        return shutil.which("systemctl") is not None and self._run("show", "--property=Version").returncode == 0

    def show(self, unit: str) -> Json:
        """Return what the manager knows of a unit."""
        told = self._run("show", f"--property={','.join(_SHOWN)}", unit).stdout
        return dict(line.partition("=")[::2] for line in told.splitlines() if "=" in line)

    def run(self, *words: str) -> None:
        """Run a command. Raises `UnavailableError` SYSTEMCTL_FAILED with what it said."""
        done = self._run(*words)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise UnavailableError(
                "SYSTEMCTL_FAILED", f"{told(self.command(*words))}: {said}", hint="daycare service logs"
            )

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = self.command(*words)
        slow = words[0] in ("start", "restart", "enable", "disable")
        environment = {**os.environ, "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(  # noqa: S603
                command,
                capture_output=True,
                text=True,
                timeout=START_S if slow else COMMAND_S,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 1, "", str(error))


def told(command: Sequence[str]) -> str:
    """Return a command as it is typed."""
    return shlex.join(command)
