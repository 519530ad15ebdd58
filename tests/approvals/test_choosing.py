"""`/approvals auto`, `session`, `always`: a person chooses for their own conversation, and nobody for a group."""

from pathlib import Path

import pytest

from daycare.base.consent import CHANGES, ApprovalRule, ApprovalsSection, Consent, chosen
from daycare.base.limits import GRANT_MAX_S
from daycare.base.messages import Origin
from daycare.features.approvals.rows import ApprovalRows
from daycare.store.records import User
from tests.approvals.story import ANN, say
from tests.approvals.story import Scene as Room
from tests.tools.scene import Scene, append, scene_of, settings

ASKS = "I ask for each change of what I remember."
ONCE = "I ask for a change of what I remember once in a conversation."


async def test_session_asks_once_in_a_conversation(autojump_clock: object, tmp_path: Path) -> None:
    async with scene_of(tmp_path, settings()) as scene:
        assert ONCE in await choose(scene, "session")
        assert "proposed" in (await scene.ask(append("- a\n")))[0]
        await scene.approve(1)
        assert "done" in (await scene.ask(append("- b\n")))[0]
        [outside] = await scene.ask(append("- c\n"), text="x", origin=Origin.FORWARD)
        assert "proposed" in outside, "what comes from outside is asked for, whatever was chosen"
        assert ASKS in await choose(scene, "always")
        assert "proposed" in (await scene.ask(append("- d\n")))[0]


async def test_auto_lasts_a_day(autojump_clock: object, scene: Room) -> None:
    said = await say(scene.house, "1", "/approvals auto")
    assert said.startswith(
        "For 24 hours what I ask for is approved at once, unless it is suspicious. After that: I ask"
    )
    [grant] = await scene.house.store.of(ApprovalRows).grants(scene.agent.id)
    assert (grant.kind, grant.by, grant.user) == ("memory", "pigeon:ann", "ann")
    assert grant.until <= scene.calendar.now_ms() + round(1000 * GRANT_MAX_S)
    assert ASKS in await say(scene.house, "2", "/approvals always")
    [grant] = await scene.house.store.of(ApprovalRows).grants(scene.agent.id)
    assert grant.until <= scene.calendar.now_ms(), "the day is over"


async def test_auto_is_never_for_identity_nor_for_what_comes_from_outside_or_is_suspicious(
    autojump_clock: object, tmp_path: Path
) -> None:
    async with scene_of(tmp_path, settings()) as scene:
        await choose(scene, "auto")
        assert "is approved already" in (await scene.ask(append("- a\n")))[0]
        identity = ("identity_propose", {"path": "SOUL.md", "text": "calm", "reason": "r"})
        assert "proposed" in (await scene.ask(identity))[0]
        assert "proposed" in (await scene.ask(append("- write to a@example.org\n")))[0]
        assert "proposed" in (await scene.ask(append("- b\n"), text="x", origin=Origin.FORWARD))[0]


async def test_what_is_chosen_is_shown_and_outlives_the_conversation(autojump_clock: object, scene: Room) -> None:
    assert ASKS in await say(scene.house, "1", "/approvals")
    assert ONCE in await say(scene.house, "2", "/approvals SESSION")
    await say(scene.house, "3", "/new")
    assert ONCE in await say(scene.house, "4", "/approvals")
    assert ASKS in await say(scene.house, "5", "/approvals default")
    assert "Which one?" in await say(scene.house, "6", "/approvals never")


async def test_nobody_chooses_for_a_group_or_for_others(autojump_clock: object, scene: Room) -> None:
    people = scene.house.store.people
    await people.add(User(id="club", name="Club", kind="group", keys=("pigeon:-42",)))
    await people.add(User(id="ben", name="Ben", keys=("pigeon:ben",)))
    for sender in ("pigeon:ann", "pigeon:ben", "pigeon:-42"):
        for word in ("auto", "session"):
            said = await say(
                scene.house,
                f"{sender}{word}",
                f"/approvals {word}",
                sender=sender,
                chat="pigeon:-42",
                origin=Origin.GROUP,
            )
            assert "in a chat of your own" in said.lower()
    assert "I ask for" not in await say(scene.house, "x", "/approvals", chat="pigeon:-42", origin=Origin.GROUP)
    club = await scene.house.agent("/club/pigeon")
    assert club.config.approvals is None and await scene.house.store.of(ApprovalRows).grants(club.id) == []
    with pytest.raises(Exception, match="a group's requests are asked for"):
        await scene.house.daemon.approvals.auto(club, "memory", 1, ANN)


@pytest.mark.parametrize("policy", [None, *Consent])
def test_a_rule_stays_where_it_is_stricter(policy: Consent | None) -> None:
    rules = {
        "strict": ApprovalRule(policy=Consent.ALWAYS, documents="knowledge"),
        "lax": ApprovalRule(policy=Consent.AUTO, documents="skills", tools=(*CHANGES, "memory_append_daily")),
    }
    section = ApprovalsSection(memory_write=Consent.SESSION, rules=rules)
    found = chosen(section, policy)
    if policy is None:
        assert found is section
        return
    assert {found.of(tool) for tool in CHANGES} == {policy}
    assert found.memory_append_daily is Consent.AUTO, "the log is none of it"
    assert found.rules["strict"] == rules["strict"]
    kept = rules["lax"].tools if policy is Consent.AUTO else ("memory_append_daily",)
    assert found.rules["lax"].tools == kept


async def choose(scene: Scene, word: str) -> str:
    scene.said += 1
    return await say(scene.house, f"said-{scene.said}", f"/approvals {word}")
