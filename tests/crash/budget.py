"""Kills around reservations: the ledger never falls below what the provider itself has counted.

The model is a server in the campaign's process, which numbers its calls and keeps a book of its own. The number goes
out as the count of cached tokens, so that each call that was charged is known again.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw
import trio

from daycare.testing.daemon_process import DaemonProcess
from daycare.testing.model_server import ScriptedAnswer
from daycare.testing.model_server import said as words_of
from daycare.testing.openai_server import FakeOpenAI
from tests.crash.campaign import Campaign, Delay, Killer, When
from tests.crash.figures import Figures
from tests.crash.judge import Verdict
from tests.crash.ledger import Finding
from tests.crash.mind import errand_of
from tests.crash.process import Home

MODELS = ("fake-small", "fake-large")  # of the campaign's own home; of those whose birth is interrupted
CHAT_S = (0.01, 0.15)  # how long a call takes: time for a kill
ASKED_SHARE = 0.65  # of the kills at work come while the model answers, or soon after
ASKED_TIMES = 6  # ... at one of its first calls
ASKED_DEADLINE_S = 5.0
INPUT_USD, OUTPUT_USD = 1.0, 2.0
_CONFIG = f"""\
[models]
default = "box/{{model}}"

[providers.box]
base_url = "{{base_url}}"
models."{{model}}" = {{{{ context = 64000, output = 512, input_usd = {INPUT_USD}, cached_usd = 0, \
output_usd = {OUTPUT_USD} }}}}

[plugins]
load = ["daycare.testing.tools:plugin"]

[memory.ingestion]
background = false

[budgets]
operator = ["1000usd a day"]
"""


class Call(NamedTuple):
    """What the provider counted for one call, in tokens."""

    read: int
    wrote: int


class Model:
    """The model behind the server: it acknowledges what it reads, and counts. `calls` is its book, by number."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.calls: dict[int, Call] = {}
        self._number = 0
        self._asked = trio.Event()

    def __call__(self, body: dict[str, Any]) -> ScriptedAnswer:
        """Answer a request, and count it: a provider bills also what nobody receives."""
        messages = [message for message in body["messages"] if message["role"] in ("user", "assistant")]
        ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        heard = [errand_of(words_of(message.get("content"))) for message in messages[ends[-1] + 1 if ends else 0 :]]
        text = "\n".join(f"ack m {errand.sender} {errand.number}" for errand in heard if errand)
        self._asked.set()
        self._asked = trio.Event()
        self._number += 1
        if body["model"] == MODELS[0]:
            read = sum(len(words_of(message.get("content")).split()) for message in body["messages"])
            self.calls[self._number] = Call(read, len(text.split()))
        return ScriptedAnswer(text=text, delay_s=self._rng.uniform(*CHAT_S), cached_tokens=self._number)

    async def asked(self) -> None:
        """Wait until it is asked again."""
        await self._asked.wait()


class AtCall:
    """Kills like another killer does, but of those at work most while the model answers, or soon after."""

    def __init__(self, other: Killer, model: Model) -> None:
        self._other = other
        self._model = model

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
        with trio.move_on_after(ASKED_DEADLINE_S):
            for _ in range(rng.randint(1, ASKED_TIMES)):
                await self._model.asked()
        await trio.sleep(rng.uniform(0.0, 2 * CHAT_S[1]))
        await process.kill()

    def summary(self) -> dict[str, Any]:
        """Return what the other says."""
        return self._other.summary()


class BudgetCampaign(Campaign):
    """A campaign with a model server whose book is compared with the daemon's."""

    def __init__(self, mode: str, kills: int, seed: int, killer: Killer) -> None:
        self._model = Model(random.Random(f"{mode}/{seed}/model"))
        super().__init__(mode, kills, seed, AtCall(killer, self._model), "budget")
        self._base_url = ""
        self._homes = 0
        self._counted: Counter[str] = Counter()

    async def run(self) -> Figures:
        """Serve the model meanwhile."""
        async with FakeOpenAI.serve(reply=self._model) as server:
            self._base_url = server.base_url
            figures = await super().run()
        figures.more |= {"calls": self._counted}
        return figures

    def _furnished(self) -> Home:
        home = Home()
        config = _CONFIG.format(base_url=self._base_url, model=MODELS[min(self._homes, 1)])
        (home.path / "config.toml").write_text(config)
        self._homes += 1
        return home

    def _judge(self) -> Verdict:
        verdict = super()._judge()
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            verdict.findings += charged(db, self._model.calls, self._counted)
        finally:
            db.close()
        return verdict


def charged(db: apsw.Connection, calls: dict[int, Call], counted: Counter[str]) -> Iterator[Finding]:
    """Compare the provider's book with the daemon's, once all is quiet; `counted` gets the figures."""
    for number, times, read, wrote in db.execute(
        "SELECT cached_tokens, count(*), max(input_tokens), max(output_tokens) FROM spend GROUP BY 1"
    ):
        call = calls.get(int(str(number)))
        if times != 1 or call != Call(int(str(read)), int(str(wrote))):
            yield "miscounted", f"call {number}: {call}, in the ledger {times} times with {read} and {wrote}"
    settled = _numbers(db, "SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cost_micros) FROM spend")
    for key in ("length(key) = 10", "length(key) = 7"):
        sums = _numbers(
            db,
            f"SELECT sum(calls), sum(input_tokens), sum(output_tokens), sum(cost_micros) FROM spending WHERE {key}",
        )
        if sums != settled:
            yield "miscounted", f"the sums are {sums}, of all calls {settled}"
    [unsettled, tokens, micros] = _numbers(
        db,
        "SELECT sum(unsettled), sum(unsettled_tokens), sum(unsettled_micros) FROM spending WHERE length(key) = 10",
    )
    [reserved] = _numbers(db, "SELECT count(*) FROM reservations")
    if reserved:
        yield "unfinished", f"{reserved} calls are reserved, and nothing runs"
    counted.update(made=len(calls), settled=settled[0], unsettled=unsettled)
    known = {int(str(row[0])) for row in db.execute("SELECT cached_tokens FROM spend")}
    lost = [call for number, call in calls.items() if number not in known]
    cost = sum(call.read * INPUT_USD + call.wrote * OUTPUT_USD for call in lost)
    if len(lost) > unsettled or sum(map(sum, lost)) > tokens or cost > micros:
        yield (
            "undercounted",
            f"{len(lost)} calls of {sum(map(sum, lost))} tokens are not settled; kept were {unsettled}",
        )


def _numbers(db: apsw.Connection, sql: str) -> list[int]:
    [row] = db.execute(sql).fetchall()
    return [int(str(each or 0)) for each in row]
