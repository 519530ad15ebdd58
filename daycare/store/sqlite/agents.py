"""Agents: rows with a path. Kind, user, role and parent are written once."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypedDict

import apsw
import msgspec

from daycare.base.errors import BusyError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import AgentChanged, AgentCreated, AgentRestored
from daycare.base.ids import new_agent_id
from daycare.base.limits import AGENT_CONFIG_MAX_BYTES, SUBAGENTS_DAILY_MAX, SUBAGENTS_LIVING_MAX
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import Kind, Path
from daycare.store.records import Agent, AgentConfig, NewAgent
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.sql import Select, marks
from daycare.store.sqlite.writer import Tx, Writer

CHILDREN_MAX: Final = 10_000
SUBAGENTS_DAY_S: Final = 86_400.0

_decode_config = msgspec.json.Decoder(AgentConfig).decode
_encode = msgspec.json.Encoder().encode
_EMPTY = AgentConfig()  # shared: most agents have no settings of their own
Spawn = Callable[[Tx, Agent, str, NewAgent, Envelope], Agent]
Change = Callable[[Tx, str, str, str, str | None], Agent]
_STATES = ("living", "parked", "dead")
_TOLD_AS = {"system_prompt": "prompt"}  # settings that events call otherwise
_COUNTERS = {"sub": "next_sub_index", "search": "next_search_index"}


class _About(TypedDict):
    at_ms: int
    path: str
    user: str
    agent_id: str


class Agents:
    """Agents: at most one living (or parked) on a path; kind, user, role and parent never change."""

    def __init__(self, writer: Writer, reader: apsw.Connection, spawn: Spawn, change: Change) -> None:
        self._write = writer.write
        self._reader = reader
        self._spawn, self._change = spawn, change  # handed in: they concern messages and turns, which know agents

    async def create(self, new: NewAgent) -> Agent:
        """Create an agent, or return the living one on that path; so a repeat is harmless.

        After a death the path gets a new incarnation. Raises `ConflictError` when another user's agent lives there.
        """
        return await self._write(lambda tx: create(tx, new))

    async def create_permanent(self, new: NewAgent, at_most: int) -> Agent:
        """Create an agent for another one, once for each `new.born`.

        Raises `ConflictError` AGENT_EXISTS where one lives, `BusyError` LASTING_AGENTS_MAX where its user has `at_most`
        of its kind.
        """
        return await self._write(lambda tx: create_permanent(tx, new, at_most))

    async def create_child(self, parent_id: str, kind: str, new: NewAgent) -> Agent:
        """Create `<new.path>/<kind>/<n>`, where `new.path` is the parent's path and n its next index of that kind.

        Not idempotent: each call makes another child. Concurrent calls get distinct, consecutive indexes; an index
        at which an agent still lives is skipped. Raises `NotFoundError` when the parent is dead, `BusyError` at
        `CHILDREN_MAX`, for helpers also where `SUBAGENTS_LIVING_MAX` live below the parent's root or
        `SUBAGENTS_DAILY_MAX` were made there within a day.
        """
        return await self._write(lambda tx: create_child(tx, parent_id, kind, new))

    async def spawn(self, parent: Agent, kind: str, new: NewAgent, first: Envelope) -> Agent:
        """Make a child as `create_child` does and post its first message, together; `first.to` is the child's path.

        Idempotent on `new.born`: a repeat returns the first child, dead or not, and posts nothing. Raises `BusyError`
        at `HELPERS_MAX`, for searches at `SEARCHES_MAX`.
        """
        return await self._write(lambda tx: self._spawn(tx, parent, kind, new, first), len(first.text))

    async def children(self, path: str, *, busy: bool = False) -> list[Agent]:
        """Return the living helpers and searches right below a path, in order of path; `busy`: those with work."""
        return [agent for agent in children(self._reader, path) if not busy or is_busy(self._reader, agent.id)]

    async def at(self, path: str) -> Agent | None:
        """Return the living (or parked) agent on a path."""
        return _AGENTS.one(self._reader, "path = ? AND state <> 'dead'", (path,))

    async def last(self, path: str) -> Agent | None:
        """Return who lives on a path, else who lived there last."""
        return _AGENTS.one(self._reader, "path = ? ORDER BY incarnation DESC LIMIT 1", (path,))

    async def get(self, agent_id: str) -> Agent | None:
        """Return one incarnation, dead ones included."""
        return _AGENTS.one(self._reader, "id = ?", (agent_id,))

    async def find(
        self,
        *,
        user: str | None = None,
        within: str = "",
        kinds: Sequence[str] = (),
        include_dead: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> list[Agent]:
        """Return agents by path and incarnation, after the path `after`, those in a pattern such as `/ann/**`."""
        where, bindings = ["path > ?"], [after]
        if user is not None:
            where.append("user = ?")
            bindings.append(user)
        if within:
            root = within.removesuffix("/**")
            where.append("(path = ? OR path > ? AND path < ?)")
            bindings += [root, within.removesuffix("**"), f"{root}0" if root != within else ""]  # 0 comes after /
        if kinds:
            where.append(f"kind IN ({marks(kinds)})")
            bindings += kinds
        if not include_dead:
            where.append("state <> 'dead'")
        order = "ORDER BY path, incarnation LIMIT ?"
        return _AGENTS.find(self._reader, f"{' AND '.join(where)} {order}", (*bindings, limit))

    async def recency(self, user: str, kind: str) -> list[tuple[Agent, int]]:
        """Return a user's living agents of a kind, each with the number of its last turn (0: none yet)."""
        living = "user = ? AND kind = ? AND state = 'living' LIMIT 1000"
        found = []
        for agent in _AGENTS.find(self._reader, living, (user, kind)):
            last = count(
                self._reader,
                "SELECT coalesce(max(turn), 0) FROM turns WHERE agent_id = ?",
                (agent.id,),
            )
            found.append((agent, last))
        return found

    async def idle_children(self, before_ms: int, now_ms: int, limit: int) -> list[tuple[str, int]]:
        """Return (id, last turn) of living helpers and searches, idle since `before_ms`, for whom nothing waits.

        Of one whose turn ended later than now, by a clock that was ahead, nobody knows since when: it counts as idle.
        """
        rows = self._reader.execute(
            "SELECT a.id, h.turn FROM agents a"
            " JOIN history h ON h.turn = (SELECT max(turn) FROM turns WHERE agent_id = a.id)"
            " WHERE a.kind IN ('sub', 'search') AND a.state = 'living' AND h.ended_at NOT BETWEEN ? AND ?"
            " AND NOT EXISTS (SELECT 1 FROM inbox WHERE agent_id = a.id AND state = 0)"
            " AND NOT EXISTS (SELECT 1 FROM waits WHERE agent_id = a.id) LIMIT ?",
            (before_ms, now_ms, limit),
        )
        return [(str(agent_id), int(str(turn))) for agent_id, turn in rows]

    async def configure(self, agent_id: str, config: AgentConfig, *, by: str = "", trace: str = "") -> Agent:
        """Replace an agent's configuration; the last one wins. `by` is the path of the agent that wants it so.

        Raises `InvalidError` when it is too large.
        """
        return await self._write(lambda tx: configure(tx, agent_id, config, by, trace))

    async def set_state(self, agent_id: str, state: str, reason: str = "", *, untold: str | None = None) -> Agent:
        """Park, unpark or bury an agent.

        Burying frees the path, ends its turns, deletes the timers, moves waiting messages to the dead letters, tells
        those agents that asked (but the one with the id `untold`), and dismisses its children, together. Raises
        `ConflictError` for one who is dead already.
        """
        return await self._write(lambda tx: self._change(tx, agent_id, state, reason, untold))

    async def revive(self, path: str, since_ms: int) -> Agent:
        """Let the last incarnation of a path live again, with its history, settings and documents.

        What waited for it has become dead letters and stays there; its helpers have ended. A dismissal that has the key
        of one of its earlier lives is no repeat. Raises `ConflictError` when somebody lives at the path or it ended
        before `since_ms`, `NotFoundError` when nobody ever lived there.
        """
        return await self._write(lambda tx: _revive(tx, path, since_ms))

    async def new_session(self, agent_id: str, reason: str) -> int:
        """End the session and return the next one's number. Not idempotent: each call starts one."""
        return await self._write(lambda tx: new_session(tx, agent_id, reason))

    async def count(self) -> dict[str, int]:
        """Return how many agents there are in each stored state, the daemon's own left out; states may be missing."""
        return counts_of_agents(self._reader)


