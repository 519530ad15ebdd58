"""A webhook of WhatsApp becomes what the host takes, whatever it is: said, noted, unreadable; statuses; changes.

Nothing here raises for any JSON. What is not understood becomes a note or a dead letter, never nothing.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from daycare.base.connector import Inbound, RemoteFile, Unreadable
from daycare.base.messages import Origin
from daycare.messenger.json_paths import at, list_at, seconds_at, text_at
from daycare.messenger.text import cut, file_name, media_type, one_line, quoted
from daycare_plugins.whatsapp_cloud.outgoing import decode
from daycare_plugins.whatsapp_cloud.people import is_id
from daycare_plugins.whatsapp_cloud.receipts import Status

BODY_MAX_CHARS: Final = 4_000  # of what cannot be read: as many as a dead letter keeps
MESSAGE_ID_MAX_CHARS: Final = 190  # an idempotency key has 200; real ones have some 70
WORDS_MAX_CHARS: Final = 12_000  # three times the longest that WhatsApp takes
CONTEXT_MAX_CHARS: Final = 2_000
CONTACTS_MAX: Final = 10
MESSAGES_MAX: Final = 1_000  # of one request, as many as one commit takes; real ones have a few
FIELD: Final = "messages"  # of a change: the only one that is about conversations

_FILES: Final = {
    "image": ("photo", "jpg", "image/jpeg"),
    "video": ("video", "mp4", "video/mp4"),
    "audio": ("audio", "ogg", "audio/ogg"),
    "document": ("document", "bin", ""),
    "sticker": ("sticker", "webp", "image/webp"),
}
_CHANGES: Final = (  # system messages after which a number is somebody else's, or may be
    *("user_changed_number", "customer_changed_number", "user_changed_user_id"),
    *("customer_identity_changed", "user_identity_changed"),
)
_CHOICES: Final = ("button_reply", "list_reply")
_WAMID: Final = re.compile(r"[!-~]+")


class Raw(NamedTuple):
    """A message as it came, and what its sender calls themselves."""

    message: Any
    name: str


class Parcel(NamedTuple):
    """What a request holds: messages and statuses in their order, and lines for the operator."""

    messages: list[Raw]
    statuses: list[Status]
    others: list[str]


class ReadMessage(NamedTuple):
    """A message that was read: for the host, from whom.

    `changed` says that the ids `who` and `new` are somebody else's from now on, and names what told so.
    """

    item: Inbound | Unreadable
    who: str = ""
    changed: str = ""
    new: str = ""


def unpack(tree: object, phone_number_id: str) -> Parcel:
    """Return what a request holds for our number."""
    parcel = Parcel([], [], [])
    for entry in list_at(tree, "entry"):
        for change in list_at(entry, "changes"):
            field, value = text_at(change, "field"), at(change, "value")
            if field != FIELD:
                parcel.others.append(_news(field, value))
                continue
            if text_at(value, "metadata", "phone_number_id") != phone_number_id:
                parcel.others.append("another_number")
                continue
            names = {
                key: one_line(text_at(contact, "profile", "name"))
                for contact in list_at(value, "contacts")
                for key in (text_at(contact, "wa_id"), text_at(contact, "user_id"))
                if key
            }
            for message in list_at(value, "messages"):
                parcel.messages.append(Raw(message, names.get(_who(message), "")))
            for status in list_at(value, "statuses"):
                read = _status(status)
                if read is not None:
                    parcel.statuses.append(read)
                else:
                    parcel.others.append("unreadable_status")
            for error in list_at(value, "errors"):
                parcel.others.append(f"error {at(error, 'code')}: {one_line(text_at(error, 'title'))}")
    if not (parcel.messages or parcel.statuses or parcel.others):
        parcel.others.append("empty")
    return parcel


def read(raw: Raw, connector: str, target: Callable[[str], str], recent: Callable[[str], str]) -> ReadMessage:
    """Return what a message is.

    `target` gives the part of a key that stands for whoever has an id now, `recent` the words of a message by its id:
    WhatsApp does not tell them again.
    """
    message, who = raw.message, _who(raw.message)
    wamid = text_at(message, "id")
    if not is_id(who):
        return ReadMessage(unreadable(message, "message: it does not say from whom it is"))
    if not _WAMID.fullmatch(wamid) or len(wamid) > MESSAGE_ID_MAX_CHARS:
        return ReadMessage(unreadable(message, "message: it has no usable id"))
    if at(message, "group_id") is not None:
        return ReadMessage(unreadable(message, "message: it is from a group, which are not supported"))
    kind = text_at(message, "type")
    common: dict[str, Any] = {
        "connector": connector,
        "sender": f"{connector}:{target(who)}",
        "key": wamid,
        "name": raw.name,
        "message": wamid,
        "at_ms": 1_000 * seconds_at(message, "timestamp"),
    }
    if kind == "system":
        return _system(message, who, common)
    if kind == "edit":
        return _edit(message, who, common, recent)
    return ReadMessage(_said(message, kind, common, recent), who)


def unreadable(tree: object, reason: str) -> Unreadable:
    """Return a dead letter of something that cannot be understood."""
    try:
        body = json.dumps(tree, sort_keys=True, ensure_ascii=False, default=str)
    except (RecursionError, TypeError):
        body = "nested too deep"
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return Unreadable(key=f"whatsapp-cloud:u:{digest}", reason=reason, body=body[:BODY_MAX_CHARS])


def undelivered(status: Status, connector: str, target: str, words: str) -> Inbound:
    """Return the note that tells an agent of a message that WhatsApp took and could not deliver."""
    why = f"WhatsApp could not deliver it: {one_line(status.reason, 300) or 'no reason given'} (code {status.code})"
    return Inbound(
        connector=connector,
        sender=f"{connector}:{target}",
        key=f"failed:{status.wamid}",
        text="did not get a message of this assistant",
        kind="note",
        message=status.wamid,
        context=f"{why}\nthe message:\n{quoted(words)}" if words else why,
        at_ms=status.at_ms,
    )


# == messages ==========================================================================================================


def _said(message: Any, kind: str, common: dict[str, Any], recent: Callable[[str], str]) -> Inbound:
    context = at(message, "context")
    about, words, line, files = _content(message, kind)
    forwarded = at(context, "forwarded") is True or at(context, "frequently_forwarded") is True
    replied = text_at(context, "id")
    notes = [
        "forwarded from somebody else" if forwarded else "",
        _referral(at(message, "referral")),
        _reply(replied, kind, recent(replied)) if replied else "",
        about,
    ]
    text = "\n\n".join(filter(None, (cut(words, WORDS_MAX_CHARS), line)))
    # A choice is made once below a message; a command tells by itself whether it is done already.
    if replied and _is_choice(message, kind) and not words.startswith("/") and len(replied) <= MESSAGE_ID_MAX_CHARS:
        common = common | {"key": f"chosen:{replied}"}
    recorded = at(message, "audio", "voice") is True  # by whom it is from, and not a file of somebody's
    attached = files and not text and not recorded
    origin = Origin.FORWARD if forwarded else Origin.FILE if attached else Origin.PERSON
    return Inbound(
        **common,
        text=text,
        origin=origin,
        files=files,
        replies_to=replied,
        kind="note" if kind in ("reaction", "revoke") else "message",
        deletes=text_at(message, kind, "original_message_id")[:MESSAGE_ID_MAX_CHARS] if kind == "revoke" else "",
        context=cut("\n".join(filter(None, notes)), CONTEXT_MAX_CHARS),
    )


def _reply(replied: str, kind: str, words: str) -> str:
    what = "pressed a button below" if kind in ("interactive", "button") else "in reply to"
    return f"{what} this message:\n{quoted(words)}" if words else f"{what} an earlier message"


def _content(message: Any, kind: str) -> tuple[str, str, str, tuple[RemoteFile, ...]]:
    """Return what others said about it, the sender's own words, a line for what is neither, and files."""
    it = at(message, kind)
    if kind == "text":
        words = text_at(it, "body")
        return "", words, "" if words else "[sent an empty message]", ()
    if kind in _FILES:
        file = _remote(it, kind, text_at(message, "id"))
        if file is None:
            return "", text_at(it, "caption"), f"[sent a {_FILES[kind][0]} that cannot be fetched]", ()
        line = "[sticker]" if kind == "sticker" else ""
        return "", text_at(it, "caption"), line, (file,)
    if kind == "location":
        named = one_line(", ".join(filter(None, (text_at(it, "name"), text_at(it, "address")))), 300)
        return f"place: {named}" if named else "", "", f"[location: {_point(it)}]", ()
    if kind == "contacts":
        found = it if isinstance(it, list) else []
        lines = [f"contact: {_contact(each)}" for each in found[:CONTACTS_MAX]]
        return "\n".join(lines), "", f"[shared {len(found)} contact{'s' if len(found) != 1 else ''}]", ()
    if kind == "interactive":
        return _pressed(it)
    if kind == "button":
        return "", decode(text_at(it, "payload"), text_at(it, "text")) or "[pressed a button]", "", ()
    if kind == "reaction":
        emoji, to = one_line(text_at(it, "emoji"), 20), one_line(text_at(it, "message_id"), 200)
        return "", "", f"{f'reacted {emoji} to' if emoji else 'took back a reaction from'} message {to}", ()
    if kind == "revoke":
        return "", "", f"deleted their message {one_line(text_at(it, 'original_message_id'), 200)}", ()
    if kind == "order":
        items = list_at(it, "product_items")
        return "", text_at(it, "text"), f"[sent an order of {len(items)} product{'s' if len(items) != 1 else ''}]", ()
    errors = list_at(message, "errors")
    why = one_line(text_at(errors[0], "title"), 100) if errors else ""
    what = kind if re.fullmatch(r"[a-z_]{1,40}", kind) and kind != "unsupported" else ""
    told = ", ".join(filter(None, (what, why)))
    return "", "", f"[sent something that this assistant cannot read{told and f': {told}'}]", ()


