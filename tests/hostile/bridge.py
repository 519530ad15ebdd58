"""Lines of a bridge: a real process says what the protocol allows, changed, cut, or nothing of the kind."""

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec
import trio

from daycare.base import bridge
from daycare.base.secrecy import without_secrets
from daycare.testing.daemon import TestDaemon
from daycare_plugins.bridge import reading, session
from tests.bridge.helpers import QUICK
from tests.hostile import texts, values
from tests.hostile.accounts import Accounts, accounts, logged
from tests.hostile.messages import echo
from tests.hostile.stage import PEOPLE, Streaming, count, opened
from tests.hostile.trial import Prepared, Trial

NAME: Final = "fake"
DEADLINE_S: Final = 60.0
SENDERS: Final = tuple(f"s{number}" for number in range(400))


class Bridge(Prepared):
    """See the module. After every sixty-four lines the bridge says something right, and waits until that is taken."""

    name = "bridge"
    chunk = 300
    virtual = False

    async def play(self, trial: Trial, folder: Path) -> None:
        """Let the process say all of it, and wait until it says that it is done."""
        numbers = f"{trial.numbers[0]}-{trial.numbers[-1]}"
        command = [sys.executable, "-m", "tests.hostile.bridge", str(trial.seed), numbers, str(folder / "done")]
        here = {"PYTHONPATH": str(Path(__file__).parents[2])}
        own = {"command": command, **QUICK, "exits_max": 0, "environment": here}

        async def prepare(house: Any) -> None:
            for number, sender in enumerate(SENDERS):
                await house.store.people.link(f"{NAME}:{sender}", PEOPLE[number % len(PEOPLE)])

        settings = {"bridge": {"to": {NAME: own}}}
        with patch.object(session, "LINES_A_MINUTE", 1_000_000), accounts() as kept:  # each line is to be accounted for
            await self._play(trial, folder, settings, prepare, kept)

    async def _play(self, trial: Trial, folder: Path, settings: Any, prepare: Any, kept: Accounts) -> None:
        async with opened(trial, folder, Streaming(echo), settings=settings, prepare=prepare) as house:
            with trio.move_on_after(DEADLINE_S) as late:
                while not (folder / "done").exists():
                    await trio.sleep(0.05)
                while count(house, "SELECT count(*) FROM inbox WHERE state = 0"):
                    await trio.sleep(0.05)
            if late.cancelled_caught:
                trial.harm("no end", f"after {DEADLINE_S:g} s not all lines were taken, or not all messages answered")
                return
            states = {str(row[0]): row[1] for row in house.store._reader.execute("SELECT key, state FROM inbox")}
            acknowledged = set((folder / "plugins" / "bridge" / NAME / "acknowledged").read_text().split("\n"))
            garbage = logged(folder, "bridge_garbage", "line")
            for number in trial.numbers:
                found = [state for key, state in states.items() if key.endswith(f"n{number}")]
                said = _said(line(trial.draw(number), number), house, kept, acknowledged, garbage)
                if not said:
                    trial.harm("vanished", self.shown(trial.draw(number)), number)
                trial.end(
                    number, "refused" if not found else "answered" if found[0] == 1 else "dead", "" if found else said
                )

    def shown(self, rng: Random) -> str:
        """Return its line."""
        return repr(line(rng, 0)[:400])


def line(rng: Random, number: int) -> bytes:
    """Return a line that a bridge says."""
    choice = rng.random()
    if choice < 0.04:
        return rng.randbytes(rng.choice((1, 100, 10_000))).replace(b"\n", b"")
    if choice < 0.05:
        return b'{"type":"message","text":"' + b"x" * rng.choice((1_048_560, 1_100_000)) + b'"}'
    found = _frame(rng, f"n{number}")
    if rng.random() < 0.5:
        found = values.mutated(rng, found, rng.choice((0.03, 0.1, 0.3)))
        if isinstance(found, dict) and found.get("type") in ("stop", "replaced", "logged_out"):
            found["type"] = "state"
    if isinstance(found, dict) and found.get("state") in (bridge.LOGGED_OUT, bridge.REPLACED, bridge.RESTART_REQUIRED):
        found["state"] = bridge.UNREACHABLE  # else it is ended, or not started again: rightly
    return values.body(rng, found).replace(b"\n", b" ").replace(b"\r", b" ")


