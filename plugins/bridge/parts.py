"""A reply in the parts that a bridge is given: text cut at good places, each file by itself."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from daycare.base.connector import Outgoing

FENCE_MAX_CHARS: Final = 60  # of what closes a code block and opens it again
WHOLE: Final[Any] = True  # the `markup` of a part: it is not to be split again
_PLACES: Final = ("\n\n", "\n", ". ", " ")


def split(outgoing: Outgoing, most: int) -> list[Outgoing]:
    """Return parts of at most `most` characters. The same reply gives the same parts."""
    texts = fenced(cut(outgoing.text, most - FENCE_MAX_CHARS))
    if len(outgoing.files) == 1 and len(texts) <= 1:
        return [replace(outgoing, text=texts[0] if texts else "", markup=WHOLE)]
    parts = [replace(outgoing, text=text, files=(), markup=WHOLE) for text in texts]
    parts += [replace(outgoing, text="", files=(file,), markup=WHOLE) for file in outgoing.files]
    first, *others = parts or [replace(outgoing, markup=WHOLE)]
    return [first, *(replace(part, reply_to="") for part in others)]


def cut(text: str, most: int) -> list[str]:
    """Cut a text at paragraphs, lines, sentences or words, whichever is found in the second half of a part."""
    found: list[str] = []
    text = text.strip()
    while len(text) > most:
        at = next((at for place in _PLACES if (at := text.rfind(place, most // 2, most)) > 0), most)
        found.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*found, text] if text else found


def fenced(parts: Sequence[str]) -> list[str]:
    """Return parts in which a code block that was cut ends and begins again."""
    found: list[str] = []
    opened = ""
    for part in parts:
        part = f"{opened}\n{part}" if opened else part
        fences = [line for line in part.split("\n") if line.lstrip().startswith("```")]
        opened = fences[-1].strip()[: FENCE_MAX_CHARS - 8] if len(fences) % 2 else ""
        found.append(f"{part}\n```" if opened else part)
    return found
