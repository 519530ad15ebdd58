"""What a bridge does wrong costs no message and nobody else anything."""

import os
import resource
import signal
import sys
from pathlib import Path

import pytest
import trio

from daycare.testing.scripted import Scripted, say
from daycare_plugins.bridge import keeper
from tests.bridge.helpers import bridged, health, is_up, staged, until
from tests.telegram.test_house import _echo

OVERTAKES = """
import json, os, pathlib, sys

def said(*frames):
    os.write(1, "".join(json.dumps(frame) + "\\n" for frame in frames).encode())

def answered(frame, state):
    return {"type": "result", "id": frame["id"], "state": state}

said({"type": "hello", "version": 1, "name": "says"}, {"type": "state", "state": "connected"})
pings = 0
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "ping":
        pings += 1
        if pings < 3:
            said(answered(frame, "connected"))
        elif pings == 3:
            said(answered(frame, "connected"), {"type": "state", "state": "logged_out"})
        else:
            said(answered(frame, "logged_out"))
        if pings == 6:
            pathlib.Path(__file__).with_name("pings").touch()
    elif frame["type"] == "stop":
        break
"""


@pytest.mark.parametrize("point", ["spooled", "offered", "acknowledged", "sending", "sent", "answering"])
async def test_a_death_at_any_point_loses_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    async with staged(tmp_path, Scripted(_echo)) as (house, there):
        await until(lambda: is_up(house))
        there.order("die_at", point=point)
        there.say("ann", "m1")
        await until(lambda: any("m1" in text for text in there.texts("ann")))
        there.say("ann", "m2")
        await until(lambda: any("m2" in text for text in there.texts("ann")))
        await until(lambda: there.connections >= 2 and not there.waiting)
        words = " ".join(there.texts("ann"))
        assert words.count("m1") == words.count("m2") == 1
        once = [event for event in house.events("message.accepted") if not event.get("duplicate")]
        assert len(once) == 2


async def test_garbage_is_passed_over_and_a_long_line_costs_no_memory(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo), deaf_s=60) as (house, there):
        await until(lambda: is_up(house))
        there.order("garbage", lines=1_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        there.order("long", bytes=1 << 28)
        there.order("garbage", lines=10)
        there.say("ann", "m1")
        await until(lambda: there.texts("ann") == ["m1"], 60)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024
        assert there.connections == 1


async def test_a_bridge_that_says_nothing_is_not_called_connected_and_started_anew(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo), deaf_s=1.0) as (house, there):
        await until(lambda: is_up(house))
        there.order("mute")
        await until(lambda: health(house)["state"] == "stalled")
        there.say("ann", "m1")
        await until(lambda: there.texts("ann") == ["m1"])
        assert there.connections == 2


async def test_a_frozen_bridge_is_killed_and_its_message_offered_again(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo), deaf_s=1.0) as (house, there):
        await until(lambda: is_up(house))
        await there.connected.wait()
        frozen = there.bridge_pid
        there.order("stop")
        there.say("ann", "m1")
        await until(lambda: any("m1" in text for text in there.texts("ann")))
        await until(lambda: there.connections == 2)
        assert len(there.texts("ann")) == 1  # perhaps with a mark: it may have been about to be sent
        with pytest.raises(ProcessLookupError):
            os.kill(frozen, 0)


async def test_one_that_only_fails_is_left_alone_and_the_operator_is_told(tmp_path: Path) -> None:
    async with bridged(tmp_path, Scripted(), [sys.executable, "-c", "raise SystemExit(3)"], exits_max=3) as house:
        await until(lambda: health(house)["state"] == "refused")
        assert "left alone" in health(house)["reason"]
        await until(lambda: house.events("notice"))
        assert "The connection fake does not work" in str(house.events("notice")[0]["text"])
        told = [event for event in house.events("connector.health") if event.get("alert")]
        assert len(told) == 1


async def test_one_that_was_left_alone_is_tried_once_in_a_while_and_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "ALONE_S", 0.3)
    script = "open('lives', 'a').write('x'); raise SystemExit(3)"
    lives = tmp_path / "plugins" / "bridge" / "fake" / "lives"
    async with bridged(tmp_path, Scripted(), [sys.executable, "-c", script], exits_max=2) as house:
        await until(lambda: lives.exists() and len(lives.read_text()) >= 5)
        health_told = house.events("connector.health")
        assert sum(bool(event.get("alert")) for event in health_told) == 1
        between = [event["state"] for event in health_told if event["state"] == "away"]
        assert len(between) == 1  # only before it was left alone for the first time


