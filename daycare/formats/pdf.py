"""The text of PDF files, page by page."""

import io
from collections.abc import Iterator
from pkgutil import walk_packages
from typing import Final

from daycare.formats.pieces import DAMAGE, UnreadableFormat, load_all

PDF_PAGES_MAX: Final = 2_000  # more than a million characters fill, but for slides


def load() -> None:
    """Import what reads PDF files, as nothing can be opened later. It bounds streams, trees and nesting by itself."""
    import pypdf

    load_all(each.name for each in walk_packages(pypdf.__path__, "pypdf."))


def pieces(data: bytes) -> Iterator[str]:
    """Yield each page with its number. Raises `UnreadableFormat` for one with a password, and one without text."""
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise UnreadableFormat("it is protected by a password; a copy without one could be read")
        count = len(reader.pages)
    except PyPdfError as error:
        raise ValueError("no PDF file") from error
    empty = True
    for number in range(min(count, PDF_PAGES_MAX)):
        try:
            said = reader.pages[number].extract_text().strip()
        except (PyPdfError, *DAMAGE):
            said = "[this page cannot be read]"
        empty = empty and not said
        if said or not empty:
            yield f"[page {number + 1} of {count}]\n{said}\n\n"
    if empty:
        raise UnreadableFormat("its pages have no text, perhaps they are scanned; pictures of the pages could be seen")
    if count > PDF_PAGES_MAX:
        yield f"[pages {PDF_PAGES_MAX + 1} to {count} are not read; they could be sent as a file of their own]\n"
