"""Whether a plugin keeps the contract, as far as can be told without running it."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from daycare.agent.commands import BUILT_IN, WORD
from daycare.base.errors import InvalidError
from daycare.base.foreign import TEXT_MAX_CHARS
from daycare.base.path import check_name
from daycare.base.wellformed import well_formed
from daycare.plugin import CONTRACT_VERSION, ChatCommand, HookSet, Plugin, SetupQuestion, SetupStep, ToolSpec

RESERVED: Final = ("load", "disable", "settings")  # keys of [plugins] beside the sections
HOOKS: Final = {
    "message_before": "message:before",
    "message_after": "message:after",
    "turn_end": "turn:end",
    "session_end": "session:end",
}
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what model servers take
_SCHEMA_MAX_BYTES: Final = 16 * 1024  # it stands in every prompt
_HELP_MAX_CHARS: Final = 256  # what messengers take for a line of their menu


def flaws(plugin: object) -> list[str]:
    """Return what is wrong with a plugin, in words for its author; empty when it may be used.

    It looks at values and calls only `decode` of tools. Whatever foreign code raises passes through.
    """
    if not isinstance(plugin, Plugin):
        return [f"it is a {type(plugin).__name__}, expected a daycare.plugin.Plugin"]
    if plugin.contract != CONTRACT_VERSION:
        return [f"it speaks version {plugin.contract} of the contract, this daycare speaks {CONTRACT_VERSION}"]
    return list(_flaws(plugin))


def provides(plugin: Plugin) -> dict[str, list[str]]:
    """Return the names of what a plugin adds, by what it is."""
    hooks = [told for field, told in HOOKS.items() if getattr(plugin.hooks, field) is not None]
    found = {
        "tools": [tool.spec.name for tool in plugin.tools],
        "behaviours": [behaviour.name for behaviour in plugin.behaviours],
        "providers": list(plugin.providers),
        "embedders": list(plugin.embedders),
        "connectors": list(plugin.connectors),
        "commands": list(plugin.commands),
        "hooks": hooks,
    }
    return {what: names for what, names in found.items() if names}


def _flaws(plugin: Any) -> Iterator[str]:
    yield from _name(plugin.name, "its name")
    if plugin.name in RESERVED:
        yield f"its name {plugin.name} is a key of [plugins]"
    for field in ("version", "description"):
        if not _is_text(getattr(plugin, field)):
            yield f"its {field} is not text"
    if plugin.config is not None and not (
        isinstance(plugin.config, type) and issubclass(plugin.config, msgspec.Struct)
    ):
        yield "its config is no msgspec.Struct"
    if plugin.setup is not None and (not callable(plugin.setup) or inspect.iscoroutinefunction(plugin.setup)):
        yield "setup must be a plain function"
    for field in ("start", "health"):
        yield from _coroutine(getattr(plugin, field), field)
    if isinstance(plugin.hooks, HookSet):
        for field in HOOKS:
            yield from _coroutine(getattr(plugin.hooks, field), f"hook {field}")
    else:
        yield "its hooks are no HookSet"
    for what, factories in (
        ("connector", plugin.connectors),
        ("provider kind", plugin.providers),
        ("embedder kind", plugin.embedders),
    ):
        if not isinstance(factories, Mapping):
            yield f"its {what}s are no mapping of names to factories"
            continue
        for name, make in factories.items():
            yield from _name(name, f"{what} {name!r}")
            if not callable(make):
                yield f"{what} {name!r}: its factory cannot be called"
    yield from _wizard(plugin)
    if isinstance(plugin.commands, Mapping):
        for word, command in plugin.commands.items():
            yield from _command(word, command)
    else:
        yield "its commands are no mapping of words to ChatCommands"
    seen: set[str] = set()
    for tool in plugin.tools:
        yield from _tool(tool, seen)
    yield from _behaviours(plugin.behaviours)


def _wizard(plugin: Any) -> Iterator[str]:
    step: Any = plugin.wizard
    if step is None:
        return
    if not isinstance(step, SetupStep):
        yield "its wizard is no SetupStep"
        return
    if not all(_is_text(each) for each in (step.title, step.about, step.connector, step.after)):
        yield "wizard: title, about, connector and after must be texts"
    functions: tuple[Any, Any] = (step.connectors, step.missing)
    if not all(callable(each) for each in functions):
        yield "wizard: connectors and missing must be functions"
    yield from _coroutine(step.check, "wizard: check")
    known = plugin.config.__struct_fields__ if plugin.config is not None else ()
    questions: Any = step.questions
    for question in questions:
        if not isinstance(question, SetupQuestion):
            yield f"wizard: {question!r} is no SetupQuestion"
        elif question.kind == "secret":
            if question.name != plugin.name and not question.name.startswith(f"{plugin.name}."):
                yield f"wizard: the secret {question.name} does not begin with {plugin.name}"
        elif question.name not in known:
            yield f"wizard: its settings have no {question.name}"
    for name in step.settings:
        if name not in known:
            yield f"wizard: its settings have no {name}"


def _command(word: Any, command: Any) -> Iterator[str]:
    told = f"command {word!r}"
    if not isinstance(word, str) or not WORD.fullmatch(word):
        yield f"{told}: its word must be 1 to 32 of a-z and _, the first a letter, without the slash"
    elif word in BUILT_IN:
        yield f"{told}: /{word} is one of daycare's own"
    if not isinstance(command, ChatCommand):
        yield f"{told} is a {type(command).__name__}, expected a ChatCommand"
        return
    help_: object = command.help
    if not _is_text(help_) or not help_.strip() or "\n" in help_ or len(help_) > _HELP_MAX_CHARS:
        yield f"{told}: its help must be one line of 1 to {_HELP_MAX_CHARS} characters"
    run: object = command.run
    yield from _coroutine(run if run is not None else "nothing", f"{told}: run")


def _behaviours(behaviours: Any) -> Iterator[str]:
    if isinstance(behaviours, str | Mapping) or not isinstance(behaviours, Sequence):
        yield "its behaviours are no list"
        return
    seen: set[object] = set()
    for behaviour in behaviours:
        name = getattr(behaviour, "name", None)
        told = f"behaviour {name!r}"
        if isinstance(behaviour, type) or not callable(getattr(behaviour, "act", None)):
            kind = behaviour if isinstance(behaviour, type) else type(behaviour)
            yield f"a behaviour of type {kind.__name__} is no object with a method act"
            continue
        yield from _name(name, told)
        if name in seen:
            yield f"{told} is there twice"
        seen.add(name if isinstance(name, str) else None)
        about: object = getattr(behaviour, "description", None)
        if not _is_text(about) or not about.strip() or "\n" in about or len(about) > _HELP_MAX_CHARS:
            yield f"{told}: its description must be one line of 1 to {_HELP_MAX_CHARS} characters"
        yield from _coroutine(behaviour.act, f"{told}: act")


def _tool(tool: Any, seen: set[str]) -> Iterator[str]:
    spec = getattr(tool, "spec", None)
    if not isinstance(spec, ToolSpec):
        yield f"a tool of type {type(tool).__name__} has no ToolSpec as its spec"
        return
    told = f"tool {spec.name!r}"
    if not isinstance(spec.name, str) or not _TOOL_NAME.fullmatch(spec.name):
        yield f"{told}: its name must be 1 to 64 of a-z, A-Z, 0-9, _ and -"
    if spec.name in seen:
        yield f"{told} is there twice"
    seen.add(spec.name)
    if not _is_text(spec.description) or not spec.description.strip():
        yield f"{told}: no description, so no model knows when to use it"
    if not isinstance(spec.schema, dict) or spec.schema.get("type") != "object":
        yield f"{told}: its schema is not that of a JSON object"
    else:
        try:
            size = len(msgspec.json.encode(spec.schema))
        except (TypeError, ValueError) as error:
            yield f"{told}: its schema is no JSON: {error}"
        else:
            if size > _SCHEMA_MAX_BYTES:
                yield f"{told}: its schema has {size} bytes, at most {_SCHEMA_MAX_BYTES} fit into each prompt"
    if not isinstance(getattr(tool, "idempotent", None), bool):
        yield f"{told}: idempotent must say True or False: may it run again after a crash in the middle of it?"
    for method in ("run", "decode"):
        if not callable(getattr(tool, method, None)):
            yield f"{told}: it has no method {method}"
            return
    try:
        tool.decode({"no tool has this argument": 1})
    except msgspec.ValidationError:
        pass
    else:
        yield f"{told}: decode accepts arguments that nobody knows; forbid unknown fields"


def _name(name: object, what: str) -> Iterator[str]:
    try:
        check_name(name if isinstance(name, str) else repr(name), what)
    except InvalidError as error:
        yield error.message


def _is_text(value: object) -> TypeGuard[str]:
    """Whether something is a text that can be written: half of a surrogate pair cannot."""
    return isinstance(value, str) and len(value) <= TEXT_MAX_CHARS and well_formed(value) == value


def _coroutine(function: object, what: str) -> Iterator[str]:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    if function is not None and not inspect.iscoroutinefunction(called):
        yield f"{what} must be an async function"
