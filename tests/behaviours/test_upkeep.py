"""The daemon's own agents: what `/system/gc` deletes and what it leaves, and what `/system/health` tells."""

from pathlib import Path

import apsw
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.connector import Health
from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import DaycareError, ForbiddenError, UnavailableError
from daycare.base.messages import Origin
from daycare.base.path import Kind
from daycare.base.permission import MESSAGE, Decision
from daycare.features import open_store
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.upkeep.service import EXPIRE_EVERY_S
from daycare.plugin import Inbound
from daycare.store.postgres import schema
from daycare.store.records import User
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.behaviours.helpers import Counting, app, plugin
from tests.chance import commits

Clock = trio.testing.MockClock
DAY_S = 86_400.0


async def rows_of(house: TestDaemon, agent_id: str) -> dict[str, int]:
    """Return how many rows each table has of an agent."""
    db = house.store._db
    found: dict[str, int] = {}
    for table, facts in schema.tables().items():
        if "agent_id" in facts.columns:
            [(many,)] = db.execute(f"SELECT count(*) FROM {table} WHERE agent_id = ?", (agent_id,)).fetchall()
            found[table] = int(str(many))
    [(documents,)] = db.execute("SELECT count(*) FROM documents WHERE owner = ?", (agent_id,)).fetchall()
    [(agents,)] = db.execute("SELECT count(*) FROM agents WHERE id = ?", (agent_id,)).fetchall()
    found |= {"documents": int(str(documents)), "agents": int(str(agents))}
    return {table: many for table, many in found.items() if many}


async def write(house: TestDaemon, agent_id: str, text: str) -> None:
    """Let an agent have a document."""
    place = Place(Layer.AGENT, agent_id, "MEMORY.md")
    by = Attribution(origin=Origin.PERSON, author="ann")
    await house.store.of(DocumentRows).write(NewVersion(place=place, user="ann", text=text, by=by))


async def lives_and_dies(house: TestDaemon, path: str = "/ann/agent/gone") -> str:
    """Let an agent talk, use a tool, have a document, and end; return its id."""
    agent = await house.agent(path)
    house.model.enqueue(call(("current_time", {})), say("it is late"))
    await house.talk("what time is it? the word is xylophone", path=path)
    await write(house, agent.id, "the word is marimba")
    await write(house, agent.id, "the word is vibraphone")
    await trio.sleep(5)
    await house.store.agents.set_state(agent.id, "dead", "ended by the operator")
    return agent.id


