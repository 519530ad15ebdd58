"""Approvals: how people decide on what agents ask for. Requests are made by the kernel, which a decision wakes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.agent.commands import Commands
    from daycare.api.sockets import Socket, SocketPart
    from daycare.base.clock import Clock
    from daycare.features.approvals.approval_messages import ApprovalMessages
    from daycare.features.approvals.commands import ApprovalCommands as ApprovalCommands
    from daycare.features.approvals.service import ApprovalsService
    from daycare.observe.bus import Bus
    from daycare.settings import Live
    from daycare.store.sqlite.store import Store


class Approving(Feature):
    """All of it."""

    name = "approvals"
    roles: ClassVar = {"approval messages": ""}

    def __init__(
        self,
        store: "Store",
        directory: "Directory",
        service: "ApprovalsService",
        outcomes: "ApprovalMessages",
        bus: "Bus",
        live: "Live",
        clock: "Clock",
        owner: str,
    ) -> None:
        from daycare.features.approvals.commands import ApprovalCommands

        self._store = store
        self._directory = directory
        self._service = service
        self._outcomes = outcomes
        self._bus = bus
        self._clock = clock
        self._owner = owner
        self.commands = ApprovalCommands(service, store, live, clock)

    def add_to(self, commands: "Commands") -> None:
        """Register the chat commands."""
        self.commands.add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/approvals`."""
        from daycare.features.approvals.routes import ApprovalRoutes

        return ApprovalRoutes(self._service, self._store, self._directory, self._clock, self._owner).routes()

    def on_socket(self, socket: "Socket") -> "Sequence[SocketPart]":
        """Return what shows requests on a WebSocket, and takes decisions."""
        from daycare.features.approvals.socket import DecidingOnSocket

        return [DecidingOnSocket(socket, self._service, self._store, self._bus, self._clock, self._owner)]

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what keeps the messages that show requests as they are."""
        return {"approval messages": self._outcomes.run}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends requests."""
        return {"requests that nobody decided": self._expire}

    async def _expire(self, now_ms: int) -> int:
        return await self._service.expire()
