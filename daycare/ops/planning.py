"""What `daycare init` would write: from what there is and what is wanted to one plan, before anything is touched."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.agent.personality import Personalities
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.memory_settings import LOCAL_EMBEDDER, NO_EMBEDDER
from daycare.base.path import check_user_id
from daycare.base.problems import located, lower
from daycare.base.setup import SetupStep
from daycare.base.toml_positions import Key
from daycare.config import OFFLINE, WELL_KNOWN, Config, ModelsSection, load, parsed, plugin_settings
from daycare.features.configuration.toml_edit import edited
from daycare.inference.section import checked_url
from daycare.observe.redact import hide
from daycare.ops.requests import SetupRequest
from daycare.ops.setup import (
    AGENT_NAME,
    PERSONALITY,
    TONE,
    check_settings,
    check_zone,
    first_config,
    local_zone,
    slug,
    usual_embedder,
)
from daycare.plugin import Plugin
from daycare.store.home import Home
from daycare.store.looking import operators_in, tokens_in
from daycare.store.records import User
from daycare.store.vault import check_key_name

RULES: Final = ModelsSection().default  # the model that is none
SECRET_MAX_CHARS: Final = 16 * 1024  # a private key in PEM has 3 KiB
USUAL_VARIABLES: Final = {  # where other programs look for keys, too
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """What a home is now. `text` is None without a config.toml; `owner` None before it was set up."""

    home: Path
    text: str | None
    config: Config
    owner: User | None
    stored: frozenset[str]


class SetupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be. `config` is what `text` says. `secrets` are new ones by name; `came` tells where they are from.

    `person` are the fields of the owner that change, `connect` the plugins that are set up, each with its step;
    `model` is PROVIDER/MODEL where the model, its server or its key changes.
    """

    present: Present
    text: str
    config: Config
    owner: User
    agent: dict[str, str]
    person: dict[str, str]
    secrets: dict[str, str]
    came: dict[str, str]
    connect: tuple[tuple[Plugin, SetupStep], ...]
    model: str | None

    @property
    def new(self) -> bool:
        """Whether the home is set up for the first time."""
        return self.present.owner is None

    @property
    def empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.new or self.person or self.secrets or self.text != self.present.text)


def look(home: Path) -> Present:
    """Return what a home is now, without touching it. Raises `BrokenError` for a configuration that is not valid."""
    place = Home(home)
    config = load(place.path)
    try:
        text = place.config.read_bytes().decode("utf-8")
    except FileNotFoundError:
        text = None
    location = place.database(config.store.location)
    owners = operators_in(location)
    named = [user for user in owners if user.id == config.agent.operator]
    return Present(
        home=place.path,
        text=text,
        config=config,
        owner=next(iter([*named, *owners]), None),
        stored=frozenset(tokens_in(location)),
    )


