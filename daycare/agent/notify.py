"""Telling a person something on the daemon's own account: once, in time, and never in the night."""

from collections.abc import Collection
from datetime import time
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import trio

from daycare.actors.directory import Directory
from daycare.agent.kinds import SPOKEN_WITH, conversation
from daycare.base.clock import Clock
from daycare.base.connector import DIRECT
from daycare.base.events import Notice
from daycare.base.ids import new_trace_id
from daycare.base.messages import Choice, Origin
from daycare.base.path import FOREGROUND, FetchPolicy, Kind
from daycare.base.times import local_time
from daycare.observe.bus import Bus
from daycare.settings import Live
from daycare.store.records import Agent, Reply, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

NOTIFY_DIGEST_S: Final = 600.0  # repeats of one notice within ten minutes are told together
NOTIFY_LOOK_S: Final = 15.0
NOTICES_MAX_HELD: Final = 1_000


class Way(NamedTuple):
    """How a person is reached: whose conversation it is, and the connector it goes over."""

    agent: Agent
    connector: str


class _Held(msgspec.Struct):
    text: str
    without: str
    choices: tuple[Choice, ...]
    more: int
    not_before: float  # trio's clock; quiet hours are looked at besides


class Notifier:
    """Reaches a person through the most recent foreground agent, else any foreground agent whose connector is here.

    Every notice is an event at once, so that `status` and the log have it even if nobody can be reached. The first of
    a topic is sent right away; repeats within `NOTIFY_DIGEST_S` seconds are counted and told together. During the quiet
    hours, in the person's own zone, all wait. What waits is in memory: after a restart only the events remain.
    """

    def __init__(
        self, store: Store, directory: Directory, bus: Bus, clock: Clock, connectors: Collection[str], live: Live
    ) -> None:
        self._store = store
        self._directory = directory
        self._bus = bus
        self._clock = clock
        self._connectors = connectors
        self._live = live
        self._held: dict[tuple[str, str], _Held] = {}
        self.worker = Worker(self._send_held, gather_s=NOTIFY_LOOK_S)
        self._sent: dict[tuple[str, str], float] = {}

    async def notify(
        self,
        user: str,
        text: str,
        *,
        topic: str = "",
        path: str = "",
        without: str = "",
        choices: tuple[Choice, ...] = (),
    ) -> None:
        """Tell a person `text`; notices of one topic are digested. Nobody to reach is no error: the event remains.

        `without` names a connector that is not to be used; `choices` are its buttons.
        """
        self._bus.publish(Notice(at_ms=self._clock.now_ms(), path=path, user=user, text=text))
        key = (user, topic or text)
        held = self._held.get(key)
        if held is not None:
            held.text, held.without, held.choices, held.more = text, without, choices, held.more + 1
            return
        again_at = self._sent.get(key, -NOTIFY_DIGEST_S) + NOTIFY_DIGEST_S
        if again_at <= trio.current_time() and not await self._is_quiet(user):
            await self._send(key, text, without, choices)
        elif len(self._held) < NOTICES_MAX_HELD:
            self._held[key] = _Held(text, without, choices, 0, again_at)
            self.worker.wake()

    async def _send_held(self) -> float:
        """Send what was held back and whose time has come."""
        now = trio.current_time()
        for key, held in list(self._held.items()):
            if held.not_before <= now and not await self._is_quiet(key[0]):
                del self._held[key]
                more = f" ({held.more} more of this kind meanwhile)" if held.more else ""
                await self._send(key, held.text + more, held.without, held.choices)
        return NOTIFY_LOOK_S if self._held else IDLE_S

    async def _send(self, key: tuple[str, str], text: str, without: str, choices: tuple[Choice, ...]) -> None:
        now = trio.current_time()
        self._sent = {topic: at for topic, at in self._sent.items() if at > now - NOTIFY_DIGEST_S} | {key: now}
        way = await self.reachable(key[0], without=without)
        if way is not None:
            reply = Reply(connector=way.connector, text=text, choices=choices)
            await with_retry(lambda: self._store.outbox.add(way.agent, reply, new_trace_id()))

    async def reachable(self, user: str, preferred: Agent | None = None, *, without: str = "") -> Way | None:
        """Return how a user is reached now: in the conversation `preferred`, if it is theirs, else in the latest."""
        return await with_retry(lambda: self._reachable(user, preferred, without))

    async def _reachable(self, user: str, preferred: Agent | None, without: str) -> Way | None:
        found = [preferred] if preferred and preferred.user == user and preferred.kind in FOREGROUND else []
        found += await self._directory.fetch(FetchPolicy.MOST_RECENT_FOREGROUND, user)
        found += await self._store.agents.find(user=user, kinds=FOREGROUND)
        for agent in found:
            connector = await self._connector_of(agent)
            if connector in self._connectors and connector != without:
                return Way(agent, connector)
        return None

    async def begin(self, user: str) -> Way | None:
        """Begin a conversation with a person who has none, where they read first: what is sent there waits for them."""
        person = await with_retry(lambda: self._store.people.get(user))
        connector = self._first_of(person)
        if person is None or person.kind != "person" or not connector:
            return None
        place = conversation(person, connector)
        return Way(await with_retry(lambda: self._directory.create(place, origin=Origin.PERSON)), connector)

    async def own_connector(self, agent: Agent) -> str:
        """Return the connector by which an agent's person hears what nobody asked for, empty if there is none."""
        if agent.kind not in (*SPOKEN_WITH, Kind.APP):
            return ""
        way = await self.reachable(agent.user, agent)
        return way.connector if way is not None else ""

    async def _connector_of(self, agent: Agent) -> str:
        """Return a conversation's connector: its name, or for a sub-user that of an account of theirs."""
        if agent.kind == Kind.CONNECTOR:
            return agent.path.rsplit("/", 1)[-1]
        return self._first_of(await self._store.people.get(agent.user))

    def _first_of(self, user: User | None) -> str:
        """Return the connector by which somebody is reached best of those they have an account on."""
        names = [key.partition(":")[0] for key in user.keys] if user else []
        names.sort(key=lambda name: name == DIRECT)  # everybody has the terminal, and few sit at it
        return next((name for name in names if name in self._connectors), "")

    async def _is_quiet(self, user: str) -> bool:
        hours = quiet_hours(self._live.now.notify.quiet)
        if hours is None:
            return False
        person = await with_retry(lambda: self._store.people.get(user))
        here = local_time(self._clock.now_ms(), ZoneInfo(person.zone if person else "UTC")).time()
        begin, end = hours
        return begin <= here < end if begin <= end else here >= begin or here < end


def quiet_hours(text: str) -> tuple[time, time] | None:
    """Read `22:00-07:00`; empty means none. Raises `ValueError`."""
    if not text:
        return None
    begin, _, end = text.partition("-")
    return time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())
