"""An import from its beginning to its end: what is read, where it is tried, what is written, and the report."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from daycare.agent.prompt import Persona
from daycare.agent.sections import introduce
from daycare.base.clock import Clock, SystemClock
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.limits import EXPORT_CHUNK_BYTES
from daycare.base.secrecy import without_secrets
from daycare.base.store_location import refuse_server
from daycare.config import Config, load
from daycare.features import open_store
from daycare.features.backups.backup_store import name_of, publish
from daycare.features.backups.making import Making
from daycare.features.exports.stored import anonymous
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.skills.folder import HOME_FOLDER
from daycare.ops import bare
from daycare.ops.importers import daycare_ts, hermes, openclaw
from daycare.ops.importers.apply import ImportApply
from daycare.ops.importers.import_model import ImportedSetting, ImportModel
from daycare.ops.importers.reading import ImportReading
from daycare.ops.importers.report import ImportItem, ImportReport, save
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.words import key_of
from daycare.ops.owner import owner_of
from daycare.store.home import MEMORY, Home
from daycare.store.sqlite import copies
from daycare.store.sqlite.database import refuse_damage
from daycare.store.vault import Vault, open_vault

Product = tuple[Callable[[ImportSource], bool], Callable[[ImportSource, ImportReading], ImportModel]]
PRODUCTS: Final[dict[str, Product]] = {
    "openclaw": (openclaw.is_one, openclaw.read),
    "hermes": (hermes.is_one, hermes.read),
    "daycare-ts": (daycare_ts.is_one, daycare_ts.read),
}
CONNECTORS: Final = ("direct", "telegram", "whatsapp", "whatsapp-cloud")  # that come with daycare


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wants of an import."""

    product: str
    path: Path
    user: str = ""
    me: tuple[str, ...] = ()
    workspace: Path | None = None
    history: bool = False
    replace: bool = False
    approve: bool = False
    with_keys: bool = False
    pause_jobs: bool = False


def dry_run(home: Home, wish: ImportRequest, *, clock: Clock | None = None) -> ImportReport:
    """Return what an import would come to. It is done in a copy of the database; no lock is needed."""
    location = _database(home)
    with tempfile.TemporaryDirectory(prefix="daycare-import-") as folder:
        copy = Path(folder) / "copy.db"
        copies.copy(location, copy, pause=False)
        return bare.run(partial(_take, home, wish, str(copy), clock=clock or SystemClock(), dry=True))


def migrate(home: Home, wish: ImportRequest, *, clock: Clock | None = None) -> ImportReport:
    """Import, after a backup. The caller has the home's lock."""
    clock = clock or SystemClock()
    location = _database(home)
    refuse_damage(location)
    _source(home, wish)  # before anything is written
    backup = _backup(home, location, clock.now_ms())
    done = bare.run(partial(_take, home, wish, location, clock=clock, dry=False))
    done = msgspec.structs.replace(done, backup=str(backup))
    return msgspec.structs.replace(done, file=str(save(home, done)))


async def _take(home: Home, wish: ImportRequest, location: str, *, clock: Clock, dry: bool) -> ImportReport:
    config = load(home.path)
    vault: Vault | None = open_vault(home.key_file) if wish.with_keys and not dry else None
    async with open_store(location, clock) as store:
        owner = await store.people.get(wish.user or await owner_of(store, config))
        if owner is None:
            raise NotFoundError("USER_UNKNOWN", f"importing for {wish.user}: no such user", hint="daycare users list")
        operator = await store.people.get(await owner_of(store, config)) or owner
        await introduce(store.of(DocumentRows), Persona(config.agent.name, config.agent.tone), operator)
        source, imported = await trio.to_thread.run_sync(_read, home, wish)
        taking = ImportApply(
            store=store,
            owner=owner,
            product=wish.product,
            clock=clock,
            connectors=_connectors(config),
            skills_folder=home.path / HOME_FOLDER,
            dry=dry,
            replace=wish.replace,
            approve=wish.approve,
            pause_jobs=wish.pause_jobs,
            with_keys=wish.with_keys,
            vault=vault,
        )
        items = await taking.take(imported)
        items += [ImportItem(what="other", source=path, outcome="left", notes=(why,)) for path, why in source.problems]
        return ImportReport(
            product=wish.product,
            path=str(source.root),
            user=owner.id,
            dry_run=dry,
            at_ms=clock.now_ms(),
            items=tuple(items),
            settings=_suggested(imported.settings),
            keys=tuple(taking.keys),
            held=tuple(taking.held),
        )


