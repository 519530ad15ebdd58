"""The API's description of itself is what its routes are, and says so to programs."""

import inspect
import re
from typing import Any, Final

import pytest
import schemathesis
from starlette.routing import Route

from daycare.api.openapi import Endpoint, document, endpoints
from tests.api.conftest import Api
from tests.references.api import routes

TAKEN: Final = re.compile(r"\b(body|query)\(request, (\w+)\)")
ALL: Final = endpoints(routes())


@pytest.mark.parametrize("each", ALL, ids=[each.name for each in ALL])
def test_a_route_is_described_as_its_code_reads_a_request(each: Endpoint) -> None:
    said = each.description  # raises what to write, if nothing is said
    names = vars(inspect.getmodule(each.endpoint))
    for place, kind in TAKEN.findall(inspect.getsource(each.endpoint)) if each.operation is None else ():
        assert getattr(said, place) is names[kind], f"{each.name} reads {kind}: write {place}={kind} in @described"
    if each.operation is not None:
        assert each.operation.STATUS in said.answers, f"{each.name} answers {each.operation.STATUS}"
    assert each.words[0], f"{each.name}: the docstring of its handler says what it does"
    assert said.answers and set(said.answers) <= set(range(200, 400)), f"{each.name}: refusals stand in `refuses`"


def test_the_document_has_every_route_and_method_and_nothing_else() -> None:
    table = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in routes()
        if isinstance(route, Route) and route.include_in_schema
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, method) for path, inner in document(routes())["paths"].items() for method in inner}
    assert described == table


def test_who_describes_nothing_is_told_what_to_write() -> None:
    async def handler(request: Any) -> Any: ...

    with pytest.raises(LookupError, match=r"GET /v1/new is not described: write `@described"):
        document([Route("/v1/new", handler)])


def test_the_document_is_valid_openapi() -> None:
    made = document(routes())
    schemathesis.openapi.from_dict(made).validate()
    ids = [inner["operationId"] for path in made["paths"].values() for inner in path.values()]
    assert len(ids) == len(set(ids))
    del made["info"]["title"]
    with pytest.raises(Exception, match="title"):
        schemathesis.openapi.from_dict(made).validate()


async def test_it_says_which_tokens_open_a_route(api: Api) -> None:
    paths = (await api.call("GET", "/v1/openapi.json"))["paths"]
    opened = {name: [each["token"] for each in paths[name]["get"]["security"]] for name in ("/v1/agents", "/v1/status")}
    assert opened == {"/v1/agents": [["operator"], ["read"], ["person"]], "/v1/status": [["operator"], ["read"]]}
