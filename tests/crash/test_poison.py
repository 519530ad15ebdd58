"""A message that kills the process: it becomes a dead letter, and the others that were at work are answered."""

from pathlib import Path
from typing import Any

import apsw
import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, client_of
from tests.crash.campaign import USER
from tests.crash.poison import DEADLY
from tests.crash.process import Home

INNOCENTS = 12
DEATHS_MAX = 20
QUIET_S = 60.0


async def _say(client: httpx.AsyncClient, path: str, text: str) -> int:
    answer = await client.post("/v1/messages", json={"path": path, "text": text, "key": f"{path} {text}"})
    assert answer.status_code == 202, answer.text
    return int(answer.json()["seq"])


def _states(file: Path, seqs: list[int]) -> dict[int, tuple[int, str | None]]:
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(10_000)  # a start after a crash locks it for a moment
    try:
        rows: Any = db.execute("SELECT seq, state, unpacked(result) FROM inbox WHERE state > 0").fetchall()
    finally:
        db.close()
    return {seq: (state, result) for seq, state, result in rows if seq in seqs}


async def _settled(home: Home, process: DaemonProcess, seqs: list[int]) -> bool:
    """Wait until everything has ended; False if the process died first."""
    with trio.fail_after(QUIET_S):
        while not await process.died(0.1):
            if len(_states(home.database, seqs)) == len(seqs):
                return True
        return False


def test_twelve_conversations_survive_a_message_that_kills_the_process() -> None:
    async def main() -> None:
        home = Home("poison")
        process = DaemonProcess(home)
        try:
            await process.ready()
            paths = [f"/{USER}/agent/a{number}" for number in range(INNOCENTS + 1)]
            deadly = paths.pop(INNOCENTS // 2)
            async with client_of(home.socket) as client:
                for path in (*paths, deadly):
                    answer = await client.post("/v1/agents", json={"path": path})
                    assert answer.status_code == 201, answer.text
                seqs = [await _say(client, path, "hello") for path in paths]
                poison = await _say(client, deadly, f"some {DEADLY}, please")
            deaths = 0
            while not await _settled(home, process, [*seqs, poison]):
                deaths += 1
                assert deaths < DEATHS_MAX
                await process.kill()
                process = DaemonProcess(home)
            await process.stop()
            states = _states(home.database, [*seqs, poison])
            assert [states[seq] for seq in seqs] == [(1, "fine")] * INNOCENTS
            assert states[poison][0] == 2
            db = apsw.Connection(str(home.database))
            [(code, reason)] = db.execute("SELECT code, reason FROM dead_letters").fetchall()
            db.close()
            assert code == "TURN_POISON"
            assert f"of {deadly} alone was at work" in str(reason)
        finally:
            await process.kill()
            home.remove()

    trio.run(main)
