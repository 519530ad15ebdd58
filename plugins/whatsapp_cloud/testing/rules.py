"""What the Graph API refuses of a WhatsApp message, as Meta's reference of messages says: fields, lengths, media."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

MEDIA_TYPES: Final = {
    **dict.fromkeys(("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg", "audio/opus"), "audio"),
    **dict.fromkeys(("image/jpeg", "image/png"), "image"),
    **dict.fromkeys(("video/mp4", "video/3gpp"), "video"),
    "image/webp": "sticker",
    **dict.fromkeys(
        (
            *("text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel"),
            "application/vnd.ms-powerpoint",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        ),
        "document",
    ),
}
MEDIA_MAX_BYTES: Final = {
    "audio": 16 << 20,
    "image": 5 << 20,
    "video": 16 << 20,
    "sticker": 500 << 10,
    "document": 100 << 20,
}
_COMMON: Final = {
    *("messaging_product", "recipient_type", "to", "recipient", "type", "context", "biz_opaque_callback_data"),
}
_WAMID: Final = re.compile(r"wamid\.[A-Za-z0-9+/=_-]+")


class GraphRefusedError(Exception):
    """What the API answers instead of a result: a code of Meta's, and words."""

    def __init__(self, code: int, details: str, status: int = 400) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.status = status

    @property
    def tree(self) -> dict[str, Any]:
        """The body of the answer."""
        data = {"messaging_product": "whatsapp", "details": self.details}
        error = {"message": f"(#{self.code}) {self.details}", "type": "OAuthException", "code": self.code}
        return {"error": error | {"error_data": data, "fbtrace_id": "Afake"}}


def check(payload: Mapping[str, Any], media: Mapping[str, str], templates: Mapping[str, set[str]]) -> str:
    """Return the kind of a message; refuse what the real API would. `media` maps ids to media types."""
    kind = payload.get("type", "text")
    if kind not in _KINDS:
        raise GraphRefusedError(100, f"Param type must be one of {sorted(_KINDS)} - got {kind!r}")
    _only(payload, _COMMON | {kind}, "message")
    if payload.get("recipient_type", "individual") != "individual":
        raise GraphRefusedError(100, "Param recipient_type must be one of {INDIVIDUAL}")
    to = payload.get("to", payload.get("recipient"))
    if not isinstance(to, str) or not re.fullmatch(r"\+?[0-9]{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,129}", to):
        raise GraphRefusedError(100, "The parameter to is required" if not to else "Param to is not a number")
    _most(payload.get("biz_opaque_callback_data", ""), 512, "biz_opaque_callback_data")
    context = payload.get("context")
    if context is not None:
        _only(context, {"message_id"}, "context")
        if not _WAMID.fullmatch(str(context.get("message_id"))):
            raise GraphRefusedError(131009, "Parameter value is not valid: context.message_id")
    content = payload.get(kind)
    if not isinstance(content, dict):
        raise GraphRefusedError(131008, f"Required parameter is missing: {kind}")
    if kind == "template":
        _template(content, templates)
    else:
        _CHECKS[kind](kind, content, media)
    return str(kind)


def _text(_kind: str, it: Mapping[str, Any], _media: Mapping[str, str]) -> None:
    _only(it, {"body", "preview_url"}, "text")
    _some(it.get("body"), 4_096, "text.body")


def _file(kind: str, it: Mapping[str, Any], media: Mapping[str, str]) -> None:
    captioned = {"caption"} if kind in ("image", "video", "document") else set()
    _only(it, {"id"} | captioned | ({"filename"} if kind == "document" else set()), kind)
    found = media.get(str(it.get("id")))
    if found is None:
        raise GraphRefusedError(100, f"Param {kind}['id'] is not a valid whatsapp business account media attachment ID")
    if kind != "document" and MEDIA_TYPES[found] != kind:
        raise GraphRefusedError(131053, f"Media upload error: {found} is no {kind}")
    _most(it.get("caption", ""), 1_024, f"{kind}.caption")


def _reaction(_kind: str, it: Mapping[str, Any], _media: Mapping[str, str]) -> None:
    _only(it, {"message_id", "emoji"}, "reaction")
    if not _WAMID.fullmatch(str(it.get("message_id"))):
        raise GraphRefusedError(131009, "Parameter value is not valid: reaction.message_id")
    if not isinstance(it.get("emoji"), str) or (it["emoji"].isascii() and it["emoji"]):
        raise GraphRefusedError(131009, "Parameter value is not valid: reaction.emoji")


