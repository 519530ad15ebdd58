"""Many calls at once, over real sockets: what the provider counts never goes over a limit."""

from pathlib import Path
from typing import Any

import trio

from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.settings import BudgetsSection
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.model_server import ScriptedAnswer
from daycare.testing.openai_server import FakeOpenAI

AGENTS = 64
TOKENS = 16
RESERVED = 1.0  # dollars: the longest answer, as reading costs nothing here
LIMIT = 10.5


def config(server: FakeOpenAI, limit: float) -> Config:
    model = ModelSection(context_tokens=16_000, output_tokens=TOKENS, input_usd=0.0, output_usd=RESERVED / TOKENS * 1e6)
    return Config(
        models=ModelsSection(default="fake/fake-small"),
        providers={"fake": ProviderSection(base_url=server.base_url, models={"fake-small": model})},
        budgets=BudgetsSection(operator=(f"{limit}usd a day",)),
    )


async def talk_all(house: TestDaemon) -> list[str]:
    """Let all agents be spoken to at once; return what they said."""
    paths = [f"/{OWNER}/agent/a{number}" for number in range(AGENTS)]
    for path in paths:
        await house.agent(path)
    said: dict[str, str] = {}

    async def talk(path: str) -> None:
        await house.say("hello", path=path)
        with trio.fail_after(60):
            while not (rows := await house.store.outbox.unread(path)):
                await trio.sleep(0.02)
        said[path] = rows[0].text

    async with trio.open_nursery() as nursery:
        for path in paths:
            nursery.start_soon(talk, path)
    return list(said.values())


async def test_64_calls_at_the_limit_never_spend_more_than_it(tmp_path: Path) -> None:
    def reply(words: int) -> Any:
        return lambda body: ScriptedAnswer(text=" ".join(["word"] * words), delay_s=0.1)

    for words in (TOKENS, 5):  # as much as was reserved, and less
        async with (
            FakeOpenAI.serve(reply=reply(words)) as server,
            open_daemon(tmp_path, config=config(server, LIMIT)) as house,
        ):
            said = await talk_all(house)
            counted = len(server.history) * words * RESERVED / TOKENS  # the provider's own
            (view,) = [it for it in await house.daemon.budgeting.controls.listed() if it.path == f"/{OWNER}"]
            (limit,) = view.limits
            await house.daemon.pool.aclose()
        assert LIMIT - RESERVED < counted <= LIMIT
        assert limit.used == round(counted * 1_000_000) and limit.reserved == 0
        assert sum("the next call may take $1.00" in text for text in said) == AGENTS - len(server.history)
        assert sum(text.startswith("word") for text in said) == len(server.history)
