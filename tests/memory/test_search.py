"""A search leaves out what says the same, prefers a question's own words, and holds up nobody who stops waiting."""

import random
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daycare.base.limits import RECALL_LINE_HEAD_CHARS
from daycare.features import open_store
from daycare.features.memory.search import service as searching
from daycare.features.memory.search.queries import MemoryHit, MemoryQuery
from daycare.features.memory.search.recent import ALIKE, FoundMemory
from daycare.features.memory.search.said_before import SaidBefore
from daycare.features.memory.search.search_scope import SearchScope
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.records import ECHO
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S
from tests.store.remembering import SCOPE, logged
from tests.store.samples import EPOCH_MS, HandClock


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory:", HandClock(), inline=True) as opened:
        yield opened


WORDS = [f"word{number}" for number in range(50)]


def ask(text: str, **more: Any) -> MemoryQuery:
    return MemoryQuery(scope=SCOPE, text=text, now_ms=EPOCH_MS + 1, **more)


async def found(store: Store, text: str, **more: Any) -> list[str]:
    hits = await Search(store, Live(), None).find(ask(text, **more))
    return [hit.memory.text for hit in hits]


async def test_of_memories_in_nearly_the_same_words_the_best_is_found(store: Store) -> None:
    said = "We moved the big wooden piano into the living room of Grandmother's old house yesterday"
    await logged(store, f"{said}!", said.upper(), f"{said}, Bob", "The piano needs to be tuned by somebody")
    texts = await found(store, "Where is the piano?")
    assert len(texts) == 2 and any("tuned" in text for text in texts)


async def test_short_texts_are_not_the_same(store: Store) -> None:
    await logged(store, "Piano, please", "Piano, please!")
    assert len(await found(store, "Who wants the piano?")) == 2


@pytest.mark.parametrize("place", range(4, 16))
async def test_what_was_wanted_before_is_found_among_the_first_twice_as_many(store: Store, place: int) -> None:
    names = [f"kettle{number} {'spout ' * number}" for number in range(16)]
    await logged(store, *(f"the copper {name} stands on shelf{at} by lamp{at}" for at, name in enumerate(names)))
    search = Search(store, Live(), None)
    ranked = [hit.memory.no for hit in await search.find(ask("Where is the copper thing?", limit=16))]
    assert len(ranked) == 16
    hits = await search.find(ask("Where is the copper thing?", limit=4, again={ranked[0], ranked[place]}))
    wanted = [ranked[place]] if place < 8 else []
    assert [hit.memory.no for hit in hits] == [*ranked[:4], *wanted]


@pytest.mark.parametrize("seed", range(10))
async def test_once_there_are_enough_words_no_more_is_found_but_what_was_wanted_before(seed: int, store: Store) -> None:
    draw = random.Random(seed)
    texts = [f"copper kettle{at} {' '.join(draw.choices(WORDS, k=draw.randrange(3, 40)))}" for at in range(100)]
    await logged(store, *texts, *(f"something else {at}" for at in range(50)))
    search = Search(store, Live(), None)
    every = await search.find(ask("Where is the copper thing?", limit=60))
    enough = draw.randrange(200, 4_000)
    again = {hit.memory.no for hit in draw.sample(every, 5)}
    hits = await search.find(ask("Where is the copper thing?", limit=60, enough_chars=enough, again=again))
    first = [hit for hit in hits if hit.memory.no not in again]
    assert first == [hit for hit in every if hit.memory.no not in again][: len(first)], f"seed {seed}"
    assert again <= {hit.memory.no for hit in hits}
    shown = sum(RECALL_LINE_HEAD_CHARS + len(hit.memory.text) for hit in hits)
    assert len(every) > len(hits) and shown >= enough


@pytest.mark.parametrize("seed", range(20))
async def test_what_is_left_out_is_what_comparing_each_with_all_leaves_out(seed: int, store: Store) -> None:
    draw = random.Random(seed)
    words = [f"word{number}" for number in range(50)]
    said = []
    for _ in range(10):
        base = draw.choices(words, k=draw.randrange(1, 40))
        for _ in range(4):
            said.append(" ".join(draw.sample(base, len(base))[draw.randrange(4) :] + draw.choices(words, k=2)))
    numbers = await logged(store, *said)
    hits = [MemoryHit(memory, 1.0) for memory in await store.of(MemoryRows).get([SCOPE], numbers)]
    said_before = SaidBefore()
    assert [hit for hit in hits if said_before.note(FoundMemory(hit.memory))] == compared_with_all(hits)