async def test_what_a_dead_agent_had_is_gone_after_the_retention_and_nothing_else(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    wall, model = VirtualClock(), Scripted(default=echo)
    async with open_daemon(tmp_path, model, plugins=[plugin(Counting())], location="daycare.db", clock=wall) as house:
        kept = await house.agent("/ann/agent/kept")
        await house.talk("the word is xylophone", path=kept.path)
        await write(house, kept.id, "one")
        gone = await lives_and_dies(house)
        it = await app(house, "counting")
        await house.talk("hello", path=it)
        dead_app = await house.daemon.directory.at(it)
        await house.store.agents.set_state(dead_app.id, "dead", "ended by the operator")
        await write(house, kept.id, "two")
        before = await rows_of(house, kept.id)
        wall.sleep(29 * DAY_S)
        await house.talk("now", path="/system/gc")
        assert (await rows_of(house, gone))["history"] == 1
        await house.store.agents.revive("/ann/agent/gone", wall.now_ms() - 30 * 86_400_000)
        await house.store.agents.set_state(gone, "dead", "ended again")
        await house.talk("hello", path=kept.path)
        wall.sleep(31 * DAY_S)
        assert "rows of agents that have ended" in await house.talk("now", path="/system/gc")
        assert await rows_of(house, gone) == {} and await rows_of(house, dead_app.id) == {}
        after = await rows_of(house, kept.id)
        assert (after["turns"], after["history"]) == (before["turns"] + 1, before["history"] + 1)
        assert (after["documents"], after["agents"]) == (2, 1)
        with pytest.raises(DaycareError, match="restoring /ann/agent/gone: none is kept"):
            await house.store.agents.revive("/ann/agent/gone", 0)
        db = house.store._db
        if isinstance(db, apsw.Connection):
            assert list(db.execute("PRAGMA integrity_check")) == [("ok",)]
            db.execute("INSERT INTO documents_text (documents_text) VALUES ('integrity-check')")
        vibraphone = (
            "documents_text MATCH 'vibraphone'" if isinstance(db, apsw.Connection) else "'vibraphon' = ANY(text)"
        )
        found = db.execute(f"SELECT count(*) FROM documents_text WHERE {vibraphone}").fetchall()
        assert found == [(0,)]


async def test_one_that_ended_too_long_ago_is_not_restored(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=wall) as house:
        await lives_and_dies(house)
        wall.sleep(31 * DAY_S)
        with pytest.raises(DaycareError, match="restoring /ann/agent/gone: it ended too long ago"):
            await house.store.agents.revive("/ann/agent/gone", wall.now_ms() - 30 * 86_400_000)


async def test_one_whose_helper_lives_stays(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=wall) as house:
        agent = await house.agent("/ann/agent/gone")
        child = await house.daemon.directory.spawn(agent, Kind.SUB, origin=Origin.AGENT)
        house.store._db.execute("UPDATE agents SET state = 'dead', ended_at = 0 WHERE id = ?", (agent.id,))
        assert await house.store.upkeep.expire_agents(wall.now_ms()) == 0
        await house.store.agents.set_state(child.id, "dead", "ended")
        wall.sleep(1 * DAY_S)
        while await house.store.upkeep.expire_agents(wall.now_ms()):
            pass
        assert await house.store.agents.get(agent.id) is None and await house.store.agents.get(child.id) is None


async def test_a_crash_at_any_commit_of_a_round_is_harmless(
    tmp_path_factory: pytest.TempPathFactory, autojump_clock: Clock
) -> None:
    for n in commits(4):
        folder = tmp_path_factory.mktemp("home")
        wall = VirtualClock()
        async with open_daemon(folder, Scripted(default=echo), location="daycare.db", clock=wall) as house:
            gone = await lives_and_dies(house)
            await house.talk("hello")
            other = await house.agent("/ann/agent/other")
            await write(house, other.id, "later")
        struck = await live(folder, Scripted(default=echo), Doom(n), _round, clock=wall)
        if struck:
            await live(folder, Scripted(default=echo), Doom(), _round, clock=wall)
        async with open_daemon(folder, location="daycare.db", clock=wall, work=False) as house:
            assert await rows_of(house, gone) == {}, n
            assert (await rows_of(house, other.id))["documents"] == 1
            assert await house.store.dead.find() == []
        if not struck:
            break
    assert n > 4


async def _round(house: TestDaemon) -> None:
    """Make a round 40 days later; one that a crash has left over comes before it, and cannot know of its 40 days."""
    assert isinstance(house.daemon.clock, VirtualClock)
    house.daemon.clock.sleep(40 * DAY_S)
    await house.talk("now", key=f"gc:{house.daemon.clock.now_ms()}", path="/system/gc")


async def test_messages_do_not_wait_for_a_round(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=wall) as house:
        for number in range(200):
            agent = await house.agent(f"/ann/agent/a{number}")
            await house.talk("hello", path=agent.path)
            await house.store.agents.set_state(agent.id, "dead", "")
        await house.talk("hello")
        wall.sleep(35 * DAY_S)
        receipt = await house.say("now", path="/system/gc")
        late, asked = 0.0, 0
        while (await house.store.inbox.receipt(receipt.seq)).state == "waiting":  # type: ignore[union-attr]
            began = trio.current_time()
            await house.talk("are you there?")
            late, asked = max(late, trio.current_time() - began), asked + 1
            await trio.sleep(0.3)
        assert late < 0.1 and asked > 4


async def test_rounds_come_by_themselves_and_tell_what_they_deleted(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), clock=wall) as house:
        await lives_and_dies(house)
        await house.talk("hello")
        assert await house.talk("?", path="/system/gc") == "I have not made a round yet."
        await trio.sleep(120)
        assert (await house.talk("?", path="/system/gc")).startswith("Deleted: nothing.")
        wall.sleep(40 * DAY_S)
        await trio.sleep(EXPIRE_EVERY_S)
        assert "rows of agents that have ended" in await house.talk("?", path="/system/gc")
        gc = await house.store.agents.at("/system/gc")
        assert gc is not None and (await rows_of(house, gc.id))["turns"] == 2  # those before have expired


async def test_the_file_becomes_small_again(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="daycare.db", clock=wall) as house:
        for number in range(12):
            data = bytes(4_000_000)
            await house.store.files.put(f"f{number}", "ann", Origin.PERSON, "f", "application/pdf", data)
        await house.store.files.put("last", "ann", Origin.PERSON, "f", "application/pdf", b"x")
        wall.sleep(31 * DAY_S)
        assert "were given back" in await house.talk("now", path="/system/gc")
        space = await house.store.upkeep.space()
        assert space.shrinks and 16_000_000 < space.bytes < 25_000_000
        assert "were given back" in await house.talk("vacuum", path="/system/gc")
        assert (await house.store.upkeep.space()).bytes < 6_000_000


