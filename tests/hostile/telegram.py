"""The whole way over Telegram: what people write, and updates as no server sends them; answers echo what was said."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import trio
from msgspec.structs import replace

from daycare.plugin import Plugin, PluginContext
from daycare.testing.daemon import OWNER, TestDaemon
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram import intake
from daycare_plugins.telegram import serving as _serving
from daycare_plugins.telegram.bot import BotTask
from daycare_plugins.telegram.plugin import plugin as real
from daycare_plugins.telegram.reading import ReadUpdate
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.hostile import texts, values
from tests.hostile.accounts import Accounts, accounts, logged
from tests.hostile.messages import echo
from tests.hostile.stage import DEADLINE_S, PEOPLE, Streaming, count, opened
from tests.hostile.trial import Prepared, Trial

FIRST: Final = 10_000  # the number of the first person; each input is said by one of its own
WAITS: Final = "SELECT count(*) FROM inbox WHERE state = 0"
OUT: Final = "SELECT count(*) FROM outbox WHERE connector = 'telegram' AND state < 2"
assert _serving

UPDATE_MAX_BYTES = 512 * 1024  # no queue of the official server takes a larger one


class Telegram(Prepared):
    """See the module."""

    name = "telegram"
    chunk = 60
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Let each be said by a person of its own, so that no pace is in its way."""
        server = FakeTelegram()
        updates: dict[int, range] = {}
        async with (
            _keeping() as (kept, reads),
            _network(server) as network,
            opened(
                trial,
                folder,
                Streaming(echo),
                plugins=[_plugin(network)],
                settings={
                    "telegram": {"base_url": "http://127.0.0.1:1/bot", "base_file_url": "http://127.0.0.1:1/file/bot"}
                },
                disable=("telegram",),
                prepare=lambda house: _prepare(house, trial, server),
                level="debug",
            ) as house,
        ):
            for number in trial.numbers:
                first = server.queue.next_id
                self.say(server, FIRST + number, trial.draw(number))
                updates[number] = range(first, server.queue.next_id)
            last = server.queue.next_id
            with trio.move_on_after(DEADLINE_S):
                while server.confirmed < last or count(house, WAITS) or count(house, OUT):
                    await trio.sleep(5.0)
            if server.confirmed < last:
                trial.harm("no end", f"updates up to {last} were sent, and up to {server.confirmed} taken")
            ignored = logged(folder, "telegram_ignored", "update")
            for number in trial.numbers:
                states = _states(house, f"telegram:{FIRST + number}")
                said = {update: _said(house, kept, reads.get(update), ignored) for update in updates[number]}
                why = "" if states else ", ".join(sorted(set(said.values())))
                trial.end(number, "answered" if 1 in states else "dead" if states else "refused", why)
                for update, word in said.items():
                    if not word:
                        trial.harm("vanished", f"update {update}: {reads.get(update)}", number)
                if 0 in states:
                    trial.harm("no end", "its message waits", number)

    def say(self, server: FakeTelegram, person: int, rng: Random) -> None:
        """Let a person say it."""
        text = texts.text(rng, lone=False)
        choice = rng.random()
        who = server.person(person, first_name=texts.short(rng, lone=False)[:60] or "x")
        if choice < 0.6:
            server.say(who, who, text[:4_096] or "x")
        elif choice < 0.7:
            server.edit(server.say(who, who, "x"), text[:4_096] or "y")
        elif choice < 0.8:
            server.document(
                who, who, texts.text(rng).encode("utf-8", "replace"), texts.short(rng, lone=False)[:200] or "a"
            )
        else:
            update = values.mutated(rng, _update(person, text), rng.choice((0.02, 0.1, 0.4)))
            number = {"update_id": server.queue.next_id}  # without it no server sends any
            raw = json.dumps((update if isinstance(update, dict) else {"message": update}) | number).encode()
            if len(raw) <= UPDATE_MAX_BYTES:
                server.raw_update(raw)
            else:
                server.say(who, who, "x")

    def shown(self, rng: Random) -> str:
        """Return its text."""
        return texts.text(rng, lone=False)


def _update(person: int, text: str) -> dict[str, Any]:
    who = {"id": person, "is_bot": False, "first_name": "Ann"}
    chat = {"id": person, "type": "private", "first_name": "Ann"}
    message = {
        "message_id": 7,
        "date": 1_798_761_600,
        "chat": chat,
        "from": who,
        "text": text,
        "entities": [
            {"type": "bold", "offset": 0, "length": 5},
            {"type": "text_link", "offset": 1, "length": 2, "url": "x"},
        ],
        "reply_to_message": {"message_id": 6, "date": 1, "chat": chat, "from": who, "text": "before"},
        "quote": {"text": "be", "position": 0},
        "forward_origin": {"type": "user", "date": 1, "sender_user": who},
        "photo": [{"file_id": "a", "file_unique_id": "b", "width": 1, "height": 1, "file_size": 10}],
        "location": {"latitude": 1.5, "longitude": 2.5},
        "poll": {"id": "1", "question": "?", "options": []},
        "contact": {"phone_number": "1", "first_name": "x"},
        "caption": text[:100],
        "media_group_id": "1",
    }
    return {"message": message}


@asynccontextmanager
async def _network(server: FakeTelegram) -> AsyncGenerator[MemoryNetwork, None]:
    async with trio.open_nursery() as nursery:
        yield MemoryNetwork(server.serve_stream, nursery)
        nursery.cancel_scope.cancel()


def _plugin(network: MemoryNetwork) -> Plugin:
    """Return the real plugin with one bot, over a network in memory."""

    def setup(context: PluginContext) -> Plugin:
        bot = BotTask(context, "telegram", "telegram", context.config, network.transport)

        async def start(context: PluginContext) -> None:
            await bot.run()

        return replace(real, connectors={"telegram": lambda: bot.connector}, start=start)

    return replace(real, setup=setup, health=None, wizard=None)


async def _prepare(house: TestDaemon, trial: Trial, server: FakeTelegram) -> None:
    await house.store.secrets.put("telegram", OWNER, house.daemon.vault.seal(server.token))
    for number in trial.numbers:
        await house.store.people.link(f"telegram:{FIRST + number}", PEOPLE[number % len(PEOPLE)])


@asynccontextmanager
async def _keeping() -> AsyncGenerator[tuple[Accounts, dict[int | None, ReadUpdate]]]:
    """Keep accounts, and what each update was read as."""
    reads: dict[int | None, ReadUpdate] = {}
    read = intake.read_batch

    def reading(*arguments: Any) -> list[ReadUpdate]:
        found = read(*arguments)
        reads.update({one.update_id: one for one in found})
        return found

    with accounts() as kept, patch.object(intake, "read_batch", reading):
        yield kept, reads


def _said(house: TestDaemon, kept: Accounts, read: ReadUpdate | None, ignored: Counter[int]) -> str:
    """Return what the daemon said of an update, empty for nothing."""
    if read is None:
        return ""
    if read.item is not None:
        return kept.said(house, read.item.key)
    return f"ignored: {read.why_ignored}" if read.update_id in ignored else ""


def _states(house: TestDaemon, sender: str) -> set[int]:
    return {row[0] for row in house.store._reader.execute("SELECT state FROM inbox WHERE sender = ?", (sender,))}
