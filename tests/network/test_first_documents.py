"""A new installation has a short SOUL and STYLE for all agents, a new agent its own; nobody's words are overwritten."""

from collections.abc import Iterator

import pytest

from daycare.agent import tokens
from daycare.features.agents.templates import EMPTY, template
from daycare.rules.document_paths import SOUL, STYLE
from tests.network.conftest import Network, opened
from tests.network.test_callers import code

FIRST = template(EMPTY).documents
SHORT_TOKENS = 150  # both together: they stand in each prompt


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with opened(tmp_path_factory.mktemp("first")) as found:
        yield found


def said(network: Network, path: str, agent: str) -> str:
    return str(network.locally("GET", "/v1/memory/document", agent=agent, path=path)["text"])


def own(network: Network, agent: str) -> dict[str, str]:
    listed = network.locally("GET", "/v1/memory", agent=agent)["documents"]
    return {each["path"]: said(network, each["path"], agent) for each in listed if each["layer"] == "agent"}


def make(network: Network, path: str, **more: object) -> dict[str, str]:
    network.locally("POST", "/v1/agents", {"path": path, **more})
    return own(network, path)


def write(network: Network, agent: str, path: str, text: str, base: str) -> None:
    network.locally("PUT", "/v1/memory/document", {"text": text, "base_hash": base}, agent=agent, path=path)


def test_they_are_there_from_the_beginning_and_short(network: Network) -> None:
    for name, text in FIRST.items():
        assert said(network, f"global/{name}", "/ann/direct").strip() == text.strip()
    assert sum(map(tokens.of_text, FIRST.values())) < SHORT_TOKENS


def test_a_new_agent_has_its_own_or_those_that_it_is_given(network: Network) -> None:
    assert make(network, "/ann/agent/plain") == FIRST
    assert make(network, "/ann/agent/given", documents={SOUL: "Mine."}) == {SOUL: "Mine.", STYLE: FIRST[STYLE]}
    assert code(network.call("operator", "POST", "/v1/agents", {"path": "/ann/app/x", "documents": {SOUL: "x"}})) in (
        "AGENT_DOCUMENTS",
        "BEHAVIOUR_UNKNOWN",
    )


def test_what_is_written_for_all_agents_is_not_covered_up(network: Network) -> None:
    assert make(network, "/bob/agent/first") == FIRST
    write(network, "/bob/agent/first", f"shared/{SOUL}", "All of bob's.", "")
    assert make(network, "/bob/agent/scribe") == {STYLE: FIRST[STYLE]}
    assert said(network, SOUL, "/bob/agent/scribe") == "All of bob's."
    there = network.locally("GET", "/v1/memory/document", agent="/ann/direct", path=f"global/{STYLE}")
    write(network, "/ann/direct", f"global/{STYLE}", "Everybody's.", there["hash"])
    assert make(network, "/bob/agent/second") == {}
