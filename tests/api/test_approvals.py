"""Requests for approval over the API: listed, shown, decided as seen, undone, granted."""

from typing import Any

import pytest

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.limits import DOCUMENT_MAX_BYTES
from daycare.base.messages import Origin
from daycare.features.approvals.records import ApprovalFinding, DocumentAction
from daycare.features.approvals.service import ApprovalAsk
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.records import Agent, User
from tests.api.conftest import ANN, Api, Json


async def agent(api: Api, path: str = ANN) -> Agent:
    return await api.services.directory.create(api.services.directory.parse(path), origin=Origin.PERSON)


async def propose(api: Api, text: str = "- likes tea\n", step: int = 0, name: str = "MEMORY.md", **more: Any) -> int:
    """Let an agent ask; return the request's number."""
    me = await agent(api, more.pop("path", ANN))
    place = Place(Layer.AGENT, me.id, name)
    action = DocumentAction(verb=more.pop("verb", "write"), place=place, text=text)
    fields: dict[str, Any] = {"kind": "memory", "action": action, "turn": 1, "step": step, "reason": "so"}
    return (await api.service.request(me, ApprovalAsk(**(fields | more)))).no


async def show(api: Api, no: int) -> Json:
    return await api.call("GET", f"/v1/approvals/{no}")


async def decide(api: Api, no: int, verdict: str = "approve", status: int = 200, **more: Any) -> Json:
    seen = more.pop("seen", None) or (await show(api, no))["content_hash"]
    return await api.call(
        "POST", f"/v1/approvals/{no}/decide", {"verdict": verdict, "seen": seen} | more, status=status
    )


async def memory(api: Api) -> str | None:
    found = await api.store.of(DocumentRows).get(Place(Layer.AGENT, (await agent(api)).id, "MEMORY.md"))
    return found.text if found else None


async def test_requests_are_listed_without_their_texts_and_shown_with_them(api: Api) -> None:
    assert await api.call("GET", "/v1/approvals") == {"approvals": [], "granted": [], "calls": [], "next": None}
    no = await propose(api)
    [listed] = (await api.call("GET", "/v1/approvals"))["approvals"]
    assert (listed["no"], listed["state"], listed["verb"], listed["document"]) == (no, "pending", "write", "MEMORY.md")
    assert listed["title"] == "/ann/direct wants to change MEMORY.md"
    assert "likes tea" not in str(listed) and "salt" not in listed
    shown = await show(api, no)
    assert shown["text"] == "- likes tea\n" and shown["warnings"] == []
    assert shown["diff"] == "--- /dev/null\n+++ MEMORY.md\n@@ -0,0 +1,1 @@\n+- likes tea\n"
    assert (await api.call("GET", "/v1/approvals", user="ben"))["approvals"] == []
    await decide(api, no, "reject", why="no")
    assert (await api.call("GET", "/v1/approvals"))["approvals"] == []
    [decided] = (await api.call("GET", "/v1/approvals", all="true", user="ann", limit=1))["approvals"]
    assert (decided["state"], decided["why"], decided["decided_by"]) == ("rejected", "no", "direct:ann")
    await api.refused(404, "APPROVAL_UNKNOWN", "GET", "/v1/approvals/99")
    await api.refused(400, "ROUTE_INVALID", "GET", "/v1/approvals/x")
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/approvals", limit=101)


async def test_a_decision_needs_what_was_seen(api: Api) -> None:
    no = await propose(api)
    seen = (await show(api, no))["content_hash"]
    for wrong in ("0" * 8, "0" * 64, seen[1:9]):
        error = {"verdict": "approve", "seen": wrong}
        await api.refused(409, "APPROVAL_CHANGED", "POST", f"/v1/approvals/{no}/decide", error)
    for body in (
        {"verdict": "approve", "seen": seen[:7]},
        {"verdict": "approve"},
        {"verdict": "maybe", "seen": seen},
        {"verdict": "approve", "seen": seen, "by": "ann"},
        {"verdict": "reject", "seen": seen, "why": "x" * 1_001},
    ):
        await api.refused(400, "BODY_INVALID", "POST", f"/v1/approvals/{no}/decide", body)
    done = await decide(api, no, seen=seen[:8])
    assert (done["state"], done["version"], done["decided_by"]) == ("approved", 1, "direct:ann")
    assert await memory(api) == "- likes tea\n"
    await api.refused(
        409, "APPROVAL_DECIDED", "POST", f"/v1/approvals/{no}/decide", {"verdict": "reject", "seen": seen}
    )
    assert (await show(api, no))["diff"].endswith("+- likes tea\n"), "what it has changed"


