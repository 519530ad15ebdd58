"""The real client, python-telegram-bot, under trio, and plain HTTP calls to the fake server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import telegram
from telegram.request import HTTPXRequest

from daycare_plugins.telegram.testing.server import FakeTelegram


class TrioBot(telegram.Bot):
    """A bot whose start and end need no asyncio."""

    async def initialize(self) -> None:
        for request in self._request:
            await request.initialize()
        self._initialized = True

    async def shutdown(self) -> None:
        for request in self._request:
            await request.shutdown()


@asynccontextmanager
async def bot_of(server: FakeTelegram, token: str | None = None) -> AsyncGenerator[TrioBot, None]:
    """A bot that talks to the fake."""
    pools = [HTTPXRequest(httpx_kwargs={"trust_env": False, "verify": False}) for _ in range(2)]
    bot = TrioBot(
        token or server.token,
        base_url=server.base_url,
        base_file_url=server.base_file_url,
        request=pools[0],
        get_updates_request=pools[1],
    )
    await bot.initialize()
    try:
        yield bot
    finally:
        await bot.shutdown()


async def call(server: FakeTelegram, method: str, **params: Any) -> dict[str, Any]:
    """Call a method with a JSON body; return the decoded answer."""
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        response = await client.post(f"{server.base_url}{server.token}/{method}", json=params)
    answer: dict[str, Any] = response.json()
    assert answer["ok"] or answer["error_code"] == response.status_code
    return answer


async def refusal(server: FakeTelegram, method: str, **params: Any) -> str:
    """Call a method that is refused; return the description."""
    answer = await call(server, method, **params)
    assert not answer["ok"], answer
    description: str = answer["description"]
    return description


async def done(server: FakeTelegram, method: str, **params: Any) -> Any:
    """Call a method that succeeds; return the result."""
    answer = await call(server, method, **params)
    assert answer["ok"], answer
    return answer["result"]
