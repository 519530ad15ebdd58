"""What an agent and its people keep: read through the layers, changed upon what was seen, each agent its own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base import limits
from daycare.base.documents import Attribution, Layer, digest
from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import NEW_MEMORY, SECTIONS
from tests.memory import hostile
from tests.memory.house import ANN, BY, Memory, open_memory
from tests.store.samples import new_agent


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with open_memory() as memory:
        yield memory


async def paths(memory: Memory, prefix: str = "") -> list[str]:
    return [each.path for each in await memory.documents.listing(memory.ann, prefix)]


async def everything(memory: Memory) -> list[Any]:
    """Return every version of every document there is."""
    found = []
    for layer, owner in await memory.store.of(DocumentRows).owners(limit=1_000):
        for each in await memory.store.of(DocumentRows).find(layer, owner, limit=1_000):
            found += await memory.store.of(DocumentRows).history(each.place)
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_the_agents_own_text_goes_before_its_users_and_that_before_everybodys(memory: Memory) -> None:
    for prefix, text in (("global/", "everybody's"), ("shared/", "Ann's"), ("", "the agent's")):
        await memory.put(f"{prefix}SOUL.md", text)
        assert await memory.text("SOUL.md") == text
    found = await memory.documents.read(memory.ann, "SOUL.md")
    assert (found.layer, found.version, found.hash) == ("agent", 1, digest("the agent's"))
    assert await memory.text("shared/SOUL.md") == "Ann's"
    assert await memory.text("global/SOUL.md") == "everybody's"
    assert await memory.text("SOUL.md", memory.scribe) == "Ann's", "another agent of hers"
    assert await memory.text("SOUL.md", memory.ben) == "everybody's"
    await memory.documents.delete(memory.ann, "SOUL.md", BY)
    assert await memory.text("SOUL.md") == "Ann's", "what is deleted in front lets the next be read"


async def test_explain_says_from_which_layer_a_text_comes(memory: Memory) -> None:
    await memory.put("global/SOUL.md", "everybody's")
    await memory.put("shared/SOUL.md", "Ann's")
    await memory.put("SOUL.md", "x")
    await memory.documents.delete(memory.ann, "SOUL.md", BY)
    states = await memory.documents.explain(memory.ann, "SOUL.md")
    shown = [
        (each.layer, each.path, each.newest and (each.newest.version, each.newest.deleted), each.wins)
        for each in states
    ]
    assert shown == [
        ("agent", "SOUL.md", (2, True), False),
        ("user", "shared/SOUL.md", (1, False), True),
        ("global", "global/SOUL.md", (1, False), False),
    ]
    assert [each.newest for each in await memory.documents.explain(memory.ann, "knowledge/none.md")] == [None] * 3


async def test_memory_comes_into_being_with_its_sections_when_it_is_read(memory: Memory) -> None:
    assert await memory.documents.listing(memory.ann, "agent") == []
    text = await memory.text("MEMORY.md")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)
    [version] = await memory.documents.history(memory.ann, "MEMORY.md")
    assert (version.by.origin, version.by.author, version.user) == (Origin.SYSTEM, "system", "ann")
    await memory.put("MEMORY.md", "mine")
    assert await memory.text("MEMORY.md") == "mine"
    assert await memory.text("MEMORY.md", memory.scribe) == NEW_MEMORY, "each conversation has its own"


async def test_memory_that_many_read_at_once_begins_once(memory: Memory) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(memory.text, "agent/MEMORY.md")
    assert len(await memory.documents.history(memory.ann, "MEMORY.md")) == 1


async def test_a_listing_has_each_document_under_the_path_that_reads_it(memory: Memory) -> None:
    written = {
        "global/IDENTITY.md": "i", "global/knowledge/tea.md": "gt", "shared/knowledge/tea.md": "st",
        "knowledge/tea.md": "t", "global/knowledge/salt.md": "gs", "skills/kitchen/cook.md": "c",
        "workspace/notes.md": "n", "USER.md": "u", "project/garden/plan.md": "p", "project/garden-evil/plan.md": "e",
        "daily/2027-01-01.md": "d",
    }  # fmt: skip
    for path, text in written.items():
        await memory.put(path, text)
    await memory.put("knowledge/ben.md", "b", memory.ben)
    assert await paths(memory) == [
        "AGENTS.md", "IDENTITY.md", "USER.md", "daily/2027-01-01.md", "global/knowledge/tea.md", "knowledge/salt.md",
        "knowledge/tea.md", "project/garden-evil/plan.md", "project/garden/plan.md", "shared/knowledge/tea.md",
        "skills/kitchen/cook.md", "tools.json", "workspace/notes.md",
    ]  # fmt: skip
    for entry in await memory.documents.listing(memory.ann):
        read = await memory.documents.read(memory.ann, entry.path)
        assert (read.hash, read.layer, read.version) == (entry.hash, entry.layer, entry.version)
    assert await paths(memory, "project/garden") == ["project/garden/plan.md"]
    assert await paths(memory, "shared") == ["USER.md", "shared/knowledge/tea.md"]
    assert await paths(memory, "global/knowledge/") == ["global/knowledge/salt.md", "global/knowledge/tea.md"]
    assert await paths(memory, "skills/kitchen") == ["skills/kitchen/cook.md"]
    assert await paths(memory, "skills/none") == []


async def test_a_listing_of_everything_has_the_newest_daily_logs(memory: Memory) -> None:
    for day in range(1, 32):
        for month in ("01", "03"):
            await memory.put(f"daily/2027-{month}-{day:02}.md", "x")
    march = [f"daily/2027-03-{day:02}.md" for day in range(1, 32)]
    assert [path for path in await paths(memory) if "daily" in path] == march
    assert len(await paths(memory, "daily")) == 62


async def test_a_search_finds_what_this_agent_may_read_and_nothing_else(memory: Memory) -> None:
    await memory.put("knowledge/home.md", "The WiFi password is hunter2.")
    await memory.put("shared/knowledge/home.md", "The wifi is slow.")
    await memory.put("project/garden/plan.md", "no wifi in the garden")
    await memory.put("global/SOUL.md", "be kind")
    await memory.put("knowledge/secret.md", "wifi of the scribe", memory.scribe)
    for stranger in (memory.ben, memory.evil):
        await memory.put("USER.md", "wifi of a stranger", stranger)
        await memory.put("knowledge/x.md", "wifi of a stranger", stranger)
    hits = await memory.documents.search(memory.ann, "what are our wifi passwords?")
    assert hits[0].path == "knowledge/home.md"
    assert {hit.path for hit in hits} == {"knowledge/home.md", "shared/knowledge/home.md", "project/garden/plan.md"}
    assert "hunter2" in hits[0].passage
    for hit in hits:
        assert (await memory.documents.read(memory.ann, hit.path)).version == hit.version
    assert len(await memory.documents.search(memory.ann, "wifi", limit=1)) == 1
    assert await memory.documents.search(memory.ann, "the of and") == await memory.documents.search(memory.ann, "the")
    assert await memory.documents.search(memory.ann, '" OR 1 --') == []


async def test_many_long_texts_are_searched_as_few_are(tmp_path: Path) -> None:
    for location in (str(tmp_path / "daycare.db"), "memory:"):
        async with open_memory(location) as memory:
            for number in range(12):
                await memory.put(f"knowledge/long-{number}.md", "lorem ipsum " * 8_000 + f"needle{number}")
            [hit] = await memory.documents.search(memory.ann, "needle7")
            assert hit.path == "knowledge/long-7.md" and "needle7" in hit.passage and len(hit.passage) < 400


# -- changing ----------------------------------------------------------------------------------------------------------


async def test_a_change_says_where_it_goes_and_whose_yes_it_needs(memory: Memory) -> None:
    where = {}
    for path in (
        "SOUL.md",
        "MEMORY.md",
        "USER.md",
        "shared/SOUL.md",
        "IDENTITY.md",
        "global/SOUL.md",
        "workspace/a.md",
    ):
        draft = await memory.documents.prepare(memory.ann, path, "x")
        where[path] = (draft.place.layer, draft.place.owner, draft.approver)
    agent, user = memory.ann.id, "ann"
    assert where == {
        "SOUL.md": ("agent", agent, "user"),
        "MEMORY.md": ("agent", agent, "user"),
        "USER.md": ("user", user, "user"),
        "shared/SOUL.md": ("user", user, "user"),
        "IDENTITY.md": ("global", "", "operator"),
        "global/SOUL.md": ("global", "", "operator"),
        "workspace/a.md": ("workspace", user, "user"),
    }
    assert await everything(memory) == [], "it only looked"


async def test_a_prepared_change_can_be_shown_and_is_bound_to_what_was_there(memory: Memory) -> None:
    old = await memory.put("SOUL.md", "one\ntwo\n")
    draft = await memory.documents.prepare(memory.ann, "SOUL.md", "one\n2\n")
    assert (draft.old, draft.new, draft.base_hash) == ("one\ntwo\n", "one\n2\n", old)
    appended = await memory.documents.prepare(memory.ann, "SOUL.md", "three", append=True)
    assert appended.new == "one\ntwo\nthree"
    begun = await memory.documents.prepare(memory.ann, "MEMORY.md", "- likes tea", append=True)
    assert (begun.old, begun.new, begun.base_hash) == (None, f"{NEW_MEMORY}- likes tea", "")
    await memory.put("SOUL.md", "changed")
    with pytest.raises(ConflictError):
        await memory.store.of(DocumentRows).write(draft.by(BY))
    await memory.put("SOUL.md", "one\ntwo\n")
    done = await memory.store.of(DocumentRows).write(draft.by(BY, key="request:1"))
    assert await memory.store.of(DocumentRows).write(draft.by(BY, key="request:1")) == done
    assert await memory.text("SOUL.md") == "one\n2\n"


async def test_of_two_who_saw_the_same_one_wins_and_the_other_is_told(memory: Memory) -> None:
    base = await memory.put("SOUL.md", "one")
    outcomes: list[str] = []

    async def edit(text: str) -> None:
        try:
            await memory.put("SOUL.md", text, base_hash=base)
            outcomes.append("won")
        except ConflictError as error:
            outcomes.append(error.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(edit, "Ann's")
        nursery.start_soon(edit, "the agent's")
    assert sorted(outcomes) == ["DOCUMENT_CHANGED", "won"]
    assert len(await memory.documents.history(memory.ann, "SOUL.md")) == 2


async def test_an_edit_of_a_text_from_behind_is_a_new_one_in_front(memory: Memory) -> None:
    shared = await memory.put("shared/SOUL.md", "Ann's")
    with pytest.raises(ConflictError):
        await memory.put("SOUL.md", "x", base_hash=shared)
    await memory.put("SOUL.md", "x", base_hash="")
    assert (await memory.text("shared/SOUL.md"), await memory.text("SOUL.md")) == ("Ann's", "x")


async def test_an_error_names_the_layer_that_is_read(memory: Memory) -> None:
    await memory.put("shared/SOUL.md", "Ann's")
    for doing in (
        memory.documents.delete(memory.ann, "SOUL.md", BY),
        memory.documents.undo(memory.ann, "SOUL.md", BY),
        memory.documents.prepare(memory.ann, "SOUL.md", "more", append=True),
    ):
        with pytest.raises(NotFoundError) as caught:
            await doing
        assert caught.value.hint == "the one that is read is shared/SOUL.md"


async def test_a_person_or_program_that_was_let_in_has_layers_of_its_own(memory: Memory) -> None:
    bob, app, helper = [
        await memory.store.agents.create(new_agent(path, user="ann"))
        for path in ("/ann/subuser/bob", "/ann/app/radio", "/ann/subuser/bob/sub/0")
    ]
    names = ("USER.md", "shared/SOUL.md", "shared/skills/x.md", "workspace/x.md", "project/a/b.md")
    for name in names:
        await memory.put(name, "Ann's secret")
    await memory.put("global/SOUL.md", "everybody's")
    for stranger in (bob, app, helper):
        assert await memory.text("SOUL.md", stranger) == "everybody's"
        listed = [each.path for each in await memory.documents.listing(stranger)]
        assert listed == ["AGENTS.md", "SOUL.md", "tools.json"]
        assert await memory.documents.search(stranger, "secret") == []
        for name in names:
            with pytest.raises(NotFoundError):
                await memory.text(name, stranger)
        assert "scribe" not in await memory.text("AGENTS.md", stranger)
    for name in names:
        await memory.put(name, "Bob's", bob)
        assert (await memory.text(name), await memory.text(name, helper)) == ("Ann's secret", "Bob's")
        with pytest.raises(NotFoundError):
            await memory.text(name, app)
    assert "/ann/subuser/bob" in await memory.text("AGENTS.md"), "she knows that he is there"


async def test_identity_is_what_a_person_wrote_or_approved(memory: Memory) -> None:
    agent = Attribution(origin=Origin.PERSON, author=ANN)
    approved = Attribution(origin=Origin.AGENT, author=ANN, approver="telegram:5")

    async def read() -> tuple[str, int]:
        found, passed = await memory.documents.approved(memory.ann, "SOUL.md")
        return found.text if found else "", passed.version if passed else 0

    assert await read() == ("", 0)
    await memory.put("global/SOUL.md", "everybody's")
    await memory.documents.write(memory.ann, "SOUL.md", "evil", agent)
    assert await read() == ("everybody's", 1)
    await memory.documents.write(memory.ann, "SOUL.md", "kind", approved)
    assert await read() == ("kind", 0)
    await memory.documents.write(memory.ann, "SOUL.md", "evil", agent)
    await memory.documents.write(memory.ann, "SOUL.md", "worse", Attribution(origin=Origin.SYSTEM, author="system"))
    assert await read() == ("kind", 4), "the newest of those that are passed over is told"
    await memory.documents.delete(memory.ann, "SOUL.md", agent)
    assert await read() == ("kind", 5), "nor does anybody else take it away"
    await memory.put("SOUL.md", "mine")
    assert await read() == ("mine", 0)
    await memory.documents.delete(memory.ann, "SOUL.md", BY)
    assert await read() == ("everybody's", 0)


async def test_of_too_many_versions_that_nobody_stands_behind_none_is_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.memory.documents.service.DOCUMENT_VERSIONS_MAX", 2)
    await memory.put("SOUL.md", "mine")
    for text in ("a", "b"):
        await memory.documents.write(memory.ann, "SOUL.md", text, Attribution(origin=Origin.AGENT, author=ANN))
    found, passed = await memory.documents.approved(memory.ann, "SOUL.md")
    assert found is None and passed is not None and passed.version == 3


async def test_history_diff_and_undo_follow_one_line(memory: Memory) -> None:
    await memory.put("SOUL.md", "one\n")
    await memory.put("SOUL.md", "two\n")
    undone = await memory.documents.undo(memory.ann, "SOUL.md", BY, version=2)
    assert (undone.version, await memory.text("SOUL.md")) == (3, "one\n")
    assert [each.version for each in await memory.documents.history(memory.ann, "SOUL.md")] == [3, 2, 1]
    assert (await memory.documents.at(memory.ann, "SOUL.md", 2)).text == "two\n"
    assert "-two\n+one\n" in await memory.documents.diff(memory.ann, "SOUL.md")
    assert "-one\n+two\n" in await memory.documents.diff(memory.ann, "SOUL.md", 1, 2)
    assert (await memory.documents.diff(memory.ann, "SOUL.md", 0, 1)).startswith("--- /dev/null\n")
    assert await memory.documents.diff(memory.ann, "SOUL.md", 1, 3) == ""
    assert await memory.documents.diff(memory.ann, "SOUL.md", None, 0) == "", "there is nothing before the first"
    with pytest.raises(ConflictError):
        await memory.documents.undo(memory.ann, "SOUL.md", BY, version=2)
    for version in (4, 99):
        with pytest.raises(NotFoundError) as caught:
            await memory.documents.at(memory.ann, "SOUL.md", version)
        assert caught.value.code == "VERSION_UNKNOWN"


async def test_the_history_is_of_the_layer_that_is_read(memory: Memory) -> None:
    await memory.put("global/SOUL.md", "g1")
    await memory.put("global/SOUL.md", "g2")
    assert [each.place.layer for each in await memory.documents.history(memory.ann, "SOUL.md")] == ["global", "global"]
    await memory.put("SOUL.md", "a")
    assert [each.place.layer for each in await memory.documents.history(memory.ann, "SOUL.md")] == ["agent"]
    await memory.documents.delete(memory.ann, "SOUL.md", BY)
    await memory.documents.delete(memory.ann, "global/SOUL.md", BY)
    assert len(await memory.documents.history(memory.ann, "SOUL.md")) == 2, "deleted everywhere, the first is shown"


async def test_a_daily_log_only_grows(memory: Memory) -> None:
    log = "daily/2027-01-01.md"
    await memory.put(log, "- one\n")
    for text in ("- two\n", "", "- one"):
        with pytest.raises(InvalidError) as caught:
            await memory.put(log, text)
        assert caught.value.code == "DOCUMENT_APPEND_ONLY"
    await memory.put(log, "- one\n- two\n")
    draft = await memory.documents.prepare(memory.ann, log, "- three", append=True)
    assert draft.new == "- one\n- two\n- three"
    await memory.put(log, draft.new)
    await memory.documents.undo(memory.ann, log, BY)
    assert await memory.text(log) == "- one\n- two\n", "what was added by mistake can be taken back"


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_what_is_too_large_is_refused_before_anything(memory: Memory) -> None:
    most = limits.DOCUMENT_MAX_BYTES
    await memory.put("SOUL.md", "x" * (most - 10))
    for path, text, append in (("SOUL.md", "é" * (most // 2 + 1), False), ("SOUL.md", "y" * 10, True)):
        with pytest.raises(InvalidError) as caught:
            await memory.documents.prepare(memory.ann, path, text, append=append)
        assert caught.value.code == "DOCUMENT_TOO_LARGE"
    assert (await memory.documents.prepare(memory.ann, "SOUL.md", "y" * 9, append=True)).new is not None


async def test_one_document_too_many_is_refused_before_anything(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.memory.documents.records.DOCUMENTS_MAX", 1)
    await memory.put("SOUL.md", "x")
    for path in ("STYLE.md", "knowledge/a.md"):
        with pytest.raises(BusyError) as caught:
            await memory.documents.prepare(memory.ann, path, "x")
        assert caught.value.code == "DOCUMENTS_FULL"
    await memory.documents.prepare(memory.ann, "SOUL.md", "y")
    await memory.documents.prepare(memory.ann, "daily/2027-01-01.md", "y")


async def test_much_memory_is_warned_of_from_80_percent_on(memory: Memory) -> None:
    total = limits.DOCUMENTS_TOTAL_BYTES
    warned = []
    for share in (0.79, 0.8, 1.0):
        draft = await memory.documents.prepare(memory.ann, "knowledge/a.md", "x" * round(total * share))
        warned.append((draft.total.documents, draft.total.warning.partition(", ")[2]))
    assert warned == [
        (1, ""),
        (1, f"80% of {total}: soon some should be shortened"),
        (1, f"100% of {total}: shorten or delete some"),
    ]
    await memory.put("knowledge/a.md", "x" * round(total * 0.7))
    await memory.put("daily/2027-01-01.md", "x" * total)
    await memory.put("shared/knowledge/b.md", "x" * total)
    assert (await memory.documents.total(memory.ann)).warning == "", "logs and what is shared are not the agent's own"
    draft = await memory.documents.prepare(memory.ann, "knowledge/b.md", "x" * round(total * 0.5))
    assert (draft.total.documents, draft.total.bytes) == (2, round(total * 0.7) + round(total * 0.5))
    assert "120%" in draft.total.warning
    less = await memory.documents.prepare(memory.ann, "knowledge/a.md", None)
    assert (less.total.documents, less.total.bytes) == (0, 0)


async def test_bounds_hold_again_when_a_change_is_made(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = await memory.documents.prepare(memory.ann, "SOUL.md", "x" * 100)
    monkeypatch.setattr("daycare.base.documents.DOCUMENT_MAX_BYTES", 99)
    with pytest.raises(InvalidError) as caught:
        await memory.store.of(DocumentRows).write(draft.by(BY))
    assert caught.value.code == "DOCUMENT_TOO_LARGE"


# -- whoever tries -----------------------------------------------------------------------------------------------------

Entry = Callable[[Memory, str], Awaitable[object]]
ENTRIES: dict[str, Entry] = {
    "read": lambda memory, path: memory.documents.read(memory.ann, path),
    "explain": lambda memory, path: memory.documents.explain(memory.ann, path),
    "history": lambda memory, path: memory.documents.history(memory.ann, path),
    "at": lambda memory, path: memory.documents.at(memory.ann, path, 1),
    "diff": lambda memory, path: memory.documents.diff(memory.ann, path),
    "prepare": lambda memory, path: memory.documents.prepare(memory.ann, path, "x"),
    "write": lambda memory, path: memory.documents.write(memory.ann, path, "x", BY),
    "append": lambda memory, path: memory.documents.prepare(memory.ann, path, "x", append=True),
    "approved": lambda memory, path: memory.documents.approved(memory.ann, path),
    "delete": lambda memory, path: memory.documents.delete(memory.ann, path, BY),
    "undo": lambda memory, path: memory.documents.undo(memory.ann, path, BY),
}
CHANGES = ("prepare", "write", "append", "delete", "undo")


@pytest.mark.parametrize("entry", ENTRIES)
async def test_no_hostile_path_leads_anywhere(memory: Memory, entry: str) -> None:
    for agent in memory.agents.values():
        for path in ("SOUL.md", "MEMORY.md", "USER.md", "knowledge/a.md", "workspace/a.md", "project/a/b.md"):
            await memory.put(path, f"of {agent.path}", agent)
    before = await everything(memory)
    for path in hostile.PATHS:
        with pytest.raises(InvalidError) as caught:
            await ENTRIES[entry](memory, path)
        assert caught.value.code == "MEMORY_PATH_INVALID" and "expected" in caught.value.message, ascii(path)
    assert await everything(memory) == before


async def test_no_hostile_folder_is_listed(memory: Memory) -> None:
    for path in hostile.PATHS:
        if path not in hostile.FOLDERS:
            with pytest.raises(InvalidError):
                await memory.documents.listing(memory.ann, path)


@pytest.mark.parametrize("entry", CHANGES)
async def test_views_are_written_by_nobody_under_any_spelling(memory: Memory, entry: str) -> None:
    codes = set()
    for path in hostile.VIEWS:
        with pytest.raises(DaycareError) as caught:
            await ENTRIES[entry](memory, path)
        codes.add(caught.value.code)
        assert (caught.value.code == "DOCUMENT_READ_ONLY") == (path in ("AGENTS.md", "tools.json"))
    assert codes == {"DOCUMENT_READ_ONLY", "MEMORY_PATH_INVALID"}
    assert await everything(memory) == []


async def test_agents_whose_names_begin_alike_are_strangers(memory: Memory) -> None:
    await memory.put("USER.md", "Ann's")
    await memory.put("knowledge/a.md", "Ann's")
    await memory.put("project/a/b.md", "Ann's")
    for path in ("USER.md", "knowledge/a.md", "project/a/b.md"):
        with pytest.raises(NotFoundError):
            await memory.documents.read(memory.evil, path)
    assert await memory.documents.search(memory.evil, "ann's") == []
    assert [each.layer for each in await memory.documents.listing(memory.evil)] == ["view", "view"]


async def test_the_next_to_live_at_a_path_has_no_memory_of_the_last(memory: Memory) -> None:
    await memory.put("MEMORY.md", "of the first", memory.scribe)
    await memory.store.agents.set_state(memory.scribe.id, "dead")
    again = await memory.store.agents.create(new_agent(memory.scribe.path, agent_id="another", user="ann"))
    assert await memory.text("MEMORY.md", again) == NEW_MEMORY
    assert (await memory.store.of(DocumentRows).totals(Layer.AGENT, memory.scribe.id)).documents == 1


async def test_without_numbers_a_difference_is_to_the_version_before_also_over_a_gap(memory: Memory) -> None:
    for number in range(80):
        await memory.documents.write(memory.ann, "knowledge/note.md", f"text {number}\n", BY)
    while await memory.store.of(DocumentRows).thin():
        pass
    *_, behind, first = [each.version for each in await memory.documents.history(memory.ann, "knowledge/note.md")]
    assert (first, behind > 2) == (1, True), "the first stays: it says since when there is the document"
    over = await memory.documents.diff(memory.ann, "knowledge/note.md", new=behind)
    assert over == await memory.documents.diff(memory.ann, "knowledge/note.md", first, behind)
    newest = await memory.documents.diff(memory.ann, "knowledge/note.md")
    assert "-text 78" in newest and "+text 79" in newest
