"""Agents are made of templates: with documents that a person stands behind, and with no right their maker has not."""

import re
from pathlib import Path

from daycare.base.documents import Layer
from daycare.features.agents.templates import EMPTY, names, template
from daycare.features.memory.documents.rows import DocumentRows
from daycare.rules.document_paths import SOUL, STYLE, parse
from tests.agent.test_permanent import attempt, house_of

USES = {"coder", "diary", "empty", "household", "inbox", "research"}
WORDS_MAX_CHARS = 2_000
LINE_MAX_CHARS = 120
ROOT = Path(__file__).parents[2]


def test_there_is_a_template_for_each_use_and_the_empty_one_comes_last() -> None:
    assert set(names()) == USES
    assert names()[-1] == EMPTY


async def test_templates_speak_of_tools_that_there_are(tmp_path: Path, autojump_clock: object) -> None:
    web = (ROOT / "plugins/web/plugin.py").read_text()  # whose tools are there once they are configured
    async with house_of(tmp_path) as house:
        known = {spec.name for spec in house.daemon.catalogue.known()}
        known |= set(re.findall(r'StructTool\(\s*"(\w+)"', web))
        for of in map(template, names()):
            assert set(of.needs) <= known, of.name
            assert list(of.documents) == [SOUL, STYLE]
            assert len(of.words) < WORDS_MAX_CHARS
            assert all(len(line) <= LINE_MAX_CHARS for line in of.words.splitlines())
            for path in re.findall(r"[\w/]+\.md", of.words):
                parse(path.replace("TOPIC", "topic"))
            assert {job.when.count(" ") for job in of.jobs} <= {4}
            assert not of.personality or of.personality in house.daemon.personalities.names()


async def test_an_agent_of_a_template_has_its_words_in_its_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        told = await house.talk("/agents new diary")
        assert told.startswith("/ann/agent/diary is there.")
        await house.talk("I am tired", path="/ann/agent/diary")
        prompt = house.model.history[-1].system
        assert f"<soul>\n{template('diary').documents[SOUL].strip()}\n</soul>" in prompt
        assert f"<style>\n{template('diary').documents[STYLE].strip()}\n</style>" in prompt
        agent = await house.daemon.directory.at("/ann/agent/diary")
        [soul, style] = await house.store.of(DocumentRows).find(Layer.AGENT, agent.id)
        assert {soul.by.approver, style.by.approver} == {"direct:ann"}


async def test_one_is_told_what_a_template_counts_on_and_an_agent_has_not(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_of(tmp_path) as house:
        told = await house.talk("/agents new coder bob")
        assert "does not have here: file_read, file_write, file_edit, shell." in told
        assert "/use bob" in told
        assert "does not have" not in await house.talk("/agents new household")


async def test_a_template_there_is_not_and_a_name_that_is_taken_are_told(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_of(tmp_path) as house:
        assert "did you mean diary?" in await house.talk("/agents new dairy")
        await house.talk("/agents new diary")
        assert "there is one" in await house.talk("/agents new diary")
        assert "templates" in (await house.talk("/agents new")).lower()


async def test_what_an_agent_makes_of_a_template_are_its_own_words_and_no_documents(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_of(tmp_path) as house:
        wish = {"name": "log", "template": "diary", "prompt": "Ask at noon."}
        assert (await attempt(house, "agent_create", wish)).startswith("created /ann/agent/log")
        agent = await house.daemon.directory.at("/ann/agent/log")
        assert agent.config.system_prompt == f"{template('diary').words}\n\nAsk at noon."
        assert await house.store.of(DocumentRows).find(Layer.AGENT, agent.id) == []
        assert "say who it is" in await attempt(house, "agent_create", {"name": "nobody"})
