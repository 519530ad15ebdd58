"""Removing a person completely: from the store and a file's bytes, the bucket, the shared documents, and the logs.

What is not removed is told: copies of the home that were made before, and what people wrote about them by hand. Of a
server's own pages, logs and backups nothing is known here.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from daycare import features
from daycare.base.clock import SystemClock
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.path import check_user_id
from daycare.base.store_location import is_server
from daycare.config import load
from daycare.features.backups.engine import folder_of
from daycare.features.files.bucket import account
from daycare.features.files.client import S3Client
from daycare.features.files.removing import remove_now, to_remove
from daycare.ops import bare
from daycare.ops.probing import StoredSecrets
from daycare.store.home import MEMORY, Home
from daycare.store.sqlite import purging
from daycare.store.sqlite.copies import sync_file, sync_folder
from daycare.store.sqlite.database import snapshots
from daycare.store.sqlite.purging import PurgedPerson

_LINES_MAX: Final = 20  # told of files that still name somebody


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge came to. `copies` still hold them, `named` are places in files of people that still name them.

    `objects_left` are still in the bucket, as `objects_why` says: the next daemon removes them.
    """

    users: tuple[str, ...]
    removed: dict[str, int]
    copies: tuple[str, ...]
    named: tuple[str, ...]
    objects_left: int = 0
    objects_why: str = ""


def look(home: Home, user: str) -> PurgedPerson:
    """Return what is there of a person. The caller has the home's lock."""
    return purging.look(_database(home), check_user_id(user), features.rows())


def purge(home: Home, user: str, now_ms: int) -> Purged:
    """Remove a person for good. The caller has the home's lock."""
    location = _database(home)
    person = look(home, user)
    files = _shared(home, person)
    lines = sum(_clean_log(file, person) for file in sorted(home.path.glob("daycare.log*")))
    removed = purging.purge(location, user, now_ms, features.rows())
    objects, objects_why = _objects(home, location)
    removed |= {name: many for name, many in (("shared files", files), ("lines of the log", lines)) if many}
    return Purged(
        users=person.users,
        removed=removed,
        copies=tuple(map(str, _copies(home, location))),
        named=tuple(_named(home, person))[:_LINES_MAX],
        objects_left=objects,
        objects_why=objects_why,
    )


def _objects(home: Home, location: str) -> tuple[int, str]:
    """Remove their files from the bucket; return how many are still there, and why."""
    if not to_remove(location):
        return 0, ""
    config = load(home.path)
    s3, why = config.files.s3, "no bucket is set: [files.s3] bucket"
    if s3.bucket:
        secrets = StoredSecrets(home.path, config)
        client = S3Client(s3, lambda: account(s3, secrets.value(s3.key) if s3.key else None), SystemClock())
        try:
            bare.run(remove_now, location, client, s3.prefix)
            why = "the bucket refuses to delete them"
        except DaycareError as error:
            why = error.message
    left = to_remove(location)
    return left, why if left else ""


def _database(home: Home) -> str:
    location = home.database(load(home.path).store.location)
    if location == MEMORY or not (is_server(location) or Path(location).exists()):
        raise NotFoundError("STORE_MISSING", f"purging: there is no database {location}")
    return location


def _shared(home: Home, person: PurgedPerson) -> int:
    """Remove their folders among the shared documents; return how many files they had."""
    names = tuple(root.removeprefix("/").replace("/", ".") for root in person.roots)
    gone = [home.memory / "users" / user for user in person.users]
    agents = home.memory / "agents"
    for folder in agents.iterdir() if agents.is_dir() else ():
        if folder.name in names or folder.name.startswith(tuple(f"{name}." for name in names)):
            gone.append(folder)
    many = 0
    for folder in gone:
        if folder.is_dir() and not folder.is_symlink():
            many += sum(1 for each in folder.rglob("*") if each.is_file())
            shutil.rmtree(folder)
    return many


def _clean_log(file: Path, person: PurgedPerson) -> int:
    """Take lines out of a log that are about them; return how many."""
    signs = tuple(sign.encode() for sign in _signs(person))
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    many = 0
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with file.open("rb") as source, os.fdopen(fd, "wb") as target:
        for line in source:
            if any(sign in line for sign in signs):
                many += 1
            else:
                target.write(line)
    if many:
        sync_file(part)
        part.replace(file)
        sync_folder(file.parent)
    else:
        part.unlink()
    return many


def _signs(person: PurgedPerson) -> Iterator[str]:
    for root in person.roots:
        yield from (f"{root}/", f'"{root}"')
    for user in person.users:
        yield from (f'"user":"{user}"', f'"user": "{user}"')
    yield from person.accounts


def _copies(home: Home, location: str) -> Iterator[Path]:
    """Yield copies of before that are known of."""
    folders = {home.path / "backups", folder_of(home, load(home.path).backup)}
    for folder in sorted(folders):
        if folder.is_dir():
            yield from sorted(folder.glob("*.daycare-backup"))
    if not is_server(location):
        beside = Path(location)
        yield from snapshots(location)
        yield from sorted(beside.parent.glob(f"{beside.name}.rolled-back-*"))
        yield from sorted(beside.parent.glob(f"{beside.name}.damaged*"))
    yield from sorted(home.path.glob("before-restore-*"))


def _named(home: Home, person: PurgedPerson) -> Iterator[str]:
    """Yield where files that people write still name them."""
    files = [home.config, *(sorted(home.cron.rglob("*")) if home.cron.is_dir() else ())]
    signs = [*(f"{root}/" for root in person.roots), *person.accounts]
    signs += [f"user{mark}{user}" for user in person.users for mark in (": ", ' = "', '="')]
    for file in files:
        if file.is_file():
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                if any(sign in line for sign in signs):
                    yield f"{file}:{number}"
