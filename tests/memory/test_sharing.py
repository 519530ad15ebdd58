"""Documents as files: either side follows the other, and what was changed on both is shown and left alone."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daycare.base import limits
from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.sharing import STATE, Exchange, Sharing
from tests.memory import hostile
from tests.memory.house import BY, Memory, below, furnished, open_memory
from tests.store.samples import new_agent

SOUL = "agents/ann.telegram/SOUL.md"


class Shared(Memory):
    """Documents with a folder."""

    folder: Path
    sharing: Sharing

    async def export(self) -> Exchange:
        return await self.sharing.export(author="direct:ann", user="ann")

    async def take(self) -> Exchange:
        return await self.sharing.take(author="direct:ann", user="ann")

    def write(self, file: str, text: str) -> Path:
        """Write a file as a person would."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with open_memory() as memory:
        shared = Shared(memory.store, memory.agents)
        shared.folder = tmp_path / "memory"
        shared.sharing = Sharing(memory.store, shared.folder)
        yield shared


def told(done: Exchange) -> dict[str, Any]:
    """Return what an exchange did, without what it did not."""
    lists = ("written", "removed", "imported", "deleted", "pending")
    found: dict[str, Any] = {word: files for word in lists if (files := getattr(done, word))}
    if done.conflicts:
        found["conflicts"] = [each.file for each in done.conflicts]
    if done.skipped:
        found["skipped"] = [each.file for each in done.skipped]
    return found


async def everywhere(shared: Shared) -> dict[str, str]:
    """Write a document of each layer; return the files they are."""
    files = {}
    for path, file in (
        ("IDENTITY.md", "global/IDENTITY.md"),
        ("global/knowledge/tea.md", "global/knowledge/tea.md"),
        ("USER.md", "users/ann/USER.md"),
        ("shared/skills/kitchen/cook.md", "users/ann/skills/kitchen/cook.md"),
        ("workspace/notes.md", "users/ann/workspace/notes.md"),
        ("project/garden/plan.md", "users/ann/project/garden/plan.md"),
        ("SOUL.md", SOUL),
        ("MEMORY.md", "agents/ann.telegram/MEMORY.md"),
        ("daily/2027-01-01.md", "agents/ann.telegram/daily/2027-01-01.md"),
    ):
        await shared.put(path, f"# {path}\n")
        files[file] = f"# {path}\n"
    await shared.put("SOUL.md", "scribe's", shared.scribe)
    await shared.put("USER.md", "Ben's", shared.ben)
    return files | {"agents/ann.agent.scribe/SOUL.md": "scribe's", "users/ben/USER.md": "Ben's"}


