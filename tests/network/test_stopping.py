"""How the API ends: what hangs on the socket and what hangs on the network is waited for at the same time."""

from pathlib import Path

import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.server import ApiConnections, serve
from tests.network.conftest import Network
from tests.network.test_tls import eventually


class Elsewhere:
    """Serves at some port of loopback."""

    def __init__(self, app: Starlette) -> None:
        self.connections = ApiConnections(app)
        self.listening = trio.Event()
        self.port = 0

    async def run(self, serving: trio.Nursery) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        self.listening.set()
        await trio.serve_listeners(self.connections.serve, listeners, handler_nursery=serving)


async def test_what_hangs_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = [trio.Event(), trio.Event()]
    closing = [trio.Event(), trio.Event()]

    async def hang(request: Request) -> Response:
        next(each for each in hanging if not each.is_set()).set()
        await trio.sleep_forever()
        raise AssertionError

    close = ApiConnections.close

    async def together(connections: ApiConnections) -> None:
        next(each for each in closing if not each.is_set()).set()
        for each in closing:  # one after the other they would never begin
            await each.wait()
        await close(connections)

    monkeypatch.setattr(ApiConnections, "close", together)
    app = Starlette(routes=[Route("/", hang)])
    app.state.closing = trio.Event()
    network, shutdown = Elsewhere(app), trio.Event()
    socket = tmp_path / "daycare.sock"
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: serve(app, socket, shutdown, task_status, network=network))
            await network.listening.wait()
            local, far = await trio.open_unix_socket(str(socket)), await trio.open_tcp_stream("127.0.0.1", network.port)
            for stream in (local, far):
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for each in hanging:
                await each.wait()
            shutdown.set()
    await local.aclose()
    await far.aclose()


def test_the_log_names_the_token_with_what_was_changed_and_with_nothing_else(network: Network) -> None:
    network.call("bob", "POST", "/v1/stop", {"path": "/bob/direct"})
    network.call("bob", "GET", "/v1/agents")
    network.call("read", "POST", "/v1/stop", {"path": "/bob/direct"})

    def called() -> list[str]:
        return [line for line in (network.home / "daycare.log").read_text().splitlines() if "api.called" in line]

    eventually(lambda: len(called()) == 2)  # a line is written once the answer is on its way
    assert all(word in called()[0] for word in ("bob", "127.0.0.1", "POST", "/v1/stop", "404"))
    assert "read" in called()[1] and "403" in called()[1]
