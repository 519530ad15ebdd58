"""Which parts of an archive belong together: what Office and EPUB files say of themselves in small texts of XML."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daycare.formats.archive import Archive


def load() -> None:
    """Import what reads XML, as nothing can be opened later."""
    from defusedxml import ElementTree

    ElementTree.fromstring("<a/>")


def elements(packed: Archive, name: str, tag: str) -> list[Any]:
    """Return the elements of a name, of whatever space, in a part. Entities and document types are refused."""
    from defusedxml import ElementTree

    root = ElementTree.fromstring(packed.read(name), forbid_dtd=True)
    return [each for each in root.iter() if each.tag.rpartition("}")[2] == tag]


def related(packed: Archive, name: str, tag: str) -> list[str]:
    """Return the parts that the elements of a part lead to by their relations, in their order."""
    folder, file = posixpath.split(name)
    relations = elements(packed, f"{folder}/_rels/{file}.rels", "Relationship")
    targets = {
        each.get("Id"): posixpath.normpath(posixpath.join("/", folder, each.get("Target"))) for each in relations
    }
    found = []
    for each in elements(packed, name, tag):
        number = next((value for key, value in each.items() if key.endswith("}id")), None)
        if (target := targets.get(number, "")[1:]) in packed.names:
            found.append(target)
    return found
