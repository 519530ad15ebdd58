"""The WebSocket on the socket: events with cursors and gaps, bounds, slow and silent clients, the end of the daemon."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request, TextMessage
from wsproto.extensions import PerMessageDeflate

from daycare.api import connection, routes_socket, socket_chat, socket_events, sockets
from daycare.base.events import Notice
from daycare.observe.bus import Bus
from tests.api.conftest import ANN, Api, open_api
from tests.network.talking import Talking, talk_over


@asynccontextmanager
async def talk(api: Api, queue: int = 1_000) -> AsyncIterator[Talking]:
    async with await trio.open_unix_socket(str(api.socket)) as stream, talk_over(stream, {}, queue) as talking:
        yield talking


def notice(number: int, path: str = ANN, text: str = "") -> Notice:
    return Notice(at_ms=number, path=path, user=path.split("/")[1], text=text)


class RawClient:
    """A client that does nothing by itself: it neither reads nor answers a ping unless it is told to."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.protocol = WSConnection(ConnectionType.CLIENT)

    async def open(self) -> None:
        """Open the socket."""
        asked = Request(host="localhost", target="/v1/ws", subprotocols=["daycare.v1"])
        await self.stream.send_all(self.protocol.send(asked))
        while not any(isinstance(event, AcceptConnection) for event in await self.read()):
            pass

    async def read(self) -> list[Any]:
        """Return what has come, [] at the end."""
        data = await self.stream.receive_some(65_536)
        if not data:
            return []
        self.protocol.receive_data(bytes(data))
        return [*self.protocol.events(), data]

    async def close_code(self) -> int | None:
        """Read to the end; return how the daemon closed it, None if it was only cut."""
        try:
            while events := await self.read():
                for event in events:
                    if isinstance(event, CloseConnection):
                        return event.code
        except trio.BrokenResourceError:
            pass
        return None


@asynccontextmanager
async def raw(api: Api) -> AsyncIterator[RawClient]:
    async with await trio.open_unix_socket(str(api.socket)) as stream:
        client = RawClient(stream)
        await client.open()
        yield client


async def test_events_come_with_cursors_from_which_they_are_resumed(api: Api) -> None:
    async with talk(api) as first:
        begun = await first.asked("subscribe", id="s", types=["notice"], paths=["/ann/**", "/bob/direct"])
        assert begun["cursor"] == first.hello["cursor"] == api.bus.cursor
        for number, path in enumerate((ANN, "/bob/direct", "/bob/direct/sub/0", "/ann/agent/x")):
            api.bus.publish(notice(number, path))
        seen = await first.events(3)
        assert [each["event"]["at_ms"] for each in seen] == [0, 1, 3]
        assert seen[0]["cursor"] == begun["cursor"] + 1
        assert (await first.asked("unsubscribe", id="s"))["type"] == "ok"
        api.bus.publish(notice(4))
        assert (await first.asked("ping"))["type"] == "pong", "nothing comes any more"
        assert (await first.asked("unsubscribe", id="s"))["code"] == "SUBSCRIPTION_UNKNOWN"
    async with talk(api) as second:
        await second.asked("subscribe", id="s", types=["notice"], after=seen[1]["cursor"])
        assert [each["event"]["at_ms"] for each in await second.events(3)] == [2, 3, 4]


async def test_what_is_not_there_any_more_is_a_gap_that_says_how_much(tmp_path: Path) -> None:
    bus = Bus(start=5_000, size=64)
    async with open_api(tmp_path, bus=bus) as api, talk(api) as client:
        for number in range(200):
            bus.publish(notice(number))
        await client.asked("subscribe", id="old", after=5_010)
        gap = await client.hears("gap")
        assert gap == {"type": "gap", "id": "old", "cursor": bus.oldest, "missed": bus.oldest - 5_010}
        assert (await client.events(1, "old"))[0]["cursor"] == bus.oldest + 1
        await client.asked("subscribe", id="before", after=17)
        assert (await client.hears("gap"))["missed"] == bus.oldest - 5_000
        await client.asked("subscribe", id="ahead", after=bus.cursor + 1_000_000)
        assert (await client.hears("gap"))["missed"] == 0
        assert (await client.asked("ping"))["type"] == "pong", "whoever resumes too late is not sent away"


