"""A skill as panels edit it: name, description and instructions, which are fields and text of a document.

Other fields of the document (`license`, `allowed-tools`, ...) stand as they stood, whatever is changed.
"""

import re
from typing import Final

import msgspec

from daycare.base.errors import InvalidError
from daycare.rules import frontmatter
from daycare.rules.skill_text import SKILL_DESCRIPTION_MAX_CHARS, SKILL_NAME_MAX_CHARS, read_head

_is_name: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*").fullmatch


class SkillText(msgspec.Struct, frozen=True):
    """What a skill's document says."""

    name: str
    description: str
    instructions: str


def read(text: str, stem: str) -> SkillText:
    """Return what a document says; one without fields has its file's name, and its first line as description."""
    head = read_head(text, stem)
    return SkillText(head.name, head.description, frontmatter.parted(text)[1].strip("\n"))


def write(old: str, skill: SkillText) -> str:
    """Return a document that says this in place of what it said."""
    front, _ = frontmatter.parted(old)
    fields = {"name": skill.name, "description": skill.description}
    front = frontmatter.changed(front, fields)
    if not fields.items() <= frontmatter.fields(front).items():
        front = frontmatter.changed("", fields)  # what stood there could not be read; its version is kept
    return frontmatter.joined(front, f"\n{skill.instructions}\n")


def checked_name(text: str) -> str:
    """Return a name as skills have it: `PDF Processing` is `pdf-processing`. Raises `InvalidError` SKILL_NAME."""
    name = re.sub(r"[\s_-]+", "-", text.strip().lower()).strip("-")
    if len(name) > SKILL_NAME_MAX_CHARS or not _is_name(name):
        raise InvalidError(
            "SKILL_NAME",
            f"naming a skill {text[:SKILL_NAME_MAX_CHARS]!a}: expected a-z, 0-9 and -, at most {SKILL_NAME_MAX_CHARS}"
            " characters",
            hint="such as pdf-processing",
        )
    return name


def checked_description(text: str) -> str:
    """Return a description on one line. Raises `InvalidError` SKILL_DESCRIPTION."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if not 0 < len(line) <= SKILL_DESCRIPTION_MAX_CHARS:
        raise InvalidError(
            "SKILL_DESCRIPTION",
            f"describing a skill in {len(line)} characters: expected 1 to {SKILL_DESCRIPTION_MAX_CHARS}",
            hint="say in a sentence what it is for, and when to use it",
        )
    return line


def checked_instructions(text: str) -> str:
    """Return instructions. Raises `InvalidError` SKILL_INSTRUCTIONS for none."""
    if not text.strip():
        raise InvalidError("SKILL_INSTRUCTIONS", "instructing a skill: there is no text", hint="say how it is done")
    return text.strip("\n")
