"""What other assistants keep is taken over whole, once, and shown before; nothing of theirs is written."""

import json
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.documents import Layer, Place
from daycare.base.errors import BusyError, ConflictError, InvalidError, NotFoundError
from daycare.features import open_store
from daycare.features.cron.rows import CronRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.signals.rows import SignalRows
from daycare.features.skills.rows import SkillApprovalRows
from daycare.ops.importers.report import ImportItem, ImportReport, lines
from daycare.ops.importers.running import ImportRequest, dry_run, migrate
from daycare.store.home import Home, HomeLock
from daycare.store.records import User
from daycare.store.sqlite.store import Store
from daycare.store.vault import open_vault
from tests.importers.homes import (
    ANTHROPIC_KEY,
    BOT_TOKEN,
    OPENAI_KEY,
    PATHS,
    SECRETS,
    TELEGRAM,
    clock,
    daycare_ts,
    daycare_ts_files,
    daycare_ts_rows,
    fingerprint,
    hermes,
    openclaw,
    openclaw_tables,
    ours,
    put,
)

BESIDE = ("daycare.lock", "daycare.db-wal", "daycare.db-shm")
MAKERS: dict[str, Callable[[Path], Path]] = {
    "openclaw": lambda root: openclaw_tables(openclaw(root)),
    "hermes": hermes,
    "daycare-ts": daycare_ts,
}


def wish(product: str, path: Path, **more: Any) -> ImportRequest:
    fields: dict[str, Any] = {"me": (TELEGRAM,), "history": True, **more}
    return ImportRequest(product=product, path=path, **fields)


def came(report: ImportReport, what: str) -> dict[str, ImportItem]:
    return {item.target or item.source: item for item in report.items if item.what == what}


def of(report: ImportReport, source: str) -> ImportItem:
    return next(item for item in report.items if item.source.startswith(source))


def with_store(home: Home, work: Callable[[Store], Any]) -> Any:
    async def run() -> Any:
        async with open_store(home.database("daycare.db"), clock()) as store:
            return await work(store)

    return trio.run(run)


def text_of(home: Home, path: str, name: str) -> str | None:
    """Return a document of the agent at a path, or of a user, or of all."""

    async def work(store: Store) -> str | None:
        agent = await store.agents.at(path) if path.count("/") > 1 else None
        place = Place(Layer.AGENT, agent.id, name) if agent else Place(Layer.USER, path.strip("/"), name)
        found = await store.of(DocumentRows).get(place if path else Place(Layer.GLOBAL, "", name))
        return found.text if found else None

    found: str | None = with_store(home, work)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return ours(tmp_path / "home")


@pytest.mark.parametrize("product", MAKERS)
def test_a_dry_run_tells_what_comes_of_it_and_writes_nothing(product: str, home: Home, tmp_path: Path) -> None:
    source = MAKERS[product](tmp_path / "source")
    before = fingerprint(home.path), fingerprint(source)
    planned = dry_run(home, wish(product, source), clock=clock())
    after = {name: facts for name, facts in fingerprint(home.path).items() if name not in BESIDE}
    assert (after, fingerprint(source)) == ({k: v for k, v in before[0].items() if k not in BESIDE}, before[1])
    done = migrate(home, wish(product, source), clock=clock())
    assert [(each.what, each.outcome, each.target) for each in planned.items] == [
        (each.what, each.outcome, each.target) for each in done.items
    ]
    assert fingerprint(source) == before[1], "the source was written"


@pytest.mark.parametrize("product", MAKERS)
def test_a_second_import_takes_nothing_twice(product: str, home: Home, tmp_path: Path) -> None:
    source = MAKERS[product](tmp_path / "source")
    first = migrate(home, wish(product, source), clock=clock())
    last = with_store(home, lambda store: store.of(DocumentRows).last())
    again = migrate(home, wish(product, source), clock=clock())
    assert first.counts["taken"] + first.counts["changed"] > 5
    assert [each for each in again.items if each.outcome in ("taken", "changed")] == []
    assert again.counts["there"] == first.counts["taken"] + first.counts["changed"] + first.counts["there"]
    assert with_store(home, lambda store: store.of(DocumentRows).last()) == last


