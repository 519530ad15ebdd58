"""Who may see and change an agent by its id: its person, and the operator; of the others' there is nothing."""

from typing import Any

import pytest

from tests.network.conftest import Network

ROUTES = [  # of an agent or chat, with a body that would do something
    ("GET", "/v1/chats/{id}/memory", None),
    ("PUT", "/v1/chats/{id}/memory", {"content": "4711"}),
    ("POST", "/v1/chats/{id}/memory/process", None),
    ("POST", "/v1/chats/{id}/memory/search", {"query": "secret"}),
    ("POST", "/v1/chats/{id}/run", {"message": "what is my secret?"}),
    ("GET", "/v1/agents/{id}/memory", None),
    ("GET", "/v1/agents/{id}/memory/MEMORY.md", None),
    ("DELETE", "/v1/agents/{id}/memory/MEMORY.md", None),
    ("GET", "/v1/agents/{id}/skills", None),
    ("POST", "/v1/agents/{id}/skills", {"name": "x", "description": "y", "instructions": "z"}),
    ("PUT", "/v1/agents/{id}/skills/tea", {"instructions": "z"}),
    ("DELETE", "/v1/agents/{id}/skills/tea", None),
]
OPERATORS = [
    ("PUT", "/v1/identity", {"content": "I am bob's"}),
    ("POST", "/v1/identity/process", None),
    ("POST", "/v1/credentials/slack", {"token": "xoxb-1234567890-goodgoodgood"}),
    ("GET", "/v1/credentials", None),
    ("GET", "/v1/credentials/slack/status", None),
    ("POST", "/v1/credentials/slack/check", None),
    ("DELETE", "/v1/credentials/slack", None),
]


def kept(network: Network) -> Any:
    """Return all that stands in Ann's documents."""
    listed = network.call("operator", "GET", "/v1/agents/ann.direct/memory").json()["files"]
    return [network.call("operator", "GET", f"/v1/agents/ann.direct/memory/{each['path']}").json() for each in listed]


