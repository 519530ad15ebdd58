"""What is to be sent, as messages of the library: text with a quotation, reactions, edits, deletions and files."""

import time
from pathlib import Path
from typing import Any, Final

from neonize.proto.waCommon.WACommon_pb2 import MessageKey
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import (
    ContextInfo,
    ExtendedTextMessage,
    FutureProofMessage,
    Message,
    ProtocolMessage,
    ReactionMessage,
)

from daycare.base.bridge import FileAt
from daycare.messenger.markup import render
from daycare_plugins.whatsapp.identities import GROUPS, MINE, PHONES, Me, referred

_WHOLE: Final = 1 << 30  # what comes here was cut into parts before


def to_whatsapp(words: str) -> str:
    """Return Markdown in WhatsApp's signs."""
    return "".join(render(words, _WHOLE))


def text(words: str, reply_to: str = "", me: Me = Me()) -> Any:  # noqa: B008 -- frozen
    """Return a text, as an answer to a message if there is one."""
    said = to_whatsapp(words)
    if not reply_to:
        return Message(conversation=said)
    return Message(extendedTextMessage=ExtendedTextMessage(text=said, contextInfo=quotation(reply_to, me)))


def quotation(reply_to: str, me: Me) -> Any:
    """Return what makes a message the answer to another one."""
    message, author = referred(reply_to)
    participant = f"{me.phone}@{PHONES}" if author == MINE else author
    return ContextInfo(stanzaID=message, participant=participant, quotedMessage=Message(conversation=""))


def reaction(to: tuple[str, str], message: str, emoji: str) -> Any:
    """Return a reaction to a message; an empty one takes it back."""
    return Message(
        reactionMessage=ReactionMessage(key=key(to, message), text=emoji, senderTimestampMS=int(time.time() * 1_000))
    )


def edit(to: tuple[str, str], message: str, words: str) -> Any:
    """Return an edit of something that we sent."""
    change = ProtocolMessage(
        key=key(to, message),
        type=ProtocolMessage.MESSAGE_EDIT,
        editedMessage=Message(conversation=to_whatsapp(words)),
        timestampMS=int(time.time() * 1_000),
    )
    return Message(editedMessage=FutureProofMessage(message=Message(protocolMessage=change)))


def revoke(to: tuple[str, str], message: str) -> Any:
    """Return the deletion of something that we sent."""
    return Message(protocolMessage=ProtocolMessage(type=ProtocolMessage.REVOKE, key=key(to, message)))


def key(to: tuple[str, str], message: str) -> Any:
    """Return the library's name of a message that we refer to in a chat."""
    id_, author = referred(message)
    made = MessageKey(remoteJID="@".join(to), fromMe=author == MINE, ID=id_)
    if to[1] == GROUPS and author and author != MINE:
        made.participant = author
    return made


def file(client: Any, folder: Path, at: FileAt, caption: str, *, ffmpeg: bool) -> Any:
    """Upload a file and return the message of it; without ffmpeg, sounds and videos go as documents."""
    data = (folder / at.path).read_bytes()
    said = to_whatsapp(caption) or None
    kind = at.media_type.partition("/")[0]
    if at.media_type in ("image/jpeg", "image/png"):
        return client.build_image_message(data, caption=said)
    if kind == "video" and ffmpeg:
        return client.build_video_message(data, caption=said)
    if kind == "audio" and ffmpeg and not said:
        return client.build_audio_message(data, ptt=at.media_type.startswith("audio/ogg"))
    return client.build_document_message(
        data, caption=said, filename=at.name, title=at.name, mimetype=at.media_type or "application/octet-stream"
    )
