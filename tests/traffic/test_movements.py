"""Which messages moved: each once however it is paged, in a span of time, for whoever may know."""

from pathlib import Path

import pytest
import trio

from daycare.base.errors import InvalidError
from daycare.features.traffic import rows
from daycare.features.traffic.records import EVERYWHERE, Movement, PathScope
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted
from tests.traffic.test_stories import traffic_of


def named(movements: list[Movement]) -> list[tuple[str, int]]:
    return [(each.kind, each.seq) for each in movements]


async def test_each_movement_comes_once_however_it_is_paged(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:
        traffic = traffic_of(house)

        async def paged(at: str, limit: int, last_s: int = 30 * 86_400, until_ms: int | None = None) -> list[Movement]:
            found: list[Movement] = []
            place: str | None = ""
            while place is not None:
                page = await traffic.moved(
                    EVERYWHERE, PathScope.of(at), last_s=last_s, until_ms=until_ms, before=place, limit=limit
                )
                found += page.movements
                place = page.next
            return found

        await house.agent("/ann/agent/scribe")
        for number in range(6):
            await house.talk("hello", path="/ann/agent/scribe" if number % 3 == 0 else "")
            await trio.sleep(10)
        whole = await paged("/ann/**", 1000)
        assert named(whole) == sorted(named(whole), key=lambda each: (each[1], each[0] == "reply"), reverse=True)
        assert len(whole) == 12 and {each.source for each in whole if each.kind == "message"} == {"direct"}
        monkeypatch.setattr(rows, "ROWS_SCANNED_MAX", 2)
        for limit in (1, 2, 3, 5):
            assert sorted(named(await paged("/ann/**", limit))) == sorted(named(whole)), limit
        theirs = await paged("/ann/agent/**", 2)
        assert len(theirs) == 4 and "/ann/direct" not in {end for each in theirs for end in (each.source, each.target)}
        times = sorted({each.at_ms for each in whole})
        some = await paged("/ann/**", 2, last_s=(times[3] - times[1]) // 1000, until_ms=times[3])
        assert {each.at_ms for each in some} == set(times[1:4])
        with pytest.raises(InvalidError, match="no such place"):
            await traffic.moved(EVERYWHERE, EVERYWHERE, last_s=1, until_ms=None, before="4711", limit=1)


async def test_a_message_is_found_by_its_number_its_key_its_trace_and_its_agent(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:
        receipt = await house.say("hello", key="backup-2026-11-21")
        other = await house.say("hello")
        await house.hear(other)
        traffic = traffic_of(house)
        for text in (str(receipt.seq), "backup-2026-11-21", receipt.trace, f" {receipt.trace} "):
            found = await traffic.search(text, EVERYWHERE, 10)
            assert [each.trace for each in found] == [receipt.trace], text
            assert await traffic.search(text, PathScope.of("/bob/**"), 10) == []
        assert [each.trace for each in await traffic.search("/ann/direct", EVERYWHERE, 10)] == [
            other.trace,
            receipt.trace,
        ]
        assert await traffic.search("%", EVERYWHERE, 10) == [], "a text is a text, no pattern"
