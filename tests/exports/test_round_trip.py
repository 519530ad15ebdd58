"""What comes out of an import is what went into the export, under other names."""

from pathlib import Path

from daycare.exports.archive import PARTS
from tests.exports.houses import as_it_should_be, exported, files, house_at, imported, lived, records

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


async def test_two_exports_of_the_same_have_the_same_records(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        first, second = (await exported(house))[1], (await exported(house))[1]
    assert records(first) == records(second)
