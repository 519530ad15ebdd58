"""What was forgotten is in no byte of the database's files, wherever it was written and whatever moved it around."""

import random
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import BusyError
from daycare.base.memories import Tier
from daycare.base.messages import EnvelopeKind, File, Message, Origin, Text, ToolCall, ToolResult
from daycare.features import open_store
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.forgetting import _forget
from daycare.features.memory.store.records import NewVector
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Effects, Summary
from daycare.store.sqlite.store import Store
from tests.store.remembering import (
    MODEL,
    SCOPE,
    entity,
    entry,
    fact,
    learned,
    logged,
    only,
    said,
    texts,
    written,
)
from tests.store.samples import EPOCH_MS, PATH, begin, end, letter, post, timer, tool_step
from tests.store.test_approvals import hidden, wish
from tests.stored import unpacked_in

SOUL = Place(Layer.AGENT, "a1", "SOUL.md")
BY = Attribution(origin=Origin.AGENT, author="/ann/telegram", reason="reason qzreasonq")


class Secrets:
    """Words that are nowhere else, each for one place: long ones, as packed bytes have any three letters by chance."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, place: str) -> str:
        self.words.append(f"qz{place}jvxq")
        return f"this is {self.words[-1]} indeed"


def held(folder: Path) -> bytes:
    """Return all that the files hold; lowercase, as the index has words."""
    return data_of(folder).lower()


def data_of(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.endswith("-shm"))


def shown(folder: Path, words: list[str]) -> list[str]:
    """Return which words can be read. Of a word the end counts: an index leaves out beginnings that two share.

    Of what is unpacked the whole word does: from a wrong place come pieces of the dictionary, with any letters between.
    """
    data, unpacked = held(folder), unpacked_in(data_of(folder)).lower()
    return [word for word in words if word.encode()[3:] in data or word.encode() in unpacked]


async def noise(store: Store, rng: random.Random, count: int) -> None:
    """Fill pages and change some, so that trees grow and rows move."""
    for no in range(count):
        words = " ".join(f"w{rng.randrange(2_000)}" for _ in range(rng.randrange(3, 40)))
        await said(store, words, answer=words[: rng.randrange(1, 3_000)])
        if no % 7 == 0:
            document = Place(Layer.USER, "u1", f"knowledge/n{rng.randrange(20)}.md")
            await store.of(DocumentRows).write(NewVersion(place=document, user="u1", by=BY, text=words))
    await written(store)


async def test_no_place_that_a_turn_writes_to_keeps_its_words(tmp_path: Path) -> None:
    secret, rng = Secrets(), random.Random(1)
    async with open_store(str(tmp_path / "daycare.db")) as store:
        await noise(store, rng, 60)
        agent, turn, _ = await begin(store, "k")
        file = await store.files.put("f", "u1", Origin.PERSON, secret("name"), "text/plain", secret("file").encode())
        await store.files.put(f"result:{turn.turn}:1", "u1", Origin.AGENT, "n", "t", secret("long").encode() * 900)
        called = tool_step(turn, 1, arguments={"q": secret("journal")})
        await store.turns.journal([called])
        history = (
            Message("user", (Text(secret("question") + ' "quoted"\nand on'), file), sender="telegram:42"),
            Message("assistant", (Text(secret("thought")), ToolCall("c", "search", {"q": secret("argument")}))),
            Message("tool", (ToolResult(call_id="c", name="search", text=secret("result") * 300),)),
            Message("assistant", (Text(secret("answer")),)),
        )
        reminder = timer(agent, "t", EPOCH_MS + 9, text=secret("reminder"), trace=turn.trace)
        note = letter("note", trace=turn.trace, text=secret("note"), kind=EnvelopeKind.NOTE)
        effects = Effects(timers=(reminder,), posts=(note,))
        await store.turns.finish(
            agent, turn, end(turn, secret("reply"), history=history, result=secret("receipt"), effects=effects)
        )
        await store.outbox.retry(1, "failed", 0)
        summary = Summary(
            agent_id=agent.id, session=1, user="u1", origin=agent.origin, through=turn.turn, turns=1,
            text=secret("summary"), tokens_before=1, tokens_after=1,
        )  # fmt: skip
        await store.summaries.add(summary, None)
        event = f'{{"event":"notice","at_ms":1,"text":"{secret("event")}"}}'
        await store.ledger.record([(EPOCH_MS, "u1", PATH, turn.trace, event)])
        asked = wish(text=secret("request"), reason=secret("why"), trace=turn.trace)
        await store.of(ApprovalRows).request(asked, hidden)
        [no] = [
            no
            for waiting in [await store.of(MemoryRows).unlogged(10)]
            for no in await store.of(MemoryRows).log(
                waiting, [entry(secret("memory"), turn.turn, index=secret("indexed"))]
            )
        ]
        vector = secret("vector").encode()[-32:].rjust(32, b"v")
        await store.of(MemoryRows).embed(MODEL, 16, [NewVector(no, (await only(store, no)).hash, vector)])
        await learned(
            store,
            fact(secret("statement"), no, subject="qzsubjectq", value="qzvalueq"),
            entity("qzentityq", no, aliases=("qzaliasq",), description=secret("description")),
        )
        secret.words += ["qzsubjectq", "qzvalueq", "qzentityq", "qzaliasq"]
        await noise(store, rng, 60)
        assert shown(tmp_path, secret.words) == secret.words
        forgotten = await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
        # The note that the turn posted begins the next one: that came of it, and goes with it.
        assert (forgotten.memories, forgotten.turns, forgotten.summaries) == (4, 2, 1)
        assert shown(tmp_path, secret.words) == []
        assert isinstance(history[0].parts[1], File)
    assert shown(tmp_path, secret.words) == []


async def test_a_message_that_was_given_up_leaves_no_words(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        await post(store, "k", text="qzletterq")
        agent, turn, _ = await begin(store)
        await store.turns.retry(turn.turn, "qzerrorq", 0)
        await store.turns.park(agent, turn, code="X", reason="qzfailureq", history=(Message("user", (Text("qzq"),)),))
        words = ["qzletterq", "qzerrorq", "qzfailureq"]
        assert shown(tmp_path, words) == words
        await store.of(MemoryRows).forget(SCOPE, [], turns=[(agent.id, turn.turn)])
        assert shown(tmp_path, words) == []


async def test_a_forgotten_version_is_in_no_table_and_no_index(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        await noise(store, random.Random(2), 30)
        words = ["qzversionq", "qzreasonq"]
        for text in ("# It says qzversionq", "nothing of it"):
            await store.of(DocumentRows).write(NewVersion(place=SOUL, user="u1", by=BY, text=text))
        chunk = entry("# It says qzversionq", tier=Tier.CHUNK)
        assert not await store.of(MemoryRows).chunk(SOUL, 1, [chunk])
        assert shown(tmp_path, words[:1]) == words[:1]
        await store.of(MemoryRows).forget(SCOPE, [], versions=[(SOUL, 1)])
        assert shown(tmp_path, words[:1]) == []


async def test_what_expired_before_it_was_forgotten_is_not_left_in_the_index(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        [no] = await logged(store, "the word is qzexpiredq")
        turn = (await only(store, no)).turn
        await learned(store)
        await noise(store, random.Random(3), 20)
        assert await store.of(MemoryRows).expire(2**62, 1) == 1
        await store.of(MemoryRows).forget(SCOPE, [], turns=[("id-u1-telegram", turn)])
        assert shown(tmp_path, ["qzexpiredq"]) == []


@pytest.mark.parametrize("seed", range(2))
async def test_words_are_gone_wherever_pages_were_moved_to(tmp_path: Path, seed: int) -> None:
    """Trees leave copies of rows in the unused middle of pages; some of many forgotten ones have such."""
    rng = random.Random(seed)
    async with open_store(str(tmp_path / "daycare.db")) as store:
        living: dict[int, str] = {}
        for _ in range(6):
            batch = [f"qz{rng.randrange(10**9):09d}q" for _ in range(40)]
            numbers = await logged(store, *(f"{word} {' '.join('x' * rng.randrange(40))}" for word in batch))
            living |= dict(zip(numbers, batch, strict=True))
            await learned(store, *(fact(f"Ann knows {living[no]}", no, subject=living[no]) for no in numbers[::4]))
            vectors = [
                NewVector(no, hash_, struct.pack("<64e", *(rng.random() for _ in range(64))))
                for no, hash_, _ in await store.of(MemoryRows).unembedded(MODEL, 1_000)
            ]
            await store.of(MemoryRows).embed(MODEL, 64, vectors)
            chosen = rng.sample(sorted(living), 15)
            blobs = [store.of(MemoryRows).vectors_of(MODEL, [no]).data[0] for no in chosen]
            turns = await store.of(MemoryRows).turns_of(SCOPE, chosen)
            await store.of(MemoryRows).forget(SCOPE, chosen, turns=turns)
            gone = [living.pop(no) for no in chosen]
            assert shown(tmp_path, gone) == [], f"seed {seed}"
            data = b"".join(path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm"))
            assert not any(blob in data for blob in blobs), f"seed {seed}"
        assert set(living) <= {*texts(store, " ".join(living.values()))}


def leave(path: Path, words: bytes) -> None:
    """Write words into the unused middle of some page of a tree, as a tree that grows does."""
    data = bytearray(path.read_bytes())
    at = max(_gaps(data), key=lambda gap: gap[1])
    assert at[1] > len(words)
    data[at[0] : at[0] + len(words)] = words
    path.write_bytes(data)


def _gaps(data: bytearray) -> Iterator[tuple[int, int]]:
    for page in range(4096, len(data), 4096):
        if data[page] == 13:
            cells, content = struct.unpack_from(">HH", data, page + 3)
            yield page + 8 + 2 * cells, content - 8 - 2 * cells


@pytest.mark.parametrize(
    ("text", "copy", "word"),
    [
        ("the password is qzcopyq today", b"the password is qzcopyq today", "qzcopyq"),
        ("qzpigeonq", b"word is Qzpigeonq", "qzpigeonq"),
        ("qz4q5", b"code qz4q5 it is", "qz4q5"),
    ],
)
async def test_a_copy_in_an_unused_place_of_a_page_is_found_and_overwritten(
    tmp_path: Path, text: str, copy: bytes, word: str
) -> None:
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        [no, _] = await logged(store, text, "kept")
    leave(path, b"..." + copy + b"...")
    async with open_store(str(path)) as store:
        await store.of(MemoryRows).forget(SCOPE, [no], turns=await store.of(MemoryRows).turns_of(SCOPE, [no]))
        assert shown(tmp_path, [word]) == []
        assert len(texts(store, "kept")) == 1
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO memory_words (memory_words) VALUES ('integrity-check')")


@pytest.mark.parametrize("end", ["beginning", "end"])
async def test_a_packed_copy_in_an_unused_place_is_found_and_overwritten(tmp_path: Path, end: str) -> None:
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        [no] = await logged(store, f"the password is qzpackedq, {' '.join(map(str, range(99)))}")
    with closing(apsw.Connection(str(path))) as db:
        [(stored,)] = db.execute("SELECT messages FROM history").fetchall()
    assert isinstance(stored, bytes)
    left = stored[:40] if end == "beginning" else stored[-40:]  # over the rest something else was written since
    leave(path, b"..." + left + b"...")
    assert sum(file.read_bytes().count(left) for file in tmp_path.iterdir()) == 2, "the row, and its copy"
    async with open_store(str(path)) as store:
        await store.of(MemoryRows).forget(SCOPE, [no], turns=await store.of(MemoryRows).turns_of(SCOPE, [no]))
        assert not any(left in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_start_cleans_up_after_a_crash_in_the_middle_of_forgetting(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        [no] = await logged(store, "the password is qzcrashq today")
        turns = await store.of(MemoryRows).turns_of(SCOPE, [no])
        await store._writer.write(lambda tx: _forget(tx, SCOPE, [no], turns, []))
    leave(path, b"...the password is qzcrashq today...")
    async with open_store(str(path)) as store:
        assert shown(tmp_path, ["qzcrashq"]) == []
        assert store._db.execute("SELECT count(*) FROM forgetting").fetchall() == [(0,)]


async def test_somebody_who_reads_on_and_on_is_told_and_a_repeat_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.store.sqlite.scrub.FORGET_WAIT_S", 0.3)
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        [no] = await logged(store, "the password is qzbusyq today")
        turns = await store.of(MemoryRows).turns_of(SCOPE, [no])
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN; SELECT count(*) FROM memories").fetchall()
            with pytest.raises(BusyError) as caught:
                await store.of(MemoryRows).forget(SCOPE, [no], turns=turns)
            assert caught.value.code == "FORGET_UNFINISHED"
            assert texts(store, "password") == [], "it is forgotten all the same"
            await said(store, "life goes on")
        assert (await store.of(MemoryRows).forget(SCOPE, [no], turns=turns)).memories == 0
        assert shown(tmp_path, ["qzbusyq"]) == []


async def test_others_write_while_something_is_forgotten(tmp_path: Path) -> None:
    rng = random.Random(4)
    said_words = ["".join(rng.choices("bcdfghjkmnpqrstvwxz", k=11)) for _ in range(200)]  # few begin alike
    async with open_store(str(tmp_path / "daycare.db")) as store:
        numbers = await logged(store, *(f"{word} and more" for word in said_words))
        words = dict(zip(numbers, said_words, strict=True))
        assert len(shown(tmp_path, said_words)) == 200
        agents = [f"/u{no}/telegram" for no in range(2, 6)]

        async def talk(path: str) -> None:
            for no in range(20):
                await said(store, f"talk {no}", to=path)

        async def forget(no: int) -> None:
            await store.of(MemoryRows).forget(SCOPE, [no], turns=await store.of(MemoryRows).turns_of(SCOPE, [no]))
            assert shown(tmp_path, [words[no]]) == []

        async with trio.open_nursery() as nursery:
            for path in agents:
                nursery.start_soon(talk, path)
            for no in numbers[:6]:
                nursery.start_soon(forget, no)
                await trio.sleep(0.02)
        assert len(await store.of(MemoryRows).unlogged(999)) == 80
        assert texts(store, "more") == numbers[6:]
