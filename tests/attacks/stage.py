"""A daemon with three people, each with something that only they may see, and everybody who knocks."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import httpx

from daycare.api import rates
from tests.network.conftest import Network, opened

READ_MAX_BYTES: Final = 512 * 1024
READ_S: Final = 10.0


@dataclass
class Answer:
    """What came back: a status, 0 for nothing, and all that could be read."""

    status: int
    text: str


@dataclass
class AttackStage:
    """The daemon, who knocks, and what each of them must not see.

    `things` are names of each person's things; `markers` stand in nothing but theirs. `secrets` may stand in no answer
    but the one that makes them.
    """

    network: Network
    client: httpx.Client
    rng: Random
    markers: dict[str, str]
    things: dict[str, dict[str, str]]
    secrets: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, tuple[str, str]] = field(default_factory=dict)  # the cookie, and its value against forgery
    answers: int = 0
    told_secrets: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.network.port}"

    def headers(self, who: str) -> dict[str, str]:
        """Return what somebody shows of themselves."""
        if who in self.cookies:
            cookie, csrf = self.cookies[who]
            return {"Cookie": f"daycare_session={cookie}", "X-Daycare-CSRF": csrf, "Origin": self.base}
        token = self.network.tokens.get(who, "")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def ask(
        self, method: str, route: str, headers: dict[str, str], *, body: Any = None, makes: bool = False, **query: str
    ) -> Answer:
        """Send a request and read what comes, of a stream what comes at once; secrets in it are noted."""
        text = ""
        try:
            with self.client.stream(method, f"{self.base}{route}", params=query, json=body, headers=headers) as answer:
                status = answer.status_code
                text = "".join(f"{name}: {value}\n" for name, value in answer.headers.items() if name != "date")
                streams = "event-stream" in answer.headers.get("content-type", "")
                for piece in answer.iter_text():
                    text += piece
                    if streams or len(text) > READ_MAX_BYTES:
                        break
        except httpx.TransportError:
            status = 0
        self.answers += 1
        if not makes:
            self.told_secrets += [
                f"{name} in {method} {route}" for name, secret in self.secrets.items() if secret in text
            ]
        return Answer(status, text[:READ_MAX_BYTES])  # where pieces end is chance

    def keep(self, name: str, secret: str) -> str:
        """Remember something that may stand nowhere."""
        self.secrets[name] = secret
        return secret

    def log_in(self, who: str, user: str) -> None:
        """Log somebody's browser in."""
        link = self.network.locally("POST", "/v1/browsers", {"user": user})["url"]
        code = self.keep(f"code of {who}", link.partition("code=")[2])
        done = self.client.post(f"{self.base}/v1/login", data={"code": code}, headers={"Origin": self.base})
        cookie = self.keep(f"cookie of {who}", done.cookies["daycare_session"])
        self.client.cookies.clear()
        told = self.ask("GET", "/v1/session", {"Cookie": f"daycare_session={cookie}"}, makes=True).text
        [csrf] = re.findall(r'"csrf":"(\w+)"', told)
        self.cookies[who] = cookie, csrf


@contextmanager
def staged(folder: Path, seed: int) -> Iterator[AttackStage]:
    """Open it."""
    unhurried = patch.object(rates, "API_CALLS_BURST", 10**9)  # who attacks takes their time, we have none
    with unhurried, opened(folder) as network, httpx.Client(timeout=READ_S) as client:
        network.locally("POST", "/v1/users", {"id": "eve"})
        for name, wish in (("eve", {"user": "eve"}), ("phone", {"user": "bob", "may": "approve"})):
            network.add(name, **wish)
        stage = AttackStage(network, client, Random(seed), {}, {})
        for user in ("ann", "bob", "eve"):
            _furnish(stage, user)
        for name, token in network.tokens.items():
            if token:
                stage.keep(f"token {name}", token)
        stage.log_in("bob's browser", "bob")
        stage.log_in("ann's browser", "ann")
        yield stage


def _furnish(stage: AttackStage, user: str) -> None:
    """Give somebody an agent, words, a file and a job of their own, all with their marker."""
    marker = stage.markers[user] = f"mark{secrets.token_hex(6)}"
    call, agent = stage.network.locally, f"/{user}/agent/{marker}"
    call("POST", "/v1/agents", {"path": agent})
    for path in (f"/{user}/direct", agent):
        said = call("POST", "/v1/messages", {"text": f"the word is {marker}", "user": user, "path": path, "wait_s": 20})
    file = call("POST", "/v1/files", None, name=f"{marker}.txt", user=user)
    things = {"path": agent, "user": user, "id": str(file["id"]), "name": marker}
    stage.things[user] = things | {"seq": str(said["seq"]), "turn": str(said["turn"])}
