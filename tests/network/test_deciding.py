"""Whose agent asks, decides: over the network with a token of theirs, and nobody else with theirs."""

from typing import Any

import pytest
import trio

from daycare.base.documents import Layer, Place
from daycare.features.approvals.records import DocumentAction
from daycare.features.approvals.service import ApprovalAsk
from tests.network.conftest import Network
from tests.network.test_callers import code


def asked(network: Network, path: str = "/bob/direct") -> dict[str, Any]:
    """Let an agent ask to change its memory; return the request as the operator sees it."""

    async def ask() -> int:
        daemon = network.daemon._daemon
        agent = await daemon.directory.at(path)
        action = DocumentAction(verb="write", place=Place(Layer.AGENT, agent.id, "MEMORY.md"), text="- likes tea\n")
        found: int = (
            await daemon.approvals.request(
                agent, ApprovalAsk(kind="memory", action=action, turn=1, step=0, reason="so")
            )
        ).no
        return found

    network.locally("POST", "/v1/messages", {"text": "hello", "user": path.split("/")[1], "wait_s": 20})
    no = trio.from_thread.run(ask, trio_token=network.daemon._token)
    return network.locally("GET", f"/v1/approvals/{no}")


@pytest.mark.parametrize("may", ["person", "approve"])
def test_who_is_asked_sees_and_decides(network: Network, may: str) -> None:
    network.add("phone", user="bob", may=may)
    request = asked(network)
    [listed] = network.call("phone", "GET", "/v1/approvals").json()["approvals"]
    assert listed["no"] == request["no"]
    shown = network.call("phone", "GET", f"/v1/approvals/{request['no']}").json()
    assert shown["text"] == "- likes tea\n"
    wish = {"verdict": "approve", "seen": shown["content_hash"]}
    decided = network.call("phone", "POST", f"/v1/approvals/{request['no']}/decide", wish).json()
    assert (decided["state"], decided["decided_by"]) == ("approved", "direct:bob (token phone)")
    other = network.call("phone", "POST", f"/v1/approvals/{request['no']}/decide", wish | {"verdict": "reject"})
    assert other.status_code == 409, "it is decided once"


def test_nobody_else_learns_that_there_is_a_request(network: Network) -> None:
    request = asked(network, "/ann/direct")
    route, wish = f"/v1/approvals/{request['no']}", {"verdict": "approve", "seen": request["content_hash"]}
    assert network.call("bob", "GET", "/v1/approvals").json() == {
        "approvals": [],
        "granted": [],
        "calls": [],
        "next": None,
    }
    answers = [network.call("bob", "GET", route), network.call("bob", "POST", f"{route}/decide", wish)]
    answers.append(network.call("bob", "POST", f"{route}/undo", {}))
    assert {(each.status_code, code(each)) for each in answers} == {(404, "APPROVAL_UNKNOWN")}
    batch = {"items": [{"no": request["no"], "seen": request["content_hash"]}]}
    assert code(network.call("bob", "POST", "/v1/approvals/approve", batch)) == "APPROVAL_UNKNOWN"
    assert network.locally("GET", route)["state"] == "pending"
