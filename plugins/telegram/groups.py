"""Chats of several people: which chat a message belongs to, and whether the bot is meant."""

from typing import NamedTuple

from daycare_plugins.telegram.context import answered
from daycare_plugins.telegram.marks import marked
from daycare_plugins.telegram.media import words_of
from daycare_plugins.telegram.schema import TelegramChat, TelegramMessage

_GENERAL = 1  # the topic of a forum that is the forum itself


class TelegramPlace(NamedTuple):
    """Where something was said, in connector keys; `chat` and `within` are empty in a private chat."""

    private: bool
    chat: str = ""
    within: str = ""
    reply_target: str | None = None


def place_of(connector: str, chat: TelegramChat, topic: int | None) -> TelegramPlace:
    """Return the place of a chat, or of a topic in it. Topics of a private chat are one conversation."""
    if chat.type == "private":
        return TelegramPlace(private=True, reply_target=f"{chat.id}:{topic}" if topic is not None else None)
    key = f"{connector}:{chat.id}"
    if topic is None or topic == _GENERAL:
        return TelegramPlace(private=False, chat=key)
    return TelegramPlace(private=False, chat=f"{key}:{topic}", within=key)


def is_addressed(message: TelegramMessage, bot_id: int, username: str) -> bool:
    """Return whether a message is to the bot: a command, a mention, or a reply to something it said."""
    replied = answered(message)
    if replied is not None and replied.from_ is not None and replied.from_.id == bot_id:
        return True
    author = message.external_reply.origin.sender_user if message.external_reply is not None else None
    if author is not None and author.id == bot_id:
        return True
    if message.forward_origin is not None or message.forward_date is not None:
        return False  # its author may have meant us, but who forwards it has not said so
    text, entities = words_of(message)
    at_us = f"@{username}".lower()
    for entity in entities:
        part = marked(text, entity).lower()
        if entity.type == "text_mention" and entity.user is not None and entity.user.id == bot_id:
            return True
        if entity.type == "mention" and part == at_us:
            return True
        if entity.type == "bot_command" and (part.endswith(at_us) or (entity.offset == 0 and "@" not in part)):
            return True
    return False


def is_for_another_bot(message: TelegramMessage, username: str) -> bool:
    """Return whether a message begins with a command that names another bot."""
    text, entities = words_of(message)
    for entity in entities:
        if entity.type == "bot_command" and entity.offset == 0:
            _, at, name = marked(text, entity).lower().partition("@")
            return bool(at) and name != username.lower()
    return False
