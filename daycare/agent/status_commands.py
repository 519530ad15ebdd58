"""The chat commands that tell how things are: `/start`, `/status`, `/trace`. They change nothing."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

import trio

from daycare.actors.directory import Directory
from daycare.actors.failures import Trouble
from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands
from daycare.base.clock import Clock
from daycare.base.durations import duration
from daycare.base.errors import DaycareError
from daycare.base.limits import ATTEMPTS_MAX
from daycare.base.messages import Lane
from daycare.base.path import Kind
from daycare.base.times import local_time
from daycare.inference.pool import Pool
from daycare.settings import Live
from daycare.store.records import Agent, DeadLetter, InboxRow, TraceEntry, User
from daycare.store.records_upkeep import DeadFilter
from daycare.store.sqlite.store import Store

_COUNTED_MAX: Final = 100  # waiting messages and dead letters; past that nobody wants the exact number
_LINES_MAX: Final = 40  # of a list in a chat: two screens of a phone
_LINE_MAX_CHARS: Final = 300
_SEQ_MAX_DIGITS: Final = 18  # more do not fit a row's number
LIVES: Final = {"in_turn": "at work", "draining": "at work", "waking": "awake", "idle": "awake"}


class StatusCommands:
    """Answers the four commands. `status` returns what `GET /v1/status` shows; `life_of` where an agent is in its life,
    `trouble_of` why its turn is not done yet.

    An operator, in a chat of their own, sees everything; anybody else what concerns themselves.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        pool: Pool,
        live: Live,
        clock: Clock,
        status: Callable[[], Awaitable[Mapping[str, Any]]],
        life_of: Callable[[Agent], str],
        trouble_of: Callable[[str], Trouble | None],
    ) -> None:
        self._store = store
        self._directory = directory
        self._pool = pool
        self._live = live
        self._clock = clock
        self._now = status
        self._life_of = life_of
        self._trouble_of = trouble_of
        self._tracing = trio.CapacityLimiter(1)  # it reads whole tables

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add("start", Command("say hello", self._start, hidden=True))
        commands.add("status", Command("show how I am and what waits", self._status))
        commands.add("trace", Command("show what happened to your last message [number]", self._trace))

    # -- /start --------------------------------------------------------------------------------------------------------

    async def _start(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        user = await self._user(agent)
        return CommandAnswer(
            f"Hello {user.name}, I am {agent.config.name or self._live.now.agent.name}.\n"
            "Ask me things, give me work, send me files: I read it in the order it comes and answer here.\n"
            "What you write is kept, also while I am busy or away for a while.\n"
            "/help shows what else can be said."
        )

    # -- /status -------------------------------------------------------------------------------------------------------

    async def _status(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        user = await self._user(agent)
        now = await self._now()
        agents = await self._directory.all_of(agent.user)
        lines = [
            f"daycare {now['version']}, up {duration((self._clock.now_ms() - now['started_at']) / 1000)}",
            f"your agents: {len(agents)} ({_counted(LIVES.get(life, life) for life in map(self._life_of, agents))})",
            f"waiting for me: {await self._waiting(agent)}",
            *self._trouble(agent, ZoneInfo(user.zone)),
            *self._connections(user, agents, now["connectors"]),
            *await self._models(user, agent),
            *_letters(await self._store.dead.find(DeadFilter(path=agent.path), limit=_COUNTED_MAX)),
            *(_everything(now) if user.operator else ()),
        ]
        return CommandAnswer("\n".join(line[:_LINE_MAX_CHARS] for line in lines))

    async def _waiting(self, agent: Agent) -> str:
        rows = await self._store.inbox.waiting(agent.id, limit=_COUNTED_MAX)
        count = sum(row.envelope.lane is Lane.MESSAGES for row in rows)
        if not count:
            return "nothing"
        return f"{'over ' if len(rows) == _COUNTED_MAX else ''}{_number(count, 'message')}"

    def _trouble(self, agent: Agent, zone: ZoneInfo) -> list[str]:
        it = self._trouble_of(agent.id)
        if it is None:
            return []
        which = f"try {it.attempt} of {ATTEMPTS_MAX}" if it.attempt else "the last try"
        return [f"your message waits: {which} failed, {it.reason}; next try at {local_time(it.next_at, zone):%H:%M:%S}"]

    def _connections(self, user: User, agents: Sequence[Agent], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return a line for each connection: those that this person's agents talk through, for an operator all."""
        own = {agent.path.rsplit("/", 1)[-1] for agent in agents if agent.kind == Kind.CONNECTOR}
        lines = []
        for name, health in known.items():
            if not user.operator and name not in own:
                continue
            line = f"{name}: {health['state']}"
            if health.get("identity"):
                line += f" as {health['identity']}"
            if health["state"] != "up" and health.get("since"):
                line += f" for {duration((self._clock.now_ms() - health['since']) / 1000)}"
            if health.get("reason"):
                line += f", {health['reason']}"
            if user.operator and health.get("hint"):
                line += f" ({health['hint']})"
            lines.append(line)
        return lines

    async def _models(self, user: User, agent: Agent) -> list[str]:
        away = self._pool.away
        if user.operator:
            return [f"model provider {name}: away, {reason}" for name, reason in away.items()]
        if not away:
            return []  # without asking who answers: that may take a while
        try:
            plan = await self._pool.plan(agent.role, agent.config.model or None)
        except DaycareError:
            return ["no model answers me now"]
        if all(choice.provider in away or str(choice) in away for choice in plan):
            return ["no model answers me now: what you write waits until one does"]
        return []

    # -- /trace --------------------------------------------------------------------------------------------------------

    async def _trace(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        wanted = rest.split(maxsplit=1)[0] if rest else "last"
        if wanted == "last":
            trace = await self._apart(lambda: self._store.ledger.last(agent.id, row.envelope.sender))
        else:
            trace = await self._trace_of(wanted)
        entries = await self._apart(lambda: self._store.ledger.trace(trace)) if trace else []
        own = [entry for entry in entries if entry.path.startswith(f"/{agent.user}/")]
        if not own:
            which = "last message" if wanted == "last" else f"message {wanted[:_LINE_MAX_CHARS]}"
            return CommandAnswer(f"I know nothing of your {which}: there is none, or it was long ago.")
        zone = ZoneInfo((await self._user(agent)).zone)
        left_out = len(own) - _LINES_MAX
        lines = [_entry(entry, agent, zone) for entry in own[-_LINES_MAX:]]
        more = [f"({left_out} earlier lines: daycare trace {trace})"] if left_out > 0 else []
        return CommandAnswer("\n".join([f"Message {trace}:", *more, *lines]))

    async def _trace_of(self, wanted: str) -> str:
        """Return the trace id that a number or an id means; a trace id, too, may happen to be all digits."""
        if wanted.isdecimal() and len(wanted) <= _SEQ_MAX_DIGITS:
            receipt = await self._store.inbox.receipt(int(wanted))
            return receipt.trace if receipt else wanted
        return wanted

    async def _apart(self, read: Callable[[], Any]) -> Any:
        return await trio.to_thread.run_sync(read, limiter=self._tracing)

    async def _user(self, agent: Agent) -> User:
        return await self._store.people.get(agent.user) or User(id=agent.user, name=agent.user)


def _everything(now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what only the operator is to see."""
    agents = now["agents"]
    yield f"all agents: {agents['living']} living, {agents['awake']} awake, {agents['in_turn']} at work"
    if agents["parked"]:
        yield f"parked agents: {agents['parked']}, see daycare agents"
    yield f"all waiting: {_number(now['inbox_waiting'], 'message')}, {now['outbox_waiting']} to be delivered"
    if now["dead_letters"]:
        yield f"all dead letters: {now['dead_letters']}, see daycare dead list"
    if now.get("strangers"):
        yield f"{_number(now['strangers'], 'stranger')} waiting to be let in, see daycare pair list"
    if now["store"]["trouble"]:
        yield f"the disk: {now['store']['trouble']}"
    if away := now.get("memory", {}).get("redis", {}).get("trouble"):
        yield f"nothing is recalled: {away}"
    if away := now.get("files", {}).get("trouble"):
        yield f"files in the bucket cannot be read: {away}"


def _letters(found: Sequence[DeadLetter]) -> Iterator[str]:
    """Yield what is to be told of an agent's dead letters."""
    letters = [letter for letter in found if letter.replayed_at is None]
    if letters:
        count = f"{'over ' if len(found) == _COUNTED_MAX else ''}{_number(len(letters), 'dead letter')}"
        again = next((f"; /retry {letter.no} tries it again" for letter in letters[:1] if letter.source == "inbox"), "")
        yield f"{count}, the last: {letters[0].reason[: _LINE_MAX_CHARS // 2]}{again}"


def _entry(entry: TraceEntry, agent: Agent, zone: ZoneInfo) -> str:
    at = local_time(entry.at_ms, zone)
    where = "" if entry.path == agent.path else f" {entry.path}"
    return f"{at:%H:%M:%S}{where} {entry.what} {entry.detail}".strip()[:_LINE_MAX_CHARS]


def _counted(names: Iterator[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
