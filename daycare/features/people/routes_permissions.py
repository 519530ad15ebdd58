"""Permissions: whether one agent may do something to another, and why."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.permission_checks import PermissionChecks
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, query
from daycare.rules.permissions import Verdict


class CanQuery(RequestDocument, frozen=True, kw_only=True):
    """Who does what to whom; without an object to itself."""

    subject: str
    action: str
    object: str = ""


class PermissionRoutes:
    """`/v1/can`."""

    def __init__(self, permissions: PermissionChecks) -> None:
        self._permissions = permissions

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/can", self.can)]

    @described({200: Verdict}, query=CanQuery)
    async def can(self, request: Request) -> Response:
        """Decide as an agent's attempt would be decided, with each step, and record nothing."""
        wish = query(request, CanQuery)
        return answer(await self._permissions.may(wish.subject, wish.action, wish.object or wish.subject))
