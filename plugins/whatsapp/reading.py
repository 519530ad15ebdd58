"""An event of the library becomes a frame of the protocol: said, noted, unreadable, or nothing.

Pure: what has to be looked up is handed in. It reads protobuf messages by their fields and imports none of the library.
"""

import base64
import hashlib
from typing import Any, Final

from daycare.base.bridge import Deleted, FileAt, Reacted, Said, Unread
from daycare_plugins.whatsapp.identities import (
    GROUPS,
    HIDDEN,
    PHONES,
    Lookup,
    Me,
    UnknownPersonError,
    is_me,
    person,
    reference,
)

REVOKE: Final = 0
EDIT: Final = 14
_DEPTH_MAX: Final = 6  # of wrappings within each other
_QUOTE_MAX_CHARS: Final = 1_000
_WRAPPINGS: Final = (
    *("deviceSentMessage", "ephemeralMessage", "viewOnceMessage", "viewOnceMessageV2", "viewOnceMessageV2Extension"),
    *(
        "documentWithCaptionMessage",
        "editedMessage",
        "groupMentionedMessage",
        "botInvokeMessage",
        "lottieStickerMessage",
    ),
    *("associatedChildMessage", "spoilerMessage", "botForwardedMessage"),
)
_MEDIA: Final = {
    "imageMessage": ("photo", "jpg"),
    "videoMessage": ("video", "mp4"),
    "ptvMessage": ("video note", "mp4"),
    "audioMessage": ("audio", "ogg"),
    "documentMessage": ("document", "bin"),
    "stickerMessage": ("sticker", "webp"),
}
_POLLS: Final = tuple(f"pollCreationMessage{version}" for version in ("", "V2", "V3", "V5"))
_NOTHING: Final = frozenset(  # of the protocol, not of a conversation
    {
        *("senderKeyDistributionMessage", "fastRatchetKeySenderKeyDistributionMessage", "messageContextInfo"),
        *("protocolMessage", "stickerSyncRmrMessage", "keepInChatMessage", "pinInChatMessage", "encReactionMessage"),
        *("pollUpdateMessage", "secretEncryptedMessage", "albumMessage", "groupRootKeyShare", "callLogMesssage"),
        *("messageHistoryBundle", "messageHistoryNotice", "placeholderMessage", "limitSharingMessage", "call", "chat"),
        *("rootSecretDistributeMessage", "acp2SettingMessage", "botTaskMessage", "requestPhoneNumberMessage"),
    }
)
_BIG: Final = ("JPEGThumbnail", "waveform", "streamingSidecar", "scansSidecar", "firstScanSidecar", "contextInfo")


def event_id(event: Any) -> str:
    """Return the stable id of an event: the same when the platform delivers it again."""
    source = event.Info.MessageSource
    return f"{source.Chat.User[:60]}:{source.Sender.User[:40]}:{event.Info.ID[:64]}"


def read(event: Any, me: Me, lookup: Lookup, group_name: str = "") -> Said | Reacted | Deleted | Unread | None:
    """Return what a message event is, None if it is nothing to a conversation."""
    info, source = event.Info, event.Info.MessageSource
    server = source.Chat.Server
    if server not in (PHONES, HIDDEN, GROUPS, "c.us"):
        return None  # a status, a channel, a broadcast list
    group = server == GROUPS
    if source.IsFromMe and (group or not _is_self(source.Chat, me)):
        return None  # the owner has answered by themselves
    message = _unwrapped(event.Message)
    if not _content(message):
        return None
    try:
        sender = me.phone if source.IsFromMe else person(source.Sender, source.SenderAlt, lookup)
    except UnknownPersonError as unknown:
        return Unread(id=event_id(event), reason=str(unknown))
    about: dict[str, Any] = {
        "sender": sender,
        "name": info.Pushname[:100],
        "chat": f"{source.Chat.User}@{GROUPS}" if group else "",
        "chat_name": group_name[:100] if group else "",
        "at_ms": info.Timestamp if info.Timestamp > 10**11 else 1_000 * info.Timestamp,
    }
    author = f"{source.Sender.User}@{source.Sender.Server}"
    if message.HasField("reactionMessage"):
        return _reaction(message.reactionMessage, event, me, author, about)
    if message.HasField("protocolMessage"):
        return _protocol(message.protocolMessage, event, me, author, about)
    return _said(message, event_id(event), reference(info.ID, author, me), me, about)


def _is_self(chat: Any, me: Me) -> bool:
    return is_me(f"{chat.User}@{chat.Server}", me)


def _unwrapped(message: Any) -> Any:
    for _ in range(_DEPTH_MAX):
        for name in _WRAPPINGS:
            if message.HasField(name):
                inner = getattr(message, name)
                if inner.HasField("message"):
                    message = inner.message
                    break
        else:
            return message
    return message


def _content(message: Any) -> list[str]:
    """Return the names of what a message holds that means something."""
    found = [field.name for field, _ in message.ListFields()]
    if "protocolMessage" in found and message.protocolMessage.type in (REVOKE, EDIT):
        return ["protocolMessage"]
    return [name for name in found if name not in _NOTHING]


# == kinds =============================================================================================================


