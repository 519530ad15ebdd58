"""Traffic over the network: all of it for the operator, their own for a person, and as commands."""

from typing import Any

from tests import program
from tests.network.conftest import Network, network

__all__ = ["network"]


def test_a_person_sees_what_moved_between_their_agents_and_nothing_of_others(network: Network) -> None:
    said: list[dict[str, Any]] = [
        {"text": "hello", "key": "of-ann"},
        {"text": "hello", "user": "bob", "key": "of-bob"},
        {"text": "hello", "user": "bob", "path": "/bob/agent/cook"},
    ]
    network.locally("POST", "/v1/agents", {"path": "/bob/agent/cook"})
    mine, theirs, _ = (network.locally("POST", "/v1/messages", {**each, "wait_s": 20}) for each in said)
    network.add("narrow", user="bob", paths="/bob/agent/cook/**")
    for who, expected in (
        ("operator", {"/ann/direct", "/bob/direct", "/bob/agent/cook"}),
        ("read", {"/ann/direct", "/bob/direct", "/bob/agent/cook"}),
        ("bob", {"/bob/direct", "/bob/agent/cook"}),
        ("narrow", {"/bob/agent/cook"}),
    ):
        found = network.call(who, "GET", "/v1/traffic").json()["movements"]
        assert {end for it in found for end in (it["source"], it["target"])} - {"direct"} == expected, who
    for wanted in (mine["trace"], str(mine["seq"]), "of-ann", "/ann/direct"):
        assert network.call("bob", "GET", "/v1/traces", query=wanted).json() == {"traces": []}, wanted
        assert len(network.call("read", "GET", "/v1/traces", query=wanted).json()["traces"]) == 1, wanted
    unknown = network.call("bob", "GET", "/v1/trace/999999/spans")
    for who, trace in (("bob", mine["trace"]), ("bob", str(mine["seq"])), ("narrow", theirs["trace"])):
        answer = network.call(who, "GET", f"/v1/trace/{trace}/spans")
        assert answer.status_code == unknown.status_code == 404
        assert answer.json()["error"]["code"] == unknown.json()["error"]["code"] == "TRACE_UNKNOWN"
        assert network.call(who, "GET", f"/v1/trace/{trace}").status_code == 404
    assert network.call("bob", "GET", f"/v1/trace/{theirs['seq']}/spans").json()["trace"] == theirs["trace"]
    for path in ("/ann/direct", "/ann/**"):
        assert network.call("bob", "GET", "/v1/traffic", path=path).status_code == 404
    assert network.call("read", "GET", "/v1/traffic", path="/bob/*").status_code == 400


def test_the_commands_show_what_the_routes_say(network: Network) -> None:
    sent = network.locally("POST", "/v1/messages", {"text": "hello", "key": "of-ann", "wait_s": 20})
    env = {"DAYCARE_HOME": str(network.home)}
    moved = program.call(["traffic", "/ann/**", "--hours", "2"], env=env, deadline_s=60)
    assert "/ann/direct" in moved.stdout and sent["trace"] in moved.stdout, moved.stderr
    found = program.call(["traces", "of-ann"], env=env, deadline_s=60)
    assert sent["trace"] in found.stdout and f"message {sent['seq']}" in found.stdout, found.stderr
