"""A bot whose settings change goes on over a new connection: one restart, no message lost or answered twice."""

from pathlib import Path

import pytest
import trio

from daycare.testing.daemon import OWNER
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- it would block the house's loop
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.reload.homes import change, open_home
from tests.telegram.bots import until

WORDS = ("one", "two", "three", "four", "five")


async def test_only_the_bot_that_was_touched_asks_who_it_is_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    async with FakeTelegram.serve() as server:
        bot = f'[plugins.telegram]\nbase_url = "{server.base_url}"\n'

        def greeted() -> int:
            return [call.method for call in server.calls].count("getMe")

        async with open_home(tmp_path, bot, location=str(tmp_path / "house.db")) as house:
            await house.store.people.link("telegram:5", OWNER)
            await house.store.secrets.put("telegram", OWNER, house.daemon.vault.seal(server.token))
            await until(lambda: greeted() == 1)
            server.say(5, 5, "one")
            await until(lambda: len(server.sent(5)) == 1)
            before = house.daemon.connectors["telegram"]
            await change(house, tmp_path, bot + '[notify]\nquiet = "22:00-07:00"\n')
            server.say(5, 5, "two")
            await until(lambda: len(server.sent(5)) == 2)
            assert greeted() == 1 and house.daemon.connectors["telegram"] is before
            async with trio.open_nursery() as nursery:
                nursery.start_soon(change, house, tmp_path, bot + 'long_answers = "file"\n')
                for word in WORDS[2:]:
                    server.say(5, 5, word)
            await until(lambda: server.sent(5)[-1].text == "echo: five", 20)
            await until(lambda: greeted() == 2)  # the old connection may have answered all of them
            assert house.daemon.connectors["telegram"] is not before
            [asked] = [request for request in house.model.history if "five" in request.messages[-1].text]
            heard = [message.text.partition("] ")[2] for message in asked.messages if message.role == "user"]
            assert " ".join(heard).split() == list(WORDS)  # some in one turn, as they came together
    assert len({message.text for message in server.sent(5)}) == len(server.sent(5))
