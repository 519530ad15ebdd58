"""The command of a bridge inside bubblewrap: it reads the system, writes its own folder, and reaches the network.

What it does not see: the home of the daemon with its database and key, other bridges, and the people's own files.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import daycare
import daycare_plugins
from daycare.base.errors import BrokenError

PROBE_S: Final = 5.0
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store")
_NAMES: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")  # where resolv.conf points to
# The kernel ties what runs in bubblewrap to the *thread* that forked it, and trio's are gone after ten idle seconds. So
# a shell forks it, which waits. When the daemon is killed the bridge reads the end of its input and ends in order, with
# all that its library still holds on disk; one that is deaf ends with the shell's group before the next is started.
_STAYING: Final = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
_NO_RIGHTS: Final = ("--cap-drop", "ALL")  # root's would uncover what is hidden: `umount` of the home
_APART: Final = ("--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")


def wrapped(command: Sequence[str], folder: Path, readable: Sequence[str], wish: str) -> tuple[list[str], str]:
    """Return the command to run, and why it is not in a sandbox, empty if it is.

    Raises `BrokenError` if a sandbox is required and cannot be had. It may block for some seconds the first time.
    """
    if wish == "off":
        return list(command), "sandbox off"
    program, why = _bubblewrap()
    if why and wish == "required":
        raise BrokenError(
            "SANDBOX_MISSING",
            f"starting {command[0]} in a sandbox: {why}",
            hint='install bubblewrap, or sandbox = "off"',
        )
    if why:
        return list(command), f"no sandbox: {why}"
    arguments = [
        *_STAYING,
        program,
        "--die-with-parent",
        "--new-session",
        *_NO_RIGHTS,
        *_APART,
        *("--proc", "/proc", "--remount-ro", "/proc"),  # root may write the kernel's settings without any right
        "--dev",
        "/dev",
    ]
    arguments += ["--tmpfs", "/tmp"]  # noqa: S108 -- one of its own
    own = folder.resolve()
    home = own.parents[2]  # of the daemon: its folder of plugins, the plugin's, and the bridge's stand in it
    visible = _visible(command, readable)
    outside = [path for path in visible if not Path(path).is_relative_to(home)]
    inside = [path for path in visible if Path(path).is_relative_to(home) and Path(path) != home]
    for path in outside:
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--tmpfs", str(home)]  # it may lie below something that can be read
    for path in inside:  # a virtual environment, say
        arguments += ["--ro-bind-try", path, path]
    return [*arguments, "--bind", str(own), str(own), "--chdir", str(own), "--", *command], ""


def _visible(command: Sequence[str], readable: Sequence[str]) -> list[str]:
    """Return what may be read: the system, this Python with what it imports, the command, and what was asked for."""
    ours = [folder for package in (daycare, daycare_plugins) for folder in package.__path__]  # maybe of a source tree
    paths = [*_SYSTEM, *_NAMES, sys.prefix, sys.base_prefix, *ours]
    program = shutil.which(command[0])
    if program is not None:
        paths += [str(Path(program).parent), str(Path(program).resolve().parent)]
    paths += [entry for entry in sys.path if entry and Path(entry) != Path.cwd()]
    paths += [str(Path(path).expanduser()) for path in readable]
    home = str(Path.home())
    return [path for path in dict.fromkeys(paths) if path not in ("/", home) or path in readable]


@lru_cache(1)
def _bubblewrap() -> tuple[str, str]:
    """Return the program, and why it cannot be used, empty if it can."""
    program = shutil.which("bwrap")
    if program is None:
        return "", "bubblewrap is not installed"
    probe = [
        program,
        *_NO_RIGHTS,
        "--unshare-user-try",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        *("--proc", "/proc", "--remount-ro", "/proc"),
        "--",
        "/bin/true",
    ]
    try:
        done = subprocess.run(probe, capture_output=True, timeout=PROBE_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return "", "bubblewrap does not run here"
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return "", f"bubblewrap does not work here ({told[-1][:120] if told else done.returncode})"
    return program, ""
