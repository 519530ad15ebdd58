"""One campaign: agents that are each told to charge an account, over model servers that fail in between.

Half of the agents use OpenAI's protocol, half Anthropic's. Each message's first calls of the model meet the faults that
the seed has drawn for it; then the model calls the tool `charge`, which must not run twice, and says `done`.
"""

import random
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from typing import Any, Final

import msgspec
import trio

from daycare.testing.anthropic_server import FakeAnthropic
from daycare.testing.daemon_process import DaemonProcess, client_of, status
from daycare.testing.model_server import FakeModelServer, ScriptedAnswer, ScriptedCall, last_user_text, web_page
from daycare.testing.openai_server import FakeOpenAI
from tests.crash.process import Home

_ANSWER_S: Final = 600.0  # for one message: some faults open a breaker, whose pauses are half a minute and more
_ACCOUNT: Final = re.compile(r"charge (s\d+)\b")
_RAW: Final = {"Content-Type": "text/event-stream"}

# What a provider may do wrong, each as one answer. None of them may run the tool or be paid for, but for those below.
FAULTS: Final[dict[str, ScriptedAnswer]] = {
    "rate limit": ScriptedAnswer(status=429, text="slow down", headers={"Retry-After": "1"}),
    "server error": ScriptedAnswer(status=500, text="oops"),
    "overloaded": ScriptedAnswer(status=529, text="overloaded"),
    "web page": web_page(),
    "error page": web_page(502),
    "nothing": ScriptedAnswer(raw=b"", headers=_RAW),
    "garbage": ScriptedAnswer(raw=b"data: {nonsense}\n\n", headers=_RAW),
    "invalid utf-8": ScriptedAnswer(raw=b'data: {"\xff\xfe": 1}\n\n', headers=_RAW),
    "endless frame": ScriptedAnswer(raw=b"data: " + b"x" * 3_000_000, headers=_RAW),
    "no end": ScriptedAnswer(text="half a repl", finish=""),
    "cut": ScriptedAnswer(
        text="I shall", tool_calls=(ScriptedCall("charge", {"account": "cut"}),), cut_after_bytes=300
    ),
    "reset": ScriptedAnswer(
        text="I shall", tool_calls=(ScriptedCall("charge", {"account": "reset"}),), cut_after_bytes=350, then="reset"
    ),
    "arguments of a wrong kind": ScriptedAnswer(tool_calls=(ScriptedCall("charge", "[1, 2]"),)),
    "half arguments": ScriptedAnswer(tool_calls=(ScriptedCall("charge", '{"account": "ha'),)),
}
# These are whole replies: they are paid for, and the model reads what was wrong with them.
MISTAKES: Final[dict[str, ScriptedAnswer]] = {
    "no such tool": ScriptedAnswer(tool_calls=(ScriptedCall("fly", {}),)),
    "wrong arguments": ScriptedAnswer(tool_calls=(ScriptedCall("charge", {"sum": 5}),)),
    "a reason never seen": ScriptedAnswer(tool_calls=(ScriptedCall("now", {}),), finish="because"),
}


class Figures(msgspec.Struct, kw_only=True):
    """What came of a campaign; all but `messages`, `answered`, `faults`, `late_s` and `seconds` must be 0."""

    messages: int
    answered: int = 0
    unanswered: int = 0
    wrong_answers: int = 0
    repeated_tools: int = 0
    partial_calls: int = 0
    charged_twice: int = 0
    dead_letters: int = 0
    secrets_seen: int = 0
    faults: dict[str, int] = {}
    slowest_s: float = 0.0
    seconds: float = 0.0

    @property
    def harm(self) -> int:
        """Return what must be 0."""
        return (
            self.unanswered
            + self.wrong_answers
            + self.repeated_tools
            + self.partial_calls
            + self.charged_twice
            + self.dead_letters
            + self.secrets_seen
        )


