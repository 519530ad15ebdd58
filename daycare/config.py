"""The settings: `config.toml` in the home, read once at the start and checked whole.

The file is for people, so each problem names its line and what was meant, and all are told at once. Secrets do not
belong into it: it is copied, shown and put under version control; `daycare keys add` encrypts them.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from datetime import time
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeGuard, TypeVar
from urllib.parse import urlsplit

import msgspec

from daycare.base import api_settings, budget, consent, mcp_settings, permission, voice_settings, workspace
from daycare.base.consent import ApprovalRule, ApprovalsSection
from daycare.base.errors import BrokenError, InvalidError
from daycare.base.files_settings import flaws as file_flaws
from daycare.base.likeness import nearest_name
from daycare.base.limits import (
    CONFIG_MAX_BYTES,
    MODEL_FALLBACKS_MAX,
)
from daycare.base.loopback import loopback
from daycare.base.memory_settings import FOLDER_EMBEDDER, LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.base.memory_settings import flaws as memory_flaws
from daycare.base.path import check_name, check_user_id
from daycare.base.problems import Problem as Problem
from daycare.base.problems import bare, located, lower, placed, syntax
from daycare.base.store_location import is_server
from daycare.base.toml_positions import Key
from daycare.observe.redact import looks_secret, names_secret
from daycare.settings import OFFLINE as OFFLINE
from daycare.settings import AgentSection as AgentSection
from daycare.settings import AgentsSection as AgentsSection
from daycare.settings import BackupSection as BackupSection
from daycare.settings import BudgetsSection as BudgetsSection
from daycare.settings import Config as Config
from daycare.settings import CronSection as CronSection
from daycare.settings import DaemonSection as DaemonSection
from daycare.settings import McpServer as McpServer
from daycare.settings import ModelSection as ModelSection
from daycare.settings import ModelsSection as ModelsSection
from daycare.settings import NodeSection as NodeSection
from daycare.settings import NotifySection as NotifySection
from daycare.settings import PluginsSection as PluginsSection
from daycare.settings import ProviderSection as ProviderSection
from daycare.settings import StoreSection as StoreSection
from daycare.settings import ToolsSection as ToolsSection
from daycare.settings import with_offline

NAME: Final = "config.toml"
# Providers that need no section, with their kinds: a key is enough, Ollama on its own port asks for none.
WELL_KNOWN: Final = {"openai": "openai", "anthropic": "anthropic", "openrouter": "openai", "ollama": "openai"}

_SLIP: Final = 0.75  # how alike an unknown key of a provider and a known one are, of 1, to be taken for a slip

S = TypeVar("S", bound=msgspec.Struct)


# -- reading -----------------------------------------------------------------------------------------------------------


def load(home: Path) -> Config:
    """Read `config.toml` of a home; without one all is default.

    Raises `BrokenError` CONFIG_INVALID that lists every problem, one a line.
    """
    config, problems = _read(home / NAME)
    if problems:
        raise BrokenError("CONFIG_INVALID", "\n".join(map(str, problems)), hint="daycare config check")
    return config


def check(home: Path) -> list[Problem]:
    """Return every problem of a home's `config.toml`, by line."""
    return _read(home / NAME)[1]


def plugin_settings(home: Path, config: Config, name: str, kind: type[S], file: Path | None = None) -> S:
    """Return `[plugins.NAME]` as the plugin's own type; without the section all is default.

    `file` is where the section stands, if it is not the home's.

    Raises `InvalidError` PLUGIN_SETTINGS that lists every problem with file, line and key.
    """
    table = config.plugins.settings.get(name, {})
    at = ("plugins", name)
    fields: dict[str, Any] = {}
    found = list(_fill_section(at, kind, table, fields))
    for field in msgspec.structs.fields(kind):
        if field.required and field.encode_name not in table:
            found.append(((*at, field.encode_name), "is needed"))
    if not found:
        try:
            return msgspec.convert(table, kind, strict=True)
        except msgspec.ValidationError as error:  # what only all keys together can tell
            found.append((at, lower(str(error))))
    raise InvalidError(
        "PLUGIN_SETTINGS",
        "\n".join(map(str, located(file or home / NAME, found))),
        hint=f"correct [plugins.{bare(name)}] in config.toml",
    )


_Found = Iterator[tuple[Key, str]]


