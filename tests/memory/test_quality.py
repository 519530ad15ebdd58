"""Search finds what answers a question: in scripts without spaces, and in dialogues whose evidence is known."""

from pathlib import Path

import msgspec
import pytest

from daycare.base.memory_settings import RetrievalSection
from daycare.features import open_store
from daycare.features.memory.language.analysis import indexed
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.search.service import Search
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from tests.bench import locomo, memories, memory_quality
from tests.memory import spaceless

ROOT = Path(__file__).parents[2]
DATA = ROOT / memory_quality.DATA
LATER_MS = 1_900_000_000_000


@pytest.mark.parametrize("language", ["zh", "ja", "ko"])
async def test_in_a_script_without_spaces_a_short_question_finds_its_memory(language: str, tmp_path: Path) -> None:
    told = [text for one in spaceless.MEMORIES for text in spaceless.memories(one)]
    first = told.index(spaceless.memories(language)[0])
    location = tmp_path / "memories.db"
    async with open_store(str(location)) as store:
        await memories.add_turns(store, len(told))
        numbers: list[int] = []
        for turn, text in enumerate(told, 1):
            ended, entry = memories.said(turn, text)
            entry = msgspec.structs.replace(entry, index=indexed(text), session=turn, speaker="")
            numbers += await store.of(MemoryRows).log([ended], [entry])
        search = Search(store, Live(), None)
        ranks = []
        for place, question in spaceless.questions(language):
            hits = await search.find(MemoryQuery(scope=memories.SCOPE, text=question, now_ms=LATER_MS))
            found = [hit.memory.no for hit in hits]
            wanted = numbers[first + place]
            ranks.append(1 / (1 + found.index(wanted)) if wanted in found else 0.0)
    assert sum(ranks) / len(ranks) >= 0.9, ranks


@pytest.fixture
def dialogue() -> locomo.Dialogue:
    if not DATA.is_file():
        pytest.skip(f"no dialogues to measure with: {DATA} is not there")
    return locomo.read(DATA)[0]


def test_without_an_embedder_search_finds_far_more_than_naive_search(dialogue: locomo.Dialogue, tmp_path: Path) -> None:
    figures = memory_quality.measured(tmp_path, [dialogue], {})
    assert figures["best_none"] >= 0.76
    assert figures["best_none"] >= 1.35 * figures["naive"]
    assert figures["budget_none"] >= 0.88
    assert figures["best_local"] is None
    assert figures["unrelated_none"] <= 0.5 * RetrievalSection().max_results, figures["unrelated_none"]


def test_without_data_the_benchmark_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.bench.__main__ import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["bench", "memory-quality", "--data", str(tmp_path / "none.json")])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert "none.json" in str(stopped.value.code)
