"""Agents made of templates from the command line, and over the network."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.features.agents.templates import names, template
from daycare.process import EmbeddedDaemon
from daycare.rules.document_paths import SOUL
from tests.cli.conftest import Daycare
from tests.network.conftest import Network, opened
from tests.network.test_callers import code


def test_an_agent_of_a_template_is_made_and_one_is_told_what_to_do_next(daycare: Daycare, home: Path) -> None:
    assert daycare("init", "--yes").returncode == 0
    user = json.loads(daycare("users", "--json").stdout)["users"][0]["id"]
    path = f"/{user}/agent/evening"
    with EmbeddedDaemon(home, work=True):
        assert daycare("agents", "templates").stdout.count("\n") > len(names())
        shown = daycare("agents", "templates", "diary").stdout
        assert template("diary").documents[SOUL].strip() in shown
        made = daycare("agents", "create", path, "--from", "diary", "description=evenings")
        assert made.returncode == 0, made.stderr
        assert f"created {path} from diary, with SOUL.md and STYLE.md" in made.stdout
        command = next(line for line in made.stdout.splitlines() if "daycare cron add " in line)
        assert f"evening '0 21 * * *' 'Ask me in one sentence how the day was.' --target {path}" in command
        again = daycare("agents", "create", path, "--from", "diary")
        assert (again.returncode, "there is one" in again.stderr) == (5, True)
        wrong = daycare("agents", "create", f"{path}2", "--from", "diary", "policy=followup")
        assert (wrong.returncode, "policy is set afterwards" in wrong.stderr) == (2, True)
        unknown = daycare("agents", "create", f"{path}2", "--from", "dairy")
        assert (unknown.returncode, "did you mean diary?" in unknown.stderr) == (3, True)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with opened(tmp_path) as found:
        yield found


def test_programs_make_agents_of_templates_and_are_told_what_is_missing(network: Network) -> None:
    listed = network.call("ann", "GET", "/v1/templates").json()["templates"]
    assert [each["name"] for each in listed] == list(names())
    where = {"path": "/bob/agent/finder", "description": "finds"}
    made = network.call("operator", "POST", "/v1/templates/research", where)
    assert made.status_code == 201
    assert made.json()["agent"]["config"] == {"description": "finds", "personality": "professional"}
    assert made.json()["template"]["missing"] == ["web_search", "web_fetch"]
    shown = network.locally("GET", "/v1/memory/document", agent="/bob/agent/finder", path=SOUL)
    assert shown["text"] == template("research").documents[SOUL]
    for refused, wish, name in (
        ("AGENT_EXISTS", where, "research"),
        ("TEMPLATE_UNKNOWN", where, "reserch"),
        ("USER_UNKNOWN", {"path": "/zoe/agent/x"}, "research"),
        ("AGENT_KIND", {"path": "/bob/app/x"}, "research"),
        ("PERSONALITY_UNKNOWN", {"path": "/bob/agent/x", "personality": "grumpy"}, "research"),
    ):
        assert code(network.call("operator", "POST", f"/v1/templates/{name}", wish)) == refused
    assert network.call("bob", "POST", "/v1/templates/diary", {"path": "/bob/agent/x"}).status_code == 404