def _read(file: Path) -> tuple[Config, list[Problem]]:
    try:
        with open(file, "rb", opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return Config(), [Problem(str(file), 1, "", "is not a file")]
            raw = opened.read(CONFIG_MAX_BYTES + 1)
    except FileNotFoundError:
        return Config(), []
    except OSError as error:
        return Config(), [Problem(str(file), 1, "", f"cannot be read: {error.strerror or error}")]
    return parsed(raw, file)


def _without_waiting(path: str, flags: int) -> int:
    """Open it: whoever is to write into a pipe of that name may never come."""
    return os.open(path, flags | os.O_NONBLOCK)


def parsed(raw: bytes, file: Path) -> tuple[Config, list[Problem]]:
    """Return what a `config.toml` says and every problem of it, by line; `file` is where it stands or will."""
    if len(raw) > CONFIG_MAX_BYTES:
        return Config(), [Problem(str(file), 1, "", f"is longer than {CONFIG_MAX_BYTES} bytes")]
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        return Config(), [Problem(str(file), raw.count(b"\n", 0, error.start) + 1, "", "is not written in UTF-8")]
    except tomllib.TOMLDecodeError as error:
        return Config(), [syntax(file, text, str(error))]
    sections: dict[str, Any] = {}
    found = list(_fill(table, sections))
    config = Config(**sections)
    broken = {key for key, _ in found}
    found += [(key, what) for key, what in _meaning(config) if key not in broken]
    return config, placed(file, text, found)


def _fill(table: Mapping[str, Any], sections: dict[str, Any]) -> _Found:
    """Convert each section key by key, so that one wrong value hides no other; what is wrong stays default."""
    types = {field.encode_name: field.type for field in msgspec.structs.fields(Config)}
    for name, value in table.items():
        if name not in types:
            yield (name,), _secret((name,)) if names_secret(name) else _unknown((name,), types)
        elif name == "rules":
            rules: list[permission.Rule] = []
            yield from _fill_rules(value, rules)
            sections[name] = tuple(rules)
        elif not isinstance(value, dict):
            yield (name,), f"is a section: write [{name}{'.NAME' if name in ('providers', 'mcp') else ''}]"
        elif name == "providers":
            providers: dict[str, ProviderSection] = {}
            yield from _fill_providers(value, providers)
            sections[name] = with_offline(providers)
        elif name == "plugins":
            settings = {key: inner for key, inner in value.items() if isinstance(inner, dict)}
            own = {key: inner for key, inner in value.items() if key not in settings}
            found: dict[str, Any] = {"settings": settings}
            yield from _fill_section((name,), PluginsSection, own, found, hidden=("settings",))
            for key, inner in settings.items():
                yield from _secrets_within((name, key), inner)
            sections[name] = PluginsSection(**found)
        elif name == "cron":
            jobs: dict[str, CronSection] = {}
            yield from _fill_cron(value, jobs)
            sections[name] = jobs
        elif name == "mcp":
            servers: dict[str, McpServer] = {}
            yield from _fill_mcp(value, servers)
            sections[name] = servers
        elif name == "approvals":
            approvals: dict[str, Any] = {}
            yield from _fill_approvals(value, approvals)
            sections[name] = ApprovalsSection(**approvals)
        else:
            fields: dict[str, Any] = {}
            yield from _fill_section((name,), types[name], value, fields)
            sections[name] = types[name](**fields)


def _fill_providers(table: Mapping[str, Any], providers: dict[str, ProviderSection]) -> _Found:
    for name, value in table.items():
        key = ("providers", name)
        if not isinstance(value, dict):
            yield key, _secret(key) if names_secret(name) else f"is a section: write [providers.{bare(name)}]"
            continue
        own, options = _split(value)
        models: dict[str, ModelSection] = {}
        if isinstance(own.get("models"), dict):
            yield from _fill_models((*key, "models"), own.pop("models"), models)
        fields: dict[str, Any] = {"models": models, "options": options} | ({"kind": OFFLINE} if name == OFFLINE else {})
        yield from _fill_section(key, ProviderSection, own, fields)
        for option, inner in options.items():
            yield from _secrets_within((*key, option), inner)
        provider = ProviderSection(**fields)
        providers[name] = provider if provider.key else msgspec.structs.replace(provider, key=name)


def _fill_approvals(table: Mapping[str, Any], fields: dict[str, Any]) -> _Found:
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    fixed = {name: value for name, value in table.items() if name in consent.FIXED}
    for name, value in fixed.items():
        if wrong := consent.unfit(name, value if isinstance(value, str) else ""):
            yield ("approvals", name), wrong
    own = {name: value for name, value in table.items() if name not in {*inner, *fixed}}
    yield from _fill_section(("approvals",), ApprovalsSection, own, fields, hidden=("rules",))
    rules = {}
    for name, value in inner.items():
        rule: dict[str, Any] = {}
        yield from _fill_section(("approvals", name), ApprovalRule, value, rule)
        if "policy" in rule:
            rules[name] = ApprovalRule(**rule)
        elif "policy" not in value:
            yield ("approvals", name, "policy"), 'is needed: "auto", "session" or "always"'
    fields["rules"] = rules


def _fill_rules(value: Any, rules: list[permission.Rule]) -> _Found:
    """Convert `[[rules]]`; one that is wrong is a `deny` of everything, so that the others keep their numbers."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        yield ("rules",), "is a list: write [[rules]] before each"
        return
    for number, table in enumerate(value, 1):
        at = ("rules", str(number))
        fields: dict[str, Any] = {"action": permission.EVERY, "decision": permission.Decision.DENY}
        yield from _fill_section(at, permission.Rule, table, fields)
        for needed in ("action", "decision"):
            if needed not in table:
                yield (*at, needed), "is needed"
        rules.append(permission.Rule(**fields))


def _fill_cron(table: Mapping[str, Any], jobs: dict[str, CronSection]) -> _Found:
    for name, value in table.items():
        fields: dict[str, Any] = {}
        if isinstance(value, dict):
            yield from _fill_section(("cron", name), CronSection, value, fields)
            jobs[name] = CronSection(**fields)
        else:
            yield ("cron", name), f"is a section: write [cron.{bare(name)}]"


def _fill_mcp(table: Mapping[str, Any], servers: dict[str, McpServer]) -> _Found:
    for name, value in table.items():
        fields: dict[str, Any] = {}
        if isinstance(value, dict):
            yield from _fill_section(("mcp", name), McpServer, value, fields)
            yield from _secrets_within(("mcp", name, "env"), value.get("env"))
            servers[name] = McpServer(**fields)
        else:
            yield ("mcp", name), f"is a section: write [mcp.{bare(name)}]"


def _fill_models(at: Key, table: Mapping[str, Any], models: dict[str, ModelSection]) -> _Found:
    for name, value in table.items():
        fields: dict[str, Any] = {}
        if isinstance(value, dict):
            yield from _fill_section((*at, name), ModelSection, value, fields)
        else:
            yield (*at, name), "expected what is known of the model, such as { context = 32768, images = true }"
        models[name] = ModelSection(**fields)


def _split(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part a provider's section in what every kind has and what only its kind knows; a likely slip is no option."""
    known = ProviderSection.__struct_fields__[:-1]
    own = {key for key in table if key in known or nearest_name(key, known, cutoff=_SLIP)}
    return {key: table[key] for key in table if key in own}, {key: table[key] for key in table if key not in own}


def _fill_section(
    at: Key,
    section: type[msgspec.Struct],
    table: Mapping[str, Any],
    fields: dict[str, Any],
    *,
    hidden: tuple[str, ...] = (),
) -> _Found:
    known = {field.encode_name: field for field in msgspec.structs.fields(section) if field.name not in hidden}
    for name, value in table.items():
        key = (*at, name)
        if isinstance(value, str) and looks_secret(value):
            yield key, _secret(key)
        elif name in known and isinstance(value, dict) and _is_section(inner := known[name].type):
            nested: dict[str, Any] = {}
            yield from _fill_section(key, inner, value, nested)
            fields[known[name].name] = inner(**nested)
        elif name in known:
            try:
                fields[known[name].name] = msgspec.convert(value, known[name].type, strict=True)
            except msgspec.ValidationError as error:
                yield key, lower(str(error))
        else:
            yield key, _secret(key) if names_secret(name) else _unknown(key, known)


def _is_section(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


# -- what the types cannot say -----------------------------------------------------------------------------------------


def _meaning(config: Config) -> _Found:
    location = config.store.location
    if not location.strip() or ("://" in location and not is_server(location)):
        yield ("store", "location"), 'expected the name of a file, "memory:", or "postgresql://..."'
    if config.node.name and not is_server(location):
        yield ("node", "name"), 'several nodes need a database on a server: [store] location = "postgresql://..."'
    if config.node.name == "main":
        yield ("node", "name"), "is what a daemon that works alone is called; choose another"
    yield from _named(("agent", "personality"), config.agent.personality)
    if config.agents.default:
        yield from _named(("agents", "default"), config.agents.default)
    if config.agent.operator:
        yield from _named(("agent", "operator"), config.agent.operator, user=True)
    for role, model in config.models.by_role().items():
        if not all(part.strip() for part in model.split("/")):
            yield ("models", role), f'expected "PROVIDER/MODEL", such as "{ModelsSection().default}"'
        elif "/" in model:
            yield from _provided(("models", role), model, config)
    for model in config.models.fallbacks:
        if "/" not in model or not all(part.strip() for part in model.split("/")):
            yield ("models", "fallbacks"), f'expected "PROVIDER/MODEL" instead of "{model}"'
        else:
            yield from _provided(("models", "fallbacks"), model, config)
    if len(config.models.fallbacks) > MODEL_FALLBACKS_MAX:
        yield ("models", "fallbacks"), f"expected at most {MODEL_FALLBACKS_MAX}"
    for name, provider in config.providers.items():
        at = ("providers", name)
        yield from _named(at, name)
        if provider.key != name and next(_named(at, provider.key), None):
            # The value is not shown: it may be a secret.
            yield (*at, "key"), "expected the name of a stored secret, see `daycare keys list`"
        if provider.base_url and not _is_url(provider.base_url):
            yield (*at, "base_url"), 'expected a URL, such as "http://127.0.0.1:11434/v1"'
    yield from _embedded(config)
    yield from consent.flaws(config.approvals)
    for who, limits in msgspec.structs.asdict(config.budgets).items():
        for limit in limits:
            try:
                _ = budget.read_limits([limit])
            except InvalidError:
                yield ("budgets", who), f'expected such as "2usd a day" or "100k tokens a month" instead of "{limit}"'
    for name, job in config.cron.items():
        yield from _named(("cron", name), name)
        try:
            job.checked()
        except InvalidError as error:
            yield ("cron", name), lower(error.message)
    yield from permission.flaws(config.rules)
    try:
        _ = [time.fromisoformat(each) for each in filter(None, config.notify.quiet.split("-"))]
    except ValueError:
        yield ("notify", "quiet"), 'expected two times of day, such as "22:00-07:00"'
    for name in config.plugins.settings:
        yield from _named(("plugins", name), name)
    for attribute in config.plugins.load:
        module, colon, name = attribute.partition(":")
        if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            yield ("plugins", "load"), f'expected "module:attribute" instead of "{attribute}"'
    if config.metrics.listen:
        try:
            _ = loopback(config.metrics.listen)
        except InvalidError as error:
            yield ("metrics", "listen"), lower(error.message)
    yield from api_settings.flaws(config.api)
    yield from workspace.flaws(config.workspaces, config.shell)
    yield from mcp_settings.flaws(config.mcp)
    yield from voice_settings.flaws(config.voice)
    yield from chain(memory_flaws(config.memory), file_flaws(config.files))
    if config.tracing.endpoint and not _is_url(config.tracing.endpoint):
        yield ("tracing", "endpoint"), 'expected a URL, such as "http://127.0.0.1:4318"'


def _embedded(config: Config) -> _Found:
    embedder, key = config.memory.embedder, ("memory", "embedder")
    if embedder == FOLDER_EMBEDDER and not config.memory.model_dir:
        yield ("memory", "model_dir"), "is needed: the folder that holds model.safetensors and vocab.txt"
    elif embedder not in (NO_EMBEDDER, LOCAL_EMBEDDER, FOLDER_EMBEDDER):
        provider, slash, model = embedder.partition("/")
        if not slash or not provider.strip() or not model.strip():
            yield key, 'expected "none", "local", "dir" or "PROVIDER/MODEL", such as "openai/text-embedding-3-small"'
        else:
            yield from _provided(key, embedder, config)


def _provided(key: Key, model: str, config: Config) -> _Found:
    name = model.partition("/")[0]
    known = (*config.providers, *WELL_KNOWN)
    if name not in known:
        near = nearest_name(name, known)
        help_ = f"did you mean `{near[0]}`?" if near else f"add a section [providers.{bare(name)}]"
        yield key, f"no provider is called {name}; {help_}"


def _named(key: Key, name: str, *, user: bool = False) -> _Found:
    try:
        _ = check_user_id(name) if user else check_name(name, "a name")
    except InvalidError as error:
        yield key, lower(error.message)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:
        return False


def _secrets_within(key: Key, value: Any) -> _Found:
    """Look for secrets in what is free in form."""
    if isinstance(value, str) and (names_secret(key[-1]) or looks_secret(value)) and not _stored(key, value):
        yield key, _secret(key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets_within((*key, name), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets_within(key, inner)


def _stored(key: Key, value: str) -> bool:
    """Whether a plugin's setting names one of its own stored secrets, such as "bridge.signal" in `[plugins.bridge]`."""
    plugin, dot, more = value.partition(".")
    return key[0] == "plugins" and plugin == key[1] and not (dot and list(_named(key, more)))


def _secret(key: Key) -> str:
    if key == ("store", "location"):
        return "secrets do not belong in this file: leave the password out, and put it into PGPASSWORD or ~/.pgpass"
    if key == ("memory", "redis", "url"):
        return "secrets do not belong in this file: leave the password out, and run `daycare keys add redis`"
    named = key[0] in ("providers", "plugins", "files") and len(key) > 2
    name = key[1] if named else "NAME"
    return f"secrets do not belong in this file: delete it here and run `daycare keys add {name}`"


def _unknown(key: Key, known: Mapping[str, Any]) -> str:
    what = "unknown section" if len(key) == 1 else "unknown key"
    near = nearest_name(key[-1], known)
    return f"{what}; did you mean `{near[0]}`?" if near else f"{what}; known are {', '.join(known)}"