class Brain:
    """The models behind both servers: a function of the conversation and of the faults still due to it."""

    def __init__(self, dice: random.Random, share: float) -> None:
        self._dice = dice
        self._share = share
        self._due: dict[str, list[ScriptedAnswer]] = {}
        self.met: Counter[str] = Counter()
        self.served = 0  # whole replies

    def plan(self, account: str) -> None:
        """Draw the faults that a message will meet."""
        kinds = [*FAULTS, *MISTAKES]
        drawn = self._dice.sample(kinds, self._dice.choice((1, 1, 2))) if self._dice.random() < self._share else []
        self.met.update(drawn)
        self._due[account] = [FAULTS.get(kind) or MISTAKES[kind] for kind in drawn]

    def __call__(self, body: dict[str, Any]) -> ScriptedAnswer:
        """Answer one request."""
        account = _ACCOUNT.findall(last_user_text(body))[-1:]
        if not account:
            account = _ACCOUNT.findall(msgspec.json.encode(body["messages"]).decode())[-1:]
        if f"charged {account[0]}" in msgspec.json.encode(body["messages"][-1]).decode():
            self.served += 1
            return ScriptedAnswer(text=f"done {account[0]}")
        due = self._due[account[0]]
        if due:
            fault = due.pop(0)
            self.served += fault in MISTAKES.values()
            return fault
        self.served += 1
        return ScriptedAnswer(tool_calls=(ScriptedCall("charge", {"account": account[0]}),))


_KEY: Final = "sk-faults-0123456789abcdef"


def _config(openai: FakeModelServer, anthropic: FakeModelServer) -> str:
    return f"""\
[models]
default = "box/fake-large"

[providers.box]
base_url = "{openai.base_url}"

[providers.ant]
kind = "anthropic"
base_url = "{anthropic.base_url}"

[plugins]
load = ["daycare.testing.tools:plugin"]
"""


async def run(messages: int, agents: int, seed: int, share: float = 0.5) -> Figures:
    """Run a campaign and count."""
    begun = time.perf_counter()
    brain = Brain(random.Random(seed), share)
    figures = Figures(messages=messages)
    home = Home()
    try:
        async with FakeOpenAI.serve(reply=brain) as openai, FakeAnthropic.serve(reply=brain) as anthropic:
            openai.api_key = anthropic.api_key = _KEY
            (home.path / "config.toml").write_text(_config(openai, anthropic))
            process = DaemonProcess(home)
            await process.ready()
            await _talk(home, brain, figures, messages, agents)
            await process.stop()
        _judge(home, brain, figures, messages)
    finally:
        home.remove()
    figures.faults = dict(sorted(brain.met.items()))
    figures.seconds = round(time.perf_counter() - begun, 1)
    return figures


async def _talk(home: Home, brain: Brain, figures: Figures, messages: int, agents: int) -> None:
    user = (await status(home.socket))["user"]
    async with client_of(home.socket) as client:
        for name in ("box", "ant"):
            (await client.put(f"/v1/keys/{name}", json={"value": _KEY})).raise_for_status()
        for number in range(agents):
            model = ("box/fake-large", "ant/fake-large")[number % 2]
            body = {"path": f"/{user}/agent/a{number}", "config": {"model": model}}
            (await client.post("/v1/agents", json=body)).raise_for_status()

    async def one(number: int) -> None:
        path = f"/{user}/agent/a{number}"
        async with client_of(home.socket) as client:
            for mine in range(number, messages, agents):
                account = f"s{mine:05}"
                brain.plan(account)
                asked = time.perf_counter()
                body = {"path": path, "text": f"charge {account}", "key": account, "wait_s": _ANSWER_S}
                answer = (await client.post("/v1/messages", json=body, timeout=_ANSWER_S + 30)).json()
                figures.slowest_s = max(figures.slowest_s, round(time.perf_counter() - asked, 1))
                if answer.get("state") != "done":
                    figures.unanswered += 1
                elif answer["result"] != f"done {account}":
                    figures.wrong_answers += 1
                else:
                    figures.answered += 1

    async with trio.open_nursery() as nursery:
        for number in range(min(agents, messages)):
            nursery.start_soon(one, number)


def _judge(home: Home, brain: Brain, figures: Figures, messages: int) -> None:
    """Compare what the daemon did with what it may have done, from outside of it."""
    lines = Counter(home.ledger_file.read_text().splitlines())
    wanted = {f"charge s{number:05}" for number in range(messages)}
    figures.repeated_tools = sum(times - 1 for times in lines.values())
    figures.partial_calls = len(lines.keys() - wanted)
    with closing(sqlite3.connect(home.database)) as db:
        [(paid,)] = db.execute("SELECT count(*) FROM spend")
        [(figures.dead_letters,)] = db.execute("SELECT count(*) FROM dead_letters")
    figures.charged_twice = abs(paid - brain.served)
    for file in home.path.rglob("*"):
        if file.is_file() and _KEY.encode() in file.read_bytes():
            figures.secrets_seen += 1
