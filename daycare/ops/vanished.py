"""A home whose database is gone: nothing begins an empty one in its place unless somebody says so."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from daycare.base.errors import BrokenError
from daycare.base.store_location import is_server
from daycare.config import Config
from daycare.features.backups.backup_store import scheduled_in
from daycare.features.backups.engine import folder_of
from daycare.store.home import MEMORY, Home
from daycare.store.sqlite.guard import rescues
from daycare.store.sqlite.mark import file_of


def refuse_vanished(home: Home, config: Config) -> None:
    """Raise `BrokenError` STORE_GONE where the home was in use before and its database is not there.

    The key file alone says nothing: somebody may have brought it, and a first start that was interrupted leaves it.
    """
    location = home.database(config.store.location)
    found = (
        []
        if location == MEMORY or is_server(location) or Path(location).exists()
        else list(_traces(home, config, location))
    )
    if found:
        raise BrokenError(
            "STORE_GONE",
            f"opening {location}: it is gone, and this home was in use before (there is {', '.join(found)})",
            hint=f"{way_back(home, config)}; only `daycare init --new` begins with nothing",
        )


def way_back(home: Home, config: Config) -> str:
    """Return the command that brings a database back."""
    location = home.database(config.store.location)
    if saved := rescues(location):
        return f"mv {shlex.quote(str(saved[-1]))} {shlex.quote(location)} (what was rescued when it went away)"
    backups = scheduled_in(folder_of(home, config.backup))
    newest = shlex.quote(str(backups[-1][1])) if backups else "BACKUP"
    return f"daycare restore {newest} --force"


def _traces(home: Home, config: Config, location: str) -> Iterator[str]:
    for file in (file_of(location), home.log_file, home.starts_file, *rescues(location)):
        if file.exists():
            yield file.name
    if found := scheduled_in(folder_of(home, config.backup)):
        yield f"a backup, {found[-1][1].name}"
