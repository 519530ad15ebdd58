"""Nothing in an export is trusted: what is not as it should be is refused, with what is wrong, and nothing happens."""

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.errors import InvalidError
from daycare.base.limits import EXPORT_LINE_MAX_BYTES
from daycare.features.exports import archive, tar
from daycare.features.exports.archive import END, MANIFEST, PARTS, ExportArchive
from tests.exports.houses import house_at, imported

BOBS = "/bob/agent/second"
Members = dict[str, bytes]
Change = Callable[[Members], object]


def unpacked(data: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as found:
        return {each.name: found.extractfile(each).read() for each in found}  # type: ignore[union-attr]


def of_version(version: int, members: Members) -> Members:
    """Make members of an export as a version before 3 has written them."""
    manifest = json.loads(members[MANIFEST])
    manifest["parts"] = [part for part in manifest["parts"] if part["name"] != archive.RECEIPTS]
    members[MANIFEST] = json.dumps(manifest | {"version": version}).encode()
    del members[archive.RECEIPTS]
    return members


def packed(members: Members, *, honest: bool = True) -> bytes:
    """Make an export of members; an honest one says of them what they are."""
    if honest:
        manifest = json.loads(members[MANIFEST])
        for part in manifest["parts"]:
            data = members[part["name"]]
            part |= {"records": data.count(b"\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        members[MANIFEST] = json.dumps(manifest).encode()
        members[END] = json.dumps({"sha256": hashlib.sha256(members[MANIFEST]).hexdigest()}).encode()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.USTAR_FORMAT) as made:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return target.getvalue()


def lines(part: str, change: Callable[[list[Any]], object]) -> Change:
    """Change the records of a part."""

    def apply(members: Members) -> None:
        found = [json.loads(line) for line in members[part].splitlines()]
        change(found)
        members[part] = b"".join(json.dumps(each).encode() + b"\n" for each in found)

    return apply


def with_(place: int, **fields: Any) -> Callable[[list[Any]], object]:
    return lambda found: found[place].update(fields)


def twice(place: int) -> Callable[[list[Any]], object]:
    return lambda found: found.insert(place, found[place])


def without(place: int) -> Callable[[list[Any]], object]:
    return lambda found: found.pop(place)


def with_fact(**fields: Any) -> Change:
    """Change the first fact there is."""
    return lines("memories.jsonl", lambda found: found[6]["fact"].update(fields))


LIES = {
    "an unknown kind of record": (lines("turns.jsonl", with_(0, type="agent")), "Invalid value 'agent'"),
    "a user of its own": (lines("turns.jsonl", with_(0, user="ann")), "unknown field `user`"),
    "an id of its own": (lines("agents.jsonl", with_(0, id="ceo")), "unknown field `id`"),
    "two roots": (lines("agents.jsonl", twice(0)), "the root comes first"),
    "an agent twice": (lines("agents.jsonl", twice(1)), "does not come after"),
    "no agent": (
        lambda members: [members.update(dict.fromkeys(PARTS, b"")), members.pop("files/1"), members.pop("files/2")],
        "there is no agent in it",
    ),
    "an agent elsewhere": (lines("agents.jsonl", with_(1, path="/../../ann/direct")), "line 2 of agents.jsonl"),
    "an agent beside": (lines("agents.jsonl", with_(1, path="x")), "nobody's helper"),
    "an agent of a kind that has none": (lines("agents.jsonl", with_(1, path="/agent/x")), "agents.jsonl"),
    "a session twice": (lines("sessions.jsonl", twice(0)), "does not come after"),
    "a session to come": (lines("sessions.jsonl", with_(0, session=99)), "has not had this session"),
    "a turn of nobody": (lines("turns.jsonl", with_(0, agent=77)), "there is no agent 77"),
    "a trace from the future": (lines("turns.jsonl", with_(0, trace=5)), "comes later"),
    "an open turn": (lines("turns.jsonl", with_(0, state="open")), "Invalid enum value 'open'"),
    "a number too large": (lines("turns.jsonl", with_(0, started_at=2**70)), "line 1 of turns.jsonl"),
    "a number below nothing": (lines("turns.jsonl", with_(0, attempt=-1)), "line 1 of turns.jsonl"),
    "text in place of a number": (lines("turns.jsonl", with_(0, attempt="1")), "Expected `int`"),
    "a role that nobody has": (
        lines("turns.jsonl", with_(0, messages=[{"role": "system", "parts": []}])), "Invalid enum value 'system'"
    ),
    "a file that is not there": (
        lines("turns.jsonl", with_(0, messages=[{"role": "user", "parts": [
            {"type": "file", "id": 99, "name": "x", "media_type": "x", "size": 1}]}])), "names file 99"
    ),
    "a message of no agent": (lines("receipts.jsonl", with_(0, agent=99)), "there is no agent 99"),
    "a message of no turn": (lines("receipts.jsonl", with_(0, turn=4_000)), "a turn that is not there"),
    "a key that is none": (lines("receipts.jsonl", with_(0, key="")), "line 1 of receipts.jsonl"),
    "a summary of another's turn": (lines("summaries.jsonl", with_(0, through=11)), "not of this session"),
    "a document that climbs out": (lines("documents.jsonl", with_(0, name="../../../etc/passwd")), "documents.jsonl"),
    "a document with a name that is none": (lines("documents.jsonl", with_(0, name="MEMORY.MD")), "documents.jsonl"),
    "an identity for everybody": (
        lines("documents.jsonl", with_(0, layer="global", name="IDENTITY.md")), "of the layer global and of agent 0"
    ),
    "a version left out": (lines("documents.jsonl", without(1)), "does not follow"),
    "a text of another hash": (lines("documents.jsonl", with_(0, text="forged")), "has another hash"),
    "a document too long": (lines("documents.jsonl", with_(0, text="x" * 200_000, hash="")), "at most"),
    "half a character": (lambda members: members.update(
        {"documents.jsonl": members["documents.jsonl"].replace(b'"text":"one"', b'"text":"\\ud800"', 1)}), "documents"),
    "a memory of a scope": (lines("memories.jsonl", with_(0, scope="ann")), "unknown field `scope`"),
    "a fact that is a log": (lines("memories.jsonl", with_(0, tier="fact")), "only a fact"),
    "a chunk": (lines("memories.jsonl", with_(0, tier="chunk")), "Invalid enum value 'chunk'"),
    "a fact superseded by nothing": (with_fact(superseded_by=999_999), "999999"),
    "a time that is none": (with_fact(valid_until_ms=2**62), "times"),
    "a source that is no entry": (
        lines("memories.jsonl", lambda found: found[6]["sources"][0].update(memory=7)), "7 is no log entry"
    ),
    "a mark beyond the log": (lines("marks.jsonl", with_(0, through=5_000)), "no log entry"),
    "a mark twice": (lines("marks.jsonl", twice(0)), "does not come after"),
    "a reminder that says it is a person": (lines("reminders.jsonl", with_(0, origin="person")), "no reminder"),
    "a command as a reminder": (lines("reminders.jsonl", with_(0, kind="command")), "no reminder"),
    "a job of another's name": (lines("jobs.jsonl", with_(0, name="../x")), "name of a job"),
    "a job that is none": (lines("jobs.jsonl", lambda found: found[0]["spec"].update(cron="* * *")), "jobs.jsonl"),
    "a job for somebody else": (
        lines("jobs.jsonl", lambda found: found[0]["spec"].update(target="/carl/agent/x")), "of another user"
    ),
    "a file of no turn": (lines("files.jsonl", with_(0, turn=4_000)), "no turn that is there"),
    "a file of another size": (lambda members: members.update({"files/1": b"short"}), "file 1 is not as"),
    "other parts": (lambda members: members.update({"evil.sh": b"#"}), "expected end.json|more behind"),
    "a part too few": (lambda members: members.pop("files/2") and None, "expected files/2"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
async def test_what_is_not_as_it_should_be_is_refused(
    tmp_path: Path, life: bytes, autojump_clock: object, lie: str
) -> None:
    change, told = LIES[lie]
    members = unpacked(life)
    change(members)
    if lie == "other parts":  # before its end
        members[END] = members.pop(END)
    async with house_at(tmp_path) as house:
        await trio.sleep(1)  # what the making of the house tells of is written by then
        before = house.store._db.total_changes()
        with pytest.raises(InvalidError, match=told) as found:
            await imported(house, packed(members), BOBS)
        assert found.value.code in ("EXPORT_INVALID", "EXPORT_DAMAGED")
        assert house.store._db.total_changes() == before


def read(data: bytes) -> None:
    ExportArchive(io.BytesIO(data)).read(lambda record: None)


def test_an_untouched_one_is_taken(life: bytes) -> None:
    read(life)
    read(packed(unpacked(life)))


def test_what_is_cut_off_anywhere_is_refused(life: bytes) -> None:
    for at in (0, 1, 2, 10, len(life) // 3, len(life) // 2, len(life) - 9, len(life) - 1):
        with pytest.raises(InvalidError):
            read(life[:at])


def test_a_changed_byte_is_found_wherever_it_is(life: bytes) -> None:
    plain = gzip.decompress(life)
    dice = random.Random(7)
    ignored = 0
    for at in dice.sample(range(len(plain)), 300):
        changed = bytearray(plain)
        changed[at] ^= 1 << dice.randrange(8)
        try:
            read(gzip.compress(bytes(changed), 1))
        except InvalidError:
            continue
        ignored += 1
        assert not plain[at], "only what fills up blocks says nothing"
    assert ignored < 300


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.XHDTYPE, b"L"])
def test_anything_but_plain_files_is_refused(life: bytes, kind: bytes) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=tarfile.USTAR_FORMAT) as made:
        info = tarfile.TarInfo(MANIFEST)
        info.type, info.linkname = kind, "/etc/passwd"
        made.addfile(info)
    with pytest.raises(InvalidError):
        read(target.getvalue())


def test_names_that_lead_elsewhere_are_never_followed(life: bytes, tmp_path: Path) -> None:
    members = unpacked(life)
    for name in ("/etc/daycare", "../../../tmp/evil", "files/../../x"):
        wrong = {MANIFEST: members[MANIFEST], name: b"x"} | members
        with pytest.raises(InvalidError, match="expected agents"):
            read(packed(wrong))


def test_something_behind_the_end_is_refused(life: bytes) -> None:
    for more in (gzip.compress(b"more"), b"more"):
        with pytest.raises(InvalidError):
            read(life + more)


def test_a_bomb_is_given_up_before_it_is_unpacked(life: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "EXPORT_MAX_BYTES", 100_000)
    monkeypatch.setattr(archive, "EXPORT_RECORDS_MAX_BYTES", 1_000_000)
    members = unpacked(life)
    members["turns.jsonl"] = b"\n" * 900_000 + members["turns.jsonl"]
    with pytest.raises(InvalidError, match="line 1 of turns"):
        read(packed(members))
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as target:
        tar.put_bytes(target, MANIFEST, unpacked(life)[MANIFEST])  # type: ignore[arg-type]
        tar.put(target, "agents.jsonl", 50_000_000, io.BytesIO(bytes(50_000_000)))  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="unpacks to over"):
        read(bomb.getvalue())


def test_a_line_without_an_end_is_not_gathered() -> None:
    class Endless:
        given = 0

        def read(self, size: int, /) -> bytes:
            self.given += size
            return b"x" * size

    source = Endless()
    part = tar.ArchivePart(source, "turns.jsonl", 2**33 - 1)
    with pytest.raises(InvalidError, match="is over"):
        list(part.lines(EXPORT_LINE_MAX_BYTES))
    assert source.given < 2 * EXPORT_LINE_MAX_BYTES


def test_a_newer_format_is_told_as_such(life: bytes) -> None:
    members = unpacked(life)
    members[MANIFEST] = json.dumps(
        {"format": "daycare-export", "version": archive.VERSION + 1, "new": "field"}
    ).encode()
    with pytest.raises(InvalidError) as found:
        read(packed(members, honest=False))
    assert found.value.code == "EXPORT_FROM_FUTURE"


def test_deep_nesting_is_refused_and_not_a_crash(life: bytes) -> None:
    members = unpacked(life)
    call = b'{"type":"tool_call","id":"1","name":"x","arguments":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    first, rest = members["turns.jsonl"].split(b"\n", 1)
    turn = json.loads(first) | {"messages": [{"role": "user", "parts": ["HERE"]}]}
    members["turns.jsonl"] = json.dumps(turn).encode().replace(b'"HERE"', call) + b"\n" + rest
    with pytest.raises(InvalidError, match="line 1 of turns"):
        read(packed(members))
