"""What connectors hand in, checked before it goes any further: messages and how a connection is.

Raises whatever is wrong, in words for the plugin's author; the context tells the plugin.
"""

from typing import Any, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.base import foreign
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import InvalidError
from daycare.base.limits import (
    FILE_MAX_BYTES,
    FRAGMENT_MAX_CHARS,
    KEY_MAX_CHARS,
)
from daycare.base.messages import File
from daycare.base.times import is_moment
from daycare.plugin import Attachment, Health, Inbound, RemoteFile, Unreadable
from daycare.tools import lengthy

_NAMES: Final = ("connector", "sender", "chat", "within", "album", "message", "replies_to", "edits", "trace", "path")
_ATTACHED_MAX_BYTES: Final = 2 * FILE_MAX_BYTES  # what is too large to be kept is named, up to this
_BARE: Final[Any] = msgspec.defstruct(  # an Inbound whose fields can be told apart by their types
    "Inbound",
    [
        (it.name, it.type) if it.required else (it.name, it.type, it.default)
        for it in msgspec.structs.fields(Inbound)
        if it.name not in ("files", "meta")
    ]
    + [("meta", dict[str, str])],
    kw_only=True,
)


def health(told: object) -> Health:
    """Return a connection's word for how it is, of a length that people read."""
    known = foreign.struct(told, Health)
    return replace(
        known, **{name: getattr(known, name)[: foreign.REASON_MAX_CHARS] for name in ("reason", "hint", "identity")}
    )


async def came_in(item: object) -> Inbound | Unreadable:
    """Return one of a batch. What is wrong with a message makes it unreadable, and keeps no other out.

    Raises for something without a key: nobody could tell it from the next one.
    """
    await trio.lowlevel.checkpoint()  # a hundred of them take a while
    if isinstance(item, Unreadable):
        reason = foreign.text(item.reason, foreign.REASON_MAX_CHARS)
        return Unreadable(key=foreign.line(item.key), reason=reason, body=foreign.text(item.body, FRAGMENT_MAX_CHARS))
    if not isinstance(item, Inbound):
        raise TypeError(f"a {type(item).__name__} is neither an Inbound nor an Unreadable")
    key = foreign.line(item.key)
    try:
        with error_boundary("INBOUND_WRONG", "a message cannot be taken", InvalidError):
            return await inbound(item)
    except InvalidError as wrong:
        body = foreign.text(item.text, FRAGMENT_MAX_CHARS) if isinstance(item.text, str) else ""
        return Unreadable(key=key, reason=wrong.message, body=body)


async def inbound(item: object) -> Inbound:
    """Return a message whose fields have their types. A time that no calendar holds is taken for now."""
    if not isinstance(item, Inbound):
        raise TypeError(f"a {type(item).__name__} is no Inbound")
    bare = {name: getattr(item, name) for name in item.__struct_fields__ if name != "files"}
    if not isinstance(item.at_ms, int) or not is_moment(item.at_ms):
        bare["at_ms"] = 0
    known = msgspec.structs.asdict(await lengthy.struct(_BARE(**bare), _BARE))
    known |= {name: foreign.line(bare[name]) for name in _NAMES}  # as they are: two of them must not become one
    for name in ("name", "chat_name"):
        known[name] = known[name][:KEY_MAX_CHARS]
    files = [await _file(file) for file in foreign.items(item.files, foreign.ITEMS_MAX)]
    return Inbound(**known, files=tuple(files))


async def _file(file: object) -> Attachment | RemoteFile | File:
    if isinstance(file, Attachment):
        data = await lengthy.content(file.data, _ATTACHED_MAX_BYTES)
        return Attachment(name=foreign.text(file.name), media_type=foreign.text(file.media_type), data=data)
    if isinstance(file, RemoteFile):
        remote = foreign.struct(file, RemoteFile)
        foreign.line(remote.key)
        return remote
    return foreign.struct(file, File)
