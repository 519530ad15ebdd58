"""Tokens for a part of a person's agents: the others are not there."""

from typing import Any

import httpx
import pytest

from daycare.api.callers import Caller, May
from daycare.base.errors import InvalidError
from tests.network.conftest import Network
from tests.network.test_callers import code
from tests.network.test_deciding import asked


@pytest.mark.parametrize(
    ("paths", "path", "seen"),
    [
        ("", "/ann/direct", True),
        ("", "/bob/direct", False),
        ("", "/ann", True),
        ("/ann/agent/**", "/ann/agent/scribe", True),
        ("/ann/agent/**", "/ann/agent/scribe/sub/1", True),
        ("/ann/agent/**", "/ann/agent", True),
        ("/ann/agent/**", "/ann/agents/x", False),
        ("/ann/agent/**", "/ann/direct", False),
        ("/ann/agent/**", "/ann/**", False),
        ("/ann/agent/**", "/ann/agent/scribe/**", True),
        ("/ann/agent/**", "/bob/agent/scribe", False),
        ("/ann/agent/scribe", "/ann/agent/scribe", True),
        ("/ann/agent/scribe", "/ann/agent/scribe/sub/1", False),
        ("/ann/agent/scribe", "/ann/agent/scribe/**", False),
        ("/bob/**", "/bob/direct", False),  # of somebody else's token it would be everything
    ],
)
@pytest.mark.parametrize("may", [May.PERSON, May.APPROVE])
def test_paths_narrow_what_a_person_may_see(paths: str, path: str, may: May, *, seen: bool) -> None:
    assert Caller(may=may, user="ann", paths=paths).sees(path) is seen


def test_a_token_with_paths_reaches_those_agents_only(network: Network) -> None:
    for path in ("/bob/agent/scribe", "/bob/agent/other"):
        network.locally("POST", "/v1/agents", {"path": path})
    network.locally("POST", "/v1/messages", {"text": "the number is 4711", "user": "bob", "wait_s": 20})
    for may in ("person", "read"):
        whose: dict[str, Any] = {"user": "bob"} if may == "person" else {"user": "ann"}
        paths = "/bob/agent/scribe/**" if may == "person" else "/ann/agent/scribe"
        network.add(f"narrow-{may}", may=may, paths=paths, **whose)
    person = "narrow-person"
    assert [each["path"] for each in network.call(person, "GET", "/v1/agents").json()["agents"]] == [
        "/bob/agent/scribe"
    ]
    models = network.call(person, "GET", "/openai/v1/models").json()["data"]
    assert [each["id"] for each in models] == ["daycare/bob/agent/scribe"]
    there = network.call(person, "POST", "/v1/messages", {"text": "hi", "path": "/bob/agent/scribe", "wait_s": 20})
    assert there.status_code == 200
    tried: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", "/v1/messages", {"text": "hi"}, {}),
        ("POST", "/v1/messages", {"text": "hi", "all": True}, {}),
        ("POST", "/v1/messages", {"text": "hi", "path": "/bob/direct"}, {}),
        ("POST", "/v1/stop", {"path": "/bob/agent/other"}, {}),
        (
            "POST",
            "/openai/v1/chat/completions",
            {"model": "daycare", "messages": [{"role": "user", "content": "x"}]},
            {},
        ),
        ("GET", "/v1/agent", None, {"path": "/bob/direct"}),
        ("GET", "/v1/agents/bob.direct/memory", None, {}),
        ("GET", "/v1/agents/bob.agent.other/skills", None, {}),
        ("POST", "/v1/agents/bob.direct/skills", {"name": "x", "description": "y", "instructions": "z"}, {}),
        ("GET", "/v1/chats/bob.direct/memory", None, {}),
        ("PUT", "/v1/chats/bob.direct/memory", {"content": "x"}, {}),
        ("POST", "/v1/chats/bob.direct/run", {"message": "hi"}, {}),
        ("GET", "/v1/projects/garden/memory", None, {}),
        ("PUT", "/v1/workspaces/garden/memory", {"content": "x"}, {}),
        ("GET", "/v1/history", None, {"path": "/bob/direct"}),
        ("GET", "/v1/memory/document", None, {"agent": "/bob/direct", "path": "MEMORY.md"}),
        ("GET", "/v1/replies", None, {"path": "/bob/direct"}),
        ("GET", "/v1/inbox", None, {"path": "/bob/agent/other"}),
        ("GET", "/v1/events", None, {"path": "/bob/**"}),
        ("GET", "/v1/events", None, {"path": "/ann/**"}),
    ]
    for method, route, body, query in tried:
        answer = network.call(person, method, route, body, headers=None, **query)
        assert answer.status_code == 404 and "4711" not in answer.text, (method, route, answer.text)
    theirs = network.locally("GET", "/v1/replies", path="/bob/direct")["replies"]
    shown = network.call(person, "POST", "/v1/replies/ack", {"seqs": [each["seq"] for each in theirs]}).json()
    assert theirs and shown == {"acknowledged": 0}
    assert network.call("narrow-read", "GET", "/v1/agents").json() == {"agents": []}
    assert network.call("narrow-read", "GET", "/v1/status").status_code == 404, "it is about more than those agents"
    url, headers = f"http://127.0.0.1:{network.port}/v1/events", {"Authorization": f"Bearer {network.tokens[person]}"}
    with httpx.stream("GET", url, headers=headers, params={"types": "turn.finished"}, timeout=30.0) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": daycare"
        for path in ("/bob/direct", "/bob/agent/scribe"):
            network.call("bob", "POST", "/v1/messages", {"text": "hello", "path": path, "wait_s": 20})
        assert "/bob/agent/scribe" in next(line for line in lines if line.startswith("data:"))


def test_a_token_with_paths_decides_what_those_agents_ask_for(network: Network) -> None:
    request = asked(network)
    network.add("near", user="bob", may="approve", paths="/bob/direct")
    network.add("far", user="bob", may="approve", paths="/bob/agent/scribe/**")
    assert [each["no"] for each in network.call("near", "GET", "/v1/approvals").json()["approvals"]] == [request["no"]]
    assert network.call("far", "GET", "/v1/approvals").json()["approvals"] == []
    route, wish = f"/v1/approvals/{request['no']}", {"verdict": "approve", "seen": request["content_hash"]}
    assert code(network.call("far", "POST", f"{route}/decide", wish)) == "APPROVAL_UNKNOWN"
    assert network.call("near", "POST", f"{route}/decide", wish).json()["state"] == "approved"


@pytest.mark.parametrize(
    "wish",
    [
        {"user": "bob", "paths": "/ann/**"},
        {"user": "bob", "paths": "/**"},
        {"user": "bob", "paths": "/bob/*"},
        {"user": "bob", "paths": "bob/**"},
        {"user": "bob", "paths": "/bob/../ann/**"},
        {"may": "operator", "paths": "/ann/**"},
    ],
)
def test_paths_that_a_token_cannot_be_for_are_refused(network: Network, wish: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        network.locally("POST", "/v1/tokens", {"name": "x", **wish})
