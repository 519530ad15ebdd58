"""Credentials as routes: values go in and never come out."""

from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.limits import SECRET_MAX_CHARS
from daycare.features.credentials.kinds import KINDS
from daycare.features.credentials.records import CheckedCredential
from daycare.features.credentials.service import Credentials


class NewCredential(RequestDocument, frozen=True, kw_only=True):
    """A token of a service."""

    token: Annotated[str, msgspec.Meta(max_length=SECRET_MAX_CHARS)]


_CHECKED: Final[dict[int, Any]] = {200: {"configured": bool, "identity": str, "missing": [str]}}


class CredentialRoutes:
    """`/v1/credentials`."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def routes(self) -> list[Route]:
        """Return the routes of credentials."""
        return [
            Route("/v1/credentials", self.find),
            Route("/v1/credentials/{service}", self.store, methods=["POST"]),
            Route("/v1/credentials/{service}/check", self.check, methods=["POST"]),
            Route("/v1/credentials/{service}/status", self.status),
            Route("/v1/credentials/{service}", self.forget, methods=["DELETE"]),
        ]

    @described(
        {200: {"credentials": [{"service": str, "shape": str, "scopes": [str], "find": str, "configured": bool}]}}
    )
    async def find(self, _: Request) -> Response:
        """List services: how a token of each looks, which scopes it needs, where it is found, whether there is one."""
        found = [
            {
                "service": name,
                "shape": kind.shape,
                "scopes": kind.scopes,
                "find": kind.find,
                "configured": self._credentials.configured(name),
            }
            for name, kind in KINDS.items()
        ]
        return answer({"credentials": found})

    @described(_CHECKED)
    async def check(self, request: Request) -> Response:
        """Ask a service whether it still takes the token that is kept, and which scopes that lacks."""
        return _checked(await self._credentials.check(request.path_params["service"]))

    @described(_CHECKED, body=NewCredential)
    async def store(self, request: Request) -> Response:
        """Keep a token of a service, once that has said that it is good; tell which scopes it lacks."""
        token = (await body(request, NewCredential)).token
        return _checked(await self._credentials.store(request.path_params["service"], token))

    @described({200: {"configured": bool}})
    async def status(self, request: Request) -> Response:
        """Say whether there is a token of a service."""
        return answer({"configured": self._credentials.configured(request.path_params["service"])})

    @described({204: ()})
    async def forget(self, request: Request) -> Response:
        """Forget the token of a service; where there is none, too."""
        await self._credentials.forget(request.path_params["service"])
        return Response(status_code=204)


def _checked(found: CheckedCredential) -> Response:
    return answer({"configured": True, "identity": found.identity, "missing": found.missing})
