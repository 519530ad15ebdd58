"""The builder as routes: opening it, and what was said with it."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body, query
from daycare.base.messages import Message
from daycare.base.path import Path
from daycare.features.agents.templates import names
from daycare.features.builder.records import BUILDER
from daycare.features.builder.service import Builder
from daycare.store.records import Agent

SAID_MAX: Final = 50  # messages of its conversation: what one needs to go on

_SHOWN: Final = {"agent": (Agent, None), "lacking": str, "said": list[Message], "templates": list[str]}


class WhoseBuilder(RequestDocument, frozen=True, kw_only=True):
    """Whose; the operator's, or that of who asks, without it."""

    user: str = ""


class BuilderRoutes:
    """`/v1/builder`."""

    def __init__(self, builder: Builder, owner: str) -> None:
        self._builder = builder
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return the routes of this class."""
        return [Route("/v1/builder", self.show), Route("/v1/builder", self.open, methods=["POST"])]

    @persons
    @described({200: _SHOWN}, query=WhoseBuilder)
    async def show(self, request: Request) -> Response:
        """Show a person's builder, null if it was never opened, and the last 50 messages of its conversation.

        `lacking` says why nothing can be built by talking now, "" if it can.
        """
        return await self._shown(self._whose(caller_of(request), query(request, WhoseBuilder).user))

    @persons
    @described({200: _SHOWN}, body=WhoseBuilder, refuses=(409,))
    async def open(self, request: Request) -> Response:
        """Open a person's builder: it is made if there is none. What is said to it goes to the path of its agent."""
        user = self._whose(caller_of(request), (await body(request, WhoseBuilder)).user)
        await self._builder.open(user)
        return await self._shown(user)

    def _whose(self, caller: Caller, user: str) -> str:
        whose = user or (caller.user if caller.own_only else self._owner)
        caller.check_path(str(Path.agent(whose, BUILDER)))
        return whose

    async def _shown(self, user: str) -> Response:
        await self._builder.person(user)
        agent, _ = await self._builder.at(user, BUILDER)
        return answer(
            {
                "agent": agent,
                "lacking": await self._builder.lacking(user),
                "said": await self._builder.said(user, SAID_MAX),
                "templates": list(names()),
            }
        )
