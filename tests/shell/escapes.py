"""Ways out of the sandbox, each as a command that says ESCAPED if it has found one.

`SECRET` stands for a file in the daemon's home; `PID` for a process outside; `PORT` for one that listens on loopback;
`ABSTRACT` for an abstract socket outside.
"""

from typing import Final

_CALL: Final = """python3 -c "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    done = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if done >= 0: print('ESCAPED', args[0], done)
{0}
"
"""


def _calls(*lines: str) -> str:
    return _CALL.format("\n".join(lines))


ESCAPES: Final = {
    "path": 'cat SECRET && echo ESCAPED; cat "/workspace/../../../SECRET" && echo ESCAPED; ls /home /root /run /srv'
    " && echo ESCAPED",
    "link": "ln -s SECRET l; cat l && echo ESCAPED; ln SECRET h && echo ESCAPED",
    "proc root": "for p in /proc/[0-9]*; do cat $p/root/SECRET && echo ESCAPED; done",
    "proc descriptors": "for f in /proc/[0-9]*/fd/*; do ls -d $f/../.. 2>/dev/null && echo ESCAPED; done",
    "open descriptors": _calls(
        "for fd in range(3, 1024):",
        "    try: os.fstat(fd)",
        "    except OSError: continue",
        "    print('ESCAPED', os.readlink(f'/proc/self/fd/{fd}'))",
    ),
    "proc settings": "echo 1 > /proc/sys/vm/drop_caches && echo ESCAPED; echo x > /proc/sys/kernel/core_pattern"
    " && echo ESCAPED; echo h > /proc/sysrq-trigger && echo ESCAPED",
    "sys": "ls /sys/kernel && echo ESCAPED; ls /sys/fs/cgroup && echo ESCAPED",
    "system files": "echo x > /usr/bin/daycare-was-here && echo ESCAPED; echo x > /etc/passwd && echo ESCAPED;"
    " touch /here && echo ESCAPED; touch /dev/here && echo ESCAPED; cat /etc/shadow && echo ESCAPED",
    "devices": "ls /dev/vda /dev/sda /dev/kmsg /dev/mem /dev/fuse /dev/kvm 2>/dev/null && echo ESCAPED;"
    " mknod d b 254 0 && echo ESCAPED",
    "processes": "kill -0 PID && echo ESCAPED; kill -9 PID && echo ESCAPED; [ $(ls -d /proc/[0-9]* | wc -l) -gt 8 ]"
    " && echo ESCAPED",
    "ptrace": _calls("call(101, 16, 1, 0, 0)", "call(310, 1, 0, 0, 0, 0, 0)", "call(438, 3, 0, 0)"),
    "mounts": _calls(
        "call(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
        "call(166, b'/workspace', 2)",
        "call(428, -100, b'/', 1)",
        "call(430, b'tmpfs', 0)",
        "call(155, b'/tmp', b'/tmp')",
        "call(161, b'/tmp')",
    ),
    "namespaces": _calls(
        "call(272, 0x10000000)", "call(308, 0, 0)", "call(56, 0x10000011, 0, 0, 0, 0)", "call(435, 0, 0)"
    )
    + "; unshare -Ur true && echo ESCAPED",
    "keys": _calls("call(250, 0, -3, 1)", "call(248, b'user', b'x', b'y', 1, -3)", "call(249, b'user', b'x', 0, -3)"),
    "kernel": _calls(
        "call(321, 5, 0, 0)",
        "call(323, 0)",
        "call(298, 0, 0, -1, -1, 0)",
        "call(425, 8, ctypes.create_string_buffer(256))",
        "call(175, 0, 0, b'')",
        "call(246, 0, 0, 0, 0)",
        "call(304, 0, 0, 0)",
        "call(169, 0, 0, 0, 0)",
        "call(170, 0, 0)",
    ),
    "setuid": "su -c id 2>&1 | grep uid=0 && echo ESCAPED;"
    " grep NoNewPrivs:.*1 /proc/self/status || echo ESCAPED; grep CapEff:.*[1-9a-f] /proc/self/status && echo ESCAPED;"
    " grep Seccomp:.*2 /proc/self/status || echo ESCAPED",
    "environment": "env | grep -i DAYCARE[_]HIDDEN && echo ESCAPED; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -i"
    " DAYCARE[_]HIDDEN && echo ESCAPED; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep daycare[-]home && echo ESCAPED",
    "network": _calls(
        "import socket",
        "for address in (('127.0.0.1', PORT), ('169.254.169.254', 80), ('1.1.1.1', 53)):",
        "    try: socket.create_connection(address, 1); print('ESCAPED', address)",
        "    except OSError: pass",
    ),
    "sockets": _calls(
        "import socket",
        "for family in (16, 17, 38, 40):",
        "    try: socket.socket(family, 1 if family == 40 else 3); print('ESCAPED', family)",
        "    except OSError: pass",
        "try: socket.socket(socket.AF_UNIX).connect(chr(0) + 'ABSTRACT'); print('ESCAPED')",
        "except OSError: pass",
    ),
    "terminal": _calls("call(16, 0, 0x5412, b'x')", "call(16, 1, 0x5412, b'x')")
    + "; [ -w /dev/tty ] && echo x > /dev/tty && echo ESCAPED",
    "shared memory": "ls /dev/shm /dev/mqueue 2>/dev/null | grep -v '^$' | grep -v : && echo ESCAPED; ipcs -m |"
    " grep 0x && echo ESCAPED",
    "git": "echo x > .git/hooks/pre-commit && echo ESCAPED; cat .git/hooks/post-commit && echo ESCAPED; echo x >"
    " .git/config && echo ESCAPED; mv .git g && echo ESCAPED; rm -rf .git; [ -e .git/config ] || echo ESCAPED;"
    " echo x > .git/commondir && echo ESCAPED; echo x > sub/.git && echo ESCAPED; rm sub/.git && echo ESCAPED",
    "limits": "ulimit -u unlimited && echo ESCAPED; ulimit -f unlimited && echo ESCAPED",
}
