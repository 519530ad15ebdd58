"""Messages in and replies out."""

from pathlib import Path

import pytest
import trio

from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Origin
from daycare.store.records import User
from tests.api.conftest import ANN, Api, open_api
from tests.store.samples import letter


async def test_message_is_committed_and_not_waited_for(api: Api) -> None:
    api.echo.hold = trio.Event()
    sent = await api.call("POST", "/v1/messages", {"text": "hello"}, status=202)
    assert (sent["path"], sent["state"], sent["duplicate"], sent["result"]) == (ANN, "waiting", False, None)
    inbox = await api.call("GET", "/v1/inbox", path=ANN)
    assert [row["envelope"]["text"] for row in inbox["rows"]] == ["hello"]
    assert inbox["rows"][0]["envelope"]["trace"] == sent["trace"]
    assert inbox["agent"]["id"] == sent["agent_id"]


async def test_waiting_returns_the_answer_and_the_replies_to_confirm(api: Api) -> None:
    answer = await api.ask("hello")
    assert (answer["state"], answer["result"]) == ("done", "echo: hello")
    assert [row["text"] for row in answer["replies"]] == ["echo: hello"]
    assert answer["replies"] == (await api.call("GET", "/v1/replies", path=ANN))["replies"]


async def test_waiting_too_short_says_so_and_a_repeat_gets_the_answer(api: Api) -> None:
    api.echo.hold = trio.Event()
    post = {"text": "hello", "key": "k"}
    late = await api.call("POST", "/v1/messages", post | {"wait_s": 0.05}, status=202)
    assert (late["state"], late["duplicate"]) == ("waiting", False)
    api.echo.hold.set()
    again = await api.call("POST", "/v1/messages", post | {"wait_s": 10})
    assert (again["seq"], again["duplicate"], again["result"]) == (late["seq"], True, "echo: hello")
    assert again["trace"] == late["trace"]
    assert len(again["replies"]) == 1


async def test_repeat_of_an_answered_message_returns_its_answer_without_waiting(api: Api) -> None:
    first = await api.ask("hello", key="k")
    again = await api.call("POST", "/v1/messages", {"text": "hello", "key": "k"})
    assert again == first | {"duplicate": True}


async def test_each_of_two_merged_messages_gets_the_reply_of_their_turn(api: Api) -> None:
    api.echo.hold = trio.Event()
    await api.call("POST", "/v1/messages", {"text": "first"}, status=202)
    await api.echo.started.wait()
    answers = {}

    async def ask(text: str) -> None:
        answers[text] = await api.ask(text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "a")
        nursery.start_soon(ask, "b")
        while len((await api.call("GET", "/v1/inbox", path=ANN))["rows"]) < 3:
            pass
        api.echo.hold.set()
    assert answers["a"]["result"] == answers["b"]["result"]
    assert answers["a"]["trace"] != answers["b"]["trace"]
    assert answers["a"]["replies"] == answers["b"]["replies"]
    assert len(answers["a"]["replies"]) == 1


async def test_given_up_message_is_an_error_with_its_reason(api: Api) -> None:
    body = {"text": "poison", "key": "k", "wait_s": 10}
    error = await api.refused(409, "MESSAGE_DEAD", "POST", "/v1/messages", body)
    assert "it was poison" in error["message"]
    again = await api.call("POST", "/v1/messages", {"text": "poison", "key": "k"}, status=202)
    assert again["state"] == "dead"


async def test_user_speaks_as_another_person(api: Api) -> None:
    await api.call("POST", "/v1/users", {"id": "ben"}, status=201)
    answer = await api.ask("hi", user="ben")
    assert answer["path"] == "/ben/direct"
    await api.refused(403, "STRANGER", "POST", "/v1/messages", {"text": "hi", "user": "nobody"})
    await api.refused(403, "OTHER_USER", "POST", "/v1/messages", {"text": "hi", "path": "/ben/direct"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": 1}, "$.text"),
        ({"text": "a", "txet": "b"}, "txet"),
        ({"text": "a", "wait_s": -1}, "$.wait_s"),
        ({"text": "a", "wait_s": 601}, "$.wait_s"),
        ([], "array"),
    ],
)
async def test_wrong_body_names_the_field(api: Api, body: object, field: str) -> None:
    error = await api.refused(400, "BODY_INVALID", "POST", "/v1/messages", body)
    assert field in error["message"]


