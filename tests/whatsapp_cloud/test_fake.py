"""The fake Graph API refuses what Meta's reference says is refused."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from daycare_plugins.whatsapp_cloud.testing.server import FakeGraph

ANN = "4915112345678"


@pytest.fixture
async def graph() -> AsyncGenerator[FakeGraph, None]:
    async with FakeGraph.serve() as server:
        server.person(ANN, "Ann")
        server.say(ANN, "hi")
        yield server


async def post(graph: FakeGraph, payload: dict[str, Any], token: str = "", number: str = "") -> tuple[int, int]:
    """Send a message; return the HTTP status and Meta's code."""
    url = f"{graph.base_url}/v23.0/{number or graph.number_id}/messages"
    headers = {"Authorization": f"Bearer {token or graph.token}"}
    whole = {"messaging_product": "whatsapp", "to": ANN} | payload
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        answer = await client.post(url, json=whole, headers=headers)
    return answer.status_code, int(answer.json().get("error", {}).get("code", 0))


def buttons(*titles: str) -> dict[str, Any]:
    made = [{"type": "reply", "reply": {"id": f"{n}", "title": title}} for n, title in enumerate(titles)]
    content = {"type": "button", "body": {"text": "?"}, "action": {"buttons": made}}
    return {"type": "interactive", "interactive": content}


TEXT: dict[str, Any] = {"type": "text", "text": {"body": "hello"}}


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (TEXT, 0),
        (TEXT | {"idempotency_key": "1"}, 100),
        (TEXT | {"messaging_product": "telegram"}, 100),
        (TEXT | {"to": "Ann"}, 100),
        (TEXT | {"to": "4900000000000"}, 131026),
        (TEXT | {"context": {"message_id": "5"}}, 131009),
        (TEXT | {"biz_opaque_callback_data": "x" * 513}, 100),
        ({"type": "text", "text": {"body": "x" * 4_097}}, 100),
        ({"type": "text", "text": {"body": " "}}, 131008),
        ({"type": "text"}, 131008),
        ({"type": "poll", "poll": {}}, 100),
        ({"type": "image", "image": {"id": "5"}}, 100),
        ({"type": "audio", "audio": {"id": "5", "caption": "no"}}, 100),
        (buttons("Yes", "No"), 0),
        (buttons("a", "b", "c", "d"), 131009),
        (buttons("same", "same"), 131009),
        (buttons("x" * 21), 100),
        ({"type": "template", "template": {"name": "nobody", "language": {"code": "en_US"}}}, 132001),
        ({"type": "reaction", "reaction": {"message_id": "wamid.eA==", "emoji": "ok"}}, 131009),
        ({"status": "read", "message_id": "wamid.never"}, 131009),
    ],
)
async def test_messages_are_looked_at(graph: FakeGraph, payload: dict[str, Any], code: int) -> None:
    assert (await post(graph, payload))[1] == code


async def test_who_is_not_let_in_gets_nothing(graph: FakeGraph) -> None:
    assert await post(graph, TEXT, token="EAAwrong") == (401, 190)
    assert (await post(graph, TEXT, number="999"))[1] == 33
    assert not graph.messages


async def test_after_a_day_only_templates_go(graph: FakeGraph) -> None:
    graph.last_said[ANN] -= 86_401
    assert (await post(graph, TEXT))[1] == 131047
    template = {"type": "template", "template": {"name": "please_write", "language": {"code": "en_US"}}}
    assert (await post(graph, template))[0] == 200
    graph.say(ANN, "yes?")
    assert (await post(graph, TEXT))[0] == 200


async def test_files_of_other_types_are_not_taken(graph: FakeGraph) -> None:
    url = f"{graph.base_url}/v23.0/{graph.number_id}/media"
    headers = {"Authorization": f"Bearer {graph.token}"}
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        for kind, status in (("application/zip", 400), ("image/png", 200)):
            data = {"messaging_product": "whatsapp", "type": kind}
            answer = await client.post(url, data=data, files={"file": ("a", b"x", kind)}, headers=headers)
            assert answer.status_code == status
        about = (await client.get(f"{graph.base_url}/v23.0/{answer.json()['id']}", headers=headers)).json()
        assert (await client.get(about["url"])).status_code == 401
        assert (await client.get(about["url"], headers=headers)).content == b"x"
