"""The first set-up of a home: folder, settings, key file, database, and its operator."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.personality import DEFAULT, Personalities
from daycare.agent.prompt import Persona
from daycare.agent.sections import introduce
from daycare.base.clock import SystemClock
from daycare.base.connector import DIRECT
from daycare.base.errors import InvalidError
from daycare.base.memory_settings import LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.base.messages import Origin
from daycare.base.path import check_user_id
from daycare.base.store_location import is_server, shown
from daycare.base.zones import zone_of
from daycare.config import AgentSection, load
from daycare.features import open_store
from daycare.features.agents.templates import EMPTY, template
from daycare.features.configuration.service import write_config
from daycare.features.memory.documents.rows import DocumentRows
from daycare.ops import bare
from daycare.ops.node import OfNode, node_of
from daycare.ops.vanished import refuse_vanished
from daycare.store.home import MEMORY, Home, HomeLock
from daycare.store.records import User
from daycare.store.sqlite import mark
from daycare.store.vault import open_vault

AGENT_NAME = "daycare"
TONE = "friendly"
PERSONALITY = DEFAULT


def initialise(
    home: Path,
    *,
    agent_name: str | None = None,
    user_name: str | None = None,
    user_id: str | None = None,
    tone: str | None = None,
    personality: str | None = None,
    zone: str | None = None,
    embedder: str = NO_EMBEDDER,
    text: str | None = None,
    secrets: Mapping[str, str] | None = None,
    new: bool = False,
) -> dict[str, Any]:
    """Make a home ready to use and return what was made; what is there already is left as it is.

    `text` is what config.toml is to be, whatever is there; `secrets` are encrypted and stored by name. Raises
    `BrokenError` STORE_GONE for a home whose database is gone, unless a `new` one is wanted,
    `InvalidError` for a name, user id or zone that cannot be, `NotFoundError` for a personality that there is not,
    `BusyError` when a daemon has the home.
    """
    place = Home(home)
    place.prepare()
    settings = {"name": agent_name or AGENT_NAME, "tone": tone or TONE, "personality": personality or PERSONALITY}
    check_settings(settings, Personalities(place.personalities))
    user = User(
        id=check_user_id(user_id) if user_id else slug(user_name or "me"),
        name=user_name or user_id or "me",
        zone=check_zone(zone or local_zone()),
        operator=True,
    )
    with HomeLock(place) as lock:
        lock.acquire("tool", SystemClock().now_ms())
        written = text is not None or not place.config.exists()
        if written:
            write_config(place.config, text if text is not None else first_config(settings, embedder))
        config = load(place.path)
        if not new:
            refuse_vanished(place, config)
        vault = open_vault(place.key_file)
        persona = Persona(config.agent.name, config.agent.tone)
        sealed = {name: vault.seal(value) for name, value in (secrets or {}).items()}
        node = node_of(config, vault)
        operator = _make_database(place.database(config.store.location), user, persona, sealed, node)
    return {
        "home": str(place.path),
        "config": str(place.config),
        "config_written": written,
        "database": shown(place.database(config.store.location)),
        "user": operator.id,
        "user_name": operator.name,
        "zone": operator.zone,
        "agent_name": config.agent.name,
        "tone": config.agent.tone,
        "personality": config.agent.personality,
        "path": f"/{operator.id}/{DIRECT}",
        "model": config.models.default,
        "embedder": config.memory.embedder,
    }


def slug(name: str) -> str:
    """Return a user id made of a person's name."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].strip("-")
    return "me" if text in ("", "system") else text


def check_zone(name: str) -> str:
    """Return an IANA time zone's name, or raise `InvalidError`."""
    return zone_of(name).key


def local_zone() -> str:
    """Return the machine's IANA time zone, UTC when it does not say."""
    parts = Path("/etc/localtime").resolve().parts
    if "zoneinfo" in parts:
        name = "/".join(parts[parts.index("zoneinfo") + 1 :])
        try:
            return check_zone(name)
        except InvalidError:
            pass  # a private zone file: nobody else knows its name
    return "UTC"


def check_settings(settings: Mapping[str, str], known: Personalities) -> None:
    """Refuse what `config.toml` could not hold, before anything is made."""
    try:
        msgspec.convert(settings, AgentSection, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidError("SETTINGS", f"setting up: {error}", hint="daycare init --help") from None
    for name, text in settings.items():
        if not text.isprintable():
            raise InvalidError("SETTINGS", f"setting up: {name} has more than one line", hint="daycare init --help")
    known.get(settings["personality"])


def usual_embedder() -> str:
    """Return the embedder of a new home: the local one where it is installed. None sends what is said elsewhere."""
    from daycare.features.memory.embed.local import has_local  # late: it brings numpy's names along

    return LOCAL_EMBEDDER if has_local() else NO_EMBEDDER


def first_config(settings: Mapping[str, str], embedder: str = NO_EMBEDDER, *, model: bool = False) -> str:
    """Return a fresh config.toml; unless a `model` is put into it afterwards it tells how one is connected."""
    agent = "".join(f"{key} = {msgspec.json.encode(text).decode()}\n" for key, text in settings.items())
    text = (
        "# daycare's settings; every key with its default and reason is in doc/operate/configuration.md.\n"
        "# Check changes with: daycare config check\n\n"
        f"[agent]\n{agent}"
    )
    if embedder != NO_EMBEDDER:
        text += f"\n[memory]\nembedder = {msgspec.json.encode(embedder).decode()}\n"
    hint = (
        "\n# To connect a model, for example a local Ollama:\n"
        '# [providers.ollama]\n# base_url = "http://127.0.0.1:11434/v1"\n'
        '# [models]\n# default = "ollama/llama3.2"\n'
    )
    return text if model else text + hint


def _make_database(
    location: str, user: User, persona: Persona, secrets: Mapping[str, bytes], node: OfNode = None
) -> User:
    """Let the database appear whole, with operator and identity, or not at all; one that is there keeps its own."""
    file = Path(location)
    if location == MEMORY or is_server(location) or file.exists():
        return bare.run(_add_operator, location, user, persona, secrets, node)
    new = Path(f"{file}.new")
    for left in (new, *(Path(f"{name}{end}") for name in (new, file) for end in ("-wal", "-shm", ".mark"))):
        left.unlink(missing_ok=True)  # of a start that was interrupted, or of a database that is gone
    operator = bare.run(_add_operator, str(new), user, persona, secrets)
    new.chmod(0o600)  # and so are the files that SQLite makes beside it
    new.replace(file)
    with suppress(FileNotFoundError):
        mark.file_of(str(new)).replace(mark.file_of(location))
    _sync(file.parent)  # what is acknowledged later must not vanish with its file's name
    return operator


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


async def _add_operator(
    location: str, user: User, persona: Persona, secrets: Mapping[str, bytes], node: OfNode = None
) -> User:
    async with open_store(location, node=node) as store:
        operator = next(iter(await store.people.operators()), None)
        if operator is None:
            operator = await store.people.add(replace(user, keys=(f"{DIRECT}:{user.id}",)))
            await introduce(store.of(DocumentRows), persona, operator, template(EMPTY).documents)
            agents = Directory(store, (DIRECT,))  # there before the first word, to be set up and to be written to
            await agents.create(agents.parse(f"/{operator.id}/{DIRECT}"), origin=Origin.PERSON)
        for name, token in secrets.items():
            await store.secrets.put(name, operator.id, token)
        return operator
