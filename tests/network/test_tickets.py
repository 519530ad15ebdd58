"""Tickets: once, for a moment, and only where no header can be sent."""

import json

import httpx

from daycare.api.callers import May
from daycare.features import open_store
from daycare.features.tokens.service import ApiTokens
from daycare.store.records import User
from tests.network.conftest import Network
from tests.network.test_callers import code
from tests.store.samples import HandClock


def ticket(network: Network, who: str, route: str = "") -> str:
    made = network.call(who, "POST", f"/v1/tickets?route={route}" if route else "/v1/tickets")
    assert made.status_code == 201 and made.json()["expires_in_s"] == 30
    assert made.headers["cache-control"] == "no-store"
    found: str = made.json()["ticket"]
    return found


def test_a_ticket_opens_a_stream_once_with_the_rights_of_its_token(network: Network) -> None:
    mine = ticket(network, "bob")
    url = f"http://127.0.0.1:{network.port}/v1/events"
    with httpx.stream("GET", url, params={"ticket": mine, "types": "turn.finished"}, timeout=30.0) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": daycare"
        network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 10})
        network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
        [data] = [next(line for line in lines if line.startswith("data:"))]
        assert "/bob/direct" in data
    assert code(network.call("", "GET", "/v1/events", ticket=mine)) == "TOKEN_WRONG"
    assert code(network.call("", "GET", "/v1/events", ticket=ticket(network, "bob"), path="/ann/**")) == "AGENT_UNKNOWN"


def test_a_ticket_opens_nothing_else_and_is_not_used_up_by_trying(network: Network) -> None:
    file = network.locally("POST", "/v1/files", None, name="a.txt")
    mine = ticket(network, "operator")
    for method, route in (("GET", "/v1/status"), ("POST", "/v1/messages"), ("POST", "/v1/files"), ("GET", "/v1/keys")):
        answer = network.call("", method, route, ticket=mine)
        assert (answer.status_code, code(answer)) == (401, "TOKEN_NEEDED"), route
    assert network.call("", "GET", f"/v1/files/{file['id']}", ticket=mine).status_code == 200
    assert code(network.call("", "GET", "/v1/events", ticket=network.tokens["operator"])) == "TOKEN_WRONG"


def test_exports_and_backups_are_opened_by_a_ticket_for_just_that(network: Network) -> None:
    for made, wish in (("/v1/backups", {}), ("/v1/exports", {"path": "/ann/direct"})):
        network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
        told = network.call("operator", "POST", made, wish).text.splitlines()
        route = f"{made}/{json.loads(told[-1])['report']['id']}"
        for other in ("", "/v1/events", f"{made}/other"):
            assert code(network.call("", "GET", route, ticket=ticket(network, "operator", other))) == "TOKEN_WRONG"
        assert network.call("", "GET", route, ticket=ticket(network, "bob", route)).status_code == 404
        mine = ticket(network, "operator", route)
        assert network.call("", "GET", route, ticket=mine).content.startswith(b"\x1f\x8b"), "it is a tar.gz"
        assert code(network.call("", "GET", route, ticket=mine)) == "TOKEN_WRONG", "it is good once"
    elsewhere = ticket(network, "operator", route)
    assert code(network.call("", "GET", "/v1/events", ticket=elsewhere)) == "TOKEN_WRONG"


def test_everybody_with_a_token_gets_tickets_for_what_it_is_good_for(network: Network) -> None:
    network.add("phone", user="bob", may="approve")
    assert code(network.call("", "GET", "/v1/events", ticket=ticket(network, "phone"))) == "ROUTE_UNKNOWN"
    ticket(network, "read")
    revoked = ticket(network, "ann")
    network.locally("DELETE", "/v1/tokens", name="ann")
    network.add("ann")
    assert code(network.call("", "GET", "/v1/events", ticket=revoked)) == "TOKEN_WRONG", "another token of that name"


async def test_a_ticket_is_good_for_half_a_minute() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        _, text = await tokens.add("laptop", May.PERSON, None, None)
        caller = await tokens.caller(text, "127.0.0.1")
        assert caller is not None
        early, late = tokens.ticket(caller), tokens.ticket(caller)
        clock.ms += 29_999
        assert await tokens.ticket_holder(early, "/v1/events", "127.0.0.1") == caller
        clock.ms += 1
        assert await tokens.ticket_holder(late, "/v1/events", "127.0.0.1") is None
