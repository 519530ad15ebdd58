"""What comes out of an import is what went into the export, under other names."""

from pathlib import Path

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.messages import Origin
from daycare.features.exports.archive import PARTS
from daycare.features.exports.engine import ExportProgress
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.versions import NEWEST_KEPT
from tests.exports.houses import (
    WORK,
    as_it_should_be,
    exported,
    exports_of,
    files,
    house_at,
    imported,
    lived,
    records,
)
from tests.exports.test_hostile import of_version, packed, unpacked

BOBS = "/bob/agent/second"


async def test_an_import_elsewhere_and_an_export_of_it_give_the_same_content(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path / "here") as house:
        await lived(house)
        report, data = await exported(house)
    everything = {str(kind.__struct_config__.tag) for kind in PARTS.values()}
    assert report.taken.keys() == everything, "the life had something of each kind"
    async with house_at(tmp_path / "there") as house:
        await house.talk("somebody else lives here already")
        there = await imported(house, data, BOBS)
        again, twice = await exported(house, BOBS)
    assert records(twice) == as_it_should_be(data, BOBS)
    assert files(twice) == files(data)
    assert there.taken == again.taken == report.taken


async def test_a_repeat_of_a_message_after_a_move_gets_the_answer_it_had(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path / "here") as house:
        await house.agent(WORK)
        answer = await house.talk("I love green tea.", key="tea", path=WORK)
        _, data = await exported(house)
        await exports_of(house).clone(WORK, "/ann/agent/twin", progress=ExportProgress())
        twin = await house.say("I love green tea.", key="tea", path="/ann/agent/twin")
        assert not twin.duplicate, "a clone is another agent, beside the one that answered"
    for old in (data, packed(of_version(2, unpacked(data)))):
        async with house_at(tmp_path / f"there-{len(old)}") as house:
            await imported(house, old, WORK)
            repeat = await house.say("I love green tea.", key="tea", path=WORK)
            assert repeat.duplicate == (old is data), "an older export does not say what was answered"
            if old is data:
                assert (repeat.state, repeat.result) == ("done", answer)
                assert not (await house.say("And coffee.", key="coffee", path=WORK)).duplicate


async def test_two_exports_of_the_same_have_the_same_records(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        first, second = (await exported(house))[1], (await exported(house))[1]
    assert records(first) == records(second)


async def test_versions_that_were_thinned_travel_without_gaps(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        mine = await house.agent(WORK)
        place = Place(Layer.AGENT, mine.id, "knowledge/note.md")
        by = Attribution(origin=Origin.AGENT, author=WORK)
        for number in range(80):
            await house.store.of(DocumentRows).append(
                NewVersion(place=place, user="ann", by=by, text=f"line {number}\n")
            )
        while await house.store.of(DocumentRows).thin():
            pass
        left = await house.store.of(DocumentRows).history(place)
        assert len(left) == NEWEST_KEPT + 1, "the first says since when it exists"
        await imported(house, (await exported(house))[1], "/ann/agent/copy")
        copy = Place(Layer.AGENT, (await house.daemon.directory.at("/ann/agent/copy")).id, place.name)
        there = await house.store.of(DocumentRows).history(copy)
        assert [each.version for each in there] == list(range(len(left), 0, -1))
        assert [each.hash for each in there] == [each.hash for each in left]
        for old, new in zip(left, there, strict=True):
            before = await house.store.of(DocumentRows).at(place, old.version)
            after = await house.store.of(DocumentRows).at(copy, new.version)
            assert before is not None and after is not None and before.text == after.text
