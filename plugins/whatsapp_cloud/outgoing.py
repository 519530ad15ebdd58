"""A reply as parts that WhatsApp takes, and a part as a call of the Graph API.

A part is cut so that the mark of a possible duplicate still fits in: parts are the same with and without it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from daycare.base.connector import Attachment, Outgoing
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice
from daycare.messenger.markup import cut, render
from daycare.messenger.text import units

DUPLICATE: Final = "(this may be a duplicate)"
TEXT_MAX_UNITS: Final = 4_096  # of a text; counted in UTF-16 units, which are never fewer than Meta counts
BODY_MAX_UNITS: Final = 1_024  # of what stands above buttons, and below a file
TEXT_UNITS: Final = TEXT_MAX_UNITS - len(DUPLICATE) - 1
BODY_UNITS: Final = BODY_MAX_UNITS - len(DUPLICATE) - 1
BUTTONS_MAX: Final = 3
BUTTON_MAX_CHARS: Final = 20
ROWS_MAX: Final = 10  # of a list
ROW_TITLE_MAX_CHARS: Final = 24
ROW_DESCRIPTION_MAX_CHARS: Final = 72
ID_MAX_CHARS: Final = 200  # of a row; a button's is 256
FILE_NAME_MAX_CHARS: Final = 240
ASK: Final = "Choose:"  # above buttons that have no words of their own
MORE: Final = "More to choose from:"
OPEN: Final = "Choose"  # what opens a list

IMAGE_MAX_BYTES: Final = 5 * 1024 * 1024
SOUND_MAX_BYTES: Final = 16 * 1024 * 1024
_IMAGES: Final = ("image/jpeg", "image/png")
_AUDIO: Final = ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg", "audio/opus")
_VIDEOS: Final = ("video/mp4", "video/3gpp")
_DOCUMENTS: Final = (
    "text/plain",
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
)
_TEXTS: Final = ("application/json", "application/xml", "application/yaml", "application/toml", "application/x-sh")
_NUMBER: Final = re.compile(r"#+[0-9]{1,3}")


# == parts =============================================================================================================


def split(outgoing: Outgoing) -> list[Outgoing]:
    """Return the parts: texts, then files, and the buttons last. The question is answered by the first."""
    files, choices = outgoing.files, _distinct(outgoing.choices)
    parts: list[Outgoing] = []

    def add(kind: str, text: str, own: tuple[Attachment, ...] = (), chosen: tuple[Choice, ...] = ()) -> None:
        number = len(parts)
        parts.append(
            replace(
                outgoing,
                key=f"{outgoing.key}/{number}" if number else outgoing.key,
                text=text,
                files=own,
                choices=chosen,
                markup=kind,
                reply_to=outgoing.reply_to if not number else "",
            )
        )

    if len(files) == 1 and not choices and _has_caption(files[0]):
        caption = _rendered(outgoing.text, BODY_UNITS)
        if len(caption) <= 1:
            add("file", "".join(caption), files)
            return parts
    texts = list(_rendered(outgoing.text, TEXT_UNITS))
    body = ""
    if choices:
        if texts and units(texts[-1]) > BODY_UNITS:
            texts += cut(texts.pop(), BODY_UNITS)
        body = texts.pop() if texts else ASK
    for text in texts:
        add("text", text)
    for file in files:
        add("file", "", (file,))
    for at in range(0, len(choices), ROWS_MAX):
        add("choices", MORE if at else body, chosen=choices[at : at + ROWS_MAX])
    if not parts:
        add("text", "")  # refused when it is sent, which tells why
    return parts


@lru_cache(maxsize=8)  # `split` is asked again for each part
def _rendered(markdown: str, limit: int) -> tuple[str, ...]:
    return tuple(render(markdown, limit))


def _distinct(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Leave out what says the same as one before it: no two buttons may."""
    found: dict[str, Choice] = {}
    for number, choice in enumerate(choices):
        found.setdefault(choice.says.strip() or f"#{number}", choice)
    return tuple(found.values())


# == calls =============================================================================================================


