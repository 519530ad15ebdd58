"""What is in a test's store, wherever that is: in its file, or in what a server has in the file's place."""

import re
import zlib
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from daycare import features
from daycare.base.store_location import is_server
from daycare.store.home import Home
from daycare.store.moving.whole import copy_to_file
from daycare.store.sqlite import packing
from daycare.store.sqlite.rows import indexes_of

_LONGEST: Final = 8_192  # of what is looked at from each place
_STEP: Final = 16


def located(file: Path) -> str:
    """Return where the store is that is called so."""
    return Home(file.parent).database(file.name)


def tell(home: Path) -> None:
    """Let programs find the store of a home that nobody has open, too: one on a server is named in its settings."""
    location = located(home / "daycare.db")
    if is_server(location):
        config = home / "config.toml"
        config.write_text(f'{config.read_text()}\n[store]\nlocation = "{location}"\n')


def as_file(file: Path) -> Path:
    """Return a file that has everything of a store: its own, or a copy of what is on a server."""
    location = located(file)
    if not is_server(location):
        return file
    target = file.with_name(f"{file.name}.copied")
    target.unlink(missing_ok=True)
    copy_to_file(location, target, indexes_of(features.rows()), lambda: None)
    return target


def unpacked_in(data: bytes) -> bytes:
    """Return what can be unpacked from any place of some bytes; of what has no end as much as there is."""
    found: list[bytes] = []
    for begin in (match.end() for match in re.finditer(re.escape(packing._FIRST), data)):
        stream = zlib.decompressobj(packing._UNPACKING, packing._DICTIONARY)
        with suppress(zlib.error):
            for at in range(begin, min(begin + _LONGEST, len(data)), _STEP):
                found.append(stream.decompress(data[at : at + _STEP]))
                if stream.eof:
                    break
        found.append(b"\0")
    return b"".join(found)


def rows(file: Path, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return rows of a store that nobody uses."""
    with closing(apsw.Connection(str(as_file(file)))) as db:
        return [tuple(row) for row in db.execute(sql, bindings)]
