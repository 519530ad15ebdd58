"""How the daemon is asked to end."""

import os
import signal
from dataclasses import dataclass, field

import trio


@dataclass
class StopRequest:
    """How the daemon is asked to end: set `event`; `restart` asks for a fresh start of the program afterwards."""

    event: trio.Event = field(default_factory=trio.Event)
    restart: bool = False
    reason: str = ""

    def ask(self, restart: bool, reason: str) -> None:
        """Ask for an orderly end. Safe to repeat."""
        self.restart = self.restart or restart
        self.reason = self.reason or reason
        self.event.set()


def ending() -> tuple[signal.Signals, ...]:
    """Return the signals that ask for an end. SIGHUP does in a terminal, which has gone then; else it is a reload."""
    return (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if _has_terminal() else ()))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
