"""Templates: how what a webhook brings becomes a text. Places in them are filled once, and nothing is evaluated.

    {{ pull_request.title }}        a value of the payload; numbers count in lists: commits.0.message
    {{ pull_request.body | 500 }}   500 characters of it at most
    {{ @event }} {{ @delivery }} {{ @hook }} {{ @json }} {{ @header.user-agent }}

What is not there is left empty. What was filled in is not read again, so a payload cannot have places of its own.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from daycare.base.errors import InvalidError
from daycare.features.hooks.payload import opened

TEMPLATE_MAX_CHARS: Final = 4_000
TEMPLATE_PLACES_MAX: Final = 50
HOOK_VALUE_MAX_CHARS: Final = 2_000  # of one value, where its place does not say: some paragraphs
HOOK_TEXT_MAX_BYTES: Final = 16 * 1024  # of the whole, in UTF-8: what a signal holds; some 4,000 tokens

_DEPTH_MAX: Final = 16
_OWN: Final = ("@event", "@delivery", "@hook", "@json")
_HEADER: Final = "@header."
_UNTOLD: Final = frozenset(("authorization", "cookie", "proxy-authorization"))  # the sender's credentials
_place: Final = re.compile(r"\{\{([^{}]{0,200})\}\}")
_inside: Final = re.compile(r"\s*(@?[\w-]+(?:\.[\w-]+)*)\s*(?:\|\s*([1-9][0-9]{0,4})\s*)?").fullmatch


def check_template(text: str) -> str:
    """Return a template that can be filled. Raises `InvalidError` HOOK_TEMPLATE that says what is wrong where."""
    if len(text) > TEMPLATE_MAX_CHARS:
        raise _wrong(f"it has {len(text)} characters, {TEMPLATE_MAX_CHARS} at most")
    places = _place.findall(text)
    if len(places) > TEMPLATE_PLACES_MAX:
        raise _wrong(f"it has {len(places)} places, {TEMPLATE_PLACES_MAX} at most")
    for place in places:
        found = _inside(place)
        if found is None or found[1].count(".") > _DEPTH_MAX:
            raise _wrong(f"{{{{{place}}}}} is not a path such as pull_request.title, with | 200 behind it or not")
        if found[1].startswith("@") and found[1] not in _OWN and not found[1].startswith(_HEADER):
            raise _wrong(f"{{{{{place}}}}}: expected {', '.join(_OWN)} or {_HEADER}NAME")
    if "{{" in (rest := _place.sub("", text)) or "}}" in rest:
        raise _wrong("a {{ or }} stands alone")
    return text


def fill(template: str, payload: Any, headers: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return the text that a template makes; without one, what happened and the payload. It is bounded.

    `own` are the values of `@event`, `@delivery`, `@hook` and `@json`.
    """

    def value(found: re.Match[str]) -> str:
        inside = _inside(found[1])
        assert inside is not None, "it was checked when the webhook was made"
        most = int(inside[2] or HOOK_VALUE_MAX_CHARS)
        path = inside[1]
        if path.startswith(_HEADER):
            name = path.removeprefix(_HEADER).lower()
            text = "" if name in _UNTOLD else headers.get(name, "")
        else:
            text = own[path] if path in _OWN else _text(_at(payload, path))
        return text if len(text) <= most else f"{text[:most]}..."

    if not template:
        return bounded(f"{own['@event']}\n{own['@json']}".strip())
    return bounded(_place.sub(value, template))


def bounded(text: str) -> str:
    """Return a text, or as much of its beginning as fits, and how much it was."""
    whole = text.encode(errors="replace")
    if len(whole) <= HOOK_TEXT_MAX_BYTES:
        return text
    note = f"\n[cut here: it has {len(whole)} bytes]"
    return whole[: HOOK_TEXT_MAX_BYTES - len(note)].decode(errors="ignore") + note


def _at(payload: Any, path: str) -> Any:
    for name in path.split("."):
        payload = opened(payload)
        if isinstance(payload, dict):
            payload = payload.get(name)
        elif isinstance(payload, list) and name.isascii() and name.isdigit() and len(name) < len(str(2**31)):
            payload = payload[int(name)] if int(name) < len(payload) else None
        else:
            return None
    return opened(payload)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _wrong(what: str) -> InvalidError:
    return InvalidError(
        "HOOK_TEMPLATE", f"reading the template of a webhook: {what}", hint="doc/extend/webhooks.md has examples"
    )
