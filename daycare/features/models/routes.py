"""Models: which can be used and what they cost, and a call of each to see whether it answers."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.inference.metering import Payer
from daycare.inference.pool import Pool
from daycare.inference.survey import Survey, Tested


class ModelsBody(RequestDocument, frozen=True, kw_only=True):
    """Which models to call, as PROVIDER/MODEL; all that are in use if none is named."""

    models: tuple[str, ...] = ()


class ModelRoutes:
    """`/v1/models` and `/v1/models/test`."""

    def __init__(self, pool: Pool, owner: str) -> None:
        self._pool = pool
        self._payer = Payer(path=f"/{owner}", user=owner)

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/models", self.find),
            Route("/v1/models/test", self.test, methods=["POST"]),
        ]

    @described({200: Survey})
    async def find(self, request: Request) -> Response:
        """List the providers with their models, the models of the roles and the fallbacks."""
        return answer(await self._pool.models())

    @described({200: {"results": list[Tested]}}, body=ModelsBody)
    async def test(self, request: Request) -> Response:
        """Make one cheap call of each model and tell how long it took, or why it failed."""
        wish = await body(request, ModelsBody)
        return answer({"results": await self._pool.test(wish.models, self._payer)})
