"""What a message refers to: the one it answers, the part of it that is meant, and where a forward comes from.

All of it is other people's words and names. Quoted lines begin with `> `, so that none can pass for one of ours.
"""

from collections.abc import Mapping
from typing import Final

from daycare.messenger.text import cut, one_line, quoted
from daycare_plugins.telegram.media import short
from daycare_plugins.telegram.schema import (
    Elsewhere,
    Quoted,
    TelegramChat,
    TelegramMessage,
    TelegramOrigin,
    TelegramUser,
)

CONTEXT_MAX_CHARS: Final = 2_000
_MEANT_MAX_CHARS: Final = 500


def context_of(message: TelegramMessage, raw: Mapping[str, object], bot_id: int, about: str = "") -> str:
    """Return what has to be known to understand a message, empty if it stands for itself."""
    parts = []
    if message.forward_origin is not None:
        parts.append(f"forwarded from {forwarded_from(message.forward_origin)}")
    elif message.forward_date is not None:
        parts.append("forwarded from somebody else")
    if message.via_bot is not None and message.via_bot.id != bot_id:
        parts.append(f"made by the bot {user_name(message.via_bot)}")
    parts += [about, _reply(message, raw, bot_id)]
    return cut("\n".join(filter(None, parts)), CONTEXT_MAX_CHARS)


def answered(message: TelegramMessage) -> Quoted | None:
    """Return the message that this one is a reply to. In a topic all that are none reply to its beginning."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is not None:
        return None
    if message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied


def forwarded_from(origin: TelegramOrigin) -> str:
    """Return who wrote what was forwarded."""
    signed = f", signed {one_line(origin.author_signature)}" if origin.author_signature else ""
    if origin.sender_user is not None:
        return f"{user_name(origin.sender_user)} ({'bot' if origin.sender_user.is_bot else 'user'})"
    if origin.sender_user_name:
        return f"{one_line(origin.sender_user_name)} (hidden user)"
    if origin.sender_chat is not None:
        return f"{chat_name(origin.sender_chat)} (chat{signed})"
    if origin.chat is not None:
        return f"{chat_name(origin.chat)} (channel{signed})"
    return "somebody else"


def user_name(user: TelegramUser) -> str:
    """Return what a person calls themselves."""
    named = one_line(f"{user.first_name or ''} {user.last_name or ''}")
    return named or one_line(user.username) or str(user.id)


def chat_name(chat: TelegramChat) -> str:
    """Return what a chat is called."""
    named = one_line(chat.title) or one_line(f"{chat.first_name or ''} {chat.last_name or ''}")
    return named or one_line(chat.username) or str(chat.id)


def sender_name(message: Quoted) -> str:
    """Return who wrote a message."""
    if message.sender_chat is not None:
        signed = f" ({signature})" if (signature := one_line(message.author_signature)) else ""
        return f"{chat_name(message.sender_chat)}{signed}"
    return user_name(message.from_) if message.from_ is not None else chat_name(message.chat)


def _reply(message: TelegramMessage, raw: Mapping[str, object], bot_id: int) -> str:
    replied = answered(message)
    text = ""
    if replied is not None:
        whose = f"{_whose(message, replied, bot_id)} message"
        text = short(replied, raw.get("reply_to_message"))
    elif message.external_reply is not None:
        whose = _elsewhere(message.external_reply, bot_id)
        text = short(message.external_reply, raw.get("external_reply"))
    elif message.quote is not None:
        whose = "a message"
    elif "reply_to_story" in raw:
        return "in reply to a story"
    else:
        return ""
    meant = message.quote.text if message.quote is not None else ""
    if not meant:
        return f"in reply to {whose}:\n{quoted(text)}" if text else f"in reply to {whose}"
    part = f"in reply to {whose}, to this part:\n{quoted(meant, _MEANT_MAX_CHARS)}"
    return f"{part}\nof the whole:\n{quoted(text)}" if text and text != meant else part


def _whose(message: TelegramMessage, replied: Quoted, bot_id: int) -> str:
    if replied.from_ is not None and replied.from_.id == bot_id:
        return "your"
    people = replied.sender_chat is None and message.sender_chat is None
    if people and replied.from_ is not None and message.from_ is not None and replied.from_.id == message.from_.id:
        return "their own"
    return f"{sender_name(replied)}'s"


def _elsewhere(reply: Elsewhere, bot_id: int) -> str:
    where = f" in {chat_name(reply.chat)}" if reply.chat is not None else " elsewhere"
    user = reply.origin.sender_user
    if user is not None and user.id == bot_id:
        return f"your message{where}"
    return f"a message by {forwarded_from(reply.origin)}{where}"
