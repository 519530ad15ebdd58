"""Paths of documents, as agents and people write them. They name rows of the store, never files on disk.

    path    = fixed | view | folder "/" [name "/"] name ".md" | "daily/" date ".md" | space
            | prefix (fixed | folder ... | "daily/" ...)
    fixed   = "IDENTITY.md" | "SOUL.md" | "STYLE.md" | "USER.md" | "MEMORY.md"
    view    = "AGENTS.md" | "tools.json"                        made when they are read, and written by nobody
    folder  = "knowledge" | "skills"
    space   = "workspace/" name ".md" | "project/" name "/" name ".md"
    prefix  = "agent/" | "shared/" | "global/"                  one layer instead of the first that has it
    name    = a-z 0-9 - _, the first a letter or digit

Each document of a layer has one spelling. Nothing is decoded, folded or cleaned up: what is not in the grammar is
refused, and owners are no part of it, so a path cannot lead to somebody else's documents.
"""

import re
import unicodedata
from datetime import date
from typing import Final

import msgspec

from daycare.base.documents import DAILY as DAILY
from daycare.base.documents import Layer
from daycare.base.errors import InvalidError
from daycare.base.limits import NAME_MAX_CHARS

MEMORY_PATH_MAX_CHARS: Final = 200  # of a document's path: the longest legal one has 141

IDENTITY: Final = "IDENTITY.md"
SOUL: Final = "SOUL.md"
STYLE: Final = "STYLE.md"
USER: Final = "USER.md"
MEMORY: Final = "MEMORY.md"
AGENTS: Final = "AGENTS.md"
TOOLS: Final = "tools.json"
VIEWS: Final = (AGENTS, TOOLS)

CASCADE: Final = (Layer.AGENT, Layer.USER, Layer.GLOBAL)
_FIXED: Final[dict[str, tuple[Layer, ...]]] = {
    IDENTITY: (Layer.GLOBAL,),
    SOUL: CASCADE,
    STYLE: CASCADE,
    USER: (Layer.USER,),
    MEMORY: (Layer.AGENT,),
}
_FOLDERS: Final = ("knowledge", "skills")
_PREFIXES: Final = {"agent": Layer.AGENT, "shared": Layer.USER, "global": Layer.GLOBAL}
_WORDS: Final = {layer: word for word, layer in _PREFIXES.items()}
_DEVICES: Final = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]").fullmatch  # files of these names open devices
_is_plain: Final = re.compile(r"[A-Za-z0-9._/-]*").fullmatch
_is_name: Final = re.compile(r"[a-z0-9][a-z0-9_-]*").fullmatch
_is_date: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_NAME: Final = "a name of a-z, 0-9, - and _ that begins with a letter or digit"
_PLACES: Final = (
    f"{', '.join((*_FIXED, *VIEWS))}, knowledge/NAME.md, skills/NAME.md, daily/YYYY-MM-DD.md, workspace/NAME.md or"
    " project/PROJECT/NAME.md; agent/, shared/ or global/ before it names one layer"
)


class Address(msgspec.Struct, frozen=True):
    """A document as an agent sees it: its path, its name in the store, and the layers that may have it, first wins.

    What is written without a prefix goes to the first of them. A view has no layers.
    """

    path: str
    name: str
    layers: tuple[Layer, ...]

    @property
    def is_view(self) -> bool:
        """Whether it is made when it is read."""
        return not self.layers

    @property
    def append_only(self) -> bool:
        """Whether a text may only grow."""
        return self.layers == (Layer.AGENT,) and self.name.startswith(DAILY)


class FolderScope(msgspec.Struct, frozen=True):
    """Where to look for documents: below `path` (empty: everywhere), whose names in `layers` begin with `prefix`."""

    path: str
    layers: tuple[Layer, ...]
    prefix: str

    @property
    def one_layer(self) -> bool:
        """Whether the path names a layer."""
        return self.path.partition("/")[0] in _PREFIXES


def parse(path: str) -> Address:
    """Read a document's path. Raises `InvalidError` MEMORY_PATH_INVALID that says what was expected."""
    segments = _split(path)
    layer = _PREFIXES.get(segments[0])
    if layer is not None:
        if len(segments) == 1:
            raise _wrong(path, f"a document after {segments[0]}/")
        name, layers = _document(path, segments[1:])
        if layer not in layers:
            where = " or ".join(_spell(each, name) for each in layers) or f"{name} alone, which is made when it is read"
            raise _wrong(path, f"{where}, as {name} is not in the layer {segments[0]}")
        return Address(path, name, (layer,))
    match segments:
        case ("workspace", file):
            return Address(path, _file(path, file), (Layer.WORKSPACE,))
        case ("project", project, file):
            return Address(path, f"{_name(path, project)}/{_file(path, file)}", (Layer.PROJECT,))
        case ("workspace" | "project", *_):
            raise _wrong(path, "workspace/NAME.md or project/PROJECT/NAME.md")
    name, layers = _document(path, segments)
    return Address(path, name, layers)


