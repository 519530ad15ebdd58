"""The client against the fake server and, for what no HTTP server does, against raw sockets."""

import datetime
import logging
import ssl
import tempfile
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
import telegram
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from telegram import error as library
from trio.testing import MockClock

from daycare.base.errors import (
    AwayError,
    BrokenError,
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram.client import ChatMigratedError, TelegramClient, mapped
from daycare_plugins.telegram.testing.server import (
    FakeTelegram,
    TelegramFault,
    bad_gateway,
    flood,
    garbage,
    lost,
    refused,
)

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"


def client_of(server: FakeTelegram, **options: Any) -> TelegramClient:
    return TelegramClient(server.token, base_url=server.base_url, base_file_url=server.base_file_url, **options)


@asynccontextmanager
async def stub(answer: bytes | None, *, secure: bool = False) -> AsyncGenerator[str, None]:
    """Serve the same bytes to every request, None: hang up; yield the base URL."""

    async def serve(stream: trio.abc.Stream) -> None:
        try:
            if secure:
                stream = trio.SSLStream(stream, self_signed(), server_side=True)
            async with stream:
                await stream.receive_some()
                if answer is not None:
                    await stream.send_all(answer)
        except (trio.BrokenResourceError, ssl.SSLError):
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield f"http{'s' * secure}://127.0.0.1:{listeners[0].socket.getsockname()[1]}/bot"
        nursery.cancel_scope.cancel()


def self_signed() -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    day = datetime.datetime(2020, 1, 1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), day, day.replace(2100))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain, none = serialization.Encoding.PEM, serialization.NoEncryption()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(key.private_bytes(plain, serialization.PrivateFormat.PKCS8, none) + certificate.public_bytes(plain))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def shown(error: BaseException) -> str:
    """All that a log could show of it."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(getattr(error, "hint", ""))


async def failure(client: TelegramClient, method: str = "sendMessage", **params: Any) -> DaycareError:
    with pytest.raises(DaycareError) as caught:
        await client.call(method, **(params or {"chat_id": 5, "text": "x"}))
    assert TOKEN.partition(":")[2] not in shown(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value


# -- the bot under trio ------------------------------------------------------------------------------------------------


async def test_calls_are_made_under_trio_and_the_token_is_not_shown() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        async with client_of(server) as client:
            assert (await client.identity())[1] == "fake_bot"
            sent = await client.call("sendMessage", chat_id=5, text="hi", message_thread_id=None)
            assert sent["text"] == "hi" and "message_thread_id" not in sent
        assert [message.text for message in server.sent(5)] == ["hi"]
    assert server.token.partition(":")[2] not in repr(client)


async def test_opening_makes_no_call() -> None:
    async with TelegramClient(TOKEN, base_url="http://127.0.0.1:1/bot"):
        pass


async def test_files_go_up_and_come_down_with_a_limit() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.person(5)
        content = bytes(range(256)) * 1_000
        file = telegram.InputFile(content, filename="a.bin")
        sent = await client.call("sendDocument", chat_id=5, document=file, caption="here")
        assert (sent["caption"], sent["document"]["file_name"]) == ("here", "a.bin")
        file_id = sent["document"]["file_id"]
        assert await client.download(file_id, len(content)) == content
        with pytest.raises(InvalidError) as caught:
            await client.download(file_id, len(content) - 1)
        assert caught.value.code == "FILE_TOO_LARGE"
        with pytest.raises(NotFoundError) as gone:
            await client.download("nonsense", 10)
        assert gone.value.code == "FILE_GONE"
        server.fault("download", refused(404, "Not Found"))
        with pytest.raises(NotFoundError):
            await client.download(file_id, len(content))
        for fault, code in ((bad_gateway(), "TELEGRAM_DOWN"), (lost(), "TELEGRAM_LOST")):
            server.fault("download", fault)
            with pytest.raises(UnavailableError) as failed:
                await client.download(file_id, len(content))
            assert failed.value.code == code


async def test_a_file_that_is_larger_than_announced_is_given_up_while_it_comes() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n"
    async with stub(chunked) as url, TelegramClient(TOKEN, base_url=url, base_file_url=url) as client:
        with pytest.raises(InvalidError) as caught:
            await client._calls.fetch(url, 1_000)
        assert caught.value.code == "FILE_TOO_LARGE"


async def test_files_of_a_local_server_are_read_only_where_that_is_configured(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    file.write_bytes(b"12345")
    body = b'{"ok":true,"result":{"file_id":"f","file_path":"%s"}}' % str(file).encode()
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with stub(answer) as url:
        async with TelegramClient(TOKEN, base_url=url) as client:
            with pytest.raises(BrokenError) as caught:
                await client.download("f", 10)
            assert caught.value.code == "TELEGRAM_LOCAL_FILE"
        async with TelegramClient(TOKEN, base_url=url, local_mode=True) as client:
            assert await client.download("f", 5) == b"12345"
            with pytest.raises(InvalidError):
                await client.download("f", 4)
            file.unlink()
            with pytest.raises(NotFoundError):
                await client.download("f", 5)


# -- polling -----------------------------------------------------------------------------------------------------------


async def test_polls_are_raw_and_use_a_pool_of_their_own() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.say(5, 5, "hi")
        first, *others = await client.poll(None, 0, 100, ["message"])
        assert first["message"]["text"] == "hi" and not others
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.poll, first["update_id"] + 1, 20, 100, ["message"])
            await trio.sleep(0.05)
            with trio.fail_after(5):
                await client.identity()
            transports: list[Any] = [pool.http._transport for pool in (client._polls, client._calls)]
            assert [len(transport._pool.connections) for transport in transports] == [1, 1]
            server.say(5, 5, "again")


async def test_a_poll_is_cancelled_at_once_and_the_next_one_works() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        with trio.move_on_after(0.1) as scope:
            await client.poll(None, 25, 100, [])
        assert scope.cancelled_caught
        server.say(5, 5, "hi")
        assert len(await client.poll(None, 5, 100, [])) == 1


async def test_a_poll_may_take_as_long_as_was_asked_and_a_stalled_one_ends(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeTelegram()
        network = MemoryNetwork(server.serve_stream, nursery)
        async with client_of(server, transport=network.transport) as client:
            start = trio.current_time()
            assert await client.poll(None, 50, 100, []) == []
            assert trio.current_time() - start == pytest.approx(50)
            server.stalled = True
            with pytest.raises(UnavailableError) as caught:
                await client.poll(None, 50, 100, [])
            assert caught.value.code == "TELEGRAM_TIMEOUT" and not isinstance(caught.value, AwayError)
            assert trio.current_time() - start == pytest.approx(115)
        nursery.cancel_scope.cancel()


async def test_two_pollers_and_a_webhook_are_conflicts_that_differ_in_their_words() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.fault("getUpdates", refused(409, "Conflict: terminated by other getUpdates request; make sure that ..."))
        error = await failure(client, "getUpdates", timeout=0)
        assert isinstance(error, ConflictError) and error.code == "TELEGRAM_CONFLICT"
        assert "other getUpdates" in error.message
        await client.call("setWebhook", url="https://example.org/hook")
        error = await failure(client, "getUpdates", timeout=0)
        assert (error.code, "webhook is active" in error.message) == ("TELEGRAM_CONFLICT", True)


# -- what Telegram refuses ---------------------------------------------------------------------------------------------

REFUSALS: list[tuple[int, str, type[DaycareError], str]] = [
    (400, "Bad Request: chat not found", NotFoundError, "CHAT_GONE"),
    (400, "Bad Request: group chat was deactivated", NotFoundError, "CHAT_GONE"),
    (400, "Bad Request: can't parse entities: Can't find end", InvalidError, "TELEGRAM_MARKUP"),
    (400, "Bad Request: entity beginning at UTF-16 offset 3 ends after", InvalidError, "TELEGRAM_MARKUP"),
    (400, "Bad Request: message is too long", InvalidError, "MESSAGE_TOO_LONG"),
    (400, "Bad Request: MEDIA_CAPTION_TOO_LONG", InvalidError, "MESSAGE_TOO_LONG"),
    (400, "Bad Request: reply markup is too long", InvalidError, "TELEGRAM_REFUSED"),
    (400, "Bad Request: message text is empty", InvalidError, "MESSAGE_EMPTY"),
    (400, "Bad Request: text must be non-empty", InvalidError, "MESSAGE_EMPTY"),
    (400, "Bad Request: file must be non-empty", InvalidError, "TELEGRAM_REFUSED"),
    (400, "Bad Request: message to be replied not found", InvalidError, "REPLY_GONE"),
    (400, "Bad Request: message thread not found", NotFoundError, "TOPIC_GONE"),
    (400, "Bad Request: TOPIC_CLOSED", ForbiddenError, "TOPIC_CLOSED"),
    (400, "Bad Request: message is not modified: specified new", InvalidError, "NOT_MODIFIED"),
    (400, "Bad Request: message to edit not found", NotFoundError, "MESSAGE_GONE"),
    (400, "Bad Request: file is too big", InvalidError, "FILE_TOO_LARGE"),
    (400, "Bad Request: wrong file_id or the file is temporarily unavailable", NotFoundError, "FILE_GONE"),
    (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", InvalidError, "MEDIA_REFUSED"),
    (400, "Bad Request: EFFECT_ID_INVALID", InvalidError, "EFFECT_REFUSED"),
    (400, "Bad Request: REACTION_INVALID", InvalidError, "REACTION_REFUSED"),
    (400, "Bad Request: not enough rights to send text messages to the chat", ForbiddenError, "NO_RIGHTS"),
    (400, "Bad Request: something new", InvalidError, "TELEGRAM_REFUSED"),
    (403, "Forbidden: bot was blocked by the user", ForbiddenError, "RECIPIENT_GONE"),
    (403, "Forbidden: bot was kicked from the group chat", ForbiddenError, "RECIPIENT_GONE"),
    (403, "Forbidden: user is deactivated", ForbiddenError, "RECIPIENT_GONE"),
    (401, "Unauthorized", ForbiddenError, "TELEGRAM_TOKEN"),
    (413, "Request Entity Too Large", InvalidError, "FILE_TOO_LARGE"),
    (429, "Too Many Requests: later", BusyError, "TELEGRAM_FLOOD"),
    (500, "Internal Server Error", UnavailableError, "TELEGRAM_DOWN"),
]


@pytest.mark.parametrize(("status", "description", "kind", "code"), REFUSALS)
async def test_each_refusal_is_an_error_of_its_own(
    status: int, description: str, kind: type[DaycareError], code: str
) -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.person(5)
        server.fault("sendMessage", refused(status, description))
        error = await failure(client)
        assert (type(error), error.code) == (kind, code)
        if status == 400:
            said = f"calling sendMessage: {description.removeprefix('Bad Request: ')}"
            assert error.message.lower() == said.lower()  # the library writes the first letter large


async def test_a_flood_says_how_long_to_wait() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.person(5)
        server.fault("sendMessage", flood(17))
        error = await failure(client)
        assert isinstance(error, BusyError) and (error.code, error.retry_after_s) == ("TELEGRAM_FLOOD", 17)


@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")  # by the library's own error
def test_the_librarys_flood_error_is_read_in_both_its_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mapped(library.RetryAfter(3), "a").retry_after_s == 3
    monkeypatch.setenv("PTB_TIMEDELTA", "1")
    assert mapped(library.RetryAfter(datetime.timedelta(seconds=90)), "a").retry_after_s == 90


async def test_a_migrated_group_names_its_new_id() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        fault = TelegramFault(
            status=400,
            description="Bad Request: group chat was upgraded to a supergroup chat",
            parameters={"migrate_to_chat_id": -1001},
        )
        server.fault("sendMessage", fault)
        error = await failure(client)
        assert isinstance(error, ChatMigratedError) and (error.code, error.new_chat_id) == ("CHAT_MIGRATED", -1001)


async def test_a_wrong_token_is_told_from_an_unknown_method() -> None:
    async with FakeTelegram.serve() as server:
        async with client_of(server) as client:
            assert (await failure(client, "flyAway", a=1)).code == "TELEGRAM_METHOD", "the answer says so"
            assert not server.called("getMe")
            for _ in range(2):  # a server that does not say what it has not found
                server.fault("getChat", refused(404, "Not Found"))
                assert (await failure(client, "getChat", chat_id=5)).code == "TELEGRAM_METHOD"
            assert [call.method for call in server.calls].count("getMe") == 1
        async with TelegramClient(TOKEN, base_url=server.base_url) as other:
            for method in ("getMe", "sendMessage", "flyAway"):
                error = await failure(other, method, a=1)
                assert isinstance(error, ForbiddenError) and error.code == "TELEGRAM_TOKEN"
    not_found = b'{"ok":false,"error_code":404,"description":"Not Found"}'
    answer = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(not_found) + not_found
    async with stub(answer) as url, TelegramClient(TOKEN, base_url=url) as client:
        for method in ("getMe", "getUpdates", "flyAway"):
            assert (await failure(client, method, a=1)).code == "TELEGRAM_TOKEN"


@pytest.mark.parametrize("token", ["", "x", "12:a/../b", "12:a b", "12:a\n", "{token}", "http://a"])
async def test_what_is_no_token_is_never_sent(token: str) -> None:
    async with TelegramClient(token, base_url="http://127.0.0.1:1/bot") as client:
        with pytest.raises(ForbiddenError) as caught:
            await client.identity()
        assert caught.value.code == "TELEGRAM_TOKEN"


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request", b"502 Bad Gateway"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"1",
        b'{"ok":true}',
        b'{"ok":tru\xff',
        b"[" * 50_000,
        b'{"ok":false,"result":',
        b'{"ok":false}',
    ],
)
async def test_an_answer_that_is_none_means_that_the_server_is_down(
    status: bytes, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body
    async with stub(answer) as url, TelegramClient(TOKEN, base_url=url) as client:
        error = await failure(client)
    assert isinstance(error, (UnavailableError, InvalidError)) and not isinstance(error, AwayError)
    assert error.code == ("TELEGRAM_REFUSED" if status.startswith(b"400") else "TELEGRAM_DOWN")
    assert not caplog.records


@pytest.mark.parametrize("parameters", [b"7", b"[]", b'{"retry_after":"soon"}', b'{"migrate_to_chat_id":null}', b"{}"])
async def test_strange_parameters_of_a_refusal_do_no_harm(parameters: bytes) -> None:
    body = b'{"ok":false,"error_code":400,"description":null,"parameters":%s}' % parameters
    answer = b"HTTP/1.1 400 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with stub(answer) as url, TelegramClient(TOKEN, base_url=url) as client:
        assert (await failure(client)).code == "TELEGRAM_REFUSED"


async def test_text_that_is_no_unicode_is_refused_before_it_is_sent() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        error = await failure(client, "sendMessage", chat_id=5, text="\ud83d")
        assert (type(error), error.code, len(server.calls)) == (InvalidError, "TELEGRAM_REFUSED", 0)


# -- what the network does ---------------------------------------------------------------------------------------------


async def test_no_server_is_away_with_the_reason() -> None:
    async with TelegramClient(TOKEN, base_url="http://127.0.0.1:1/bot") as client:
        error = await failure(client)
        assert (type(error), error.code) == (AwayError, "TELEGRAM_UNREACHABLE")
    async with TelegramClient(TOKEN, base_url="http://telegram.invalid/bot") as client:
        error = await failure(client)
        assert (type(error), error.code) == (AwayError, "TELEGRAM_DNS")
    async with TelegramClient(TOKEN, base_url="mailto:x") as client:
        assert (await failure(client)).code == "TELEGRAM_URL"


async def test_a_server_that_cannot_prove_who_it_is_gets_no_token() -> None:
    async with (
        stub(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", secure=True) as url,
        TelegramClient(TOKEN, base_url=url) as client,
    ):
        error = await failure(client)
        assert (type(error), error.code) == (AwayError, "TELEGRAM_TLS")


async def test_a_lost_answer_may_have_been_delivered() -> None:
    async with FakeTelegram.serve() as server, client_of(server) as client:
        server.person(5)
        for fault in (lost(), TelegramFault(cut_after_bytes=20)):
            server.fault("sendMessage", fault)
            error = await failure(client)
            assert (type(error), error.code) == (UnavailableError, "TELEGRAM_LOST")
        server.fault("sendMessage", garbage())
        assert (await failure(client)).code == "TELEGRAM_DOWN"
        assert len(server.sent(5)) == 3
    async with stub(None) as url, TelegramClient(TOKEN, base_url=url) as client:
        assert (await failure(client)).code == "TELEGRAM_LOST"


async def test_no_answer_in_time_may_have_been_delivered(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeTelegram()
        network = MemoryNetwork(server.serve_stream, nursery)
        async with client_of(server, transport=network.transport) as client:
            server.fault("sendMessage", TelegramFault(stall="after"))
            server.person(5)
            error = await failure(client)
            assert (type(error), error.code, len(server.sent(5))) == (UnavailableError, "TELEGRAM_TIMEOUT", 1)
        nursery.cancel_scope.cancel()


async def test_no_connection_in_time_means_nothing_was_sent(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = FakeTelegram()
        network = MemoryNetwork(server.serve_stream, nursery)
        network.connect_delay_s = 60
        async with client_of(server, transport=network.transport) as client:
            error = await failure(client)
            assert (type(error), error.code) == (AwayError, "TELEGRAM_NOT_SENT")
            network.connect_delay_s = 0
            network.broken = httpcore.ConnectError("[Errno 101] Network is unreachable")
            assert (await failure(client)).code == "TELEGRAM_UNREACHABLE"
        narrow: Callable[[], httpx.AsyncBaseTransport] = lambda: network.transport(max_connections=1)  # noqa: E731
        network.broken = None
        async with client_of(server, transport=narrow) as client:
            server.stalled = True
            nursery.start_soon(failure, client)
            await trio.sleep(1)
            error = await failure(client)
            assert (type(error), error.code) == (AwayError, "TELEGRAM_NOT_SENT")
            await trio.sleep(100)
        nursery.cancel_scope.cancel()


def test_no_message_ever_shows_a_token() -> None:
    for error in (
        library.NetworkError(f"httpx.ConnectError: https://api.telegram.org/bot{TOKEN}/getMe"),
        library.BadRequest(f"Bad Request: cannot find https://api.telegram.org/bot{TOKEN}/x"),
        library.InvalidToken(f"The token `{TOKEN}` was rejected by the server."),
        library.Forbidden(f"Forbidden: {TOKEN}"),
        library.Conflict(f"Conflict: {TOKEN.replace(':', '%3A')}"),
        library.TelegramError(TOKEN),
        httpx.ConnectError(TOKEN),
        httpx.UnsupportedProtocol(TOKEN),
        ValueError(TOKEN),
    ):
        assert TOKEN.partition(":")[2] not in shown(mapped(error, "calling"))


def test_the_library_logs_nothing_below_a_warning() -> None:
    assert not logging.getLogger("telegram.Bot").isEnabledFor(logging.INFO)