def create(tx: Tx, new: NewAgent) -> Agent:
    """Insert an agent unless its path is taken by a living one, which is returned instead."""
    living = _AGENTS.one(tx.db, "path = ? AND state <> 'dead'", (new.path,))
    if living is not None:
        if living.user != new.user:
            raise ConflictError("PATH_TAKEN", f"creating {new.path}: it belongs to another user", hint="daycare agents")
        return living
    _refuse_removed(tx, f"creating {new.path}", new.user)
    incarnation = tx.one("SELECT coalesce(max(incarnation), 0) + 1 FROM agents WHERE path = ?", (new.path,))
    assert incarnation is not None
    agent_id = new.id or new_agent_id()
    config = encode_config(new.path, new.config)
    tx.run(
        "INSERT INTO agents (id, path, kind, role, user, origin, parent, state, config, incarnation, born,"
        " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'living', ?, ?, ?, ?)",
        (
            agent_id,
            new.path,
            new.kind,
            new.role,
            new.user,
            str(new.origin),
            new.parent,
            config,
            incarnation[0],
            new.born or None,
            tx.now,
        ),
    )
    _open_session(tx, agent_id, 1, new.user, new.origin)
    tx.commit.agents.add(agent_id)
    agent = must_get(tx, agent_id)
    tx.commit.events.append(AgentCreated(**about(tx, agent), by=new.by, trace=new.trace))
    return agent