@pytest.fixture
def filled(network: Network) -> Network:
    network.add("phone", user="ann", may="approve")
    for who in ("ann", "bob"):
        network.call(who, "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
    network.call("ann", "PUT", "/v1/chats/ann.direct/memory", {"content": "my secret is 4711"})
    tea = {"name": "tea", "description": "4711", "instructions": "4711"}
    assert network.call("ann", "POST", "/v1/agents/ann.direct/skills", tea).status_code == 201
    return network


def test_what_is_another_persons_is_answered_as_if_it_were_not_there(filled: Network) -> None:
    [ann] = [each["id"] for each in filled.call("operator", "GET", "/v1/agents", user="ann").json()["agents"]]
    before = kept(filled)
    for method, route, body in ROUTES:
        told = set()
        for name in (ann, "ann.direct", "nobody00000000000000000", "bob.agent.none"):
            answer = filled.call("bob", method, route.replace("{id}", name), body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "AGENT_UNKNOWN"), f"{method} {route}"
            assert "4711" not in answer.text and "/ann" not in answer.text, "nor at which path it is"
            told.add(str({**answer.json()["error"], "message": ""}))
        assert len(told) == 1, "whether there is something is not told"
    assert kept(filled) == before


def test_a_person_sees_and_changes_what_is_their_own(filled: Network) -> None:
    for method, route, body in ROUTES:
        answer = filled.call("ann", method, route.replace("{id}", "ann.direct"), body)
        made = (method, route) == ("POST", "/v1/agents/{id}/skills")
        assert answer.status_code == (201 if made else 204 if method == "DELETE" else 200), f"{method} {route}"


def test_a_token_that_reads_or_approves_changes_nothing(filled: Network) -> None:
    before = kept(filled)
    for method, route, body in [*ROUTES, *OPERATORS]:
        named = route.replace("{id}", "ann.direct")
        assert filled.call("phone", method, named, body).json()["error"]["code"] == "ROUTE_UNKNOWN"
        answer = filled.call("read", method, named, body)
        assert answer.status_code == (200 if method == "GET" else 403), answer.text
    assert kept(filled) == before


def test_a_token_that_reads_begins_no_memory(filled: Network) -> None:
    filled.call("ann", "DELETE", "/v1/agents/ann.direct/memory/MEMORY.md")
    filled.call("operator", "DELETE", "/v1/agents/ann.direct/memory/IDENTITY.md")
    before = kept(filled)
    for route in ("/v1/chats/ann.direct/memory", "/v1/identity", "/v1/projects/p/memory", "/v1/workspaces/w/memory"):
        found = filled.call("read", "GET", route).json()["memory"]
        assert found["content"] and found["updatedAt"] is None
    assert filled.call("bob", "GET", "/v1/identity").json()["memory"]["updatedAt"] is None, "nor does a person's"
    assert kept(filled) == before
    assert filled.call("operator", "GET", "/v1/identity").json()["memory"]["updatedAt"] is not None


def test_identity_and_credentials_are_the_operators(filled: Network) -> None:
    for method, route, body in OPERATORS:
        assert filled.call("bob", method, route, body).json()["error"]["code"] == "ROUTE_UNKNOWN", f"{method} {route}"
    assert "bob" not in filled.call("bob", "GET", "/v1/identity").json()["memory"]["content"]


def test_everybody_reads_the_identity_that_the_operator_writes(filled: Network) -> None:
    assert filled.call("operator", "PUT", "/v1/identity", {"content": "You are a duck."}).status_code == 200
    for who in ("operator", "read", "ann", "bob"):
        assert filled.call(who, "GET", "/v1/identity").json()["memory"]["content"] == "You are a duck."
    assert filled.call("bob", "DELETE", "/v1/agents/bob.direct/memory/IDENTITY.md").status_code == 403


def test_projects_and_workspaces_are_each_persons_own(filled: Network) -> None:
    for route in ("/v1/projects/garden/memory", "/v1/workspaces/garden/memory"):
        filled.call("bob", "PUT", route, {"content": "bob's"})
        filled.call("ann", "PUT", route, {"content": "ann's"})
        assert filled.call("bob", "GET", route).json()["memory"]["content"] == "bob's"
        assert filled.call("operator", "GET", route).json()["memory"]["content"] == "ann's", "the operator is Ann"


def test_whom_a_user_has_let_in_keeps_a_memory_of_their_own(network: Network) -> None:
    network.locally("POST", "/v1/users", {"id": "cleo", "under": "ann"})
    network.add("cleo", user="cleo")
    network.call("cleo", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
    route = "/v1/chats/ann.subuser.cleo/memory"
    assert network.call("cleo", "PUT", route, {"content": "cleo's"}).status_code == 200
    assert network.call("ann", "GET", route).status_code == 404
    refused = network.call("operator", "GET", route)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "OTHER_USER")
    assert "cleo's" not in network.call("ann", "GET", "/v1/agents/ann.direct/memory").text
    network.call("cleo", "PUT", "/v1/workspaces/notes/memory", {"content": "cleo's notes"})
    assert "cleo" not in network.call("ann", "GET", "/v1/workspaces/notes/memory").text


def test_an_operator_speaks_in_a_chat_as_its_person(filled: Network) -> None:
    said = filled.call("operator", "POST", "/v1/chats/bob.direct/run", {"message": "my cat is called Miso"}).json()
    assert said["state"] == "done" and said["answer"]
    inbox = filled.call("operator", "GET", "/v1/agent", path="/bob/direct").json()["history"]
    assert any("Miso" in str(each) for each in inbox)


def test_what_is_written_below_api_is_the_same(filled: Network) -> None:
    for route in ("/v1/agents/ann.direct/skills", "/v1/chats/ann.direct/memory", "/v1/status", "/v1/models"):
        plain, below = filled.call("operator", "GET", route), filled.call("operator", "GET", f"/api{route}")
        assert (plain.status_code, below.status_code) == (200, 200) and plain.json().keys() == below.json().keys()
    for route in ("/api/v1/status", "/api/v1/credentials/slack/status"):
        assert filled.call("", "GET", route).status_code == 401
        assert filled.call("bob", "GET", route).status_code == 404
    assert filled.call("read", "DELETE", "/api/v1/credentials/slack").status_code == 403
    for route in ("/api/openai/v1/models", "/api/api/v1/status", "/api/v1", "/api/v2/status", "/apiv1/status"):
        assert filled.call("operator", "GET", route).status_code == 404, route
