"""What every store promises of documents: a straight line of versions each, found by their words, bounded."""

from typing import Any

import pytest
from msgspec.structs import replace

from daycare.base import limits
from daycare.base.documents import Attribution, DocumentVersion, Layer, NewVersion, Place, digest
from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.messages import Origin
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.sqlite.store import Store
from tests.store.samples import HandClock

SOUL = Place(Layer.AGENT, "a1", "SOUL.md")
BY = Attribution(
    origin=Origin.AGENT,
    author="/ann/telegram",
    approver="direct:ann",
    reason="she asked for it",
    provenance=("web:https://example.org", "message:12"),
)


def new(text: str | None, base: str | None = None, place: Place = SOUL, **more: Any) -> NewVersion:
    fields: dict[str, Any] = {"place": place, "user": "ann", "by": BY, "text": text, "base_hash": base}
    return NewVersion(**(fields | more))


def at(name: str, layer: Layer = Layer.AGENT, owner: str = "a1") -> Place:
    return Place(layer, owner, name)


async def put(store: Store, text: str, place: Place = SOUL) -> DocumentVersion:
    return await store.of(DocumentRows).write(new(text, None, place))


async def refused(store: Store, wish: NewVersion, kind: type[DaycareError], code: str) -> DaycareError:
    """Try a write that must be refused and must change nothing."""
    before = await store.of(DocumentRows).history(wish.place)
    with pytest.raises(kind) as caught:
        await store.of(DocumentRows).write(wish)
    assert caught.value.code == code
    assert await store.of(DocumentRows).history(wish.place) == before
    return caught.value


async def test_a_version_says_who_wrote_what_upon_what_and_why(store: Store, clock: HandClock) -> None:
    first = await store.of(DocumentRows).write(new("one", ""))
    assert first == DocumentVersion(
        place=SOUL,
        version=1,
        user="ann",
        by=BY,
        hash=digest("one"),
        base_hash="",
        size=3,
        created_at=clock.ms,
    )
    second = await store.of(DocumentRows).write(new("zwei €", first.hash))
    assert (second.version, second.base_hash, second.size) == (2, first.hash, 8)
    found = await store.of(DocumentRows).get(SOUL)
    assert found is not None and (found.version, found.text) == (second, "zwei €")
    assert await store.of(DocumentRows).history(SOUL) == [second, first]
    assert await store.of(DocumentRows).history(SOUL, limit=1) == [second]
    assert await store.of(DocumentRows).history(SOUL, before=2) == [first]
    then = await store.of(DocumentRows).at(SOUL, 1)
    assert then is not None and (then.version, then.text) == (first, "one")
    assert await store.of(DocumentRows).at(SOUL, 3) is None


async def test_a_write_upon_what_is_not_there_any_more_changes_nothing(store: Store) -> None:
    first = await put(store, "one")
    second = await put(store, "two")
    for base in (first.hash, "", digest("other")):
        error = await refused(store, new("three", base), ConflictError, "DOCUMENT_CHANGED")
        assert second.hash in str(error), "whoever tries again needs the hash it has now"
    await refused(store, new(None, first.hash), ConflictError, "DOCUMENT_CHANGED")
    await refused(store, new("x", first.hash, at("other.md")), ConflictError, "DOCUMENT_CHANGED")


async def test_the_text_that_is_there_already_makes_no_version(store: Store) -> None:
    first = await put(store, "one")
    assert await store.of(DocumentRows).write(new("one", "")) == first, "a repeat after a lost answer"
    assert await store.of(DocumentRows).history(SOUL) == [first]


async def test_an_empty_text_is_a_text(store: Store) -> None:
    empty = await put(store, "")
    assert empty.hash == digest("") and not empty.deleted
    found = await store.of(DocumentRows).get(SOUL)
    assert found is not None and found.text == ""


async def test_a_deletion_is_a_version_without_text(store: Store) -> None:
    first = await put(store, "one")
    gone = await store.of(DocumentRows).write(new(None, first.hash))
    assert (gone.version, gone.hash, gone.base_hash, gone.deleted) == (2, "", first.hash, True)
    assert await store.of(DocumentRows).get(SOUL) is None
    then = await store.of(DocumentRows).at(SOUL, 2)
    assert then is not None and then.text is None
    await refused(store, new(None), NotFoundError, "DOCUMENT_MISSING")
    back = await store.of(DocumentRows).write(new("again", ""))
    assert (back.version, back.base_hash) == (3, "")


async def test_deleting_what_never_was_is_refused(store: Store) -> None:
    await refused(store, new(None), NotFoundError, "DOCUMENT_MISSING")


async def test_a_key_makes_a_write_happen_once(store: Store) -> None:
    first = await store.of(DocumentRows).write(new("one", "", key="turn:1"))
    await put(store, "two")
    assert await store.of(DocumentRows).write(new("one", "", key="turn:1")) == first
    assert await store.of(DocumentRows).append(new("one", key="turn:1")) == first
    assert await store.of(DocumentRows).once(SOUL, "turn:1") == first
    assert (
        await store.of(DocumentRows).once(SOUL, "turn:2") is None
        and await store.of(DocumentRows).once(SOUL, "") is None
    )
    assert len(await store.of(DocumentRows).history(SOUL)) == 2
    other = await store.of(DocumentRows).write(new("one", "", at("STYLE.md"), key="turn:1"))
    assert other.version == 1, "another document's key is another key"


