"""What is measured at the moment somebody looks: queues, agents, connections, memory, the process and its store."""

import os
import resource
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from daycare import __version__
from daycare.actors.lifecycle import Life
from daycare.actors.supervisor import Supervisor
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.base.messages import EnvelopeKind
from daycare.feature import Feature
from daycare.inference.pool import Pool
from daycare.observe.bus import Bus
from daycare.observe.metrics import Family, Gauge, Total
from daycare.store.home import Home
from daycare.store.records_metrics import Queue, StoreMetrics
from daycare.store.share import DividedShare
from daycare.store.sqlite.store import Store

_DEADLINE_S: Final = 3.0  # what cannot be had until then is left out, and the look is told to be incomplete


@dataclass(frozen=True)
class DaemonMetrics:
    """Measures the kernel, and asks `features` for theirs."""

    home: Home
    store: Store
    supervisor: Supervisor
    pool: Pool
    bus: Bus
    clock: Clock
    connectors: Collection[str]
    features: Sequence[Feature]

    async def families(self) -> list[Family]:
        """Measure everything."""
        asked = (self._kept, *(feature.metric_families for feature in self.features))
        told: dict[int, Sequence[Family]] = {}

        async def ask(number: int) -> None:
            with suppress(DaycareError):
                told[number] = await asked[number]()

        with trio.move_on_after(_DEADLINE_S):  # who has to wait for the store keeps nobody else from telling
            async with trio.open_nursery() as nursery:
                for number in range(len(asked)):
                    nursery.start_soon(ask, number)
        whole = Gauge("daycare_scrape_complete", "1 if nothing was left out for lack of time")
        found = [family for _, families in sorted(told.items()) for family in families]
        return [*_process(), *self._parts(), *found, whole.set(value=len(told) == len(asked))]

    async def _kept(self) -> Sequence[Family]:
        return [*_stored(await self.store.metrics.measures(), self.clock.now_ms(), self.connectors)]

    def _parts(self) -> Iterator[Family]:
        lives = [lane.life for lane in self.supervisor.awake.values()]
        yield Gauge("daycare_agents_awake", "Agents in memory").set(value=len(lives))
        yield Gauge("daycare_turns_running", "Turns that run").set(value=lives.count(Life.IN_TURN))
        yield Total("daycare_events_dropped_total", "Events that slow readers lost").set(value=self.bus.dropped)
        yield Gauge("daycare_event_readers", "Who reads events").set(value=self.bus.subscribers)
        share = self.store.share
        if isinstance(share, DividedShare):
            yield Gauge("daycare_node_shards", "Shards of this node").set(value=len(share.shards))
            yield Gauge("daycare_node_sure", "1 while this node counts on its lease").set(value=not share.paused)
            runs = Gauge("daycare_node_role", "1 for each part that of all nodes this one runs", ("role",))
            for role in sorted(share.roles()):
                runs.set(role, value=1)
            yield runs
        away = Gauge("daycare_provider_up", "1 for providers of models that are not away", ("provider",))
        for name in self.pool.configured:
            away.set(name, value=name not in self.pool.away)
        yield away
        yield Gauge("daycare_disk_free_bytes", "Room on the home's disk").set(
            value=shutil.disk_usage(self.home.path).free
        )


def _process() -> Iterator[Family]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    yield Gauge("daycare_build_info", "What runs", ("version", "python")).set(__version__, version, value=1)
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield Total("process_cpu_seconds_total", "CPU time of the process").set(value=used.ru_utime + used.ru_stime)
    with suppress(OSError, ValueError):  # not on every system
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
        size = os.sysconf("SC_PAGE_SIZE")
        yield Gauge("process_resident_memory_bytes", "Memory of the process").set(value=int(pages[1]) * size)
        yield Gauge("process_virtual_memory_bytes", "Address space of the process").set(value=int(pages[0]) * size)
        started = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
        began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + started / os.sysconf("SC_CLK_TCK")
        yield Gauge("process_start_time_seconds", "When the process began").set(value=round(began, 2))
        yield Gauge("process_open_fds", "Open files").set(value=len(os.listdir("/proc/self/fd")))  # noqa: PTH208
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Gauge("process_max_fds", "How many files may be open").set(value=soft)


def _stored(it: StoreMetrics, now_ms: int, connectors: Iterable[str]) -> Iterator[Family]:
    kinds = {kind.value: Queue() for kind in EnvelopeKind} | it.inbox  # a queue that is empty is told of, too
    yield from _queue("daycare_inbox", "Messages that wait", "kind", kinds, now_ms)
    replies = {name: Queue() for name in connectors} | it.outbox
    yield from _queue("daycare_outbox", "Replies that wait", "connector", replies, now_ms)
    agents = Gauge("daycare_agents", "Agents by state", ("state",))
    for state, number in it.agents.items():
        agents.set(state, value=number)
    yield agents
    yield Gauge("daycare_dead_letters_waiting", "Dead letters nobody decided on").set(value=it.dead_letters)
    yield Gauge("daycare_approvals_pending", "Requests for approval").set(value=it.approvals)
    yield Gauge("daycare_memory_uncurated_agents", "Agents whose memory worker has something to do").set(
        value=it.uncurated
    )
    lag_s = max(0, now_ms - it.uncurated_at) / 1000 if it.uncurated_at else 0
    yield Gauge("daycare_memory_curation_lag_seconds", "Age of what no memory worker has seen").set(value=lag_s)
    yield Gauge("daycare_cron_jobs", "Scheduled jobs").set(value=it.cron_jobs)
    late_s = max(0, now_ms - it.cron_next_at) / 1000 if it.cron_next_at else 0
    yield Gauge("daycare_cron_late_seconds", "By how much the next scheduled run is overdue").set(value=late_s)
    yield Gauge("daycare_store_bytes", "Size of the database").set(value=it.bytes)
    yield Gauge("daycare_store_free_bytes", "Of these, free for new rows").set(value=it.free_bytes)


def _queue(name: str, what: str, label: str, queues: dict[str, Queue], now_ms: int) -> Iterator[Family]:
    depth = Gauge(f"{name}_depth", what, (label,))
    age = Gauge(f"{name}_oldest_seconds", f"{what}: age of the oldest", (label,))
    for by, queue in queues.items():
        depth.set(by, value=queue.depth)
        age.set(by, value=max(0, now_ms - queue.oldest_at) / 1000 if queue.depth else 0)
    yield from (depth, age)
