"""What agents may touch on this machine: files of workspaces, and commands in a sandbox."""

from collections.abc import Iterator
from pathlib import Path

from daycare.features.shell.sandbox import why_not as no_sandbox
from daycare.features.workspaces.beneath import why_not as no_files
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding


def hands(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether files can be opened so that no path leads out, and, if it is on, whether a sandbox starts."""
    if why := no_files():
        yield DoctorFinding("warn", "hands", f"agents have no file tools: {why}", "update the kernel")
        return
    roots = context.config.workspaces.roots
    if gone := [root for root in roots if not Path(root).expanduser().is_dir()]:
        yield DoctorFinding("warn", "hands", f"no such folder: {', '.join(gone)}", "correct [workspaces] roots")
    if not context.config.shell.enabled:
        yield DoctorFinding("ok", "hands", "files of workspaces can be opened safely; the shell is off")
        return
    hosts = context.config.shell.hosts
    why, hint = no_sandbox(reaching=bool(hosts))
    if why:
        yield DoctorFinding("warn", "hands", f"agents have no shell: {why}", hint)
    else:
        network = f" and reach {', '.join(hosts)} by https" if hosts else ""
        safely = "files of workspaces can be opened safely"
        yield DoctorFinding("ok", "hands", f"{safely}; commands run in a sandbox{network}")
