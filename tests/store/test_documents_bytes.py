"""What versions of documents cost on the disk, and which of them are kept."""

import random
from pathlib import Path
from typing import Final

import pytest

from daycare.base.documents import Attribution, DocumentVersion, Layer, NewVersion, Place, digest
from daycare.base.messages import Origin
from daycare.features import open_store, rows
from daycare.features.memory.documents.index import reindex_documents
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.versions import DAYS_KEPT, NEWEST_KEPT
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import User
from daycare.store.sqlite.purging import purge
from daycare.store.sqlite.store import Store
from tests.budgets.test_migration import of_version
from tests.chance import SEED
from tests.store.samples import HandClock, end, new_agent, post
from tests.store.test_approvals import MEMORY, agent, approve, request, wish
from tests.store.test_memories_bytes import shown

LOG: Final = Place(Layer.AGENT, "a1", "daily/2027-01-01.md")
NOTE: Final = Place(Layer.AGENT, "a1", "knowledge/note.md")
BY: Final = Attribution(origin=Origin.AGENT, author="/ann/telegram")
DAY_MS: Final = 86_400_000
WORDS: Final = ("the", "cat", "sat", "on", "a", "mat", "and", "looked", "at", "it", "for", "long")


def line(number: int) -> str:
    """Return a line of 100 characters."""
    words = random.Random(number).choices(WORDS, k=30)
    return f"- {number:05} {' '.join(words)}"[:99] + "\n"


async def add(store: Store, text: str, place: Place = LOG, by: Attribution = BY, key: str = "") -> DocumentVersion:
    return await store.of(DocumentRows).append(NewVersion(place=place, user="ann", by=by, text=text, key=key))


async def write(store: Store, text: str | None, place: Place = NOTE, by: Attribution = BY) -> DocumentVersion:
    return await store.of(DocumentRows).write(NewVersion(place=place, user="ann", by=by, text=text))


async def says(store: Store, place: Place, version: int) -> str | None:
    found = await store.of(DocumentRows).at(place, version)
    assert found is not None
    return found.text


async def versions(store: Store, place: Place) -> list[int]:
    return [each.version for each in await store.of(DocumentRows).history(place, limit=10_000)]


async def thinned(store: Store) -> int:
    """Let upkeep go on until nothing is left to do; return how many rows that took."""
    rows = 0
    while many := await store.of(DocumentRows).thin():
        rows += many
    return rows


async def size_of_log(tmp_path: Path, lines: int) -> int:
    """Return how many bytes a database with a log of so many lines has."""
    file = tmp_path / f"{lines}.db"
    async with open_store(str(file), HandClock(), inline=True) as store:
        for number in range(lines):
            await add(store, line(number))
        log = await store.of(DocumentRows).get(LOG)
        assert log is not None and log.text == "".join(map(line, range(lines)))
        middle = (lines + 1) // 2
        assert await says(store, LOG, middle) == "".join(map(line, range(middle)))
    return file.stat().st_size


async def test_a_log_takes_the_space_of_its_lines(tmp_path: Path) -> None:
    empty, half, whole = [await size_of_log(tmp_path, lines) for lines in (1, 200, 400)]
    print(f"1 line: {empty} bytes, 200: {half}, 400: {whole}")
    assert whole - half < 1.5 * (half - empty), "twice the lines, twice the bytes"


