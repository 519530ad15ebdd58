"""The webhook: who is let in, what is kept before it is answered, and that nothing makes it deaf."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import httpx
import msgspec
import pytest
import trio

from daycare.testing.faults import Killed, Switch
from daycare.testing.scripted import Scripted, say
from tests.whatsapp_cloud.houses import ANN, BEN, Stage, free_port, health, open_stage, until


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as found:
        yield found


async def ask(
    stage: Stage, body: bytes = b"", signature: str | None = None, method: str = "POST", query: str = ""
) -> httpx.Response:
    headers = {"X-Hub-Signature-256": signature} if signature is not None else {}
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
        return await client.request(method, stage.graph.webhook_url + query, content=body, headers=headers)


def body_of(stage: Stage, text: str) -> bytes:
    """Return a webhook that is not queued."""
    stage.graph.automatic = False
    body = stage.graph.post(messages=[stage.graph.made(ANN, "text", {"body": text})])
    stage.graph.queue.clear()
    stage.graph.automatic = True
    return body


async def listening(stage: Stage) -> None:
    with trio.fail_after(10):
        while True:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", stage.port)).aclose()
                return
            except OSError:
                await trio.sleep(0.01)


async def test_meta_proves_the_address_with_the_verify_token(stage: Stage) -> None:
    async with stage.daemon():
        await listening(stage)
        right = f"?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={stage.graph.verify_token}"
        answer = await ask(stage, method="GET", query=right)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        for wrong in (
            right[:-1],
            right + "x",
            right.replace("subscribe", "unsubscribe"),
            "?hub.mode=subscribe&hub.challenge=1",
            "",
            "?" + "&".join(f"a{number}=1" for number in range(50)),
        ):
            assert (await ask(stage, method="GET", query=wrong)).status_code == 403
        shown = "?hub.mode=subscribe&hub.challenge=%3Cscript%3E&hub.verify_token=" + stage.graph.verify_token
        assert (await ask(stage, method="GET", query=shown)).headers["content-type"] == "text/plain"


async def test_what_is_not_signed_with_the_app_secret_is_refused_and_not_kept(stage: Stage) -> None:
    async with stage.daemon() as house:
        await listening(stage)
        body = body_of(stage, "let me in")
        good = stage.graph.signed(body)
        assert (await ask(stage, body)).status_code == 401
        assert (await ask(stage, body, "sha256=")).status_code == 401
        assert (await ask(stage, body, good.replace("sha256", "sha1"))).status_code == 401
        assert (await ask(stage, body, stage.graph.signed(body, "another"))).status_code == 403
        assert (await ask(stage, body, stage.graph.signed(body, ""))).status_code == 403
        assert (await ask(stage, body + b" ", good)).status_code == 403
        assert (await ask(stage, body, good, method="PUT")).status_code == 405
        assert (await ask(stage, body, good, query="/elsewhere")).status_code == 404
        assert not stage.model.history
        assert await house.daemon.directory.find("/ann/whatsapp-cloud") is None
        stage.model.enqueue(say("hello"))
        assert (await ask(stage, body, good)).status_code == 200
        await stage.sent(1)
        plugin = next(each for each in await house.daemon.extensions.report() if each["name"] == "whatsapp_cloud")
        assert "6 requests refused" in str(plugin)


async def test_without_an_app_secret_nothing_is_believed(stage: Stage) -> None:
    async with stage.daemon() as house:
        await listening(stage)
        await house.store.secrets.remove("whatsapp_cloud.app_secret")
        body = body_of(stage, "hi")
        for secret in ("", stage.graph.app_secret):
            assert (await ask(stage, body, stage.graph.signed(body, secret))).status_code == 403


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_the_commit_loses_and_doubles_nothing(stage: Stage, when: Literal["before", "after"]) -> None:
    graph = stage.graph
    try:
        with trio.CancelScope() as scope:
            async with stage.daemon() as house:
                await until(lambda: health(house)["identity"])
                switch = Switch(house.store, scope.cancel)
                switch.kill_at(1, when)
                graph.say(ANN, "hi")
                await trio.sleep(10)
    except* Killed:
        pass
    assert switch.dead
    assert all(post.status != 200 for post in graph.posts), "it was acknowledged without being kept"
    stage.model = Scripted()
    stage.model.enqueue(say("hello"))
    async with stage.daemon():
        await until(lambda: not graph.queue)
        await stage.sent(1)
        await trio.sleep(0.3)
    assert [message.text for message in graph.sent(ANN)] == ["hello"]


async def test_a_batch_is_kept_whole_and_each_of_it_once(stage: Stage) -> None:
    graph = stage.graph
    stage.model.enqueue(say("read"))
    async with stage.daemon():
        await listening(stage)
        first = [graph.made(ANN, "text", {"body": f"m{number}"}) for number in range(3)]
        bad = {"from": ANN, "timestamp": "1", "type": "text", "text": {"body": "without an id"}}
        other = graph.made(BEN, "text", {"body": "a stranger between them"})
        body = graph.post(messages=[*first, bad, other])
        graph.post_raw(body)
        await stage.sent(1)
        await until(lambda: not graph.queue)
    seen = str(stage.model.history)
    assert all(f"m{number}" in seen for number in range(3))
    assert "a stranger between them" not in seen


async def test_what_cannot_be_read_is_a_dead_letter_and_what_follows_is_heard(stage: Stage) -> None:
    graph = stage.graph
    stage.model.enqueue(say("hello"))
    async with stage.daemon() as house:
        for odd in (
            b"{nonsense",
            b"[]",
            b"[" * 100_000,
            {"object": "whatsapp_business_account", "entry": "what?"},
            {"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "account_update"}]}]},
        ):
            graph.post_raw(odd)
        graph.post(messages=[{"type": "text", "id": "wamid.x", "timestamp": "1", "from": "../../etc"}])
        graph.post(messages=[{"type": "text", "id": "wamid.y", "timestamp": "1", "from": ANN, "group_id": "g"}])
        graph.say(ANN, "hi")
        await stage.sent(1)
        reasons = [letter.reason for letter in await house.store.dead.find()]
    assert {post.status for post in graph.posts} <= {0, 200, 503}  # until it listens, and until it is connected
    assert len(reasons) == 5
    assert sum("no JSON object" in reason for reason in reasons) == 3


async def test_a_wrongly_signed_webhook_harms_no_right_one(stage: Stage) -> None:
    graph = stage.graph
    graph.wrong_signatures = 1
    stage.model.enqueue(say("one"))
    async with stage.daemon():
        graph.say(ANN, "with a wrong signature")
        await until(lambda: any(post.status == 403 for post in graph.posts))
        graph.say(ANN, "with a right one")
        await stage.sent(1)
    assert "with a wrong signature" not in str(stage.model.history)


async def test_slow_bodies_of_strangers_keep_nobody_else_out(stage: Stage) -> None:
    stage.model.enqueue(say("hello"))
    async with stage.daemon():
        await listening(stage)
        body = body_of(stage, "hi")
        head = f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256={'0' * 64}\r\n"
        slow = [await trio.open_tcp_stream("127.0.0.1", stage.port) for _ in range(20)]
        for stream in slow:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(f"{head}Content-Length: 9000\r\n\r\n1".encode())
        with trio.fail_after(5):  # they would be waited for longer
            assert (await ask(stage, body, stage.graph.signed(body))).status_code == 200
        await stage.sent(1)
        for stream in slow:
            await trio.aclose_forcefully(stream)


async def test_another_number_of_the_same_app_is_not_ours(stage: Stage) -> None:
    graph = stage.graph
    stage.model.enqueue(say("hello"))
    async with stage.daemon():
        message = graph.made(ANN, "text", {"body": "for the shop"})
        metadata = {"phone_number_id": "999", "display_phone_number": "1"}
        graph.post(messages=[message], metadata=metadata)
        graph.say(ANN, "for the agent")
        await stage.sent(1)
    assert "for the shop" not in str(stage.model.history)


async def test_garbage_and_half_requests_harm_nobody(stage: Stage) -> None:
    stage.model.enqueue(say("hello"))
    async with stage.daemon():
        await listening(stage)
        head = f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256={'0' * 64}\r\n"
        for data in (b"\x16\x03\x01\x02", b"GET", f"{head}Content-Length: 9\r\n\r\n12".encode()):
            stream = await trio.open_tcp_stream("127.0.0.1", stage.port)
            await stream.send_all(data)
            await stream.aclose()
        async with await trio.open_tcp_stream("127.0.0.1", stage.port) as stream:
            await stream.send_all(f"{head}Content-Length: 9000000\r\n\r\n".encode() + bytes(3 * 1024 * 1024 + 1))
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 413")
        async with await trio.open_tcp_stream("127.0.0.1", stage.port) as stream:
            await stream.send_all(f"{head}Content-Length: 9000000\r\n\r\n".encode())
            with trio.fail_after(5):  # the body would be waited for longer
                answer = b"".join([piece async for piece in stream])
            assert answer.startswith(b"HTTP/1.1 413"), "refused unread, and the connection closed"
        stage.graph.say(ANN, "hi")
        await stage.sent(1)


async def test_the_state_is_up_only_with_proof(stage: Stage) -> None:
    async with stage.daemon() as house:
        await until(lambda: health(house)["reason"] == "Meta has not called yet")
        stage.model.enqueue(say("hello"))
        stage.graph.say(ANN, "hi")
        await until(lambda: health(house)["state"] == "up")
        await stage.sent(1)
    async with stage.daemon(webhook_url=stage.graph.webhook_url) as house:
        await until(lambda: health(house)["state"] == "up")  # our own request came back to us
    stage.graph.webhook_url = f"http://127.0.0.1:{free_port()}/whatsapp"
    async with stage.daemon(webhook_url=stage.graph.webhook_url) as house:
        await until(lambda: health(house)["state"] == "away")
        assert "webhook_url" in health(house)["hint"]
    stage.graph.token = "EAAanother0123456789abcdefghij"
    async with stage.daemon() as house:
        stage.graph.token = "EAAyetanother0123456789abcdef"
        await until(lambda: health(house)["state"] == "refused")
        assert "daycare keys add whatsapp_cloud" in health(house)["hint"]


async def test_no_secret_is_told_to_anybody(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    graph = stage.graph
    secrets = (graph.token, graph.app_secret, graph.verify_token)
    async with stage.daemon() as house:
        stage.model.enqueue(say("hello"))
        graph.say(ANN, "hi")
        await stage.sent(1)
        graph.token = "EAAanother0123456789abcdefghij"
        await house.say("hi", path="/ann/whatsapp-cloud")
        await trio.sleep(0.3)
        told = msgspec.json.encode([house.events(), health(house)]).decode()
        rows = [str(row) for row in await house.store.outbox.waiting("whatsapp-cloud")]
    captured = capsys.readouterr()
    everything = told + "".join(rows) + captured.out + captured.err + str(graph.calls)
    for secret in secrets:
        assert secret not in everything
