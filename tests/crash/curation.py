"""Kills around memory curation: what was said is logged once, learned from once, and expires only after that.

Four people talk to two agents each, whose model is a server in the campaign's process. Each message has a parcel and a
number of its own, which the model (and the rules, where it answers nonsense) makes facts of. Whenever the daemon is
dead, a copy of its store is compared with what earlier copies had.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, client_of
from daycare.testing.model_server import ScriptedAnswer, last_user_text, said
from daycare.testing.openai_server import FakeOpenAI
from tests.crash.campaign import QUIET_DEADLINE_S, Campaign, Delay, Killer, When
from tests.crash.curated import FRIEND, Watch, remembered, word_of
from tests.crash.figures import Figures
from tests.crash.judge import Verdict
from tests.crash.ledger import Ledger, Sent
from tests.crash.load import RETRY_S, SENDERS, Crowd
from tests.crash.process import Home

PEOPLE = ("Sam", "Kim", "Ada", "Leo")  # two senders each, each with an agent of their own
CHAT_S = 0.004
DISTIL_S = (0.01, 0.15)  # how long the model thinks about what was said: time for more to be said, and for a kill
NONSENSE_SHARE = 0.12  # of these answers: the rules do the work
ANEW_SHARE = 0.08  # of the messages begin a new conversation, which hands off the old one
PROCESS_SHARE = 0.08  # come after a look that somebody asked for
EXPIRY_SHARE = 0.3  # of the lives keep no log of what was learned from
_WORK_S = 0.9
ASKED_SHARE = 0.65  # of the kills at work come after the model was asked to distil
ANSWERED_SHARE = 0.6  # ... of those, after it has answered, while what was learned is committed
ANSWERED_S = 0.15  # ... so long after it at most, longer on a machine that is busy with other things:
BUSY_SHARE = 0.15  # of the time that the start took
ASKED_DEADLINE_S = 2.5
_CONFIG = """\
[models]
default = "box/fake-large"

[providers.box]
base_url = "{base_url}"

[plugins]
load = ["daycare.testing.tools:plugin"]

[budgets]
person = []
operator = []

[memory]
embedder = "local"

[memory.ingestion]
daily_logs = {daily_logs}
every_turns = {every_turns}
idle_minutes = 0.1
"""
_ASKED = re.compile(r"\bm (s\d+) (\d+)$", re.MULTILINE)
_TOLD = re.compile(rf"^(\d+) \[[^\]]*\] (\w+): Remember that parcel (X\w+) is for {FRIEND}\. My .*? (\d+)\.", re.M)


def text_of(sent: Sent) -> str:
    """Return what a sender says: something to be remembered, something that holds until the next, and the errand."""
    errand = sent.errand
    number = errand.number * SENDERS + int(errand.sender[1:])
    return f"Remember that parcel {word_of(sent)} is for {FRIEND}. My favourite number is {number}.\n{errand}"


class Model:
    """The model behind the server: it acknowledges what it reads, and distils what it is asked to."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._asked = trio.Event()
        self.delay_s = 0.0  # how long it thinks about what it was asked last
        self.distilled = self.nonsense = 0

    def __call__(self, body: dict[str, Any]) -> ScriptedAnswer:
        """Answer a request."""
        if body.get("response_format"):
            self.distilled += 1
            delay_s = self.delay_s = self._rng.uniform(*DISTIL_S)
            self._asked.set()
            self._asked = trio.Event()
            if self._rng.random() < NONSENSE_SHARE:
                self.nonsense += 1
                return ScriptedAnswer(text="There is little to say.", delay_s=delay_s)
            return ScriptedAnswer(text=json.dumps(distilled(last_user_text(body))), delay_s=delay_s)
        messages = [message for message in body["messages"] if message["role"] in ("user", "assistant")]
        ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        heard = [said(message.get("content")) for message in messages[ends[-1] + 1 if ends else 0 :]]
        names = [found for text in heard for found in _ASKED.findall(text)]
        return ScriptedAnswer(text="\n".join(f"ack m {sender} {number}" for sender, number in names), delay_s=CHAT_S)

    async def asked(self) -> None:
        """Wait until it is asked to distil."""
        await self._asked.wait()


