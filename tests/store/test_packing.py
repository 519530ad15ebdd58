"""Texts are stored packed, and read as they were written; what is damaged is said to be so."""

import hashlib
import random
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from daycare.base.errors import BrokenError
from daycare.base.messages import Message, Text
from daycare.features import open_store
from daycare.store.sqlite import packing
from daycare.store.sqlite.packing import pack, unpack
from tests.store.samples import begin, end

ROW = msgspec.json.encode(
    (Message("user", (Text("When does the train to Bonn leave?"),)), Message("assistant", (Text("At ten past nine."),)))
).decode()


@pytest.mark.parametrize("seed", range(3))
def test_a_text_is_what_it_was_before_it_was_packed(seed: int) -> None:
    rng = random.Random(seed)
    kinds = ["ab ", 'text":"', "\0\1é\U0001f40c", "".join(map(chr, range(32, 127)))]
    for _ in range(300):
        text = "".join(rng.choices(rng.choice(kinds), k=rng.choice((0, 1, 63, 64, 65, 300, 20_000))))
        stored = pack(text)
        size = len(stored.encode() if isinstance(stored, str) else stored)
        assert unpack(stored) == text, f"seed {seed}"
        assert size <= len(text.encode()), f"seed {seed}"


def test_the_dictionary_never_changes() -> None:
    """What was stored with it could not be read any more: a better one gets a byte of its own."""
    assert hashlib.sha256(packing._DICTIONARY).hexdigest()[:16] == "99686107fb470e3a"


def test_what_stands_in_every_turn_takes_little_room() -> None:
    stored = pack(ROW)
    assert isinstance(stored, bytes)
    assert len(stored) < 0.4 * len(ROW)


@pytest.mark.parametrize("damage", ["cut", "flipped", "another"])
async def test_a_damaged_text_fails_who_needs_it_and_nobody_else(tmp_path: Path, damage: str) -> None:
    stored = pack(ROW)
    assert isinstance(stored, bytes)
    wrong = {
        "cut": stored[:-4],
        "flipped": bytes([stored[0], stored[1] | 7, *stored[2:]]),
        "another": b"\2" + stored[1:],
    }
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        agent, turn, _ = await begin(store, "k")
        await store.turns.finish(agent, turn, end(turn, "done", history=(Message("user", (Text("x" * 99),)),)))
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE history SET messages = ?", (wrong[damage],))
    async with open_store(str(path)) as store:
        with pytest.raises(BrokenError, match="a packed text"):
            await store.turns.history(agent.id, 1, 10)
        other, turn, _ = await begin(store, "k2", to="/ann/other")
        heard = (Message("user", (Text("y" * 99),)),)
        await store.turns.finish(other, turn, end(turn, "done", history=heard))
        assert await store.turns.history(other.id, 1, 10) == list(heard), "the store goes on"


async def test_rows_from_before_packing_are_read(tmp_path: Path) -> None:
    path = tmp_path / "daycare.db"
    async with open_store(str(path)) as store:
        agent, turn, _ = await begin(store, "k")
        heard = (Message("user", (Text("something that is long enough to be packed as it is stored"),)),)
        await store.turns.finish(agent, turn, end(turn, "done", history=heard, result="an answer " * 20))
        stored = store._reader.execute("SELECT typeof(messages), typeof(result) FROM history, inbox").fetchall()
        assert stored == [("blob", "blob")]
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE history SET messages = unpacked(messages); UPDATE inbox SET result = unpacked(result)")
        assert db.execute("SELECT typeof(messages), typeof(result) FROM history, inbox").fetchall() == [
            ("text", "text")
        ]
    async with open_store(str(path)) as store:
        assert await store.turns.history(agent.id, 1, 10) == list(heard)
        receipt = await store.inbox.receipt(turn.seqs[0])
        assert receipt is not None
        assert receipt.result == "an answer " * 20