async def test_a_command_that_is_not_there_is_told_with_its_reason(tmp_path: Path) -> None:
    async with bridged(tmp_path, Scripted(), ["/no/such/bridge"], exits_max=2) as house:
        await until(lambda: health(house)["state"] == "refused")
        assert "cannot be started" in health(house)["reason"]


async def test_an_account_that_was_taken_away_is_left_alone_until_somebody_pairs(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo)) as (house, there):
        await until(lambda: is_up(house))
        there.order("state", state="replaced", reason="another program")
        await until(lambda: health(house)["state"] == "conflict")
        await trio.sleep(0.5)
        assert there.connections == 1
        assert "daycare bridge login fake" in health(house)["hint"]
        there.connected = trio.Event()
        connector = house.daemon.connectors["fake"]
        found = await connector.pair("")  # type: ignore[attr-defined]
        assert (found.state, found.qr) == ("pairing", "2@fake-code")
        await until(lambda: there.connections == 2)


async def test_a_state_that_follows_an_answer_at_once_holds(tmp_path: Path) -> None:
    """Both come in one piece; the answer is the older one, and nobody is told that all is well again."""
    script = tmp_path / "says.py"
    script.write_text(OVERTAKES)
    async with bridged(tmp_path, Scripted(), [sys.executable, str(script)]) as house:
        await until(lambda: (tmp_path / "pings").exists())
        assert health(house)["state"] == "refused"
        told = [event["state"] for event in house.events("connector.health") if event["connector"] == "fake"]
    assert told.count("refused") == 1 and "up" not in told[told.index("refused") :]


async def test_one_restart_follows_when_it_is_asked_for(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo)) as (house, there):
        await until(lambda: is_up(house))
        there.order("state", state="restart_required")
        await until(lambda: there.connections == 2 and is_up(house))


async def test_replies_wait_while_the_platform_is_away(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(say("later"))
    async with staged(tmp_path, model) as (house, there):
        await until(lambda: is_up(house))
        there.order("state", state="unreachable", reason="no network")
        await until(lambda: health(house)["state"] == "away")
        there.say("ann", "hi")
        await until(lambda: house.events("turn.finished"))
        await trio.sleep(0.3)
        assert not there.texts()
        assert await house.store.outbox.count() == 1
        there.order("state", state="connected")
        await until(lambda: there.texts("ann") == ["later"], 40)
        assert not there.sent[0].mark  # it was surely not sent before


async def test_secrets_are_given_by_name_and_nothing_else_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-bridges")
    script = "import os, json; open('env', 'w').write(json.dumps(dict(os.environ)))"
    async with bridged(tmp_path, Scripted(), [sys.executable, "-c", script], secrets={"TOKEN": "bridge.fake"}) as house:
        await until(lambda: "no secret bridge.fake" in health(house)["reason"])
        await house.store.secrets.put("bridge.fake", "ann", house.daemon.vault.seal("s3cr3t-token"))
        seen = tmp_path / "plugins" / "bridge" / "fake" / "env"
        await until(seen.exists)
        await until(lambda: "TOKEN" in seen.read_text())
    import json

    found = json.loads(seen.read_text())
    assert found["TOKEN"] == "s3cr3t-token"
    assert found["HOME"] == str(seen.parent)
    assert not found.keys() - {"TOKEN", "HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PWD", "SHLVL", "_"}


async def test_a_bridge_left_by_a_killed_daemon_is_ended(tmp_path: Path) -> None:
    import subprocess

    from daycare_plugins.bridge.folder import BridgeFolder

    folder = BridgeFolder(tmp_path / "b")
    folder.prepare()
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        folder.started(left.pid)
        os.kill(left.pid, signal.SIGSTOP)
        assert folder.sweep() == left.pid
        os.waitid(os.P_PID, left.pid, os.WEXITED | os.WNOWAIT)
        assert folder.sweep() is None, "one that has ended is not there, though nobody has asked how it ended"
        assert left.wait(5) == -signal.SIGKILL
        assert folder.sweep() is None
    finally:
        left.kill()
