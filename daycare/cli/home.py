"""Where the home directory is, and how a command finds the daemon that serves it."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from daycare.api.client import RETRY_S, Client, Json, pause
from daycare.base.errors import BusyError, NotFoundError
from daycare.store.home import Home

START_S: Final = 15.0  # a daemon that is starting or stopping in another process is waited for so long


def find_home(option: Path | None) -> Path:
    """Return the home directory: the option, else $DAYCARE_HOME, else ~/.daycare."""
    return (Home(option) if option else Home.default()).path


def is_new(home: Path) -> bool:
    """Tell whether `home` was never set up."""
    return not Home(home).config.exists()


def usable(status: Json | None, *, work: bool) -> bool:
    """Tell whether the daemon that answered this will still be there, and take turns if `work` needs them."""
    return status is not None and not status.get("stopping") and (takes_turns(status) or not work)


def takes_turns(status: Json) -> bool:
    """Tell whether the daemon that answered this works, or only serves a short command."""
    return bool(status.get("working", status.get("mode") != "tool"))


@contextmanager
def connect(home: Path, *, work: bool, patience_s: float = START_S) -> Iterator[Client]:
    """Give a client of the daemon that serves `home`, or of one that lives in this process for the time being.

    Without `work` the daemon in this process answers and commits, but takes no turns. A short-lived daemon of another
    command is waited for. Raises BusyError when another process keeps the home without serving it.
    """
    if not home.is_dir():
        raise NotFoundError("HOME_MISSING", f"open the home directory {home}: it does not exist", hint="daycare init")
    with ExitStack() as stack:
        client = Client(Home(home).socket)
        stack.callback(client.close)
        give_up = time.monotonic() + patience_s
        while not usable(status := client.status(), work=work):
            late = time.monotonic() >= give_up
            if status is None:
                try:
                    embed(home, stack, work=work)
                    continue
                except BusyError:
                    if late:
                        raise
            elif late:
                raise BusyError(
                    "DAEMON_BUSY",
                    f"use the daemon of {home}: process {status.get('pid')} is stopping or takes no turns",
                    hint="daycare status",
                )
            pause(RETRY_S)
        yield client


def embed(home: Path, stack: ExitStack, *, work: bool) -> None:
    """Start a daemon in this process that `stack` will stop."""
    from daycare.process import EmbeddedDaemon

    stack.enter_context(EmbeddedDaemon(home, work=work))
