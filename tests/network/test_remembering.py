"""Whose memory a token opens: a person's own, as it is; what everybody reads, to be read."""

from typing import Any

from tests.network.conftest import Network
from tests.network.test_callers import code

FACTS = "/v1/memories/facts"
DOCUMENT = "/v1/memory/document"


def test_a_person_uses_what_is_remembered_of_them_and_nothing_of_others(network: Network) -> None:
    network.locally("POST", "/v1/messages", {"text": "My cat is called Secretta", "wait_s": 20})
    network.call("bob", "POST", "/v1/messages", {"text": "My dog is called Rex", "wait_s": 20})
    network.locally("POST", "/v1/memories/process", {})
    network.add("narrow", user="bob", paths="/bob/agent/scribe")
    asked: dict[str, dict[str, Any]] = {"search": {"query": "what is the pet called"}, "facts": {}, "stats": {}}
    for route, more in asked.items():
        mine = network.call("bob", "GET", f"/v1/memories/{route}", **more)
        assert mine.status_code == 200 and "Secretta" not in mine.text, route
        assert network.call("narrow", "GET", f"/v1/memories/{route}", **more).status_code == 404, route
        theirs = network.call("bob", "GET", f"/v1/memories/{route}", agent="/ann/direct", **more)
        assert (theirs.status_code, code(theirs)) == (404, "AGENT_UNKNOWN"), route
    network.locally("POST", "/v1/agents", {"path": "/bob/agent/scribe"})
    shared = network.call("narrow", "GET", FACTS, agent="/bob/agent/scribe")
    assert (shared.status_code, code(shared)) == (403, "TOKEN_PATHS"), "all agents of bob share it"
    stats = network.call("bob", "GET", "/v1/memories/stats").json()
    assert stats["all"] == stats["own"] and list(stats["embedder"]) == ["embedder"]
    found = network.call("bob", "GET", "/v1/memories/search", query="Rex").json()["found"]
    wish: dict[str, Any] = {"numbers": [found[0]["label"]]}
    others = network.call("bob", "POST", "/v1/memories/forget", wish | {"agent": "/ann/direct"})
    assert code(others) == "AGENT_UNKNOWN"
    would = network.call("bob", "POST", "/v1/memories/forget", wish | {"dry_run": True}).json()["would_forget"]
    assert any("Rex" in each for each in would["memories"])
    assert network.call("bob", "POST", "/v1/memories/forget", wish).json()["forgotten"]["memories"] > 0
    assert network.call("bob", "GET", "/v1/memories/search", query="Rex").json()["found"] == []


def test_a_person_writes_their_documents_and_only_reads_what_everybody_reads(network: Network) -> None:
    wish = {"text": "# Soul\n\nShort.\n", "base_hash": "", "reason": "mine"}
    made = network.call("bob", "PUT", DOCUMENT, wish, path="SOUL.md")
    assert made.json()["version"]["by"]["author"] == "direct:bob"
    assert network.call("bob", "PUT", DOCUMENT, wish | {"text": "x"}, path="SOUL.md").status_code == 409
    theirs = network.call("bob", "PUT", DOCUMENT, wish, path="SOUL.md", agent="/ann/direct")
    assert code(theirs) == "AGENT_UNKNOWN"
    seen = network.call("bob", "GET", DOCUMENT, path="IDENTITY.md")
    assert seen.status_code == 200
    base = {"path": "IDENTITY.md", "base_hash": seen.json()["hash"]}
    refused = [
        network.call("bob", "PUT", DOCUMENT, wish | {"base_hash": base["base_hash"]}, path="IDENTITY.md"),
        network.call("bob", "PUT", DOCUMENT, wish, path="global/knowledge/x.md"),
        network.call("bob", "DELETE", DOCUMENT, **base),
        network.call("bob", "POST", "/v1/memory/undo", {}, path="IDENTITY.md"),
        network.call(
            "bob", "POST", "/v1/memory/move", {"base_hash": base["base_hash"], "to": "x.md"}, path="IDENTITY.md"
        ),
        network.call("bob", "POST", "/v1/memory/move", {"base_hash": "", "to": "global/SOUL.md"}, path="SOUL.md"),
        network.call("bob", "GET", "/v1/memory/history", path="IDENTITY.md"),
        network.call("bob", "GET", "/v1/memory/diff", path="IDENTITY.md"),
        network.call("bob", "GET", DOCUMENT, path="IDENTITY.md", version="1"),
    ]
    assert {(each.status_code, code(each)) for each in refused} == {(403, "DOCUMENT_SHARED")}
    [layer] = network.call("bob", "GET", "/v1/memory/explain", path="IDENTITY.md").json()["layers"]
    assert (layer["newest"]["user"], layer["newest"]["by"]["author"]) == ("", ""), "who wrote it is not told"
