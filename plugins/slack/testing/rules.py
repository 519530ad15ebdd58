"""What Slack refuses, by its reference of methods and Block Kit: sizes, fields, scopes. Stricter where it would cut."""

import re
from typing import Any, Final

import msgspec

from daycare.testing.http_server import Params

TEXT_MAX_CHARS: Final = 4_000  # past that Slack cuts a message where it likes; past 40,000 it is refused
STREAM_MAX_CHARS: Final = 12_000
_KNOWN_CODES: Final = re.compile(r"&(?!amp;|lt;|gt;)")
_BRACKETS: Final = re.compile(
    r"<(?:@[UW][A-Z0-9]+|#[CG][A-Z0-9]+|![a-z]+|https?://[^\s<>|]+|mailto:[^\s<>|]+)(?:\|[^<>\n]*)?>"
)

_MESSAGE: Final = "channel text blocks link_names"
# Method -> the scope that it needs, and the arguments that it takes.
METHODS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    name: (scope, frozenset(arguments.split()))
    for name, scope, arguments in (
        ("auth.test", "", ""),
        ("apps.connections.open", "connections:write", ""),
        ("chat.postMessage", "chat:write", f"{_MESSAGE} thread_ts metadata unfurl_links unfurl_media"),
        ("chat.update", "chat:write", f"{_MESSAGE} ts"),
        ("chat.delete", "chat:write", "channel ts"),
        (
            "chat.startStream",
            "chat:write",
            "channel thread_ts recipient_user_id recipient_team_id markdown_text chunks",
        ),
        ("chat.appendStream", "chat:write", "channel ts markdown_text chunks"),
        ("chat.stopStream", "chat:write", "channel ts markdown_text chunks blocks"),
        ("assistant.threads.setStatus", "chat:write", "channel_id thread_ts status"),
        ("conversations.list", "channels:read", "types exclude_archived limit cursor"),
        ("conversations.info", "channels:read", "channel"),
        ("conversations.open", "im:write", "users"),
        ("conversations.history", "im:history", "channel limit include_all_metadata oldest"),
        ("conversations.replies", "channels:history", "channel ts limit include_all_metadata oldest"),
        ("users.info", "users:read", "user"),
        ("reactions.add", "reactions:write", "channel timestamp name"),
        ("reactions.remove", "reactions:write", "channel timestamp name"),
        ("reactions.get", "reactions:read", "channel timestamp"),
        ("files.getUploadURLExternal", "files:write", "filename length"),
        ("files.completeUploadExternal", "files:write", "files channel_id thread_ts initial_comment"),
        ("files.info", "files:read", "file"),
        ("files.delete", "files:write", "file"),
    )
}


class SlackRefusedError(Exception):
    """What Slack answers instead of a result: the name of an error, and what it adds."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer = {"ok": False, "error": error} | more


def check_arguments(method: str, params: Params) -> None:
    """Refuse what a method does not take."""
    unknown = params.values.keys() - METHODS[method][1]
    if unknown:
        raise SlackRefusedError("invalid_arguments", response_metadata={"messages": [f"unknown: {sorted(unknown)}"]})


def check_text(text: str) -> None:
    """Refuse a text that is too long, or in which a sign of Slack's stands unescaped."""
    if len(text) > TEXT_MAX_CHARS:
        raise SlackRefusedError("msg_too_long")
    left = _BRACKETS.sub("", text)
    if re.search(r"<|(?<!^)>", left, re.MULTILINE) or _KNOWN_CODES.search(left):  # `>` begins a quote
        raise SlackRefusedError("invalid_arguments", response_metadata={"messages": ["text: not escaped"]})
    check_characters(text)


def check_characters(text: str) -> None:
    """Refuse what is no text."""
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise SlackRefusedError("invalid_arguments", response_metadata={"messages": ["text: not valid"]})


def blocks_in(params: Params) -> list[dict[str, Any]]:
    """Return the blocks of a message; refuse what Block Kit does not allow."""
    raw = params.text("blocks")
    try:
        blocks = msgspec.json.decode(raw, type=list[dict[str, Any]]) if raw else []
    except msgspec.MsgspecError:
        raise SlackRefusedError("invalid_blocks_format") from None
    wrong = list(_flaws(blocks))
    if wrong:
        raise SlackRefusedError("invalid_blocks", response_metadata={"messages": wrong})
    return blocks


def _flaws(blocks: list[dict[str, Any]]) -> Any:
    if len(blocks) > 50:
        yield "no more than 50 items allowed [json-pointer:/blocks]"
    names = [block["block_id"] for block in blocks if "block_id" in block]
    if len(set(names)) < len(names) or any(not 0 < len(name) <= 255 for name in names):
        yield "block_id: not unique, or longer than 255"
    for at, block in enumerate(blocks):
        where = f"[json-pointer:/blocks/{at}]"
        if block.get("type") == "section":
            text = block.get("text", {})
            if text.get("type") not in ("mrkdwn", "plain_text") or not 0 < len(text.get("text", "")) <= 3_000:
                yield f"must be less than 3001 characters {where}"
            else:
                check_text(text["text"])
        elif block.get("type") == "actions":
            elements = block.get("elements", [])
            if not 0 < len(elements) <= 25:
                yield f"1 to 25 elements {where}"
            actions = [each.get("action_id", "") for each in elements]
            if len(set(actions)) < len(actions):
                yield f"action_id: not unique {where}"
            for each in elements:
                yield from _button_flaws(each, where)
        else:
            yield f"unsupported type {where}"


def _button_flaws(each: dict[str, Any], where: str) -> Any:
    text = each.get("text", {})
    if each.get("type") != "button" or text.get("type") != "plain_text":
        yield f"no button {where}"
    if not 0 < len(text.get("text", "")) <= 75:
        yield f"text: 1 to 75 characters {where}"
    if not 0 < len(each.get("value", "")) <= 2_000:
        yield f"value: 1 to 2000 characters {where}"
    if not 0 < len(each.get("action_id", "")) <= 255:
        yield f"action_id: 1 to 255 characters {where}"


def metadata_in(params: Params) -> dict[str, Any] | None:
    """Return the metadata of a message; refuse another shape."""
    raw = params.text("metadata")
    if not raw:
        return None
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise SlackRefusedError("invalid_metadata_format") from None
    if not isinstance(found.get("event_type"), str) or not isinstance(found.get("event_payload"), dict):
        raise SlackRefusedError("invalid_metadata_schema")
    return found