def plan(
    present: Present,
    request: SetupRequest,
    plugins: Sequence[Plugin],
    *,
    secrets: Mapping[str, str] | None = None,
    model_key: str | None = None,
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> SetupPlan:
    """Return what is to be written for this request.

    `secrets` and `model_key` were typed, and come before those of the environment; `file` is where the request stands,
    for messages. Raises `InvalidError` for what cannot be, with its place, `NotFoundError` for an unknown personality
    or plugin, `ConflictError` for another user id and for a plugin that cannot be set up here.
    """
    at = Places(file)
    agent = _agent(present, request, at)
    owner, person = _owner(present, request, at)
    with at("connect"):
        steps = tuple(_steps(request, plugins))
    came: dict[str, str] = {}
    found = dict(_from_environment(request, steps, environment, came, at))
    for name, value in (secrets or {}).items():
        found[name], came[name] = value, ""
    with at("model"):
        changes, model, key = _model(present, request, has_key=model_key is not None)
    if request.model_url:
        with at("model_url"):
            checked_url((model or "").partition("/")[0], request.model_url)
    if model is not None:
        variable = request.model_key_env or _usual(model, key, present, request, environment)
        if model_key is not None:
            found[key], came[key] = model_key, ""
        elif variable is not None:
            with at("model_key_env"):
                found[key], came[key] = _read(variable, environment), f"${variable}"
    with at("embedder"):
        _embedder(request)
    for name, value in found.items():
        found[name] = _checked(name, value)
    text = _begun(present, request, agent, model, changes)
    for plugin, step in steps:
        changes |= dict(_flat(("plugins", plugin.name), dict(step.settings) | request.plugins.get(plugin.name, {})))
    text = edited(text, changes)
    config, problems = parsed(text.encode(), Home(present.home).config)
    if problems:
        raise InvalidError("SETUP_INVALID", "\n".join(map(str, problems)), hint="daycare init --help")
    made = SetupPlan(
        present=present,
        text=text,
        config=config,
        owner=owner,
        agent=agent,
        person=person,
        secrets=found,
        came=came,
        connect=steps,
        model=model,
    )
    for plugin, step in steps:
        with at("plugins", plugin.name):
            _complete(made, plugin, step, file)
    return made


def _begun(
    present: Present, request: SetupRequest, agent: Mapping[str, str], model: str | None, changes: dict[Key, Any]
) -> str:
    """Return the text that is there, whose `changes` get what is told of the agent; or that of a new home."""
    if present.text is None:
        return first_config(agent, request.embedder or usual_embedder(), model=model not in (None, RULES))
    was = present.config.agent
    changes |= {("agent", name): told for name, told in agent.items() if told != getattr(was, name)}
    if request.embedder not in (None, present.config.memory.embedder):
        changes["memory", "embedder"] = request.embedder
    return present.text


class Places:
    """Tells of a mistake where it was made: `with places("model"): ...`, with file and line where there is a file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    @contextmanager
    def __call__(self, *key: str) -> Iterator[None]:
        """Let what the block raises begin with the key."""
        try:
            yield
        except DaycareError as error:
            if error.code == "PLUGIN_SETTINGS":
                raise  # its lines are told already
            place: object = f"{'.'.join(key)}: {lower(error.message)}"
            if self._file is not None:
                [place] = located(self._file, [(key, lower(error.message))])
            raise type(error)(error.code, str(place), hint=error.hint) from error


def step_of(plugins: Sequence[Plugin], name: str) -> tuple[Plugin, SetupStep]:
    """Return a plugin that can be set up. Raises `NotFoundError` SETUP_UNKNOWN."""
    known = {plugin.name: (plugin, plugin.wizard) for plugin in plugins if plugin.wizard is not None}
    if name not in known:
        raise NotFoundError(
            "SETUP_UNKNOWN",
            f"connecting {name}: no plugin of that name can be set up here",
            hint=f"one of: {', '.join(sorted(known))}",
        )
    return known[name]


def missing_of(plugin: Plugin, step: SetupStep) -> str:
    """Return why a plugin cannot be set up here, empty if it can; one that does not know cannot."""
    try:
        with error_boundary("PLUGIN_FAILED", f"asking the plugin {plugin.name}"):
            return step.missing()
    except DaycareError as error:
        return error.message


# -- the parts of a plan -----------------------------------------------------------------------------------------------


def _agent(present: Present, request: SetupRequest, at: Places) -> dict[str, str]:
    was = present.config.agent if present.text is not None else None
    agent = {
        "name": request.agent_name or (was.name if was else AGENT_NAME),
        "tone": request.tone or (was.tone if was else TONE),
        "personality": request.personality or (was.personality if was else PERSONALITY),
    }
    with at("personality" if request.personality else "agent_name"):
        check_settings(agent, Personalities(Home(present.home).personalities))
    return agent


def _owner(present: Present, request: SetupRequest, at: Places) -> tuple[User, dict[str, str]]:
    known = present.owner
    with at("zone"):
        zone = check_zone(request.zone or (known.zone if known is not None else local_zone()))
    with at("user"):
        if known is None:
            name = request.user_name or request.user or "me"
            id_ = check_user_id(request.user) if request.user else slug(name)
            return User(id=id_, name=name, zone=zone, operator=True), {}
        if request.user not in (None, known.id):
            raise ConflictError("USER_SET", f"the owner is {known.id}, and ids stay", hint="daycare users list")
    wanted = {"name": request.user_name or known.name, "zone": zone}
    return known, {field: told for field, told in wanted.items() if told != getattr(known, field)}


def _model(present: Present, request: SetupRequest, *, has_key: bool) -> tuple[dict[Key, Any], str | None, str]:
    """Return changes of config.toml, the model if anything about it is wanted, and the name of its key."""
    now = present.config.models.default
    model = request.model
    if model is None:
        if not (request.model_url or request.model_key_env or has_key):
            return {}, None, ""
        model = now
    if model == OFFLINE:
        model = RULES
    provider, slash, name = model.partition("/")
    if not slash or not provider.strip() or not name.strip():
        raise InvalidError(
            "SETUP_INVALID",
            f'expected "PROVIDER/MODEL" or "{OFFLINE}" instead of "{model}"',
            hint="doc/use/setup.md",
        )
    if provider == OFFLINE and (request.model_url or request.model_key_env or has_key):
        raise InvalidError("SETUP_INVALID", f"{model} has neither a key nor an address", hint="name a model, too")
    changes: dict[Key, Any] = {}
    section = present.config.providers.get(provider)
    if request.model_url:
        at = ("providers", provider)
        changes[(*at, "base_url")] = request.model_url
        kind = WELL_KNOWN.get(provider, "openai")
        if section is None and kind != "openai":
            changes[(*at, "kind")] = kind
    elif section is None and provider not in WELL_KNOWN and provider != OFFLINE:
        raise InvalidError(
            "SETUP_INVALID",
            f"no provider is called {provider}",
            hint=f"give its address as model_url (--model-url), or use one of: {', '.join(WELL_KNOWN)}",
        )
    if model != now:
        changes[("models", "default")] = model
    return changes, model, (section.key if section is not None else "") or provider


def _embedder(request: SetupRequest) -> None:
    """Refuse the local embedder where it is not installed, and what names none."""
    wanted = request.embedder
    if wanted == LOCAL_EMBEDDER and usual_embedder() != LOCAL_EMBEDDER:
        raise ConflictError("SETUP_MISSING", f"{wanted} is not installed", hint="pip install 'daycare[local]'")
    if wanted not in (None, NO_EMBEDDER, LOCAL_EMBEDDER) and "/" not in wanted:
        known = f'"{LOCAL_EMBEDDER}", "{NO_EMBEDDER}" or "PROVIDER/MODEL"'
        raise InvalidError("SETUP_INVALID", f'expected {known} instead of "{wanted}"', hint="doc/use/setup.md")


def _usual(model: str, key: str, present: Present, request: SetupRequest, environment: Mapping[str, str]) -> str | None:
    """Return where a key is that nobody has named: only for a provider that daycare knows, and has no key of yet."""
    provider = model.partition("/")[0]
    variable = USUAL_VARIABLES.get(provider)
    known = present.config.providers.get(provider)
    own = not (request.model_url or (known is not None and known.base_url))  # a key goes to no other server unasked
    return variable if own and variable and environment.get(variable) and key not in present.stored else None


def _steps(request: SetupRequest, plugins: Sequence[Plugin]) -> Iterator[tuple[Plugin, SetupStep]]:
    for name in dict.fromkeys((*request.connect, *request.plugins)):
        plugin, step = step_of(plugins, name)
        if missing := missing_of(plugin, step):
            raise ConflictError("SETUP_MISSING", f"{name} cannot be connected: {missing}")
        yield plugin, step


def _from_environment(
    request: SetupRequest,
    steps: Sequence[tuple[Plugin, SetupStep]],
    environment: Mapping[str, str],
    came: dict[str, str],
    at: Places,
) -> Iterator[tuple[str, str]]:
    for name, variable in request.secrets_env.items():
        asked = [ask.name for _, step in steps for ask in step.questions if ask.kind == "secret"]
        own = any(name.startswith(f"{plugin.name}.") for plugin, _ in steps)
        with at("secrets_env", name):
            if name not in asked and not own:
                raise InvalidError(
                    "SETUP_INVALID",
                    "no secret of that name belongs to what is connected",
                    hint=f"one of: {', '.join(asked)}" if asked else "name the plugin in connect (--connect)",
                )
            came[name] = f"${variable}"
            value = _read(variable, environment)
        yield name, value


def _read(variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable, "")
    if not value.strip():
        raise InvalidError(
            "SETUP_INVALID",
            f"the environment has no {variable}, or it is empty",
            hint=f"export {variable}=...",
        )
    return value


def _checked(name: str, value: str) -> str:
    _ = check_key_name(name)
    value = value.strip()
    if not value or len(value) > SECRET_MAX_CHARS:
        wrong = "empty" if not value else f"longer than {SECRET_MAX_CHARS} characters"
        raise InvalidError("KEY_VALUE", f"storing {name}: its value is {wrong}")
    hide(value)
    return value


def _flat(key: Key, value: Any) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat((*key, name), inner)
    else:
        yield key, None if value == "" else value


def _complete(made: SetupPlan, plugin: Plugin, step: SetupStep, file: Path | None) -> None:
    """Refuse a plugin whose settings are wrong or that lacks what it needs."""
    if plugin.config is not None:
        _ = plugin_settings(made.present.home, made.config, plugin.name, plugin.config, file)
    section = made.config.plugins.settings.get(plugin.name, {})
    for ask in step.questions:
        if ask.optional or ask.kind == "flag":
            continue
        if ask.kind == "secret" and ask.name not in made.secrets and ask.name not in made.present.stored:
            raise InvalidError(
                "SETUP_INVALID",
                f"{lower(ask.prompt)} is missing",
                hint=f"--secret-env {ask.name}=VARIABLE, or [secrets_env] in the file",
            )
        if ask.kind == "text" and not section.get(ask.name):
            raise InvalidError(
                "SETUP_INVALID",
                f"{lower(ask.prompt)} is missing",
                hint=f"--set {plugin.name}.{ask.name}=VALUE, or [plugins.{plugin.name}] in the file",
            )