@pytest.mark.parametrize("product", MAKERS)
def test_no_secret_is_in_any_report(product: str, home: Home, tmp_path: Path) -> None:
    source = MAKERS[product](tmp_path / "source")
    put(source, {"workspace/TOOLS.md": f"the key is {OPENAI_KEY}", "memories/MEMORY.md": f"token {BOT_TOKEN}"})
    for keys in (False, True):
        done = migrate(home, wish(product, source, with_keys=keys), clock=clock())
        shown = json.dumps(done.document()) + "\n".join(lines(done.document())) + Path(done.file).read_text()
        assert [secret for secret in SECRETS if secret in shown] == []
        assert stat.S_IMODE(Path(done.file).stat().st_mode) == 0o600
    assert "telegram" in dry_run(ours(tmp_path / "other"), wish(product, source), clock=clock()).keys


def test_with_keys_they_are_in_the_vault(home: Home, tmp_path: Path) -> None:
    migrate(home, wish("openclaw", openclaw(tmp_path / "source"), with_keys=True), clock=clock())
    vault = open_vault(home.key_file)

    async def opened(store: Store) -> dict[str, str]:
        return {name: vault.open(store.secrets.get(name) or b"") for name, _ in await store.secrets.find()}

    assert with_store(home, opened) == {"telegram": BOT_TOKEN, "openai": OPENAI_KEY, "anthropic": ANTHROPIC_KEY}


def test_a_key_of_ours_stays(home: Home, tmp_path: Path) -> None:
    vault = open_vault(home.key_file)
    with_store(home, lambda store: store.secrets.put("openai", "ann", vault.seal("mine")))
    migrate(home, wish("openclaw", openclaw(tmp_path / "source"), with_keys=True), clock=clock())
    assert vault.open(with_store(home, lambda store: _secret(store, "openai"))) == "mine"


async def _secret(store: Store, name: str) -> bytes:
    return store.secrets.get(name) or b""


def test_a_backup_is_made_before(home: Home, tmp_path: Path) -> None:
    from tests.backup.homes import contents

    done = migrate(home, wish("hermes", hermes(tmp_path / "source")), clock=clock())
    assert "daycare.db" in contents(Path(done.backup))
    assert b"ocarina" not in contents(Path(done.backup))["daycare.db"]


# -- the products ------------------------------------------------------------------------------------------------------


def test_openclaw_comes_with_identity_memory_agents_and_words(home: Home, tmp_path: Path) -> None:
    source = MAKERS["openclaw"](tmp_path / "source")
    done = migrate(home, wish("openclaw", source), clock=clock())
    assert "patient lobster" in (text_of(home, "/ann", "SOUL.md") or "")
    assert "plays the viola" in (text_of(home, "/ann", "USER.md") or "")
    assert "Name: Clawd" in (text_of(home, "", "IDENTITY.md") or "")
    assert "Zephyrine" in (text_of(home, "/ann/telegram", "MEMORY.md") or "")
    assert "quincetree" in (text_of(home, "/ann/telegram", "daily/2026-01-31.md") or "")
    assert "larchwood" in (text_of(home, "/ann", "knowledge/garden-plans.md") or "")
    assert "write minutes" in (text_of(home, "/ann/agent/work", "SOUL.md") or "")
    assert text_of(home, "/ann/telegram", "daily/2026-02-03.md") == (
        "# 2026-02-03\n\n- 10:00 Ann: Where is the xylophone?\n- 10:00 assistant: In the attic.\n"
    )
    assert "zinnia" in (text_of(home, "/ann/telegram", "daily/2026-03-01.md") or "")
    assert done.settings[:2] == ("[agent]", 'name = "Clawd"')
    assert set(done.held) >= {"/ann shared/SOUL.md", "/ann/agent/work SOUL.md"}


def test_nobody_stands_behind_who_somebody_is_unless_the_owner_says_so(home: Home, tmp_path: Path) -> None:
    source = openclaw(tmp_path / "source")

    async def approved(store: Store) -> tuple[bool, bool]:
        soul = await store.of(DocumentRows).get(Place(Layer.USER, "ann", "SOUL.md"))
        assert soul is not None
        by = soul.version.by
        assert (by.author, by.origin, by.provenance) == (
            "migrate-from openclaw", "file", ("import openclaw workspace/SOUL.md",)
        )  # fmt: skip
        return by.approved, by.by_person

    migrate(home, wish("openclaw", source), clock=clock())
    assert with_store(home, approved) == (False, False)
    again = migrate(home, wish("openclaw", source, approve=True), clock=clock())
    assert of(again, "workspace/SOUL.md").notes == ("you stand behind it from now on",) and again.held == ()
    assert with_store(home, approved) == (True, False)
    again = migrate(home, wish("openclaw", source, approve=True), clock=clock())
    assert of(again, "workspace/SOUL.md").outcome == "there"
    other = ours(home.path.with_name("other"))
    assert migrate(other, wish("openclaw", source, approve=True), clock=clock()).held == ()
    assert with_store(other, approved) == (True, False)


