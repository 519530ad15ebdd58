"""The skills of an agent, kept as its documents."""

from typing import Any

import pytest

from daycare.base.documents import Attribution, DocumentVersion, NewVersion, digest
from daycare.base.errors import StoreAwayError
from daycare.base.messages import Origin
from daycare.features.memory.documents import stored
from daycare.features.panels.skills import SkillText, read, write
from daycare.rules.skill_text import SKILL_DESCRIPTION_MAX_CHARS
from daycare.store.sqlite.writer import Tx
from tests.panels.conftest import Panels

SKILLS = "/v1/agents/{id}/skills"
NEW = {"name": "PDF Processing", "description": "Reads PDFs. Use for invoices.", "instructions": "# How\n\nLook at it."}
WRITTEN = '---\nname: "pdf-processing"\ndescription: "Reads PDFs. Use for invoices."\n---\n\n# How\n\nLook at it.\n'
FOREIGN = """---
# of the team
name: tone
license: MIT  # as ever
description: >
  Guidelines for
  mails.
allowed-tools: send_email draft_reply
metadata:
  name: inner
---

Be formal.
"""
BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")


async def text_of(panels: Panels, path: str) -> str:
    return (await panels.house.daemon.memory.documents.read(panels.scribe, path)).text


async def put(panels: Panels, path: str, text: str) -> None:
    await panels.house.daemon.memory.documents.write(panels.scribe, path, text, BY)


async def test_a_skill_is_made_listed_changed_and_deleted(panels: Panels) -> None:
    made = (await panels.call("POST", SKILLS, NEW, status=201))["skill"]
    assert set(made) == {"id", "name", "description", "instructions", "created_at", "updated_at"}
    assert (made["id"], made["name"]) == ("pdf-processing", "pdf-processing")
    assert await text_of(panels, "skills/pdf-processing.md") == WRITTEN
    assert (await panels.call("GET", SKILLS))["skills"] == [made]
    changed = (await panels.call("PUT", f"{SKILLS}/pdf-processing", {"instructions": "Ask first."}))["skill"]
    assert (changed["instructions"], changed["description"]) == ("Ask first.", made["description"])
    assert (changed["created_at"], changed["updated_at"] > made["updated_at"]) == (made["created_at"], True)
    gone = await panels.ask("DELETE", f"{SKILLS}/pdf-processing")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await panels.call("GET", SKILLS))["skills"] == []


async def test_a_skill_that_was_made_stands_in_the_prompt_with_its_description(panels: Panels) -> None:
    await panels.call("POST", SKILLS, NEW, status=201)
    await panels.house.talk("hello", path="/ann/agent/scribe")
    system = panels.house.model.history[-1].system
    assert "<skills>\npdf-processing: Reads PDFs. Use for invoices.\n</skills>" in system
    assert "Look at it." not in system, "its instructions are read when they are needed"


async def test_two_skills_of_one_name_are_a_conflict(panels: Panels) -> None:
    await panels.call("POST", SKILLS, NEW, status=201)
    await panels.refused(409, "SKILL_EXISTS", "POST", SKILLS, NEW)
    await panels.call("POST", SKILLS, NEW | {"name": "other"}, status=201)
    await panels.refused(409, "SKILL_EXISTS", "PUT", f"{SKILLS}/other", {"name": "pdf processing"})
    assert [each["id"] for each in (await panels.call("GET", SKILLS))["skills"]] == ["other", "pdf-processing"]


async def test_a_skill_moves_with_another_name(panels: Panels) -> None:
    await panels.call("POST", SKILLS, NEW, status=201)
    moved = (await panels.call("PUT", f"{SKILLS}/pdf-processing", {"name": "Invoices"}))["skill"]
    assert (moved["id"], moved["name"], moved["instructions"]) == ("invoices", "invoices", NEW["instructions"])
    assert [each["id"] for each in (await panels.call("GET", SKILLS))["skills"]] == ["invoices"]
    await panels.refused(404, "SKILL_UNKNOWN", "PUT", f"{SKILLS}/pdf-processing", {"name": "x"})


async def test_what_was_changed_meanwhile_is_not_overwritten(panels: Panels) -> None:
    made = await panels.ask("POST", SKILLS, NEW)
    tag, one = made.headers["etag"], f"{SKILLS}/pdf-processing"
    assert tag == f'"{digest(WRITTEN)}"'
    await panels.call("PUT", one, {"instructions": "theirs"}, headers={"If-Match": tag})
    await panels.refused(409, "DOCUMENT_CHANGED", "PUT", one, {"instructions": "mine"}, headers={"If-Match": tag})
    await panels.refused(409, "DOCUMENT_CHANGED", "DELETE", one, headers={"If-Match": tag})
    assert (await panels.call("GET", SKILLS))["skills"][0]["instructions"] == "theirs"