def compared_with_all(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    kept: list[tuple[MemoryHit, set[str]]] = []
    for hit in hits:
        words = set(hit.memory.text.split())
        for _, others in kept:
            few, many = sorted((len(words), len(others)))
            if few > 2 and few >= ALIKE * many and len(words & others) >= ALIKE * few:
                break
        else:
            kept.append((hit, words))
    return [hit for hit, _ in kept]


async def test_what_a_word_may_mean_is_looked_for_after_the_words_themselves(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logged(store, "pets are noisy", *("some talk" for _ in range(20)), "the puppy sleeps", "one more puppy")

    async def with_words() -> set[str]:
        hits = await Search(store, Live(), None).find(ask("How are the pets?", limit=30))
        return {hit.memory.text for hit in hits if hit.parts.get("words")}

    assert await with_words() == {"pets are noisy", "the puppy sleeps", "one more puppy"}
    monkeypatch.setattr("daycare.features.memory.search.search_scope.SEARCH_POSTINGS_MAX", 2)
    assert await with_words() == {"pets are noisy"}, "part of the others would mislead"


async def test_who_stops_waiting_is_not_held_up_and_the_next_gets_an_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logged(store, "the piano stands in the hall")
    monkeypatch.setattr(searching, "SEARCH_INLINE_ROWS", 0)
    go_on, at_once = threading.Event(), []
    find = SearchScope.find

    def slow(*asked: Any) -> Any:
        at_once.append(go_on.is_set())
        assert go_on.wait(30)
        return find(*asked)

    monkeypatch.setattr(SearchScope, "find", slow)
    search = Search(store, Live(), None)
    with trio.fail_after(20):
        for _ in range(2):  # the second one waits for its turn
            with trio.move_on_after(0.05) as waiting:
                await search.find(ask("Where is the piano?"))
            assert waiting.cancelled_caught
        assert at_once == [False]
        go_on.set()
        [hit] = await search.find(ask("Where is the piano?"))
    assert "hall" in hit.memory.text and at_once == [False, True]


async def test_an_error_of_a_search_reaches_who_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await logged(store, "the piano stands in the hall")
    search = Search(store, Live(), None)

    def broken(*_: Any) -> Any:
        raise ValueError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(SearchScope, "find", broken)
        with pytest.raises(ValueError, match="broken"):
            await search.find(ask("Where is the piano?"))
    assert len(await search.find(ask("Where is the piano?"))) == 1


async def test_a_scope_that_is_dropped_while_it_is_searched_gets_its_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCH_SCOPES_MAX", 1)
    monkeypatch.setattr(searching, "SEARCH_INLINE_ROWS", 0)
    await logged(store, "the piano stands in the hall")
    await logged(store, "the piano stands in the attic", to="/u2/telegram", scope="u2", user="u2")
    search = Search(store, Live(), None)
    texts: dict[str, set[str]] = {SCOPE: set(), "u2": set()}

    async def find(scope: str) -> None:
        [hit] = await search.find(MemoryQuery(scope=scope, text="Where is the piano?", now_ms=EPOCH_MS + 1))
        texts[scope].add(hit.memory.text)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(find, SCOPE)
            nursery.start_soon(find, "u2")
    assert texts == {SCOPE: {"the piano stands in the hall"}, "u2": {"the piano stands in the attic"}}
    assert len(search._search_scopes) == 1, "nothing is kept of the other one"


async def test_what_was_added_changed_and_forgotten_meanwhile_counts(store: Store) -> None:
    search = Search(store, Live(), None)

    async def texts() -> set[str]:
        return {hit.memory.text for hit in await search.find(ask("Where is the piano?"))}

    [one] = await logged(store, "the piano stands in the hall")
    assert await texts() == await texts() == {"the piano stands in the hall"}
    await logged(store, "we sold the piano to a school")
    assert await texts() == {"the piano stands in the hall", "we sold the piano to a school"}
    await store.of(MemoryRows).forget(SCOPE, [one])
    assert await texts() == {"we sold the piano to a school"}


async def test_what_was_added_and_changed_is_followed_before_somebody_asks(store: Store) -> None:
    search = Search(store, Live(), None)
    assert await search._follow() == IDLE_S, "there is nothing to follow yet"
    [one] = await logged(store, "the piano stands in the hall")
    await search.find(ask("Where is the piano?"))
    kept = search._search_scopes[SCOPE].searched
    await logged(store, "we sold the piano to a school")
    await store.of(MemoryRows).forget(SCOPE, [one])
    assert kept.is_behind(store.of(MemoryRows).latest(SCOPE))
    await search._follow()
    assert not kept.is_behind(store.of(MemoryRows).latest(SCOPE)) and search._search_scopes[SCOPE].is_free
    assert [hit.memory.text for hit in await search.find(ask("Where is the piano?"))] == [
        "we sold the piano to a school"
    ]


async def test_who_asks_is_in_nobodys_way_who_follows(store: Store) -> None:
    search = Search(store, Live(), None)
    await logged(store, "the piano stands in the hall")
    await search.find(ask("Where is the piano?"))
    await logged(store, "we sold the piano to a school")
    kept = search._search_scopes[SCOPE]
    await kept.turn.acquire()
    with trio.fail_after(5):
        await search._follow()
    assert kept.searched.is_behind(store.of(MemoryRows).latest(SCOPE)), "who has its turn reads it"
    kept.turn.release()
    assert len(await search.find(ask("Where is the piano?"))) == 2


async def test_rows_are_read_until_enough_say_something_else_and_echoes_come_last(store: Store) -> None:
    said = "the old piano stands in the hall behind the red curtain"
    await logged(store, *(f"{said}{'!' * times}" for times in range(12)), "the piano must be tuned", "a piano is heavy")
    await logged(store, "piano piano piano", role=ECHO)
    texts = await found(store, "Where is the piano?", limit=3)
    assert len(texts) == 3 and len({text.rstrip("!") for text in texts}) == 3 and "piano piano piano" not in texts
    assert (await found(store, "Where is the piano?", limit=4))[3:] == ["piano piano piano"]


async def test_between_questions_texts_are_looked_at_so_that_later_ones_need_not(
    store: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    await logged(store, *(f"word{number} and some talk about the piano number {number}" for number in range(200)))
    search = Search(store, Live(), None)
    await search.find(ask("Where is word7?"))
    await trio.sleep(1)
    read: list[int] = []
    texts, worded = store.of(MemoryRows).texts, store.of(MemoryRows).worded

    def noted(scope: str, numbers: Sequence[int]) -> dict[int, str]:
        read.extend(numbers)
        return texts(scope, numbers)

    def noted_too(scope: str, numbers: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        read.extend(numbers)
        return worded(scope, numbers)

    monkeypatch.setattr(store.of(MemoryRows), "texts", noted)
    monkeypatch.setattr(store.of(MemoryRows), "worded", noted_too)
    assert (await search.find(ask("What about word123?")))[0].memory.text.startswith("word123 ")
    assert read == []
    [new] = await logged(store, "word7 went away")
    await search.find(ask("Where is word7?"))
    assert read == [new], "what was added since is looked at by the next question"


async def test_scopes_that_take_too_much_memory_make_room_for_the_one_that_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("u1", "u2", "u3"):
        await logged(store, *(f"the piano {number}" for number in range(50)), to=f"/{user}/telegram", scope=user)
    search = Search(store, Live(), None)

    async def asked(*scopes: str) -> list[str]:
        for scope in scopes:
            assert await search.find(MemoryQuery(scope=scope, text="Where is the piano?", now_ms=EPOCH_MS + 1))
        return [*search._search_scopes]

    assert await asked("u1", "u2", "u1", "u2", "u1") == ["u2", "u1"]
    while any(kept.searched.behind for kept in search._search_scopes.values()):
        await trio.sleep(1)
    takes = max(kept.searched.nbytes for kept in search._search_scopes.values())
    assert takes > 50 * 70
    monkeypatch.setattr(searching, "SEARCH_MAX_BYTES", 2 * takes)
    assert await asked("u3") == ["u1", "u3"], "it was asked longer ago"
    monkeypatch.setattr(searching, "SEARCH_MAX_BYTES", 1)
    assert await asked("u2") == ["u2"]


async def test_scopes_that_grow_while_they_are_asked_make_room_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCH_MAX_BYTES", 100_000)
    search = Search(store, Live(), None)
    users = [f"u{number}" for number in range(6)]
    kept = []
    for round_ in range(20):
        for user in users:
            texts = (f"word{round_} of line{line}" for line in range(20))
            await logged(store, f"the piano of {round_}", *texts, to=f"/{user}/telegram", scope=user)
            assert await search.find(MemoryQuery(scope=user, text="Where is the piano?", now_ms=EPOCH_MS + 1))
            assert search._taken == sum(kept.nbytes for kept in search._search_scopes.values()) <= 100_000
        kept.append(len(search._search_scopes))
    assert kept[0] == len(users), "small ones have room"
    assert 1 <= kept[-1] < len(users)
