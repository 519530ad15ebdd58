"""Texts and conversations of another program, as documents: beside what is there, and in no prompt unseen."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import DAILY, Attribution, DocumentVersion, Layer, NewVersion, Place
from daycare.base.errors import DaycareError
from daycare.base.limits import DOCUMENT_MAX_BYTES, DOCUMENT_REASON_MAX_CHARS
from daycare.base.messages import Origin
from daycare.base.scope import scope_of
from daycare.base.zones import zone_of
from daycare.features.memory.documents.records import Document
from daycare.features.memory.documents.rows import DocumentRows
from daycare.ops.importers.import_model import ImportedItem, ImportedLine, ImportedText, ImportModel
from daycare.ops.importers.report import ImportItem
from daycare.ops.importers.schedules import local_day
from daycare.ops.importers.words import slug
from daycare.rules.document_paths import IDENTITY, MEMORY, USER, parse
from daycare.store.records import Agent, User

if TYPE_CHECKING:
    from daycare.ops.importers.apply import ImportApply

PART_BYTES: Final = 80 * 1024  # of a document that is too long for one
SCANNED_MAX_BYTES: Final = 4 * 1024 * 1024  # of conversations: 15 s
_ROOM_BYTES: Final = 2_000  # kept free in a daily log, for what is said today
_SETUP: Final = "system"  # who wrote what the first start made of the settings


async def take_texts(taking: "ImportApply", texts: Sequence[ImportedText]) -> None:
    """Take documents, those of different places at the same time."""
    results: list[list[ImportItem]] = [[] for _ in texts]
    places: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number, it in enumerate(texts):
        if it.agent:
            await taking.agent(it.agent)  # before the others: a conversation comes into being once
        places[it.person, it.agent, it.name].append(number)

    async def some(numbers: list[int]) -> None:
        for number in numbers:
            results[number] = await _text(taking, texts[number])

    await taking.together([partial(some, numbers) for numbers in places.values()])
    taking.items += [item for found in results for item in found]


async def take_talks(taking: "ImportApply", imported: ImportModel) -> None:
    """Take conversations into the daily logs of those with whom they were."""
    budget = [SCANNED_MAX_BYTES]
    for ref, lines in imported.talks.items():
        agent = await taking.agent(ref)
        it = ImportedItem(source=f"conversations of {ref}")
        if agent is None:
            taking.items.append(taking.done("conversation", it, "left", "", "its agent is not there"))
            continue
        taking.items.append(await _talk(taking, it, agent, lines, budget))
    if imported.talks_left:
        why = f"{imported.talks_left:,} messages more: so much is not taken at once"
        taking.items.append(taking.done("conversation", ImportedItem(source="conversations"), "left", "", why))


# -- documents ---------------------------------------------------------------------------------------------------------


async def _text(taking: "ImportApply", it: ImportedText) -> list[ImportItem]:
    user = taking.user(it.person)
    agent = await taking.agent(it.agent) if it.agent else None
    if it.agent and agent is None:
        return [taking.done("document", it, "left", "", "its agent was left")]
    try:
        parts = _parts(it, taking.product)
        return [await _document(taking, it, name, text, user, agent) for name, text in parts]
    except DaycareError as error:
        return [taking.done("document", it, "left", it.name, error.message)]


async def _document(
    taking: "ImportApply", it: ImportedText, name: str, text: str, user: User, agent: Agent | None
) -> ImportItem:
    place = _place(name, user, agent)
    told = _told(place, agent)
    key = taking.key("text", str(place), text)
    aside = _place(f"knowledge/{taking.product}-{slug(PurePosixPath(name).stem)}.md", user, agent)
    store = taking.store.of(DocumentRows)
    for where in (place, aside):
        if await store.once(where, key) is not None:
            if where is place and await _approve(taking, it, place, text, user):
                return taking.done("document", it, "taken", told, "you stand behind it from now on")
            _hold(taking, where, agent, await store.get(where))
            return taking.done("document", it, "there", _told(where, agent))
    findings, danger = await taking.look(text)
    if place.daily:
        return await _add_day(taking, it, place, text, user, agent, key, findings)
    there = await store.get(place)
    notes: list[str] = []
    if there is not None and there.text == text:
        return taking.done("document", it, "there", told)
    if danger and name == MEMORY:
        place, there = aside, await store.get(aside)
        notes.append("suspicious, so it is kept alongside: each prompt has MEMORY.md")
    elif name == IDENTITY and not taking.owner.operator:
        place, there = aside, await store.get(aside)
        notes.append("kept alongside: the operator decides who the agent is")
    elif there is not None and not taking.replace and not _is_first(there.version):
        place, there = aside, await store.get(aside)
        notes.append("kept alongside, as there is one already; --replace takes its place")
    if there is not None and there.text != text and not (taking.replace or _is_first(there.version)):
        return taking.done(
            "document", it, "left", _told(place, agent), "there is one already; --replace takes its place"
        )
    if there is not None and place is not aside:
        notes.append("in place of what was there, which stays as an older version")
    approver = _approver(taking, user, name, danger=danger)
    if taking.approve and danger and name in IDENTITY_DOCUMENTS:
        notes.append("suspicious, so nobody stands behind it yet: read it, and write it again if it is right")
    base = there.version.hash if there is not None else ""
    await store.write(
        NewVersion(place=place, user=user.id, by=_by(taking, it, approver), text=text, base_hash=base, key=key)
    )
    _hold(taking, place, agent, await store.get(place))
    return taking.done("document", it, "taken", _told(place, agent), *notes, findings=findings)


async def _approve(taking: "ImportApply", it: ImportedText, place: Place, text: str, user: User) -> bool:
    """Let the owner stand behind a document that an import without that has brought; return whether they do so now."""
    approver = _approver(taking, user, place.name, danger=False)
    there = await taking.store.of(DocumentRows).get(place) if approver else None
    if there is None or there.version.by.approved or (there.text or "").strip() != text.strip():
        return False
    if (await taking.look(text))[1]:
        return False
    again = f"{text.rstrip()}\n\n"  # a version is another text
    base = there.version.hash
    await taking.store.of(DocumentRows).write(
        NewVersion(place=place, user=user.id, by=_by(taking, it, approver), text=again, base_hash=base)
    )
    return True


async def _add_day(
    taking: "ImportApply",
    it: ImportedText,
    place: Place,
    text: str,
    user: User,
    agent: Agent | None,
    key: str,
    findings: tuple[str, ...],
) -> ImportItem:
    there = await taking.store.of(DocumentRows).get(place)
    notes = ["added to what the day has already"] if there is not None and there.text else []
    await _append(taking, it, place, text, user, key)
    return taking.done("document", it, "taken", _told(place, agent), *notes, findings=findings)


async def _append(taking: "ImportApply", it: ImportedItem, place: Place, text: str, user: User, key: str) -> None:
    day = place.name.removeprefix(DAILY).removesuffix(".md")
    head = "" if text.lstrip().startswith("# ") else f"# {day}\n\n"
    new = NewVersion(place=place, user=user.id, by=_by(taking, it, ""), text=text, key=key)
    await taking.store.of(DocumentRows).append(new, head)


def _parts(it: ImportedText, product: str) -> list[tuple[str, str]]:
    """Return a document under its name; one that is too long in parts, the first under its own."""
    text = f"{it.text.strip()}\n"
    parse(it.name)
    if len(text.encode()) <= DOCUMENT_MAX_BYTES - _ROOM_BYTES:
        return [(it.name, text)]
    pieces: list[list[str]] = [[]]
    size = 0
    for line in text.splitlines(keepends=True):
        for piece in _pieces(line):
            if size + len(piece.encode()) > PART_BYTES and pieces[-1]:
                pieces.append([])
                size = 0
            pieces[-1].append(piece)
            size += len(piece.encode())
    stem = slug(PurePosixPath(it.name).stem, most=40)
    names = [it.name, *(f"knowledge/{product}-{stem}-{number}.md" for number in range(2, len(pieces) + 1))]
    return [(name, "".join(piece)) for name, piece in zip(names, pieces, strict=True)]


def _pieces(line: str) -> list[str]:
    step = PART_BYTES // 4
    return [line[start : start + step] for start in range(0, len(line), step)] if len(line) > step else [line]


def _place(name: str, user: User, agent: Agent | None) -> Place:
    if name == IDENTITY:
        return Place(Layer.GLOBAL, "", name)
    if name != USER and agent is not None:
        return Place(Layer.AGENT, agent.id, name)
    apart = user.parent is not None and user.kind == "person"
    return Place(Layer.USER, scope_of(f"/{user.parent}/subuser/{user.id}") if apart else user.id, name)


def _told(place: Place, agent: Agent | None) -> str:
    if place.layer is Layer.AGENT and agent is not None:
        return f"{agent.path} {place.name}"
    return f"global/{place.name}" if place.layer is Layer.GLOBAL else f"/{place.owner} shared/{place.name}"


def _is_first(version: DocumentVersion) -> bool:
    """Return whether a document is as the first start wrote it."""
    return version.version == 1 and version.by.author == _SETUP


def _approver(taking: "ImportApply", user: User, name: str, *, danger: bool) -> str:
    """Return who stands behind a document of identity: the operator, for what is theirs, if they say so."""
    mine = user.id == taking.owner.id and taking.owner.operator
    if not taking.approve or danger or name not in IDENTITY_DOCUMENTS or not mine:
        return ""
    return next((key for key in taking.owner.keys if key.startswith("direct:")), f"direct:{taking.owner.id}")


def _by(taking: "ImportApply", it: ImportedItem, approver: str) -> Attribution:
    return Attribution(
        origin=Origin.FILE,
        author=f"migrate-from {taking.product}",
        approver=approver,
        reason=f"imported from {taking.product}",
        provenance=(f"import {taking.product} {it.source}"[:DOCUMENT_REASON_MAX_CHARS],),
    )


def _hold(taking: "ImportApply", place: Place, agent: Agent | None, there: Document | None) -> None:
    if place.name in IDENTITY_DOCUMENTS and there is not None and not there.version.by.approved:
        told = _told(place, agent)
        if told not in taking.held:
            taking.held.append(told)


# -- conversations -----------------------------------------------------------------------------------------------------


async def _talk(
    taking: "ImportApply", it: ImportedItem, agent: Agent, lines: list[ImportedLine], budget: list[int]
) -> ImportItem:
    user = await taking.store.people.get(agent.user) or taking.owner
    zone = zone_of(user.zone)
    names = {"": user.name, "assistant": agent.config.name or "assistant"}
    days: dict[str, list[str]] = defaultdict(list)
    for line in sorted(lines, key=lambda each: each.at_ms):
        day, time = local_day(line.at_ms, zone)
        days[day].append(f"- {time} {names.get(line.speaker, line.speaker)}: {line.text}")
    taken = cut = 0
    suspicious: list[str] = []
    refused: list[str] = []

    async def one(day: str, said: list[str]) -> None:
        nonlocal taken, cut
        place = Place(Layer.AGENT, agent.id, f"{DAILY}{day}.md")
        there = await taking.store.of(DocumentRows).get(place)
        known = set((there.text or "").splitlines()) if there is not None else set()
        fresh = [line for line in said if line not in known]
        kept = _fitting(fresh, DOCUMENT_MAX_BYTES - _ROOM_BYTES - (there.version.size if there is not None else 0))
        cut += len(fresh) - len(kept)
        text = "".join(f"{line}\n" for line in kept)
        if not kept:
            return
        if budget[0] > 0:
            budget[0] -= len(text)
            suspicious.extend(f"{day}: {each}" for each in (await taking.look(text))[0])
        try:
            await _append(taking, it, place, text, user, taking.key("talk", str(place), text))
        except DaycareError as error:
            refused.append(error.message)
        else:
            taken += len(kept)

    await taking.together([partial(one, day, said) for day, said in days.items()])
    notes = sorted(set(refused))[:3]
    target = f"{agent.path} daily/"
    if cut:
        notes.append(f"{cut:,} messages of long days did not fit")
    if budget[0] <= 0:
        notes.append("not all of it was looked through for what is suspicious")
    if not taken:
        return taking.done("conversation", it, "left" if notes else "there", target, *notes)
    notes.insert(0, f"{taken:,} messages of {len(days):,} days")
    return taking.done("conversation", it, "taken", target, *notes, findings=tuple(suspicious[:20]))


def _fitting(lines: list[str], room: int) -> list[str]:
    kept = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
