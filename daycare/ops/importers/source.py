"""The folder that an import reads: nothing in it is ever written, no link is followed, and each read has a bound.

Whatever cannot be read is noted and left, so that one damaged file costs nothing but itself. It does not protect
against a folder that changes while it is read: what is taken then is some of each.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from daycare.base.errors import InvalidError
from daycare.ops.importers import json5

FILE_MAX_BYTES: Final = 1024 * 1024  # of a text or a list of jobs: ten documents of ours
LINES_MAX_BYTES: Final = 256 * 1024 * 1024  # of one conversation; read line by line
LINE_MAX_BYTES: Final = 4 * 1024 * 1024  # of it: a message with a long result of a tool
YAML_MAX_BYTES: Final = 256 * 1024  # read in some seconds
NAMES_MAX: Final = 20_000  # looked at in one folder: more is no assistant's
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ImportSource:
    """The folder at `root`. Paths within it have `/` between their segments; `problems` are pairs (path, why).

    The root itself may be a link: a person has named it. Raises `InvalidError` IMPORT_SOURCE if it is no folder.
    """

    def __init__(self, root: Path, *, told: str = "") -> None:
        self.root = root.expanduser().resolve()
        self.problems: list[tuple[str, str]] = []
        self._told = told
        if not self.root.is_dir():
            raise InvalidError(
                "IMPORT_SOURCE", f"reading {root}: it is not a folder", hint="daycare migrate-from --help"
            )

    def shown(self, path: str) -> str:
        """Return how a path is called in reports."""
        return f"{self._told}{path}"

    def note(self, path: str, why: str) -> None:
        """Note that something is left, once."""
        if (self.shown(path), why) not in self.problems:
            self.problems.append((self.shown(path), why))

    def below(self, path: str) -> "ImportSource | None":
        """Return a folder within as a source of its own, with the same notes; None if there is none."""
        if not self.has_folder(path):
            return None
        inner = ImportSource(self.root / path, told=f"{self.shown(path)}/")
        inner.problems = self.problems
        return inner

    def has(self, path: str) -> bool:
        """Whether there is a file at a path, not through a link."""
        try:
            with self._opened(path) as handle:
                return handle is not None
        except OSError:
            return False

    def has_folder(self, path: str) -> bool:
        """Whether there is a folder at a path, not through a link."""
        try:
            with self._folder(path) as handle:
                return handle is not None
        except (OSError, ValueError):
            return False

    def names(self, path: str, suffix: str = "", *, folders: bool = False) -> list[str]:
        """Return the names in a folder in order: of files that end in `suffix`, or of folders. Links are noted."""
        found = []
        try:
            with self._folder(path) as handle:
                if handle is None:
                    return []
                with os.scandir(handle) as entries:
                    for number, entry in enumerate(entries):
                        if number >= NAMES_MAX:
                            self.note(path, f"has over {NAMES_MAX} entries: the others are not looked at")
                            break
                        if entry.is_symlink() and entry.name.endswith(suffix):
                            self.note(f"{path}/{entry.name}".lstrip("/"), "is a link, and links are not followed")
                        elif entry.is_dir(follow_symlinks=False) if folders else _is_file(entry, suffix):
                            found.append(entry.name)
        except (OSError, ValueError) as error:
            self.note(path, _why(error))
        return sorted(name for name in found if _printable(name))

    def data(self, path: str, max_bytes: int = FILE_MAX_BYTES) -> bytes | None:
        """Return a file's content, None if there is none; what cannot be read is noted, and None."""
        try:
            with self._opened(path) as handle:
                if handle is None:
                    return None
                with os.fdopen(os.dup(handle), "rb") as file:
                    raw = file.read(max_bytes + 1)
        except (OSError, ValueError) as error:
            self.note(path, _why(error))
            return None
        if len(raw) > max_bytes:
            self.note(path, f"is longer than {max_bytes:,} bytes")
            return None
        return raw

    def text(self, path: str, max_bytes: int = FILE_MAX_BYTES) -> str | None:
        """Return a file's text, None if there is none; what is no text is noted, and None."""
        raw = self.data(path, max_bytes)
        if raw is None:
            return None
        if b"\0" in raw:
            self.note(path, "holds a NUL character, so it is not text")
        else:
            try:
                return raw.decode("utf-8-sig").replace("\r\n", "\n")
            except UnicodeDecodeError:
                self.note(path, "is not written in UTF-8")
        return None

    def json(self, path: str) -> Any:
        """Return what a JSON file says (JSON5 is read, too), None if there is none or it is damaged, which is noted."""
        text = self.text(path)
        if text is None:
            return None
        try:
            return loads(text)
        except (ValueError, RecursionError):
            try:
                return mended(json5.loads(text))
            except ValueError as error:
                self.note(path, f"is damaged: {error}")
                return None

    def yaml(self, path: str) -> Any:
        """Return what a YAML file says, as `json` does. Aliases are refused: a few lines of them fill any memory."""
        text = self.text(path, YAML_MAX_BYTES)
        if text is None:
            return None
        try:
            return yaml_of(text)
        except ValueError as error:
            self.note(path, f"is damaged: {error}")
            return None

    def lines(self, path: str) -> Iterator[Any]:
        """Yield the JSON values of a file with one on each line; what is damaged is noted, once for each file."""
        bad = 0
        try:
            with self._opened(path) as handle:
                if handle is None:
                    return
                with os.fdopen(os.dup(handle), "rb") as file:
                    if os.fstat(handle).st_size > LINES_MAX_BYTES:
                        self.note(path, f"is longer than {LINES_MAX_BYTES:,} bytes: the rest is not read")
                    read = 0
                    while (raw := file.readline(LINE_MAX_BYTES + 1)) and read <= LINES_MAX_BYTES:
                        read += len(raw)
                        if len(raw) > LINE_MAX_BYTES:
                            bad += 1
                            while raw and not raw.endswith(b"\n"):
                                raw = file.readline(LINE_MAX_BYTES)
                                read += len(raw)
                            continue
                        try:
                            if raw.strip():
                                yield loads(raw)
                        except (ValueError, RecursionError):
                            bad += 1
        except (OSError, ValueError) as error:
            self.note(path, _why(error))
        if bad:
            self.note(path, f"{bad} of its lines are damaged or too long; the others were read")

    def env(self, path: str) -> dict[str, str]:
        """Return the settings of a file of lines `NAME=value`."""
        found = {}
        for line in (self.text(path) or "").splitlines():
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and name.isidentifier():
                value = value.strip()
                quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
                found[name] = value[1:-1] if quoted else value.split(" #")[0].strip()
        return found

    @contextmanager
    def handle(self, path: str) -> Iterator[int | None]:
        """Give the handle of a file, None if there is none or it cannot be opened, which is noted."""
        with ExitStack() as opened:
            found = None
            try:
                found = opened.enter_context(self._opened(path))
            except (OSError, ValueError) as error:
                self.note(path, _why(error))
            yield found

    @contextmanager
    def _opened(self, path: str) -> Iterator[int | None]:
        folder, _, name = path.rpartition("/")
        with self._folder(folder) as above:
            if above is None:
                yield None
                return
            try:
                handle = os.open(_segment(name), _FILE, dir_fd=above)
            except FileNotFoundError:
                yield None
                return
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise OSError(errno.EINVAL, "is not a file")
                yield handle
            finally:
                os.close(handle)

    @contextmanager
    def _folder(self, path: str) -> Iterator[int | None]:
        with ExitStack() as opened:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            handle: int | None = root
            for segment in filter(None, path.split("/")):
                try:
                    handle = os.open(_segment(segment), _FOLDER, dir_fd=handle)
                except (FileNotFoundError, NotADirectoryError):
                    if _is_link(segment, handle):
                        raise OSError(errno.ELOOP, "") from None
                    handle = None
                    break
                opened.callback(os.close, handle)
            yield handle


