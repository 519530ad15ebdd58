"""A block of vectors finds what a comparison with every row finds, whatever was added and removed before."""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.features.memory.embed.arrays import Floats, NDArray, np, widened
from daycare.features.memory.embed.packing import packed, unpacked
from daycare.features.memory.embed.sign_bits import PANEL_ROWS, BitsQuery, SignBits, distances, nearest, shortlist
from daycare.features.memory.embed.vectors import SAMPLE_ROWS, FoundRows, VectorBlock
from daycare.features.memory.store.records import VectorPage

EXACT, BITS = 1 << 30, 0  # bytes that a matrix may have


def made(count: int, dimensions: int, seed: int) -> Floats:
    """Return vectors of length 1 as embedders make them: in loose groups, and off the centre."""
    draw = np.random.default_rng(seed)
    groups = draw.standard_normal((max(1, count // 20), dimensions), dtype=np.float32)
    rows = groups[draw.integers(0, len(groups), count)] + 0.3
    rows += 0.7 * draw.standard_normal((count, dimensions), dtype=np.float32)
    return unpacked(packed(_unit(rows)), rows.shape[1])


def _unit(rows: Floats) -> Floats:
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def page_of(numbers: Sequence[int], rows: Floats) -> VectorPage:
    return VectorPage(tuple(numbers), packed(rows))


class Rows:
    """The rows of a store, and the block that is kept alongside them."""

    def __init__(self, dimensions: int, exact_max_bytes: int) -> None:
        self.rows: dict[int, Floats] = {}
        self.block = VectorBlock(dimensions, exact_max_bytes)

    def put(self, numbers: Sequence[int], rows: Floats) -> None:
        self.rows |= dict(zip(numbers, rows, strict=True))
        self.block.extend(page_of(numbers, rows))

    def remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.rows.pop(number, None)
        self.block.remove(numbers)

    def fetch(self, numbers: Sequence[int]) -> VectorPage:
        there = sorted(number for number in numbers if number in self.rows)
        rows = np.array([self.rows[number] for number in there], np.float32).reshape(-1, self.block.dimensions)
        return page_of(there, rows)

    def search(self, query: Floats, count: int) -> FoundRows:
        return self.block.search(query, count, self.fetch)


def cosines(rows: Mapping[int, Floats], query: Floats) -> dict[int, float]:
    return dict(zip(rows, (np.array([*rows.values()]) @ query).tolist(), strict=True)) if rows else {}


def compared(rows: Mapping[int, Floats], queries: Floats) -> Iterator[tuple[Floats, dict[int, float]]]:
    """Yield each query with the cosines of all rows."""
    whole = np.array([*rows.values()])
    for query in queries:
        yield query, dict(zip(rows, (whole @ query).tolist(), strict=True))


def filled(count: int, dimensions: int, exact_max_bytes: int, seed: int = 1) -> Rows:
    held = Rows(dimensions, exact_max_bytes)
    rows = made(count, dimensions, seed)
    for begin in range(0, count, 700):
        held.put(range(begin + 1, min(begin + 700, count) + 1), rows[begin : begin + 700])
    return held


def test_a_small_block_finds_exactly_what_comparing_every_row_finds() -> None:
    held = filled(3_000, 96, EXACT)
    assert held.block.exact
    for query, true in compared(held.rows, made(20, 96, 2)):
        found = held.search(query, 25)
        assert found.numbers.tolist() == sorted(true, key=lambda number: (-true[number], -number))[:25]
        assert found.scores == pytest.approx([true[number] for number in found.numbers.tolist()], abs=1e-6)
        assert found.mean == pytest.approx(np.mean(list(true.values())), abs=1e-5)
        assert found.deviation == pytest.approx(np.std(list(true.values())), abs=1e-4)


@pytest.mark.parametrize(("dimensions", "share"), [(384, 0.99), (100, 0.97), (65, 0.93)])
def test_a_large_block_misses_hardly_any_of_the_nearest_and_tells_their_true_cosines(
    dimensions: int, share: float
) -> None:
    held = filled(20_000, dimensions, BITS)
    assert not held.block.exact
    hits = 0
    noise = np.random.default_rng(2).standard_normal((20, dimensions), dtype=np.float32) / dimensions**0.5
    near = _unit(np.array([held.rows[number] for number in range(500, 20_000, 1_000)]) + noise)
    for query, true in compared(held.rows, near):
        found = held.search(query, 10)
        assert found.scores == pytest.approx([true[number] for number in found.numbers.tolist()], abs=1e-5)
        assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
        hits += len({*found.numbers.tolist()} & {*sorted(true, key=true.__getitem__)[-10:]})
    assert hits >= share * 200


def test_a_large_block_knows_mean_and_deviation_of_all_its_cosines_nearly() -> None:
    held = filled(20_000, 128, BITS)
    for query, cosine in compared(held.rows, made(20, 128, 3)):
        true = [*cosine.values()]
        found = held.search(query, 10)
        assert found.deviation == pytest.approx(np.std(true), rel=0.1)
        assert found.mean == pytest.approx(np.mean(true), abs=0.15 * float(np.std(true)))


@pytest.mark.parametrize("exact_max_bytes", [EXACT, BITS])
def test_of_a_removed_row_nothing_is_left_in_memory(exact_max_bytes: int) -> None:
    held = filled(500, 64, exact_max_bytes)
    victim = held.rows[123]
    held.remove([123, 123, 9_999])
    assert held.block.size == 499
    assert 123 not in held.search(victim, 500).numbers
    state = held.block._held
    if state.exact is not None:
        assert not state.exact.at(np.array([122])).any()
    for panel in state.panels:
        assert not panel[:, 122].any()
    assert not (held.block._sample.rows @ victim > 0.99).any()


@pytest.mark.parametrize("exact_max_bytes", [EXACT, BITS])
def test_a_number_that_is_added_again_has_its_new_vector(exact_max_bytes: int) -> None:
    held = filled(500, 64, exact_max_bytes)
    fresh = made(3, 64, 9)
    held.put([10, 700, 10], fresh)
    held.rows[10] = fresh[2]
    assert held.block.size == 501
    assert held.search(fresh[2], 1).numbers.tolist() == [10]
    assert held.search(fresh[1], 1).numbers.tolist() == [700]


def test_a_row_that_the_store_lost_after_the_look_at_the_bits_is_left_out() -> None:
    held = filled(500, 64, BITS)
    query = held.rows[5]
    del held.rows[5]
    found = held.search(query, 10)
    assert len(found.numbers) == 10
    assert 5 not in found.numbers


def test_all_cosines_are_told_of_a_small_block_only() -> None:
    held = filled(300, 64, EXACT)
    held.remove([1, 2])
    query = made(1, 64, 6)[0]
    every = held.block.scores(query)
    assert every is not None
    assert dict(zip(every.numbers.tolist(), every.scores.tolist(), strict=True)) == pytest.approx(
        cosines(held.rows, query), abs=1e-6
    )
    assert filled(300, 64, BITS).block.scores(query) is None


@pytest.mark.parametrize("exact_max_bytes", [EXACT, BITS])
def test_an_empty_block_finds_nothing(exact_max_bytes: int) -> None:
    held = Rows(8, exact_max_bytes)
    query = made(1, 8, 1)[0]
    for _ in range(2):
        found = held.search(query, 5)
        assert (len(found.numbers), found.mean, found.deviation) == (0, 0.0, 0.0)
        held.put([1], query[None, :])
        held.remove([1])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1_000_000), exact_max_bytes=st.sampled_from([EXACT, BITS, 40_000]))
def test_after_any_changes_a_block_holds_what_the_store_holds(seed: int, exact_max_bytes: int) -> None:
    draw = random.Random(seed)
    held = Rows(32, exact_max_bytes)
    last = 0
    for step in range(draw.randint(1, 12)):
        kind = draw.random()
        if kind < 0.5:  # the newest, in order
            count = draw.randint(0, 400)
            numbers = list(range(last + 1, last + 1 + count))
            last += count
        elif kind < 0.7:  # late ones, some of them anew
            numbers = draw.sample(range(1, last + 200), min(draw.randint(0, 150), last + 199))
            last = max([last, *numbers])
        else:
            gone = draw.sample(range(1, last + 2), draw.randint(0, last))
            held.remove(gone)
            continue
        held.put(numbers, made(len(numbers), 32, seed + step) if numbers else np.empty((0, 32), np.float32))
    assert held.block.size == len(held.rows)
    query = made(1, 32, seed)[0]
    true = cosines(held.rows, query)
    found = held.search(query, 10_000)
    if len(true) <= 400 or held.block.exact:
        assert {*found.numbers.tolist()} == {*true}
    assert dict(zip(found.numbers.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        {number: true[number] for number in found.numbers.tolist()}, abs=1e-5
    )


def test_tidying_up_keeps_every_row_that_is_left() -> None:
    held = filled(PANEL_ROWS + 3_000, 64, BITS)
    bits = {number: held.block._held.panels[(number - 1) // PANEL_ROWS][:, (number - 1) % PANEL_ROWS].tolist()
            for number in held.rows}  # fmt: skip
    held.remove([number for number in held.rows if number % 3])
    assert held.block._held.size == held.block.size == len(held.rows)
    state = held.block._held
    for place, number in enumerate(state.numbers.tolist()):
        assert state.panels[place // PANEL_ROWS][:, place % PANEL_ROWS].tolist() == bits[number]
    held.put([100_000], held.rows[3][None, :])
    assert {*held.search(held.rows[3], 2).numbers.tolist()} == {3, 100_000}


def test_a_block_is_searched_by_threads_while_it_changes() -> None:
    rows = made(6_000, 64, 1)
    held = Rows(64, 400_000)
    held.put(range(1, 501), rows[:500])
    wrong: list[str] = []
    over = threading.Event()

    def fetch(numbers: Sequence[int]) -> VectorPage:
        return page_of(sorted(numbers), rows[np.sort(numbers) - 1])

    def look(seed: int) -> None:
        draw = np.random.default_rng(seed)
        while not over.is_set():
            query = rows[draw.integers(0, 6_000)]
            found = held.block.search(query, 20, fetch)
            true = rows[found.numbers - 1] @ query
            off = np.abs(true - found.scores) > 1e-5
            if off.any():
                wrong.append(f"{found.numbers[off]} {found.scores[off]} {true[off]}")

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    draw = random.Random(7)
    for begin in range(500, 6_000, 50):
        held.block.extend(page_of(range(begin + 1, begin + 51), rows[begin : begin + 50]))
        held.block.remove(draw.sample(range(1, begin), 20))
        again = sorted(draw.sample(range(1, begin), 5))
        held.block.extend(page_of(again, rows[np.array(again) - 1]))
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def test_the_sample_has_old_and_new_rows_alike() -> None:
    block = VectorBlock(8, BITS, expected=50_000)
    for begin in range(0, 50_000, 1_000):
        numbers = range(begin + 1, begin + 1_001)
        block.extend(page_of(numbers, made(1_000, 8, begin)))
    drawn = block._sample._numbers
    assert len(drawn) == len({*drawn.tolist()}) == SAMPLE_ROWS
    assert np.quantile(drawn, [0.25, 0.5, 0.75]) == pytest.approx([12_500, 25_000, 37_500], abs=2_500)


def counted(count: int, dimensions: int) -> Iterator[tuple[SignBits, BitsQuery, NDArray[np.uint16]]]:
    """Yield rows as bits, a query, and the distance of each row from it, counted bit by bit."""
    rows = made(count, dimensions, 1)
    signs = SignBits(rows.mean(axis=0))
    signs.extend(rows)
    centre = rows.mean(axis=0)
    for query in made(5, dimensions, 2):
        aside = query - centre
        sizes = np.clip(np.rint(np.abs(aside) / (0.65 * np.sqrt(np.mean(aside**2)))), 0, 3)
        slow = ((rows > centre) != (aside > 0)) @ sizes
        yield signs, signs.query(query), slow.astype(np.uint16)


def test_distances_are_what_counting_bit_by_bit_gives() -> None:
    for signs, query, slow in counted(PANEL_ROWS + 1_000, 100):
        places = np.array([3, 500, 501, 999, PANEL_ROWS - 1, PANEL_ROWS, PANEL_ROWS + 999])
        assert distances(signs.panels, places, query).tolist() == slow[places].tolist()
        everything = shortlist(signs.panels, np.ones(len(slow), np.bool_), query, len(slow))
        assert everything.tolist() == [*range(len(slow))]


def test_of_few_rows_the_shortlist_has_exactly_the_nearest_and_of_many_nearly() -> None:
    eligible = np.ones(PANEL_ROWS + 4_000, np.bool_)
    eligible[::7] = False
    hits = 0
    for signs, query, slow in counted(len(eligible), 128):
        slow[~eligible] = 0xFFFF
        few = shortlist(signs.panels, eligible, query, 400)
        assert few.tolist() == nearest(slow, 400).tolist()
        many = shortlist(signs.panels, eligible, query, 100)
        assert len(many) == 100
        hits += len({*many.tolist()} & {*nearest(slow, 100).tolist()})
        assert eligible[many].all()
    assert hits >= 0.9 * 500, "these queries are near to nothing"


def test_the_nearest_are_as_many_as_asked_for_the_newest_of_those_that_are_equally_far() -> None:
    none = 0xFFFF
    found = np.array([5, 3, 3, none, 3, 1, 5, none], np.uint16)
    assert nearest(found, 3).tolist() == [2, 4, 5]
    assert nearest(found, 4).tolist() == [1, 2, 4, 5]
    assert nearest(found, 5).tolist() == [1, 2, 4, 5, 6]
    assert nearest(found, 50).tolist() == [0, 1, 2, 4, 5, 6]
    assert nearest(found, 0).tolist() == []
    assert nearest(found[:0], 5).tolist() == []


def test_a_block_shrinks_to_bits_when_it_grows_large_and_says_what_it_takes() -> None:
    held = Rows(384, 16 * 1024 * 1024)
    rows = made(12_000, 384, 1)
    held.put(range(1, 10_001), rows[:10_000])
    before, large = held.block.exact, held.block.nbytes
    held.put(range(10_001, 12_001), rows[10_000:])
    assert (before, held.block.exact) == (True, False)
    assert large == pytest.approx(10_000 * 384 * 4, rel=0.01)
    assert held.block.nbytes < 3_000_000
    assert held.search(rows[11_500], 1).numbers.tolist() == [11_501]


def test_every_finite_half_is_widened_as_numpy_does_it() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    assert np.array_equal(widened(halves).view(np.uint32), halves.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("dimensions", [1, 3, 384, 1_536])
def test_a_stored_vector_is_hardly_turned_and_of_length_1(dimensions: int) -> None:
    rows = _unit(np.random.default_rng(1).standard_normal((200, dimensions), dtype=np.float32))
    stored = packed(rows)
    assert {len(row) for row in stored} == {dimensions}
    read = unpacked(stored, dimensions)
    assert np.linalg.norm(read, axis=1) == pytest.approx(1, abs=1e-6)
    assert (rows * read).sum(axis=1).min() > 0.9999
    assert packed(read) == stored, "what is stored again is the same"


@pytest.mark.parametrize("old", ["none", "all", "some"])
def test_vectors_of_before_are_read_beside_those_of_now(old: str) -> None:
    rows = _unit(np.random.default_rng(2).standard_normal((40, 65), dtype=np.float32))
    halves = [row.tobytes() for row in rows.astype("<f2")]
    chosen = {"none": range(0), "all": range(40), "some": range(3, 40, 7)}[old]
    stored = [halves[at] if at in chosen else row for at, row in enumerate(packed(rows))]
    read = unpacked(stored, 65)
    assert (rows * read).sum(axis=1).min() > 0.9999
    assert all(np.array_equal(read[at], rows[at].astype("<f2").astype(np.float32)) for at in chosen)
    assert unpacked([], 65).shape == (0, 65)


def test_numpy_computes_in_one_thread_and_programs_started_later_do_not_hear_of_it() -> None:
    code = (
        "import os; before = dict(os.environ); import daycare.features.memory.embed.vectors, numpy as np;"
        "assert dict(os.environ) == before; a = np.ones((600, 600), 'f'); a @ a;"
        "print(len(os.listdir('/proc/self/task')))"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]


@pytest.mark.parametrize(("first", "exact"), [(2_000, False), (500, True)])
def test_a_block_that_will_be_large_has_bits_from_its_first_page_on(first: int, exact: bool) -> None:
    held = Rows(64, 1_000_000)
    held.block = VectorBlock(64, 1_000_000, expected=10_000)
    rows = made(10_000, 64, 1)
    held.put(range(1, first + 1), rows[:first])
    assert held.block.exact == exact, "a few vectors may be all that there are yet"
    held.put(range(first + 1, 10_001), rows[first:])
    assert not held.block.exact
    hits = 0
    for query, true in compared(held.rows, rows[::500]):
        hits += len({*held.search(query, 10).numbers.tolist()} & {*sorted(true, key=true.__getitem__)[-10:]})
    assert hits >= 0.9 * 200
