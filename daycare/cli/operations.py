"""Commands made from operations: arguments, options, help and the call follow from the fields of one struct.

A field without a default is an argument, another one an option; a struct inside is spread out. What a shell gives in
its own way, such as a job by its name and `--user`, is `Given`: a function whose parameters are the command's, and
whose result are the fields that they stand for.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import EnumType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
import typer
from msgspec.structs import FieldInfo

from daycare.api.client import Client, Json
from daycare.api.operations import Operation
from daycare.base.errors import InvalidError
from daycare.cli.agents import read_settings
from daycare.cli.command import Cli, command

_AT: Final = re.compile(r" - at `\$\.(?P<field>[\w.]+?)(?:\[\.\.\.\])*`$")
_MOST: Final = 2**63 - 1  # of a row's number, which says nothing
_SCALARS: Final = (bool, int, float, str)


class Given(NamedTuple):
    """Fields that a command line gives in its own way."""

    fields: tuple[str, ...]
    read: Callable[..., Mapping[str, Any]]


def operation(
    app: typer.Typer,
    name: str,
    kind: type[Operation],
    show: Callable[[Json], Any],
    *,
    examples: str,
    given: Sequence[Given] = (),
    hidden: Sequence[str] = (),
    do: Callable[[Client, Any], Json] | None = None,
    **defaults: Any,
) -> None:
    """Register the command `name` that asks for an operation (or does more: `do`) and shows its answer.

    Fields that are `hidden` are no options of it; `defaults` are other ones than the operation's own.
    """

    usage = f"{examples.partition(f' {name}')[0]} {name} --help"

    def run(cli: Cli, /, **arguments: Any) -> None:
        wish = made(kind, arguments, given, usage)
        with cli.connect() as client:
            cli.out((do or ask)(client, wish), show)

    run.__doc__ = kind.__doc__
    run.__name__ = kind.__name__
    own = [parameter for each in _parameters(kind, given, hidden, defaults) for parameter in each]
    first = inspect.Parameter("cli", inspect.Parameter.POSITIONAL_ONLY, annotation=Cli)
    unique = {each.name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own}
    run.__signature__ = inspect.Signature([first, *unique.values()])  # type: ignore[attr-defined]
    command(app, name, examples=examples)(run)


def ask(client: Client, wish: Operation) -> Json:
    """Ask a daemon for an operation and return its answer."""
    call = wish.call()
    return client.call(call.method, call.route, call.body, **call.query)


def made(kind: type[Operation], arguments: Mapping[str, Any], given: Sequence[Given], usage: str = "") -> Operation:
    """Return what a command line asks for. Raises `InvalidError` USAGE that names the argument or option.

    `usage` is the command that says how it is given.
    """
    found: Json = {}
    taken: set[str] = set()
    for each in given:
        names = list(inspect.signature(each.read).parameters)
        found |= each.read(**{name: arguments[name] for name in names})
        taken |= {*each.fields, *names}
    found |= {name: value for name, value in arguments.items() if name not in taken}
    found = {name: value for name, value in found.items() if value is not None}
    for it in _spread(kind):
        if _is_named(_scalar(it.type)[0]) and isinstance(found.get(it.name), list):
            found[it.name] = read_settings(found[it.name])
    nested = {it.name: [inner.name for inner in _inner(it)] for it in msgspec.structs.fields(kind) if _inner(it)}
    for name, names in nested.items():
        found[name] = {each: found.pop(each) for each in names if each in found}
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InvalidError("USAGE", _told(str(error), kind), hint=usage) from None


def _parameters(
    kind: type[Any], given: Sequence[Given], hidden: Sequence[str], defaults: Mapping[str, Any]
) -> Iterator[list[inspect.Parameter]]:
    """Yield the parameters of each field in order; those that are given otherwise stand where their first one is."""
    begun: list[Given] = []
    for it in msgspec.structs.fields(kind):
        other = next((each for each in given if it.name in each.fields), None)
        if other is not None:
            if other not in begun:
                begun.append(other)
                yield list(inspect.signature(other.read, eval_str=True).parameters.values())
        elif _inner(it):
            yield from _parameters(_scalar(it.type)[0], given, hidden, defaults)
        elif it.name not in hidden:
            yield [_parameter(it, defaults)]


def _parameter(it: FieldInfo, defaults: Mapping[str, Any]) -> inspect.Parameter:
    type_, meta = _scalar(it.type)
    annotation: Any
    face = (meta.extra if meta is not None else None) or {}
    help_ = f"{meta.description}." if meta is not None and meta.description else None
    plain: Any = type_ if type_ in _SCALARS else list[str] if _is_named(type_) else str
    bounds: Json = {"min": meta.ge, "max": meta.le} if meta is not None and plain in (int, float) else {}
    if bounds.get("max") == _MOST:
        bounds = {"min": bounds["min"]}
    if it.required:
        annotation = Annotated[plain, typer.Argument(metavar=face.get("metavar", it.name.upper()), help=help_)]
        return inspect.Parameter(it.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
    option = face.get("option", f"--{it.name.replace('_', '-')}")
    default = defaults.get(it.name, it.default)
    if plain is bool:
        annotation = Annotated[bool, typer.Option(option, help=help_)]
    else:
        default = None if default in ("", msgspec.NODEFAULT) else default
        shown = Annotated[plain | None, typer.Option(option, metavar=face.get("metavar"), help=help_, **bounds)]
        annotation = shown if default is None else Annotated[plain, get_args(shown)[1]]
    return inspect.Parameter(it.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _scalar(type_: Any) -> tuple[Any, msgspec.Meta | None]:
    """Return a field's type without `None` and what is around it, and what is known of it."""
    metas: list[msgspec.Meta] = []
    while True:
        origin = get_origin(type_)
        if origin is Annotated:
            type_, *more = get_args(type_)
            metas = [*metas, *(each for each in more if isinstance(each, msgspec.Meta))]
        elif (
            origin in (Union, types.UnionType)
            and len(rest := [each for each in get_args(type_) if each is not type(None)]) == 1
        ):
            [type_] = rest
        else:
            break
    if not metas:
        return type_, None
    said = next((each for each in metas if each.description), metas[0])
    bounds = {name: value for each in metas for name in ("ge", "le") if (value := getattr(each, name)) is not None}
    return type_, msgspec.Meta(description=said.description, extra=said.extra, **bounds)


