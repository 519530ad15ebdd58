"""The WebSocket over the network: who may open it, what each may say and see, and when it ends."""

from functools import partial
from typing import Any

import httpx
import pytest
import trio
from trio_websocket import ConnectionRejected

from daycare.api import routes_socket
from daycare.api.socket_chat import Chatting
from daycare.api.socket_events import LiveSubscriptions
from daycare.api.sockets import SocketPart
from tests.network.conftest import Network
from tests.network.talking import talk
from tests.network.test_deciding import asked

EDIT = {"request_id": "mem_99", "decision": "approve"}
# What each kind of token gets for each message: the type of the answer, or the code of the error.
MATRIX: dict[str, dict[str, str]] = {
    "ping": dict.fromkeys(("operator", "read", "ann", "phone"), "pong"),
    "subscribe": {"operator": "ok", "read": "ok", "ann": "ok", "phone": "MESSAGE_UNKNOWN"},
    "unsubscribe": {"operator": "ok", "read": "ok", "ann": "ok", "phone": "MESSAGE_UNKNOWN"},
    "chat.send": {
        "operator": "chat.accepted",
        "read": "TOKEN_READS",
        "ann": "chat.accepted",
        "phone": "MESSAGE_UNKNOWN",
    },
    "chat.stop": {"operator": "ok", "read": "TOKEN_READS", "ann": "ok", "phone": "MESSAGE_UNKNOWN"},
    "memory_edit_decision": {
        "operator": "APPROVAL_UNKNOWN",
        "read": "TOKEN_READS",
        "ann": "APPROVAL_UNKNOWN",
        "phone": "APPROVAL_UNKNOWN",
    },
    "nonsense": dict.fromkeys(("operator", "read", "ann", "phone"), "MESSAGE_UNKNOWN"),
}
FIELDS: dict[str, dict[str, Any]] = {"chat.send": {"text": "hello"}, "memory_edit_decision": EDIT}


@pytest.mark.parametrize(
    ("who", "headers", "status", "code"),
    [
        ("", {}, 401, "TOKEN_NEEDED"),
        ("", {"Authorization": "Bearer daycare_wrong"}, 401, "TOKEN_WRONG"),
        ("", {"resource": "/v1/ws?token={token}"}, 401, "TOKEN_NEEDED"),
        ("operator", {"Origin": "https://evil.example"}, 403, "ORIGIN_REFUSED"),
        ("operator", {"Origin": "null"}, 403, "ORIGIN_REFUSED"),
        ("operator", {"Host": "evil.example"}, 403, "HOST_UNKNOWN"),
        ("operator", {"protocol": "daycare.v9"}, 400, "SUBPROTOCOL_NEEDED"),
    ],
)
async def test_who_may_not_open_a_socket_is_told_why(
    network: Network, who: str, headers: dict[str, str], status: int, code: str
) -> None:
    sent = {name: value.format(token=network.tokens["operator"]) for name, value in headers.items()}
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionRejected), flatten_subgroups=True) as caught:
        async with talk(network, who, **sent):
            raise AssertionError("it was opened")
    [refused] = caught.value.exceptions
    assert isinstance(refused, ConnectionRejected)
    assert refused.status_code == status and f'"{code}"'.encode() in (refused.body or b"")


async def test_a_page_of_a_listed_origin_may_open_one_with_a_token(network: Network) -> None:
    async with talk(network, "ann", Origin="https://chat.example") as page:
        assert (await page.asked("ping"))["type"] == "pong"


async def test_each_kind_of_token_may_send_what_it_is_good_for_and_nothing_else(network: Network) -> None:
    network.add("phone", may="approve")
    await trio.to_thread.run_sync(partial(network.locally, "POST", "/v1/messages", {"text": "hello", "wait_s": 20}))
    for who in ("operator", "read", "ann", "phone"):
        async with talk(network, who) as talking:
            assert (talking.hello["user"], talking.hello["type"]) == ("ann", "hello")
            for type_, outcomes in MATRIX.items():
                about = type_.removeprefix("un")  # a subscription is ended by its name
                answer = await talking.asked(type_, id=about, **FIELDS.get(type_, {}))
                assert answer.get("code", answer["type"]) == outcomes[who], f"{who}: {type_}"