def _said(message: Any, id_: str, ref: str, me: Me, about: dict[str, Any]) -> Said | None:
    text, files = _words(message), _files(message, id_)
    about_it = _named(message)
    if not text.strip() and not files:
        kind = next(iter(_content(message)), "")
        if not kind:
            return None
        text = f"[something that cannot be shown here: {kind}]"
    context = _context(message)
    quoted_by = quoted = replies_to = ""
    addressed = not about["chat"]
    forwarded = False
    if context is not None:
        forwarded = context.isForwarded
        addressed = addressed or any(is_me(one, me) for one in context.mentionedJID)
        if context.stanzaID:
            replies_to = reference(context.stanzaID, context.participant, me)
            addressed = addressed or is_me(context.participant, me)
            answered = _unwrapped(context.quotedMessage)
            quoted = "\n".join(filter(None, (_words(answered), _named(answered))))[:_QUOTE_MAX_CHARS]
            quoted_by = "yours" if is_me(context.participant, me) else ""
    return Said(
        id=id_,
        text=text,
        files=files,
        message=ref,
        replies_to=replies_to,
        quoted=quoted,
        quoted_by=quoted_by,
        about=about_it,
        forwarded=forwarded,
        addressed=addressed,
        **about,
    )


def _reaction(reaction: Any, event: Any, me: Me, author: str, about: dict[str, Any]) -> Reacted:
    key = reaction.key
    group = bool(about["chat"])
    # `fromMe` is said from the side of who reacted; in a conversation of two the other one is us.
    whose = author if key.fromMe else key.participant if group else f"{me.phone}@{PHONES}"
    return Reacted(
        id=f"{event_id(event)}:r",
        message=reference(key.ID, whose, me),
        emoji=reaction.text,
        to_us=is_me(whose, me),
        **about,
    )


def _protocol(change: Any, event: Any, me: Me, author: str, about: dict[str, Any]) -> Said | Deleted | None:
    source = event.Info.MessageSource
    original = f"{source.Chat.User[:60]}:{source.Sender.User[:40]}:{change.key.ID[:64]}"
    if change.type == REVOKE:
        return Deleted(id=f"{original}:d", message=reference(change.key.ID, author, me), **about)
    inner = _unwrapped(change.editedMessage)
    said = _said(inner, original, reference(change.key.ID, author, me), me, about)
    if said is None:
        return None
    digest = hashlib.blake2b(said.text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    fields = {name: getattr(said, name) for name in said.__struct_fields__}
    return Said(**{**fields, "id": f"{original}:e:{change.timestampMS}:{digest}", "edits": original})


# == content ===========================================================================================================


def _words(message: Any) -> str:
    """Return the text of a message, or a line for what is none."""
    if message.conversation:
        return str(message.conversation)
    for name, field in (
        ("extendedTextMessage", "text"),
        ("imageMessage", "caption"),
        ("videoMessage", "caption"),
        ("documentMessage", "caption"),
        ("buttonsResponseMessage", "selectedDisplayText"),
        ("templateButtonReplyMessage", "selectedDisplayText"),
        ("listResponseMessage", "title"),
    ):
        if message.HasField(name):
            return str(getattr(getattr(message, name), field))
    if message.HasField("locationMessage"):
        place = message.locationMessage
        return f"[location: {place.degreesLatitude:.6f}, {place.degreesLongitude:.6f}]"
    if message.HasField("liveLocationMessage"):
        live = message.liveLocationMessage
        return f"[live location: {live.degreesLatitude:.6f}, {live.degreesLongitude:.6f}]"
    if cards := _cards(message):
        return f"[shared {f'{len(cards)} contacts' if len(cards) > 1 else 'a contact'}]"
    for name in _POLLS:
        if message.HasField(name):
            poll = getattr(message, name)
            return "\n".join((f"[poll: {poll.name}]", *(f"- {one.optionName}" for one in poll.options[:20])))
    return ""


def _named(message: Any) -> str:
    """Return how others have named what a message shares: those are no words of whoever sends it."""
    if message.HasField("locationMessage"):
        named = ", ".join(filter(None, (message.locationMessage.name, message.locationMessage.address)))
        return f"place: {named}" if named else ""
    return "\n".join(map(_contact, _cards(message)))


def _cards(message: Any) -> list[Any]:
    if message.HasField("contactMessage"):
        return [message.contactMessage]
    return list(message.contactsArrayMessage.contacts) if message.HasField("contactsArrayMessage") else []


def _contact(card: Any) -> str:
    """Return a contact on a line of its own, whatever is in its name."""
    numbers = [
        line.rpartition(":")[2] for line in card.vcard.splitlines() if line.upper().startswith(("TEL", "ITEM1.TEL"))
    ]
    return f"contact: {' '.join(', '.join((card.displayName, *numbers[:3])).split())}"


def _files(message: Any, id_: str) -> tuple[FileAt, ...]:
    for name, (called, ending) in _MEDIA.items():
        if message.HasField(name):
            media = getattr(message, name)
            if name == "audioMessage" and media.PTT:
                called = "voice message"
            kind = media.mimetype.partition(";")[0]
            own = getattr(media, "fileName", "") or getattr(media, "title", "")
            return (
                FileAt(
                    name=own or f"{called}.{_ending(kind, ending)}",
                    media_type=kind,
                    size=media.fileLength,
                    reference=_reference(message, name),
                    key=media.fileSHA256.hex() or id_,
                ),
            )
    return ()


def _ending(kind: str, otherwise: str) -> str:
    known = {"image/png": "png", "image/webp": "webp", "audio/mp4": "m4a", "audio/mpeg": "mp3", "video/3gpp": "3gp"}
    return known.get(kind, otherwise)


def _reference(message: Any, name: str) -> str:
    """Return what the file can be fetched with later: the part of the message that names it, without pictures."""
    bare = type(message)()
    media = getattr(bare, name)
    media.CopyFrom(getattr(message, name))
    for field in _BIG:
        if field in media.DESCRIPTOR.fields_by_name:
            media.ClearField(field)
    return base64.urlsafe_b64encode(bare.SerializeToString()).decode()


def _context(message: Any) -> Any:
    for field, value in message.ListFields():
        kind = field.message_type
        if kind is not None and "contextInfo" in kind.fields_by_name and value.HasField("contextInfo"):
            return value.contextInfo
    return None