def _is_choice(message: Any, kind: str) -> bool:
    return kind == "interactive" and text_at(message, kind, "type") in _CHOICES


def _pressed(it: Any) -> tuple[str, str, str, tuple[RemoteFile, ...]]:
    kind = text_at(it, "type")
    if kind in _CHOICES:
        reply = at(it, kind)
        title = text_at(reply, "description") or text_at(reply, "title")
        said = decode(text_at(reply, "id"), title)
        return "", said or "[pressed a button]", "", ()
    if kind == "nfm_reply":
        answers = text_at(it, "nfm_reply", "response_json")
        return f"what they filled in:\n{quoted(answers)}", "", "[filled in a form]", ()
    return "", "", "[sent something that this assistant cannot read]", ()


def _system(message: Any, who: str, common: dict[str, Any]) -> ReadMessage:
    kind = text_at(message, "system", "type")
    body = one_line(text_at(message, "system", "body"), 300)
    changed = common["key"] if kind in _CHANGES else ""
    text = "changed their phone number or account" if changed else "caused a notice of WhatsApp"
    note = Inbound(**common, text=text, kind="note", context=f"WhatsApp says:\n{quoted(body)}" if body else "")
    ids = (text_at(message, "system", name) for name in ("wa_id", "new_wa_id", "customer", "user_id"))
    new = next((each for each in ids if is_id(each) and each != who), "")
    return ReadMessage(note, who, changed, new if changed else "")


