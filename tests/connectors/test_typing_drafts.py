"""Drafts: an answer is seen while it grows, soon, seldom, and never after it is there."""

import pytest
import trio
import trio.testing

from daycare.connectors.preview import PREVIEW_MAX_CHARS
from tests.connectors.stage import on_stage


async def test_a_draft_grows_by_the_second_and_always_shows_the_newest(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start(turn=42)
        words = [f"word{n} " for n in range(100)]
        for word in words:
            stage.write(word, turn=42)
            await trio.sleep(0.07)
        stage.finish("".join(words), turn=42)
        stage.sent()
        await trio.sleep(60)
        drafts = stage.of("draft")
        assert stage.times("draft") == pytest.approx([0.21, 1.21, 2.21, 3.21, 4.21, 5.21, 6.21], abs=0.01)
        assert [draft.text.split()[-1] for draft in drafts] == [
            "word3",
            "word17",
            "word31",
            "word45",
            "word60",
            "word74",
            "word88",
        ]
        assert {draft.number for draft in drafts} == {42}
        assert not stage.of("status"), "nothing has to be withdrawn"


async def test_few_words_are_shown_after_half_a_second_and_once(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        await trio.sleep(3)
        stage.write(" \n")
        stage.write("Hm.")
        await trio.sleep(20)
        assert (stage.times("draft"), stage.texts("draft")) == ([3.5], ["Hm."])


async def test_a_slow_draft_holds_up_nothing_and_is_never_followed_by_old_ones(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", 7.5)
        stage.start()
        for n in range(100):
            stage.write(f"a longer word {n} ")
            await trio.sleep(0.1)
        assert stage.times("draft") == pytest.approx([0.1, 7.6, 8.6, 9.6], abs=0.11)
        assert stage.texts("draft")[1].endswith(("74", "75", "76"))
        assert stage.times("act") == [0.0, 4.0, 8.0]


async def test_what_is_on_its_way_when_the_turn_ends_is_called_back(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.pigeon.upset("draft", 9.0)
        stage.pigeon.upset("act", 9.0)
        stage.start()
        stage.write("twenty characters at least")
        await trio.sleep(1)
        stage.finish()
        with trio.fail_after(1):
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(30)
        assert sorted(shown.call for shown in stage.pigeon.shown) == ["act", "draft"]


async def test_words_of_a_failed_try_vanish(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("The capital of Australia is Syd")
        await trio.sleep(2)
        stage.void()
        await trio.sleep(2)
        stage.write("Canberra")
        await trio.sleep(2)
        assert stage.texts("draft") == ["The capital of Australia is Syd", "…", "Canberra"]


async def test_a_long_text_shows_its_end_and_keeps_code_open(autojump_clock: object) -> None:
    async with on_stage() as stage:
        stage.start()
        stage.write("Here it is:\n```python\n")
        for n in range(3_000):
            stage.write(f"line_{n} = {n}\n")
            await trio.sleep(0.01)
        await trio.sleep(2)
        last = stage.texts("draft")[-1]
        assert last.startswith("…\n\n```\nline_")
        assert last.endswith("line_2999 = 2999")
        assert max(map(len, stage.texts("draft"))) <= PREVIEW_MAX_CHARS + 10


async def test_nothing_is_streamed_where_that_is_switched_off(autojump_clock: object) -> None:
    async with on_stage(stream=False) as stage:
        stage.start()
        stage.write("twenty characters at least")
        stage.tool()
        await trio.sleep(5)
        assert stage.texts("draft") == ["⏳ using weather … 2 s"]
    async with on_stage(progress=False) as stage:
        stage.start()
        stage.write("twenty characters at least")
        stage.tool()
        await trio.sleep(5)
        assert stage.texts("draft") == ["twenty characters at least"]