def _refuse_removed(tx: Tx, doing: str, user: str) -> None:
    """Raise `ForbiddenError` for an agent of a user who was removed: what was on its way for them comes too late."""
    if tx.one("SELECT 1 FROM users WHERE id = ? AND removed_at IS NOT NULL", (user,)) is not None:
        raise ForbiddenError("USER_REMOVED", f"{doing}: its user was removed", hint=f"daycare users add {user}")


def create_permanent(tx: Tx, new: NewAgent, at_most: int) -> Agent:
    """Do what `Agents.create_permanent` does, inside of an open transaction."""
    if (known := born_of(tx, new.born)) is not None:
        return known
    if tx.one("SELECT 1 FROM agents WHERE path = ? AND state <> 'dead'", (new.path,)) is not None:
        raise ConflictError("AGENT_EXISTS", f"creating {new.path}: there is one", hint="choose another name")
    there = count(
        tx.db, "SELECT count(*) FROM agents WHERE user = ? AND kind = ? AND state <> 'dead'", (new.user, new.kind)
    )
    if there >= at_most:
        raise BusyError(
            "LASTING_AGENTS_MAX",
            f"creating {new.path}: {new.user} has {there} permanent agents",
            hint="its person ends those that are not needed: /agents rm NAME",
        )
    return create(tx, new)


def born_of(tx: Tx, born: str) -> Agent | None:
    """Return the child that a call has made, dead or not."""
    return _AGENTS.one(tx.db, "born = ?", (born,))


def create_child(tx: Tx, parent_id: str, kind: str, new: NewAgent) -> Agent:
    """Insert a child under the parent's next index; the counter advances in the same transaction."""
    counter = _COUNTERS[kind]
    row = tx.one(f"SELECT {counter}, kind FROM agents WHERE id = ? AND state <> 'dead'", (parent_id,))
    if row is None:
        raise NotFoundError("AGENT_DEAD", f"creating a child of {new.path}: it is dead", hint="daycare agents")
    index = row[0]
    if kind == "sub":
        _refuse_swarm(tx, str(Path.stored(new.path, Kind(row[1])).root))
    if index >= CHILDREN_MAX:
        raise BusyError("CHILDREN_MAX", f"creating a child of {new.path}: it had {index} already", hint="/reset it")
    # A child of the parent's last incarnation may still live at an index of its own.
    while _AGENTS.one(tx.db, "path = ? AND state <> 'dead'", (f"{new.path}/{kind}/{index}",)) is not None:
        index += 1
    tx.run(f"UPDATE agents SET {counter} = ? WHERE id = ?", (index + 1, parent_id))
    return create(tx, msgspec.structs.replace(new, path=f"{new.path}/{kind}/{index}", parent=parent_id))


