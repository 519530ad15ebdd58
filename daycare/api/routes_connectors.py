"""Connectors: how each is, and pairing one with an account by a code that is scanned or typed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.connector import Connector, Paired, Pairing
from daycare.base.errors import InvalidError, NotFoundError

PAIR_DEADLINE_S: Final = 120.0  # until a bridge that is started for it has a code


class PairRequest(RequestDocument, frozen=True, kw_only=True):
    """With a number of a telephone the code is typed there; without one it is scanned."""

    phone: Annotated[str, msgspec.Meta(pattern=r"^(\+?[0-9]{6,20})?$")] = ""


class Connectors:
    """`/v1/connectors`."""

    def __init__(self, connectors: Mapping[str, Connector], status: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self._connectors = connectors
        self._status = status

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/connectors", self.find),
            Route("/v1/connectors/{name}/pairing", self.pairing),
            Route("/v1/connectors/{name}/pairing", self.pair, methods=["POST"]),
            Route("/v1/connectors/{name}/pairing", self.unpair, methods=["DELETE"]),
        ]

    @described({200: {"connectors": list[dict[str, Any]]}})
    async def find(self, request: Request) -> Response:
        """List all connectors and how they are; `pairs` says whether one is paired by a code."""
        status = await self._status()
        found: list[dict[str, Any]] = [
            {"name": name, "pairs": isinstance(connector, Paired), **status[name]}
            for name, connector in sorted(self._connectors.items())
        ]
        return answer({"connectors": found})

    @described({200: Pairing})
    async def pairing(self, request: Request) -> Response:
        """Tell how far it is: the code of the moment, and until when it is good."""
        return answer(self._paired(request).pairing())

    @described({200: Pairing}, body=PairRequest, refuses=(409,))
    async def pair(self, request: Request) -> Response:
        """Begin to pair."""
        wish = await body(request, PairRequest)
        connector = self._paired(request)
        with trio.fail_after(PAIR_DEADLINE_S):
            return answer(await connector.pair(wish.phone.lstrip("+")))

    @described({200: Pairing}, refuses=(409,))
    async def unpair(self, request: Request) -> Response:
        """Give the account back, and forget it."""
        connector = self._paired(request)
        with trio.fail_after(PAIR_DEADLINE_S):
            await connector.unpair()
        return answer(connector.pairing())

    def _paired(self, request: Request) -> Paired:
        name = request.path_params["name"]
        connector = self._connectors.get(name)
        if connector is None:
            raise NotFoundError("CONNECTOR_UNKNOWN", f"pairing {name}: there is none", hint="daycare bridge list")
        if not isinstance(connector, Paired):
            raise InvalidError("CONNECTOR_CANNOT", f"pairing {name}: it is not paired by a code")
        return connector
