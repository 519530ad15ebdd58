"""The first set-up of a home: folder, settings, key file, database, and its operator."""

import os
import re
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from daycare.base.clock import SystemClock
from daycare.base.errors import InvalidError
from daycare.base.path import check_user_id
from daycare.config import load
from daycare.connectors.direct import NAME as DIRECT
from daycare.store.home import MEMORY, Home, HomeLock
from daycare.store.records import User
from daycare.store.sqlite.store import open_store
from daycare.store.vault import open_vault

AGENT_NAME = "daycare"
TONE = "friendly"


def initialise(
    home: Path,
    *,
    agent_name: str | None = None,
    user_name: str | None = None,
    user_id: str | None = None,
    tone: str | None = None,
    zone: str | None = None,
) -> dict[str, Any]:
    """Make a home ready to use and return what was made; what is there already is left as it is.

    Raises `InvalidError` for a user id or zone that cannot be, `BusyError` when a daemon has the home.
    """
    place = Home(home)
    place.prepare()
    with HomeLock(place) as lock:
        lock.acquire("tool", SystemClock().now_ms())
        written = _write_config(place.config, agent_name or AGENT_NAME, tone or TONE)
        config = load(place.path)
        open_vault(place.key_file)
        user = User(
            id=check_user_id(user_id) if user_id else slug(user_name or "me"),
            name=user_name or user_id or "me",
            zone=check_zone(zone or local_zone()),
            operator=True,
        )
        operator = _make_database(place.database(config.store.location), user)
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


def _write_config(file: Path, agent_name: str, tone: str) -> bool:
    if file.exists():
        return False
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (agent_name, tone)]
    text = (
        "# daycare's settings; every key with its default and reason is in doc/configuration.md.\n"
        "# Check changes with: daycare config check\n\n"
        f'[agent]\nname = "{quoted[0]}"\ntone = "{quoted[1]}"\n\n'
        "# To connect a model, for example a local Ollama:\n"
        '# [providers.ollama]\n# base_url = "http://127.0.0.1:11434/v1"\n'
        '# [models]\n# default = "ollama/llama3.2"\n'
    )
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return True


def _make_database(location: str, user: User) -> User:
    """Let the database appear whole, with its operator, or not at all; one that is there keeps its own."""
    file = Path(location)
    if location == MEMORY or file.exists():
        return trio.run(_add_operator, location, user)
    new = Path(f"{file}.new")
    for left in (new, *(Path(f"{name}{end}") for name in (new, file) for end in ("-wal", "-shm"))):
        left.unlink(missing_ok=True)  # of a start that was interrupted, or of a database that is gone
    operator = trio.run(_add_operator, str(new), user)
    new.replace(file)
    _sync(file.parent)  # what is acknowledged later must not vanish with its file's name
    return operator


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


async def _add_operator(location: str, user: User) -> User:
    async with open_store(location) as store:
        for known in await store.people.find():
            if known.operator:
                return known
        return await store.people.add(replace(user, keys=(f"{DIRECT}:{user.id}",)))