async def test_a_slow_client_is_closed_with_a_gap_and_resumes_without_a_loss_that_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "WS_SEND_S", 60.0)
    bus = Bus(size=512)
    async with open_api(tmp_path, bus=bus) as api:
        async with talk(api, queue=1) as slow, talk(api) as quick:
            begun = (await slow.asked("subscribe", id="s", types=["notice"]))["cursor"]
            await quick.asked("subscribe", id="s", types=["notice"])
            seen: list[int] = []
            read = 0
            for _ in range(15):
                for _ in range(100):
                    bus.publish(notice(bus.cursor, text="x" * 2_000))
                read += len(await quick.events(100))
            assert read == 1_500, "nobody else notices"
            missed = 0
            while True:
                message = await slow.hears("events", "gap")
                if message["type"] == "gap":
                    missed += message["missed"]
                    break
                seen += [each["cursor"] for each in message["events"]]
            assert missed and message["cursor"] - missed == seen[-1]
            code, reason = await slow.closed()
            assert code == 4429 and str(message["cursor"]) in reason
        async with talk(api) as again:
            await again.asked("subscribe", id="s", types=["notice"], after=message["cursor"])
            while not seen or seen[-1] < bus.cursor:
                message = await again.hears("events", "gap")
                assert message["type"] == "events"
                seen += [each["cursor"] for each in message["events"]]
        assert len(seen) + missed == bus.cursor - begun and len(seen) == len(set(seen)) and seen == sorted(seen)


async def test_a_client_that_takes_nothing_is_cut_off_and_no_other_notices(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "WS_SEND_S", 0.3)
    async with raw(api) as stuck, talk(api) as quick:
        await stuck.stream.send_all(
            stuck.protocol.send(TextMessage('{"type":"subscribe","id":"s","types":["notice"]}'))
        )
        await quick.asked("subscribe", id="s", types=["notice"])
        for _ in range(20):
            for _ in range(50):
                api.bus.publish(notice(0, text="x" * 2_000))
            await quick.events(50)
        with trio.fail_after(20):
            assert await stuck.close_code() is None
        assert (await quick.asked("ping"))["type"] == "pong"


async def test_who_gives_no_sign_of_life_is_closed_and_who_does_is_not(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_socket, "WS_PING_S", 0.05)
    monkeypatch.setattr(routes_socket, "WS_SILENCE_S", 0.5)
    async with raw(api) as silent, talk(api) as alive:
        with trio.fail_after(20):
            assert await silent.close_code() == 4408
        assert (await alive.asked("ping"))["type"] == "pong", "its library answers pings"


