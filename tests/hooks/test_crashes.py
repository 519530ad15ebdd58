"""A crash between a delivery and its answer loses and doubles nothing: the sender repeats it, and is told the same."""

import random
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from daycare.api.client import Client
from daycare.base.messages import Origin
from daycare.features.hooks import schemes
from daycare.features.hooks.records import HookScheme
from daycare.ops.setup import initialise
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome
from daycare.testing.scripted import Scripted, say
from tests.chance import SEED, sliced
from tests.hooks.sender import delivered
from tests.network.conftest import free_port
from tests.stored import tell

PATH = "/ann/direct"
DELIVERIES = 30
AT_ONCE = 6


@pytest.mark.parametrize("late", [False, True], ids=["after the commit", "before the next"])
@pytest.mark.parametrize("commit", sliced(range(1, 11), 5))
async def test_a_death_at_any_commit_neither_loses_nor_doubles_a_delivery(
    tmp_path: Path, autojump_clock: object, commit: int, late: bool
) -> None:
    clock, told = VirtualClock(), []

    async def story(house: TestDaemon) -> None:
        await house.hear(await house.say("hello", key="hello"))
        answer = await delivered(house, {"n": 1}, path=PATH)  # again in each life: its sender had no answer
        told.append(answer.message)
        again = await delivered(house, {"n": 1}, path=PATH)
        assert (again.state, again.message) == ("repeated", answer.message)
        await trio.sleep(120)
        agent = await house.daemon.directory.at(PATH)
        said = [each.origin for each in await house.store.turns.history(agent.id, agent.session, 100)]
        assert said.count(Origin.WEBHOOK) == 1

    model = Scripted(lambda request: say("NO_REPLY"))
    struck = await live(tmp_path, model, Doom(commit, late=late), story, clock=clock)
    if struck:
        assert not await live(tmp_path, model, Doom(), story, clock=clock)
    assert told and len(set(told)) == 1


async def test_kill_9_while_deliveries_come_in_and_all_of_them_repeated(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    enough = chance.randrange(3, DELIVERIES - AT_ONCE)
    print(f"seed {SEED}: killed after {enough} answers")
    home, port = await trio.to_thread.run_sync(_home, tmp_path)
    process = DaemonProcess(home)
    try:
        await process.ready()
        secret = await trio.to_thread.run_sync(_hook, home)
        sent = _Sender(f"http://127.0.0.1:{port}/v1/hooks/ci", secret)
        await sent.all(lambda: process.hit() if len(sent.answers) == enough else None)
        first = dict(sent.answers)
        assert enough <= len(first) < DELIVERIES, "some had an answer, some not"
        await process.kill()
        process = DaemonProcess(home)
        await process.ready()
        await sent.all(lambda: None)
        assert len(sent.answers) == DELIVERIES
        for delivery, number in first.items():
            assert sent.answers[delivery] == number and sent.states[delivery] == "repeated"
        assert len(set(sent.answers.values())) == DELIVERIES, "each is one message"
        hook = await trio.to_thread.run_sync(_hook_now, home)
        assert hook["accepted"] == DELIVERIES and hook["repeated"] >= enough
    finally:
        await process.kill()


class _Sender:
    """Delivers, several at once, until its peer is gone. `answers` are numbers of messages by delivery."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._secret = secret
        self.answers: dict[str, int] = {}
        self.states: dict[str, str] = {}

    async def all(self, heard: Any) -> None:
        open_ = [f"d{number}" for number in range(DELIVERIES)]

        async def some(client: httpx.AsyncClient) -> None:
            while open_:
                delivery = open_.pop()
                body = b'{"n": "%b"}' % delivery.encode()
                headers = schemes.signed(
                    HookScheme.GITHUB, self._secret, body, delivery=delivery, event="push", now_s=0
                )
                try:
                    answer = await client.post(self._url, content=body, headers=headers)
                except httpx.TransportError:
                    return  # it is dead
                assert answer.status_code in (200, 202), answer.text
                self.answers[delivery] = answer.json()["message"]
                self.states[delivery] = answer.json()["state"]
                heard()

        async with httpx.AsyncClient(timeout=30.0) as client, trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(some, client)


def _home(folder: Path) -> tuple[ThrowawayHome, int]:
    home, port = ThrowawayHome(folder, ""), free_port()
    config = home.path / "config.toml"
    config.unlink()
    initialise(home.path, user_id="ann")
    tell(home.path)
    config.write_text(f'{config.read_text()}\n[api]\nlisten = "127.0.0.1:{port}"\n')
    return home, port


def _hook(home: ThrowawayHome) -> str:
    client = Client(home.socket)
    try:
        client.call("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
        secret: str = client.call("POST", "/v1/hooks", {"name": "ci", "to": PATH, "scheme": "github"})["secret"]
        return secret
    finally:
        client.close()


def _hook_now(home: ThrowawayHome) -> dict[str, Any]:
    client = Client(home.socket)
    try:
        return client.call("GET", "/v1/hook", name="ci")
    finally:
        client.close()
