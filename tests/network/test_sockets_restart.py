"""A daemon that is killed, or stopped, with clients attached: they go on where they were."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon
from tests import program
from tests.network.conftest import Network, free_port
from tests.network.talking import Talking, talk
from tests.network.test_deciding import asked
from tests.stored import tell

START_S = 60.0


@pytest.fixture
def stopped(tmp_path: Path) -> Network:
    """A home that nobody runs, whose agent has asked for something; with a token for Ann."""
    home, port = tmp_path / "home", free_port()
    home.mkdir(mode=0o700)
    initialise(home, user_id="ann")
    tell(home)
    config = home / "config.toml"
    config.write_text(config.read_text() + f'\n[api]\nlisten = "127.0.0.1:{port}"\n')
    with EmbeddedDaemon(home, work=True) as daemon:
        network = Network(home, port, daemon)
        network.add("ann")
        asked(network, "/ann/direct")
    return network


def start(network: Network) -> program.Started:
    return program.start(["run"], env=os.environ | {"DAYCARE_HOME": str(network.home)})


async def until_it_listens(network: Network) -> None:
    with trio.fail_after(START_S):
        while True:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", network.port)).aclose()
            except OSError:
                await trio.sleep(0.05)
            else:
                return


async def say_hello(client: Talking) -> int:
    """Talk, and return the cursor behind the end of the turn."""
    await client.say("chat.send", id="c", text="hello")
    while (found := (await client.events(1))[-1])["event"]["event"] != "turn.finished":
        pass
    cursor: int = found["cursor"]
    return cursor


async def test_after_a_kill_clients_go_on_behind_their_cursor_and_see_again_what_waits(stopped: Network) -> None:
    with start(stopped) as daemon:
        await until_it_listens(stopped)
        async with talk(stopped, "ann") as client:
            assert (await client.hears("memory_edit_request"))["request_id"] == "mem_1"
            await client.asked("subscribe", id="s", types=["turn.finished"])
            cursor = await say_hello(client)
            daemon.kill()
            assert (await client.closed())[0] == 1006
        await trio.to_thread.run_sync(partial(daemon.wait, 10))
    with start(stopped) as daemon:
        await until_it_listens(stopped)
        async with talk(stopped, "ann") as client, talk(stopped, "ann") as other:
            for each in (client, other):
                assert (await each.hears("memory_edit_request"))["request_id"] == "mem_1"
                assert (await each.hears("memory_edit_pending"))["request_ids"] == ["mem_1"]
            await client.asked("subscribe", id="s", types=["turn.finished"], after=cursor)
            assert (await client.hears("gap"))["missed"] == 0, "what a run before said is not counted"
            assert await say_hello(client) > cursor
            await client.say("memory_edit_decision", request_id="mem_1", decision="approve")
            for each in (client, other):
                assert (await each.hears("memory_edit_complete"))["success"] is True
            daemon.send_signal(signal.SIGTERM)
            assert (await client.closed())[0] == (await other.closed())[0] == 1001
        assert await trio.to_thread.run_sync(partial(daemon.wait, 30)) == 0