async def test_a_message_that_is_too_long_ends_the_socket_and_is_not_kept(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talk(api) as client:
        await client.asked("ping", id="x" * 64)
        padded = json.dumps({"type": "ping", "id": "most"})
        await client.connection.send_message(padded + " " * (connection.API_MESSAGE_MAX_CHARS - len(padded)))
        assert (await client.hears("pong"))["id"] == "most"
        await client.connection.send_message(" " * (connection.API_MESSAGE_MAX_CHARS + 1))
        assert (await client.closed())[0] == 1009
    async with raw(api) as flood:
        with pytest.raises(trio.BrokenResourceError), trio.fail_after(30):
            while True:
                part = TextMessage("x" * 65_536, message_finished=False)
                await flood.stream.send_all(flood.protocol.send(part))


async def test_bytes_are_no_message(api: Api) -> None:
    async with talk(api) as client:
        await client.connection.send_message(b"\x00")
        assert (await client.closed())[0] == 1003


async def test_compression_is_not_negotiated(api: Api) -> None:
    async with await trio.open_unix_socket(str(api.socket)) as stream:
        client = RawClient(stream)
        asked = Request(
            host="localhost", target="/v1/ws", subprotocols=["daycare.v1"], extensions=[PerMessageDeflate()]
        )
        await stream.send_all(client.protocol.send(asked))
        [accepted] = [event for event in await client.read() if isinstance(event, AcceptConnection)]
        assert not accepted.extensions and accepted.subprotocol == "daycare.v1"


async def test_subscriptions_and_chats_of_a_socket_are_bounded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_events, "WS_SUBSCRIPTIONS_MAX", 2)
    monkeypatch.setattr(socket_chat, "WS_CHATS_MAX", 2)
    api.echo.hold = trio.Event()
    async with talk(api) as client:
        for number in range(2):
            assert (await client.asked("subscribe", id=f"s{number}"))["type"] == "ok"
        assert (await client.asked("subscribe", id="s0"))["code"] == "SUBSCRIPTION_TAKEN"
        assert (await client.asked("subscribe", id="s2"))["code"] == "SUBSCRIPTIONS_FULL"
        await client.asked("unsubscribe", id="s1")
        assert (await client.asked("subscribe", id="s2"))["type"] == "ok"
        for number in range(2):
            assert (await client.asked("chat.send", id=f"c{number}", text="hi"))["type"] == "chat.accepted"
        assert (await client.asked("chat.send", id="c0", text="hi"))["code"] == "CHAT_TAKEN"
        assert (await client.asked("chat.send", id="c2", text="hi"))["code"] == "CHATS_FULL"
        api.echo.hold.set()
        assert {(await client.hears("chat.reply"))["id"] for _ in range(2)} == {"c0", "c1"}
        assert (await client.asked("chat.send", id="c2", text="hi"))["type"] == "chat.accepted"


async def test_what_comes_too_fast_waits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_socket, "WS_BURST", 3.0)
    monkeypatch.setattr(routes_socket, "WS_PER_S", 10.0)
    async with talk(api) as client:
        begun = trio.current_time()
        for number in range(8):
            await client.asked("ping", id=str(number))
        assert trio.current_time() - begun >= 0.35, "after three at once ten a second"


async def test_a_turn_is_stopped_and_its_message_answered_so(api: Api) -> None:
    api.echo.hold = trio.Event()
    async with talk(api) as client:
        assert (await client.asked("chat.send", id="c", text="hi"))["type"] == "chat.accepted"
        await api.echo.started.wait()
        assert (await client.asked("chat.stop", id="stop"))["type"] == "ok"
        reply = await client.hears("chat.reply")
        assert (reply["id"], reply["state"]) == ("c", "stopped")


async def test_a_message_that_is_given_up_is_an_error_of_its_id(api: Api) -> None:
    async with talk(api) as client:
        await client.asked("chat.send", id="c", text="poison")
        error = await client.hears("error")
        assert error["id"] == "c" and "poison" in error["message"]
        assert (await client.asked("chat.send", id="d", text="hi", path="nonsense"))["code"] == "PATH_INVALID"


async def test_sockets_are_closed_by_the_daemon_before_it_stops(api: Api) -> None:
    async with talk(api) as one, talk(api) as two:
        await two.asked("subscribe", id="s")
        await two.asked("chat.send", id="c", text="hi")
        api.shutdown.set()
        assert await one.closed() == await two.closed() == (1001, "the daemon stops")
        with trio.fail_after(1):
            await api.ended.wait()


async def test_a_defect_is_said_and_logged_without_its_words(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("4711")

    monkeypatch.setattr(socket_chat, "stop_turn", broken)
    async with talk(api) as client, talk(api) as other:
        await client.say("chat.stop", id="c")
        assert (await client.closed())[0] == 1011
        assert (await other.asked("ping"))["type"] == "pong"
    # Where it is logged depends on whether a daemon ran before in this process. Its line quotes this file's own text.
    logged = (capsys.readouterr().out + caplog.text).replace('ZeroDivisionError("4711")', "")
    assert "ZeroDivisionError" in logged and "4711" not in logged
