"""The page of the WebSocket says all of it, and its example works."""

import re
from pathlib import Path

import msgspec
import pytest

from daycare.api import connection, routes_socket, socket_chat, socket_events
from daycare.api.sockets import ClientMessage, CloseCode, ServerMessage
from daycare.features.approvals import socket as deciding
from tests.network.conftest import Network

PAGE = Path(__file__).parents[2] / "doc" / "extend" / "websocket.md"
MESSAGES = [*ClientMessage.__subclasses__(), *ServerMessage.__subclasses__()]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: str(kind.__struct_config__.tag))
def test_each_message_and_field_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    text = PAGE.read_text()
    for name in (str(kind.__struct_config__.tag), *kind.__struct_fields__):
        assert f"`{name}`" in text, name


def test_codes_and_bounds_are_on_the_page_as_they_are() -> None:
    text = PAGE.read_text()
    for code in CloseCode:
        assert f"| {code.value} |" in text, code.name
    for name in deciding.SuspiciousFlag.__struct_fields__:
        assert f"`{name}`" in text, name
    assert f"{routes_socket.WS_SOCKETS_MAX}, of which {routes_socket.WS_OF_TOKEN_MAX} with one token" in text
    assert f"{socket_events.WS_SUBSCRIPTIONS_MAX}, each with up to {socket_events.WS_PATHS_MAX} paths" in text
    assert f"{socket_chat.WS_CHATS_MAX} of a socket" in text
    assert f"{routes_socket.WS_PER_S:g} a second, {routes_socket.WS_BURST:g} at once" in text
    assert f"longer than {connection.API_MESSAGE_MAX_CHARS:,} characters" in text


def test_the_example_talks(
    network: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    monkeypatch.setenv("DAYCARE_TOKEN", network.tokens["ann"])
    exec(found[1].replace(":8686", f":{network.port}"), {})
    assert "=> Hello!" in capsys.readouterr().out
