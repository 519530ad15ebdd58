"""Connections to a model server, over real sockets: kept, given up, through proxies and with TLS."""

import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from daycare.inference.http_client import MODEL_IDLE_S, ConnectError, HttpClient
from daycare.inference.metering import _was_free
from daycare.inference.openai import OpenAIProvider
from tests.inference.wire import config, failure

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
Handler = Callable[[trio.abc.Stream], Awaitable[None]]


class Server:
    """Answers each request with the same bytes, and keeps what it was sent."""

    def __init__(self, answer: bytes = OK, *, closes: bool = False) -> None:
        self.answer = answer
        self.closes = closes
        self.connections = 0
        self.heads: list[bytes] = []
        self.gone = trio.Event()
        self.port = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        async with stream:
            while head := await head_of(stream):
                self.heads.append(head)
                await stream.send_all(self.answer)
                if self.closes:
                    break
        self.gone.set()


async def head_of(stream: trio.abc.Stream) -> bytes:
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        try:
            data = await stream.receive_some(1)
        except trio.BrokenResourceError:
            return b""
        if not data:
            return b""
        found += data
    return found


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, handler, [listener]))
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def said(client: HttpClient, path: str = "/x") -> bytes:
    answer = await client.ask("GET", path, {})
    try:
        found = b""
        while data := await answer.read():
            found += data
        return found
    finally:
        await answer.aclose()


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    server = Server()
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}/v1")
        assert [await said(client), await said(client)] == [b"ok", b"ok"]
        await client.aclose()
    assert server.connections == 1
    assert server.heads[0].startswith(b"GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % port)


async def test_a_connection_is_used_again_after_the_last_chunk() -> None:
    server = Server(CHUNKED)
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        assert [await said(client) for _ in range(3)] == [b"ok"] * 3
        await client.aclose()
    assert server.connections == 1


async def test_an_address_in_another_script_is_written_as_servers_read_it() -> None:
    server = Server()
    async with listening(server.serve) as port:
        client = HttpClient("http://bücher.example/größe/v1")
        client.dial = partial(trio.open_tcp_stream, "127.0.0.1", port)
        assert await said(client) == b"ok"
        await client.aclose()
    assert server.heads[0].startswith(b"GET /gr%C3%B6%C3%9Fe/v1/x HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n")


async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    server = Server(closes=True)
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        await said(client)
        await server.gone.wait()
        assert await said(client) == b"ok"
        await client.aclose()
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(mock_clock: trio.testing.MockClock) -> None:
    server = Server()
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        await said(client)
        mock_clock.jump(MODEL_IDLE_S + 0.1)
        assert await said(client) == b"ok"
        await client.aclose()
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        CHUNKED + b"HTTP/1.1 200 OK\r\n",
        CHUNKED.replace(b"Transfer", b"Connection: X, Close\r\nTransfer"),
        CHUNKED.replace(b"1.1", b"1.0"),
    ],
    ids=["more than an answer", "said to close", "old", "more than chunks", "chunks, said to close", "chunks, old"],
)
async def test_a_connection_of_which_more_could_come_is_not_used_again(answer: bytes) -> None:
    server = Server(answer, closes=True)
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        assert [await said(client), await said(client)] == [b"ok", b"ok"]
    assert server.connections == 2


async def test_an_answer_that_nobody_reads_to_its_end_costs_its_connection() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        for _ in range(2):
            answer = await client.ask("GET", "/x", {})
            assert await answer.read() == b"ok"
            await answer.aclose()
    assert server.connections == 2


async def test_what_is_in_use_when_all_are_closed_is_closed_at_its_end() -> None:
    server = Server()
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        answer = await client.ask("GET", "/x", {})
        await client.aclose()
        assert await answer.read() + await answer.read() == b"ok"
        await answer.aclose()
        await said(client)
        await client.aclose()
    assert server.connections == 2


async def test_what_came_together_is_read_together() -> None:
    pieces = b"".join(b"4\r\nabc \r\n" for _ in range(50))
    server = Server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        answer = await client.ask("GET", "/x", {})
        reads = []
        while data := await answer.read():
            reads.append(data)
        await answer.aclose()
        await client.aclose()
    assert b"".join(reads) == b"abc " * 50 and len(reads) <= 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n",
    ],
    ids=["cut", "garbled"],
)
async def test_what_came_before_a_connection_broke_is_read_first(answer: bytes) -> None:
    server = Server(answer, closes=True)
    async with listening(server.serve) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        found = await client.ask("GET", "/x", {})
        assert await found.read() == b"ok"
        for _ in range(2):
            with pytest.raises(trio.BrokenResourceError):
                await found.read()
        await found.aclose()


