"""The text of a skill, `SKILL.md`, as agentskills.io describes it: read leniently, and judged strictly to be written.

A skill is a folder; its `SKILL.md` begins with fields in YAML that say what it is for, and goes on with instructions.
"""

import unicodedata
from typing import Any, Final

import msgspec

from daycare.rules import frontmatter

SKILL_FILE: Final = "SKILL.md"
SKILL_NAME_MAX_CHARS: Final = 64  # as the specification of agent skills has it ...
SKILL_DESCRIPTION_MAX_CHARS: Final = 1_024  # ... and this ...
SKILL_COMPATIBILITY_MAX_CHARS: Final = 500  # ... and this
SKILL_FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")

_FENCE: Final = "---"


class SkillHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a skill's fields say of it. `allowed_tools` are names that it mentions: they give no right to anything."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()


def read_head(text: str, folder: str) -> SkillHead:
    """Return what a text says of itself, whatever is wrong with it.

    One without fields has its folder's name, and its first line with words as description.
    """
    front, body = frontmatter.parted(text)
    found = frontmatter.fields(front) if front else {}
    tools = found.get("allowed-tools")
    named = tools.replace(",", " ").split() if isinstance(tools, str) else tools if isinstance(tools, list) else ()
    return SkillHead(
        name=_words(found, "name") or folder,
        description=_words(found, "description") or _first_line(body),
        license=_words(found, "license"),
        compatibility=_words(found, "compatibility"),
        allowed_tools=tuple(each for each in named if isinstance(each, str)),
    )


def skill_text(name: str, description: str, instructions: str) -> str:
    """Return the text of a new skill."""
    front = frontmatter.changed("", {"name": name, "description": description})
    return frontmatter.joined(front, f"\n{instructions.strip()}\n")


def flaws(text: str, folder: str) -> list[str]:
    """Return what in a text is not as the standard says, in words that follow "it"; none for a good skill."""
    front, _ = frontmatter.parted(text.replace("\r\n", "\n"))
    if not front:
        return ["has to begin with fields between two lines ---"]
    if _FENCE in front:  # other programs take it for their end
        return ["has --- within its fields"]
    fields = _strict(front)
    if isinstance(fields, str):
        return [fields]
    unknown = sorted(str(name) for name in fields if name not in SKILL_FIELDS)
    wrong = [f"has fields that the standard does not know: {', '.join(unknown)}"] if unknown else []
    return [*wrong, *_name_flaws(fields.get("name"), folder), *_field_flaws(fields)]


def _name_flaws(name: object, folder: str) -> list[str]:
    if not isinstance(name, str) or not name.strip():
        return ["has no name"]
    name = unicodedata.normalize("NFKC", name.strip())
    found = []
    if len(name) > SKILL_NAME_MAX_CHARS:
        found.append(f"has a name of {len(name)} characters, at most {SKILL_NAME_MAX_CHARS}")
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in name):
        found.append("has a name with other characters than small letters, digits and -")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        found.append("has a name with a - at its beginning, at its end or twice")
    if unicodedata.normalize("NFKC", folder) != name:
        found.append(f"has another name than its folder {folder}")
    return found


def _field_flaws(fields: dict[str, Any]) -> list[str]:
    found = []
    told = fields.get("description")
    if not isinstance(told, str) or not told.strip():
        found.append("has no description")
    elif len(told) > SKILL_DESCRIPTION_MAX_CHARS:
        found.append(f"has a description of {len(told)} characters, at most {SKILL_DESCRIPTION_MAX_CHARS}")
    needs = fields.get("compatibility", "")
    if not isinstance(needs, str):
        found.append("has a compatibility that is not text")
    elif len(needs) > SKILL_COMPATIBILITY_MAX_CHARS:
        found.append(f"has a compatibility of {len(needs)} characters, at most {SKILL_COMPATIBILITY_MAX_CHARS}")
    return found


def _strict(front: str) -> dict[str, Any] | str:
    """Return the fields if they are written in plain YAML that all programs read alike, else what is wrong."""
    import yaml  # late: it costs 20 ms

    try:
        for event in yaml.parse(front, Loader=yaml.SafeLoader):
            if getattr(event, "anchor", None) or getattr(event, "tag", None):
                return "has an anchor, an alias or a tag in its fields"
            if getattr(event, "flow_style", None):
                return "has fields in braces or brackets"
        node = yaml.compose(front, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return "has fields that are no YAML"
    if not isinstance(node, yaml.MappingNode):
        return "has no fields by name"
    if _repeats(node):
        return "has a field twice"
    return frontmatter.fields(front)


def _repeats(node: Any) -> bool:
    """Return whether a name stands twice in a mapping, or in one within."""
    inner = node.value if isinstance(node.value, list) else []
    pairs = [each for each in inner if isinstance(each, tuple)]
    names = [str(name.value) for name, _ in pairs]
    below = [value for _, value in pairs] or [each for each in inner if not isinstance(each, tuple)]
    return len(set(names)) < len(names) or any(map(_repeats, below))


def _words(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


def _first_line(body: str) -> str:
    return next((line.strip("#* \t") for line in body.splitlines() if line.strip("#*- \t")), "")
