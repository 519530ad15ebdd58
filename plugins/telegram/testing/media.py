"""Files in Telegram messages: what they look like on the wire, and which uploads are refused."""

import re
from pathlib import PurePath
from typing import Any, Final

from daycare.testing.http_server import Params, RefusedError, bad
from daycare_plugins.telegram.testing.world import FakeFile, TelegramWorld

PHOTO_MAX_BYTES: Final = 10_000_000
UPLOAD_MAX_BYTES: Final = 50_000_000
_IMAGES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")
_MIME: Final = {
    **{"voice": "audio/ogg", "audio": "audio/mpeg", "video": "video/mp4", "video_note": "video/mp4"},
    **{"animation": "video/mp4", "document": "application/octet-stream"},
}
_SUFFIX: Final = {
    **{"voice": ".oga", "audio": ".mp3", "video": ".mp4", "video_note": ".mp4", "animation": ".mp4"},
    **{"photo": ".jpg", "sticker": ".webp"},
}
_NEEDED: Final[dict[str, dict[str, Any]]] = {
    "document": {},
    "voice": {"duration": 1},
    "audio": {"duration": 1},
    "video": {"width": 640, "height": 480, "duration": 1},
    "animation": {"width": 320, "height": 240, "duration": 1},
    "video_note": {"length": 240, "duration": 1},
    "sticker": {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False},
}


def reference(file: FakeFile) -> dict[str, Any]:
    """Return the fields that each file has."""
    return {"file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.size}


def photo(
    world: TelegramWorld, content: bytes | None, size: int = 0, width: int = 1280, height: int = 960
) -> list[Any]:
    """Return a photo's sizes, the largest last, as Telegram makes them."""
    sizes = []
    for edge in (90, 320):
        if max(width, height) > edge:
            scale = edge / max(width, height)
            thumb = world.keep("photo", b"thumbnail %d" % edge, 0, ".jpg")
            sizes.append(_sized(thumb, max(round(width * scale), 1), max(round(height * scale), 1)))
    return [*sizes, _sized(world.keep("photo", content, size, ".jpg"), width, height)]


def attachment(
    world: TelegramWorld,
    kind: str,
    content: bytes | None,
    size: int = 0,
    *,
    file: FakeFile | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a file of any kind but a photo; `fields` are those of its own, `file` is one that is known already."""
    suffix = PurePath(fields.get("file_name") or "").suffix or _SUFFIX.get(kind, "")
    known = file or world.keep(kind, content, size, suffix if re.fullmatch(r"\.\w{1,10}", suffix) else "")
    given = {name: value for name, value in fields.items() if value is not None}
    mime = {"mime_type": _MIME[kind]} if kind in _MIME and kind != "video_note" else {}
    return reference(known) | _NEEDED[kind] | mime | given


def sent_file(world: TelegramWorld, params: Params, kind: str, value: str, field: str) -> tuple[FakeFile | None, Any]:
    """Return the known file that a parameter names, or its upload; refuse what is neither."""
    upload = params.uploads.get(value.removeprefix("attach://") if value.startswith("attach://") else field)
    if upload is not None and (not value or value.startswith("attach://")):
        most = PHOTO_MAX_BYTES if kind == "photo" else UPLOAD_MAX_BYTES
        if not upload.content:
            raise bad("file must be non-empty")
        if len(upload.content) > UPLOAD_MAX_BYTES:
            raise RefusedError(413, "Request Entity Too Large")
        if len(upload.content) > most:
            raise bad(f"file of size {len(upload.content)} bytes is too big for a photo; the maximum size is {most}")
        if kind == "photo" and not upload.content.startswith(_IMAGES):
            raise bad("IMAGE_PROCESS_FAILED")
        return None, upload
    if not value:
        raise bad(f"there is no {kind} in the request")
    if value in world.files:
        return world.files[value], None
    if re.match(r"https?://", value):
        raise bad("failed to get HTTP URL content")
    raise bad("wrong file identifier/HTTP URL specified")


def sent_media(world: TelegramWorld, params: Params, kind: str, value: str, details: dict[str, Any], field: str) -> Any:
    """Return a file that the bot sends, as its message shows it."""
    known, upload = sent_file(world, params, kind, value, field)
    if kind == "photo":
        if known is None:
            return photo(world, upload.content)
        return [_sized(known, 1280, 960)]
    if known is not None:
        return attachment(world, kind, None, file=known, **details)
    more = dict(details)
    if kind in ("document", "audio", "video"):
        more["file_name"] = upload.filename
    if kind == "document" and upload.content_type:
        more["mime_type"] = upload.content_type
    return attachment(world, kind, upload.content, **more)


def _sized(file: FakeFile, width: int, height: int) -> dict[str, Any]:
    return reference(file) | {"width": width, "height": height}