def _spread(kind: type[Any]) -> list[FieldInfo]:
    """Return the fields of a struct and of those inside."""
    return [each for it in msgspec.structs.fields(kind) for each in (it, *_inner(it))]


def _is_named(type_: Any) -> bool:
    """Return whether a field holds values by name, which are given as NAME=VALUE."""
    return get_origin(type_) is dict


def _inner(it: FieldInfo) -> Sequence[FieldInfo]:
    """Return the fields of a struct inside."""
    type_, _ = _scalar(it.type)
    return msgspec.structs.fields(type_) if isinstance(type_, type) and issubclass(type_, msgspec.Struct) else ()


def _told(error: str, kind: type[Any]) -> str:
    """Return what is wrong, by the name that the command line has for it, and what can stand there."""
    found = _AT.search(error)
    if found is None:
        return error
    name = found["field"].rpartition(".")[2]
    it = next((each for each in _spread(kind) if each.name == name), None)
    if it is None:
        return error
    type_, meta = _scalar(it.type)
    face = (meta.extra if meta is not None else None) or {}
    named = face.get("metavar", name) if it.required else face.get("option", f"--{name.replace('_', '-')}")
    choices = get_args(type_) if get_origin(type_) is Literal else tuple(type_) if isinstance(type_, EnumType) else ()
    if choices:
        return f"{named}: expected one of {', '.join(map(str, choices))}"
    return f"{named}: {error[: found.start()]}"
