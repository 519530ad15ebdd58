"""The folder `skills` in the home: putting a skill there and taking it away, whole or not at all."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from daycare.base.documents import Attribution
from daycare.base.errors import ConflictError, InvalidError, UnavailableError
from daycare.features.memory.documents.service import Documents
from daycare.features.skills import folder
from daycare.features.skills.finding import FoundSkill
from daycare.features.skills.folder import HOME_FOLDER, SkillFiles
from daycare.features.skills.records import Skill, SkillPlace
from daycare.features.skills.service import Skills
from daycare.features.workspaces.folder import checked
from daycare.rules.skill_text import flaws
from daycare.store.records import Agent

_NEW: Final = ".new-"  # what a skill is called until it is whole
_OLD: Final = ".old-"  # and until it is gone


class SkillInstaller:
    """Changes which skills there are."""

    def __init__(self, home: Path, documents: Documents, skills: Skills) -> None:
        self._root = home / HOME_FOLDER
        self._documents = documents
        self._skills = skills
        self._changing = trio.Lock()

    async def add(self, name: str, files: Mapping[str, bytes], by: str, *, instead: bool = False) -> Skill:
        """Put a skill there; nobody has approved it by that, unless they had approved just these files before.

        Raises `InvalidError` SKILL_FLAWED, SKILL_UNFIT, `ConflictError` SKILL_EXISTS unless it may stand `instead`.
        """
        whole = checked_skill(name, files)
        async with self._changing:
            await trio.to_thread.run_sync(lambda: put(self._root, name, whole, instead=instead))
        self._skills.changed(None, name, "added", whole.hash, by)
        return (await self._skills.get(None, name, SkillPlace.HOME))[0]

    async def remove(self, agent: Agent | None, name: str, place: SkillPlace | None, by: Attribution) -> FoundSkill:
        """Remove a skill's folder or document, with the approvals of it. Raises `InvalidError` SKILL_WORKSPACE."""
        found = await self._skills.located(agent, name, place)
        if found.place is SkillPlace.WORKSPACE:
            raise InvalidError(
                "SKILL_WORKSPACE",
                f"removing the skill {name}: its files are the workspace's",
                hint=f"daycare skills revoke {name}, or delete {found.where}",
            )
        if found.place is SkillPlace.HOME:
            async with self._changing:
                await trio.to_thread.run_sync(lambda: take_away(self._root, name))
        else:
            assert agent is not None
            layer = _LAYER[found.place]
            await self._documents.delete(agent, f"{layer}{found.where.removeprefix(layer)}", by)
        await self._skills.forget(agent, found, by.author)
        return found


_LAYER: Final = {SkillPlace.AGENT: "agent/", SkillPlace.USER: "shared/", SkillPlace.GLOBAL: "global/"}


def checked_skill(name: str, files: Mapping[str, bytes]) -> SkillFiles:
    """Return files as a skill that may be written. Raises `InvalidError` SKILL_FLAWED or SKILL_UNFIT."""
    for path in files:
        if checked(path) != path or any(part.startswith(".") for part in path.split("/")):
            raise folder.unfit(name, f"{path[:80]!a} is not a path in it")
        if path.count("/") > folder.SKILL_DEPTH_MAX:
            raise folder.unfit(name, f"{path[:80]!a} is too deep")
    whole = folder.fit(name, files)
    if wrong := flaws(whole.text, name):
        told = "; ".join(f"it {each}" for each in wrong)
        raise InvalidError("SKILL_FLAWED", f"adding the skill {name[:80]!a}: {told}", hint="doc/use/skills.md")
    return whole


def put(root: Path, name: str, whole: SkillFiles, *, instead: bool) -> None:
    """Write a skill that was checked. It blocks."""
    target, new, old = root / name, root / f"{_NEW}{name}", root / f"{_OLD}{name}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(target) and not instead:
            raise ConflictError(
                "SKILL_EXISTS", f"adding the skill {name}: there is one of that name", hint="--replace puts it instead"
            )
        for left in (new, old):  # of a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        for path, data in whole.files.items():
            file = new / path
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
        with suppress(FileNotFoundError):
            target.rename(old)
        new.rename(target)
        _settle(root)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UnavailableError("SKILL_UNWRITABLE", f"adding the skill {name}: {error.strerror or error}") from None


def take_away(root: Path, name: str) -> None:
    """Remove a skill's folder. It blocks."""
    old = root / f"{_OLD}{name}"
    try:
        shutil.rmtree(old, ignore_errors=True)
        (root / name).rename(old)
        _settle(root)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UnavailableError("SKILL_UNWRITABLE", f"removing the skill {name}: {error.strerror or error}") from None


def _settle(root: Path) -> None:
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
