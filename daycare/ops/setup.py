"""The first set-up of a home: folder, settings, key file, database, and its operator."""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from daycare.agent.personality import DEFAULT, Personalities
from daycare.agent.prompt import Persona
from daycare.agent.sections import introduce
from daycare.base.clock import SystemClock
from daycare.base.connector import DIRECT
from daycare.base.errors import InvalidError
from daycare.base.path import check_user_id
from daycare.config import AgentSection, load
from daycare.store.home import MEMORY, Home, HomeLock
from daycare.store.records import User
from daycare.store.sqlite.store import open_store
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
) -> dict[str, Any]:
    """Make a home ready to use and return what was made; what is there already is left as it is.

    Raises `InvalidError` for a name, user id or zone that cannot be, `NotFoundError` for a personality that there is
    not, `BusyError` when a daemon has the home.
    """
    place = Home(home)
    place.prepare()
    settings = {"name": agent_name or AGENT_NAME, "tone": tone or TONE, "personality": personality or PERSONALITY}
    _check(settings, Personalities(place.personalities))
    user = User(
        id=check_user_id(user_id) if user_id else slug(user_name or "me"),
        name=user_name or user_id or "me",
        zone=check_zone(zone or local_zone()),
        operator=True,
    )
    with HomeLock(place) as lock:
        lock.acquire("tool", SystemClock().now_ms())
        written = _write_config(place.config, settings)
        config = load(place.path)
        open_vault(place.key_file)
        persona = Persona(config.agent.name, config.agent.tone)
        operator = _make_database(place.database(config.store.location), user, persona)
    return {
        "home": str(place.path),
        "config": str(place.config),
        "config_written": written,
        "database": place.database(config.store.location),
        "user": operator.id,
        "user_name": operator.name,
        "zone": operator.zone,
        "agent_name": config.agent.name,
        "tone": config.agent.tone,
        "personality": config.agent.personality,
        "path": f"/{operator.id}/{DIRECT}",
        "model": config.models.default,
    }


def slug(name: str) -> str:
    """Return a user id made of a person's name."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].strip("-")
    return "me" if text in ("", "system") else text


def check_zone(name: str) -> str:
    """Return an IANA time zone's name, or raise `InvalidError`."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidError(
            "ZONE_UNKNOWN",
            f"using the time zone {name}: there is none of that name",
            hint="such as Europe/Berlin or UTC",
        ) from error
    return name


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


def _check(settings: dict[str, str], known: Personalities) -> None:
    """Refuse what `config.toml` could not hold, before anything is made."""
    try:
        msgspec.convert(settings, AgentSection, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidError("SETTINGS", f"setting up: {error}", hint="daycare init --help") from None
    for name, text in settings.items():
        if not text.isprintable():
            raise InvalidError("SETTINGS", f"setting up: {name} has more than one line", hint="daycare init --help")
    known.get(settings["personality"])


def _write_config(file: Path, settings: dict[str, str]) -> bool:
    if file.exists():
        return False
    agent = "".join(f"{key} = {msgspec.json.encode(text).decode()}\n" for key, text in settings.items())
    text = (
        "# daycare's settings; every key with its default and reason is in doc/configuration.md.\n"
        "# Check changes with: daycare config check\n\n"
        f"[agent]\n{agent}\n"
        "# To connect a model, for example a local Ollama:\n"
        '# [providers.ollama]\n# base_url = "http://127.0.0.1:11434/v1"\n'
        '# [models]\n# default = "ollama/llama3.2"\n'
    )
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return True


def _make_database(location: str, user: User, persona: Persona) -> User:
    """Let the database appear whole, with operator and identity, or not at all; one that is there keeps its own."""
    file = Path(location)
    if location == MEMORY or file.exists():
        return trio.run(_add_operator, location, user, persona)
    new = Path(f"{file}.new")
    for left in (new, *(Path(f"{name}{end}") for name in (new, file) for end in ("-wal", "-shm"))):
        left.unlink(missing_ok=True)  # of a start that was interrupted, or of a database that is gone
    operator = trio.run(_add_operator, str(new), user, persona)
    new.replace(file)
    _sync(file.parent)  # what is acknowledged later must not vanish with its file's name
    return operator


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


async def _add_operator(location: str, user: User, persona: Persona) -> User:
    async with open_store(location) as store:
        for known in await store.people.find():
            if known.operator:
                return known
        operator = await store.people.add(replace(user, keys=(f"{DIRECT}:{user.id}",)))
        await introduce(store.documents, persona, operator)
        return operator