async def test_a_message_to_all_is_one_for_each_agent_and_names_who_is_full(api: Api) -> None:
    full, free = [await api.call("POST", "/v1/agents", {"path": f"/ann/agent/{n}"}, status=201) for n in ("a", "b")]
    api.echo.hold = trio.Event()
    crowd = [letter(str(n), full["path"], user="ann") for n in range(INBOX_MAX_MESSAGES)]
    await api.store.inbox.post_all([(each, None) for each in crowd])
    sent = await api.call("POST", "/v1/messages", {"text": "hello", "key": "k", "all": True}, status=202)
    assert [receipt["path"] for receipt in sent["messages"]] == [free["path"]]
    [refused] = sent["refused"]
    assert (refused["path"], refused["error"]["code"]) == (full["path"], "INBOX_FULL")
    assert refused["error"]["retry_after_s"] > 0
    again = await api.call("POST", "/v1/messages", {"text": "hello", "key": "k", "all": True}, status=202)
    assert again["messages"] == [sent["messages"][0] | {"duplicate": True}] and again["refused"] == sent["refused"]


async def test_a_message_to_all_needs_somebody_and_goes_without_path_and_waiting(api: Api) -> None:
    for more in ({"path": ANN}, {"wait_s": 1}):
        await api.refused(400, "BODY_INVALID", "POST", "/v1/messages", {"text": "hello", "all": True} | more)
    await api.refused(404, "AGENT_NONE", "POST", "/v1/messages", {"text": "hello", "all": True})


async def test_wrong_message_is_refused_before_it_is_committed(api: Api) -> None:
    answer = await api.client.post("/v1/messages", content=b'{"text": ')
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BODY_INVALID")
    await api.refused(400, "PATH_INVALID", "POST", "/v1/messages", {"text": "a", "path": "nonsense"})
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/messages", {"text": "a", "path": "/ann/agent/nobody"})
    await api.refused(400, "MESSAGE_KEY", "POST", "/v1/messages", {"text": "a", "key": ""})
    await api.refused(400, "MESSAGE_TOO_LONG", "POST", "/v1/messages", {"text": "a" * 70_000})
    assert (await api.store.inbox.counts())["waiting"] == 0


async def test_client_that_goes_away_ends_the_waiting(api: Api) -> None:
    api.echo.hold = trio.Event()
    with trio.move_on_after(0.2):
        await api.ask("hello")
    waiters = api.services.router._waiters
    while waiters:
        await trio.sleep(0.01)
    api.echo.hold.set()


async def test_waiting_ends_at_shutdown_and_the_message_stays(api: Api) -> None:
    api.echo.hold = trio.Event()
    answers = []

    async def ask() -> None:
        answers.append(await api.call("POST", "/v1/messages", {"text": "a", "wait_s": 60}, status=202))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await api.echo.started.wait()
        while not api.services.router._waiters:
            await trio.sleep(0.01)
        api.shutdown.set()
        with trio.fail_after(20):
            await api.ended.wait()
    assert answers[0]["state"] == "waiting"


async def test_stop_ends_the_running_turn_of_anyone(api: Api) -> None:
    await api.call("POST", "/v1/users", {"id": "ben"}, status=201)
    api.echo.hold = trio.Event()
    sent = await api.call("POST", "/v1/messages", {"text": "long", "user": "ben"}, status=202)
    await api.echo.started.wait()
    stop = await api.call("POST", "/v1/stop", {"path": "/ben/direct"}, status=202)
    receipt = await api.store.inbox.receipt(stop["seq"])
    while receipt is None or receipt.state == "waiting":
        await trio.sleep(0.01)
        receipt = await api.store.inbox.receipt(stop["seq"])
    done = await api.store.inbox.receipt(sent["seq"])
    assert done is not None and done.result == "[stopped]"
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/stop", {"path": "/ann/agent/nobody"})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/stop", {})


async def test_inbox_is_read_in_pages(api: Api) -> None:
    api.echo.hold = trio.Event()
    for n in range(5):
        await api.call("POST", "/v1/messages", {"text": str(n)}, status=202)
    first = (await api.call("GET", "/v1/inbox", path=ANN, limit=2))["rows"]
    rest = (await api.call("GET", "/v1/inbox", path=ANN, after=first[-1]["seq"]))["rows"]
    assert [row["envelope"]["text"] for row in first + rest] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("route", ["/v1/inbox", "/v1/replies", "/v1/agent"])
