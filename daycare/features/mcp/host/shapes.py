"""What servers say, made into what may be passed on: tools within bounds, arguments that fit, results as text.

In the host's process only.
"""

import base64
import hashlib
import json
import mimetypes
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing.exceptions import Unresolvable

from daycare.features.mcp.frames import (
    DESCRIPTION_MAX_CHARS,
    FILES_MAX,
    FILES_MAX_BYTES,
    REASON_MAX_CHARS,
    RESULT_MAX_CHARS,
    SCHEMA_MAX_BYTES,
    TOOL_NAME_MAX_CHARS,
    FoundTool,
    McpFile,
)

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
_SCHEMA_MAX_DEPTH: Final = 16
_SLOW: Final = {"pattern": str, "patternProperties": dict}  # a server's regular expression may take for ever
# What nobody sees: controls, joiners, marks of direction, fillers and tags.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)


def found_tool(tool: types.Tool) -> FoundTool:
    """Return a tool as it can be shown and offered; its digest is that of all that the server says of it."""
    said = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    digest = hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
    hints = tool.annotations
    reads_only = hints is not None and hints.read_only_hint is True
    refused = _name_flaw(tool.name) or _schema_flaw(tool.input_schema)
    return FoundTool(
        name=seen(tool.name, TOOL_NAME_MAX_CHARS),
        digest=digest,
        description=seen(tool.description or tool.title or "", DESCRIPTION_MAX_CHARS),
        schema={} if refused else _plain(tool.input_schema),
        reads_only=reads_only,
        repeatable=reads_only or (hints is not None and hints.idempotent_hint is True),
        refused=refused,
    )


def argument_flaw(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return what is wrong in the arguments of a call, "" if nothing is."""
    try:
        Draft202012Validator(_quick(schema)).validate(arguments)
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        return f"{place}: {error.message}"[:REASON_MAX_CHARS] if place else error.message[:REASON_MAX_CHARS]
    except (RecursionError, Unresolvable):
        return "they are nested too deep"
    return ""


def files_of(result: types.CallToolResult) -> tuple[McpFile, ...]:
    """Return what of a result is no text, as far as it is not too much: pictures, sound, and resources of bytes."""
    found: list[McpFile] = []
    room = FILES_MAX_BYTES
    for block in result.content:
        media_type, encoded = _bytes_of(block)
        if not encoded or len(found) == FILES_MAX or len(encoded) * 3 // 4 > room:
            continue
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            continue
        room -= len(data)
        media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
        ending = (mimetypes.guess_extension(media_type) or ".bin") if media_type else ".bin"
        found.append(McpFile(name=f"result-{len(found) + 1}{ending}", media_type=media_type, data=data))
    return tuple(found)


def _bytes_of(block: Any) -> tuple[str, str]:
    match block:
        case types.ImageContent() | types.AudioContent():
            return block.mime_type, block.data
        case types.EmbeddedResource() if isinstance(block.resource, types.BlobResourceContents):
            return block.resource.mime_type or "", block.resource.blob
    return "", ""


def text_of(result: types.CallToolResult) -> str:
    """Return what a result says, cut; of what is no text that it is there."""
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(parts)
    if len(text) > RESULT_MAX_CHARS:
        text = f"{text[:RESULT_MAX_CHARS]}\n[cut: {len(text)} characters in all]"
    return text


def _part(block: Any) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case types.EmbeddedResource():
            inner = block.resource
            if isinstance(inner, types.TextResourceContents):
                return f"[{inner.uri}]\n{inner.text}"
            return f"[{inner.uri}, {inner.mime_type or 'bytes'}, not shown]"
    return "[something that is not shown]"


def _name_flaw(name: str) -> str:
    if not 0 < len(name) <= TOOL_NAME_MAX_CHARS or not name.isascii() or not name.isprintable() or " " in name:
        return "a tool cannot have its name"
    return ""


def _schema_flaw(schema: Any) -> str:
    """Return why a schema of arguments is not taken, "" if it is."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "its arguments are no object"
    if _depth(schema) > _SCHEMA_MAX_DEPTH or len(json.dumps(schema)) > SCHEMA_MAX_BYTES:
        return f"the schema of its arguments has over {SCHEMA_MAX_BYTES} bytes, or is nested too deep"
    if any(not ref.startswith("#") for ref in _references(schema)):
        return "the schema of its arguments refers to something outside"
    try:
        Draft202012Validator.check_schema(_quick(schema))
    except (SchemaError, RecursionError):
        return "the schema of its arguments is not valid"
    return ""


def _depth(value: Any, least: int = 0) -> int:
    if least > _SCHEMA_MAX_DEPTH or not isinstance(value, dict | list):
        return least
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return max((_depth(each, least + 1) for each in inner), default=least)


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        yield from (each for name in ("$ref", "$dynamicRef") if isinstance(each := value.get(name), str))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _references(inner)


def _quick(value: Any) -> Any:
    """Return a schema without what may take for ever."""
    if isinstance(value, dict):
        return {name: _quick(each) for name, each in value.items() if not isinstance(each, _SLOW.get(name, ()))}
    return [_quick(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a schema whose words hold nothing that nobody sees, and which names no place elsewhere."""
    if isinstance(value, dict):
        return {seen(name, 200): _plain(each) for name, each in value.items() if name not in ("$schema", "$id")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return seen(value, DESCRIPTION_MAX_CHARS) if isinstance(value, str) else value


def seen(text: str, most: int) -> str:
    """Return a text as a person sees it: without what is hidden in it, and cut."""
    shown = _UNSEEN.sub("", re.sub(r"\s+", " ", text))
    return shown if len(shown) <= most else f"{shown[: most - 6]} [cut]"