async def test_a_disk_without_room_for_a_copy_is_told_of(
    tmp_path: Path, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, location="daycare.db") as house:
        monkeypatch.setattr("shutil.disk_usage", lambda _: _Disk(free=1_000))
        with pytest.raises(UnavailableError, match=r"it needs .* MB of the disk") as refused:
            await house.store.upkeep.rewrite()
        assert refused.value.code == "VACUUM_NO_ROOM"
        assert "Problem: rewriting the database" in await house.talk("vacuum", path="/system/gc")


async def test_room_is_looked_for_where_the_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine both are on one disk, so what each of them is asked for is taken for two."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    disks = {temporary: 1_000, tmp_path: 1_000_000_000}
    monkeypatch.setattr("shutil.disk_usage", lambda folder: _Disk(free=disks[Path(folder)]))
    monkeypatch.setattr("daycare.store.sqlite.upkeep._disk", str)
    async with open_store(str(tmp_path / "daycare.db")) as store:
        with pytest.raises(UnavailableError, match=f"of the disk of {temporary}"):
            await store.upkeep.rewrite()
        disks[temporary] = 1_000_000_000
        await store.upkeep.rewrite()
        disks[tmp_path] = 1_000
        with pytest.raises(UnavailableError, match=f"of the disk of {tmp_path} "):
            await store.upkeep.rewrite()


class _Disk:
    def __init__(self, free: int) -> None:
        self.free = free


async def test_the_operator_is_told_once_and_again_when_it_is_good(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo)) as house:
        await house.talk("hello")
        host = house.daemon.host
        host.report("direct", Health(state="stalled", reason="nothing moves"))
        assert "connectors: direct is stalled: nothing moves" in await house.talk("?", path="/system/health")
        await trio.sleep(240)
        assert house.events("notice") == []
        await trio.sleep(2 * 3_600)
        [notice] = house.events("notice")
        assert notice["user"] == "ann" and "direct is stalled: nothing moves" in str(notice["text"])
        host.report("direct", Health(state="up"))
        await trio.sleep(3_600)
        [_, good] = house.events("notice")
        assert str(good["text"]).startswith("Good again: ")
        await trio.sleep(3_600)
        assert len(house.events("notice")) == 2


async def test_what_comes_and_goes_is_not_told(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo)) as house:
        await house.talk("hello")
        for _ in range(20):
            house.daemon.host.report("direct", Health(state="away"))
            await trio.sleep(200)
            house.daemon.host.report("direct", Health(state="up"))
            await trio.sleep(100)
        assert house.events("notice") == []


async def test_what_was_told_is_known_after_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    wall = VirtualClock()
    async with open_daemon(tmp_path, Scripted(default=echo), location="daycare.db", clock=wall) as house:
        await house.talk("hello")
        house.daemon.host.report("direct", Health(state="away"))
        await trio.sleep(1_000)
        assert len(house.events("notice")) == 1
    async with open_daemon(tmp_path, Scripted(default=echo), location="daycare.db", clock=wall) as house:
        house.daemon.host.report("direct", Health(state="away"))
        await trio.sleep(1_000)
        assert house.events("notice") == []
        house.daemon.host.report("direct", Health(state="up"))
        await trio.sleep(1_000)
        assert [str(each["text"])[:11] for each in house.events("notice")] == ["Good again:"]


async def test_a_report_names_what_went_wrong(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo)) as house:
        parked = await house.agent("/ann/agent/parked")
        await house.store.agents.set_state(parked.id, "parked", "too many crashes")
        found = {each.name: each for each in await house.daemon.health.report()}
        assert not found["parked agents"].ok and found["parked agents"].text == "/ann/agent/parked"
        assert found["store"].ok and found["models"].ok and found["messages"].ok


async def test_only_operators_may_write_to_the_daemons_own_agents(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo)) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        for path in ("/system/gc", "/system/health"):
            with pytest.raises(ForbiddenError) as refused:
                await house.say("?", path=path, user="ben")
            assert refused.value.code == "OPERATORS_ONLY"
            for subject in ("/ann/direct", "/ben/direct", "/ann/agent/x"):
                verdict = await house.daemon.permissions.may(subject, MESSAGE, path)
                assert verdict.decision is Decision.DENY
        stranger = Inbound(connector="direct", sender="direct:eve", key="1", text="?", path="/system/gc")
        with pytest.raises(ForbiddenError):
            await house.daemon.intake.accept(stranger)
        with pytest.raises(DaycareError):
            await house.say("?", path="/system/nobody")


async def test_the_answer_of_a_system_agent_goes_back_to_who_asked(tmp_path: Path, autojump_clock: Clock) -> None:
    async with open_daemon(tmp_path, Scripted(default=echo)) as house:
        await house.talk("?", path="/system/health")
        [row] = await house.store.outbox.unread("/system/health")
        assert (row.connector, row.target) == ("direct", "ann")
        assert replace(row, text="").state == "waiting"
