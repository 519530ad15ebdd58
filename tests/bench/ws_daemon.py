"""A daemon in a process of its own that publishes events at a steady rate: `python -m tests.bench.ws_daemon HOME ...`.

It says where it listens, and with which token; after a line on its standard input it publishes, and says the last
cursor.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import trio

from daycare.api.client import Client
from daycare.base.events import TurnDelta
from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon

from .measure import rss_kib

_EVERY_S: Final = 0.02
_AGENTS: Final = 50
_TEXT: Final = "a few words, as a model says them. " * 3


def main(home: Path, port: int, rate: float, seconds: float) -> None:
    """Serve until standard input ends."""
    home.mkdir(mode=0o700)
    initialise(home, user_id="ann")
    config = home / "config.toml"
    config.write_text(config.read_text() + f'\n[api]\nlisten = "127.0.0.1:{port}"\n')
    with EmbeddedDaemon(home, work=True) as embedded:
        client = Client(home / "daycare.sock")
        tokens = [
            client.call("POST", "/v1/tokens", {"name": f"bench-{number}", "may": "operator"})["token"]
            for number in range(2)
        ]
        client.close()
        _say(tokens=tokens, pid_rss_kib=rss_kib())
        sys.stdin.readline()
        daemon: Any = embedded._daemon
        before = rss_kib()
        last = trio.from_thread.run(_publish, daemon.bus, rate, seconds, trio_token=embedded._token)
        _say(last=last, rss_kib_sockets=before, rss_kib_end=rss_kib())
        sys.stdin.readline()


async def _publish(bus: Any, rate: float, seconds: float) -> int:
    """Publish events evenly; return the cursor of the last."""
    begin, sent = trio.current_time(), 0
    while sent < rate * seconds:
        await trio.sleep_until(begin + sent / rate + _EVERY_S)
        due = min(round((trio.current_time() - begin) * rate), round(rate * seconds))
        now_ms = time.time_ns() // 1_000_000
        for number in range(sent, due):
            path = f"/ann/agent/a{number % _AGENTS}"
            bus.publish(TurnDelta(at_ms=now_ms, path=path, user="ann", agent_id="bench", turn=1, text=_TEXT))
        sent = due
    cursor: int = bus.cursor
    return cursor


def _say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
