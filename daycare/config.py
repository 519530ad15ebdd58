"""The settings: `config.toml` in the home, read once at the start and checked whole.

The file is for people, so each problem names its line and what was meant, and all are told at once. Secrets do not
belong into it: it is copied, shown and put under version control; `daycare keys add` encrypts them.
"""

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from daycare.base import consent
from daycare.base.consent import ApprovalsSection, Rule
from daycare.base.errors import BrokenError, InvalidError
from daycare.base.limits import (
    AWAKE_IDLE_S,
    CONFIG_MAX_BYTES,
    DONE_KEEP_S,
    MODEL_FALLBACKS_MAX,
    SHUTDOWN_GRACE_S,
    TURNS_MAX_RUNNING,
)
from daycare.base.lines import Key
from daycare.base.path import check_name, check_user_id
from daycare.base.problems import Problem as Problem
from daycare.base.problems import bare, located, lower, placed, syntax
from daycare.base.recollection import FOLDER_EMBEDDER, LOCAL_EMBEDDER, NO_EMBEDDER, MemorySection
from daycare.observe.redact import looks_secret, names_secret

NAME: Final = "config.toml"
OFFLINE: Final = "offline"
# Providers that need no section, with their kinds: a key is enough, Ollama on its own port asks for none.
WELL_KNOWN: Final = {"openai": "openai", "anthropic": "anthropic", "openrouter": "openai", "ollama": "openai"}

_SLIP: Final = 0.75  # how alike an unknown key of a provider and a known one are, of 1, to be taken for a slip

S = TypeVar("S", bound=msgspec.Struct)


# -- what can be set; config.example.toml says why ---------------------------------------------------------------------


class DaemonSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[daemon]`: the process."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_max_mb: Annotated[int, Meta(ge=1, le=10_000)] = 20
    shutdown_grace_s: Annotated[float, Meta(ge=0, le=600)] = SHUTDOWN_GRACE_S
    turns_max_running: Annotated[int, Meta(ge=1, le=1_024)] = TURNS_MAX_RUNNING
    idle_s: Annotated[float, Meta(ge=0, le=86_400)] = AWAKE_IDLE_S


class StoreSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: where messages lie, and for how long once they are done."""

    location: str = "daycare.db"
    keep_days: Annotated[int, Meta(ge=1, le=3_650)] = round(DONE_KEEP_S / 86_400)


class AgentSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[agent]`: what agents have in common. `operator` is a user id, empty for the only operator there is."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] = "daycare"
    tone: Annotated[str, Meta(max_length=500)] = "friendly"
    personality: str = "default"
    operator: str = ""
    policy: Literal["steer", "followup", "collect", "interrupt"] = "steer"


class ModelsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[models]`: PROVIDER/MODEL for each role; None takes the default one. `fallbacks` are asked in their place."""

    default: str = "offline/rules"
    user: str | None = None
    subagent: str | None = None
    memory: str | None = None
    memory_search: str | None = msgspec.field(default=None, name="memorySearch")
    task: str | None = None
    fallbacks: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Return what is set, by the role's name as in the file."""
        found: dict[str, str | None] = msgspec.to_builtins(self)
        return {role: model for role, model in found.items() if isinstance(model, str)}


class ModelSection(msgspec.Struct, frozen=True, kw_only=True):
    """`models.MODEL` of a provider: what is known better of a model. Prices are for a million tokens."""

    context_tokens: Annotated[int, Meta(ge=1_000, le=100_000_000)] | None = msgspec.field(default=None, name="context")
    output_tokens: Annotated[int, Meta(ge=16, le=100_000_000)] | None = msgspec.field(default=None, name="output")
    images: bool | None = None
    input_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    cached_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    cache_write_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    output_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None

    def known(self) -> dict[str, Any]:
        """Return what is set, by the field's name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class ToolsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: the only tools that agents of a role may use, None for all; `default` is for agents without a role."""

    default: tuple[str, ...] | None = None
    user: tuple[str, ...] | None = None
    subagent: tuple[str, ...] | None = None
    memory: tuple[str, ...] | None = None
    memory_search: tuple[str, ...] | None = msgspec.field(default=None, name="memorySearch")
    task: tuple[str, ...] | None = None

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Return what is set, by the role's name as in the file."""
        found: dict[str, list[str] | None] = msgspec.to_builtins(self)
        return {role: tuple(names) for role, names in found.items() if names is not None}


class ProviderSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: where models are. `options` are the section's other keys, which its kind understands.

    `key` names a stored secret; in a loaded `Config` it is never empty but NAME.
    """

    kind: Annotated[str, Meta(min_length=1)] = "openai"
    base_url: str = ""
    key: str = ""
    models: dict[str, ModelSection] = {}
    options: dict[str, Any] = {}


class PluginsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[plugins]`: `load` adds plugins that are not installed as such, `disable` leaves installed ones out.

    `settings` are the `[plugins.NAME]` sections, which their plugins understand: see `plugin_settings`.
    """

    load: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = {}


class NotifySection(msgspec.Struct, frozen=True, kw_only=True):
    """`[notify]`: when the daemon itself may speak up. `quiet` is such as `22:00-07:00`, in each person's zone."""

    quiet: Annotated[str, Meta(pattern=r"^(\d\d:\d\d-\d\d:\d\d)?$")] = ""


class ApiSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[api]`: reserved. The API is on the Unix socket alone."""

    tcp: str = ""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; `Config()` are the defaults. `providers` always has one called `offline`."""

    daemon: DaemonSection = DaemonSection()
    store: StoreSection = StoreSection()
    agent: AgentSection = AgentSection()
    models: ModelsSection = ModelsSection()
    tools: ToolsSection = ToolsSection()
    providers: dict[str, ProviderSection] = msgspec.field(default_factory=lambda: _with_offline({}))
    plugins: PluginsSection = PluginsSection()
    memory: MemorySection = MemorySection()
    approvals: ApprovalsSection = ApprovalsSection()
    notify: NotifySection = NotifySection()
    api: ApiSection = ApiSection()


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


def plugin_settings(home: Path, config: Config, name: str, kind: type[S]) -> S:
    """Return `[plugins.NAME]` as the plugin's own type; without the section all is default.

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
        "\n".join(map(str, located(home / NAME, found))),
        hint=f"correct [plugins.{bare(name)}] in config.toml",
    )


_Found = Iterator[tuple[Key, str]]


def _read(file: Path) -> tuple[Config, list[Problem]]:
    try:
        with file.open("rb") as opened:
            raw = opened.read(CONFIG_MAX_BYTES + 1)
    except FileNotFoundError:
        return Config(), []
    except OSError as error:
        return Config(), [Problem(str(file), 1, "", f"cannot be read: {error.strerror or error}")]
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
        elif not isinstance(value, dict):
            yield (name,), f"is a section: write [{name}{'.NAME' if name == 'providers' else ''}]"
        elif name == "providers":
            providers: dict[str, ProviderSection] = {}
            yield from _fill_providers(value, providers)
            sections[name] = _with_offline(providers)
        elif name == "plugins":
            settings = {key: inner for key, inner in value.items() if isinstance(inner, dict)}
            own = {key: inner for key, inner in value.items() if key not in settings}
            found: dict[str, Any] = {"settings": settings}
            yield from _fill_section((name,), PluginsSection, own, found, hidden=("settings",))
            for key, inner in settings.items():
                yield from _secrets_within((name, key), inner)
            sections[name] = PluginsSection(**found)
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
        yield from _fill_section(("approvals", name), Rule, value, rule)
        if "policy" in rule:
            rules[name] = Rule(**rule)
        elif "policy" not in value:
            yield ("approvals", name, "policy"), 'is needed: "auto", "session" or "always"'
    fields["rules"] = rules


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
    own = {key for key in table if key in known or get_close_matches(key, known, n=1, cutoff=_SLIP)}
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
    if "://" in config.store.location or not config.store.location.strip():
        yield ("store", "location"), 'expected the name of a file, or "memory:"'
    yield from _named(("agent", "personality"), config.agent.personality)
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
    for name in config.plugins.settings:
        yield from _named(("plugins", name), name)
    for attribute in config.plugins.load:
        module, colon, name = attribute.partition(":")
        if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            yield ("plugins", "load"), f'expected "module:attribute" instead of "{attribute}"'
    if config.api.tcp:
        yield ("api", "tcp"), 'is reserved for a later version; the API is on the Unix socket. Leave it ""'


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
        near = get_close_matches(name, known, n=1, cutoff=0.6)
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
    if isinstance(value, str) and (names_secret(key[-1]) or looks_secret(value)):
        yield key, _secret(key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets_within((*key, name), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets_within(key, inner)


def _secret(key: Key) -> str:
    name = key[1] if key[0] in ("providers", "plugins") and len(key) > 2 else "NAME"
    return f"a secret does not belong into this file: delete it here and run `daycare keys add {name}`"


def _unknown(key: Key, known: Mapping[str, Any]) -> str:
    what = "unknown section" if len(key) == 1 else "unknown key"
    near = get_close_matches(key[-1], known, n=1, cutoff=0.6)
    return f"{what}; did you mean `{near[0]}`?" if near else f"{what}; known are {', '.join(known)}"


def _with_offline(providers: dict[str, ProviderSection]) -> dict[str, ProviderSection]:
    return {OFFLINE: ProviderSection(kind=OFFLINE, key=OFFLINE)} | providers