def test_hermes_comes_with_memories_profiles_and_people(home: Home, tmp_path: Path) -> None:
    done = migrate(home, wish("hermes", hermes(tmp_path / "source")), clock=clock())
    assert text_of(home, "/ann/telegram", "MEMORY.md") == (
        "# Memory\n\n- The server runs Debian 12\n- Project heron uses Rust\n  and sqlx\n"
    )
    assert "vegetarian" in (text_of(home, "/ann", "USER.md") or "")
    assert "nextest" in (text_of(home, "/ann/agent/coder", "MEMORY.md") or "")
    words = text_of(home, "/ann/telegram", "daily/2026-02-02.md") or ""
    assert "ocarina" in words
    assert [each for each in ("plumbing", "rewound", "summary", "job's", "group") if each in words] == []
    assert "marzipan" in (text_of(home, "/ben-oetker/telegram", "daily/2026-02-02.md") or "")
    ben = with_store(home, lambda store: store.people.by_key("telegram:777"))
    assert (ben.id, ben.name, ben.operator, ben.keys) == ("ben-oetker", "Ben Ötker", False, ("telegram:777",))
    assert done.settings == ("[models]", 'default = "anthropic/claude-opus-4.6"')


@pytest.mark.parametrize("as_rows", [False, True], ids=["database", "exported tables"])
def test_all_ten_kinds_of_agents_have_their_paths(as_rows: bool, home: Home, tmp_path: Path) -> None:
    done = migrate(home, wish("daycare-ts", daycare_ts(tmp_path / "source", as_rows=as_rows)), clock=clock())
    found = {item.source.split()[1]: item.target for item in done.items if item.what == "agent"}
    assert found == PATHS

    async def living(store: Store) -> dict[str, str]:
        return {path: "dead" if (await store.agents.at(path)) is None else "living" for path in PATHS.values()}

    ended = {PATHS[ref] for ref in ("a-task", "a-sub", "a-sub2", "a-search", "a-system")}
    assert with_store(home, living) == {path: "dead" if path in ended else "living" for path in PATHS.values()}
    assert "careful scribe" in (text_of(home, "/ann/agent/scribe", "SOUL.md") or "")
    words = text_of(home, "/ann/telegram", "daily/2026-02-13.md") or ""
    assert [each in words for each in ("Quillon", "saffron", "plumbing", "gears")] == [True, True, False, False]
    assert "researcher: the researcher found saffron" in words
    assert "luthier" in (text_of(home, "/ann", "knowledge/people.md") or "")
    assert "rowanberry" in (text_of(home, "/ann", "knowledge/memory/node1.md") or "")
    assert (text_of(home, "/ann", "SOUL.md") or "") == "You are kind.\n"
    signals = with_store(home, lambda store: store.of(SignalRows).subscriptions(user="ann"))
    assert [(each.pattern, each.silent) for each in signals] == [("agent:/ann/telegram:idle", True)]
    mia = with_store(home, lambda store: store.people.get("mia"))
    assert (mia.name, mia.parent) == ("Mia", "ann")


def test_paths_of_newer_versions_become_ours(home: Home, tmp_path: Path) -> None:
    paths = ("/u1/telegram", "/u1/telegram/sub/4", "/u1/telegram/memory", "/u1/agent/Fine Name", "/system/gc")
    rows = [{"id": f"p{n}", "path": path, "user_id": "u1", "valid_to": None, "created_at": n, "name": None}
            for n, path in enumerate(paths)]  # fmt: skip
    source = put(
        tmp_path / "source", {"export/agents.json": rows, "export/users.json": [{"id": "u1", "nametag": "ann"}]}
    )
    done = migrate(home, wish("daycare-ts", source), clock=clock())
    assert list(came(done, "agent")) == [
        "/ann/telegram", "/ann/agent/fine-name", "/system/gc", "/ann/telegram/sub/0", "/ann/telegram/memory",
    ]  # fmt: skip


