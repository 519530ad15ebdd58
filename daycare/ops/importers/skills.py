"""Skills of another assistant: folders with SKILL.md, scripts, references and assets, taken as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from daycare.features.skills.folder import SKILL_BYTES_MAX, SKILL_DEPTH_MAX, SKILL_FILES_MAX, SKILLS_MAX, fit
from daycare.features.skills.installing import put
from daycare.ops.importers.import_model import ImportedSkill, ImportModel
from daycare.ops.importers.report import ImportItem
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.words import slug
from daycare.rules.skill_text import SKILL_FILE, flaws

if TYPE_CHECKING:
    from daycare.ops.importers.apply import ImportApply

FOLDER: Final = "skills"
FINDINGS_SHOWN_MAX: Final = 5  # of one skill
ALL_MAX_BYTES: Final = 64 * 1024 * 1024  # of all skills of an import


def read(source: ImportSource, imported: ImportModel) -> None:
    """Find the folders of skills in `skills` and one level below, as some sort theirs. Hidden files are left."""
    taken = {each.name for each in imported.skills}
    for path in _folders(source):
        folder = path.rpartition("/")[2]
        name = slug(folder)
        if name in taken or len(taken) == SKILLS_MAX:
            why = "there is one of that name" if name in taken else f"there are more than {SKILLS_MAX}"
            imported.leave(f"the skill {folder[:80]}", source.shown(path), why)
            continue
        files = {inner: data for inner, data in _files(source, path, "", 0) if data is not None}
        size = sum(map(len, files.values()))
        if len(files) > SKILL_FILES_MAX or size > SKILL_BYTES_MAX or imported.skill_bytes + size > ALL_MAX_BYTES:
            imported.leave(f"the skill {folder[:80]}", source.shown(path), "it is larger than may be taken")
            continue
        taken.add(name)
        imported.skill_bytes += size
        changes = () if name == folder else (f"its folder was called {folder[:80]}",)
        imported.skills.append(ImportedSkill(name=name, files=files, source=source.shown(path), changes=changes))


async def take(into: "ImportApply", it: ImportedSkill) -> ImportItem:
    """Put a folder into the home as it is: no agent follows what is in it before a person has approved it."""
    whole, target = fit(it.name, it.files), f"{FOLDER}/{it.name}"
    if not into.replace and any(each.name == it.name for each in _there(into.skills_folder)):
        return into.done("skill", it, "there", target)
    if not into.dry:
        put(into.skills_folder, it.name, whole, instead=True)
    found: list[str] = []
    for data in it.files.values():
        if b"\0" not in data:
            found += (await into.look(data.decode(errors="replace")))[0]
    item = into.done("skill", it, "taken", target, findings=tuple(found[:FINDINGS_SHOWN_MAX]))
    wrong = tuple(f"it {each}" for each in flaws(whole.text, it.name))
    return replace(item, notes=(*item.notes, *wrong, f"read it, then: daycare skills approve {it.name}"))


def _there(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _folders(source: ImportSource) -> Iterator[str]:
    for name in source.names(FOLDER, folders=True):
        path = f"{FOLDER}/{name}"
        if source.has(f"{path}/{SKILL_FILE}"):
            yield path
        elif not name.startswith("."):
            below = (f"{path}/{inner}" for inner in source.names(path, folders=True))
            yield from (each for each in below if source.has(f"{each}/{SKILL_FILE}"))


def _files(source: ImportSource, folder: str, above: str, depth: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files of a folder and below, one more than may be at most."""
    for number, name in enumerate(source.names(folder)):
        if not name.startswith(".") and number <= SKILL_FILES_MAX:
            yield f"{above}{name}", source.data(f"{folder}/{name}", SKILL_BYTES_MAX)
    for name in source.names(folder, folders=True) if depth < SKILL_DEPTH_MAX else ():
        if not name.startswith("."):
            yield from _files(source, f"{folder}/{name}", f"{above}{name}/", depth + 1)
