"""What cannot be written into memory is set aside with its reason; nothing that somebody says ends the daemon."""

from pathlib import Path

import pytest
import trio

from daycare.base.documents import Attribution
from daycare.base.errors import InvalidError
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.features.memory.documents import chunking
from daycare.features.memory.store.rows import MemoryRows
from daycare.rules.chunks import cut
from daycare.testing.daemon import TestDaemon, open_daemon

BY = Attribution(origin=Origin.PERSON, author="direct:ann")
HOSTILE = {
    "a heading longer than a memory": "# " + "x" * 17_000 + "\nbelow",
    "six of them": "\n".join("#" * level + " " + "y" * 5_000 for level in range(1, 7)) + "\nbelow",
    "one long word": "z" * 60_000,
    "blanks only after a heading": "# " + " " * 8_000 + "a",
    "a heading alone": "# remember the milk",
}


async def log(house: TestDaemon) -> list[str]:
    found = await house.store.of(MemoryRows).find("ann", Tier.LOG, living=False, limit=1_000)
    return [memory.text for memory in sorted(found, key=lambda memory: memory.no)]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_message_is_answered_and_logged_and_so_is_the_next(
    text: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk(text)
        await trio.sleep(5)
        assert await house.talk("and now?") == "echo: and now?"
        await trio.sleep(5)
        logged = await log(house)
        assert house.daemon.keeper.problems() == {}
        assert house.events("row.set_aside") == []
    assert "and now?" in logged
    words = "".join(text.replace("#", " ").split())
    assert len("".join("".join(logged).replace("#", " ").split())) >= len(words), "what was said is in the log"


async def test_a_turn_that_cannot_be_logged_is_set_aside_and_told_of_and_the_others_are_logged(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, location="daycare.db") as house:
        keep = house.store.of(MemoryRows).log

        async def refuses(turns, entries, vectors=None):  # type: ignore[no-untyped-def]
            if any("poison" in entry.text for entry in entries):
                raise InvalidError("MEMORY_TEXT", "no such memory")
            return await keep(turns, entries, vectors)

        monkeypatch.setattr(house.store.of(MemoryRows), "log", refuses)
        monkeypatch.setattr(house.daemon.memory.conversation_log, "_store", house.store)
        for text in ("one", "poison", "two"):
            await house.talk(text)
        await trio.sleep(60)
        logged = await log(house)
        [told] = house.events("row.set_aside")
        assert house.daemon.keeper.problems() == {}
    assert [text for text in logged if not text.startswith("echo")] == ["one", "two"]
    assert "no such memory" in str(told["reason"])
    async with open_daemon(tmp_path, location="daycare.db") as house:
        await trio.sleep(60)
        assert house.events("row.set_aside") == [], "it is not tried again at each start"


async def test_a_document_that_cannot_be_cut_is_set_aside_and_the_others_are_cut(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(text: str) -> object:
        if "poison" in text:
            raise ValueError("cannot be cut")
        return await cut(text)

    monkeypatch.setattr(chunking, "cut", refuses)
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        agent = await house.daemon.directory.at("/ann/direct")
        for name, text in (("knowledge/a.md", "poison"), ("knowledge/b.md", "green tea")):
            await house.daemon.memory.documents.write(agent, name, text, BY)
        await trio.sleep(60)
        [told] = house.events("row.set_aside")
        found = await house.store.of(MemoryRows).find("ann", Tier.CHUNK, living=False, limit=10)
    assert "knowledge/a.md" in str(told["what"])
    assert [memory.text for memory in found] == ["green tea"]