async def test_an_export_writes_a_file_for_each_document_that_only_its_owner_reads(shared: Shared) -> None:
    files = await everywhere(shared)
    assert sorted((await shared.export()).written) == sorted(files)
    assert below(shared.folder) == files
    for path in (shared.folder, *shared.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    again = await shared.export()
    assert told(again) == {} and again.unchanged == len(files)


async def test_what_was_edited_on_disk_becomes_a_version_of_the_person(shared: Shared) -> None:
    await everywhere(shared)
    await shared.export()
    shared.write(SOUL, "edited")
    assert told(await shared.export()) == {"pending": [SOUL]}
    assert shared.folder.joinpath(SOUL).read_text() == "edited", "an export writes over nobody's work"
    assert told(await shared.take()) == {"imported": [SOUL]}
    version, before = await shared.documents.history(shared.ann, "SOUL.md")
    assert (version.version, version.base_hash, version.user) == (2, before.hash, "ann")
    assert (version.by.origin, version.by.author, version.by.approver) == (Origin.PERSON, "direct:ann", "direct:ann")
    assert version.by.provenance == (f"file:{SOUL}",)
    assert told(await shared.take()) == {}


async def test_what_was_edited_in_the_store_is_written_over_an_untouched_file(shared: Shared) -> None:
    await everywhere(shared)
    await shared.export()
    await shared.put("SOUL.md", "newer")
    await shared.documents.delete(shared.ann, "project/garden/plan.md", BY)
    assert told(await shared.take()) == {"written": [SOUL], "removed": ["users/ann/project/garden/plan.md"]}
    assert shared.folder.joinpath(SOUL).read_text() == "newer"
    assert not shared.folder.joinpath("users/ann/project/garden").exists(), "no empty folders are left"


async def test_a_new_file_becomes_a_document(shared: Shared) -> None:
    new = {
        "global/STYLE.md": "global/STYLE.md",
        "users/ben/knowledge/a/b.md": "shared/knowledge/a/b.md",
        "users/ann/workspace/n.md": "workspace/n.md",
        "agents/ann.agent.scribe/MEMORY.md": "MEMORY.md",
        "agents/ann.telegram/daily/2020-02-29.md": "daily/2020-02-29.md",
    }
    for file in new:
        shared.write(file, file)
    assert told(await shared.take()) == {"imported": sorted(new)}
    assert await shared.text("shared/knowledge/a/b.md", shared.ben) == "users/ben/knowledge/a/b.md"
    assert await shared.text("MEMORY.md", shared.scribe) == "agents/ann.agent.scribe/MEMORY.md"


async def test_a_removed_file_is_a_deletion_that_can_be_undone(shared: Shared) -> None:
    await everywhere(shared)
    await shared.export()
    shared.folder.joinpath(SOUL).unlink()
    assert told(await shared.export()) == {"pending": [SOUL]}
    assert told(await shared.take()) == {"deleted": [SOUL]}
    await shared.documents.undo(shared.ann, "SOUL.md", BY)
    assert told(await shared.take()) == {"written": [SOUL]}


async def test_a_folder_that_is_gone_deletes_nothing(shared: Shared) -> None:
    files = await everywhere(shared)
    await shared.export()
    for path in sorted(shared.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    shared.folder.rmdir()
    assert sorted((await shared.take()).written) == sorted(files)
    assert below(shared.folder) == files


async def test_what_changed_on_both_sides_is_shown_and_neither_is_touched(shared: Shared) -> None:
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await shared.put("SOUL.md", "the store's\n")
    shared.write(SOUL, "mine\n")
    for exchange in (shared.export, shared.take, shared.take):
        done = await exchange()
        assert told(done) == {"conflicts": [SOUL]}
        [conflict] = done.conflicts
        assert "-the store's\n+mine\n" in conflict.diff
        beside = "agents/ann.telegram/SOUL.store.md"
        assert conflict.theirs == beside
        assert below(shared.folder) == {SOUL: "mine\n", beside: "the store's\n"}
        assert await shared.text("SOUL.md") == "the store's\n"


async def test_a_conflict_ends_when_both_are_merged_and_the_other_text_is_removed(shared: Shared) -> None:
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await shared.put("SOUL.md", "the store's\n")
    shared.write(SOUL, "mine\n")
    await shared.take()
    shared.write(SOUL, "both\n")
    assert told(await shared.take()) == {"conflicts": [SOUL]}
    shared.folder.joinpath("agents/ann.telegram/SOUL.store.md").unlink()
    assert told(await shared.export()) == {"pending": [SOUL]}
    assert told(await shared.take()) == {"imported": [SOUL]}
    assert [each.version for each in await shared.documents.history(shared.ann, "SOUL.md")] == [3, 2, 1]


async def test_a_conflict_begins_anew_when_the_store_changed_once_more(shared: Shared) -> None:
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await shared.put("SOUL.md", "two\n")
    shared.write(SOUL, "mine\n")
    await shared.take()
    await shared.put("SOUL.md", "three\n")
    shared.folder.joinpath("agents/ann.telegram/SOUL.store.md").unlink()
    assert told(await shared.take()) == {"conflicts": [SOUL]}, "what was merged is not what is there"
    assert below(shared.folder)["agents/ann.telegram/SOUL.store.md"] == "three\n"


@pytest.mark.parametrize("same", ["the store's\n", "one\n"])
async def test_a_conflict_ends_by_taking_the_stores_side(shared: Shared, same: str) -> None:
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await shared.put("SOUL.md", "the store's\n")
    shared.write(SOUL, "mine\n")
    await shared.take()
    shared.write(SOUL, same)
    assert not (await shared.take()).conflicts
    assert below(shared.folder) == {SOUL: "the store's\n"}


async def test_a_file_edited_while_the_store_deleted_it_is_a_conflict_and_the_other_way_round_is_not(
    shared: Shared,
) -> None:
    await shared.put("SOUL.md", "one")
    await shared.export()
    await shared.documents.delete(shared.ann, "SOUL.md", BY)
    shared.write(SOUL, "mine")
    assert told(await shared.take()) == {"conflicts": [SOUL]}
    shared.folder.joinpath("agents/ann.telegram/SOUL.store.md").unlink()
    assert told(await shared.take()) == {"imported": [SOUL]}
    await shared.put("SOUL.md", "newer")
    shared.folder.joinpath(SOUL).unlink()
    assert told(await shared.take()) == {"written": [SOUL]}, "removed here, changed there: shown again"


async def test_what_somebody_wrote_beside_a_file_is_not_lost(shared: Shared) -> None:
    """They merged into the wrong one of the two."""
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await shared.put("SOUL.md", "the store's\n")
    shared.write(SOUL, "mine\n")
    await shared.take()
    beside = "agents/ann.telegram/SOUL.store.md"
    shared.write(beside, "merged\n")
    done = await shared.take()
    assert told(done) == {"skipped": [SOUL]} and f"written into {beside}" in done.skipped[0].why
    shared.write(SOUL, "the store's\n")
    done = await shared.take()
    assert told(done) == {"skipped": [beside]} and "move it away" in done.skipped[0].why
    assert below(shared.folder) == {SOUL: "the store's\n", beside: "merged\n"}
    done = await shared.take()
    assert told(done) == {"skipped": [beside]}, "it is told for as long as it lies there"


@pytest.mark.parametrize("text", ["two\n", None])
async def test_a_conflict_that_the_store_takes_back_leaves_nothing_behind(shared: Shared, text: str | None) -> None:
    await shared.put("SOUL.md", "one\n")
    await shared.export()
    await (shared.put("SOUL.md", text) if text else shared.documents.delete(shared.ann, "SOUL.md", BY))
    shared.write(SOUL, "mine\n")
    assert told(await shared.take()) == {"conflicts": [SOUL]}
    await shared.documents.undo(shared.ann, "SOUL.md", BY)
    assert told(await shared.take()) == {"imported": [SOUL]}
    assert below(shared.folder) == {SOUL: "mine\n"}


async def test_what_people_keep_who_were_let_in_is_not_shared(shared: Shared) -> None:
    bob = await shared.store.agents.create(new_agent("/ann/subuser/bob", user="ann"))
    for path in ("MEMORY.md", "USER.md", "workspace/x.md"):
        await shared.put(path, "Bob's", bob)
    assert told(await shared.export()) == {}
    shared.write("agents/ann.subuser.bob/MEMORY.md", "evil")
    shared.write("users/ann/subuser/bob/USER.md", "evil")
    assert len(told(await shared.take())["skipped"]) == 2
    assert await shared.text("MEMORY.md", bob) == "Bob's" == await shared.text("USER.md", bob)


async def test_both_sides_made_the_same_change(shared: Shared) -> None:
    await shared.put("SOUL.md", "one")
    await shared.export()
    await shared.put("SOUL.md", "two")
    shared.write(SOUL, "two")
    assert told(await shared.take()) == {}


async def test_files_without_a_memory_of_them_are_never_written_over(shared: Shared) -> None:
    await shared.put("SOUL.md", "one")
    for state in (None, "", "no json", "[]", '{"agents/ann.telegram/SOUL.md": 7}'):
        shared.write(SOUL, "mine")
        shared.folder.joinpath(STATE).unlink(missing_ok=True)
        if state is not None:
            shared.folder.joinpath(STATE).write_text(state)
        assert told(await shared.take()) == {"conflicts": [SOUL]}
        assert shared.folder.joinpath(SOUL).read_text() == "mine"
        assert await shared.text("SOUL.md") == "one"


async def test_a_daily_log_on_disk_only_grows(shared: Shared) -> None:
    log = "agents/ann.telegram/daily/2027-01-01.md"
    await shared.put("daily/2027-01-01.md", "- one\n")
    await shared.export()
    shared.write(log, "- rewritten\n")
    done = await shared.take()
    assert told(done) == {"skipped": [log]} and "only grows" in done.skipped[0].why
    shared.write(log, "- one\n- two\n")
    assert told(await shared.take()) == {"imported": [log]}


async def test_a_file_of_an_earlier_agent_is_nobody_elses(shared: Shared) -> None:
    await shared.put("MEMORY.md", "of the first", shared.scribe)
    await shared.export()
    file = "agents/ann.agent.scribe/MEMORY.md"
    await shared.store.agents.set_state(shared.scribe.id, "dead")
    done = await shared.take()
    assert told(done) == {"skipped": [file]} and "no agent has the folder" in done.skipped[0].why
    again = await shared.store.agents.create(new_agent(shared.scribe.path, agent_id="another", user="ann"))
    done = await shared.take()
    assert told(done) == {"skipped": [file]} and "earlier agent" in done.skipped[0].why
    assert "of the first" not in await shared.text("MEMORY.md", again)
    shared.folder.joinpath(file).unlink()
    assert told(await shared.take()) == {"written": [file]}


# -- whatever lies in the folder ---------------------------------------------------------------------------------------


NO_DOCUMENTS = {
    "README.md": "documents lie below",
    "users/README.md": "documents lie below",
    "users/nobody/USER.md": "no user 'nobody'",
    "users/ann-evil2/USER.md": "no user",
    "agents/ann.nowhere/SOUL.md": "no agent has the folder",
    "agents/ann.telegram/USER.md": "not in the layer agent",
    "agents/ann.telegram/AGENTS.md": "made when it is read",
    "agents/ann.telegram/soul.md": "in exactly these letters",
    "agents/ann.telegram/knowledge/a/b/c.md": "knowledge/FOLDER/NAME.md",
    "agents/ann.telegram/knowledge/nul.md": "device",
    "global/SOUL.md~": "found U+007E",
    "users/ann/knowledge/cafe\u0301.md": "only letters of ASCII",
}


async def test_only_documents_are_taken_in(shared: Shared) -> None:
    for file in NO_DOCUMENTS:
        shared.write(file, "x")
    shared.write("agents/ann.telegram/.SOUL.md.swp", "hidden files are nobody's business")
    done = await shared.take()
    why = {each.file: each.why for each in done.skipped}
    assert why.keys() == NO_DOCUMENTS.keys() and told(done).keys() == {"skipped"}
    for file, expected in NO_DOCUMENTS.items():
        assert expected in why[file], (file, why[file])
    assert await shared.store.of(DocumentRows).owners() == []


async def test_only_ordinary_texts_are_taken_in(shared: Shared, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    folder = shared.folder / "users/ann/knowledge"
    folder.mkdir(parents=True)
    folder.joinpath("large.md").write_text("x" * (limits.DOCUMENT_MAX_BYTES + 1))
    folder.joinpath("binary.md").write_bytes(b"\xff\xfe")
    folder.joinpath("nul.inside.md").write_text("x")
    folder.joinpath("null.md").write_text("a\x00b")
    folder.joinpath("link.md").symlink_to(secret)
    folder.joinpath("folder-link").symlink_to(tmp_path)
    folder.joinpath("folder.md").mkdir()
    folder.joinpath("hard.md").hardlink_to(secret)
    folder.parent.joinpath("SOUL.md").symlink_to("../../../secret.md")
    os.mkfifo(folder / "pipe.md")
    done = await shared.take()
    why = {each.file.removeprefix("users/ann/"): each.why for each in done.skipped}
    expected = {
        "SOUL.md": "links are not followed",
        "knowledge/binary.md": "not text in UTF-8",
        "knowledge/folder-link": "expected",
        "knowledge/hard.md": "hard link",
        "knowledge/large.md": f"over {limits.DOCUMENT_MAX_BYTES} bytes",
        "knowledge/link.md": "links are not followed",
        "knowledge/nul.inside.md": "expected",
        "knowledge/null.md": "NUL",
        "knowledge/pipe.md": "no ordinary file",
    }
    assert why.keys() == expected.keys() and told(done).keys() == {"skipped"}
    for file, words in expected.items():
        assert words in why[file], (file, why[file])
    assert await shared.store.of(DocumentRows).owners() == []
    assert secret.read_text() == "secret"


async def test_names_that_are_no_text_are_told_and_left_alone(shared: Shared) -> None:
    names = ("global/\udcff.md", "global/a\nb.md", "users/\udcff/USER.md", "agents/\udcff/x.md", "users/ann/a.store.md")
    for name in names:
        shared.write(name, "x")
    done = await shared.take()
    assert {each.file for each in done.skipped} == {name.replace("\udcff", "\\udcff") for name in names}


def made(folder: Path, above: str, path: str) -> str:
    """Make a file of a hostile name below a folder, holding its own name, where the system lets us; return that."""
    file = Path(os.path.normpath(f"{folder}/{above}/{path}"))
    name = str(file).removeprefix(f"{folder}/")
    if not str(file).startswith(f"{folder}/{above}/") or "/." in f"/{name}":
        return ""  # no file below the folder, or a hidden one
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name, errors="replace")
    except (OSError, ValueError):
        return ""  # no file can have this name, or a file stands where its folder would be
    return name


async def test_no_hostile_name_becomes_another_document(shared: Shared) -> None:
    tops = ("global", "users/ann", "agents/ann.telegram", "agents/ann.telegram.evil", "users/ann-evil2")
    files = {made(shared.folder, above, path) for above in tops for path in hostile.PATHS} - {""}
    assert len(files) > 500
    done = await shared.take()
    assert len(done.skipped) + len(done.imported) == len(files)
    texts = set()
    for layer, owner in await shared.store.of(DocumentRows).owners():
        assert owner in ("", "ann", shared.ann.id)
        for each in await shared.store.of(DocumentRows).find(layer, owner, limit=1_000):
            found = await shared.store.of(DocumentRows).get(each.place)
            assert found is not None and found.text is not None and found.text.endswith(f"/{each.place.name}")
            texts.add(found.text)
    assert texts == set(done.imported), "each is the text of the file of its name"


@pytest.mark.parametrize("where", ["", "agents", "agents/ann.telegram", SOUL])
async def test_an_export_goes_through_no_link(shared: Shared, tmp_path: Path, where: str) -> None:
    await shared.put("SOUL.md", "secret soul")
    outside = tmp_path / "outside"
    outside.mkdir()
    link = shared.folder / where
    link.parent.mkdir(parents=True, exist_ok=True)
    if where == SOUL:
        outside.joinpath("SOUL.md").write_text("untouched")
        link.symlink_to(outside / "SOUL.md")
        assert told(await shared.export()) == {"skipped": [SOUL]}
        assert below(outside) == {"SOUL.md": "untouched"}
        return
    link.symlink_to(outside)
    try:
        done = await shared.export()
    except UnavailableError as error:
        assert error.code == "SHARED_FOLDER" and "links are not followed" in error.message
    else:
        assert SOUL in told(done)["skipped"]
    assert below(outside) == {}


async def test_too_many_files_are_refused(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.memory.documents.folder.SHARED_FILES_MAX", 3)
    for number in range(4):
        shared.write(f"global/knowledge/{number}.md", "x")
    with pytest.raises(InvalidError) as caught:
        await shared.take()
    assert caught.value.code == "SHARED_TOO_MANY"


async def test_an_exchange_that_was_cut_off_is_repeated_without_harm(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = await everywhere(shared)
    await shared.export()
    shared.write(SOUL, "mine")
    await shared.put("USER.md", "the store's")
    with monkeypatch.context() as patched:
        patched.setattr(Sharing, "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(BaseException) as caught:
            await shared.take()
        assert isinstance(caught.value, KeyboardInterrupt)
    assert told(await shared.take()) == {}
    assert below(shared.folder) == files | {SOUL: "mine", "users/ann/USER.md": "the store's"}
    assert len(await shared.documents.history(shared.ann, "SOUL.md")) == 2


async def test_an_agent_with_a_long_path_has_a_folder_of_its_id(tmp_path: Path) -> None:
    async with open_memory() as memory:
        shared = Shared(memory.store, (await furnished(memory.store)).agents)
        shared.folder = tmp_path / "memory"
        shared.sharing = Sharing(memory.store, shared.folder)
        path = "/ann/agent/" + "x" * 64 + "".join(f"/sub/{2**31 - 1}" for _ in range(8)) + "/search/2147483647"
        agent = await memory.store.agents.create(new_agent(path, agent_id="deep", user="ann"))
        await shared.put("SOUL.md", "deep", agent)
        [file] = (await shared.export()).written
        assert file == ("agents/id-deep/SOUL.md" if len(path) > 200 else file)
        shared.write(file, "deeper")
        assert told(await shared.take()) == {"imported": [file]}
        assert await shared.text("SOUL.md", agent) == "deeper"