async def test_an_edit_answers_what_is_to_be_approved(api: Api) -> None:
    no = await propose(api)
    now = await decide(api, no, "edit", text="- likes coffee\n")
    assert (now["state"], now["revision"], now["edited_by"]) == ("pending", 2, "direct:ann")
    assert "+- likes coffee" in now["diff"] and await memory(api) is None
    await api.refused(
        400,
        "DOCUMENT_TOO_LARGE",
        "POST",
        f"/v1/approvals/{no}/decide",
        {"verdict": "edit", "seen": now["content_hash"], "text": "ä" * (DOCUMENT_MAX_BYTES // 2 + 1)},
    )
    done = await decide(api, no, seen=now["content_hash"])
    assert done["state"] == "edited" and await memory(api) == "- likes coffee\n"


async def test_a_changed_document_is_not_overwritten(api: Api) -> None:
    no = await propose(api)
    seen = (await show(api, no))["content_hash"]
    place = Place(Layer.AGENT, (await agent(api)).id, "MEMORY.md")
    by = Attribution(origin=Origin.PERSON, author="direct:ann")
    await api.store.of(DocumentRows).write(NewVersion(place=place, user="ann", by=by, text="- mine\n"))
    await api.refused(
        409, "APPROVAL_CHANGED", "POST", f"/v1/approvals/{no}/decide", {"verdict": "approve", "seen": seen}
    )
    now = await show(api, no)
    assert now["content_hash"] != seen and "-- mine\n+- likes tea\n" in now["diff"]
    assert (await decide(api, no, seen=now["content_hash"]))["version"] == 2


async def test_only_the_decider_decides(api: Api) -> None:
    await api.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
    no = await propose(api, path="/ben/direct")
    seen = (await show(api, no))["content_hash"]
    for verdict in ("approve", "reject"):
        error = await api.refused(
            403, "APPROVAL_OTHERS", "POST", f"/v1/approvals/{no}/decide", {"verdict": verdict, "seen": seen}
        )
        assert "only Ben can decide this" in error["message"]
    await api.refused(
        400, "USER_UNKNOWN", "POST", f"/v1/approvals/{no}/decide", {"verdict": "approve", "seen": seen, "user": "eve"}
    )
    assert (await decide(api, no, user="ben"))["decided_by"] == "direct:ben"
    await api.refused(403, "APPROVAL_OTHERS", "POST", f"/v1/approvals/{no}/undo", {})
    assert (await api.call("POST", f"/v1/approvals/{no}/undo", {"user": "ben"}))["undone"] == 2


async def test_global_documents_and_groups_are_the_operators(api: Api) -> None:
    await api.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
    await api.store.people.add(User(id="club", name="Club", kind="group", keys=("telegram:-1",)))
    deciders = {}
    for step, (path, place) in enumerate(
        (
            ("/ben/direct", Place(Layer.GLOBAL, "", "SOUL.md")),
            ("/ben/direct", Place(Layer.USER, "ben", "IDENTITY.md")),
            ("/ben/direct", Place(Layer.USER, "ben", "SOUL.md")),
            ("/club/telegram", Place(Layer.USER, "club", "USER.md")),
        )
    ):
        action = DocumentAction(verb="write", place=place, text="x")
        no = await propose(api, step=step, path=path, action=action, kind="identity")
        deciders[no] = (await show(api, no))["decider"]
    assert list(deciders.values()) == ["ann", "ann", "ben", "ann"]


@pytest.mark.parametrize("owner", ["ann", "nobody"])
async def test_what_belongs_to_others_cannot_be_asked_for(api: Api, owner: str) -> None:
    await api.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
    anns = await agent(api)
    for layer, of in ((Layer.USER, owner), (Layer.WORKSPACE, owner), (Layer.AGENT, anns.id), (Layer.AGENT, "x")):
        action = DocumentAction(verb="write", place=Place(layer, of, "USER.md"), text="x")
        with pytest.raises(Exception, match="belongs to another user"):
            await propose(api, path="/ben/direct", action=action)


async def test_several_of_a_kind_are_approved_each_by_itself(api: Api) -> None:
    numbers = [await propose(api, step=step, name=f"knowledge/{step}.md") for step in range(3)]
    items = [{"no": no, "seen": (await show(api, no))["content_hash"]} for no in numbers]
    await decide(api, numbers[1], "reject")
    done = await api.call("POST", "/v1/approvals/approve", {"items": items})
    states = [each["approved"]["state"] if each["approved"] else each["error"]["code"] for each in done["results"]]
    assert states == ["approved", "APPROVAL_DECIDED", "approved"]
    identity = await propose(api, step=5, kind="identity", name="SOUL.md")
    api.service.scan = _suspicious
    flagged = await propose(api, step=6, name="knowledge/x.md")
    good = await propose(api, step=7, kind="identity", name="STYLE.md")
    for pair in ((identity, numbers[0]), (flagged,), (good, identity, flagged)):
        both = [{"no": no, "seen": (await show(api, no))["content_hash"]} for no in pair]
        await api.refused(400, "BATCH_REFUSED", "POST", "/v1/approvals/approve", {"items": both})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/approvals/approve", {"items": []})
    assert (await show(api, flagged))["flags"] == ['danger: a test, "- likes tea"']


async def test_a_grant_approves_at_once_and_is_listed(api: Api) -> None:
    me = await agent(api)
    done = await api.call("POST", "/v1/approvals/auto", {"path": ANN, "hours": 24})
    assert (done["agent_id"], done["path"], done["kind"], done["by"]) == (me.id, ANN, "memory", "direct:ann")
    assert (await api.call("GET", "/v1/approvals"))["granted"] == [done]
    no = await propose(api)
    assert (await show(api, no))["state"] == "approved" and await memory(api) == "- likes tea\n"
    await api.call("POST", "/v1/approvals/auto", {"path": ANN, "hours": 0})
    assert (await api.call("GET", "/v1/approvals"))["granted"] == []
    assert (await show(api, await propose(api, "x", step=2)))["state"] == "pending"
    await api.refused(400, "BODY_INVALID", "POST", "/v1/approvals/auto", {"path": ANN, "hours": 25})
    await api.refused(400, "GRANT_REFUSED", "POST", "/v1/approvals/auto", {"path": ANN, "hours": 1, "kind": "identity"})
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/approvals/auto", {"path": "/ann/agent/x", "hours": 1})
    await api.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
    await api.refused(403, "APPROVAL_OTHERS", "POST", "/v1/approvals/auto", {"path": ANN, "hours": 1, "user": "ben"})


async def _suspicious(text: str) -> list[ApprovalFinding]:
    return [ApprovalFinding(severity="danger", meaning="a test", excerpt=text.strip())]
