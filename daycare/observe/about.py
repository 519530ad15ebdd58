"""What every event says in common: when, whose, and which trace joins it to the rest."""

from typing import Protocol, TypedDict

from daycare.base.clock import Clock


class About(TypedDict):
    """The fields of `Event` itself."""

    at_ms: int
    path: str
    user: str
    agent_id: str
    trace: str


class _Agent(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def user(self) -> str: ...


class _Row(Protocol):
    @property
    def agent_id(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def trace(self) -> str: ...


def about(clock: Clock, agent: _Agent, trace: str = "") -> About:
    """Return what events of an agent have in common: `bus.publish(TurnStarted(**about(clock, agent), turn=...))`."""
    return {"at_ms": clock.now_ms(), "path": agent.path, "user": agent.user, "agent_id": agent.id, "trace": trace}


def about_row(clock: Clock, row: _Row) -> About:
    """Return what events of a stored row have in common."""
    return {
        "at_ms": clock.now_ms(),
        "path": row.path,
        "user": row.user,
        "agent_id": row.agent_id,
        "trace": row.trace,
    }
