"""What tools of memory have told, read back out of their results: labels, documents, and where the words came from.

Each result begins with a line of ours, and what it tells stands in a block behind it, which no text can leave.
"""

import re
from collections.abc import Iterable
from typing import Final

from daycare.base.messages import Origin

_HEAD: Final = re.compile(r"^\d+ memor(?:y|ies): ([g\d, ]+); words of: [a-z, ]+$", re.MULTILINE)
_WORDS_OF: Final = re.compile(r"; words of: ([a-z, ]+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^<memory (\w{16})>\n.*?\n</memory \1>$", re.MULTILINE | re.DOTALL)
_DOCUMENT: Final = re.compile(r"^(\S+): [a-z]+, version \d+$", re.MULTILINE)
_PASSAGE: Final = re.compile(r"^\[g?\d+\] chunk \S+ \S+ (\S+?)(?: \(score \S+\))?: ", re.MULTILINE)
_LISTED: Final = re.compile(r"^Documents: (.+)$", re.MULTILINE)


def words_of(origins: Iterable[Origin]) -> str:
    """Return where words came from, as `origins_in` reads it."""
    return f"words of: {', '.join(sorted(set(origins)))}"


def labels_in(result: str) -> list[str]:
    """Return the labels of what a tool of memory has told: only of lines of ours, which no text can forge."""
    return [each for found in _HEAD.finditer(_BLOCK.sub("", result)) for each in found[1].split(", ")]


def documents_in(result: str) -> list[str]:
    """Return the documents that a tool of memory has told whole or by a passage without a label."""
    return [found[1] for found in _DOCUMENT.finditer(_BLOCK.sub("", result))]


def paths_in(result: str) -> list[str]:
    """Return all documents of which a tool of memory may have told something. A text could only add some."""
    found = [match[1] for pattern in (_DOCUMENT, _PASSAGE) for match in pattern.finditer(result)]
    return [*found, *(path for match in _LISTED.finditer(result) for path in match[1].split(", "))]


def origins_in(result: str) -> list[Origin]:
    """Return where the words came from that a tool of memory has told. A text could only add some."""
    known = {str(origin): origin for origin in Origin}
    words = (word for found in _WORDS_OF.finditer(result) for word in found[1].split(", "))
    return [known[word] for word in words if word in known]