async def test_agent_that_is_asked_about_must_exist(api: Api, route: str) -> None:
    assert "path" in (await api.refused(400, "QUERY_INVALID", "GET", route))["message"]
    await api.refused(404, "AGENT_UNKNOWN", "GET", route, path="/ann/agent/nobody")
    await api.refused(400, "PATH_INVALID", "GET", route, path="ann")


async def test_page_must_be_of_a_sensible_size(api: Api) -> None:
    for limit in ("0", "1001", "many", "99999999999999999999"):
        error = await api.refused(400, "QUERY_INVALID", "GET", "/v1/inbox", path=ANN, limit=limit)
        assert "$.limit" in error["message"]
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/inbox", path=ANN, colour="red")


async def test_confirmed_reply_is_not_shown_again(api: Api) -> None:
    await api.ask("a")
    await api.ask("b")
    rows = (await api.call("GET", "/v1/replies", path=ANN))["replies"]
    assert [row["text"] for row in rows] == ["echo: a", "echo: b"]
    assert (await api.call("GET", "/v1/replies", path=ANN, after=rows[0]["seq"]))["replies"] == rows[1:]
    first = {"seqs": [rows[0]["seq"], 999]}
    assert await api.call("POST", "/v1/replies/ack", first) == {"acknowledged": 1}
    assert await api.call("POST", "/v1/replies/ack", first) == {"acknowledged": 0}
    assert (await api.call("GET", "/v1/replies", path=ANN))["replies"] == rows[1:]
    await api.refused(400, "BODY_INVALID", "POST", "/v1/replies/ack", {"seqs": ["x"]})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/replies/ack", {"seqs": [2**70]})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/replies/ack", {"seqs": list(range(1001))})


async def test_the_next_message_confirms_what_was_shown(api: Api) -> None:
    (first,) = (await api.ask("a"))["replies"]
    (second,) = (await api.ask("b"))["replies"]
    await api.refused(400, "BODY_INVALID", "POST", "/v1/messages", {"text": "c", "shown": list(range(1001))})
    unknown = {"text": "c", "path": "/ann/agent/none", "shown": [first["seq"]]}
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/messages", unknown)
    assert len((await api.call("GET", "/v1/replies", path=ANN))["replies"]) == 2, "only once the message is taken"
    said = await api.call("POST", "/v1/messages", {"text": "c", "wait_s": 5, "shown": [first["seq"], 999]})
    left = [row["seq"] for row in (await api.call("GET", "/v1/replies", path=ANN))["replies"]]
    assert left == [second["seq"], said["replies"][0]["seq"]]


async def test_confirmation_is_an_event(api: Api) -> None:
    seq = (await api.ask("a"))["replies"][0]["seq"]
    async with api.bus.subscribe(types=frozenset({"reply.sent"})) as sent:
        await api.call("POST", "/v1/replies/ack", {"seqs": [seq]})
        _, event = await anext(sent)
    assert event.outbox == seq  # type: ignore[union-attr]


async def test_terminal_neither_sees_nor_confirms_what_another_connector_brings(api: Api) -> None:
    await api.store.people.add(User(id="cy", name="Cy", keys=("telegram:42",)), Origin.PERSON)
    agent = await api.services.directory.create(api.services.directory.parse("/cy/telegram"), origin=Origin.PERSON)
    from tests.store.samples import letter

    receipt = await api.services.router.post(letter("k", "/cy/telegram", user="cy"))
    await api.services.router.wait(receipt, 10)
    (row,) = await api.store.outbox.unread(agent.path)
    assert (await api.call("GET", "/v1/replies", path=agent.path))["replies"] == []
    assert await api.call("POST", "/v1/replies/ack", {"seqs": [row.seq]}) == {"acknowledged": 0}
    assert len(await api.store.outbox.unread(agent.path)) == 1


async def test_daemon_that_takes_no_turns_accepts(tmp_path: Path) -> None:
    async with open_api(tmp_path, mode="tool", work=False) as api:
        sent = await api.call("POST", "/v1/messages", {"text": "a", "wait_s": 0.05}, status=202)
        assert sent["state"] == "waiting"
