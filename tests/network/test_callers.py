"""Who may call what: every route, by everybody."""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute

from daycare.api.app import build
from daycare.api.callers import May, is_anybodys
from daycare.api.openapi import document
from tests.network.conftest import Network

FILLED: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


def routes(network: Network) -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and endpoint of every route of the daemon."""
    for route in build(network.daemon._daemon.services).routes:
        if isinstance(route, WebSocketRoute):  # tests/network/test_sockets.py
            continue
        assert isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}:
            yield method, FILLED.sub("1", route.path), route.endpoint


def code(answer: httpx.Response) -> str:
    found: str = answer.json()["error"]["code"]
    return found


def test_nobody_without_a_token_gets_through_to_any_route(network: Network) -> None:
    tried = 0
    for method, path, endpoint in routes(network):
        if is_anybodys(endpoint):
            assert path in ("/v1/login", "/v1/hooks/1"), "where a link's code or a webhook's secret opens"
            continue
        answer = network.call("", method, path)
        assert (answer.status_code, code(answer)) == (401, "TOKEN_NEEDED"), path
        assert answer.headers["www-authenticate"] == "Bearer"
        tried += 1
    assert tried > 80


def test_a_person_reaches_the_routes_that_are_for_persons_and_of_the_others_there_are_none(network: Network) -> None:
    network.add("phone", user="bob", may="approve")
    network.add("webui", may="speak")
    allowed = set()
    for method, path, endpoint in routes(network):
        for who, may in (("bob", May.PERSON), ("phone", May.APPROVE), ("webui", May.SPEAK)):
            if may in getattr(endpoint, "callers", ()):
                allowed.add(f"{may} {method} {path}")
                continue
            answer = network.call(who, method, path)
            assert (answer.status_code, code(answer)) == (404, "ROUTE_UNKNOWN"), f"{may} {method} {path}"
    decisions = {"GET /v1/approvals", "GET /v1/approvals/1", "POST /v1/approvals/approve", "GET /v1/openapi.json"}
    decisions |= {"POST /v1/approvals/1/decide", "POST /v1/approvals/1/undo", "POST /v1/approvals/reject"}
    decisions.add("POST /v1/approvals/grants/1/revoke")
    talk = {
        "POST /v1/messages",
        "POST /v1/stop",
        "GET /v1/inbox",
        "DELETE /v1/inbox",
        "GET /v1/replies",
        "POST /v1/replies/ack",
    }
    talk |= {"POST /v1/files", "GET /v1/files/1", "POST /v1/approvals/auto"}
    openai = {"GET models", "GET models/1", "POST chat/completions", "POST embeddings"}
    openai |= {"POST responses", "GET responses/1", "DELETE responses/1"}
    openai = {each.replace(" ", " /openai/v1/") for each in openai}
    agents = {"GET /v1/agents", "GET /v1/agents/tree", "GET /v1/agent", "GET /v1/events", "GET /v1/spend/today"}
    agents |= {"GET /v1/history", "GET /v1/turns/1/prompt", "GET /v1/trace/1"}
    agents |= {"GET /v1/templates", "GET /v1/templates/1", "GET /v1/builder", "POST /v1/builder"}
    agents |= {
        "GET /v1/spend",
        "GET /v1/spend/sums",
        "GET /v1/budget",
        "GET /v1/timers",
        "GET /v1/dead",
        "GET /v1/dead/1",
    }
    agents |= {"GET /v1/cron", "GET /v1/cron/job", "GET /v1/cron/runs", "GET /v1/tasks", "GET /v1/tasks/task"}
    agents |= {"GET /v1/signals", "GET /v1/signals/subscriptions"}
    agents |= {"GET /v1/traffic", "GET /v1/traces", "GET /v1/trace/1/spans"}
    agents |= {"GET /v1/identity", "POST /v1/chats/1/run"}
    for each in ("chats", "projects", "workspaces"):
        agents |= {f"{method} /v1/{each}/1/memory" for method in ("GET", "PUT")}
        agents |= {f"POST /v1/{each}/1/memory/{what}" for what in ("process", "search")}
    agents |= {f"{method} /v1/agents/1/memory/1" for method in ("GET", "DELETE")} | {"GET /v1/agents/1/memory"}
    agents |= {f"{method} /v1/agents/1/skills" for method in ("GET", "POST")}
    agents |= {f"{method} /v1/agents/1/skills/1" for method in ("PUT", "DELETE")}
    agents |= {"GET /v1/skills", "GET /v1/skill", "DELETE /v1/skill"}
    agents |= {f"POST /v1/skill/{what}" for what in ("approve", "revoke")}
    agents |= {f"{method} /v1/memory/document" for method in ("GET", "PUT", "DELETE")} | {"GET /v1/memory"}
    agents |= {f"GET /v1/memory/{what}" for what in ("history", "diff", "explain", "search")}
    agents |= {f"POST /v1/memory/{what}" for what in ("undo", "move")}
    agents |= {f"GET /v1/memories/{what}" for what in ("search", "facts", "entities", "why", "stats")}
    agents |= {"POST /v1/memories/forget"}
    pages = {f"GET /{each}" for each in ("", "agents/1", "approvals", "memory", "work", "costs", "people", "system")}
    pages |= {"GET /static/1", "GET /new-agent", "GET /work/cron/1", "GET /flow", "GET /trace", "GET /start"}
    agents |= {"POST /preview", "POST /v1/approvals/auto", "POST /mcp"}
    oneself = {"GET /v1/session", "POST /v1/logout", "POST /v1/tickets", "GET /v1/login", "POST /v1/login"}
    oneself |= {"POST /v1/hooks/1"}
    for may, expected in (
        (May.PERSON, decisions | talk | openai | agents | pages | oneself),
        (May.APPROVE, decisions | pages | oneself),
        (May.SPEAK, openai | oneself),
    ):
        assert {each for each in allowed if each.startswith(may)} == {f"{may} {each}" for each in expected}


def test_whoever_has_a_token_reads_what_the_api_says_of_itself(network: Network) -> None:
    network.add("phone", user="bob", may="approve")
    made = document(build(network.daemon._daemon.services).routes)
    for who in ("operator", "read", "ann", "phone"):
        assert network.call(who, "GET", "/v1/openapi.json").json() == made, who


def test_a_token_that_may_read_changes_nothing(network: Network) -> None:
    refused = 0
    for method, path, endpoint in routes(network):
        if method != "GET" and May.READ not in getattr(endpoint, "callers", ()):
            answer = network.call("read", method, path)
            assert (answer.status_code, code(answer)) == (403, "TOKEN_READS"), f"{method} {path}"
            refused += 1
    assert refused > 40
    before = network.locally("GET", "/v1/agents")
    for route in ("/v1/projects/garden/memory", "/v1/workspaces/notes/memory"):
        answer = network.call("read", "GET", route)
        assert answer.status_code == 200, answer.text
        assert answer.json()["memory"]["updatedAt"] is None, f"{route}: {answer.text}"
    assert network.locally("GET", "/v1/agents") == before, "nobody came into being by being looked at"
    assert network.call("read", "GET", "/v1/status").status_code == 200
    assert network.locally("GET", "/v1/status")["stopping"] is False


@pytest.mark.parametrize(
    ("method", "path", "body", "query"),
    [
        ("POST", "/v1/messages", {"text": "hi", "user": "ann"}, {}),
        ("POST", "/v1/messages", {"text": "hi", "path": "/ann/direct"}, {}),
        ("POST", "/v1/messages", {"text": "hi", "all": True, "user": "ann"}, {}),
        ("POST", "/v1/stop", {"path": "/ann/direct"}, {}),
        ("GET", "/v1/inbox", None, {"path": "/ann/direct"}),
        ("GET", "/v1/replies", None, {"path": "/ann/direct"}),
        ("GET", "/v1/agents", None, {"user": "ann"}),
        ("GET", "/v1/agent", None, {"path": "/ann/direct"}),
        ("GET", "/v1/skills", None, {"path": "/ann/direct"}),
        ("POST", "/v1/skill/approve", {"name": "x", "hash": "0" * 64, "path": "/ann/direct"}, {}),
        ("GET", "/v1/approvals", None, {"user": "ann"}),
        ("GET", "/v1/approvals/1", None, {}),
        ("POST", "/v1/approvals/1/decide", {"verdict": "approve", "seen": "00000000", "user": "ann"}, {}),
        ("GET", "/v1/events", None, {"path": "/ann/**"}),
        ("GET", "/v1/events", None, {"path": "/system/**"}),
    ],
)
def test_what_is_another_persons_is_not_there(network: Network, method: str, path: str, body: Any, query: Any) -> None:
    network.locally("POST", "/v1/messages", {"text": "my secret is 4711", "wait_s": 10})
    answer = network.call("bob", method, path, body, **query)
    assert answer.status_code == 404 and "4711" not in answer.text
    network.add("narrow", user="ann", may="person", paths="/ann/agent/scribe/**")
    narrow = network.call("narrow", method, path, body, **query)
    listed = query == {"user": "ann"} and not next(iter(narrow.json().values()))
    assert (narrow.status_code == 404 or listed) and "4711" not in narrow.text, "nor is what a token is not for"
    unknown = network.call("bob", "GET", "/v1/agent", path="/bob/agent/none").json()["error"]
    mine = network.call("bob", "GET", "/v1/agent", path="/ann/direct").json()["error"]
    assert {**unknown, "message": ""} == {**mine, "message": ""}, "whether there is something is not told"


def test_on_a_skill_that_all_agents_have_the_operator_alone_decides(network: Network) -> None:
    text = b64encode(b"---\nname: tea\ndescription: Makes tea.\n---\nBoil water.\n").decode()
    made = network.call(
        "operator", "POST", "/v1/skills", {"name": "tea", "files": [{"path": "SKILL.md", "data": text}]}
    )
    assert made.status_code == 201, made.text
    network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
    looks: tuple[dict[str, Any], ...] = ({}, {"path": "/bob/direct"})
    for query in looks:
        [seen] = network.call("bob", "GET", "/v1/skills", **query).json()["skills"]
        assert (seen["state"], seen["where"]) == ("new", "skills/tea")
        yes = {"name": "tea", "hash": seen["hash"], **query}
        assert code(network.call("bob", "POST", "/v1/skill/approve", yes)) == "SKILL_SHARED"
        assert code(network.call("bob", "DELETE", "/v1/skill", name="tea", **query)) == "SKILL_SHARED"
    approved = network.call("operator", "POST", "/v1/skill/approve", yes).json()["skill"]
    assert (approved["state"], approved["approved_by"]) == ("approved", "direct:ann (token operator)")
    assert network.call("operator", "DELETE", "/v1/skill", name="tea").status_code == 200
    assert network.call("bob", "GET", "/v1/skills").json() == {"skills": []}


def test_a_person_sees_of_the_tree_and_of_what_was_spent_their_own(network: Network) -> None:
    for path in ("/ann/agent/secret", "/bob/agent/cook"):
        network.locally("POST", "/v1/agents", {"path": path})
    looks: tuple[dict[str, Any], ...] = ({}, {"under": ""}, {"under": "/bob"}, {"find": "agent"})
    for query in looks:
        tree = network.call("bob", "GET", "/v1/agents/tree", **query).json()
        assert [node["path"] for node in tree["nodes"]] == ["/bob/agent/cook"], query
    for under in ("/ann", "/ann/agent/secret", "/system"):
        for query in ({}, {"limit": 1}, {"limit": 1, "find": "a"}):
            tree = network.call("bob", "GET", "/v1/agents/tree", under=under, **query).json()
            assert (tree["nodes"], tree["next"]) == ([], ""), "where a page ends is a path of somebody, too"
    for path in ("/bob/agent/aide", "/bob/agent/zoo"):
        network.locally("POST", "/v1/agents", {"path": path})
    network.add("narrow", user="bob", paths="/bob/agent/cook/**")
    for limit in (1, 10):
        tree = network.call("narrow", "GET", "/v1/agents/tree", find="agent", limit=limit).json()
        assert [node["path"] for node in tree["nodes"]] == ["/bob/agent/cook"], "no page ends before what is seen"
        found = network.call("narrow", "GET", "/v1/agents", limit=limit).json()["agents"]
        assert [each["path"] for each in found] == ["/bob/agent/cook"]
    spent = network.call("bob", "GET", "/v1/spend/today", paths="/ann,/ann/direct,/,/bob,/bob/agent/cook").json()
    assert spent["spent"].keys() == {"/bob", "/bob/agent/cook"}


def test_a_person_talks_to_their_own_agent_and_reads_its_answer(network: Network) -> None:
    said = network.call("bob", "POST", "/v1/messages", {"text": "my cat is called Miso", "wait_s": 10}).json()
    assert (said["state"], said["path"]) == ("done", "/bob/direct")
    [reply] = said["replies"]
    theirs = network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 10})["replies"][0]["seq"]
    taken = network.call("bob", "POST", "/v1/replies/ack", {"seqs": [reply["seq"], theirs]}).json()
    assert taken == {"acknowledged": 1}, "what was said to another person is not theirs to confirm"
    assert [each["path"] for each in network.call("bob", "GET", "/v1/agents").json()["agents"]] == ["/bob/direct"]


def test_a_persons_stream_has_their_own_events_only(network: Network) -> None:
    url, headers = f"http://127.0.0.1:{network.port}/v1/events", {"Authorization": f"Bearer {network.tokens['bob']}"}
    with httpx.stream("GET", url, headers=headers, timeout=30.0) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": daycare"
        network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 10})
        network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
        seen = []
        for line in lines:
            seen.append(line)
            if line == "event: turn.finished":
                break
    data = [line for line in seen if line.startswith("data:")]
    assert data and not any("/ann" in line for line in data)
