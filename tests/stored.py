"""What is in a test's store, wherever that is: in its file, or in what a server has in the file's place."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from daycare import features
from daycare.base.store_location import is_server
from daycare.store.home import Home
from daycare.store.moving.whole import copy_to_file
from daycare.store.sqlite.rows import indexes_of


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


def rows(file: Path, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return rows of a store that nobody uses."""
    with closing(apsw.Connection(str(as_file(file)))) as db:
        return [tuple(row) for row in db.execute(sql, bindings)]
