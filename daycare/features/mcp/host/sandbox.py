"""The command line of a server: in a sandbox like that of a command in the shell, with what its section adds.

It lives for as long as the server does, so nothing bounds its time on the processor; memory and processes are.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from daycare.base.workspace import ShellSection
from daycare.features.mcp.frames import McpOpen
from daycare.features.shell.cgroups import control_group
from daycare.features.shell.sandbox import PEOPLE, confined, entering, program_folders, texts

FOLDER: Final = "/data"  # where a server finds its own
TMP_MB: Final = 64

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_NAMES: Final = ("/etc/resolv.conf", "/etc/hosts", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_DNS: Final = b"passwd: files\ngroup: files\nhosts: files dns\n"
_BOUND: Final = (
    "ulimit -c 0; ulimit -n 4096; (ulimit -u {processes}) 2>/dev/null && ulimit -u {processes} ||"
    ' ulimit -p {processes}; exec "$@"'
)


class ServerCommand(NamedTuple):
    """What is started: the words, all of its environment, the descriptors that it needs, and where it begins."""

    words: list[str]
    env: dict[str, str]
    handles: tuple[int, ...]
    folder: str


@contextmanager
def server_command(told: McpOpen) -> Iterator[ServerCommand]:
    """Give what starts a server. Raises `OSError` where its program is not there, or no sandbox can be made."""
    program = shutil.which(told.command[0], path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', _PATH)}")
    if program is None:
        raise OSError(f"there is no program {told.command[0]}")
    words = [program, *told.command[1:]]
    if not told.sandbox:
        env = {"PATH": os.environ.get("PATH", _PATH), "HOME": str(Path.home()), "LANG": "C.UTF-8", **told.env}
        yield ServerCommand(words, env, (), told.folder)
        return
    env = {"PATH": f"{Path(program).parent}:{_PATH}", "HOME": FOLDER, "TMPDIR": "/tmp", "LANG": "C.UTF-8", **told.env}  # noqa: S108
    bounds = ShellSection(memory_mb=told.memory_mb, processes=told.processes)
    handles: list[int] = []
    try:
        with control_group(bounds) as group:
            files = texts(handles, _people(network=told.network))
            line = entering(group, _arguments(told, program, files), handles)
            script = ["/bin/sh", "-c", _BOUND.format(processes=told.processes), "sh"]
            yield ServerCommand([*line, *script, *words], env, tuple(handles), "/")
    finally:
        for handle in handles:
            os.close(handle)


def _arguments(told: McpOpen, program: str, files: dict[str, int]) -> list[str]:
    wanted = confined(files, (), TMP_MB)
    for path in dict.fromkeys([*program_folders(program), *_expanded(told.readable)]):
        wanted += ["--ro-bind", path, path]
    if told.network:
        wanted.append("--share-net")
        for path in _NAMES:
            wanted += ["--ro-bind-try", path, path]
    for path in _expanded(told.writable):
        wanted += ["--bind", path, path]
    return [*wanted, "--bind", told.folder, FOLDER, "--remount-ro", "/", "--chdir", FOLDER]


def _people(*, network: bool) -> dict[str, bytes]:
    if not network:
        return PEOPLE
    return {path: text for path, text in PEOPLE.items() if path != "/etc/hosts"} | {"/etc/nsswitch.conf": _DNS}


def _expanded(paths: tuple[str, ...]) -> list[str]:
    return [str(Path(path).expanduser()) for path in paths]