def _edit(message: Any, who: str, common: dict[str, Any], recent: Callable[[str], str]) -> ReadMessage:
    original = text_at(message, "edit", "original_message_id")
    new = at(message, "edit", "message")
    if not original or not isinstance(new, dict):
        return ReadMessage(unreadable(message, "edit: it does not say of what"), who)
    merged = {"context": at(message, "context"), **new, "id": text_at(message, "id")}
    said = _said(merged, text_at(new, "type"), common | {"message": original, "edits": original}, recent)
    return ReadMessage(said, who)


def _referral(it: Any) -> str:
    if not isinstance(it, dict):
        return ""
    words = one_line(" ".join((text_at(it, "headline"), text_at(it, "body"), text_at(it, "source_url"))), 300)
    return f"they came from an advertisement: {words}"


# == pieces ============================================================================================================


def _remote(it: Any, kind: str, wamid: str) -> RemoteFile | None:
    media, digest = text_at(it, "id"), text_at(it, "sha256")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", media, re.ASCII):
        return None
    _, ending, default = _FILES[kind]
    made_up = f"{kind}-{hashlib.sha256(wamid.encode()).hexdigest()[:6]}.{ending}"
    known = re.fullmatch(r"[A-Za-z0-9+/=_-]{40,70}", digest, re.ASCII)
    return RemoteFile(
        name=file_name(one_line(text_at(it, "filename"), 400), made_up),
        media_type=media_type(text_at(it, "mime_type")) or default,
        reference=media,
        key=f"whatsapp-cloud:{digest if known else media}",
    )


def _point(it: Any) -> str:
    found = [at(it, "latitude"), at(it, "longitude")]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in found):
        return "unknown"
    return ", ".join(f"{each:.9g}" for each in found)


def _contact(it: Any) -> str:
    name = one_line(text_at(it, "name", "formatted_name") or text_at(it, "name", "first_name"))
    phones = [one_line(text_at(each, "phone"), 40) for each in list_at(it, "phones")[:5]]
    mails = [one_line(text_at(each, "email"), 80) for each in list_at(it, "emails")[:5]]
    return ", ".join(filter(None, (name or "no name", *phones, *mails)))


def _status(it: Any) -> Status | None:
    wamid, state = text_at(it, "id"), text_at(it, "status")
    if not _WAMID.fullmatch(wamid) or len(wamid) > MESSAGE_ID_MAX_CHARS or not state:
        return None
    errors = list_at(it, "errors")
    code = at(errors[0], "code") if errors else 0
    reason = ""
    if errors:
        reason = text_at(errors[0], "error_data", "details") or text_at(errors[0], "message")
        reason = reason or text_at(errors[0], "title")
    return Status(
        wamid=wamid,
        state=one_line(state, 20),
        who=text_at(it, "recipient_id") or text_at(it, "recipient_user_id"),
        key=text_at(it, "biz_opaque_callback_data")[:512],
        code=code if type(code) is int else 0,
        reason=reason,
        at_ms=1_000 * seconds_at(it, "timestamp"),
    )


def _who(message: Any) -> str:
    return text_at(message, "from") or text_at(message, "from_user_id")


def _news(field: str, value: Any) -> str:
    event = text_at(value, "event") or text_at(value, "current_limit")
    return one_line(f"{field or 'nothing'} {event}", 80)