async def test_every_version_says_what_it_always_said_whatever_was_thinned(store: Store, clock: HandClock) -> None:
    """Random changes over half a year, compared with a plain list of the texts."""
    print(f"SEED={SEED}")
    rng = random.Random(SEED)
    said: dict[int, str | None] = {}
    made: dict[int, tuple[int, Attribution]] = {}
    now: str | None = None
    for number in range(400):
        clock.ms += rng.randrange(DAY_MS)
        origin = rng.choices([Origin.AGENT, Origin.PERSON, Origin.FILE, Origin.FORWARD], [20, 20, 1, 1])[0]
        by = Attribution(origin=origin, author="/ann/telegram", approver=rng.choice(("", "direct:ann")))
        match rng.randrange(10):
            case 0 if now is not None:
                written, now = await write(store, None, by=by), None
            case 1 | 2:
                now = line(number)
                written = await write(store, now, by=by)
            case 3 if now is not None:
                written = await store.of(DocumentRows).undo(NewVersion(place=NOTE, user="ann", by=by))
                found = await store.of(DocumentRows).get(NOTE)
                now = found.text if found else None
            case _:
                written = await add(store, line(number), NOTE, by)
                now = (now or "") + line(number)
        said[written.version], made[written.version] = now, (clock.ms, written.by)
        if rng.randrange(30) == 0:
            await thinned(store)
    assert await thinned(store) > 0
    assert await store.of(DocumentRows).thin() == 0, "what was looked at is looked at again when it grows"
    left = await versions(store, NOTE)
    assert {each: await says(store, NOTE, each) for each in left} == {each: said[each] for each in left}
    found = await store.of(DocumentRows).get(NOTE)
    assert (found.text if found else None) == now
    assert left[:NEWEST_KEPT] == sorted(said, reverse=True)[:NEWEST_KEPT]
    kinds = {(by.origin, by.approved): version for version, (_, by) in sorted(made.items())}
    assert set(kinds.values()) <= set(left), "the newest of whom is to be asked about"
    days = {at_ms // DAY_MS: version for version, (at_ms, _) in sorted(made.items())}
    recent = [version for day, version in days.items() if clock.ms // DAY_MS - day < DAYS_KEPT]
    assert set(recent) <= set(left), "the last of each day"
    months = DAYS_KEPT // 30 + 7
    assert len(left) <= NEWEST_KEPT + DAYS_KEPT + months + len(kinds)


async def test_what_is_searched_is_found_by_the_words_that_are_left(tmp_path: Path) -> None:
    scopes = [(Layer.AGENT, "a1")]
    async with open_store(str(tmp_path / "daycare.db"), HandClock(), inline=True) as store:
        await add(store, "lentils\n", NOTE)
        for number in range(60):
            await add(store, line(number), NOTE)
        await thinned(store)
        assert [found.version.version for found in store.of(DocumentRows).search(scopes, ["lentils"])] == [61]
        await write(store, "beans")
        assert store.of(DocumentRows).search(scopes, ["lentils"]) == []
        assert [found.text for found in store.of(DocumentRows).search(scopes, ["beans"])] == ["beans"]
        assert _indexed(store) == 1


def _indexed(store: Store) -> int:
    """Return in how many documents the index knows any words."""
    store._db.execute("INSERT INTO documents_text (documents_text) VALUES ('integrity-check')")
    store._db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, documents_text, instance)")
    [(many,)] = store._db.execute("SELECT count(DISTINCT doc) FROM temp.terms").fetchall()
    store._db.execute("DROP TABLE temp.terms")
    return int(str(many))


async def test_what_a_request_or_an_open_turn_refers_to_stays(store: Store) -> None:
    asking = await agent(store)
    await post(store, "a")
    turn = await store.turns.begin(asking, await store.inbox.waiting(asking.id))
    for number in range(40):
        await add(store, line(number), MEMORY)
    asked = await request(store, wish(verb="append", place=MEMORY, base_hash=await _hash(store)))
    approved = await approve(store, asked)
    key = f"{asking.id}:{turn.turn}:3"
    mine = await add(store, "a line of a turn that was interrupted\n", MEMORY, key=key)
    await add(store, "what was there when somebody asked\n", MEMORY)
    pending = await request(store, wish("2:1", verb="append", place=MEMORY, base_hash=await _hash(store)))
    for number in range(100):
        await add(store, line(number), MEMORY)
    await thinned(store)
    left = await versions(store, MEMORY)
    assert approved.version is not None and len(left) < 50
    assert {approved.version - 1, approved.version, mine.version} <= set(left)
    assert pending.base_hash in {each.hash for each in await store.of(DocumentRows).history(MEMORY, limit=1_000)}
    assert (await add(store, "once more", MEMORY, key=key)).version == mine.version
    before = await store.of(DocumentRows).before(MEMORY, approved.version)
    assert before is not None and before.version.version == approved.version - 1
    await store.turns.finish(asking, turn, end(turn))
    await add(store, "and on\n", MEMORY)
    await thinned(store)
    assert mine.version not in await versions(store, MEMORY), "nobody asks for it any more"


async def _hash(store: Store) -> str:
    found = await store.of(DocumentRows).get(MEMORY)
    assert found is not None
    return found.version.hash


async def test_logs_of_earlier_versions_of_daycare_stay_readable_and_shrink_in_bites(tmp_path: Path) -> None:
    """400 lines, each version with the whole log, as they were written until migration 12."""
    file, clock = tmp_path / "daycare.db", HandClock()
    db = of_version(file, 11)
    texts = ["".join(map(line, range(count))) for count in range(1, 401)]
    for number, text in enumerate(texts, 1):
        columns = "layer, owner, name, version, user, origin, author, approver, reason, provenance, key, scope"
        base = digest(texts[number - 2]) if number > 1 else ""
        db.execute(
            f"INSERT INTO documents ({columns}, hash, base_hash, size, created_at, text) VALUES ('agent', 'a1', ?, ?,"
            " 'ann', 'agent', '/ann/telegram', '', '', '[]', '', 'agent613130', ?, ?, ?, ?, ?)",
            (LOG.name, number, digest(text), base, len(text), clock.ms, text),
        )
    db.execute(
        "INSERT INTO living_documents (layer, owner, name, user, origin, no, size)"
        " SELECT layer, owner, name, user, origin, no, size FROM documents WHERE version = 400"
    )
    db.execute("INSERT INTO documents_text (rowid, scope, name, text) SELECT no, scope, name, text FROM documents WHERE"
               " version = 400")  # fmt: skip
    [(before,)] = db.execute("SELECT sum(octet_length(text)) FROM documents").fetchall()
    db.close()
    async with open_store(str(file), clock, inline=True) as store:
        found = await store.of(DocumentRows).get(LOG)
        assert found is not None and found.text == texts[-1]
        assert await says(store, LOG, 7) == texts[6]
        bites = []
        while many := await store.of(DocumentRows).thin():
            bites.append(many)
            assert await says(store, LOG, 400) == texts[-1]
        assert len(bites) > 2 and max(bites) <= 500, "no commit is long"
        [(after,)] = store._db.execute("SELECT sum(octet_length(text)) FROM documents").fetchall()
        assert int(str(before)) > 7_000_000 and after == len(texts[-1])
        left = await versions(store, LOG)
        assert (len(left), left[-1]) == (NEWEST_KEPT + 1, 1), "and the first, which says since when it is there"
        assert {each: await says(store, LOG, each) for each in left} == {each: texts[each - 1] for each in left}
        await add(store, "one more\n")
        assert await says(store, LOG, 401) == texts[-1] + "one more\n"


async def test_forgetting_reaches_what_was_added_and_leaves_the_rest_readable(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        for text in ("one\n", "two\n", "it is qzsecretq\n", "four\n", "five\n"):
            await add(store, text, NOTE)
        await write(store, "one\ntwo\nfour\nfive\n")
        assert shown(tmp_path, ["qzsecretq"]) == ["qzsecretq"]
        # Of the versions that had it the middle one first, as nobody promises an order.
        gone = await store.of(MemoryRows).forget("ann", [], versions=[(NOTE, number) for number in (4, 3, 5)])
        assert gone.versions == 3
        assert shown(tmp_path, ["qzsecretq"]) == []
        texts = [await says(store, NOTE, number) for number in range(1, 7)]
        hidden = "[forgotten]"
        assert texts == ["one\n", "one\ntwo\n", hidden, hidden, hidden, "one\ntwo\nfour\nfive\n"]
        for number in range(50):
            await add(store, line(number), NOTE)
        await thinned(store)
        assert await says(store, NOTE, 56) == "one\ntwo\nfour\nfive\n" + "".join(map(line, range(50)))
    assert shown(tmp_path, ["qzsecretq"]) == []


async def test_forgetting_one_version_leaves_what_stands_upon_it(store: Store) -> None:
    for text in ("one\n", "two\n", "three\n"):
        await add(store, text, NOTE)
    await store.of(MemoryRows).forget("ann", [], versions=[(NOTE, 1)])
    texts = [await says(store, NOTE, number) for number in (1, 2, 3)]
    assert texts == ["[forgotten]", "one\ntwo\n", "one\ntwo\nthree\n"]
    await add(store, "four\n", NOTE)
    assert await says(store, NOTE, 4) == "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize("deleted", [False, True])
async def test_an_agent_that_ended_leaves_no_part_of_its_documents(tmp_path: Path, deleted: bool) -> None:
    clock = HandClock()
    async with open_store(str(tmp_path / "daycare.db"), clock, inline=True) as store:
        mine = await store.agents.create(new_agent())
        log = Place(Layer.AGENT, mine.id, LOG.name)
        for number in range(60):
            await add(store, f"{line(number)} qzlogq", log)
        if deleted:
            await write(store, None, log)
        await add(store, "another's")  # whose row is the newest
        await store.agents.set_state(mine.id, "dead")
        clock.ms += 10 * DAY_MS
        for _ in range(20):
            await store.upkeep.expire_agents(clock.ms)
        assert await versions(store, log) == []
        assert store._db.execute("SELECT count(*) FROM documents_grown").fetchall() == [(0,)]
        assert _indexed(store) == 1, "that of the other"
        assert await says(store, LOG, 1) == "another's"


async def test_a_purge_and_a_new_index_know_the_whole_of_what_was_added_to(tmp_path: Path) -> None:
    file = str(tmp_path / "daycare.db")
    places = {user: Place(Layer.USER, user, "knowledge/note.md") for user in ("u1", "u2")}
    async with open_store(file, HandClock(), inline=True) as store:
        for user, place in places.items():
            await store.people.add(User(id=user, name=user))
            for text in (f"qzfirst{user}q\n", f"qzsecond{user}q\n"):
                await store.of(DocumentRows).append(NewVersion(place=place, user=user, by=BY, text=text))
    reindex_documents(file)
    async with open_store(file, HandClock(), inline=True) as store:
        for word in ("qzfirstu2q", "qzsecondu2q"):
            assert len(store.of(DocumentRows).search([(Layer.USER, "u2")], [word])) == 1
    assert purge(file, "u2", 0, rows())["versions of documents"] == 2
    words = ["qzfirstu2q", "qzsecondu2q"]
    assert shown(tmp_path, words) == []
    async with open_store(file, HandClock(), inline=True) as store:
        assert _indexed(store) == 1 and await says(store, places["u1"], 2) == "qzfirstu1q\nqzsecondu1q\n"
