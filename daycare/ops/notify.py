"""What is told to systemd, in its notify protocol: lines in a datagram to the socket that `NOTIFY_SOCKET` names."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Final, Self

STATUS_MAX_CHARS: Final = 300  # `systemctl status` shows one line
_SHARE: Final = 3  # of the watchdog's time, between two signs of life: one may be late


class ServiceNotify:
    """One service manager's ear. Where nobody listens nothing is sent, and nothing fails.

    `address` is a path, or `@name` for an abstract socket; `watchdog_s` is the time after which the manager kills a
    daemon that gave no sign of life, None if it does not wait for any.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address.startswith(("@", "/")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        self.watchdog_s = watchdog_s if self._socket is not None else None

    @classmethod
    def found(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return what this process was started with. The variables stay: a restart is the same process."""
        address = environment.get("NOTIFY_SOCKET", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        told = environment.get("WATCHDOG_USEC", "")
        return cls(address, int(told) / 1e6 if mine and told.isdecimal() and int(told) else None)

    def __bool__(self) -> bool:
        return self._socket is not None

    @property
    def every_s(self) -> float | None:
        """How often a sign of life is due."""
        return self.watchdog_s / _SHARE if self.watchdog_s else None

    def send(self, *lines: str) -> bool:
        """Send lines such as `READY=1`; False if nobody took them, which is no reason to stop working."""
        if self._socket is None:
            return False
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True

    def ready(self, status: str) -> None:
        """It serves; also after `reloading`."""
        self.send("READY=1", _status(status))

    def status(self, text: str) -> None:
        """Say in a line how it is."""
        self.send(_status(text))

    def alive(self) -> None:
        """Give a sign of life."""
        self.send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """It ends in order."""
        self.send("STOPPING=1", _status(status))

    def reloading(self, status: str) -> None:
        """It starts anew in the same process, and is not ready until it says so."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", _status(status))

    def extend(self, seconds: float) -> None:
        """Ask for more time to start or to stop, from now."""
        self.send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def close(self) -> None:
        """Say no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())[:STATUS_MAX_CHARS]
