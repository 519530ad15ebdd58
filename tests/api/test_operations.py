"""What is asked for by an operation reaches the daemon as it was meant, and what is wrong is named as it was typed."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from msgspec import Meta
from starlette.requests import Request

from daycare.api import operations as api
from daycare.api.operations import Operation
from daycare.base.cron import CronSpec
from daycare.base.errors import InvalidError
from daycare.base.memories import Tier
from daycare.cli.operations import Given, made
from daycare.features.cron import model as cron
from daycare.features.memory.operations import SearchMemories

SPEC = CronSpec(cron="0 8 * * *", prompt="é \U0001f600 & = ?", parameters={"city": "Bonn", "n": 3}, retry=2)
ASKED: tuple[Operation, ...] = (
    cron.ListJobs(),
    cron.ListJobs(user="ann"),
    cron.AddJob(id="morning", spec=SPEC),
    cron.AddJob(id="morning", spec=SPEC, user="ben"),
    cron.ShowJob(path="/ann/cron/a b&c"),
    cron.ChangeJob(path="morning", changes={"at": None, "retry": "2"}),
    cron.RemoveJob(path="morning"),
    cron.PauseJob(path="morning"),
    cron.ResumeJob(path="morning"),
    cron.RunJob(path="morning"),
    cron.RunJob(path="morning", parameters={"city": "Köln", "n": 1.5, "yes": True}),
    cron.PreviewJob(spec={"cron": "0 8 * * *", "prompt": "x"}, id="m", user="ben", count=3),
    cron.ListRuns(user="ann", path="/ann/cron/x", before=7, limit=5),
    SearchMemories(
        query="tea & cake?", tier=Tier.FACT, since_ms=0, until_ms=2**40, path="a/b.md", entity="Zoë", all=True
    ),
)


def request(wish: Operation) -> Request:
    """Return the request that a client makes of an operation."""
    call = wish.call()
    shown = {name: str(value).lower() if isinstance(value, bool) else value for name, value in call.query.items()}
    body = b"" if call.body is None else json.dumps(call.body).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    query = urlencode(shown).encode()
    scope = {"type": "http", "method": call.method, "path": call.route, "query_string": query, "headers": []}
    return Request(scope, receive)


@pytest.mark.parametrize("wish", ASKED, ids=lambda wish: type(wish).__name__)
async def test_an_operation_is_read_as_it_was_asked_for(wish: Operation) -> None:
    assert await api._read(request(wish), type(wish)) == wish


def test_every_operation_is_tried() -> None:
    here = [kind for module in (cron,) for kind in vars(module).values() if isinstance(kind, type)]
    declared = {kind for kind in here if issubclass(kind, Operation) and kind is not Operation} | {SearchMemories}
    assert {type(wish) for wish in ASKED} == declared


def test_every_field_says_what_it_means() -> None:
    silent = [
        f"{type(wish).__name__}.{name}"
        for wish in ASKED
        for name, schema in msgspec.json.schema(type(wish))["$defs"][type(wish).__name__]["properties"].items()
        if "description" not in json.dumps(schema) and "$ref" not in schema
    ]
    assert set(silent) <= {"ChangeJob.changes"}, "fields of a job, which have their own"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": "tea", "tier": "note"}, "--in: expected one of log, fact, entity, chunk"),
        ({"query": ""}, "WORDS...: Expected `str` of length >= 1"),
        ({"query": "tea", "limit": 51}, "--limit: Expected `int` <= 50"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidError) as caught:
        made(SearchMemories, arguments, ())
    assert (caught.value.code, caught.value.message) == ("USAGE", named)


def test_a_field_of_a_struct_inside_is_named_as_it_was_typed() -> None:
    with pytest.raises(InvalidError, match=r"^--session: expected one of fresh, continue$"):
        made(cron.AddJob, {"id": "x", "prompt": "look", "session": "old"}, ())
    with pytest.raises(InvalidError, match=r"^read 'city'"):
        made(cron.AddJob, {"id": "x", "prompt": "look", "parameters": ["city"]}, ())


def test_what_a_shell_gives_in_its_own_way_becomes_the_fields_it_stands_for() -> None:
    def either(at: str) -> dict[str, Any]:
        return {"at": at, "cron": None}

    wish = made(cron.AddJob, {"id": "x", "prompt": "look", "at": "2027-03-01"}, [Given(("cron", "at"), either)])
    assert wish == cron.AddJob(id="x", spec=CronSpec(at="2027-03-01", prompt="look"))


def test_the_types_of_fields_keep_their_bounds_in_every_face() -> None:
    from daycare.features.cron.faces import CronAdd

    fields = {each.name: each.type for each in msgspec.structs.fields(CronAdd)}
    spec = {each.name: each.type for each in msgspec.structs.fields(CronSpec)}
    shared = ["cron", "at", "zone", "target", "task", "misfire"]
    assert [fields[name] for name in shared] == [spec[name] for name in shared]
    assert any(isinstance(each, Meta) and each.min_length == 1 for each in fields["prompt"].__metadata__)
