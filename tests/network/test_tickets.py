"""Tickets: once, for a moment, and only where no header can be sent."""

import httpx

from daycare.api.callers import May
from daycare.features import open_store
from daycare.features.tokens.service import ApiTokens
from daycare.store.records import User
from tests.network.conftest import Network
from tests.network.test_callers import code
from tests.store.samples import HandClock


def ticket(network: Network, who: str) -> str:
    made = network.call(who, "POST", "/v1/tickets")
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
        assert await tokens.ticket_holder(early, "127.0.0.1") == caller
        clock.ms += 1
        assert await tokens.ticket_holder(late, "127.0.0.1") is None