def _read(home: Home, wish: ImportRequest) -> tuple[ImportSource, ImportModel]:
    source = _source(home, wish)
    reading = ImportReading(me=wish.me, workspace=wish.workspace, history=wish.history)
    return source, PRODUCTS[wish.product][1](source, reading)


def _check(wish: ImportRequest) -> None:
    for key in wish.me:
        channel, _, account = key.partition(":")
        if key_of(channel, account) != key:
            raise InvalidError(
                "USAGE", f"--me {key[:80]}: it is no account of one person", hint="such as telegram:123456"
            )


def _source(home: Home, wish: ImportRequest) -> ImportSource:
    """Return the folder to read. Raises `InvalidError` IMPORT_SOURCE if it does not look like one of the product."""
    _check(wish)
    source = ImportSource(wish.path)
    if source.root == home.path.resolve() or home.path.resolve() in source.root.parents:
        raise ConflictError(
            "IMPORT_IS_HOME",
            f"reading {source.root}: it is this daycare's own home",
            hint="move the other one's folder away first, such as: mv ~/.daycare ~/.daycare-ts",
        )
    if not PRODUCTS[wish.product][0](source):
        raise InvalidError(
            "IMPORT_SOURCE",
            f"reading {source.root}: it looks like no folder of {wish.product}",
            hint="doc/operate/migrate.md",
        )
    return source


def _database(home: Home) -> str:
    location = home.database(load(home.path).store.location)
    refuse_server(location, "importing", "import into a home on SQLite, and move people by `daycare export`")
    if location == MEMORY or not Path(location).exists():
        raise NotFoundError("STORE_MISSING", f"importing: there is no database {location}", hint="daycare init")
    return location


def _backup(home: Home, location: str, now_ms: int) -> Path:
    folder = home.path / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / name_of(now_ms, scheduled=False)
    number = 1
    while target.exists():  # two within a second
        number += 1
        target = folder / name_of(now_ms, scheduled=False).replace(".daycare-backup", f"-{number}.daycare-backup")
    with anonymous(home.path) as file:
        Making(home, location, now_ms, False, pause=False).write(file)
        file.seek(0)
        publish(iter(partial(file.read, EXPORT_CHUNK_BYTES), b""), target, "")
    return target


def _connectors(config: Config) -> frozenset[str]:
    named = (name for name in config.plugins.settings if name not in config.plugins.disable)
    return frozenset(name for name in (*CONNECTORS, *named) if name not in config.plugins.disable)


def _suggested(settings: list[ImportedSetting]) -> tuple[str, ...]:
    """Return lines for config.toml."""
    lines: list[str] = []
    sections: dict[str, dict[str, list[str]]] = {}
    for each in settings:
        sections.setdefault(each.section, {}).setdefault(each.key, []).append(without_secrets(each.value))
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        for key, values in keys.items():
            unique = list(dict.fromkeys(values))
            many = key == "fallbacks"
            shown = ", ".join(_toml(value) for value in (unique if many else unique[:1]))
            lines.append(f"{key} = [{shown}]" if many else f"{key} = {shown}")
    return tuple(lines)


def _toml(value: str) -> str:
    return msgspec.json.encode("".join(char for char in value if char.isprintable())).decode()
