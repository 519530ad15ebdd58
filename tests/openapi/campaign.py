"""A run of schemathesis against a daemon of its own, over TCP with a token."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

from daycare.api import rates
from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon
from tests.network.conftest import Network, free_port

ROOT: Final = Path(__file__).parents[2]
UNLIMITED: Final = 10**9
ENDING: Final = ("/v1/shutdown", "/v1/handover")  # the daemon is needed until the end
ENDLESS: Final = ("/v1/events",)
# Too much of anything is refused as too large before it is read, and too often before that.
CONFIG: Final = """
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "429", "431", "503"]

# Of a service that is not connected, too, it says so.
[[operations]]
include-path = "/v1/credentials/{service}/status"
checks.use_after_free.enabled = false
"""
NOT_CHECKED: Final = (
    "positive_data_acceptance",  # names and paths have a grammar and an owner, which no schema tells
    "unsupported_method",  # where /v1/dead/{no} is, GET /v1/dead/prune is a number that is none: 400
)
PHASES: Final = "examples,coverage,fuzzing,stateful"


@contextmanager
def daemon() -> Iterator[Network]:
    """Run a daemon with something of everything, whose bounds on how often one may call are out of the way."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(rates, "API_CALLS_BURST", UNLIMITED),
        mock.patch.object(rates, "API_WRONG_TOKENS_MAX", UNLIMITED),
    ):
        home, port = Path(folder) / "home", free_port()
        home.mkdir(mode=0o700)
        initialise(home, user_id="ann")
        config = home / "config.toml"
        config.write_text(config.read_text("utf-8") + f'\n[api]\nlisten = "127.0.0.1:{port}"\n', "utf-8")
        with EmbeddedDaemon(home, work=True) as running:
            network = Network(home, port, running)
            network.add("schemathesis", may="operator")
            network.add("spare", user="ann")
            for method, route, body in _POPULATION:
                network.locally(method, route, body)
            yield network


_POPULATION: Final[tuple[tuple[str, str, Any], ...]] = (
    ("POST", "/v1/users", {"id": "bob"}),
    ("POST", "/v1/users/bob/links", {"key": "telegram:42"}),
    ("POST", "/v1/messages", {"text": "my cat is called Miso", "wait_s": 10}),
    ("POST", "/v1/messages", {"text": "hello", "user": "bob", "wait_s": 10}),
    ("POST", "/v1/agents", {"path": "/ann/agent/scribe"}),
    ("POST", "/v1/cron", {"id": "news", "spec": {"prompt": "news", "cron": "0 7 * * *"}}),
    ("POST", "/v1/tasks", {"id": "news", "spec": {"prompt": "look"}}),
    ("POST", "/v1/signals/subscriptions", {"path": "/ann/agent/scribe", "pattern": "build:*", "silent": True}),
    ("POST", "/v1/signals", {"type": "build:done", "data": "ok"}),
    ("PUT", "/v1/keys/spare", {"value": "not-a-real-secret-value"}),
    ("PUT", "/v1/budget", {"path": "/ann/agent/scribe", "limits": {"day.usd": 5_000_000}}),
)


def run(*, seed: int, examples: int, phases: str = PHASES, deadline_s: float = 3_600.0) -> dict[str, Any]:
    """Return what schemathesis reports: `failures`, `test_cases`, `operations`, and how it was asked."""
    with daemon() as network, tempfile.TemporaryDirectory() as folder:
        report, config = Path(folder) / "report.json", Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG, "utf-8")
        asked = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "--no-color", "run"),
            f"http://127.0.0.1:{network.port}/v1/openapi.json",
            *("--header", f"Authorization: Bearer {network.tokens['schemathesis']}"),
            *("--seed", str(seed), "--max-examples", str(examples), "--phases", phases),
            *("--exclude-checks", ",".join(NOT_CHECKED), "--continue-on-failure", "--warnings", "off"),
            *(part for path in (*ENDING, *ENDLESS) for part in ("--exclude-path", path)),
            *("--request-timeout", "30", "--report", "json", "--report-json-path", str(report)),
        ]
        env = os.environ | {"SCHEMATHESIS_HOOKS": "tests.openapi.hooks", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            asked, cwd=folder, env=env, capture_output=True, text=True, timeout=deadline_s, check=False
        )
        if not report.exists():
            raise RuntimeError(
                f"schemathesis ended with {done.returncode}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}"
            )
        found: dict[str, Any] = json.loads(report.read_text("utf-8"))
        return found | {"output": done.stdout}