def folder(path: str) -> FolderScope:
    """Read where to look: empty for everywhere, or a path such as `knowledge`, `shared/skills/`, `project/garden`.

    Raises `InvalidError` MEMORY_PATH_INVALID.
    """
    if path == "":
        return FolderScope("", tuple(Layer), "")
    segments = _split(path.removesuffix("/"))
    match segments:
        case (prefix,) if prefix in _PREFIXES:
            return FolderScope(prefix, (_PREFIXES[prefix],), "")
        case ("workspace",):
            return FolderScope("workspace", (Layer.WORKSPACE,), "")
        case ("project", *rest) if len(rest) < 2:
            return FolderScope("/".join(segments), (Layer.PROJECT,), "".join(f"{_name(path, part)}/" for part in rest))
    layer = _PREFIXES.get(segments[0])
    inside = segments[1:] if layer else segments
    match inside:
        case ("daily",) if layer in (None, Layer.AGENT):
            return FolderScope("/".join(segments), (Layer.AGENT,), DAILY)
        case (top, *rest) if top in _FOLDERS and len(rest) < 2:
            below = "".join(f"{_name(path, part)}/" for part in rest)
            return FolderScope("/".join(segments), (layer,) if layer else CASCADE, f"{top}/{below}")
    raise _wrong(path, "a folder: knowledge, skills, daily, workspace, project, agent, shared or global")


def spell(layer: Layer, name: str, *, alone: bool = False) -> str:
    """Return the path of a document in a layer; `alone`: no layer before this one has the name."""
    layers = _FIXED.get(name) or ((Layer.AGENT,) if name.startswith(DAILY) else CASCADE)
    if layer in (Layer.WORKSPACE, Layer.PROJECT) or not (alone or layers[0] is layer):
        return _spell(layer, name)
    return name


def _spell(layer: Layer, name: str) -> str:
    return f"{_WORDS.get(layer, layer)}/{name}"


def _split(path: str) -> tuple[str, ...]:
    """Return the segments of what looks like a path, before anything is made of them."""
    if not isinstance(path, str) or not path:
        raise _wrong(path, _PLACES)
    if len(path) > MEMORY_PATH_MAX_CHARS:
        raise _wrong(path, f"at most {MEMORY_PATH_MAX_CHARS} characters, found {len(path)}")
    if not _is_plain(path):
        at, char = next((at, char) for at, char in enumerate(path, 1) if not _is_plain(char))
        raise _wrong(path, f"only letters of ASCII, digits and . / - _, found {_called(char)} at character {at}")
    segments = tuple(path.split("/"))
    if path.startswith("/"):
        raise _wrong(path, "no / at its beginning, as this is not a path on a disk")
    if "" in segments:
        raise _wrong(path, "something before and behind each /")
    if any(not segment.strip(".") for segment in segments):
        raise _wrong(path, "names only: . and .. lead nowhere here")
    return segments


def _document(path: str, segments: tuple[str, ...]) -> tuple[str, tuple[Layer, ...]]:
    """Return the name of a document of an agent, a user or the installation, and the layers that may have it."""
    match segments:
        case (name,) if name in _FIXED:
            return name, _FIXED[name]
        case (name,) if name in VIEWS:
            return name, ()
        case ("daily", file):
            return f"{DAILY}{_day(path, file)}", (Layer.AGENT,)
        case (top, *folders, file) if top in _FOLDERS and len(folders) < 2:
            names = [_name(path, each) for each in folders]
            return "/".join((top, *names, _file(path, file))), CASCADE
        case (top, *_) if top in _FOLDERS:
            raise _wrong(path, f"{top}/NAME.md or {top}/FOLDER/NAME.md")
    known = {word.lower(): word for word in (*_FIXED, *VIEWS, *_FOLDERS, *_PREFIXES, "daily", "workspace", "project")}
    meant = known.get(segments[0].lower())
    if meant not in (None, segments[0]):
        raise _wrong(path, f"{meant}, in exactly these letters")
    raise _wrong(path, _PLACES)


def _file(path: str, file: str) -> str:
    if not file.endswith(".md"):
        raise _wrong(path, f"a name that ends in .md, found {file}")
    _name(path, file.removesuffix(".md"))
    return file


def _name(path: str, name: str) -> str:
    if len(name) > NAME_MAX_CHARS:
        raise _wrong(path, f"names of at most {NAME_MAX_CHARS} characters, found {len(name)}")
    if not _is_name(name):
        raise _wrong(path, f"{_NAME}, found {name!a}")
    if _DEVICES(name):
        raise _wrong(path, f"another name than {name}, which some systems open as a device")
    return name


def _day(path: str, file: str) -> str:
    day = file.removesuffix(".md")
    try:
        if not _is_date(day) or file == day:
            raise ValueError
        date.fromisoformat(day)
    except ValueError:
        raise _wrong(path, f"daily/YYYY-MM-DD.md with a day of the calendar, found {file!a}") from None
    return file


def _called(char: str) -> str:
    named = {"\x00": "NUL", "\\": "a backslash", "%": "a percent sign (nothing is decoded)", " ": "a space"}
    return named.get(char) or f"U+{ord(char):04X} ({unicodedata.name(char, 'without a name')})"


def _wrong(path: object, expected: str) -> InvalidError:
    shown = ascii(path if not isinstance(path, str) or len(path) <= 80 else path[:77] + "...")
    return InvalidError(
        "MEMORY_PATH_INVALID", f"reading the document path {shown}: expected {expected}", hint="daycare memory list"
    )