def message(part: Outgoing, recipient: dict[str, Any], *, reply: bool, media_id: str = "") -> dict[str, Any]:
    """Return the payload that sends a part; a file has been uploaded as `media_id`. It carries our key back to us."""
    text = part.text
    if part.maybe_duplicate:
        text = f"{DUPLICATE}\n{text}" if text else DUPLICATE
    if part.markup == "file":
        content = _file(part.files[0], media_id, text)
    elif part.markup == "choices":
        content = _choices(text, part.choices)
    elif not part.text:
        raise InvalidError("MESSAGE_EMPTY", f"sending reply {part.outbox}: there is nothing to see in it")
    else:
        content = {"type": "text", "text": {"body": text, "preview_url": False}}
    payload = recipient | content | {"biz_opaque_callback_data": part.key}
    if reply and part.reply_to:
        payload["context"] = {"message_id": part.reply_to}
    return payload


def recipient(who: str) -> dict[str, Any]:
    """Return the fields that say to whom; ids that Meta made have a field of their own."""
    return {"recipient_type": "individual", "recipient" if "." in who else "to": who}


def template(who: str, name: str, language: str, key: str) -> dict[str, Any]:
    """Return the payload of a template without parameters."""
    content = {"type": "template", "template": {"name": name, "language": {"code": language}}}
    return recipient(who) | content | {"biz_opaque_callback_data": key}


def media_kind(file: Attachment) -> tuple[str, str]:
    """Return what a file is sent as, and the media type it is uploaded with. Raises `InvalidError` for what is none."""
    kind = file.media_type.partition(";")[0].strip().lower()
    if kind in _IMAGES and file.size <= IMAGE_MAX_BYTES:
        return "image", kind
    if kind in _AUDIO and file.size <= SOUND_MAX_BYTES:
        return "audio", kind
    if kind in _VIDEOS and file.size <= SOUND_MAX_BYTES:
        return "video", kind
    if kind in _DOCUMENTS or kind in _IMAGES:
        return "document", kind
    if kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml")):
        return "document", "text/plain"  # WhatsApp knows no other text; the name keeps its ending
    raise InvalidError(
        "MEDIA_REFUSED",
        f"sending {file.name}: WhatsApp takes no files of the type {kind or 'unknown'}",
        hint="text, PDF, office documents, JPEG, PNG, MP4, MP3 and OGG are taken",
    )


def _has_caption(file: Attachment) -> bool:
    try:
        return media_kind(file)[0] != "audio"
    except InvalidError:
        return False  # so that the words go out before the file is refused


def _file(file: Attachment, media_id: str, caption: str) -> dict[str, Any]:
    kind, _ = media_kind(file)
    about: dict[str, Any] = {"id": media_id}
    if caption and kind != "audio":
        about["caption"] = caption
    if kind == "document":
        about["filename"] = _short(file.name, FILE_NAME_MAX_CHARS)
    return {"type": kind, kind: about}


def _choices(body: str, choices: Sequence[Choice]) -> dict[str, Any]:
    labels = [_label(choice, number) for number, choice in enumerate(choices)]
    unique = len({label[:BUTTON_MAX_CHARS] for label in labels}) == len(labels)
    if len(choices) <= BUTTONS_MAX and unique and all(len(label) <= BUTTON_MAX_CHARS for label in labels):
        buttons = [
            {"type": "reply", "reply": {"id": encode(choice.says, number), "title": label}}
            for number, (choice, label) in enumerate(zip(choices, labels, strict=True))
        ]
        action: dict[str, Any] = {"buttons": buttons}
        return {"type": "interactive", "interactive": {"type": "button", "body": {"text": body}, "action": action}}
    rows = []
    for number, (choice, label) in enumerate(zip(choices, labels, strict=True)):
        row = {"id": encode(choice.says, number), "title": _short(label, ROW_TITLE_MAX_CHARS)}
        if len(label) > ROW_TITLE_MAX_CHARS:
            row["description"] = _short(label, ROW_DESCRIPTION_MAX_CHARS)
        rows.append(row)
    action = {"button": OPEN, "sections": [{"title": OPEN, "rows": rows}]}
    return {"type": "interactive", "interactive": {"type": "list", "body": {"text": body}, "action": action}}


def encode(says: str, number: int) -> str:
    """Return the id of a button: what it says, if that fits; else its number, and its label is what is said."""
    said = says.strip()
    if _NUMBER.fullmatch(said):
        said = f"#{said}"
    return said if said and len(said) <= ID_MAX_CHARS and said.isprintable() else f"#{number}"


def decode(button: str, title: str) -> str:
    """Return what a pressed button says."""
    if _NUMBER.fullmatch(button):
        return button[1:] if button.startswith("##") else title
    return button or title


def _label(choice: Choice, number: int) -> str:
    return " ".join(choice.label.split()) or " ".join(choice.says.split()) or str(number + 1)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "\u2026"
