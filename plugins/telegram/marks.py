"""Marked text: Telegram's entities, which count UTF-16 units, as the Markdown that models read."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from daycare_plugins.telegram.schema import Entity

ENTITIES_MAX: Final = 500  # looked at in one text; Telegram sends 100
_URL_MAX_CHARS: Final = 2_048


def marked(text: str, entity: Entity) -> str:
    """Return the part of a text that an entity marks, empty if it lies outside or cuts a character in two."""
    units = text.encode("utf-16-le")
    return units[2 * entity.offset : 2 * _end(entity)].decode("utf-16-le") if _fits(units, entity) else ""


def to_markdown(text: str, entities: Iterable[Entity]) -> str:
    """Return a text with links, code, quotes and deletions as Markdown. Other marks carry no meaning of their own."""
    units = text.encode("utf-16-le")
    opens: dict[int, list[str]] = defaultdict(list)
    closes: dict[int, list[str]] = defaultdict(list)
    quoted = 0  # the end of the last quotation: they never overlap
    for entity in _outer_first(units, entities):
        start, end = entity.offset, _end(entity)
        inner = units[2 * start : 2 * end].decode("utf-16-le")
        if entity.type.endswith("blockquote"):
            if start < quoted:
                continue
            quoted = end
            opens[start].append(_line_before(units, start) + "> ")
            for at in _line_starts(units, start, end):
                opens[at].append("> ")
            closes[end].insert(0, _line_after(units, end))
        elif around := _around(units, entity, inner):
            opens[start].append(around[0])
            closes[end].insert(0, around[1])
    pieces = []
    before = 0
    for at in sorted(opens.keys() | closes.keys()):
        pieces += [units[2 * before : 2 * at].decode("utf-16-le"), *closes[at], *opens[at]]
        before = at
    pieces.append(units[2 * before :].decode("utf-16-le"))
    return "".join(pieces)


def _around(units: bytes, entity: Entity, inner: str) -> tuple[str, str] | None:
    match entity.type:
        case "text_link" if entity.url and entity.url != inner:
            url = re.sub(r"\s", "", entity.url[:_URL_MAX_CHARS])
            return "[", f"](<{url}>)" if re.search(r"[()<>]", url) else f"]({url})"
        case "strikethrough":
            return "~~", "~~"
        case "code":
            fence = "`" * (_longest_run(inner) + 1)
            space = " " if inner.startswith("`") or inner.endswith("`") else ""
            return fence + space, space + fence
        case "pre":
            fence = "`" * max(3, _longest_run(inner) + 1)
            language = re.sub(r"[^\w+#.-]", "", entity.language or "")[:40]
            first = f"{_line_before(units, entity.offset)}{fence}{language}\n"
            end = _end(entity)
            return first, ("" if inner.endswith("\n") else "\n") + fence + _line_after(units, end)
        case _:
            return None


def _outer_first(units: bytes, entities: Iterable[Entity]) -> Sequence[Entity]:
    fitting = [entity for entity, _ in zip(entities, range(ENTITIES_MAX), strict=False) if _fits(units, entity)]
    return sorted(fitting, key=lambda entity: (entity.offset, -entity.length, not entity.type.endswith("blockquote")))


def _end(entity: Entity) -> int:
    return entity.offset + entity.length


def _fits(units: bytes, entity: Entity) -> bool:
    end = _end(entity)
    return entity.length > 0 and 2 * end <= len(units) and _whole(units, entity.offset) and _whole(units, end)


def _whole(units: bytes, at: int) -> bool:
    """Whether a character begins at a unit: the second half of a pair is DC00 to DFFF."""
    return 2 * at >= len(units) or units[2 * at + 1] & 0xFC != 0xDC


def _char(units: bytes, at: int) -> bytes:
    return units[2 * at : 2 * at + 2]


def _line_before(units: bytes, at: int) -> str:
    return "" if at == 0 or _char(units, at - 1) == b"\n\x00" else "\n"


def _line_after(units: bytes, at: int) -> str:
    return "" if 2 * at >= len(units) or _char(units, at) == b"\n\x00" else "\n"


def _line_starts(units: bytes, start: int, end: int) -> list[int]:
    return [at + 1 for at in range(start, end - 1) if _char(units, at) == b"\n\x00"]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
