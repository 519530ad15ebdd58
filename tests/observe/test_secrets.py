"""15 planted secrets, each in every form, in every output that a daemon has: not one is found."""

import json
import os
import random
import socket
import subprocess
import sys
import tarfile
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import trio

from daycare.features import open_store
from daycare.ops.setup import initialise
from daycare.store.vault import open_vault
from daycare.testing.collector import FakeCollector
from daycare.testing.openai_server import FakeOpenAI
from daycare_plugins.telegram.testing.faults import refused
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.observe.encodings import forms, shown
from tests.stored import as_file, located, tell, unpacked_in
from tests.telegram.bots import until

ROOT = Path(__file__).parents[2]
chance = random.Random(14)


def letters(many: int, alphabet: str = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789") -> str:
    return "".join(chance.choices(alphabet, k=many))


OWN = {  # the names under which they are stored
    "openai": "sk-proj-" + letters(40),
    "anthropic": letters(48),  # looks like nothing
    "telegram": f"{letters(9, '123456789')}:" + letters(35),
    "leaky": letters(32),
    "leaky.password": f'{letters(6)} "{letters(5)}/ü&<{letters(4)}>+%\\{letters(4)}',
    "leaky.pem": "-----BEGIN KEY-----\n" + "\n".join(letters(64) for _ in range(3)) + "\n-----END KEY-----\n",
    "leaky.webhook": letters(22, "abcdefghijklmnopqrstuvwxyz0123456789_-"),
    "leaky.verify": "my verify word 7",
    "leaky.app": letters(32, "0123456789abcdef"),
    "leaky.session": "s%3A" + letters(30) + "==",
    "leaky.hex": letters(64, "0123456789ABCDEF"),
    "leaky.jwt": f"eyJ{letters(33)}.eyJ{letters(60)}.{letters(43)}",  # a signed web token
    "unused": letters(20),
}
PASSPHRASE = f"correct {letters(6)} battery {letters(6)}"


class Daemon:
    """A daemon in a process of its own, and everything it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.outputs: dict[str, str] = {}
        transport = httpx.AsyncHTTPTransport(uds=str(self.home / "daycare.sock"), verify=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://daycare", timeout=30)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        environment = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "LANG") if name in os.environ}
        environment |= {
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(self.folder),
            "LEAKED_FILES": f"{self.home / 'daycare.key'}:{self.home / 'passphrase'}",
        }
        out, err = self.folder / "out", self.folder / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "daycare.cli.daemon", "--home", str(self.home)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            try:
                await until(lambda: self.listens() or process.poll() is not None, 30)
                assert process.poll() is None, err.read_text()
                yield
            finally:
                process.terminate()
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(process.wait)
                    await self.client.aclose()
        for file in (out, err, *self.home.glob("*.log*")):
            self.outputs[file.name] = file.read_text()

    def listens(self) -> bool:
        """Return whether the socket answers: its file is there a moment before."""
        with socket.socket(socket.AF_UNIX) as asking:
            return asking.connect_ex(str(self.home / "daycare.sock")) == 0

    async def ask(self, method: str, route: str, body: Any = None) -> Any:
        answer = await self.client.request(method, route, json=body)
        self.outputs[f"{method} {route} {json.dumps(body)}"] = answer.text + str(answer.headers)
        return answer

    async def run(self, words: str) -> None:
        command = [sys.executable, "-m", "daycare", "--home", str(self.home), *words.split()]
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        self.outputs[words] = (done.stdout + done.stderr).decode()

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.client.stream("GET", "/v1/events", timeout=None) as stream:
            self.outputs["events"] = ""
            task_status.started()
            async for chunk in stream.aiter_text():
                self.outputs["events"] += chunk


async def plant(home: Path, config: str) -> dict[str, str]:
    """Make a home that holds the secrets; return all of them by name."""
    await trio.to_thread.run_sync(lambda: initialise(home, user_name="Ann"))
    (home / "config.toml").write_text(config)
    tell(home)
    (home / "passphrase").write_text(PASSPHRASE + "\n")
    vault = open_vault(home / "daycare.key")
    async with open_store(located(home / "daycare.db")) as store:
        for name, value in OWN.items():
            await store.secrets.put(name, "ann", vault.seal(value))
        await store.people.link("telegram:5", "ann")
        await store.people.link("leaky:5", "ann")
    return OWN | {"vault key": (home / "daycare.key").read_text().strip(), "passphrase": PASSPHRASE}


def found(secrets: dict[str, str], outputs: dict[str, str]) -> list[str]:
    """Return which secret stands in which output in which form."""
    wrong = []
    for secret, value in secrets.items():
        values = [value, *(line for line in value.split("\n") if len(line) > 30)]
        needles = {(name, form) for one in values for name, form in forms(one.strip()) if len(form) >= 8}
        for where, text in outputs.items():
            wrong += [f"{secret} as {name} in {where}" for name, form in needles if form in text]
    return sorted(wrong)


def rows_of(database: Path) -> dict[str, str]:
    """Return what stands in each table, as text."""
    db = apsw.Connection(str(as_file(database)), flags=apsw.SQLITE_OPEN_READONLY)
    names = [
        str(name)
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE sql NOT LIKE 'CREATE VIRTUAL%' AND type = 'table'"
        )
    ]
    tables = {}
    for name in names:
        values = [value for row in db.execute(f'SELECT * FROM "{name}"') for value in row]
        told = (
            value.decode("latin-1") + unpacked_in(value).decode("utf-8", "replace")
            if isinstance(value, bytes)
            else str(value)
            for value in values
        )
        tables[f"the table {name}"] = " ".join(told)
    db.close()
    return tables


def unpacked(file: Path) -> str:
    """Return what an agent's export holds."""
    data = file.read_bytes()
    plain = zlib.decompressobj(31).decompress(data) if data[:2] == b"\x1f\x8b" else data
    return plain.decode("utf-8", "replace")


async def test_no_output_of_a_daemon_holds_a_secret_in_any_form(tmp_path: Path) -> None:
    async with (
        FakeTelegram.serve(token=OWN["telegram"]) as telegram,
        FakeOpenAI.serve() as model,
        FakeCollector.serve() as collector,
        trio.open_nursery() as nursery,
    ):
        daemon = Daemon(tmp_path)
        secrets = await plant(
            daemon.home,
            f"""
[daemon]
log_level = "debug"
breaker = false
[models]
default = "openai/small"
[providers.openai]
kind = "openai"
base_url = "{model.base_url}"
[plugins]
load = ["tests.observe.leaky:plugin"]
[plugins.telegram]
base_url = "{telegram.base_url}"
[backup]
every = "1h"
passphrase_file = "passphrase"
[tracing]
endpoint = "{collector.endpoint}"
""",
        )
        assert len(secrets) == 15
        everything = " ".join(text for _, text in shown(OWN["openai"]))
        token = " ".join(text for _, text in shown(OWN["telegram"]))
        async with daemon.running():
            await nursery.start(daemon.listen)
            for name in ("leak_raises", "leak_refuses", "leak_effects", "leak_notes", "leak_tells"):
                model.enqueue(tool_calls=[(name, {})])
            await daemon.ask("POST", "/v1/messages", {"text": "use them", "wait_s": 20})
            model.enqueue(everything, status=400)  # what it was sent, and how
            refusal = await daemon.ask("POST", "/v1/messages", {"text": "fail", "wait_s": 20})
            for text in ("/leak", "/leak tell"):
                await daemon.ask("POST", "/v1/messages", {"text": text, "wait_s": 20})
            telegram.fault("sendMessage", refused(400, f"Bad Request: {token}"), times=9)
            telegram.say(5, 5, "hello")
            await until(lambda: "dead.lettered" in daemon.outputs["events"], 20)
            model.enqueue(everything, status=500)
            await daemon.ask("POST", "/v1/models/test", {"models": ["openai/small"]})
            letters_ = (await daemon.ask("GET", "/v1/dead")).json()
            for letter in next(iter(letters_.values())):
                await daemon.ask("GET", f"/v1/dead/{letter['no']}")
            for route in (
                    "status", "health", "plugins", "connectors", "models", "keys", "cron", "tasks", "approvals",
                    "metrics", "users", "pairings", "agents", "budgets", "spend", "trace/1", "trace/2", "trace/3",
                    "trace/4", "trace/5", "inbox?path=/ann/direct", "replies?path=/ann/direct", "nothing",
                    f"trace/{OWN['leaky']}", f"files/{OWN['leaky']}",
                    "connectors/leaky/pairing", "memory/documents", "signals", "questions",
                ):  # fmt: skip
                await daemon.ask("GET", f"/v1/{route}")
            await daemon.run(f"doctor --json --names --bundle {tmp_path / 'report.tar.gz'}")
            with tarfile.open(tmp_path / "report.tar.gz") as report:
                for member in report.getmembers():
                    packed = report.extractfile(member)
                    daemon.outputs[f"{member.name} of the bundle"] = packed.read().decode() if packed else ""
            await daemon.run(f"export /ann/direct {tmp_path / 'agent.daycare'}")
            daemon.outputs["the export"] = unpacked(tmp_path / "agent.daycare")
            nursery.cancel_scope.cancel()
        daemon.outputs |= rows_of(daemon.home / "daycare.db")
        for number, request in enumerate(model.history):
            daemon.outputs[f"request {number} of the model"] = json.dumps(request.body)
        for number, call in enumerate(telegram.calls):
            daemon.outputs[f"call {number} of Telegram"] = f"{call.method} {call.params}"
        daemon.outputs["spans"] = b"".join(collector.raw).decode()
    wrong = found(secrets, daemon.outputs)
    assert not wrong, "\n".join([f"{len(wrong)} found", *wrong])
    assert refusal.status_code in (200, 202)
    # They were said, everywhere: what is left of them are the places.
    for where in ("daycare.log", "out", "err"):
        assert daemon.outputs[where].count("[secret]") > 100, where
    for where in ("GET /v1/plugins null", "GET /v1/dead null", "events"):
        assert "[secret]" in daemon.outputs[where], where
    assert "LEAK" in daemon.outputs["out"]
    assert any("[secret]" in text for where, text in daemon.outputs.items() if where.endswith("of the bundle"))
    tables = " ".join(text for where, text in daemon.outputs.items() if where.startswith("the table"))
    for what in ("LEAK effect ", "LEAK effected", "LEAK note", "LEAK connector"):
        assert what in tables, what
    for where in ("the export", "the table inbox", "the table dead_letters", "GET /v1/connectors/leaky/pairing null"):
        assert "[secret]" in daemon.outputs[where], where
    assert any("LEAK result" in text for where, text in daemon.outputs.items() if where.startswith("request"))
