"""Facts, entities and passages of documents are found by a part of their text, in scripts without spaces as well."""

from pathlib import Path

import pytest
import trio

from daycare.base.documents import Attribution
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.config import Config
from daycare.features.memory.facts.learned import Learned, NewEntity, NewFact
from daycare.features.memory.facts.merging import merge_result
from daycare.features.memory.search.lookup import Filters
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Agent
from daycare.testing.daemon import TestDaemon, open_daemon

BY = Attribution(origin=Origin.PERSON, author="direct:ann")
TEXTS = {  # a text and a part of it
    "Chinese": ("我妹妹下个月要去北京大学读书", "北京大学"),
    "Japanese": ("うちの猫の名前はクロで、三歳です", "猫の名前"),
    "Korean": ("여동생이 다음 달부터 서울대학교에 다녀요", "서울대학교"),
    "Thai": ("พี่สาวของฉันอาศัยอยู่ที่เชียงใหม่", "เชียงใหม่"),
    "Lao": ("ແມ່ຂອງຂ້ອຍຢູ່ວຽງຈັນ", "ວຽງຈັນ"),
    "Khmer": ("ម្តាយរបស់ខ្ញុំរស់នៅភ្នំពេញ", "ភ្នំពេញ"),
    "Burmese": ("ကျွန်တော့်အမေ ရန်ကုန်မှာ နေတယ်", "ရန်ကုန်"),
    "a name in a program": ("retries are set by maxRetryCount", "retry count"),
    "a name in a program, whole": ("retries are set by maxRetryCount", "maxRetryCount"),
    "a code": ("the boiler shows ERR_42-X at night", "ERR_42-X"),
    "a part of a code": ("the boiler shows ERR_42-X at night", "err 42"),
}
OTHERS = ("天气很好", "明日は雨です", "วันนี้ฝนตก", "the weather is fine", "a cat sleeps")
cases = pytest.mark.parametrize(("text", "part"), TEXTS.values(), ids=TEXTS)


async def learned(house: TestDaemon, *texts: str) -> Agent:
    """Let somebody say something, and a worker learn these facts from it."""
    await house.talk("hello there")
    await trio.sleep(5)
    me = await house.daemon.directory.at("/ann/direct")
    [entry, *_] = await said(house, me)
    facts = tuple(
        NewFact(statement=text, sources=(entry.no,), subject=f"s{at}", kind="fact", confidence=0.9)
        for at, text in enumerate(texts)
    )
    await house.store.of(MemoryRows).learn(
        merge_result(me, Learned(facts=facts, by="test"), [entry], [], after=0, through=entry.no)
    )
    return me


async def said(house: TestDaemon, me: Agent) -> list[StoredMemory]:
    return await house.store.of(MemoryRows).entries(me.id, after=0, through=2**62, max_chars=10**6)


async def best(house: TestDaemon, me: Agent, question: str, tier: Tier) -> str:
    found = await house.daemon.memory.controls.search(me, question, Filters(tier=tier))
    return found[0].text if found else ""


@cases
async def test_a_fact_is_found_by_a_part(text: str, part: str, tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        me = await learned(house, *OTHERS, text)
        assert await best(house, me, part, Tier.FACT) == text


@cases
async def test_a_passage_of_a_document_is_found_by_a_part(
    text: str, part: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        await house.talk("hello there")
        me = await house.daemon.directory.at("/ann/direct")
        for name, words in (("it", text), *((f"other-{at}", other) for at, other in enumerate(OTHERS))):
            await house.daemon.memory.documents.write(me, f"knowledge/{name}.md", words, BY)
        await trio.sleep(5)
        assert await best(house, me, part, Tier.CHUNK) == text


async def test_an_entity_is_found_by_a_part_of_a_name_that_came_later(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=Config()) as house:
        await house.talk("hello there")
        await trio.sleep(5)
        me = await house.daemon.directory.at("/ann/direct")
        [entry, other, *_] = await said(house, me)
        first = NewEntity(name="Cat", kind="thing", aliases=(), description="sleeps all day", sources=(entry.no,))
        again = NewEntity(
            name="Cat", kind="thing", aliases=("小黑猫", "fluffyCat"), description="", sources=(other.no,)
        )
        await house.store.of(MemoryRows).learn(
            merge_result(me, Learned(entities=(first,), by="test"), [entry], [], after=0, through=entry.no)
        )
        known = await house.store.of(MemoryRows).find("ann", Tier.ENTITY)
        await house.store.of(MemoryRows).learn(
            merge_result(me, Learned(entities=(again,), by="test"), [other], known, after=entry.no, through=other.no)
        )
        for part in ("黑猫", "fluffy", "cat"):
            assert await best(house, me, part, Tier.ENTITY) == "sleeps all day", part
