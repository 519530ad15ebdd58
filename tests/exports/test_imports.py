"""What an import lets live, and what it holds back."""

from pathlib import Path
from typing import Any, Final

import pytest
import trio

from daycare.base.consent import Consent
from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.base.path import Path as Address
from daycare.features.cron.rows import CronRows
from daycare.features.exports.engine import ExportProgress
from daycare.features.exports.names import Renaming
from daycare.features.exports.records import AgentRecord, Anything, DocumentRecord, TurnRecord
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Inbound
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon
from tests.exports.houses import (
    QUIET_S,
    WORK,
    exported,
    exports_of,
    files,
    house_at,
    imported,
    lived,
    of_kind,
    records,
)
from tests.exports.test_hostile import lines, packed, unpacked

BOBS = "/bob/agent/second"


def as_trusted(found: list[Anything]) -> list[DocumentRecord]:
    """Return documents of a twin as the first one has them."""
    back = Renaming("/ann/agent/twin", Address.parse(WORK, ()), trusted=True)
    renamed = [back.record(record, lambda place: place) for record in found]
    return [record for record in renamed if isinstance(record, DocumentRecord)]


async def soul(house: TestDaemon, path: str) -> str | None:
    """Return what an agent's prompts say of who it is."""
    agent = await house.daemon.directory.at(path)
    reading, _ = await house.daemon.memory.documents.approved(agent, "SOUL.md")
    return None if reading is None or reading.layer is not Layer.AGENT else reading.text