def test_every_message_that_clients_may_send_is_in_the_matrix(network: Network) -> None:
    socket: Any = object()
    services = network.daemon._daemon.services
    parts: list[SocketPart] = [LiveSubscriptions(socket, services.bus), Chatting(socket, services)]
    parts += [part for feature in services.features for part in feature.on_socket(socket)]
    kinds = {it.kind.__struct_config__.tag for part in parts for it in part.messages()}
    assert kinds | {"ping", "nonsense"} == set(MATRIX)


async def test_what_is_another_persons_is_not_there(network: Network) -> None:
    async with talk(network, "bob") as bob:
        for type_, fields in (
            ("subscribe", {"paths": ["/ann/**"]}),
            ("subscribe", {"paths": ["/bob/**", "/system/**"]}),
            ("chat.send", {"text": "hi", "path": "/ann/direct"}),
            ("chat.stop", {"path": "/ann/direct"}),
        ):
            answer = await bob.asked(type_, **fields)
            assert answer.get("code") == "AGENT_UNKNOWN", (type_, answer)


async def test_a_person_hears_the_events_of_their_own_agents_only(network: Network) -> None:
    async with talk(network, "bob") as bob, talk(network, "ann") as ann:
        assert (await bob.asked("subscribe", id="s"))["type"] == "ok"
        await ann.say("chat.send", id="c", text="my secret is 4711")
        await ann.hears("chat.reply")
        await bob.say("chat.send", id="c", text="hello")
        seen: list[dict[str, Any]] = []
        while not any(each["event"]["event"] == "turn.finished" for each in seen):
            seen += await bob.events(1)
    assert {each["event"]["path"] for each in seen} == {"/bob/direct"} and "4711" not in str(seen)