def _said(data: bytes, house: TestDaemon, kept: Accounts, acknowledged: set[str], garbage: Counter[str]) -> str:
    """Return what the daemon said of a line, empty for nothing. `garbage` is what its log holds of others."""
    if not data.strip():
        return "ignored: it is empty"
    if len(data) > bridge.LINE_MAX_BYTES:
        return _garbage(garbage, f"a line of more than {bridge.LINE_MAX_BYTES} bytes")
    try:
        frame = bridge.from_bridge(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _garbage(garbage, str(error)[: session.REASON_MAX_CHARS])
    if isinstance(frame, bridge.Hello):
        return _garbage(garbage, "a second hello")
    if not isinstance(frame, bridge.Inward):
        return f"of the bridge itself: {frame.__struct_config__.tag}"
    if json.dumps(frame.id) not in acknowledged:
        return ""
    if isinstance(frame, bridge.Moved):
        return "a chat has moved"
    if not isinstance(frame, bridge.Unread) and frame.chat and not _is_meant(frame):
        return kept.said(house, reading.key_of(frame.id)) or "ignored: said to others in a group"
    return kept.said(house, reading.key_of(frame.id))


def _is_meant(frame: bridge.Said | bridge.Reacted | bridge.Deleted) -> bool:
    """Return whether we are meant in a group, as far as the protocol tells that."""
    return (isinstance(frame, bridge.Said) and frame.addressed) or (isinstance(frame, bridge.Reacted) and frame.to_us)


def _garbage(garbage: Counter[str], words: str) -> str:
    """Take one line from the log's, if there is one with these words, as far as the log says them."""
    words = without_secrets(words)
    garbage[words] -= 1
    return "garbage" if garbage[words] >= 0 else ""


def _frame(rng: Random, id_: str) -> dict[str, Any]:
    sender = rng.choice(SENDERS) if rng.random() < 0.9 else texts.short(rng)
    kind = rng.choice(
        ("message",) * 20
        + ("reaction", "deletion", "unreadable", "moved", "state", "qr", "code", "result", "error", "log", "hello", "x")
    )
    frames: dict[str, dict[str, Any]] = {
        "message": {
            "id": id_,
            "sender": sender,
            "name": texts.short(rng),
            "text": texts.text(rng),
            "message": "m1",
            **(
                {"chat": rng.choice(("c1", texts.short(rng))), "chat_name": "C", "addressed": rng.random() < 0.7}
                if rng.random() < 0.1
                else {}
            ),
            **(
                {"quoted": texts.text(rng), "quoted_by": texts.short(rng), "forwarded": rng.random() < 0.5}
                if rng.random() < 0.2
                else {}
            ),
            **(
                {"edits": f"n{rng.randrange(50)}", "replies_to": texts.short(rng), "album": "a"}
                if rng.random() < 0.1
                else {}
            ),
            **({"files": [_file(rng) for _ in range(rng.choice((1, 2, 30)))]} if rng.random() < 0.15 else {}),
            **(
                {"at_ms": rng.choice((0, -1, 2**62, 2**63, 253_402_300_800_000, 1.5, "now"))}
                if rng.random() < 0.1
                else {}
            ),
        },
        "reaction": {
            "id": id_,
            "sender": sender,
            "message": "m1",
            "emoji": rng.choice((*texts.EMOJI, "", "x" * 500)),
            "at_ms": rng.choice((0, 2**62)),
        },
        "deletion": {"id": id_, "sender": sender, "message": texts.short(rng)},
        "unreadable": {"id": id_, "reason": texts.text(rng), "body": texts.text(rng)},
        "moved": {"id": id_, "old": texts.short(rng), "new": texts.short(rng)},
        "state": {
            "state": rng.choice(("connected", "connecting", "unreachable", "pairing", texts.short(rng))),
            "reason": texts.text(rng),
            "hint": texts.short(rng),
            "identity": texts.short(rng),
            "retry_in_s": rng.choice((1, -1, 1e308, 0.5, None)),
        },
        "qr": {"data": texts.text(rng), "expires_in_s": rng.choice((60, -1, 1e308))},
        "code": {"code": texts.text(rng), "expires_in_s": rng.choice((60, -1, 1e308))},
        "result": {
            "id": f"r{rng.randrange(2_000)}",
            "receipt": texts.text(rng),
            "path": texts.short(rng),
            "state": texts.short(rng),
        },
        "error": {
            "id": f"r{rng.randrange(2_000)}",
            "code": rng.choice(("busy", "away", "not_sent", "unknown", texts.short(rng))),
            "message": texts.text(rng),
            "retry_after_s": rng.choice((1, -1, 1e308, 0.0, None, 10**9)),
        },
        "log": {"text": texts.text(rng), "level": rng.choice(("debug", "info", "warning", "error", "x"))},
        "hello": {"version": rng.choice((1, 2)), "name": "x"},
        "x": {"id": id_},
    }
    return {"type": kind, **frames[kind]}


def _file(rng: Random) -> dict[str, Any]:
    path = rng.choice(("in/a", "../../../etc/passwd", "/etc/passwd", "in/../../x", "", texts.short(rng)))
    return {
        "name": texts.short(rng), "media_type": rng.choice(("text/plain", "image/png", texts.short(rng))), "path": path,
        "size": rng.choice((0, 5, -1, 2**31, 2**62, 2**63 - 1)), "reference": rng.choice(("", "r", texts.short(rng))),
        "key": rng.choice(("", "k", texts.short(rng))),
    }  # fmt: skip


# == the process =======================================================================================================


def main() -> None:
    """Be a bridge: say all lines, those of an earlier life left out, with something right between."""
    from tests.hostile.trial import drawn

    seed, numbers, done = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    first, last = (int(word) for word in numbers.split("-"))
    at_file, acknowledged = Path("at"), Path("acknowledged")
    at = int(at_file.read_text()) if at_file.exists() else first
    out = sys.stdout.buffer

    def say(data: bytes) -> None:
        out.write(data + b"\n")
        out.flush()

    say(
        json.dumps(
            {
                "type": "hello",
                "version": 1,
                "name": "liar",
                "capabilities": ["edits", "typing", "files", "fetch", "previews", "reactions", "deletions"],
            }
        ).encode()
    )
    say(b'{"type":"state","state":"connected"}')
    life = f"{at}.{len(list(Path().glob('life*')))}"
    Path(f"life{life}").touch()
    frames = iter(sys.stdin.buffer.readline, b"")
    pending = ""
    while at <= last or pending:
        if not pending:
            for number in range(at, min(at + 64, last + 1)):
                say(line(drawn("bridge", seed, number), number))
            at = min(at + 64, last + 1)
            at_file.write_text(str(at))
            pending = f"right-{life}-{at}"
            say(b'{"type":"state","state":"connected"}')
            say(
                json.dumps(
                    {"type": "message", "id": pending, "sender": f"s{at % 400}", "text": "are you there?"}
                ).encode()
            )
        if pending == _read(next(frames, b""), say, pending, acknowledged):
            pending = ""
    done.touch()
    while data := next(frames, b""):
        _read(data, say, "", acknowledged)


def _read(data: bytes, say: Any, pending: str, acknowledged: Path) -> str:
    if not data:
        sys.exit(0)
    frame = json.loads(data)
    if frame["type"] == "stop":
        sys.exit(0)
    if frame["type"] == "ack":
        with acknowledged.open("a") as file:
            file.writelines(f"{json.dumps(id_)}\n" for id_ in frame["ids"])
        return pending if pending in frame["ids"] else ""
    if frame["type"] == "ping":
        say(json.dumps({"type": "result", "id": frame["id"], "state": "connected"}).encode())
    elif "id" in frame:
        say(json.dumps({"type": "result", "id": frame["id"], "receipt": "r1"}).encode())
    return "-"


if __name__ == "__main__":
    main()