def test_files_of_before_the_database_are_read(home: Home, tmp_path: Path) -> None:
    done = migrate(home, wish("daycare-ts", daycare_ts_files(tmp_path / "source")), clock=clock())
    assert came(done, "agent").keys() == set(PATHS.values())
    assert "lute" in (text_of(home, "/ann/telegram", "daily/2026-02-13.md") or "")
    assert with_store(home, lambda store: store.people.by_key(TELEGRAM)).id == "ann"


def test_a_database_that_only_postgresql_reads_is_told_of(home: Home, tmp_path: Path) -> None:
    source = put(tmp_path / "source", {"daycare.db/PG_VERSION": "17", "settings.json": {}})
    assert "PGlite" in of(migrate(home, wish("daycare-ts", source), clock=clock()), "daycare.db").notes[0]


# -- what is there already ---------------------------------------------------------------------------------------------


def test_documents_of_ours_stay_and_theirs_are_kept_beside(home: Home, tmp_path: Path) -> None:
    source = openclaw(tmp_path / "source")
    migrate(home, wish("openclaw", source), clock=clock())
    put(source, {"workspace/SOUL.md": "another soul", "workspace/memory/garden-plans.md": "other plans"})
    done = migrate(home, wish("openclaw", source), clock=clock())
    assert "lobster" in (text_of(home, "/ann", "SOUL.md") or "")
    assert text_of(home, "/ann", "knowledge/openclaw-soul.md") == "another soul\n"
    assert "--replace" in of(done, "workspace/SOUL.md").notes[0]
    done = migrate(home, wish("openclaw", source, replace=True), clock=clock())
    assert of(done, "workspace/SOUL.md").outcome == "there", "it is kept alongside since the last import"
    put(source, {"workspace/SOUL.md": "a third soul"})
    migrate(home, wish("openclaw", source, replace=True), clock=clock())
    assert text_of(home, "/ann", "SOUL.md") == "a third soul\n"


def test_somebody_elses_account_is_not_taken_from_them(home: Home, tmp_path: Path) -> None:
    with_store(home, lambda store: store.people.add(User(id="eve", name="Eve", keys=(TELEGRAM,))))
    done = migrate(home, wish("openclaw", openclaw(tmp_path / "source")), clock=clock())
    assert "belongs to eve" in next(item.notes[0] for item in done.items if item.what == "person")
    assert with_store(home, lambda store: store.people.by_key(TELEGRAM)).id == "eve"


def test_an_account_that_stands_alone_is_the_owners_and_several_are_not(home: Home, tmp_path: Path) -> None:
    source = put(tmp_path / "one", {"config.yaml": "{}", ".env": "TELEGRAM_ALLOWED_USERS=42\n"})
    migrate(home, wish("hermes", source, me=()), clock=clock())
    assert with_store(home, lambda store: store.people.by_key("telegram:42")).id == "ann"
    source = put(tmp_path / "two", {"config.yaml": "{}", ".env": "TELEGRAM_ALLOWED_USERS=43,44\n"})
    migrate(home, wish("hermes", source, me=()), clock=clock())
    for key in ("telegram:43", "telegram:44"):
        assert not with_store(home, partial(_by_key, key)).operator
    put(source, {".env": "TELEGRAM_ALLOWED_USERS=45,46\nTELEGRAM_HOME_CHANNEL=45\n"})
    migrate(home, wish("hermes", source, me=()), clock=clock())
    assert with_store(home, lambda store: store.people.by_key("telegram:45")).id == "ann"


async def _by_key(key: str, store: Store) -> User | None:
    return await store.people.by_key(key)


def test_our_own_home_and_other_folders_are_refused(home: Home, tmp_path: Path) -> None:
    for path, kind in ((home.path, ConflictError), (tmp_path, InvalidError), (tmp_path / "nowhere", InvalidError)):
        with pytest.raises(kind, match=r"^reading "):
            migrate(home, wish("daycare-ts", path), clock=clock())
    with pytest.raises(InvalidError, match="a home of this daycare"):
        migrate(home, wish("daycare-ts", ours(tmp_path / "ours").path), clock=clock())
    with pytest.raises(NotFoundError, match="no database"):
        dry_run(Home(tmp_path / "none"), wish("hermes", tmp_path))
    for key in ("42", "telegram:ann", "telegram:-100", "nonsense"):
        with pytest.raises(InvalidError, match="--me"):
            migrate(home, wish("hermes", tmp_path, me=(key,)), clock=clock())
    with pytest.raises(NotFoundError, match="no such user"):
        migrate(home, wish("hermes", hermes(tmp_path / "source"), user="zoe"), clock=clock())


