"""What a service manager is told of a running daemon: that it works, and in a line how it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from daycare.actors.supervisor import Supervisor
from daycare.inference.pool import Pool
from daycare.ops.alarm import Alarm
from daycare.ops.connections import Connections
from daycare.ops.reloading import Reloading
from daycare.ops.run import Run
from daycare.ops.watchdog import Pulse
from daycare.store.sqlite.store import Store


@dataclass(frozen=True)
class DaemonStanding:
    """Looks at the parts that a daemon cannot do without."""

    run: Run
    store: Store
    supervisor: Supervisor
    pool: Pool
    connections: Connections
    reloading: Reloading
    alarm: Alarm

    @property
    def pulses(self) -> Mapping[str, Pulse]:
        """Return what counts on as long as it works, by name."""
        return {"store": self.store.pulse, "agents": self._swept}

    def _swept(self) -> int | None:
        return self.supervisor.swept if self.supervisor.awake and not self.run.stop.event.is_set() else None

    def line(self) -> str:
        """Return in a line how the daemon is, for `systemctl status`."""
        if self.run.stop.event.is_set():
            return f"stopping: {self.run.stop.reason}"
        wrong = [f"{name} is {each['state']}" for name, each in self.connections.wrong().items()]
        wrong += [f"{name} is away" for name in self.pool.away]
        wrong += ["config.toml has a mistake, and what held before goes on"] if self.reloading.refused else []
        wrong += [f"the store refuses: {self.alarm.trouble}"] if self.alarm.trouble else []
        lost = self.store.lost
        wrong += [str(lost)] if lost is not None and lost.is_recent(self.run.now_ms()) else []
        return f"degraded: {'; '.join(wrong)}" if wrong else f"working, {len(self.supervisor.awake)} agents awake"
