"""Routes that a daemon loads when somebody asks for one of them."""

from collections import Counter

import httpx
import trio

from daycare.api.app import build
from tests.api.conftest import Api


async def test_routes_of_features_are_there_once_one_is_asked_for(api: Api) -> None:
    app = build(api.services, late=True)
    few = len(app.routes)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daycare") as client:
        assert (await client.get("/v1/status")).status_code == 200
        assert len(app.routes) == few
        answers: list[int] = []

        async def ask(path: str) -> None:
            answers.append((await client.get(path)).status_code)

        async with trio.open_nursery() as nursery:  # all at once, they load them once
            for path in ("/v1/cron", "/v1/tasks", "/v1/none", "/v1/openapi.json", "/v1/cron"):
                nursery.start_soon(ask, path)
        assert Counter(answers) == {200: 4, 404: 1}
        refused = await client.put("/v1/cron")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    whole = build(api.services)
    assert Counter(map(str, app.routes)) == Counter(map(str, whole.routes))


async def test_no_path_has_some_of_its_methods_late(api: Api) -> None:
    first, every = build(api.services, late=True).routes, build(api.services).routes
    soon = {getattr(route, "path", "") for route in first}
    late = Counter(map(str, every)) - Counter(map(str, first))
    assert late and not [route for route in every if str(route) in late and getattr(route, "path", "") in soon]