async def test_who_an_imported_agent_is_waits_for_a_persons_yes(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        report = await imported(house, life, BOBS)
        assert report.held == ("SOUL.md", "shared/USER.md")
        assert await soul(house, BOBS) is None
        agent = await house.daemon.directory.at(BOBS)
        [newest, _] = await house.store.of(DocumentRows).history(Place(Layer.AGENT, agent.id, "SOUL.md"))
        assert not newest.by.approved
        assert newest.by.provenance == ("export: written by direct:ann, approved by direct:ann",)
        assert newest.by.origin is Origin.PERSON, "where its words came from stays"


async def test_an_operator_may_stand_behind_it_at_once(tmp_path: Path, life: bytes, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        report = await imported(house, life, BOBS, approve=True)
        assert report.held == ()
        assert await soul(house, BOBS) == "I am careful and brief."
        agent = await house.daemon.directory.at(BOBS)
        [newest, first] = await house.store.of(DocumentRows).history(Place(Layer.AGENT, agent.id, "SOUL.md"))
        assert (newest.by.approver, first.by.approver) == ("direct:ann", ""), "it is the newest that was read"


async def test_a_clone_of_the_same_user_is_who_it_was(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        before = records((await exported(house))[1])
        report = await exports_of(house).clone(WORK, "/ann/agent/twin", progress=ExportProgress())
        assert report.held == ()
        assert await soul(house, "/ann/agent/twin") == "I am careful and brief."
        twins = records((await exported(house, "/ann/agent/twin"))[1])
        [job] = [job.path for job in await house.store.of(CronRows).find("ann") if job.path != "/ann/cron/twin"]
        assert job == "/ann/cron/news", "its job is there already, and stays the first one's"
        assert await house.talk("what is my favourite colour?", path="/ann/agent/twin")
    assert [record for record in before if isinstance(record, DocumentRecord)] == as_trusted(twins)


async def test_an_imported_agent_goes_on_where_it_was(tmp_path: Path, life: bytes, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await imported(house, life, BOBS)
        facts = {
            memory.text for memory in await house.store.of(MemoryRows).find("bob", Tier.FACT, living=False, limit=100)
        }
        assert "Ann's sister Clara lives in Bern" in facts
        assert await house.talk("who is my sister?", path=BOBS, user="bob")
        assert house.store.of(MemoryRows).alike("bob", ["bern"], postings_max=100, limit=10), (
            "its words are in the index"
        )
        reminders = house.events("turn.finished")
        await trio.sleep(QUIET_S)
        found = await house.store.of(MemoryRows).find("bob", Tier.FACT, living=False, limit=100)
        assert sorted(facts) == sorted(memory.text for memory in found), "nothing is learned once more"
        worker = await house.daemon.directory.find(f"{BOBS}/memory")
        assert worker is not None
        logged = [turn.turn for turn in await house.store.of(MemoryRows).unlogged(100)]
        assert logged == [], "what was said before is not logged once more"
        await trio.sleep(4 * 3_600)
        said = " ".join(str(event.get("reply")) for event in house.events("turn.finished")[len(reminders) :])
        assert "water the garden" in said, "its reminder came"


async def test_what_was_not_logged_before_is_logged_after_it_came(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.agent(WORK)
        await house.talk("I love green tea.", path=WORK)
        _, data = await exported(house)
        assert [turn.logged for turn in of_kind(data, TurnRecord)] == [False]
        await imported(house, data, BOBS)
        await trio.sleep(5)
        logged = await house.store.of(MemoryRows).find("bob", Tier.LOG, limit=10)
    assert [memory.text for memory in logged if memory.role == "user"] == ["I love green tea."]


async def test_what_was_taken_back_is_so_after_it_came(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        agent = await house.agent(WORK)
        await house.talk("I love green tee.", path=WORK)
        last = await house.store.turns.replaceable(agent)
        again = Inbound(
            connector="direct", sender="direct:ann", key="again", text="I love green tea.", path=WORK, instead=last or 0
        )
        await house.hear(await house.daemon.intake.accept(again))
        _, data = await exported(house)
        await imported(house, data, BOBS)
        twin = await house.daemon.directory.at(BOBS)
        said = await house.store.turns.history(twin.id, twin.session, 10)
    assert [message.text for message in said if message.role == "user"] == ["I love green tea."]


async def test_what_is_above_or_of_others_stays_where_it_is(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        await house.talk("I love cheese.", path="/ann/direct")
        await trio.sleep(QUIET_S)
        report, data = await exported(house)
        everything = "\n".join(map(str, records(data)))
        left = {each.what: each.count for each in report.left_out}
        assert "cheese" not in everything and left["memories of other agents"] >= 2
        assert "gardens" not in everything and left["shared documents"] >= 1
        _, shared = await exported(house, shared=True)
        assert "gardens" in "\n".join(map(str, records(shared)))


async def test_secrets_and_rights_are_in_no_export(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.agent(WORK, AgentConfig(approvals=Consent.AUTO, system_prompt="Be brief."))
        await house.store.secrets.put("openai", "ann", b"token-4711")
        await house.talk("hello", path=WORK)
        report, data = await exported(house)
        [agent] = of_kind(data, AgentRecord)
        assert agent.config.approvals is None
        assert agent.config.system_prompt == "Be brief."
        assert "setting `approvals`" in {each.what for each in report.left_out}
        assert "4711" not in "\n".join(map(str, records(data)))


async def test_open_work_is_left_out_and_counted(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        agent = await house.agent(WORK)
        await house.daemon.store.agents.set_state(agent.id, "parked", "too many crashes")
        await house.say("not answered", path=WORK)
        report, data = await exported(house)
        assert {each.what: each.count for each in report.left_out}["waiting messages"] == 1
        assert of_kind(data, TurnRecord) == []
        [root] = of_kind(data, AgentRecord)
        assert (root.state, root.reason) == ("parked", "too many crashes")


async def test_a_path_that_somebody_lives_at_or_below_is_refused(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await house.agent("/ann/agent/taken")
        with pytest.raises(ConflictError, match="/ann/agent/taken lives there"):
            await imported(house, life, "/ann/agent/taken")
        with pytest.raises(NotFoundError, match="no user carl"):
            await imported(house, life, "/carl/agent/x")
        with pytest.raises(InvalidError, match="nobody creates it"):
            await imported(house, life, "/ann/agent/taken/sub/0")
        with pytest.raises(InvalidError, match="telegrm"):
            await imported(house, life, "/ann/telegrm")
        assert await house.store.agents.find(user="bob") == []


async def test_a_dry_run_changes_nothing_and_tells_the_same(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await trio.sleep(1)  # what the making of the house tells of is written by then
        before = house.store._db.total_changes()
        planned = await imported(house, life, BOBS, dry_run=True)
        assert planned.dry_run and planned.agents == (BOBS, f"{BOBS}/memory", f"{BOBS}/sub/0", f"{BOBS}/sub/0/sub/0")
        assert house.store._db.total_changes() == before
        done = await imported(house, life, BOBS)
        assert (done.taken, done.held, done.agents) == (planned.taken, planned.held, planned.agents)


async def test_reminders_that_are_overdue_are_left_out_and_jobs_come_paused(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await trio.sleep(3_600)
        report = await imported(house, life, BOBS)
        assert {each.what: each.count for each in report.left_out}["reminders"] == 1
        [job] = await house.store.of(CronRows).find("bob")
        assert (job.path, job.paused, job.next_at, job.spec.target) == ("/bob/cron/news", True, None, BOBS)


async def test_shared_documents_come_only_where_there_are_none(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        by = Attribution(origin=Origin.PERSON, author="direct:bob")
        place = Place(Layer.USER, "bob", "USER.md")
        await house.store.of(DocumentRows).write(NewVersion(place=place, user="bob", by=by, text="Bob bakes."))
        report = await imported(house, life, BOBS)
        assert "shared documents" in {each.what for each in report.left_out}
        found = await house.store.of(DocumentRows).get(place)
        assert found is not None and found.text == "Bob bakes."


async def test_to_forget_a_turn_of_a_clone_is_to_forget_that_one(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        await exports_of(house).clone(WORK, "/ann/agent/twin", progress=ExportProgress())
        twin = await house.daemon.directory.at("/ann/agent/twin")
        _, data = await exported(house, "/ann/agent/twin")
        last = max(
            turn for (turn,) in house.store._reader.execute(
                "SELECT turn FROM history WHERE agent_id = ? AND unpacked(messages) LIKE '%read_result%'", (twin.id,)
            )
        )  # fmt: skip
        assert len(files(data)) == 2
        await house.store.of(MemoryRows).forget("ann", [], turns=[(twin.id, last)])
        assert b"very long" not in dict(files((await exported(house, "/ann/agent/twin"))[1])).get("[forgotten]", b"")
        first = (await exported(house))[1]
        assert dict(files(first))["search-2.txt"].startswith(b"very long"), "the first one has not forgotten"
        assert not any("[forgotten]" in str(turn.messages) for turn in records(first) if isinstance(turn, TurnRecord))


OLD: Final = {"username": "annie", "workspace": "/home/ann/work"}  # settings that nothing ever read


async def test_an_export_of_an_older_version_is_taken_without_the_settings_that_are_no_more(
    tmp_path: Path, life: bytes, autojump_clock: object
) -> None:
    def age(found: list[Any]) -> None:
        for number, agent in enumerate(found):
            agent["config"] |= OLD if number == 0 else {"username": "helper"}

    members = unpacked(life)
    lines("agents.jsonl", age)(members)
    async with house_at(tmp_path) as house:
        for dry_run in (True, False):
            report = await imported(house, packed(members), BOBS, dry_run=dry_run)
            left = {item.what: item.count for item in report.left_out if item.what.startswith("setting `")}
            assert left == {"setting `username`": len(report.agents), "setting `workspace`": 1}
        assert await house.talk("who is my sister?", path=BOBS, user="bob")
    strange = unpacked(life)
    lines("agents.jsonl", lambda found: found[0]["config"].update(nickname="annie"))(strange)
    async with house_at(tmp_path / "other") as house:
        with pytest.raises(InvalidError, match="unknown field `nickname`"):
            await imported(house, packed(strange), BOBS)
