"""Somebody edits a text in the editor of their choice."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daycare.base.errors import DaycareError, InvalidError

_EDITOR: Final = "vi"


def new_file(path: str, text: str) -> Path:
    """Return a new file with a text, named like a document, which only its owner may read."""
    name = path.replace("/", "-").removesuffix(".md")
    handle, file = tempfile.mkstemp(prefix=f"{name}-", suffix=".md")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
        opened.write(text)
    return Path(file)


def edited(file: Path) -> str:
    """Let somebody edit a file, and return what it holds then."""
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR
    kept = f"the file is kept: {file}"
    try:
        code = subprocess.run([*shlex.split(words), str(file)], check=False).returncode  # noqa: S603
        if code:
            raise DaycareError("EDITOR_FAILED", f"editing with {words}: it ended with exit code {code}; {kept}")
        return file.read_bytes().decode()
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise InvalidError("EDITOR_FAILED", f"editing with {words}: {what}; {kept}", hint="set $EDITOR") from error


@contextmanager
def kept_unless_saved(file: Path | None) -> Iterator[None]:
    """Remove a file that was edited once the block has saved it; or else say that it is kept, and where."""
    try:
        yield
    except DaycareError as error:
        where = f"; what you wrote is kept in {file}" if file else ""
        raise type(error)(error.code, f"{error.message}{where}", hint=error.hint) from error
    if file:
        forget(file)


def forget(file: Path) -> None:
    """Remove a file that was edited."""
    file.unlink(missing_ok=True)