def test_who_is_no_operator_gets_what_is_theirs_and_nothing_of_the_installation(home: Home, tmp_path: Path) -> None:
    with_store(home, lambda store: store.people.add(User(id="ben", name="Ben", keys=("direct:ben",))))
    done = migrate(home, wish("openclaw", openclaw(tmp_path / "source"), user="ben", approve=True), clock=clock())
    assert "lobster" in (text_of(home, "/ben", "SOUL.md") or "")
    assert "Clawd" not in (text_of(home, "", "IDENTITY.md") or "")
    assert "Clawd" in (text_of(home, "/ben", "knowledge/openclaw-identity.md") or "")
    assert "/ben shared/SOUL.md" in done.held, "each person approves their own"
    assert text_of(home, "/ann", "SOUL.md") is None
    assert all(not item.target.startswith("/ann") for item in done.items)


def test_a_job_of_one_person_does_not_reach_the_agent_of_another(home: Home, tmp_path: Path) -> None:
    rows = daycare_ts_rows()
    rows["tasks_cron"][1]["agent_id"] = "a-permanent"  # ben's job, ann's agent
    files = {f"export/{name}.jsonl": "".join(f"{json.dumps(row)}\n" for row in each) for name, each in rows.items()}
    done = migrate(home, wish("daycare-ts", put(tmp_path / "source", files)), clock=clock())
    job = with_store(home, lambda store: store.of(CronRows).at("/ben/cron/water"))
    assert job.spec.target == ""
    assert "is not there" in of(done, "tasks_cron c2").notes[0]


def test_two_people_of_one_name_stay_two(home: Home, tmp_path: Path) -> None:
    with_store(home, lambda store: store.people.add(User(id="ben-oetker", name="Ben Ötker", keys=("direct:ben",))))
    migrate(home, wish("hermes", hermes(tmp_path / "source")), clock=clock())
    assert with_store(home, lambda store: store.people.by_key("telegram:777")).id == "ben-oetker-2"


def test_the_command_tells_it_and_leaves_a_home_in_use_alone(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from daycare.cli.main import app

    source = hermes(tmp_path / "source")
    arguments = ["migrate-from", "hermes", str(source), "--me", TELEGRAM, "--home", str(home.path)]
    with HomeLock(home) as lock:
        lock.acquire("run", 0)
        with pytest.raises(BusyError, match="migrate from hermes"):
            app(arguments, standalone_mode=False)
        app([*arguments, "--dry-run"], standalone_mode=False)
        assert "nothing was written: this was a dry run" in capsys.readouterr().out
    app([*arguments, "--history", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert (told["product"], told["user"], told["dry_run"], told["counts"]["there"]) == ("hermes", "ann", False, 0)
    assert {item["outcome"] for item in told["items"]} == {"taken", "changed", "left"}
    app(arguments, standalone_mode=False)
    assert "there already: 2 people, 1 agent" in capsys.readouterr().out


def test_skills_are_kept_whole_and_no_agent_follows_them_yet(home: Home, tmp_path: Path) -> None:
    source = openclaw(tmp_path / "source")
    (source / "workspace/skills/weather/key").symlink_to("/etc/passwd")
    tried = dry_run(home, wish("openclaw", source), clock=clock())
    assert not (home.path / "skills").exists()
    done = migrate(home, wish("openclaw", source), clock=clock())
    found = {each.target: each for each in done.items if each.what == "skill"}
    assert found.keys() == {"skills/weather", "skills/forms"} <= {each.target for each in tried.items}
    weather = found["skills/weather"]
    assert weather.outcome == "taken" and "address" in " ".join(weather.findings)
    assert weather.notes[-1] == "read it, then: daycare skills approve weather"
    files = sorted(str(each.relative_to(home.path)) for each in (home.path / "skills").rglob("*") if each.is_file())
    assert files == ["skills/forms/SKILL.md", "skills/weather/SKILL.md", "skills/weather/scripts/ask.sh"]
    assert with_store(home, lambda store: store.of(SkillApprovalRows).find([""])) == []
