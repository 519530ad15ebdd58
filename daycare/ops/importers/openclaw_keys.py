"""Secrets of OpenClaw, by the names that they have here."""

from typing import Any

from daycare.ops.importers.import_model import ImportModel
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.tables import opened, tree
from daycare.ops.importers.words import PROVIDERS, at, slug, text_of


def read(source: ImportSource, imported: ImportModel, config: dict[str, Any], name: str) -> None:
    """Put the secrets into the import model: of the settings, of `.env`, and of the agents' profiles."""
    channels = at(config, "channels")
    for channel, table in channels.items() if isinstance(channels, dict) else ():
        where = f"{name} channels.{channel}"
        _channel(imported, slug(channel), table, where)
        accounts = at(table, "accounts")
        for account, inner in accounts.items() if isinstance(accounts, dict) else ():
            key = slug(channel) if account == "default" else f"{slug(channel)}.{slug(account)}"
            _channel(imported, key, inner, f"{where}.accounts.{account}")
    env = at(config, "env")
    for table in (env, at(env, "vars")):
        for variable, value in table.items() if isinstance(table, dict) else ():
            of_variable(imported, variable, value, f"{name} env.{variable}")
    providers = at(config, "models", "providers")
    for provider, table in providers.items() if isinstance(providers, dict) else ():
        imported.secret(slug(provider), at(table, "apiKey"), f"{name} models.providers.{provider}")
    for variable, value in source.env(".env").items():
        of_variable(imported, variable, value, f".env {variable}")
    for agent in source.names("agents", folders=True):
        file = f"agents/{agent}/agent/auth-profiles.json"
        if source.has(file):
            _profiles(imported, source.json(file), file)
        file = f"agents/{agent}/agent/openclaw-agent.sqlite"
        with opened(source, file) as tables:
            for row in tables.rows("auth_profile_store") if tables is not None else ():
                _profiles(imported, tree(row.get("store_json")), file)


def _profiles(imported: ImportModel, store: Any, file: str) -> None:
    profiles = at(store, "profiles")
    for profile, table in profiles.items() if isinstance(profiles, dict) else ():
        provider = text_of(at(table, "provider")) or profile.partition(":")[0]
        if at(table, "type") == "oauth":
            imported.leave(f"the sign-in {profile[:60]}", file, "it is bound to the other program: daycare keys add")
        else:
            value = at(table, "key") or at(table, "token") or at(table, "apiKey")
            imported.secret(PROVIDERS.get(provider, slug(provider)), value, f"{file} {profile[:60]}")


def of_variable(imported: ImportModel, variable: str, value: object, source: str) -> None:
    """Note a variable of an environment that holds a key of a provider or the token of a bot."""
    for ending in ("_API_KEY", "_BOT_TOKEN"):
        if variable.endswith(ending):
            word = variable.removesuffix(ending).lower()
            imported.secret(PROVIDERS.get(word, slug(word)), value, source)


def _channel(imported: ImportModel, key: str, table: Any, where: str) -> None:
    for field, name in (("botToken", key), ("token", key), ("appToken", f"{key.partition('.')[0]}.app")):
        imported.secret(name, at(table, field), f"{where}.{field}")
