"""A real daemon is killed while it listens, again and again; then the provider's book is compared with its own."""

import hashlib
import random
from collections import Counter
from typing import Any

import apsw
import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome, client_of
from daycare.testing.http_server import HttpRequest
from daycare.testing.model_server import ScriptedAnswer, last_user_text
from daycare.testing.openai_audio import tone
from daycare.testing.openai_server import FakeOpenAI

USER = "me"
PATHS = (f"/{USER}/direct", f"/{USER}/agent/a", f"/{USER}/agent/b")
HEARING_S = (0.02, 0.25)  # how long the provider listens: time for a kill
QUIET_S = 120.0
CALLS = 16  # a kill comes at one of so many calls after a start: time for turns, or one that dies each time is parked
_CONFIG = """\
[models]
default = "box/fake-small"

[providers.box]
base_url = "{base_url}"
models."fake-small" = {{ context = 64000, output = 512, input_usd = 1.0, output_usd = 1.0 }}
models."whisper" = {{ input_usd = 100.0, output_usd = 0.0 }}

[voice.hearing]
provider = "box/whisper"
at_once = 3

[budgets]
operator = ["1000usd a day"]

[memory.ingestion]
background = false
"""


class Ears(FakeOpenAI):
    """The provider. `book` says how often each note was heard, by its hash; `asked` wakes whoever wants to kill."""

    def __init__(self, port: int = 0, **options: Any) -> None:
        super().__init__(port, reply=lambda body: ScriptedAnswer(text=f"ack {last_user_text(body)[:200]}"))
        self.rng = random.Random(0)
        self.book: Counter[str] = Counter()
        self.texts: dict[str, str] = {}
        self.asked = trio.Event()
        self.hear = lambda upload: self.texts[_name(upload.content)]

    def _choose(self, request: HttpRequest) -> tuple[dict[str, Any], ScriptedAnswer]:
        body, answer = super()._choose(request)
        if request.path.endswith("/transcriptions"):
            self.book[_name(request.params().uploads["file"].content)] += 1
            self.asked.set()
            self.asked = trio.Event()
            answer = ScriptedAnswer(raw=answer.raw, headers=answer.headers, delay_s=self.rng.uniform(*HEARING_S))
        return body, answer

    def told(self, number: int) -> bytes:
        """Return a note that nobody else has sent, and remember what is said in it."""
        data = tone("x", "wav") + number.to_bytes(4, "big")
        self.texts[_name(data)] = f"note number {number}."
        return data


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Speakers:
    """Send notes to three agents, each again with the same key until it is acknowledged."""

    def __init__(self, home: ThrowawayHome, ears: Ears, rng: random.Random) -> None:
        self._home, self._ears, self._rng = home, ears, rng
        self.sent: dict[int, str] = {}
        self.acknowledged: set[int] = set()

    async def begin(self) -> None:
        """Let the agents come into being."""
        async with client_of(self._home.socket) as client:
            for path in PATHS[1:]:
                (await client.post("/v1/agents", json={"path": path})).raise_for_status()

    async def run(self) -> None:
        """Speak on, whether anybody listens or not."""
        number = 0
        while True:
            number += 1
            self.sent[number] = path = self._rng.choice(PATHS)
            data = self._ears.told(number)
            while number not in self.acknowledged:
                try:
                    await self._send(number, path, data)
                except (httpx.HTTPError, OSError):
                    await trio.sleep(0.05)
            await trio.sleep(self._rng.uniform(0.0, 0.1))

    async def _send(self, number: int, path: str, data: bytes) -> None:
        async with client_of(self._home.socket) as client:
            query = {"name": f"note-{number}.wav", "type": "audio/wav", "key": f"note-{number}"}
            file = (await client.post("/v1/files", params=query, content=data)).raise_for_status().json()
            body = {"text": "", "files": [file["id"]], "path": path, "key": f"note-{number}"}
            (await client.post("/v1/messages", json=body)).raise_for_status()
        self.acknowledged.add(number)


