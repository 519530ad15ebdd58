"""A person who is removed is gone from every table and every byte, and nobody else has lost anything."""

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing

from daycare.base.cron import CronSpec
from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import ForbiddenError, NotFoundError
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.base.messages import Origin
from daycare.config import Config
from daycare.features.backups.backup_store import name_of
from daycare.features.cron.model import NewCronJob
from daycare.features.cron.rows import CronRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.ops.purging import look, purge
from daycare.store.home import Home
from daycare.store.records import User
from daycare.store.sqlite import copies
from daycare.store.sqlite.store import Store
from daycare.testing.clock import patient_clock
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.backup.homes import Death, dies, numbers, rows, tree
from tests.backup.samples import everything, leave, tables
from tests.backup.test_upgrade import each_statement
from tests.store.samples import HandClock

CONFIG = Config(memory=MemorySection(ingestion=IngestionSection(idle_minutes=1)))  # answered by rules
NUMBERS = {"inbox": "seq", "outbox": "seq", "turns": "turn", "files": "id", "documents": "no"}
QUIET_S = 500.0  # until workers have looked at what was said
ANN = ("My sister Clara lives in Bern.", "My favourite colour is teal.")
BEN = ("My brother Zanzibarquokka lives in Trondheimfjord.", "Remember that my locker code is xylophage4711.")
MIA = ("My cat is called Quetzalpfote.",)
SUMS = (
    "budget_sums",
    "model_sums",
    "reservations",
    "spending",
    "living_documents",
)  # they agree, and are tested
SECRET = (
    "zanzibarquokka",
    "trondheimfjord",
    "xylophage",
    "quetzalpfote",
    "brombeerfeld",
    "grimmelshausen",
    "telegram:424242",
)


async def talked(house: TestDaemon, user: str, said: tuple[str, ...]) -> None:
    for text in said:
        await house.talk(text, user=user)
        await trio.sleep(QUIET_S)


