"""Webhook mode, over real sockets: what is promised is the same as with polling."""

import socket
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import msgspec
import pytest
import trio
from trio.testing import MockClock

from daycare.base.connector import Inbound, Unreadable
from daycare.base.errors import UnavailableError
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.bots import Host, bot_over, host, until

__all__ = ["host"]


SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"


class Stage:
    """A bot with a webhook, and its server."""

    def __init__(self, server: FakeTelegram, host: Host, url: str) -> None:
        self.server = server
        self.host = host
        self.url = url

    async def post(self, body: bytes, secret: str | None = None, method: str = "POST", path: str = "") -> int:
        headers = {SECRET_HEADER: secret} if secret is not None else {}
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
            response = await client.request(method, self.url + path, content=body, headers=headers)
        return response.status_code

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    @property
    def secret(self) -> str:
        return str(self.server.webhook["secret_token"])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
async def stage(host: Host) -> AsyncGenerator[Stage, None]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    hook: dict[str, Any] = {"webhook_url": url, "webhook_listen": f"127.0.0.1:{port}"}
    async with FakeTelegram.serve() as server, bot_over(host, server, **hook):
        await until(lambda: host.health.state == "up")
        yield Stage(server, host, url)


def update(number: int, text: str, **more: object) -> bytes:
    chat = {"id": 5, "type": "private", "first_name": "Ann"}
    message = {"message_id": number, "date": 1, "chat": chat, "from": {**chat, "is_bot": False}, "text": text, **more}
    return msgspec.json.encode({"update_id": number, "message": message})


async def test_updates_are_answered_only_when_they_are_committed(stage: Stage) -> None:
    server, host = stage.server, stage.host
    assert len(stage.secret) > 30
    for number in range(10):
        server.say(5, 5, f"m{number}")
    assert await server.deliver_webhook() == 10
    assert host.texts == [f"m{number}" for number in range(10)]
    host.fails = [UnavailableError("DISK_FULL", "the disk is full")]
    server.say(5, 5, "later")
    assert await server.deliver_webhook() == 0
    assert await server.deliver_webhook() == 1
    assert host.texts[-1] == "later"
    assert host.states[-2:] == ["away", "up"]


async def test_a_repeat_is_taken_once(stage: Stage) -> None:
    body = update(7, "hi")
    assert [await stage.post(body, stage.secret) for _ in range(3)] == [200] * 3
    assert stage.host.texts == ["hi"]


async def test_who_does_not_know_the_secret_is_refused(stage: Stage) -> None:
    body = update(7, "hi")
    for secret in (None, "", "x", stage.secret[:-1], stage.secret + "x"):
        assert await stage.post(body, secret) == 401
    assert await stage.post(body, stage.secret, path="/elsewhere") == 404
    assert await stage.post(b"", stage.secret, method="GET") == 405
    assert not stage.host.batches


async def test_a_body_that_is_too_large_is_not_read(stage: Stage) -> None:
    head = f"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n{SECRET_HEADER}: {stage.secret}\r\n\r\n"
    async with await trio.open_tcp_stream("127.0.0.1", stage.port) as stream:
        await stream.send_all(head.encode() + bytes(1024 * 1024 + 1))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 413")


async def test_a_body_that_is_said_to_be_too_large_is_refused_unread(stage: Stage) -> None:
    for more in ("", "Expect: 100-continue\r\n"):
        head = f"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n{more}"
        async with await trio.open_tcp_stream("127.0.0.1", stage.port) as stream:
            await stream.send_all(f"{head}{SECRET_HEADER}: {stage.secret}\r\n\r\n".encode())
            with trio.fail_after(5):  # the body would be waited for longer
                answer = b"".join([piece async for piece in stream])
            assert answer.startswith(b"HTTP/1.1 413") and b"Connection: close" in answer


async def test_what_is_no_update_is_parked_and_not_sent_again(stage: Stage) -> None:
    assert await stage.post(b"{nonsense", stage.secret) == 200
    assert await stage.post(b'{"update_id":1,"message":[]}', stage.secret) == 200
    assert [type(item) for item in stage.host.taken.values()] == [Unreadable, Unreadable]


async def test_parts_of_an_album_that_come_together_are_committed_together(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(stage.post, update(number, f"p{number}", media_group_id="9"), stage.secret)
            await trio.sleep(0.1)
    (batch,) = stage.host.batches
    assert sorted(item.text for item in batch if isinstance(item, Inbound)) == ["p0", "p1", "p2"]


async def test_garbage_and_half_requests_harm_nobody(stage: Stage) -> None:
    for data in (b"\x16\x03\x01\x02\x00\x01", b"GET", b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n12"):
        stream = await trio.open_tcp_stream("127.0.0.1", stage.port)
        await stream.send_all(data)
        await stream.aclose()
    assert await stage.post(update(7, "hi"), stage.secret) == 200


async def test_a_webhook_that_somebody_takes_away_is_told_and_set_again(host: Host, autojump_clock: MockClock) -> None:
    server = FakeTelegram()
    port = free_port()
    hook: dict[str, Any] = {"webhook_url": f"http://127.0.0.1:{port}/hook", "webhook_listen": f"127.0.0.1:{port}"}
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        async with bot_over(host, server, network, **hook):
            await until(lambda: host.health.state == "up")
            server.webhook = {}
            await until(lambda: host.health.state == "conflict", 45)
            await until(lambda: host.health.state == "up", 75)
            assert server.webhook["url"] == hook["webhook_url"]
            server.say(5, 5, "hi")
            server.webhook |= {"last_error_date": server.now() + 10**9, "last_error_message": "Connection refused"}
            await until(lambda: host.health.state == "away", 45)
            assert "Connection refused" in host.health.reason
            server.queue.drop()
            await until(lambda: host.health.state == "up", 45)
        nursery.cancel_scope.cancel()
    assert not server.called("getUpdates")
