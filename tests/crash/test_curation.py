"""The judge of curation is shown stores in which something is missing, twice, or too early, and must see each."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
import trio
from msgspec import json

from daycare.config import Config
from daycare.features import open_store
from daycare.plugin import Completion, InferRequest
from daycare.settings import ModelsSection, ProviderSection, with_offline
from daycare.testing.daemon import OWNER, open_daemon
from daycare.testing.scripted import Scripted, say
from tests.crash.curated import Watch, miscounted, remembered
from tests.crash.curation import distilled, text_of
from tests.crash.ledger import Finding, Ledger, Sent
from tests.crash.mind import Errand, errand_of
from tests.store.remembering import embedded, logged

DIRECT = f"/{OWNER}/direct"
LOOKED_AT = 3  # messages; one more is not


def think(request: InferRequest) -> Completion:
    text = request.messages[-1].text
    if request.output is not None:
        return say(json.encode(distilled(text)).decode())
    return say(f"ack {errand_of(text)}")


class Past:
    """What a daemon left behind that was never killed."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.ledger = Ledger()
        self.watch = Watch()

    def damage(self, sql: str) -> None:
        db = apsw.Connection(str(self.database))
        before = db.total_changes()
        db.execute(sql).fetchall()
        assert db.total_changes() > before, "the damage was done"
        db.close()

    def look(self) -> set[str]:
        """Return what the watch finds."""
        return self._kinds(lambda db: self.watch.compare(db))

    def verdict(self) -> set[str]:
        """Return what is found in the end."""
        found = self.look()
        return found | self._kinds(lambda db: remembered(db, self.ledger, self.watch))

    def _kinds(self, ask: Callable[[apsw.Connection], Iterator[Finding]]) -> set[str]:
        db = apsw.Connection(str(self.database))
        try:
            return {kind for kind, _ in ask(db)}
        finally:
            db.close()


@pytest.fixture
async def past(tmp_path: Path) -> Past:
    """Its tests ask for the `autojump_clock`."""
    past = Past(tmp_path / "daycare.db")
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers=with_offline({"scripted": ProviderSection(kind="scripted")}),
    )
    async with open_daemon(tmp_path, Scripted(think), location="daycare.db", config=config) as house:
        for number in range(1, LOOKED_AT + 2):
            sent = Sent(Errand("m", "s0", number), DIRECT, f"key {number}")
            receipt = await house.say(text_of(sent), key=sent.key, path=DIRECT)
            past.ledger.acknowledge(sent, receipt.seq, duplicate=False, result=await house.hear(receipt))
            await trio.sleep(5)
            if number <= LOOKED_AT:
                past.ledger.sent[sent.errand.name] = sent
                await house.daemon.memory.controls.process()
                await trio.sleep(30)
    return past


def copy_of(table: str, where: str, past: Past) -> str:
    """Return SQL that doubles rows of memories."""
    db = apsw.Connection(str(past.database))
    columns = ", ".join(str(row[1]) for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "no")
    db.close()
    return f"INSERT INTO {table} (no, {columns}) SELECT no + 1000, {columns} FROM {table} WHERE {where}"


async def test_a_store_that_was_curated_as_it_should_be_is_found_faultless(past: Past, autojump_clock: object) -> None:
    assert past.look() == set()
    assert past.verdict() == {"unprocessed"}, "the last message, at which nobody has looked"
    assert sum(bool(entry.asked) for entry in past.watch.entries.values()) == LOOKED_AT + 1


LOG, FACT = "tier = 'log' AND role = 'user' AND text LIKE '%Xs0n1 %'", "tier = 'fact' AND text LIKE '%Xs0n1 %'"
DAMAGES = [
    ("lost", "an entry of the log", f"DELETE FROM memories WHERE {LOG}"),
    ("lost", "an answer in the log", "DELETE FROM memories WHERE role = 'assistant' AND text = 'ack m s0 1'"),
    ("doubled", "an entry of the log", f"COPY {LOG}"),
    ("marked_unseen", "a fact", f"DELETE FROM memories WHERE {FACT}"),
    ("processed_twice", "a fact", f"COPY {FACT}"),
    ("processed_twice", "an entity", "COPY tier = 'entity' AND text LIKE 'Xs0n2%'"),
    ("processed_twice", "a mark behind what was learned", "UPDATE memory_marks SET through = oldest"),
    ("marked_unseen", "a mark before what was learned", "UPDATE memory_marks SET through = newest"),
    ("processed_twice", "a mention", "UPDATE memories SET extra = json_set(extra, '$.entity.mentions', 9)"
     " WHERE tier = 'entity' AND extra LIKE '%Clara%'"),
    ("sourceless", "where a fact comes from", "DELETE FROM memory_sources"),
    ("sourceless", "another entry that a fact comes from", "UPDATE memory_sources SET source = source + 1"),
    ("broken", "numbers that hold at the same time",
     "UPDATE memories SET extra = json_remove(extra, '$.fact.valid_until_ms') WHERE tier = 'fact'"),
    ("broken", "somebody who is told", "UPDATE outbox SET text = 'I could not finish /ann/direct/memory'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "what", "damage"), DAMAGES, ids=[f"{kind} {what}" for kind, what, _ in DAMAGES])
async def test_the_judge_of_curation_sees_damage(
    past: Past, autojump_clock: object, kind: str, what: str, damage: str
) -> None:
    word, _, where = damage.partition(" ")
    past.damage(copy_of("memories", where, past) if word == "COPY" else damage)
    assert kind in past.verdict() | past.look(), what


async def test_the_watch_sees_what_expired_too_early_and_a_mark_that_goes_back(
    past: Past, autojump_clock: object
) -> None:
    past.look()
    past.damage("DELETE FROM memories WHERE tier = 'log' AND no <= (SELECT through FROM memory_marks)")
    assert past.look() == set(), "it was curated"
    past.damage("DELETE FROM memories WHERE tier = 'log'")
    assert past.look() == {"expired_uncurated"}
    past.damage("UPDATE memory_marks SET through = oldest")
    assert past.look() == {"broken"}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory_embedded SET vectors = vectors + 1",
        "DELETE FROM memory_embedded",
        "DELETE FROM memory_vectors WHERE key = (SELECT min(key) FROM memory_vectors)",
        "DELETE FROM memories WHERE no = (SELECT min(no) FROM memories)",
        "UPDATE memories SET text = NULL WHERE no = (SELECT min(no) FROM memories)",
    ],
)
async def test_the_watch_sees_vectors_that_are_counted_wrongly_or_of_nothing(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file)) as store:
        await logged(store, "one", "two")
        await logged(store, "theirs", to="/u2/telegram", scope="u2", user="u2")
        await embedded(store)
    db = apsw.Connection(str(file))
    assert list(miscounted(db)) == []
    db.execute(damage)
    assert [kind for kind, _ in miscounted(db)] == ["broken"]
    db.close()
