"""What S3 answers in XML: lists of objects, what was not deleted, errors. Without I/O.

Answers are a stranger's: they are bounded before they come here, and one that declares a document type is refused.
"""

from datetime import UTC, datetime
from typing import Final, NamedTuple, NoReturn
from xml.parsers import expat

_DEPTH_MAX: Final = 16
_LISTED: Final = "Contents"


class S3Error(NamedTuple):
    """Why it refuses: a word for programs and words for people."""

    code: str
    message: str


class ListedObject(NamedTuple):
    """An object: its whole name, and when it was put there, by the server's clock (wall ms)."""

    name: str
    changed_ms: int


class ObjectPage(NamedTuple):
    """Some objects in the order of their names; `more` follow."""

    objects: tuple[ListedObject, ...]
    more: bool


class _Element(NamedTuple):
    name: str
    text: list[str]
    inner: "list[_Element]"

    def all(self, name: str) -> "list[_Element]":
        return [each for each in self.inner if each.name == name]

    def word(self, name: str) -> str:
        return next(("".join(each.text).strip() for each in self.inner if each.name == name), "")


def read_error(data: bytes) -> S3Error:
    """Return what an error says. Raises `ValueError` for what is none."""
    root = _tree(data)
    if root.name != "Error":
        raise ValueError(f"it is {root.name[:40]!a}, not an error")
    return S3Error(root.word("Code"), root.word("Message"))


def read_page(data: bytes) -> ObjectPage:
    """Return a page of a list. Raises `ValueError` for what is none."""
    root = _tree(data)
    if root.name != "ListBucketResult":
        raise ValueError(f"it is {root.name[:40]!a}, not a list of objects")
    found = tuple(ListedObject(each.word("Key"), _moment(each.word("LastModified"))) for each in root.all(_LISTED))
    return ObjectPage(found, root.word("IsTruncated") == "true")


def read_deleted(data: bytes) -> list[tuple[str, S3Error]]:
    """Return the objects that were not deleted, with why. Raises `ValueError` for what is no answer to that."""
    root = _tree(data)
    if root.name != "DeleteResult":
        raise ValueError(f"it is {root.name[:40]!a}, not what was deleted")
    return [(each.word("Key"), S3Error(each.word("Code"), each.word("Message"))) for each in root.all("Error")]


def _moment(text: str) -> int:
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _tree(data: bytes) -> _Element:
    """Return the root of a document, names without their namespaces. Raises `ValueError`."""
    top = _Element("", [], [])
    open_: list[_Element] = [top]

    def start(name: str, _: dict[str, str]) -> None:
        if len(open_) > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        made = _Element(name.rpartition(" ")[2], [], [])
        open_[-1].inner.append(made)
        open_.append(made)

    def end(_: str) -> None:
        open_.pop()

    def text(said: str) -> None:
        open_[-1].text.append(said)

    def refuse(*_: object) -> NoReturn:
        raise ValueError("it declares a document type")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"it is not XML: {error}") from None
    return top.inner[0]