async def test_a_skill_that_cannot_be_moved_stays_and_is_nowhere_else(
    panels: Panels, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await panels.ask("POST", SKILLS, NEW)
    one, tag = f"{SKILLS}/pdf-processing", made.headers["etag"]
    await panels.call("PUT", one, {"instructions": "theirs"}, headers={"If-Match": tag})
    await panels.refused(409, "DOCUMENT_CHANGED", "PUT", one, {"name": "invoices"}, headers={"If-Match": tag})
    assert [each["id"] for each in (await panels.call("GET", SKILLS))["skills"]] == ["pdf-processing"]
    written, at = stored.write, []

    def write(tx: Tx, new: NewVersion) -> DocumentVersion:
        at.append(new.place.name)
        if len(at) == 2:
            raise StoreAwayError("STORE_FULL", "writing: the disk is full")
        return written(tx, new)

    monkeypatch.setattr(stored, "write", write)
    await panels.refused(503, "STORE_FULL", "PUT", one, {"name": "invoices"})
    assert at == ["skills/pdf-processing.md", "skills/invoices.md"]
    assert [each["id"] for each in (await panels.call("GET", SKILLS))["skills"]] == ["pdf-processing"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_skill_that_is_not_there_is_404(panels: Panels, method: str) -> None:
    for id_ in ("none", "Upper", "%2E%2E", "a.b.c"):
        await panels.refused(404, "SKILL_UNKNOWN", method, f"{SKILLS}/{id_}", {} if method == "PUT" else None)
    await panels.refused(404, "AGENT_UNKNOWN", method, "/v1/agents/ann.agent.none/skills/x", {})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": ""}, "SKILL_NAME"),
        ({"name": "päper"}, "SKILL_NAME"),
        ({"name": "../../etc"}, "SKILL_NAME"),
        ({"name": "x" * 65}, "SKILL_NAME"),
        ({"name": "con"}, "MEMORY_PATH_INVALID"),
        ({"description": " \n"}, "SKILL_DESCRIPTION"),
        ({"description": "x" * (SKILL_DESCRIPTION_MAX_CHARS + 1)}, "SKILL_DESCRIPTION"),
        ({"instructions": "\n"}, "SKILL_INSTRUCTIONS"),
        ({"instructions": "x" * (100 * 1024)}, "DOCUMENT_TOO_LARGE"),
        ({"instructions": "a\0b"}, "DOCUMENT_TEXT"),
        ({"instructions": 7}, "BODY_INVALID"),
        ({"more": 1}, "BODY_INVALID"),
    ],
)
async def test_a_skill_that_is_none_is_refused_and_nothing_is_made(panels: Panels, change: Any, code: str) -> None:
    await panels.refused(400, code, "POST", SKILLS, NEW | change)
    assert (await panels.call("GET", SKILLS))["skills"] == []
    if code != "BODY_INVALID":
        await panels.call("POST", SKILLS, NEW, status=201)
        await panels.refused(400, code, "PUT", f"{SKILLS}/pdf-processing", change)
        assert await text_of(panels, "skills/pdf-processing.md") == WRITTEN


async def test_other_fields_stay_as_they_stood(panels: Panels) -> None:
    await put(panels, "skills/mail/tone.md", FOREIGN)
    [found] = (await panels.call("GET", SKILLS))["skills"]
    assert (found["id"], found["name"], found["instructions"]) == ("mail.tone", "tone", "Be formal.")
    assert found["description"] == "Guidelines for mails."
    await panels.call("PUT", f"{SKILLS}/mail.tone", {"description": 'Say "Dear": always.'})
    expected = FOREIGN.replace("name: tone\n", 'name: "tone"\n', 1)
    expected = expected.replace(
        "description: >\n  Guidelines for\n  mails.\n", 'description: "Say \\"Dear\\": always."\n'
    )
    assert await text_of(panels, "skills/mail/tone.md") == expected


async def test_a_skill_without_fields_has_its_files_name_and_first_line(panels: Panels) -> None:
    await put(panels, "skills/tea.md", "# Make tea\n\nBoil water.\n")
    [found] = (await panels.call("GET", SKILLS))["skills"]
    assert (found["name"], found["description"]) == ("tea", "Make tea")
    await panels.call("PUT", f"{SKILLS}/tea", {"description": "For guests"})
    assert (await text_of(panels, "skills/tea.md")).endswith("---\n\n# Make tea\n\nBoil water.\n")


async def test_skills_that_others_share_are_no_skills_of_this_agent(panels: Panels) -> None:
    await put(panels, "shared/skills/tea.md", "Boil water.")
    assert (await panels.call("GET", SKILLS))["skills"] == []
    await panels.refused(404, "SKILL_UNKNOWN", "DELETE", f"{SKILLS}/tea")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n",
        "---\n---\n",
        "---\nname: [\n---\nx",
        "---\nname: {a: 1}\ndescription: [x]\n---\nx",
        "---\n- a\n---\nx",
        "---\na: &a [x]\nb: [*a, *a]\n---\nx",
        "---\r\nname: tea\r\ndescription: cup\r\n---\r\nx\r\n",
        "---\nname: " + "[" * 5_000 + "\n---\nx",
        "---\nname: x\n" + "y: z\n" * 5_000 + "---\nx",
        "no fence\n---\nname: x\n---\n",
    ],
)
def test_whatever_stands_there_can_be_read_and_written_over(text: str) -> None:
    found = read(text, "tea")
    assert found.name and isinstance(found.description, str)
    again = read(write(text, SkillText("tea", 'it is: "hot" # really', "Boil.")), "other")
    assert again == SkillText("tea", 'it is: "hot" # really', "Boil.")