def _interactive(_kind: str, it: Mapping[str, Any], _media: Mapping[str, str]) -> None:
    _only(it, {"type", "body", "action", "header", "footer"}, "interactive")
    body = it.get("body")
    if not isinstance(body, dict):
        raise GraphRefusedError(131008, "Required parameter is missing: interactive.body")
    _only(body, {"text"}, "interactive.body")
    action = it.get("action")
    if not isinstance(action, dict):
        raise GraphRefusedError(131008, "Required parameter is missing: interactive.action")
    if it.get("type") == "button":
        _some(body.get("text"), 1_024, "interactive.body.text")
        _buttons(action)
    elif it.get("type") == "list":
        _some(body.get("text"), 4_096, "interactive.body.text")
        _list(action)
    else:
        raise GraphRefusedError(131009, "Parameter value is not valid: interactive.type")


def _buttons(action: Mapping[str, Any]) -> None:
    _only(action, {"buttons"}, "action")
    buttons = action.get("buttons")
    if not isinstance(buttons, list) or not 1 <= len(buttons) <= 3:
        raise GraphRefusedError(131009, "Invalid buttons count. Min allowed buttons: 1, Max allowed buttons: 3")
    for button in buttons:
        _only(button, {"type", "reply"}, "button")
        _only(button["reply"], {"id", "title"}, "button.reply")
        _some(button["reply"].get("id"), 256, "button.reply.id")
        _some(button["reply"].get("title"), 20, "button.reply.title")
    _distinct([button["reply"]["id"] for button in buttons], "button ids")
    _distinct([button["reply"]["title"] for button in buttons], "button titles")


def _list(action: Mapping[str, Any]) -> None:
    _only(action, {"button", "sections"}, "action")
    _some(action.get("button"), 20, "action.button")
    sections = action.get("sections")
    if not isinstance(sections, list) or not 1 <= len(sections) <= 10:
        raise GraphRefusedError(131009, "Invalid sections count")
    rows: list[Any] = []
    for section in sections:
        _only(section, {"title", "rows"}, "section")
        _most(section.get("title", ""), 24, "section.title")
        rows += section.get("rows") or []
    if not 1 <= len(rows) <= 10:
        raise GraphRefusedError(131009, "Total row count exceed max allowed count: 10")
    for row in rows:
        _only(row, {"id", "title", "description"}, "row")
        _some(row.get("id"), 200, "row.id")
        _some(row.get("title"), 24, "row.title")
        _most(row.get("description", ""), 72, "row.description")
    _distinct([row["id"] for row in rows], "row ids")


def _template(it: Mapping[str, Any], templates: Mapping[str, set[str]]) -> None:
    _only(it, {"name", "language", "components"}, "template")
    language = it.get("language")
    if not isinstance(language, dict):
        raise GraphRefusedError(131008, "Required parameter is missing: template.language")
    if language.get("code") not in templates.get(str(it.get("name")), set()):
        raise GraphRefusedError(
            132001, f"template name ({it.get('name')}) does not exist in {language.get('code')}", 404
        )
    if it.get("components"):
        raise GraphRefusedError(132000, "number of parameters does not match the expected number of params")


_CHECKS: Final[dict[str, Callable[[str, Mapping[str, Any], Mapping[str, str]], None]]] = {
    "text": _text,
    **dict.fromkeys(("image", "video", "audio", "document", "sticker"), _file),
    "reaction": _reaction,
    "interactive": _interactive,
}
_KINDS: Final = {*_CHECKS, "template"}


def _only(it: Any, allowed: set[str], what: str) -> None:
    if not isinstance(it, dict | Mapping):
        raise GraphRefusedError(100, f"Param {what} must be an object")
    unknown = sorted(it.keys() - allowed)
    if unknown:
        raise GraphRefusedError(100, f'Unexpected key "{unknown[0]}" on param "{what}".')


def _some(text: Any, most: int, what: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise GraphRefusedError(131008, f"Required parameter is missing: {what}")
    _most(text, most, what)


def _most(text: Any, most: int, what: str) -> None:
    if not isinstance(text, str) or len(text) > most:
        raise GraphRefusedError(100, f"Param {what} must be at most {most} characters long.")


def _distinct(values: list[str], what: str) -> None:
    if len(set(values)) < len(values):
        raise GraphRefusedError(131009, f"Duplicated {what}")
