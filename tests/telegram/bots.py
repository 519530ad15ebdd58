"""A bot without a daemon: the plugin's own task over the fake server, and a host that remembers what it was told."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from daycare.base.connector import Connector, Health, Inbound, Outcome, Outgoing, Unreadable
from daycare.base.errors import DaycareError
from daycare.nodes.webhook_posts import WebhookPosts
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram.bot import BotTask
from daycare_plugins.telegram.settings import BotSettings
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.telegram.testing.world import TOKEN

Item = Inbound | Unreadable


class Host:
    """What a daemon does for a plugin, in memory. `cost_s` is how long a commit takes, `fails` what the next raise."""

    name = "telegram"
    config: Any = None

    def __init__(self, folder: Path) -> None:
        self.secrets: dict[str, str] = {"telegram": TOKEN}
        self.taken: dict[str, Item] = {}
        self.current: list[Item] = []
        self.batches: list[list[Item]] = []
        self.healths: list[tuple[float, Health]] = []
        self.values: dict[tuple[str, str], str] = {}
        self.moves: list[tuple[str, str]] = []
        self.fails: list[DaycareError] = []
        self.say: Callable[[Item], str] = lambda item: ""
        self.before_commit: Callable[[], None] = lambda: None
        self.cost_s = 0.0
        self.log = structlog.get_logger()
        self._folder = folder
        self._posts = WebhookPosts()

    @property
    def data(self) -> Path:
        return self._folder / "plugins" / "telegram"

    @property
    def texts(self) -> list[str]:
        return [item.text for item in self.taken.values() if isinstance(item, Inbound)]

    @property
    def states(self) -> list[str]:
        return [health.state for _, health in self.healths]

    @property
    def health(self) -> Health:
        return self.healths[-1][1] if self.healths else Health(state="off")

    def now_ms(self) -> int:
        return 1_800_000_000_000 + round(trio.current_time() * 1000)

    def secret(self, name: str) -> str | None:
        return self.secrets.get(name)

    async def accept(self, inbound: Inbound) -> int:
        raise NotImplementedError

    async def receive(self, connector: str, batch: Sequence[Item], cursor: str = "") -> Sequence[Outcome]:
        await trio.sleep(self.cost_s)
        self.current = list(batch)
        self.before_commit()
        if self.fails:
            raise self.fails.pop(0)
        outcomes = []
        for item in batch:
            if item.key in self.taken:
                outcomes.append(Outcome(state="repeated"))
                continue
            self.taken[item.key] = item
            said = self.say(item)
            outcomes.append(Outcome(state="stranger" if said else "accepted", seq=len(self.taken), say=said))
        self.batches.append(list(batch))
        if cursor:
            self.values[connector, "cursor"] = cursor
        return outcomes

    async def recall(self, connector: str, name: str = "cursor") -> str:
        return self.values.get((connector, name), "")

    async def remember(self, connector: str, name: str, value: str) -> None:
        self.values[connector, name] = value

    async def moved(self, connector: str, old: str, new: str) -> None:
        self.moves.append((old, new))

    def report(self, connector: str, health: Health) -> None:
        self.healths.append((trio.current_time(), health))

    async def while_connected(self, connector: str, run: Callable[[], Awaitable[None]]) -> None:
        await run()

    async def hand_on(self, connector: str, body: bytes) -> None:
        await self._posts.hand_on(connector, body)

    def taking(self, connector: str, take: Callable[[bytes], Awaitable[None]]) -> AbstractContextManager[None]:
        return self._posts.taking(connector, take)

    def commands(self) -> Sequence[tuple[str, str]]:
        return [("help", "What you can say"), ("stop", "Stop what is running")]

    def start_soon(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        raise NotImplementedError


@asynccontextmanager
async def bot_over(
    host: Host, server: FakeTelegram, network: MemoryNetwork | None = None, **settings: Any
) -> AsyncGenerator[BotTask, None]:
    """Run a bot; leaving the block is a kill."""
    chosen = BotSettings(base_url=server.base_url, base_file_url=server.base_file_url, **settings)
    bot = BotTask(host, "telegram", "telegram", chosen, network.transport if network is not None else None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bot.listen)
        nursery.start_soon(bot.run)
        yield bot
        nursery.cancel_scope.cancel()


async def until(what: Callable[[], object], deadline_s: float = 10.0, step_s: float = 0.01) -> None:
    """Wait until something is so."""
    with trio.fail_after(deadline_s):
        while not what():
            await trio.sleep(step_s)


def reply(text: str, target: str = "5", **fields: Any) -> Outgoing:
    """A reply."""
    return Outgoing(outbox=1, key="a:1", path="/ann/telegram", user="ann", target=target, text=text, **fields)


async def send(connector: Connector, outgoing: Outgoing) -> list[str]:
    """Send a reply as the courier does."""
    receipts = []
    for part in connector.split(outgoing):
        await trio.sleep(connector.delay_s(part.target))
        receipts.append(await connector.send(part))
    return receipts


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose locks are nobody else's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Host(tmp_path)
