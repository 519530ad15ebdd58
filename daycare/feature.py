"""A capability as the daemon sees it: cron, tasks, signals, ... each in a folder of its own.

The daemon is made of a kernel, which knows no capability, and of features, which know the kernel. What a feature brings
is asked for here and nowhere else: `daemon.py` goes through all of them. What it does inside the transactions of the
core is a `Follower` of the store.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.actors.router import Router
    from daycare.agent.behaviours import BehaviourPart
    from daycare.agent.commands import Commands
    from daycare.api.sockets import Socket, SocketPart
    from daycare.base.clock import Clock
    from daycare.base.health import Finding
    from daycare.observe.bus import Bus
    from daycare.observe.metrics import Family
    from daycare.plugin import StructTool
    from daycare.settings import Live
    from daycare.store.records import Agent, Commit
    from daycare.store.sqlite.store import Store


class Core(NamedTuple):
    """What a feature that keeps something and talks to agents stands on.

    `may(subject, action, object)` raises what keeps somebody from something; `owner` has what programs do for nobody
    else.
    """

    store: "Store"
    directory: "Directory"
    router: "Router"
    bus: "Bus"
    clock: "Clock"
    live: "Live"
    may: Callable[[str, str, str], Awaitable[object]]
    owner: str


class Feature:
    """What a capability brings; each part is optional.

    `name` is its key in `GET /v1/status`. What is posted to `uploads`, paths of its routes, may be of any size:
    they read it themselves. `bodies` are those that take larger ones than others, in bytes; `/v1/x/` are all below
    it. Routes that are `first` are there from the start: whoever watches a daemon asks for them. The paths of
    others are theirs alone. Where several nodes share a store, each part of `background` runs on one of them, which
    has the role of that name; `roles` names another role for a part, "" for what each node does for itself.
    """

    name: ClassVar[str]
    first: ClassVar[bool] = False
    uploads: ClassVar[tuple[str, ...]] = ()
    bodies: ClassVar[Mapping[str, int]] = {}
    roles: ClassVar[Mapping[str, str]] = {}

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools of agents."""
        return ()

    def offers(self, agent: "Agent", tool: str) -> bool:
        """Return whether an agent has one of these tools."""
        return True

    def add_to(self, commands: "Commands") -> None:
        """Register chat commands."""

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return routes of the API; what waits in them ends when it is `closing`.

        Called once it is served, so that what they import costs nobody else.
        """
        return ()

    def on_socket(self, socket: "Socket") -> "Sequence[SocketPart]":
        """Return what it does on a WebSocket of the API that was just opened."""
        return ()

    async def prepare(self) -> None:
        """Do what must be done before the first turn is taken, which waits for it."""

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what runs beside the turns until cancelled, by the name that people read when it crashes."""
        return {}

    def behaviours(self) -> "Mapping[str, BehaviourPart]":
        """Return the daemon's own agents whose turns are code, by their paths."""
        return {}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends what is kept no longer, by what that is: given the time, a bounded number, and how many."""
        return {}

    def committed(self, commit: "Commit") -> None:
        """Hear what a commit made true. It may not raise, nor wait."""

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        return {}

    async def findings(self) -> "Sequence[Finding]":
        """Return how it is, for `daycare health`."""
        return ()

    async def metric_families(self) -> "Sequence[Family]":
        """Return what is measured of it, for Prometheus."""
        return ()