async def test_an_answer_comes_as_it_is_made_and_at_the_end_as_a_whole(network: Network) -> None:
    async with talk(network, "bob") as bob:
        accepted = await bob.asked("chat.send", id="c1", text="my cat is called Miso", key="once")
        assert (accepted["type"], accepted["path"], accepted["duplicate"]) == ("chat.accepted", "/bob/direct", False)
        inbox = partial(network.call, "bob", "GET", "/v1/replies", path="/bob/direct")
        pieces, message = "", await bob.hear()
        while message["type"] != "chat.reply":
            if message["type"] == "chat.delta":
                pieces += message["text"]
            message = await bob.hear()
        assert message["text"].endswith(pieces) and "Miso" in pieces
        assert (message["id"], message["seq"], message["state"]) == ("c1", accepted["seq"], "done")
        assert message["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, "rules take none"
        assert [reply["text"] for reply in message["replies"]] == [message["text"]]
        again = await bob.asked("chat.send", id="c2", text="my cat is called Miso", key="once")
        assert (again["seq"], again["duplicate"]) == (accepted["seq"], True)
        assert (await bob.hears("chat.reply"))["text"] == message["text"], "a repeat gets the same answer"
    with trio.fail_after(20):
        while (await trio.to_thread.run_sync(inbox)).json()["replies"]:
            await trio.lowlevel.checkpoint()


async def test_files_that_were_uploaded_go_with_a_message(network: Network) -> None:
    url = f"http://127.0.0.1:{network.port}/v1/files"
    headers = {who: {"Authorization": f"Bearer {network.tokens[who]}"} for who in ("ann", "bob")}
    async with httpx.AsyncClient() as client:
        sent = (await client.post(url, params={"name": "list.txt"}, content=b"milk", headers=headers["bob"])).json()
        assert (await client.get(f"{url}/{sent['id']}", headers=headers["bob"])).content == b"milk"
        for whose in ({}, {"user": "bob"}):
            assert (await client.get(f"{url}/{sent['id']}", headers=headers["ann"], params=whose)).status_code == 404
    async with talk(network, "ann") as ann, talk(network, "bob") as bob:
        refused = await ann.asked("chat.send", text="what is it?", files=[sent["id"]])
        assert refused["code"] == "FILE_UNKNOWN", "it is another person's"
        await bob.say("chat.send", id="c1", text="what is on my list?", files=[sent["id"]])
        assert (await bob.hears("chat.reply"))["state"] == "done"
    [turn, *_] = network.locally("GET", "/v1/history", path="/bob/direct")["turns"]
    assert [part["name"] for part in turn["messages"][0]["parts"] if "name" in part] == ["list.txt"]


async def test_what_cannot_be_read_is_refused_and_the_socket_stays_open(network: Network) -> None:
    async with talk(network, "ann") as ann:
        for text, about in (
            ("{", ""),
            ("[1]", ""),
            ('{"type":"subscribe"}', ""),
            ('{"type":"subscribe","id":"s","path":"/ann/**"}', "s"),
            ('{"type":"chat.send","id":"s"}', "s"),
            ('{"type":"ping","id":"%s"}' % ("x" * 65), ""),
        ):
            await ann.connection.send_message(text)
            error = await ann.hears("error")
            assert (error["code"], error["id"]) == ("MESSAGE_INVALID", about), text
            assert error["hint"] == "doc/extend/websocket.md"
        refused = await ann.asked("subscribe", types=["no.such"])
        assert refused["code"] == "EVENT_UNKNOWN"
        assert (await ann.asked("subscribe", paths=["/ann/*"]))["code"] == "PATH_INVALID"
        assert (await ann.asked("chat.send", text="hi", path="/ann/agent/none"))["type"] == "error"
        assert (await ann.asked("ping"))["type"] == "pong"


async def test_an_open_socket_ends_with_its_token_and_no_other_does(network: Network) -> None:
    async with talk(network, "bob") as bob, talk(network, "ann") as ann:
        await trio.to_thread.run_sync(partial(network.locally, "DELETE", "/v1/tokens", name="bob"))
        assert await bob.closed() == (4401, "the token has ended")
        assert (await ann.asked("ping"))["type"] == "pong"


async def test_a_socket_too_many_is_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_socket, "WS_OF_TOKEN_MAX", 1)
    monkeypatch.setattr(routes_socket, "WS_SOCKETS_MAX", 2)
    async with talk(network, "bob"), talk(network, "ann"):
        for who in ("bob", "read"):
            with pytest.RaisesGroup(pytest.RaisesExc(ConnectionRejected), flatten_subgroups=True) as caught:
                async with talk(network, who):
                    raise AssertionError("it was opened")
            [refused] = caught.value.exceptions
            assert isinstance(refused, ConnectionRejected) and b"SOCKETS_FULL" in (refused.body or b"")
    async with talk(network, "read") as later:
        assert (await later.asked("ping"))["type"] == "pong", "who went away makes room"


async def test_of_two_who_decide_at_once_one_wins_and_both_hear_it(network: Network) -> None:
    network.add("phone", user="bob", may="approve")
    request = await trio.to_thread.run_sync(asked, network)
    name = f"mem_{request['no']}"
    async with talk(network, "bob") as one, talk(network, "phone") as two, talk(network, "ann") as other:
        for each in (one, two):
            assert (await each.hears("memory_edit_request"))["request_id"] == name
        answers: list[dict[str, Any]] = []

        async def decide(client: Any, decision: str) -> None:
            await client.say("memory_edit_decision", id="d", request_id=name, decision=decision)
            heard = [await client.hears("ok", "error", "memory_edit_complete") for _ in range(2)]
            [done] = [it for it in heard if it["type"] == "memory_edit_complete"]
            assert done["request_id"] == name
            answers.extend(it for it in heard if it is not done)
            ends.append(done)

        ends: list[dict[str, Any]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide, one, "approve")
            nursery.start_soon(decide, two, "approve")
        assert sorted(each["type"] for each in answers) == ["error", "ok"]
        [lost] = [each for each in answers if each["type"] == "error"]
        assert lost["code"] == "APPROVAL_DECIDED" and "approved already by direct:bob" in lost["message"]
        assert ends[0] == ends[1] and ends[0]["success"] is True and ends[0]["by"].startswith("direct:bob (token ")
        assert (await other.asked("memory_edit_decision", request_id=name, decision="reject"))[
            "code"
        ] == "APPROVAL_UNKNOWN"
    assert (await trio.to_thread.run_sync(partial(network.locally, "GET", f"/v1/approvals/{request['no']}")))[
        "state"
    ] == "approved"
