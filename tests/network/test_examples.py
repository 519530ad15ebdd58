"""The blocks of doc/extend/api-examples.md do what the page says, against a daemon."""

import json
import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.network.conftest import Network

PAGE: Final = Path(__file__).parents[2] / "doc" / "extend" / "api-examples.md"
BLOCKS: Final = dict(re.findall(r"<!-- example: ([\w-]+) -->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))


@pytest.fixture
def door(network: Network, monkeypatch: pytest.MonkeyPatch) -> Network:
    """A daemon whose address and a person's token the examples find in their environment."""
    monkeypatch.setenv("DAYCARE_URL", f"http://127.0.0.1:{network.port}")
    monkeypatch.setenv("DAYCARE_TOKEN", network.tokens["ann"])
    return network


def shell(name: str) -> Any:
    done = subprocess.run(["sh", "-c", BLOCKS[name]], capture_output=True, env=os.environ, timeout=60, check=False)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def python(*names: str, **given: Any) -> dict[str, Any]:
    """Run blocks one after the other, as a person pastes them, and return what they have defined."""
    made: dict[str, Any] = {"__name__": "example", **given}
    for name in names:
        exec(compile(BLOCKS[name], f"api-examples.md: {name}", "exec"), made)
    return made


def test_the_page_has_no_block_that_is_not_tried() -> None:
    assert PAGE.read_text("utf-8").count("\n```") == 2 * (len(BLOCKS) + 1)  # and the one that makes a token
    tried = Path(__file__).read_text("utf-8")
    assert [name for name in BLOCKS if f'"{name}"' not in tried] == []


def test_curl_says_something_once_and_reads_the_answer(door: Network) -> None:
    first, again = shell("curl-say"), shell("curl-say")
    assert first["state"] == "done" and first["replies"]
    assert (again["seq"], again["duplicate"]) == (first["seq"], True)
    assert [each["path"] for each in shell("curl-agents")["agents"]][:1] == ["/ann/direct"]
    assert "/v1/messages" in shell("curl-openapi")["paths"]


def test_python_says_something_and_confirms_the_answer(door: Network, capsys: pytest.CaptureFixture[str]) -> None:
    made = python("say")
    assert capsys.readouterr().out.strip()
    assert door.locally("GET", "/v1/replies", path="/ann/direct")["replies"] == []
    made["api"].headers["Authorization"] = "Bearer wrong"
    with pytest.raises(RuntimeError, match=r"TOKEN_WRONG: .* Hint: "):
        made["say"]("hello", key="another")
    made["api"].close()


class SeenError(Exception):
    """An example that never ends has shown enough."""


def test_python_follows_what_happens_and_goes_on_where_it_was(door: Network) -> None:
    seen: list[tuple[Any, ...]] = []

    def began() -> bool:
        return any(event == "turn.started" for _, event, _ in seen)

    def note(*event: Any) -> None:
        seen.append(event)
        if event[1] == "turn.finished" and began():
            raise SeenError

    def talk() -> None:
        while not began():  # the first may be answered before anybody follows
            door.locally("POST", "/v1/messages", {"text": "one", "wait_s": 10})

    made = python("say") | {"print": note}
    with closing(made["api"]), ThreadPoolExecutor() as beside:
        beside.submit(talk)
        with pytest.raises(SeenError):
            exec(BLOCKS["follow"], made)
        assert {path for _, _, path in seen} == {"/ann/direct"}
        started = next(cursor for cursor, event, _ in seen if event == "turn.started")
        assert next(made["events"](after=started))[:2] == (seen[-1][0], "turn.finished")


def test_python_waits_as_long_as_it_is_told(door: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    made = python("say", "retry")
    answers = iter([429, 503, 200])
    waited: list[float] = []

    class Busy:
        def request(self, method: str, route: str) -> Any:
            return httpx.Response(next(answers), headers={"Retry-After": "2"}, json={})

    monkeypatch.setattr(time, "sleep", waited.append)
    with closing(made["api"]):
        made["api"] = Busy()
        assert made["patiently"]("GET", "/v1/agents").status_code == 200 and waited == [2.0, 2.0]
