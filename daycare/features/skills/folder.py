"""A skill's folder on the disk, read whole: what is hashed, shown, followed and run is one and the same copy.

Every file is opened below its folder, no link is followed. It blocks.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from daycare.base.errors import InvalidError
from daycare.features.workspaces.beneath import opened, opened_file
from daycare.rules.skill_text import SKILL_FILE

HOME_FOLDER: Final = "skills"  # in the home
SKILL_FILES_MAX: Final = 256
SKILL_BYTES_MAX: Final = 4 * 1024 * 1024  # of all files of a skill
SKILL_TEXT_MAX_BYTES: Final = 100 * 1024  # of SKILL.md: what a document may have
SKILL_DEPTH_MAX: Final = 6  # of folders in a skill
SKILLS_MAX: Final = 128  # folders of skills in one place, and
LOOKED_AT_MAX: Final = 4_096  # files of them together: a look at each takes some 10 ms, before each turn

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY

Stamp = tuple[tuple[str, int, int, int, int], ...]  # (path, size, ino, mtime_ns, ctime_ns) of each file


class SkillFiles(NamedTuple):
    """All files of a skill by their paths, SKILL.md among them."""

    files: Mapping[str, bytes]

    @property
    def text(self) -> str:
        """What SKILL.md says."""
        return self.files[SKILL_FILE].decode(errors="replace")

    @property
    def hash(self) -> str:
        """The hash of all of it: another one after any change of a name or a content."""
        named = [(path, hashlib.sha256(data).hexdigest()) for path, data in sorted(self.files.items())]
        return hashlib.sha256(msgspec.json.encode(named)).hexdigest()


def of_text(text: str) -> SkillFiles:
    """Return a skill that is one text."""
    return SkillFiles({SKILL_FILE: text.encode(errors="replace")})


def stamps(folder: int) -> dict[str, Stamp]:
    """Return the skills in an open folder by name, each with what changes when a file of it does.

    A link is there with nothing in it: reading it says so. Past `LOOKED_AT_MAX` files the others are not there.
    """
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    found: dict[str, Stamp] = {}
    left = LOOKED_AT_MAX
    for name in names[:SKILLS_MAX]:
        if left <= 0:
            break
        with suppress(OSError, UnicodeEncodeError):
            name.encode()
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                found[name] = ()
                continue
            with opened(folder, name, _FOLDER) as inner:
                found[name] = tuple(
                    (path, it.st_size, it.st_ino, it.st_mtime_ns, it.st_ctime_ns) for path, it in _all(inner)
                )
                left -= len(found[name])
    return found


def read(folder: int, name: str) -> SkillFiles:
    """Return the files of the skill `name` in an open folder. Raises `InvalidError` SKILL_UNFIT, `OSError`."""
    with opened(folder, name, _FOLDER) as inner:
        files: dict[str, bytes] = {}
        if len(there := _all(inner)) > SKILL_FILES_MAX:
            raise unfit(name, f"it has more than {SKILL_FILES_MAX} files and folders")
        for path, it in there:
            if stat.S_ISDIR(it.st_mode) and path.count("/") < SKILL_DEPTH_MAX:
                continue
            if not stat.S_ISREG(it.st_mode):
                raise unfit(name, f"{path} is a link, a device, or too deep")
            try:
                with opened_file(inner, path) as file, os.fdopen(os.dup(file), "rb") as stream:
                    files[path] = stream.read(SKILL_BYTES_MAX + 1)
            except OSError as error:
                raise unfit(name, f"{path} cannot be read ({error.strerror})") from None
            check_room(name, files)
    return fit(name, files)


def fit(name: str, files: Mapping[str, bytes]) -> SkillFiles:
    """Return files as a skill. Raises `InvalidError` SKILL_UNFIT."""
    check_room(name, files)
    files = {SKILL_FILE if path == SKILL_FILE.lower() else path: data for path, data in files.items()}
    if SKILL_FILE not in files:
        raise unfit(name, f"there is no {SKILL_FILE} in it")
    if len(files[SKILL_FILE]) > SKILL_TEXT_MAX_BYTES:
        raise unfit(name, f"{SKILL_FILE} has more than {SKILL_TEXT_MAX_BYTES} bytes")
    return SkillFiles(files)


def check_room(name: str, files: Mapping[str, bytes]) -> None:
    """Raise `InvalidError` SKILL_UNFIT for more than a skill may have."""
    if len(files) > SKILL_FILES_MAX or sum(map(len, files.values())) > SKILL_BYTES_MAX:
        raise unfit(name, f"it has more than {SKILL_FILES_MAX} files or {SKILL_BYTES_MAX} bytes")


def unfit(name: str, why: str) -> InvalidError:
    """Return the error for a skill that cannot be used."""
    return InvalidError("SKILL_UNFIT", f"reading the skill {name[:80]!a}: {why}", hint="doc/use/skills.md")


def _all(folder: int) -> list[tuple[str, os.stat_result]]:
    """Return what is in a folder and below, in order, but for hidden files and more than one too many.

    Folders are among it, so that no number of empty ones is looked at; one that is too deep comes last.
    """
    return list(islice(_walk(folder, "", 0), SKILL_FILES_MAX + 1))


def _walk(folder: int, above: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    for name in names:
        it = os.stat(name, dir_fd=folder, follow_symlinks=False)
        path = f"{above}{name}"
        yield path, it
        if stat.S_ISDIR(it.st_mode) and depth < SKILL_DEPTH_MAX:
            with opened(folder, name, _FOLDER) as inner:
                yield from _walk(inner, f"{path}/", depth + 1)