async def kills(home: ThrowawayHome, ears: Ears, count: int, seed: int) -> dict[str, Any]:
    """Kill `count` daemons while they listen; return what was found."""
    rng = random.Random(seed)
    ears.rng = random.Random(seed + 1)
    (home.path / "config.toml").write_text(_CONFIG.format(base_url=ears.base_url))
    people = Speakers(home, ears, rng)
    process = DaemonProcess(home)
    await process.ready()
    await people.begin()
    while_hearing = 0
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(people.run)
            for _ in range(count):
                with trio.move_on_after(10):
                    for _ in range(rng.randint(1, CALLS)):
                        await ears.asked.wait()
                    while_hearing += 1
                await trio.sleep(rng.uniform(0.0, HEARING_S[1]))
                await process.kill()
                process = DaemonProcess(home)
                await process.ready()
            nursery.cancel_scope.cancel()
        await _rest(home, len(people.acknowledged))
    finally:
        await process.kill()
    return _judged(home, ears, people) | {"kills": count, "while_hearing": while_hearing, "seed": seed}


async def _rest(home: ThrowawayHome, notes: int) -> None:
    """Wait until nothing waits any more."""
    with trio.fail_after(QUIET_S):
        while _number(home, "SELECT count(*) FROM inbox WHERE state = 0") > 0:
            await trio.sleep(0.1)


def _number(home: ThrowawayHome, sql: str) -> int:
    db = apsw.Connection(str(home.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5_000)
        [row] = db.execute(sql).fetchall()
        return int(str(row[0] or 0))
    finally:
        db.close()


def _judged(home: ThrowawayHome, ears: Ears, people: Speakers) -> dict[str, Any]:
    """Compare: each note was read once and answered once, and each that was heard is charged once."""
    db = apsw.Connection(str(home.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        said = Counter(
            part["text"].strip()
            for (messages,) in db.execute("SELECT unpacked(messages) FROM history")
            for message in _decoded(str(messages))
            if message["role"] == "user"
            for part in message["parts"]
            if part["type"] == "text"
        )
        answers = Counter(str(text) for (text,) in db.execute("SELECT text FROM outbox"))
        rows = dict(db.execute("SELECT key, count(*) FROM inbox WHERE key LIKE 'note-%' AND state = 1 GROUP BY 1"))
        dead = Counter(str(code) for (code,) in db.execute("SELECT code FROM dead_letters"))
        kept = int(str(db.execute("SELECT count(*) FROM files WHERE key LIKE 'text:%'").fetchall()[0][0]))
        of_hearing = "FROM spending WHERE model = 'whisper' AND length(key) = 10"
        [spent] = db.execute(f"SELECT coalesce(sum(calls), 0), coalesce(sum(unsettled), 0) {of_hearing}").fetchall()
        charged, unsettled = (int(str(each)) for each in spent)
        [[reserved]] = db.execute("SELECT count(*) FROM reservations").fetchall()
    finally:
        db.close()
    notes = {number for number in people.sent if number in people.acknowledged or f"note-{number}" in rows}
    texts = {f"note number {number}." for number in notes}
    made = sum(ears.book.values())
    return {
        "notes": len(notes),
        "calls": made,
        "charged": charged,
        "uncertain": unsettled,
        "lost": sum(said[text] == 0 for text in texts),
        "doubled": sum(said[text] > 1 for text in texts),
        "unanswered": sum(f"note-{number}" not in rows for number in notes),
        "answers_twice": sum(times > 1 for text, times in answers.items() if text.startswith("ack")),
        "charged_wrong": int(charged != kept or kept != len(notes)),
        "uncounted": max(0, made - charged - unsettled),
        "reserved": reserved,
        "dead": dict(dead),
        "heard_most": max(ears.book.values(), default=0),
    }


def _decoded(text: str) -> list[dict[str, Any]]:
    import msgspec

    found: list[dict[str, Any]] = msgspec.json.decode(text)
    return found


BROKEN = ("lost", "doubled", "unanswered", "answers_twice", "charged_wrong", "uncounted", "reserved")
