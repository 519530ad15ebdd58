"""What all looks share: the home, its settings, the running daemon's word, and what its database says.

Everything is read once, before the looks begin, and each part may be missing: a broken home is what doctor is for.
"""

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from daycare import features
from daycare.api.client import DAEMON_AWAY, Client, Json
from daycare.base.errors import DaycareError
from daycare.config import Config, load
from daycare.store.home import Holder, Home, HomeLock
from daycare.store.sqlite.inspection import Inspection, inspect

CALL_S: Final = 8.0  # a daemon answers within milliseconds; asking each plugin for its health takes it 5 s


@dataclass(frozen=True)
class DoctorContext:
    """The home as it is now. `status` and `health` are the daemon's, None where none answers, `unheard` why not.

    `config` are the defaults where the file is wrong, `readable` says whether it is not. `inside` is None without a
    database that can be read, `closed` says why.
    """

    home: Home
    now_ms: int
    offline: bool = False
    config: Config = field(default_factory=Config)
    readable: bool = True
    holder: Holder | None = None
    status: Json | None = None
    health: Json | None = None
    unheard: str = ""
    location: str = ""
    inside: Inspection | None = None
    closed: str = ""

    @property
    def running(self) -> bool:
        """Whether a daemon of its own answers: neither a chat's nor that of a short command."""
        return self.status is not None

    def ask(self, method: str, route: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = CALL_S) -> Json:
        """Call the daemon. To be used only where one is `running`."""
        return _call(self.home, method, route, None if body is None else dict(body), timeout_s=timeout_s)

    @classmethod
    def of(cls, home: Home, now_ms: int, *, offline: bool = False) -> "DoctorContext":
        """Look at a home that exists."""
        try:
            config, readable = load(home.path), True
        except DaycareError:
            config, readable = Config(), False
        location = home.database(config.store.location)
        status: Json | None = None
        health: Json | None = None
        holder, inside, unheard, closed = None, None, "", ""
        try:
            holder = HomeLock(home).holder()
            if os.path.lexists(home.socket) and not refused(home.socket):
                status = _call(home, "GET", "/v1/status")
        except DaycareError as error:
            unheard = "" if error.code == DAEMON_AWAY else error.message
        except OSError as error:
            unheard = f"asking the daemon: {error}"
        if status is not None:
            with suppress(DaycareError):  # an older daemon may not have it
                health = _call(home, "GET", "/v1/health")
        try:
            inside = inspect(location, now_ms, features.rows())
        except DaycareError as error:
            closed = error.message
        except OSError as error:
            closed = f"looking into {location}: {error.strerror or error}"
        return cls(
            home=home,
            now_ms=now_ms,
            offline=offline,
            config=config,
            readable=readable,
            holder=holder,
            status=status,
            health=health,
            unheard=unheard,
            location=location,
            inside=inside,
            closed=closed,
        )


def refused(address: Path) -> bool:
    """Whether nobody listens on a socket any more."""
    if not stat.S_ISSOCK(address.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(address))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _call(home: Home, method: str, route: str, body: Json | None = None, *, timeout_s: float = CALL_S) -> Json:
    with closing(Client(home.socket)) as client:
        return client.call(method, route, body, timeout_s=timeout_s)