async def test_a_server_that_refuses_a_long_request_before_it_has_read_it_is_heard() -> None:
    async def refuse(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        await head_of(stream)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await stream.send_eof()
        await trio.sleep_forever()

    async with listening(refuse) as port:
        client = HttpClient(f"http://127.0.0.1:{port}")
        with trio.fail_after(20):
            answer = await client.ask("POST", "/x", {}, b"x" * 1_000)
        assert answer.status == 413
        await answer.aclose()


async def test_a_host_that_nobody_listens_on_is_told_apart_from_one_that_hangs_up() -> None:
    async def hang_up(stream: trio.abc.Stream) -> None:
        await head_of(stream)
        await stream.aclose()

    async with listening(hang_up) as port:
        with pytest.raises(trio.BrokenResourceError):
            await HttpClient(f"http://127.0.0.1:{port}").ask("GET", "/x", {})
        heard = await failure(OpenAIProvider(config("openai", f"http://127.0.0.1:{port}/v1")))
    assert not _was_free(heard, alive=False), "perhaps it has worked on what was sent"
    refused = await failure(OpenAIProvider(config("openai", f"http://127.0.0.1:{port}/v1")))
    assert _was_free(refused, alive=False) and "Connection refused" in refused.message


async def test_a_host_that_nobody_listens_on_is_an_error_of_connecting() -> None:
    async with listening(Server().serve) as port:
        pass
    with pytest.raises(ConnectError):
        await HttpClient(f"http://127.0.0.1:{port}").ask("GET", "/x", {})


# -- TLS and proxies -------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "daycare test")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if name[0].isdigit():
        names = [x509.IPAddress(ipaddress.ip_address(name))]
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


def with_tls(server: Server, folder: Path, name: str) -> Handler:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(folder, name))

    async def serve(stream: trio.abc.Stream) -> None:
        safe = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await server.serve(safe)
        except trio.BrokenResourceError:
            await trio.aclose_forcefully(stream)

    return serve


async def test_a_server_with_a_trusted_certificate_is_spoken_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    async with listening(with_tls(server, tmp_path, "127.0.0.1")) as port:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
        client = HttpClient(f"https://127.0.0.1:{port}")
        assert [await said(client), await said(client)] == [b"ok", b"ok"]
        await client.aclose()
    assert server.connections == 1


@pytest.mark.parametrize(("name", "trusts"), [("127.0.0.1", False), ("127.0.0.2", True)])
async def test_a_server_that_does_not_prove_who_it_is_gets_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trusts: bool
) -> None:
    server = Server()
    async with listening(with_tls(server, tmp_path, name)) as port:
        if trusts:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
        with pytest.raises(ConnectError, match=r"self.signed certificate|IP address mismatch"):
            await HttpClient(f"https://127.0.0.1:{port}").ask("GET", "/x", {})
    assert server.heads == []


class Proxy(Server):
    """Passes on what it is asked for, wherever that is said to be, to `to`."""

    to = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        head = await head_of(stream)
        self.heads.append(head)
        async with stream, await trio.open_tcp_stream("127.0.0.1", self.to) as other:
            if head.startswith(b"CONNECT"):
                await stream.send_all(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                await other.send_all(head)
            async with trio.open_nursery() as nursery:
                for one, two in ((stream, other), (other, stream)):
                    nursery.start_soon(self.pass_on, nursery.cancel_scope, one, two)

    async def pass_on(self, scope: trio.CancelScope, one: trio.abc.Stream, two: trio.abc.Stream) -> None:
        try:
            while data := await one.receive_some(65_536):
                await two.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()


@asynccontextmanager
async def proxied(monkeypatch: pytest.MonkeyPatch, handler: Handler) -> AsyncIterator[Proxy]:
    proxy = Proxy()
    async with listening(handler) as proxy.to, listening(proxy.serve) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://ann:s%40fe@127.0.0.1:{port}")
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:s%40fe@127.0.0.1:{port}")
        monkeypatch.setenv("NO_PROXY", "near.example")
        yield proxy


async def test_a_proxy_of_the_environment_is_asked_for_a_plain_address(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    async with proxied(monkeypatch, server.serve) as proxy:
        client = HttpClient("http://models.example/v1")
        assert await said(client) == b"ok"
        await client.aclose()
    assert proxy.heads[0].startswith(b"GET http://models.example/v1/x HTTP/1.1\r\nHost: models.example\r\n")
    assert b"Proxy-Authorization: Basic YW5uOnNAZmU=\r\n" in proxy.heads[0]


async def test_a_proxy_of_the_environment_passes_on_what_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    async with proxied(monkeypatch, with_tls(server, tmp_path, "models.example")) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
        client = HttpClient("https://models.example/v1")
        assert [await said(client), await said(client)] == [b"ok", b"ok"]
        await client.aclose()
    assert proxy.heads[0].startswith(b"CONNECT models.example:443 HTTP/1.1\r\nHost: models.example:443\r\n")
    assert server.heads[0].startswith(b"GET /v1/x HTTP/1.1\r\nHost: models.example\r\n")
    assert b"Authorization" not in server.heads[0]


async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
    async with listening(server.serve) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectError, match=r"the proxy 127\.0\.0\.1 refused with status 407"):
            await HttpClient("https://models.example/v1").ask("GET", "/x", {})


async def test_a_proxy_is_not_asked_for_this_machine_nor_for_hosts_that_are_excepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    async with proxied(monkeypatch, server.serve) as proxy:
        client = HttpClient(f"http://localhost:{proxy.to}")
        assert await said(client) == b"ok"
        await client.aclose()
        with pytest.raises(ConnectError):
            await HttpClient("http://near.example:1").ask("GET", "/x", {})
    assert proxy.connections == 0


async def test_a_proxy_of_a_kind_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ConnectError, match="is of kind socks5: http and https can be used"):
        await HttpClient("http://models.example").ask("GET", "/x", {})