async def lived(house: TestDaemon) -> None:
    """Let two people, and one whom the second has let in, leave rows in most tables."""
    store = house.store
    await store.people.add(User(id="ben", name="Ben", keys=("direct:ben", "telegram:424242")))
    await store.people.add(User(id="mia", name="Mia", parent="ben", keys=("direct:mia",)))
    await talked(house, "ann", ANN)
    await talked(house, "ben", BEN)
    await talked(house, "mia", MIA)
    await talked(house, "ben", ("remind me in 3 days to call grimmelshausen",))
    for user in ("ann", "ben"):
        place = Place(Layer.USER, user, "USER.md")
        by = Attribution(origin=Origin.PERSON, author=f"direct:{user}", approver=f"direct:{user}", reason="set up")
        for text in ("There is a Brombeerfeld.", "There is a Brombeerfeld behind the house."):
            words = text if user == "ben" else "Nothing to see."
            await store.of(DocumentRows).write(NewVersion(place=place, user=user, by=by, text=words))
        await store.files.put(f"f:{user}", user, Origin.FILE, f"{user}.txt", "text/plain", f"file of {user}".encode())
        spec = CronSpec(cron="30 7 * * *", prompt="news of Trondheimfjord" if user == "ben" else "news")
        await store.of(CronRows).add(
            NewCronJob(path=f"/{user}/cron/news", user=user, source="cli", source_ref="", spec=spec, next_at=None)
        )
        await house.daemon.budgeting.controls.put(f"/{user}", {"day.usd": 5_000_000})
    await store.intake.remember("telegram", "lid:9", "424242")
    await store.intake.remember("telegram", "cursor", "424242")
    await trio.sleep(QUIET_S)
    await house.talk("/new", user="ben")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which ann, ben and mia have lived; not to be changed."""
    folder = tmp_path_factory.mktemp("life") / "home"
    folder.mkdir(mode=0o700)

    async def live() -> None:
        async with open_daemon(folder, config=CONFIG, location="daycare.db", curates=True) as house:
            await lived(house)

    trio.run(live, clock=patient_clock())
    (folder / "daycare.log").write_text(
        '{"event": "turn.finished", "path": "/ben/direct", "user": "ben"}\n'
        '{"event": "turn.finished", "path": "/ann/direct", "user": "ann"}\n'
        '{"event": "turn.finished", "path": "/benedict/direct", "user": "benedict"}\n'
    )
    for name in ("users/ben/USER.md", "agents/ben.direct/NOTES.md", "users/ann/USER.md", "agents/ann.direct/NOTES.md"):
        file = folder / "memory" / name
        file.parent.mkdir(parents=True)
        file.write_text("Brombeerfeld" if "ben" in name else "nothing")
    return folder


@pytest.fixture
def home(life: Path, tmp_path: Path) -> Home:
    copied = tmp_path / "home"
    copied.mkdir(mode=0o700)
    for name, data in tree(life).items():
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        (copied / name).write_bytes(data)
        (copied / name).chmod(0o600)
    copies.copy(str(life / "daycare.db"), tmp_path / "db", pause=False)
    (tmp_path / "db").replace(copied / "daycare.db")
    return Home(copied)


def told(home: Home) -> list[str]:
    """Return which of ben's and mia's words are in any byte of a home."""
    found = []
    for name in (*tree(home.path), "daycare.db-wal", "daycare.db-shm"):
        file = home.path / name
        data = file.read_bytes().lower() if file.exists() else b""
        found += [f"{word} in {name}" for word in SECRET if word.encode() in data]
    return found


def test_before_it_their_words_are_there(home: Home) -> None:
    assert {each.split()[0] for each in told(home)} == set(SECRET)
    assert any("memory/" in each for each in told(home))


def test_a_purged_person_is_in_no_byte_of_the_home(home: Home) -> None:
    person = look(home, "ben")
    assert person.users == ("ben", "mia") and set(person.roots) == {"/ben", "/mia", "/ben/subuser/mia"}
    assert person.counts["messages"] >= 4 and person.counts["scheduled jobs"] == 1
    done = purge(home, "ben", 1_900_000_000_000)
    assert told(home) == []
    for name in (
        "messages",
        "turns",
        "memories",
        "versions of documents",
        "scheduled jobs",
        "accounts",
        "budgets",
        "files",
    ):
        assert done.removed[name] >= 1, name
    assert (done.removed["shared files"], done.removed["lines of the log"]) == (2, 1)
    database = home.path / "daycare.db"
    assert copies.examine(database).counts["people"] == 1
    assert rows(database, "PRAGMA foreign_key_check") == [] and rows(database, "SELECT * FROM forgetting") == []
    left = {
        name: [row for row in found if re.search(r"\b(ben|mia)\b", row)] for name, found in everything(database).items()
    }
    assert {name: found for name, found in left.items() if found} == {}
    assert rows(database, "SELECT value FROM connector_memory WHERE name = 'cursor'") == [("424242",)]
    assert sorted(each for each in tree(home.path) if "memory/" in each) == [
        "memory/agents/ann.direct/NOTES.md",
        "memory/users/ann/USER.md",
    ]


def test_of_each_table_that_can_be_somebodys_a_purge_leaves_no_row(home: Home) -> None:
    """Also of those in which the people of these tests have left nothing."""
    database = home.path / "daycare.db"
    [(agent,)] = rows(database, "SELECT id FROM agents WHERE path = '/ben/direct'")
    of = {"user": "ben", "agent_id": agent, "path": "/ben/direct", "payer": "/ben"}
    with closing(apsw.Connection(str(database))) as db:
        left = [name for name in tables(db) if name not in SUMS and leave(db, name, of, "xylophage4712")]
    before = {name: sum("xylophage4712" in row for row in found) for name, found in everything(database).items()}
    assert all(before[name] for name in ("summaries", "steps", "dead_letters", "tasks", "signals", "approvals")), left
    purge(home, "ben", 1_900_000_000_000)
    words = re.compile(rf"xylophage|\b(ben|mia)\b|{agent}")
    found = {name: [row for row in found if words.search(row)] for name, found in everything(database).items()}
    assert {name: found for name, found in found.items() if found} == {}
    assert told(home) == []


def test_nobody_else_loses_a_row(home: Home) -> None:
    before = everything(home.path / "daycare.db")
    purge(home, "ben", 1_900_000_000_000)
    after = everything(home.path / "daycare.db")
    for name, found in before.items():
        others = [row for row in found if '"ann"' in row]
        assert [row for row in after[name] if '"ann"' in row] == others, name
        if name not in ("memory_logged", "memory_words_data", "agents"):
            assert len(after[name]) >= len(others)
    assert len(before["history"]) > len(after["history"]) > 0


def test_life_goes_on_after_it_under_new_numbers(home: Home) -> None:
    database = home.path / "daycare.db"
    newest = {table: rows(database, f"SELECT max({number}) FROM {table}")[0][0] for table, number in NUMBERS.items()}
    purge(home, "ben", 1_900_000_000_000)

    async def go_on() -> None:
        async with open_daemon(home.path, config=CONFIG, location="daycare.db", curates=True) as house:
            house.counter = 1_000  # else keys of before come again
            assert "teal" in await house.talk("What is my favourite colour?")
            assert "Bern" in await house.talk("Where does my sister live?")
            await house.store.people.add(User(id="ben", name="Another Ben", keys=("direct:ben",)))
            assert "purple" not in await house.talk("What is my favourite colour?", user="ben")
            await talked(house, "ben", ("My favourite colour is purple.",))
            assert "purple" in await house.talk("What is my favourite colour?", user="ben")
            agent = await house.daemon.directory.at("/ben/direct")
            assert (await house.store.inbox.waiting(agent.id)) == []

    trio.run(go_on, clock=patient_clock())
    for table, number in NUMBERS.items():
        [(first,)] = rows(database, f"SELECT min({number}) FROM {table} WHERE user = 'ben'")
        assert int(str(first or 10**9)) > int(str(newest[table])), f"{table} gives a number twice"


def test_killed_at_any_statement_it_is_all_there_or_gone(home: Home, tmp_path: Path) -> None:
    whole = copies.examine(home.path / "daycare.db")
    kills = {True: 0, False: 0}
    for n in numbers(23):
        place = Home(tmp_path / f"h{n}")
        place.path.mkdir()
        copies.copy(str(home.path / "daycare.db"), place.path / "daycare.db", pause=False)

        def attempt(place: Home = place, n: int = n) -> None:
            with each_statement(Death(n)):
                purge(place, "ben", 1)

        if not dies(attempt):
            break
        gone = rows(place.path / "daycare.db", "SELECT 1 FROM users WHERE id = 'ben'") == []
        kills[gone] += 1
        if gone:
            Store(str(place.path / "daycare.db"), HandClock(), inline=True).shut()
            assert told(place) == [], "the next opening overwrites what is left"
        else:
            assert copies.examine(place.path / "daycare.db").counts == whole.counts
    assert kills[False] >= 3


def test_operators_and_unknown_people_are_refused(home: Home) -> None:
    with pytest.raises(ForbiddenError) as refused:
        purge(home, "ann", 1)
    assert refused.value.code == "PURGE_OPERATOR"
    with pytest.raises(NotFoundError):
        purge(home, "nobody", 1)


def test_whom_somebody_has_let_in_can_go_alone(home: Home) -> None:
    done = purge(home, "mia", 1)
    assert done.users == ("mia",)
    assert {each.split()[0] for each in told(home) if "memory/" not in each} == {*SECRET} - {"quetzalpfote"}


def test_what_still_names_them_is_told(home: Home) -> None:
    backup = home.path / "backups" / name_of(1_800_000_000_000, scheduled=False)
    backup.parent.mkdir()
    backup.write_bytes(b"")
    snapshot = home.path / "daycare.db.before-0007"
    snapshot.write_bytes(b"")
    home.cron.mkdir()
    (home.cron / "b.md").write_text("---\nuser: ben\n---\n")
    home.config.write_text('[cron.x]\ncron = "@daily"\nprompt = "x"\ndeliver = "/ben/direct"\n')
    done = purge(home, "ben", 1)
    assert set(done.copies) == {str(backup), str(snapshot)}
    assert done.named == (f"{home.config}:4", f"{home.cron / 'b.md'}:2")
