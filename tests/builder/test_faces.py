"""The builder in a chat, over the network and in the terminal; without a model it says so, and offers the templates."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.features.builder.checking import needs
from daycare.features.builder.faces import SAID_MAX
from daycare.features.builder.service import TOOLS, prompt
from daycare.process import EmbeddedDaemon
from daycare.store.records import AgentConfig
from tests.builder.conftest import PATH, builder, built
from tests.cli.conftest import Daycare, daycare, environment
from tests.network.conftest import Network, opened
from tests.network.test_callers import code

__all__ = ("daycare", "environment")  # fixtures
ROOT = Path(__file__).parents[2]


async def test_build_lets_the_builder_answer_here(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        assert "From your next message on the builder answers here" in await house.talk("/build", user="ben")
        assert await house.talk("a scribe", user="ben") == "echo: a scribe"
        assert "Your address is /ben/agent/builder." in house.model.history[-1].system
        assert prompt().strip() in house.model.history[-1].system
        assert "/ben/direct answers here" in await house.talk("/use default", user="ben")


async def test_another_agent_of_its_name_is_left_alone(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        mine = await house.daemon.directory.at(PATH)
        await house.store.agents.configure(mine.id, AgentConfig(system_prompt="I build houses."))
        assert "another agent has this name" in await house.talk("/build")
        assert (await house.daemon.directory.at(PATH)).config == AgentConfig(system_prompt="I build houses.")


async def test_a_newer_version_tells_an_old_builder_what_it_is(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        mine = await house.daemon.directory.at(PATH)
        old = AgentConfig(system_prompt="As of last year.", tools=TOOLS[1:], model="scripted/model")
        await house.store.agents.configure(mine.id, old)
        await builder(house).builder.open("ann")
        config = (await house.daemon.directory.at(PATH)).config
        assert (config.system_prompt, config.tools, config.model) == (prompt(), TOOLS, "scripted/model")


async def test_the_last_fifty_messages_are_shown(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        for number in range(SAID_MAX // 2 + 2):
            await house.talk(f"no {number}", path=PATH)
        said = await builder(house).builder.said("ann", SAID_MAX)
        assert len(said) == SAID_MAX
        assert (said[0].text, said[-2].text, said[-1].text) == ("no 2", "no 26", "echo: no 26")


async def test_what_is_said_to_be_missing_can_be_there(tmp_path: Path, autojump_clock: object) -> None:
    files = (ROOT / "plugins/web/plugin.py", ROOT / "plugins/slack/tools.py")
    outside = {name for file in files for name in re.findall(r'Tool\(\s*"(\w+)"', file.read_text())}
    async with built(tmp_path) as house:
        assert set(needs()) <= outside | {spec.name for spec in house.daemon.catalogue.known()}
        assert outside <= set(needs())


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:  # short: a Unix socket's address holds about 100 bytes
        yield Path(folder)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with opened(tmp_path) as found:
        yield found


def test_each_person_opens_their_own_and_without_a_model_it_says_so(network: Network) -> None:
    assert network.call("bob", "GET", "/v1/builder").json()["agent"] is None
    made = network.call("bob", "POST", "/v1/builder", {}).json()
    assert made["agent"]["path"] == "/bob/agent/builder"
    assert "needs a language model, and there is none yet" in made["lacking"]
    assert "diary" in made["templates"] and made["said"] == []
    assert code(network.call("bob", "POST", "/v1/builder", {"user": "ann"})) == "AGENT_UNKNOWN"
    assert code(network.call("operator", "POST", "/v1/builder", {"user": "zoe"})) == "USER_UNKNOWN"
    assert network.call("read", "POST", "/v1/builder", {}).status_code == 403
    told = network.call("bob", "POST", "/v1/messages", {"text": "/build", "wait_s": 20}).json()
    assert "/agents new NAME makes an agent of one" in told["result"]


def test_the_terminal_opens_it_says_what_it_lacks_and_goes_on(daycare: Daycare, home: Path) -> None:
    assert daycare("init", "--yes").returncode == 0
    with EmbeddedDaemon(home, work=True):
        first = daycare("agents", "build", stdin="my cat is called Miso\n")
        assert "Building by talking needs a language model" in first.stderr, first.stderr
        again = daycare("agents", "build", stdin="what is my cat called?\n")
        assert "Your cat is called Miso." in again.stdout
        user = json.loads(daycare("users", "--json").stdout)["users"][0]["id"]
        assert f"/{user}/agent/builder" in daycare("agents").stdout
