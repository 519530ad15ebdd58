"""The command line of one sandbox: a system to read, a workspace to write, and nothing else of this machine.

What is seen is named, not what is hidden: programs and libraries, some settings without secrets, and what the operator
adds. The daemon's home, people's files, sockets and devices are not there. No network, no rights, processes of its own.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from daycare.base.workspace import ShellSection
from daycare.features.shell import network, seccomp
from daycare.features.shell.cgroups import ControlGroup, control_group

INSIDE: Final = "/workspace"
PROBE_S: Final = 10.0
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 -- one of its own
    "TMPDIR": "/tmp",  # noqa: S108
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PWD": INSIDE,
}

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_SETTINGS: Final = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl/certs"),
    *("/etc/ca-certificates.conf", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/magic"),
)
PEOPLE: Final = {
    "/etc/passwd": b"agent:x:1000:1000::/tmp:/bin/sh\n",
    "/etc/group": b"agent:x:1000:\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": b"127.0.0.1 localhost\n",
}
_GIT_DEPTH: Final = 2  # how deep repositories in a workspace are looked for
_GIT_FOLDERS_MAX: Final = 2_000
_FOREVER: Final = 1 << 60

# Inside: the bounds of each process, which nothing there can raise. From the open folder `..` would lead out of the
# sandbox, so it is the input of bubblewrap, and closed by the first process in it, which no other one outlives.
# Outside: into the group, and out of others' way.
_BOUND: Final = (
    "exec </dev/null; ulimit -c 0; ulimit -t {cpu}; ulimit -f {blocks}; ulimit -n 1024;{memory}"
    ' (ulimit -u {processes}) 2>/dev/null && ulimit -u {processes} || ulimit -p {processes}; /bin/sh -c "$1"; exit $?'
)
_ENTER: Final = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec nice -n 10 "$@"'


def confined(files: dict[str, int], readable: Iterable[str], tmp_mb: int) -> list[str]:
    """Return the arguments of bubblewrap for a system to read, without network, and nothing else.

    `files` are the descriptors of texts by path, with that of the filter of system calls. What is to be seen or written
    besides follows, and then `--remount-ro /`.
    """
    wanted = [
        *("--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-ipc", "--unshare-pid", "--unshare-net"),
        *("--unshare-uts", "--hostname", "sandbox", "--unshare-cgroup-try", "--die-with-parent", "--new-session"),
        "--as-pid-1",
        *("--cap-drop", "ALL", "--seccomp", str(files["seccomp"])),
    ]
    for path in (*_SYSTEM, *_SETTINGS, *(str(Path(each).expanduser()) for each in readable)):
        wanted += ["--ro-bind-try", path, path]
    for path in [each for each in files if each != "seccomp"]:
        wanted += ["--ro-bind-data", str(files[path]), path]
    wanted += ["--proc", "/proc", "--remount-ro", "/proc"]  # root may write the kernel's settings without any right
    wanted += ["--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # noqa: S108
        wanted += ["--size", str(tmp_mb << 20), "--tmpfs", path]
    return [*wanted, "--remount-ro", "/dev"]


def arguments(
    workspace: int,
    bounds: ShellSection,
    files: dict[str, int],
    git: Sequence[str],
    more: Mapping[str, int],
    *,
    reaches: bool = False,
) -> list[str]:
    """Return bubblewrap's arguments. `workspace` is the folder's descriptor, `files` those of texts by path.

    `git` are the paths of repositories' own folders below the workspace, `more` the descriptors of further files.
    `reaches`: it is to reach hosts.
    """
    place = "/proc/self/fd/0"
    own = (network.interpreter(),) if reaches else ()
    wanted = confined(files, (*own, *bounds.readable), bounds.tmp_mb)
    for path, handle in more.items():
        wanted += ["--perms", "0555", "--ro-bind-data", str(handle), path]
    wanted += ["--bind", place, INSIDE]
    for each in git:  # what git runs by itself; a mount cannot be renamed or replaced
        there = f"{INSIDE}/{each}"
        wanted += ["--ro-bind", f"{place}/{each}", there]
        if Path(f"/proc/self/fd/{workspace}/{each}/hooks").is_dir():
            wanted += ["--size", "4096", "--tmpfs", f"{there}/hooks", "--remount-ro", f"{there}/hooks"]
    return [*wanted, "--remount-ro", "/", "--chdir", INSIDE]


def texts(handles: list[int], people: Mapping[str, bytes] = PEOPLE) -> dict[str, int]:
    """Return the descriptors of what stands in a sandbox in place of some files, and of the filter of system calls.

    All are added to `handles`, which are to be closed.
    """
    files = {path: _memory(text, handles) for path, text in people.items()}
    files["seccomp"] = _memory(seccomp.program(), handles)
    return files


def entering(group: ControlGroup, told: Sequence[str], handles: list[int]) -> list[str]:
    """Return the command line that enters a group and a sandbox made by these arguments; what runs there follows.

    Raises `OSError` where nothing bounds the processes of a daemon that runs as root.
    """
    if os.geteuid() == 0 and "pids" not in group.bounds:
        raise OSError("nothing bounds the processes of root here: run the daemon as another user")
    inner = _memory(b"".join(each.encode() + b"\0" for each in told), handles)  # no path of ours is in /proc
    return ["/bin/sh", "-c", _ENTER, "sh", *group.doors, "--", program(), "--args", str(inner), "--"]


@contextmanager
def sandboxed(
    command: str,
    workspace: int,
    bounds: ShellSection,
    more: Mapping[str, bytes] = MappingProxyType({}),
    door: int | None = None,
) -> Iterator[tuple[list[str], tuple[int, ...], ControlGroup]]:
    """Give the command line that runs a command in a sandbox, the descriptors that it needs, and its group.

    `workspace` is the open folder, which has to be its standard input; `more` are files to read, by their paths there;
    `door` is what `network_of` gives. Raises `OSError` where none can be made.
    """
    handles: list[int] = []
    try:
        further = {path: _memory(data, handles) for path, data in more.items()}
        told = arguments(workspace, bounds, texts(handles), repositories(workspace), further, reaches=door is not None)
        with control_group(bounds) as group:
            memory = "" if "memory" in group.bounds else f" ulimit -v {bounds.memory_mb << 10};"
            script = _BOUND.format(
                cpu=bounds.seconds, blocks=bounds.disk_mb << 11, memory=memory, processes=bounds.processes
            )
            line = entering(group, told, handles)
            opening = [] if door is None else network.opening(door)
            passed = tuple(handles) if door is None else (*handles, door)
            yield [*line, *opening, "/bin/sh", "-c", script, "sh", command], passed, group
    finally:
        for handle in handles:
            os.close(handle)


def repositories(workspace: int) -> list[str]:
    """Return the paths of git's own folders and files in a workspace, as deep as is looked."""
    found: list[str] = []
    left = _GIT_FOLDERS_MAX
    folders = [("", 0)]
    while folders and left > 0:
        above, depth = folders.pop(0)
        try:
            with os.scandir(f"/proc/self/fd/{workspace}/{above}") as entries:
                for entry in entries:
                    path = f"{above}{entry.name}"
                    if entry.name == ".git" and not entry.is_symlink():
                        found.append(path)
                    elif depth < _GIT_DEPTH and entry.is_dir(follow_symlinks=False):
                        left -= 1
                        folders.append((f"{path}/", depth + 1))
        except OSError:
            continue
    return found