def loads(text: str | bytes) -> Any:
    """Return what a JSON text says; half of a surrogate pair becomes a question mark. Raises as `json.loads`."""
    value = json.loads(text)
    escape = b"\\ud" if isinstance(text, bytes) else "\\ud"
    return mended(value) if escape in text.lower() else value  # type: ignore[operator]


def mended(value: Any) -> Any:
    """Return a value in which all texts are such as can be written."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mended(name): mended(each) for name, each in value.items()}
    return [mended(each) for each in value] if isinstance(value, list) else value


def yaml_of(text: str) -> Any:
    """Return what a short YAML text says. Raises `ValueError`."""
    import yaml  # late: it costs 20 ms

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise ValueError("it has aliases")
        return yaml.load(text, Loader=loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"line {mark.line + 1}" if mark else "it is no YAML") from None
    except (RecursionError, OverflowError):
        raise ValueError("it is nested too deeply") from None


def front(text: str) -> tuple[dict[str, Any], str]:
    """Part a text in the fields between two lines `---` at its beginning, and the rest."""
    if not text.startswith("---\n"):
        return {}, text
    fields, fence, rest = text[4:].partition("\n---")
    if not fence or len(fields) > YAML_MAX_BYTES:
        return {}, text
    try:
        found = yaml_of(fields)
    except ValueError:
        return {}, text
    return (found if isinstance(found, dict) else {}), rest.partition("\n")[2]


def _segment(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name or "/" in name:
        raise ValueError(f"{name[:40]!a} is not a name within the folder")
    return name


def _is_link(name: str, folder: int | None) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _is_file(entry: "os.DirEntry[str]", suffix: str) -> bool:
    return entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False)


def _printable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a link, and links are not followed"
    text = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {text or error}"