def _refuse_swarm(tx: Tx, root: str) -> None:
    """Raise `BusyError` where too many helpers live below a root, or too many were made in a day."""
    row = tx.one(
        "SELECT coalesce(sum(state <> 'dead'), 0), coalesce(sum(created_at > ? AND created_at <= ?), 0)"
        " FROM agents WHERE path > ? AND path < ? AND kind = 'sub'",
        (tx.now - round(SUBAGENTS_DAY_S * 1000), tx.now, f"{root}/", f"{root}0"),  # 0 is the character after the slash
    )
    living, today = row or (0, 0)
    if living >= SUBAGENTS_LIVING_MAX:
        raise BusyError(
            "SUBAGENTS_LIVING_MAX",
            f"making a helper below {root}: {living} live there already",
            hint="end those that are not needed; idle ones end by themselves after a while",
        )
    if today >= SUBAGENTS_DAILY_MAX:
        raise BusyError(
            "SUBAGENTS_DAILY_MAX",
            f"making a helper below {root}: {today} were made within 24 hours",
            hint="do it without one; tomorrow there is room again",
        )


def _revive(tx: Tx, path: str, since_ms: int) -> Agent:
    """Let the last incarnation of a path live again, if it ended at `since_ms` or later and nobody lives there now."""
    if tx.one("SELECT 1 FROM agents WHERE path = ? AND state <> 'dead'", (path,)) is not None:
        raise ConflictError("AGENT_EXISTS", f"restoring {path}: there is one", hint=f"daycare agents show {path}")
    row = tx.one("SELECT id, ended_at, user FROM agents WHERE path = ? ORDER BY incarnation DESC LIMIT 1", (path,))
    if row is None:
        raise NotFoundError("AGENT_UNKNOWN", f"restoring {path}: none is kept", hint="daycare agents --all")
    if row[1] < since_ms:
        raise ConflictError(
            "AGENT_GONE", f"restoring {path}: it ended too long ago", hint=f"daycare agents create {path}"
        )
    _refuse_removed(tx, f"restoring {path}", str(row[2]))
    agent_id = str(row[0])
    tx.run("UPDATE agents SET state = 'living', reason = NULL, ended_at = NULL WHERE id = ?", (agent_id,))
    # What ended a life ended that one: whoever did so may do it again in the same words, and it is no repeat.
    tx.run(
        "UPDATE inbox SET key = key || ':obeyed:' || seq WHERE agent_id = ? AND kind = ? AND state <> 0",
        (agent_id, EnvelopeKind.DISMISS),
    )
    tx.commit.agents.add(agent_id)
    agent = must_get(tx, agent_id)
    tx.commit.events.append(AgentRestored(**about(tx, agent)))
    return agent


def counts_of_agents(db: apsw.Connection) -> dict[str, int]:
    """Return how many agents there are in each stored state of which there are any, the daemon's own left out."""
    found = {state: counted(db, f"agents.{state}") for state in _STATES}
    return {state: number for state, number in found.items() if number}


def children(db: apsw.Connection, path: str) -> list[Agent]:
    """Return the living helpers and searches right below a path, in order of path."""
    found = _AGENTS.find(
        db,
        "path > ? AND path < ? AND state <> 'dead' AND kind IN ('sub', 'search') ORDER BY path LIMIT 10000",
        (f"{path}/", f"{path}0"),  # 0 is the character after the slash
    )
    return [agent for agent in found if agent.path.count("/") == path.count("/") + 2]


