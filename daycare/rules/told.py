"""What tools of memory told in the results that earlier versions kept, of which only the text says it.

Each begins with a line of the daemon's, and what it tells stands in a block behind it, which no text can leave.
"""

import re
from typing import Final

from daycare.base.messages import Origin, Told, ToldDocument

_HEAD: Final = re.compile(r"^\d+ memor(?:y|ies): ([g\d, ]+); words of: [a-z, ]+$", re.MULTILINE)
_WORDS_OF: Final = re.compile(r"; words of: ([a-z, ]+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^<memory (\w{16})>\n.*?\n</memory \1>$", re.MULTILINE | re.DOTALL)
_DOCUMENT: Final = re.compile(r"^(\S+): ([a-z]+), version (\d{1,18})$", re.MULTILINE)
_PASSAGE: Final = re.compile(r"^\[g?\d+\] chunk \S+ \S+ (\S+?)(?: \(score \S+\))?: ", re.MULTILINE)
_LISTED: Final = re.compile(r"^Documents: (.+)$", re.MULTILINE)


def told_by(result: str) -> Told:
    """Return what a result of a tool of memory tells: labels and documents of lines of the daemon's only.

    A text among it could only add further paths and origins.
    """
    ours = _BLOCK.sub("", result)
    known = {str(origin): origin for origin in Origin}
    words = (word for found in _WORDS_OF.finditer(result) for word in found[1].split(", "))
    paths = [match[1] for pattern in (_DOCUMENT, _PASSAGE) for match in pattern.finditer(result)]
    return Told(
        labels=tuple(each for found in _HEAD.finditer(ours) for each in found[1].split(", ")),
        documents=tuple(ToldDocument(it[1], it[2], int(it[3])) for it in _DOCUMENT.finditer(ours)),
        paths=(*paths, *(path for match in _LISTED.finditer(result) for path in match[1].split(", "))),
        origins=tuple(known[word] for word in words if word in known),
    )