def distilled(text: str) -> dict[str, Any]:
    """Return what there is to know in the lines of a request."""
    facts: list[dict[str, Any]] = []
    entities: list[dict[str, Any]] = []
    for line, speaker, word, number in _TOLD.findall(text):
        plain = {"subject": speaker, "attribute": "", "value": "", "kind": "fact", "confidence": 0.9}
        plain |= {"valid_from": "", "valid_until": "", "sources": [int(line)]}
        facts.append(plain | {"statement": f"Parcel {word} is for {FRIEND}", "kind": "request"})
        favourite = {"statement": f"The favourite number of {speaker} is {number}", "attribute": "favourite number"}
        facts.append(plain | favourite | {"value": number, "kind": "preference"})
        entities.append({"name": word, "kind": "thing", "aliases": [], "description": "", "sources": [int(line)]})
    lines = sorted(fact["sources"][0] for fact in facts[::2])
    if lines:
        friend = {"name": FRIEND, "kind": "person", "aliases": [], "description": "gets parcels", "sources": lines}
        entities.insert(0, friend)
    return {"facts": facts, "entities": entities}


class AtCuration:
    """Kills like another killer does, but of those at work most while the model distils, or just has."""

    def __init__(self, other: Killer, model: Model) -> None:
        self._other = other
        self._model = model
        self._missed = 0

    async def prepare(self, rng: random.Random) -> None:
        """As the other."""
        await self._other.prepare(rng)

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """As the other."""
        return self._other.start(home, rng, when)

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Kill."""
        if when != "work" or not isinstance(self._other, Delay) or rng.random() >= ASKED_SHARE:
            await self._other.strike(process, rng, when)
            return
        await process.ready()
        await trio.sleep(rng.uniform(0.0, _WORK_S))  # not always the first one after the start
        with trio.move_on_after(ASKED_DEADLINE_S) as waiting:
            await self._model.asked()
        self._missed += waiting.cancelled_caught
        answers_s = self._model.delay_s
        if rng.random() < ANSWERED_SHARE:
            await trio.sleep(answers_s + rng.uniform(0.0, ANSWERED_S + BUSY_SHARE * (process.ready_s or 0.0)))
        else:
            await trio.sleep(rng.uniform(0.0, answers_s))
        await process.kill()

    def summary(self) -> dict[str, Any]:
        """Return what the other says, and how often the model was not asked in time."""
        return self._other.summary() | {"not_asked": Counter(kills=self._missed)}


class Households(Crowd):
    """People with two agents each, who now and then begin a new conversation or ask for a look at what was said."""

    def __init__(self, socket: Path, ledger: Ledger, seed: str) -> None:
        super().__init__(socket, ledger, seed, "me", "curation")
        ids = [name.lower() for name in PEOPLE]
        self.paths = [path for user in ids for path in (f"/{user}/direct", f"/{user}/agent/a")]

    async def prepare(self) -> None:
        """Let the people in, and create their agents."""
        async with client_of(self.socket) as client:
            for name in PEOPLE:
                user = name.lower()
                (await client.post("/v1/users", json={"id": user, "name": name})).raise_for_status()
                hello = {"user": user, "path": f"/{user}/direct", "text": "/whoami", "key": "hello"}
                (await client.post("/v1/messages", json=hello)).raise_for_status()
                (await client.post("/v1/agents", json={"path": f"/{user}/agent/a"})).raise_for_status()

    async def _talk(self, sender: str, rng: random.Random) -> None:
        said_so_far: list[Sent] = []
        path = self.paths[int(sender[1:])]
        async with client_of(self.socket) as client:
            while not self._hushed.is_set():
                dice = rng.random()
                if dice < ANEW_SHARE and said_so_far:
                    await self._begin_anew(client, said_so_far[-1])
                elif dice < ANEW_SHARE + PROCESS_SHARE:
                    await self._post(client, "/v1/memories/process", {})
                sent = self._next(sender, len(said_so_far) + 1, [path], rng)
                said_so_far.append(sent)
                await self._say(client, sent, rng.uniform(0.5, 3.0) if rng.random() < 0.3 else None)
                if rng.random() < 0.1:
                    await self._say(client, rng.choice(said_so_far), None)
                with trio.move_on_after(rng.expovariate(1 / self._pause_s)):
                    await self._hushed.wait()
        self._talking -= 1

    async def _begin_anew(self, client: httpx.AsyncClient, last: Sent) -> None:
        """Begin a new conversation once the last message was answered, as a running turn would be stopped."""
        if await self._insist(client, self._body(last) | {"wait_s": 5.0}, (200, 409)):
            await self._insist(
                client, self._body(last) | {"text": "/new", "key": f"new:{last.errand.name}"}, (200, 202)
            )

    async def _insist(self, client: httpx.AsyncClient, body: dict[str, Any], wanted: Sequence[int]) -> bool:
        """Post a message until there is such an answer; False if there is one that is wrong."""
        while (status := await self._post(client, "/v1/messages", body)) not in wanted:
            if status not in (None, 202, 429, 503):
                self.ledger.findings.append(("broken", f"{body}: {status}"))
                return False
            await trio.sleep(RETRY_S)
        return True

    async def _post(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> int | None:
        """Return the status of an answer, None if there is nobody."""
        try:
            return (await client.post(path, json=body)).status_code
        except httpx.TransportError:
            return None

    def _body(self, sent: Sent) -> dict[str, Any]:
        user = sent.path.split("/")[1]
        return {"user": user, "path": sent.path, "text": text_of(sent), "key": sent.key}


class CurationCampaign(Campaign):
    """A campaign with a model server, whose stores are looked into after each kill."""

    def __init__(self, mode: str, kills: int, seed: int, killer: Killer) -> None:
        self._model = Model(random.Random(f"{mode}/{seed}/model"))
        super().__init__(mode, kills, seed, AtCuration(killer, self._model), "curation")
        self._settings = random.Random(f"{mode}/{seed}/settings")
        self._watch = Watch()
        self._base_url = ""

    async def run(self) -> Figures:
        """Serve the model meanwhile."""
        async with FakeOpenAI.serve(reply=self._model) as server:
            self._base_url = server.base_url
            figures = await super().run()
        figures.more |= {
            "at": self._watch.moments,
            "curated": Counter(
                entries=len(self._watch.entries),
                expired=self._watch.expired,
                model_calls=self._model.distilled,
                nonsense=self._model.nonsense,
            ),
        }
        return figures

    def _furnished(self) -> Home:
        home = Home()
        self._configure(home)
        return home

    def _configure(self, home: Home) -> None:
        """Let the next life hand off after some turns, and keep what was looked at, or not."""
        config = _CONFIG.format(
            base_url=self._base_url,
            daily_logs=str(self._settings.random() >= EXPIRY_SHARE).lower(),
            every_turns=self._settings.choice((1, 2, 4)),
        )
        (home.path / "config.toml").write_text(config)

    def _people(self, seed: str) -> Crowd:
        return Households(self.home.socket, self.ledger, seed)

    async def _life(self, when: When) -> None:
        self._configure(self.home)
        await super()._life(when)
        if when != "birth":
            self._watch.look(self.home)

    async def _quiet(self, crowd: Crowd) -> None:
        """Wait until nothing is left to look at, either, for which workers may have to be woken once more."""
        with trio.move_on_after(10 * QUIET_DEADLINE_S):
            async with client_of(self.home.socket) as client:
                while True:
                    await super()._quiet(crowd)
                    answer = await client.post("/v1/memories/process", json={})
                    answer.raise_for_status()
                    if not answer.json()["woken"] and await _embedded(client):
                        return

    def _judge(self) -> Verdict:
        verdict = super()._judge()
        self._watch.look(self.home)
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            verdict.findings += remembered(db, self.ledger, self._watch)
        finally:
            db.close()
        return verdict


async def _embedded(client: httpx.AsyncClient) -> bool:
    """Return whether each memory has a vector."""
    answer = await client.get("/v1/status")
    answer.raise_for_status()
    memory = answer.json()["memory"]
    return bool(memory["embedded"] >= memory["memories"])