def is_busy(db: apsw.Connection, agent_id: str) -> bool:
    """Return whether messages wait for an agent, or it waits for others."""
    return bool(
        count(
            db,
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent_id = ?1 AND state = 0)"
            " OR EXISTS (SELECT 1 FROM waits WHERE agent_id = ?1)",
            (agent_id,),
        )
    )


def new_session(tx: Tx, agent_id: str, reason: str) -> int:
    """Close the current session and open the next."""
    agent = must_get(tx, agent_id)
    tx.run(
        "UPDATE sessions SET ended_at = ?, reason = ? WHERE agent_id = ? AND session = ?",
        (tx.now, reason, agent_id, agent.session),
    )
    _open_session(tx, agent_id, agent.session + 1, agent.user, agent.origin)
    tx.run("UPDATE agents SET session = ? WHERE id = ?", (agent.session + 1, agent_id))
    tx.memory.forget(agent_id, agent.path)
    tx.commit.agents.add(agent_id)
    return agent.session + 1


def must_get(tx: Tx, agent_id: str) -> Agent:
    """Return an agent or raise `NotFoundError`."""
    agent = _AGENTS.one(tx.db, "id = ?", (agent_id,))
    if agent is None:
        raise NotFoundError("AGENT_UNKNOWN", f"no agent has the id {agent_id}", hint="daycare agents")
    return agent


def encode_config(path: str, config: AgentConfig) -> str:
    """Return the configuration as JSON, refusing one that is too large."""
    text = _encode(config).decode()
    if len(text) > AGENT_CONFIG_MAX_BYTES:
        raise InvalidError(
            "AGENT_CONFIG_TOO_LARGE",
            f"configuring {path}: {len(text)} bytes of settings, at most {AGENT_CONFIG_MAX_BYTES}",
            hint="shorten the system prompt",
        )
    return text


def configure(tx: Tx, agent_id: str, config: AgentConfig, by: str = "", trace: str = "") -> Agent:
    """Do what `Agents.configure` does, inside of an open transaction."""
    agent = must_get(tx, agent_id)
    changed = tuple(each for each in config.__struct_fields__ if getattr(config, each) != getattr(agent.config, each))
    if not changed:
        return agent
    tx.run("UPDATE agents SET config = ? WHERE id = ?", (encode_config(agent.path, config), agent_id))
    tx.commit.agents.add(agent_id)
    fields = tuple(_TOLD_AS.get(each, each) for each in changed)
    tx.commit.events.append(AgentChanged(**about(tx, agent), fields=fields, by=by, trace=trace))
    return must_get(tx, agent_id)


def about(tx: Tx, agent: Agent) -> _About:
    """Return what events of an agent have in common, its trace left out."""
    return {"at_ms": tx.now, "path": agent.path, "user": agent.user, "agent_id": agent.id}


def _open_session(tx: Tx, agent_id: str, session: int, user: str, origin: Origin) -> None:
    tx.run(
        "INSERT INTO sessions (agent_id, session, user, origin, started_at) VALUES (?, ?, ?, ?, ?)",
        (agent_id, session, user, str(origin), tx.now),
    )


def with_heartbeat(db: apsw.Connection, limit: int) -> list[Agent]:
    """Return living agents that have a heartbeat among their settings, in order of id."""
    has_one = "state = 'living' AND instr(config, '\"heartbeat_s\":') > 0 ORDER BY id LIMIT ?"
    return [agent for agent in _AGENTS.find(db, has_one, (limit,)) if agent.config.heartbeat_s]


def _agent(row: tuple[Any, ...]) -> Agent:
    id_, path, kind, role, user, origin, parent, state, config, incarnation, session, created_at, reason = row
    return Agent(
        id=id_,
        path=path,
        kind=kind,
        role=role,
        user=user,
        origin=Origin(origin),
        parent=parent,
        state=state,
        config=_EMPTY if config == "{}" else _decode_config(config),
        incarnation=incarnation,
        session=session,
        created_at=created_at,
        reason=reason,
    )


_AGENTS: Final = Select(
    "id, path, kind, role, user, origin, parent, state, config, incarnation, session, created_at, reason",
    "agents",
    _agent,
)
