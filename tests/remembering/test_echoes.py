"""An agent's answer that only repeats what is remembered is no new evidence; people who repeat themselves are heard."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio

from daycare.base.memories import Tier
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.memory.conversation_log import ECHO_SHARE, FRAME_MAX_CHARS, SHINGLE_CHARS, repeats
from daycare.features.memory.search.lookup import Filters
from daycare.features.memory.store.records import ECHO, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import with_offline
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import say

SAID = "My sister Clara lives in Bern, near the old clock tower."
QUOTED = "You told me on Friday: My sister Clara lives in Bern, near the old clock tower."
ASKED = "Where does Clara live?"
CONFIG = Config(
    models=ModelsSection(default="scripted/model"),
    providers=with_offline({"scripted": ProviderSection(kind="scripted")}),
)


async def talked(house: TestDaemon, *pairs: tuple[str, str]) -> list[StoredMemory]:
    """Say each first text, have each second one answered, in a conversation of its own; return the log."""
    for text, answer in pairs:
        house.model.enqueue(say(answer))
        await house.talk(text)
        await trio.sleep(5)
        await house.talk("/new")
    found = await house.store.of(MemoryRows).find("ann", Tier.LOG, limit=1_000)
    return sorted(found, key=lambda memory: memory.no)


async def test_an_answer_that_quotes_what_is_remembered_is_an_echo(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=CONFIG) as house:
        log = await talked(house, (SAID, "I see."), (ASKED, QUOTED), (ASKED, "No idea, but Tom may know."))
    assert [entry.text for entry in log if entry.role == ECHO] == [QUOTED]
    assert [entry.role for entry in log] == ["user", "assistant", "user", ECHO, "user", "assistant"]


async def test_people_who_repeat_themselves_are_heard(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=CONFIG) as house:
        log = await talked(house, (SAID, "I see."), (SAID, "You said so."), (f"As I said: {SAID}", "Right."))
    assert [entry.role for entry in log] == ["user", "assistant"] * 3


@pytest.mark.parametrize("limit", [1, 10])
async def test_search_prefers_the_original(limit: int, tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=CONFIG) as house:
        await talked(house, (SAID, "I see."), (ASKED, QUOTED), (ASKED, QUOTED))
        me = await house.daemon.directory.at("/ann/direct")
        found = await house.daemon.memory.controls.search(me, "Clara Bern clock tower", Filters(limit=limit))
    assert found[0].text == SAID
    others = [each.text for each in found[1:]]
    assert limit == 1 or others[others.index(QUOTED) :] == [QUOTED], "once, and behind all others"


async def test_nothing_is_learned_from_an_echo_and_none_is_left_behind(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=CONFIG) as house:
        log = await talked(house, (SAID, "I see."), (ASKED, QUOTED))
        [echo] = [entry for entry in log if entry.role == ECHO]
        me = await house.daemon.directory.at("/ann/direct")
        handed = await house.store.of(MemoryRows).entries(me.id, after=0, through=echo.no, max_chars=10**6)
        assert [entry.no for entry in handed] == [entry.no for entry in log if entry != echo]
        await house.daemon.memory.controls.process()
        await trio.sleep(60)
        assert await house.store.of(MemoryRows).mark(me.id) == echo.no, "it counts as looked at, so that it can expire"
        facts = await house.store.of(MemoryRows).find("ann", Tier.FACT, living=False)
        assert all(echo.no not in fact.sources for fact in facts)
        asked = [message.text for request in house.model.history[2:] for message in request.messages]
        assert not any(QUOTED in text for text in asked)


async def test_it_stays_an_echo_when_the_daemon_died_before_the_log_was_written(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=CONFIG, location="daycare.db") as house:
        await talked(house, (SAID, "I see."))
        house.model.enqueue(say(QUOTED))
        await house.talk(ASKED)
    async with open_daemon(tmp_path, config=CONFIG, location="daycare.db") as house:
        await trio.sleep(5)
        log = await house.store.of(MemoryRows).find("ann", Tier.LOG)
    assert [entry.text for entry in log if entry.role == ECHO] == [QUOTED]


@pytest.mark.parametrize(
    ("answer", "echo"),
    [
        ("Clara lives in Bern.", True),
        (QUOTED, True),
        (f"{QUOTED} And in May: I love green tea with lemon.", True),
        ("Bern.", False),
        ("Clara lives in Basel.", False),
        (f"{SAID} I have booked a table for two at her favourite place on Saturday.", False),
        ("", False),
    ],
)
def test_an_answer_repeats_when_it_says_nothing_else(answer: str, echo: bool) -> None:
    assert repeats(answer, [SAID, "I love green tea with lemon.", "Yes."]) == echo


@pytest.mark.parametrize("seed", range(50))
def test_what_an_answer_repeats_is_what_comparing_all_of_it_says(seed: int) -> None:
    draw = random.Random(seed)
    words = ["Clara", "Bern", "tower", "tea", "lemon", "near", "the", "old", "clock", "ÄGYPTEN", "42", "-"]
    texts = [" ".join(draw.choices(words, k=draw.randrange(1, 12))) for _ in range(8)]
    for _ in range(20):
        answer = " ".join([*draw.sample(texts, draw.randrange(3)), *draw.choices(words, k=draw.randrange(8))])
        assert repeats(answer, texts) == compared_whole(answer, texts), answer


def compared_whole(answer: str, texts: Iterable[str]) -> bool:
    own, *others = [shingles("".join(filter(str.isalnum, text)).casefold()) for text in (answer, *texts)]
    quoted = sum(len(each & own) >= max(1, ECHO_SHARE * len(each)) for each in others)
    missing = len(own.difference(*others))
    return bool(own) and missing <= max(len(own) * (1 - ECHO_SHARE), quoted * FRAME_MAX_CHARS)


def shingles(plain: str) -> set[str]:
    return {plain[at : at + SHINGLE_CHARS] for at in range(len(plain) - SHINGLE_CHARS + 1)}
