"""How the daemon is asked to end."""

from dataclasses import dataclass, field

import trio


@dataclass
class Stop:
    """How the daemon is asked to end: set `event`; `restart` asks for a fresh start of the program afterwards."""

    event: trio.Event = field(default_factory=trio.Event)
    restart: bool = False
    reason: str = ""

    def ask(self, restart: bool, reason: str) -> None:
        """Ask for an orderly end. Safe to repeat."""
        self.restart = self.restart or restart
        self.reason = self.reason or reason
        self.event.set()