async def test_appended_text_stands_on_a_line_of_its_own(store: Store) -> None:
    log = at("daily/2027-01-01.md")
    await store.of(DocumentRows).append(new("- a", place=log), "# day\n\n")
    await store.of(DocumentRows).append(new("- b\n", place=log), "# day\n\n")
    await store.of(DocumentRows).append(new("- c\n", place=log), "# day\n\n")
    found = await store.of(DocumentRows).get(log)
    assert found is not None and found.text == "# day\n\n- a\n- b\n- c\n"
    with pytest.raises(ConflictError):
        await store.of(DocumentRows).append(new("- d", digest("other"), log))
    await store.of(DocumentRows).write(new(None, found.version.hash, log))
    await store.of(DocumentRows).append(new("- e", place=log), "# day\n\n")
    found = await store.of(DocumentRows).get(log)
    assert found is not None and (found.version.version, found.text) == (5, "# day\n\n- e")


async def test_undo_is_a_new_version_with_the_text_before(store: Store) -> None:
    first, second = await put(store, "one"), await put(store, "two")
    undone = await store.of(DocumentRows).undo(new("not looked at"))
    assert (undone.version, undone.hash, undone.base_hash) == (3, first.hash, second.hash)
    assert await store.of(DocumentRows).history(SOUL) == [undone, second, first], "nothing is rewritten"
    again = await store.of(DocumentRows).undo(new(None), 3)
    assert (again.version, again.hash) == (4, second.hash), "an undo can be undone"
    with pytest.raises(ConflictError) as caught:
        await store.of(DocumentRows).undo(new(None), 3)
    assert caught.value.code == "DOCUMENT_CHANGED"


async def test_words_that_are_taken_back_keep_their_origin(store: Store) -> None:
    person = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann", reason="undone")
    await put(store, "from the web")
    await store.of(DocumentRows).write(new("mine", by=person))
    undone = await store.of(DocumentRows).undo(new(None, by=person))
    assert (undone.by.author, undone.by.approver, undone.by.reason) == ("direct:ann", "direct:ann", "undone")
    assert (undone.by.origin, undone.by.provenance) == (BY.origin, BY.provenance), "whose hand makes no words safe"


async def test_undoing_the_first_version_deletes_and_undoing_a_deletion_restores(store: Store) -> None:
    await put(store, "one")
    gone = await store.of(DocumentRows).undo(new(None))
    assert gone.deleted and gone.version == 2
    await store.of(DocumentRows).undo(new(None, key="k"))
    await store.of(DocumentRows).undo(new(None, key="k"))
    found = await store.of(DocumentRows).get(SOUL)
    assert found is not None and (found.text, found.version.version) == ("one", 3)
    with pytest.raises(NotFoundError):
        await store.of(DocumentRows).undo(new(None, place=at("never.md")))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * (limits.DOCUMENT_MAX_BYTES + 1), "DOCUMENT_TOO_LARGE"),
        ("€" * (limits.DOCUMENT_MAX_BYTES // 3 + 1), "DOCUMENT_TOO_LARGE"),
        ("a\x00b", "DOCUMENT_TEXT"),
        ("half \ud83d", "DOCUMENT_TEXT"),
    ],
)
async def test_what_is_no_document_is_refused(store: Store, text: str, code: str) -> None:
    await put(store, "x")
    await refused(store, new(text), InvalidError, code)


async def test_the_longest_document_is_kept_and_grows_no_more(store: Store) -> None:
    await put(store, "x" * limits.DOCUMENT_MAX_BYTES)
    with pytest.raises(InvalidError) as caught:
        await store.of(DocumentRows).append(new("y"))
    assert caught.value.code == "DOCUMENT_TOO_LARGE"


@pytest.mark.parametrize(
    "wrong",
    [
        {"author": ""},
        {"reason": "half \ud83d"},
        {"approver": "a\x00b"},
        {"provenance": ("web:\udc80",)},
        {"reason": "r" * (limits.DOCUMENT_REASON_MAX_CHARS + 1)},
        {"provenance": ("s" * (limits.DOCUMENT_REASON_MAX_CHARS + 1),)},
        {"provenance": ("s",) * (limits.DOCUMENT_PROVENANCE_MAX + 1)},
    ],
)
async def test_a_version_that_does_not_say_who_or_says_too_much_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    await refused(store, new("x", by=replace(BY, **wrong)), InvalidError, "DOCUMENT_ATTRIBUTION")


