"""Questions of a server to a person, made into what may be shown: a flat form within bounds, or the address of a page.

In the host's process only. What asks for a secret in a form, is nested, or cannot be shown as it is, is refused.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import mcp_types as types
from msgspec.structs import replace

from daycare.base.errors import InvalidError
from daycare.features.approvals.questions import FIELDS_MAX, FieldKind, QuestionField, fitting
from daycare.features.mcp.frames import QUESTION_MAX_CHARS, SCHEMA_MAX_BYTES, URL_MAX_CHARS, McpQuestion
from daycare.features.mcp.host.shapes import seen

_OPTIONS_MAX: Final = 50
_VALUE_MAX_CHARS: Final = 200
_TITLE_MAX_CHARS: Final = 100
_ABOUT_MAX_CHARS: Final = 300
_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_FORMS: Final = ("email", "uri", "date", "date-time")
_SECRET: Final = re.compile(
    r"pass ?(?:word|wd|phrase|code)|\bpin\b|secret|api ?key|(?:private|access|secret|ssh|license) ?key|\btokens?\b"
    r"|credential|\bcvv\b|\bcvc\b|card ?(?:number|no)|\biban\b|\botp\b|one ?time ?code|seed ?phrase|\bauthorization\b",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(r"[_.-]+|(?<=[a-z])(?=[A-Z])")


class QuestionRefusedError(Exception):
    """A question that no person is asked, and why."""


def question(params: types.ElicitRequestParams, number: int, call: int) -> McpQuestion:
    """Return a question as it may be shown. Raises `QuestionRefusedError`."""
    message = seen(params.message, QUESTION_MAX_CHARS)
    if isinstance(params, types.ElicitRequestURLParams):
        return McpQuestion(id=number, call=call, message=message, url=_page(params.url))
    fields = _fields(params.requested_schema)
    for each in fields:
        names = " ".join((each.name, each.title))
        about = f"{names} {each.description} {message}" if each.kind == "text" else names
        if not each.options and _SECRET.search(_JOINT.sub(" ", about)):
            raise QuestionRefusedError(f"{each.name} seems to be a secret: a form must not ask for one, use mode url")
    return McpQuestion(id=number, call=call, message=message, fields=fields)


def _page(url: str) -> str:
    try:
        place = urlsplit(url)
        here = place.hostname in ("localhost", "127.0.0.1", "::1")
        fine = place.scheme == "https" or (place.scheme == "http" and here)
        fine = fine and bool(place.hostname) and place.username is None and place.port != 0
    except ValueError:
        fine = False
    if not fine or len(url) > URL_MAX_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise QuestionRefusedError("expected an https:// URL of plain signs, without a name or a password in it")
    return url


def _fields(schema: Mapping[str, Any]) -> tuple[QuestionField, ...]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict) or not isinstance(required, list):
        raise QuestionRefusedError("the form is no object")
    if len(properties) > FIELDS_MAX or len(json.dumps(schema)) > SCHEMA_MAX_BYTES:
        raise QuestionRefusedError(f"the form has over {FIELDS_MAX} fields, or {SCHEMA_MAX_BYTES} bytes")
    if unknown := [name for name in required if name not in properties]:
        raise QuestionRefusedError(f"the form requires {str(unknown[0])[:64]!a}, which it does not have")
    return tuple(_field(name, each, required=name in required) for name, each in properties.items())


def _field(name: str, it: Any, *, required: bool) -> QuestionField:
    if not _NAME.fullmatch(name) or not isinstance(it, dict):
        raise QuestionRefusedError(f"{name[:64]!a} cannot be the name of a field: letters, digits, _, . and - can")
    kind, options, labels = _kind(name, it)
    low, high = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}.get(
        kind, ("minimum", "maximum")
    )
    form = it.get("format", "")
    field = QuestionField(
        name=name,
        kind=kind,
        title=seen(_text(it, "title"), _TITLE_MAX_CHARS),
        description=seen(_text(it, "description"), _ABOUT_MAX_CHARS),
        required=required,
        options=options,
        labels=labels,
        form=form if kind == "text" and form in _FORMS else "",
        least=_bound(it, low),
        most=_bound(it, high),
    )
    return _with_default(field, it.get("default"))


def _kind(name: str, it: Mapping[str, Any]) -> tuple[FieldKind, tuple[str, ...], tuple[str, ...]]:
    """Return what a field takes, and what there is to choose from, as values and as labels."""
    match it.get("type"):
        case "boolean":
            return "yes_no", (), ()
        case "number":
            return "number", (), ()
        case "integer":
            return "integer", (), ()
        case "array" if isinstance(inner := it.get("items"), dict) and (found := _options(name, inner, "anyOf")):
            return "choices", *found
        case "string":
            found = _options(name, it, "oneOf")
            return ("choice", *found) if found else ("text", (), ())
    raise QuestionRefusedError(f"{name} is nested, or of a type that a form cannot have")


def _options(name: str, it: Mapping[str, Any], titled: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    values, names = it.get("enum"), it.get("enumNames")
    if isinstance(it.get(titled), list):
        pairs = [each for each in it[titled] if isinstance(each, dict)]
        values, names = [each.get("const") for each in pairs], [each.get("title") for each in pairs]
    if values is None:
        return None
    texts = values if isinstance(values, list) else []
    if not 0 < len(texts) <= _OPTIONS_MAX or not all(_is_shown(each) for each in texts) or len(set(texts)) < len(texts):
        raise QuestionRefusedError(
            f"{name} has options that cannot be shown: 1 to {_OPTIONS_MAX} plain texts are taken"
        )
    known = names if isinstance(names, list) and len(names) == len(texts) else texts
    labels = [
        seen(label, _TITLE_MAX_CHARS) if isinstance(label, str) and label else value
        for label, value in zip(known, texts, strict=True)
    ]
    return tuple(texts), tuple(labels) if len(set(labels)) == len(labels) else tuple(texts)


def _is_shown(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _VALUE_MAX_CHARS and seen(value, _VALUE_MAX_CHARS) == value


def _with_default(field: QuestionField, default: Any) -> QuestionField:
    """Return a field with its default, as far as that fits and can be shown."""
    fits = default is not None and (not isinstance(default, str) or _is_shown(default))
    if not fits:
        return field
    try:
        return replace(field, default=fitting([field], {field.name: default}).get(field.name))
    except InvalidError:
        return field


def _text(it: Mapping[str, Any], key: str) -> str:
    value = it.get(key)
    return value if isinstance(value, str) else ""


def _bound(it: Mapping[str, Any], key: str) -> float | None:
    value = it.get(key)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
