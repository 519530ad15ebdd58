"""One run of a daemon: whose home it serves and how, and how it is asked to end."""

from dataclasses import dataclass, field

from daycare.base.clock import Clock
from daycare.ops.stop import StopRequest
from daycare.store.home import Home


@dataclass
class Run:
    """`mode` is `run`, `chat` or `tool`; `owner` the operator."""

    home: Home
    mode: str
    owner: str
    clock: Clock
    stop: StopRequest = field(default_factory=StopRequest)

    def __post_init__(self) -> None:
        """Begin."""
        self.started_at = self.clock.now_ms()

    def now_ms(self) -> int:
        """Return the wall time."""
        return self.clock.now_ms()