async def test_an_owner_has_so_many_documents_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.memory.documents.records.DOCUMENTS_MAX", 3)
    monkeypatch.setattr("daycare.features.memory.documents.records.DAILY_LOGS_MAX", 2)
    for name in ("a.md", "b.md", "c.md", "daily/2027-01-01.md", "daily/2027-01-02.md"):
        await put(store, name, at(name))
    await refused(store, new("x", place=at("d.md")), BusyError, "DOCUMENTS_FULL")
    await refused(store, new("x", place=at("daily/2027-01-03.md")), BusyError, "DOCUMENTS_FULL")
    await put(store, "another's", at("d.md", owner="a2"))
    await put(store, "changed", at("a.md"))
    await store.of(DocumentRows).write(new(None, place=at("a.md")))
    await put(store, "x", at("d.md"))
    with pytest.raises(BusyError):
        await store.of(DocumentRows).undo(new(None, place=at("a.md")))
    totals = await store.of(DocumentRows).totals(Layer.AGENT, "a1")
    assert (totals.documents, totals.bytes, totals.daily_logs, totals.daily_bytes) == (3, 9, 2, 38)
    totals = await store.of(DocumentRows).totals(Layer.AGENT, "a")
    assert (totals.documents, totals.bytes) == (0, 0)


async def test_living_documents_are_listed_by_name_in_pages(store: Store) -> None:
    for name in ("knowledge/b.md", "knowledge/a.md", "SOUL.md", "knowledge-not.md"):
        await put(store, name, at(name))
    await put(store, "changed", at("knowledge/a.md"))
    await put(store, "other", at("knowledge/c.md", owner="a1-evil"))
    await put(store, "other", at("knowledge/d.md", Layer.USER))
    await store.of(DocumentRows).write(new(None, place=at("SOUL.md")))

    async def names(**how: Any) -> list[tuple[str, int]]:
        return [(each.place.name, each.version) for each in await store.of(DocumentRows).find(Layer.AGENT, "a1", **how)]

    assert await names() == [("knowledge-not.md", 1), ("knowledge/a.md", 2), ("knowledge/b.md", 1)]
    assert await names(prefix="knowledge/") == [("knowledge/a.md", 2), ("knowledge/b.md", 1)]
    assert await names(limit=1) == [("knowledge-not.md", 1)]
    assert await names(after="knowledge/a.md") == [("knowledge/b.md", 1)]
    assert await store.of(DocumentRows).owners() == [("agent", "a1"), ("agent", "a1-evil"), ("user", "a1")]
    assert await store.of(DocumentRows).owners(after=("agent", "a1"), limit=1) == [("agent", "a1-evil")]


async def found(store: Store, *words: str, owners: tuple[str, ...] = ("a1",)) -> list[str]:
    scopes = [(Layer.AGENT, owner) for owner in owners]
    return [each.version.place.name for each in store.of(DocumentRows).search(scopes, words)]


async def test_documents_are_found_by_any_form_of_their_words(store: Store) -> None:
    await put(store, "The passwords of the WiFi are hidden.", at("home.md"))
    await put(store, "Water the tomatoes.", at("garden-plants.md"))
    assert await found(store, "password") == ["home.md"]
    assert await found(store, "watering", "tomatoes", "wifi") == ["garden-plants.md", "home.md"], "the best first"
    assert await found(store, "plant") == ["garden-plants.md"], "the name counts, too"
    assert await found(store, "nothing") == []


async def test_only_the_newest_text_is_found(store: Store) -> None:
    await put(store, "apple")
    await put(store, "banana")
    assert (await found(store, "apple"), await found(store, "banana")) == ([], ["SOUL.md"])
    await store.of(DocumentRows).undo(new(None))
    assert (await found(store, "apple"), await found(store, "banana")) == (["SOUL.md"], [])
    await store.of(DocumentRows).write(new(None))
    assert await found(store, "apple") == []


async def test_a_search_stays_within_its_owners(store: Store) -> None:
    for owner in ("a1", "a1-evil", "a", "ann", "an", "a1e"):
        await put(store, f"secret of {owner}", at(f"{owner}.md", owner=owner))
    await put(store, "secret of a user", at("user.md", Layer.USER, "a1"))
    assert await found(store, "secret") == ["a1.md"]
    assert await found(store, "secret", owners=("an",)) == ["an.md"]
    assert sorted(await found(store, "secret", owners=("a1", "ann"))) == ["a1.md", "ann.md"]
    assert await found(store, "secret", owners=()) == []


@pytest.mark.parametrize(
    "words",
    [(), ("",), ('"',), ("*",), ("_",), ("a" * 5_000,), ("NEAR(", "secret"), ("scope:", "secret"), ("\x00", "\ud800")],
)
async def test_no_word_is_an_order_to_the_index(store: Store, words: tuple[str, ...]) -> None:
    await put(store, "secret", at("other.md", owner="a2"))
    await put(store, "harmless")
    assert await found(store, *words) == []


async def test_an_unfinished_write_leaves_the_index_as_it_was(store: Store) -> None:
    await put(store, "apple")
    for _ in range(3):
        with pytest.raises(ConflictError):
            await store.of(DocumentRows).write(new("banana", digest("other")))
    assert await found(store, "apple") == ["SOUL.md"]
