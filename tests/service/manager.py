"""A real datagram socket in the place of systemd's."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

DEADLINE_S = 20.0


class Manager:
    """Hears what a daemon tells. `environment` is what it has to be started with."""

    def __init__(self, address: str, heard: socket.socket) -> None:
        self.address = address
        self._heard = heard

    def environment(self, watchdog_s: float = 0.0) -> dict[str, str]:
        """Return what systemd would set."""
        more = {"WATCHDOG_USEC": str(round(watchdog_s * 1e6))} if watchdog_s else {}
        return {"NOTIFY_SOCKET": self.address} | more

    def lines(self) -> list[str]:
        """Return what has come since the last look, line by line."""
        found: list[str] = []
        while True:
            try:
                found += self._heard.recv(65_536).decode().split("\n")
            except BlockingIOError:
                return found

    async def hears(self, line: str, deadline_s: float = DEADLINE_S) -> list[str]:
        """Wait for a line that begins so, in real time; return all that came until then."""
        found: list[str] = []
        with trio.fail_after(deadline_s):
            while not any(each.startswith(line) for each in found):
                await trio.sleep(0.01)
                found += self.lines()
        return found


@contextmanager
def manager(folder: Path, *, abstract: bool = False) -> Iterator[Manager]:
    """Listen as systemd does."""
    name = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name if abstract else name)
        heard.setblocking(False)
        yield Manager("@" + name if abstract else name, heard)
