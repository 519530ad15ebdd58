"""A raw update of the Bot API becomes what the host takes, whatever it is: said, noted, ignored or unreadable.

`read` looks at one update by itself and never raises. What only its neighbours tell is left to `join_albums`: a group's
album of which one picture names the bot is meant as a whole.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from daycare.base.connector import Inbound, Unreadable
from daycare.base.messages import Origin
from daycare.messenger.text import one_line, quoted, tidy
from daycare_plugins.telegram.choices import Touch, decode_choice
from daycare_plugins.telegram.context import (
    answered,
    chat_name,
    context_of,
    sender_name,
    user_name,
)
from daycare_plugins.telegram.groups import TelegramPlace, is_addressed, is_for_another_bot, place_of
from daycare_plugins.telegram.media import read_content, short
from daycare_plugins.telegram.schema import (
    Halt,
    Membership,
    Press,
    Quoted,
    Reactions,
    TelegramChat,
    TelegramMessage,
    TelegramReaction,
    TelegramUser,
)

BODY_MAX_CHARS: Final = 4_000  # of an unreadable update: as many as a dead letter keeps
NUMBER_MAX: Final = 2**52
REASON_MAX_CHARS: Final = 300

UPDATES: Final = (  # what to ask of getUpdates: all that is read here
    *("message", "edited_message", "channel_post", "edited_channel_post"),
    *("callback_query", "stopped_message_generation", "message_reaction", "my_chat_member"),
)

# Service messages that mean nothing to a conversation. Who joined or left is told by `my_chat_member` where it is us.
_SERVICE: Final = frozenset(
    {
        *("new_chat_members", "left_chat_member", "new_chat_photo", "delete_chat_photo", "group_chat_created"),
        *("supergroup_chat_created", "channel_chat_created", "message_auto_delete_timer_changed"),
        *("successful_payment", "refunded_payment", "users_shared", "chat_shared", "connected_website"),
        *("write_access_allowed", "passport_data", "proximity_alert_triggered", "boost_added", "web_app_data"),
        *("chat_background_set", "forum_topic_created", "forum_topic_edited", "forum_topic_closed"),
        *("forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden", "giveaway_created"),
        *("giveaway_completed", "video_chat_scheduled", "video_chat_started", "video_chat_ended"),
        *("video_chat_participants_invited", "checklist_tasks_done", "checklist_tasks_added", "poll_option_added"),
        *("poll_option_deleted", "direct_message_price_changed", "paid_message_price_changed", "gift", "unique_gift"),
        *("gift_upgrade_sent", "suggested_post_approved", "suggested_post_approval_failed"),
        *("suggested_post_declined", "suggested_post_paid", "suggested_post_refunded", "chat_owner_left"),
        *("chat_owner_changed", "managed_bot_created"),
    }
)


class Bot(msgspec.Struct, frozen=True):
    """Who we are; `username` without the `@`."""

    id: int
    username: str


class ReadingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What decides how updates are read: the connector's name, and when a group's messages are passed on."""

    connector: str
    group_answers: Literal["addressed", "always"] = "addressed"
    overrides: Mapping[int, str] = {}  # by chat id


class ReadUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What an update is: `item` for the host, or `why_ignored`.

    `press` is to be answered, whatever becomes of the item. `moved` is (old, new) of a group with a new id; both
    the old and the new chat tell it. `waiting` is part of an `album` in a group and does not name the bot itself.
    `overheard` was said in a group, to others.
    `update_id` is None where it cannot be read.
    """

    update_id: int | None = None
    item: Inbound | Unreadable | None = None
    waiting: Inbound | None = None
    overheard: Inbound | None = None
    album: str = ""  # its key, for `known` and `join_albums`
    press: Touch | None = None
    moved: tuple[int, int] | None = None
    chat: int | None = None
    message_id: int | None = None
    why_ignored: str = ""


class _Known(NamedTuple):
    """What a reading of one update needs."""

    update_id: int
    bot: Bot
    rules: ReadingRules
    known: Callable[[str], bool]


def message_key(bot: int, chat: int, message: int) -> str:
    """Return the idempotency key of a message."""
    return f"{bot}:{chat}:m:{message}"


def _nothing(key: str) -> bool:
    return False


def read(update: object, bot: Bot, rules: ReadingRules, known: Callable[[str], bool] = _nothing) -> ReadUpdate:
    """Return what an update of getUpdates is. Never raises.

    `known` says of a key whether it was passed on before (or, for a `message_key`, sent by us): an edit or a reaction
    in a group that names nobody belongs to a message that is known, and a part of an album to an album that is.
    """
    tree, deep = tidy(update)
    if not isinstance(tree, dict):
        return _unreadable(tree, bot, None, "update: it is no object")
    number = tree.get("update_id")
    if type(number) is not int or not 0 <= number <= NUMBER_MAX:
        return _unreadable(tree, bot, None, "`update_id`: it is not a number of an update")
    if deep:
        return _unreadable(tree, bot, number, f"update {number}: it is nested too deep")
    about = _Known(number, bot, rules, known)
    for kind, reader in _READERS.items():
        raw = tree.get(kind)
        if raw is not None:
            try:
                return reader(raw, about)
            except msgspec.ValidationError as error:
                return _unreadable(tree, bot, number, _reason(kind, error))
    kinds = ", ".join(sorted(one_line(key, 40) for key in tree if key != "update_id")[:3])
    return ReadUpdate(update_id=number, why_ignored=f"nothing is done with {kinds}" if kinds else "it is empty")


def join_albums(reads: Sequence[ReadUpdate], known: Callable[[str], bool] = _nothing) -> list[ReadUpdate]:
    """Return a batch in which albums are whole: what waits is passed on where another part of its album was."""
    meant = {one.album for one in reads if one.album and one.item is not None}
    return [
        replace(one, item=one.waiting, waiting=None, overheard=None, why_ignored="")
        if one.waiting is not None and (one.album in meant or known(one.album))
        else one
        for one in reads
    ]


# == messages ==========================================================================================================


def _message(raw: Any, about: _Known) -> ReadUpdate:
    message = msgspec.convert(raw, TelegramMessage)
    found = ReadUpdate(update_id=about.update_id, chat=message.chat.id, message_id=message.message_id)
    if message.migrate_to_chat_id is not None:
        return replace(found, moved=(message.chat.id, message.migrate_to_chat_id), why_ignored="the group has moved")
    if message.migrate_from_chat_id is not None:
        return replace(found, moved=(message.migrate_from_chat_id, message.chat.id), why_ignored="the group has moved")
    if why := _nobody(message, about.bot):
        return replace(found, why_ignored=why)
    place = _place(about, message)
    item = _said(message, raw, about, place)
    if message.pinned_message is not None or message.new_chat_title is not None:
        return replace(found, item=_note(item, message, raw))
    if service := sorted(raw.keys() & _SERVICE):
        return replace(found, why_ignored=f"service message: {service[0]}")
    return _in_place(found, item, message, place, about)


def _edited(raw: Any, about: _Known) -> ReadUpdate:
    message = msgspec.convert(raw, TelegramMessage)
    found = ReadUpdate(update_id=about.update_id, chat=message.chat.id, message_id=message.message_id)
    if why := _nobody(message, about.bot):
        return replace(found, why_ignored=why)
    if message.location is not None:
        return replace(found, why_ignored="a live location has moved")
    place = _place(about, message)
    said = _said(message, raw, about, place)
    when = message.edit_date or 0
    edit = _digest([said.text, [[file.key, file.name] for file in said.files if hasattr(file, "key")]])
    item = replace(
        said,
        key=f"{about.bot.id}:{message.chat.id}:e:{message.message_id}:{when}:{edit}",
        edits=said.key,
        album="",  # it replaces one message of it
        at_ms=1_000 * when,
    )
    return _in_place(found, item, message, place, about)


def _nobody(message: TelegramMessage, bot: Bot) -> str:
    """Return why nobody said this who is listened to."""
    if message.chat.is_direct_messages:
        return "direct messages of a channel"
    if message.sender_chat is None and message.from_ is not None and message.from_.is_bot:
        return "our own message" if message.from_.id == bot.id else "it is from another bot"
    return ""


def _in_place(
    found: ReadUpdate, item: Inbound, message: TelegramMessage, place: TelegramPlace, about: _Known
) -> ReadUpdate:
    """In a group what is not for us is left out."""
    if place.private:
        return replace(found, item=item)
    if is_for_another_bot(message, about.bot.username):
        return replace(found, why_ignored="a command for another bot")
    album = f"{about.bot.id}:{message.chat.id}:a:{item.album}" if item.album else ""
    belongs = item.edits or album
    if belongs and about.known(belongs):
        return replace(found, item=item, album=album)
    if _hears_all(about.rules, message.chat) or is_addressed(message, about.bot.id, about.bot.username):
        return replace(found, item=item, album=album)
    waiting = item if album else None
    overheard = None if item.edits else item
    return replace(found, waiting=waiting, overheard=overheard, album=album, why_ignored="not addressed to the bot")


def _said(message: TelegramMessage, raw: Mapping[str, object], about: _Known, place: TelegramPlace) -> Inbound:
    content = read_content(message, raw, message.message_id)
    forward = message.forward_origin is not None or message.forward_date is not None
    made_by_bot = message.via_bot is not None and message.via_bot.id != about.bot.id
    if forward or made_by_bot:
        origin = Origin.FORWARD
    elif content.files and not content.text and message.voice is None:
        origin = Origin.FILE
    else:
        origin = Origin.PERSON if place.private else Origin.GROUP
    files = content.files
    answers = answered(message)
    replied = answers or message.external_reply
    if not files and replied is not None:  # "what is this?" is about the picture that it answers
        files = read_content(replied, None, getattr(replied, "message_id", message.message_id)).files
    sender = _sender(message)
    return Inbound(
        connector=about.rules.connector,
        sender=f"{about.rules.connector}:{sender.id}",
        key=message_key(about.bot.id, message.chat.id, message.message_id),
        text=content.text,
        origin=origin,
        files=files,
        reply_target=place.reply_target,
        meta=_language(sender),
        chat=place.chat,
        within=place.within,
        name=sender_name(message),
        chat_name=_chat_name(message, place),
        album=message.media_group_id or "",
        context=context_of(message, raw, about.bot.id, content.about),
        message=str(message.message_id),
        replies_to=str(answers.message_id) if answers is not None else "",
        at_ms=1_000 * message.date,
    )


def _note(said: Inbound, message: TelegramMessage, raw: Mapping[str, object]) -> Inbound:
    pinned = message.pinned_message
    origin = Origin.GROUP if said.chat else Origin.PERSON
    if pinned is None:
        title = one_line(message.new_chat_title)
        note = replace(said, text="gave this chat a new title", context=f"the new title: {title}", chat_name=title)
    else:
        what = f"the pinned message, by {sender_name(pinned)}:\n{quoted(short(pinned, raw.get('pinned_message')))}"
        note = replace(said, text="pinned a message", context=what)
    return replace(note, kind="note", origin=origin, files=(), album="")


# == everything else ===================================================================================================


def _pressed(raw: Any, about: _Known) -> ReadUpdate:
    press = msgspec.convert(raw, Press)
    found = ReadUpdate(update_id=about.update_id, press=Touch(press.id))
    message = press.message
    if message is None or press.data is None:
        return replace(found, why_ignored="a button that is not ours")
    place = _place(about, message)
    text = decode_choice(press.data, message.reply_markup)
    question = short(message, raw.get("message")) if message.text is not None or message.caption is not None else ""
    context = f"pressed a button below your message:\n{quoted(question)}" if question else "pressed a button"
    made = Touch(press.id, message.chat.id, message.message_id, spent=not (text or "").startswith("/"))
    if made.spent:  # a choice is made once, whoever touches which of its buttons how often
        key = f"{about.bot.id}:{message.chat.id}:c:{message.message_id}"
    else:  # a command tells by itself whether it is done already
        press_id = press.id if re.fullmatch(r"[\w-]{1,64}", press.id, re.ASCII) else _digest(press.id, 32)
        key = f"{about.bot.id}:cb:{press_id}"
    item = _told(
        about,
        place,
        press.from_,
        key=key,
        text=text if text and text.strip() else f"[pressed button {press.data} of a message too old to be read]",
        chat_name=_chat_name(message, place),
        context=context,
        message=str(message.message_id),
    )
    return replace(found, item=item, press=made, chat=message.chat.id, message_id=message.message_id)


def _halted(raw: Any, about: _Known) -> ReadUpdate:
    halt = msgspec.convert(raw, Halt)
    found = ReadUpdate(update_id=about.update_id, chat=halt.chat.id)
    place = place_of(about.rules.connector, halt.chat, halt.message_thread_id)
    if not place.private:
        return replace(found, why_ignored="a draft that is not ours")
    key = f"{about.bot.id}:{halt.chat.id}:h:{halt.draft_id}"
    return replace(found, item=_told(about, place, halt.chat, key=key, text=f"/stop {halt.draft_id}"))


def _reacted(raw: Any, about: _Known) -> ReadUpdate:
    change = msgspec.convert(raw, Reactions)
    found = ReadUpdate(update_id=about.update_id, chat=change.chat.id, message_id=change.message_id)
    actor = change.user or change.actor_chat
    if actor is None:
        raise msgspec.ValidationError("Object missing required field `user`")
    place = place_of(about.rules.connector, change.chat, None)
    concerns = message_key(about.bot.id, change.chat.id, change.message_id)
    if not place.private and not _hears_all(about.rules, change.chat) and not about.known(concerns):
        return replace(found, why_ignored="a reaction to somebody else's message")
    old, new = _emoji(change.old_reaction), _emoji(change.new_reaction)
    added = [emoji for emoji in new if emoji not in old]
    gone = [emoji for emoji in old if emoji not in new]
    if not added and not gone:
        return replace(found, why_ignored="a reaction that changed nothing")
    words = [f"reacted {' '.join(added)} to" if added else "", f"took back {' '.join(gone)} from" if gone else ""]
    what = _digest([old, new])
    item = _told(
        about,
        place,
        actor,
        key=f"{about.bot.id}:{change.chat.id}:r:{change.message_id}:{actor.id}:{change.date}:{what}",
        text=f"{' and '.join(filter(None, words))} message {change.message_id}",
        chat_name="" if place.private else chat_name(change.chat),
        kind="note",
        message=str(change.message_id),
        at_ms=1_000 * change.date,
    )
    return replace(found, item=item)


def _membership(raw: Any, about: _Known) -> ReadUpdate:
    change = msgspec.convert(raw, Membership)
    found = ReadUpdate(update_id=about.update_id, chat=change.chat.id)
    old, new = change.old_chat_member, change.new_chat_member
    if old.inside == new.inside:
        return replace(found, why_ignored="the bot's rights in a chat have changed")
    place = place_of(about.rules.connector, change.chat, None)
    what = "channel" if change.chat.type == "channel" else "group"
    if place.private:
        text = "unblocked this assistant" if new.inside else "blocked this assistant"
    elif new.inside:
        text = f"added this assistant to the {what}"
    else:
        text = f"removed this assistant from the {what}"
    digest = _digest([old.status, new.status, change.from_.id])
    item = _told(
        about,
        place,
        change.from_,
        key=f"{about.bot.id}:{change.chat.id}:s:{change.date}:{digest}",
        text=text,
        chat_name="" if place.private else chat_name(change.chat),
        kind="note",
        at_ms=1_000 * change.date,
    )
    return replace(found, item=item)


_READERS: Final[dict[str, Callable[[Any, _Known], ReadUpdate]]] = {
    "message": _message,
    "edited_message": _edited,
    "channel_post": _message,
    "edited_channel_post": _edited,
    "callback_query": _pressed,
    "stopped_message_generation": _halted,
    "message_reaction": _reacted,
    "my_chat_member": _membership,
}
assert tuple(_READERS) == UPDATES


# == what they share ===================================================================================================


def _told(
    about: _Known, place: TelegramPlace, who: TelegramUser | TelegramChat, *, key: str, text: str, **rest: Any
) -> Inbound:
    return Inbound(
        connector=about.rules.connector,
        sender=f"{about.rules.connector}:{who.id}",
        key=key,
        text=text,
        origin=Origin.PERSON if place.private else Origin.GROUP,
        reply_target=place.reply_target,
        meta=_language(who),
        chat=place.chat,
        within=place.within,
        name=user_name(who) if isinstance(who, TelegramUser) else chat_name(who),
        **rest,
    )


def _sender(message: TelegramMessage) -> TelegramUser | TelegramChat:
    """Return who speaks: an anonymous administrator and a channel do as a chat."""
    sender = message.sender_chat or message.from_
    if sender is None and message.chat.type in ("channel", "private"):
        sender = message.chat
    if sender is None:
        raise msgspec.ValidationError("Object missing required field `from`")
    return sender


def _place(about: _Known, message: Quoted) -> TelegramPlace:
    topic = message.message_thread_id if message.is_topic_message else None
    return place_of(about.rules.connector, message.chat, topic)


def _chat_name(message: Quoted, place: TelegramPlace) -> str:
    if place.private:
        return ""
    root = message.reply_to_message if isinstance(message, TelegramMessage) else None
    topic = one_line(root.forum_topic_created.name) if root is not None and root.forum_topic_created else ""
    return f"{chat_name(message.chat)} / {topic}" if topic and place.within else chat_name(message.chat)


def _hears_all(rules: ReadingRules, chat: TelegramChat) -> bool:
    return rules.overrides.get(chat.id, rules.group_answers) == "always"


def _language(who: TelegramUser | TelegramChat) -> dict[str, str]:
    code = who.language_code if isinstance(who, TelegramUser) else None
    return {"language": code} if code and re.fullmatch(r"[A-Za-z0-9-]{2,16}", code) else {}


def _emoji(reactions: Iterable[TelegramReaction]) -> list[str]:
    others = {"paid": "a star", "custom_emoji": "an emoji of their own"}
    named = (others.get(reaction.type) or one_line(reaction.emoji, 20) or "something" for reaction in reactions)
    return list(dict.fromkeys(named))[:10]


def _digest(tree: object, length: int = 8) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:length]


def _unreadable(tree: object, bot: Bot, number: int | None, reason: str) -> ReadUpdate:
    body = json.dumps(tree, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    key = f"{bot.id}:u:{'' if number is None else number}:{digest}"
    letter = Unreadable(key=key, reason=reason[:REASON_MAX_CHARS], body=body[:BODY_MAX_CHARS])
    return ReadUpdate(update_id=number, item=letter)


def _reason(kind: str, error: msgspec.ValidationError) -> str:
    """Return which field is wrong: msgspec names it by a path whose beginning is the part of the update."""
    text = str(error)
    return text.replace("`$", f"`{kind}", 1) if "`$" in text else f"{text} - at `{kind}`"