def program() -> str:
    """Return where bubblewrap is, "bwrap" if it is nowhere."""
    return shutil.which("bwrap") or "bwrap"


def program_folders(program: str) -> Iterator[str]:
    """Yield what a program needs besides the system's: where it is, and the environment of a Python that it is in."""
    for place in (Path(program).absolute(), Path(program).resolve()):
        environment = place.parent.parent
        if place.is_relative_to("/usr") or place.is_relative_to("/bin"):
            continue
        if (environment / "pyvenv.cfg").is_file():
            yield str(environment)
            base = Path((environment / "bin" / "python").resolve()).parent.parent
            if not base.is_relative_to("/usr"):
                yield str(base)
        else:
            yield str(place.parent)


@lru_cache(2)
def why_not(*, reaching: bool = False) -> tuple[str, str]:
    """Return why no sandbox can be started here, and what to do about it; empty if one can. It may take seconds.

    `reaching`: one whose command reaches hosts.
    """
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed", "sudo apt-get install bubblewrap"
    if not seccomp.machine():
        return f"there is no filter of system calls for {os.uname().machine}", "run it on x86_64 or aarch64"
    bounds = ShellSection()
    here = os.open("/usr", os.O_PATH | os.O_DIRECTORY)
    mine, theirs = socket.socketpair()
    try:
        with mine, theirs, sandboxed("exit 42", here, bounds, door=theirs.fileno() if reaching else None) as it:
            line, handles, _ = it
            done = subprocess.run(  # noqa: S603
                line, env=ENVIRONMENT, stdin=here, pass_fds=handles, capture_output=True, timeout=PROBE_S, check=False
            )
    except subprocess.TimeoutExpired:
        return "bubblewrap does not answer", "bwrap --version"
    except OSError as error:
        return str(error), "doc/use/files-and-shell.md"
    finally:
        os.close(here)
    if done.returncode == 42:
        return "", ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if said and "--size" in said[-1]:
        return "this bubblewrap is too old: it needs 0.8", "sudo apt-get install bubblewrap"
    return f"bubblewrap does not work here ({said[-1][:160] if said else done.returncode})", "daycare doctor"


def _memory(text: bytes, handles: list[int]) -> int:
    """Return the descriptor of a file in memory that can be read from its beginning."""
    handle = os.memfd_create("daycare")
    handles.append(handle)
    left = memoryview(text)
    while left:
        left = left[os.write(handle, left) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle
