"""What all readers of formats share: why a file is not read, and the errors by which libraries tell of damage."""

import zipfile
import zlib
from collections.abc import Iterable
from importlib import import_module
from typing import Final
from xml.sax import SAXException


class UnreadableFormat(Exception):  # noqa: N818 - it says what a file is
    """Why a file is not read and what to do, in words for a model and for people."""


# Libraries meet bytes that nobody thought of: a file that is damaged raises any of these.
DAMAGE: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    SAXException,
    SyntaxError,  # of XML that is none, too
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_all(names: Iterable[str]) -> None:
    """Import modules that nobody names before they are needed; those for what is not installed are left out."""
    for name in names:
        try:
            import_module(name)
        except ImportError:
            pass
