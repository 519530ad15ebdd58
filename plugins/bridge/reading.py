"""What a bridge tells becomes what the host takes: said, noted, or unreadable. Nothing in it is trusted."""

import hashlib
from collections.abc import Callable
from typing import Final, Literal

from msgspec.structs import replace

from daycare.base.bridge import ID_MAX_CHARS, Deleted, FileAt, Inward, Moved, Reacted, Said, Unread
from daycare.base.connector import Attachment, Inbound, RemoteFile, Unreadable
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.limits import FILE_MAX_BYTES, FILES_MAX
from daycare.base.messages import File, Origin
from daycare.base.secrecy import names_known, without_known
from daycare.messenger import text
from daycare_plugins.bridge.folder import BridgeFolder

KEY_MAX_CHARS: Final = 120  # of a person or chat, with the connector's name before it
NAME_MAX_CHARS: Final = 100
QUOTE_MAX_CHARS: Final = 1_000
ABOUT_MAX_CHARS: Final = 200  # of a line
ABOUT_MAX_LINES: Final = 20
BODY_MAX_CHARS: Final = 4_000


def read(
    frame: Inward,
    connector: str,
    groups: Literal["addressed", "always"],
    folder: BridgeFolder,
    heard: Callable[[str, str], bool],
) -> Inbound | Unreadable | None:
    """Return what it is for the host, None if it is nothing to it. It may read files: call it in a thread.

    `heard` tells whether a message of a chat was for us: who deletes one does not say so.
    """
    match frame:
        case Unread():
            return Unreadable(
                key=key_of(frame.id), reason=one_line(frame.reason, 300), body=frame.body[:BODY_MAX_CHARS]
            )
        case Moved():
            return None
        case _ if not is_key(frame.sender) or (frame.chat and not is_key(frame.chat)):
            return Unreadable(key=key_of(frame.id), reason="it has no usable sender or chat", body="")
        case Said():
            return _said(frame, connector, groups, folder)
        case Reacted():
            if frame.chat and groups == "addressed" and not frame.to_us:
                return None
            done = f"reacted {one_line(frame.emoji, 20)} to" if frame.emoji else "took back a reaction from"
            return _note(frame, connector, f"{done} message {one_line(frame.message, KEY_MAX_CHARS)}")
        case Deleted():
            if frame.chat and groups == "addressed" and not heard(frame.chat, frame.message):
                return None
            note = _note(frame, connector, f"deleted message {one_line(frame.message, KEY_MAX_CHARS)}")
            return replace(note, deletes=_name(frame.message))


def _said(frame: Said, connector: str, groups: str, folder: BridgeFolder) -> Inbound | None:
    if frame.chat and groups == "addressed" and not frame.addressed:
        return None
    item = _told(frame, connector, frame.text)
    files, missing = [], []
    for number, file in enumerate(frame.files[:FILES_MAX]):
        try:
            files.append(_file(file, f"{frame.id}:{number}", folder))
        except DaycareError as error:
            missing.append(f"[{one_line(file.name, NAME_MAX_CHARS) or 'a file'}: {error.code}]")
    text = "\n".join((frame.text, *missing)).strip() if missing else frame.text
    return replace(
        item,
        text=text,
        files=tuple(files),
        context=_context(frame),
        message=_name(frame.message),
        replies_to=_name(frame.replies_to),
        album=_name(frame.album),
        edits=key_of(frame.edits) if frame.edits else "",
        origin=Origin.FORWARD if frame.forwarded else item.origin,
    )


def _note(frame: Reacted | Deleted, connector: str, text: str) -> Inbound:
    return replace(_told(frame, connector, text), kind="note", message=_name(frame.message))


def _told(frame: Said | Reacted | Deleted, connector: str, text: str) -> Inbound:
    return Inbound(
        connector=connector,
        sender=f"{connector}:{frame.sender}",
        chat=f"{connector}:{frame.chat}" if frame.chat else "",
        key=key_of(frame.id),
        text=text,
        name=one_line(frame.name, NAME_MAX_CHARS),
        chat_name=one_line(frame.chat_name, NAME_MAX_CHARS),
        origin=Origin.GROUP if frame.chat else Origin.PERSON,
        at_ms=max(frame.at_ms, 0),
    )


def _context(frame: Said) -> str:
    told = []
    if frame.forwarded:
        told.append("a forwarded message")
    if frame.about:
        told += [one_line(line, ABOUT_MAX_CHARS) for line in frame.about.splitlines()[:ABOUT_MAX_LINES]]
    if frame.quoted:
        quoted = text.quoted(frame.quoted, QUOTE_MAX_CHARS)
        by = f" of {one_line(frame.quoted_by, NAME_MAX_CHARS)}" if frame.quoted_by else ""
        told.append(f"answers a message{by}:\n{quoted}")
    return "\n".join(told)


def _file(file: FileAt, key: str, folder: BridgeFolder) -> Attachment | RemoteFile | File:
    name = one_line(file.name, NAME_MAX_CHARS).replace("/", "_") or "file"
    kind = file.media_type[:NAME_MAX_CHARS]
    if file.path:
        try:
            return Attachment(name=name, media_type=kind, data=folder.read(file.path, FILE_MAX_BYTES))
        except InvalidError as error:
            if error.code != "FILE_TOO_LARGE":
                raise
            return File(id=0, name=name, media_type=kind, size=max(file.size, FILE_MAX_BYTES + 1))
    return RemoteFile(name=name, media_type=kind, size=max(file.size, 0), reference=file.reference, key=file.key or key)


def is_key(key: str) -> bool:
    """Whether a bridge's name of a person or chat can be used."""
    fits = bool(key) and len(key) <= KEY_MAX_CHARS and key.isprintable() and not any(char.isspace() for char in key)
    return fits and not names_known(key)


def _name(reference: str) -> str:
    """Return how a messenger refers to something; what holds a secret refers to nothing."""
    return "" if names_known(reference) else reference[:KEY_MAX_CHARS]


def key_of(id_: str) -> str:
    """Return the key under which the host knows what has this id: another one where it cannot be a key."""
    if id_ and len(id_) <= ID_MAX_CHARS and id_.isprintable() and not names_known(id_):
        return id_
    return f"digest:{hashlib.blake2b(id_.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def one_line(said: str, most: int) -> str:
    """Return the beginning of a text as one line that steers no terminal, without a known secret."""
    return text.one_line(without_known(said[: 4 * most].replace("\x00", "")), most)  # NULs would keep a secret apart
