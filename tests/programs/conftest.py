"""Programs that speak OpenAI's protocol to a daemon whose model is a script, without sockets and on virtual time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from daycare.api.app import build
from daycare.api.callers import SOCKET, Caller, May
from daycare.base.messages import Origin
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon

CHAT = "/openai/v1/chat/completions"
RESPONSES = "/openai/v1/responses"
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)
Json = dict[str, Any]


@dataclass
class Programs:
    """The daemon, and calls of its API by the operator, on the socket, or by somebody with a token."""

    house: TestDaemon
    app: ASGIApp

    async def call(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        by: Caller = SOCKET,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Make one call."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("state", {})["caller"] = by
            await self.app(scope, receive, send)

        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            return await client.request(method, route, json=body, headers=headers)

    async def chat(self, *messages: Any, status: int = 200, in_: str = "", **more: Any) -> Json:
        """Send the messages of a chat; a text is a user's. `in_` is the conversation."""
        by, headers = more.pop("by", SOCKET), dict(more.pop("headers", {}))
        if in_:
            headers["X-Daycare-Conversation"] = in_
        told = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        answer = await self.call("POST", CHAT, {"model": "daycare", "messages": told} | more, by=by, headers=headers)
        assert answer.status_code == status, answer.text
        document: Json = answer.json()
        return document

    async def history(self, path: str = "/ann/direct") -> list[str]:
        """Return what stands in an agent's own conversation."""
        agent = await self.house.daemon.directory.at(path)
        return [each.text for each in await self.house.store.turns.history(agent.id, agent.session, 100)]

    @property
    def read(self) -> list[tuple[str, str]]:
        """What the model read last: who said it, and the words without their time."""
        texts = [(each.role, each.text) for each in self.house.model.history[-1].messages]
        return [(role, text.partition("] ")[2] if text.startswith("[") else text) for role, text in texts]

    @property
    def system(self) -> str:
        """The rules that the model read last."""
        return self.house.model.history[-1].system


def words(document: Json) -> str:
    """Return what a chat answered."""
    found: str = document["choices"][0]["message"]["content"]
    return found


def token(user: str, may: May = May.PERSON) -> Caller:
    """Return who calls with a token of a user."""
    return Caller(name=f"{user}-{may}", may=may, user=user)


@pytest.fixture
async def programs(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Programs]:
    async with open_daemon(tmp_path) as house:
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)), Origin.PERSON)
        yield Programs(house, build(house.daemon.services))
