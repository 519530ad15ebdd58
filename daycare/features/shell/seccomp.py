"""The filter of system calls in the sandbox, as the kernel takes it: a program of classic BPF.

It refuses what reaches past namespaces (other processes, keys, mounts, modules, clocks), what makes further namespaces,
and the youngest interfaces, in which the holes were found. Python has no kept binding of libseccomp that installs as a
wheel, and the list is all that we need of it.
"""

import errno
import platform
import struct
from typing import Final

# Numbers by machine: (x86_64, aarch64), None where there is no such call.
_REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
_ABSENT: Final = {"clone3": (435, 435)}  # its flags cannot be looked at: libraries fall back to clone
_CLONE: Final = (56, 220)
_SOCKET: Final = (41, 198)
_IOCTL: Final = (16, 29)
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}

_NEW_SPACES: Final = 0x7E020080  # CLONE_NEW*: cgroup, uts, ipc, user, pid, net, mount; and time
_FAMILIES: Final = (1, 2, 10)  # Unix, IPv4, IPv6: others, such as vsock, know no network namespace
_TERMINAL: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing for others
_X32: Final = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # where they are in `seccomp_data`, the lower half
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_Step = tuple[int, int, int, int]


def machine() -> str:
    """Return the machine's name if there is a filter for it, else an empty text."""
    return platform.machine() if platform.machine() in _MACHINES else ""


def program() -> bytes:
    """Return the filter for this machine, as bubblewrap's `--seccomp` reads it. Raises `KeyError` for others."""
    which, architecture = _MACHINES[platform.machine()]
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_if((_AT_LEAST, _X32), [_no(errno.ENOSYS)], when=architecture == _MACHINES["x86_64"][1]),
    ]
    for numbers, number in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for each in numbers.values():
            if (call := each[which]) is not None:
                steps += _if((_EQUAL, call), [_no(number)])
    spaces: list[_Step] = [(_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NEW_SPACES), _no(errno.EPERM), _yes()]
    steps += _if((_EQUAL, _CLONE[which]), spaces)
    families: list[_Step] = [(_LOAD, 0, 0, _FIRST)]
    for family in _FAMILIES:
        families += _if((_EQUAL, family), [_yes()])
    steps += _if((_EQUAL, _SOCKET[which]), [*families, _no(errno.EAFNOSUPPORT)])
    typing: list[_Step] = [(_LOAD, 0, 0, _SECOND)]
    for request in _TERMINAL:
        typing += _if((_EQUAL, request), [_no(errno.EPERM)])
    steps += _if((_EQUAL, _IOCTL[which]), [*typing, _yes()])
    steps.append(_yes())
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _if(test: tuple[int, int], then: list[_Step], *, when: bool = True) -> list[_Step]:
    """Return steps that do `then` if what was loaded passes a test; it returns, or loads nothing that is needed."""
    return [(test[0], 0, len(then), test[1]), *then] if when else []


def _no(number: int) -> _Step:
    return (_RETURN, 0, 0, _ERROR | number)


def _yes() -> _Step:
    return (_RETURN, 0, 0, _ALLOW)
