"""What the real Bot API refuses: keyboards, commands, reactions and answers that are not as they should be."""

import re
from typing import Any, Final

from daycare.testing.http_server import Params, bad
from daycare_plugins.telegram.testing.entities import KEPT_MAX, Entity, checked, parse, trimmed, utf16_len
from daycare_plugins.telegram.testing.world import GENERAL_TOPIC, FakeChat, FakeMessage

TEXT_MAX: Final = 4096
CAPTION_MAX: Final = 1024
CALLBACK_DATA_MAX_BYTES: Final = 64
ACTIONS: Final = frozenset(
    {
        *("typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice"),
        *("upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note"),
    }
)
_EMOJI: Final = (
    "👍|👎|❤|🔥|🥰|👏|😁|🤔|🤯|😱|🤬|😢|🎉|🤩|🤮|💩|🙏|👌|🕊|🤡|🥱|🥴|😍|🐳|❤\u200d🔥|🌚|"
    "🌭|💯|🤣|⚡|🍌|🏆|💔|🤨|😐|🍓|🍾|💋|🖕|😈|😴|😭|🤓|👻|👨\u200d💻|👀|🎃|🙈|😇|😨|"
    "🤝|✍|🤗|🫡|🎅|🎄|☃|💅|🤪|🗿|🆒|💘|🙉|🦄|😘|💊|🙊|😎|👾|🤷\u200d♂|🤷|🤷\u200d♀|😡"
)
REACTIONS: Final = frozenset(_EMOJI.split("|"))
_COMMANDS_MAX: Final = 100
_BUTTONS_MAX: Final = 100
_BUTTON_KINDS: Final = (
    *("url", "callback_data", "web_app", "login_url", "switch_inline_query", "switch_inline_query_current_chat"),
    *("switch_inline_query_chosen_chat", "copy_text", "callback_game", "pay"),
)


def reaction_emoji(emoji: str) -> str:
    """Return an emoji without its variation selectors: clients send it with and without."""
    return emoji.replace("\ufe0f", "")


def words(params: Params, name: str, most: int, *, least: int = 1) -> tuple[str, list[Entity], int]:
    """Return the plain text, the entities and how many of them were ignored, of `text` or `caption`."""
    prefix = "caption_" if name == "caption" else ""
    mode = params.text("parse_mode")
    explicit = None if mode else params.json(f"{prefix}entities", list, f"{prefix}entities")
    raw = params.text(name)
    if any(0xD800 <= ord(char) < 0xE000 for char in raw):
        raise bad("strings must be encoded in UTF-8")
    if explicit is not None:
        text, entities = raw, checked(raw, explicit)
    else:
        text, entities = parse(raw, mode)
    length = utf16_len(text)
    text, entities = trimmed(text, entities)
    if not text and least:
        raise bad("message text is empty")
    if length > most:
        raise bad("message is too long" if name == "text" else "message caption is too long")
    return text, entities[:KEPT_MAX], max(len(entities) - KEPT_MAX, 0)


def keyboard(params: Params, *, inline_only: bool = False) -> dict[str, Any] | None:
    """Return the checked reply markup."""
    markup: dict[str, Any] | None = params.json("reply_markup", dict, "reply markup")
    if not markup:
        return None
    if "inline_keyboard" not in markup:
        if inline_only:
            raise bad("inline keyboard expected")
        if not {"keyboard", "remove_keyboard", "force_reply"} & markup.keys():
            raise bad("can't parse reply keyboard markup JSON object")
        return None
    rows = markup["inline_keyboard"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise bad('can\'t parse inline keyboard: field "inline_keyboard" must be an Array of Arrays')
    if sum(len(row) for row in rows) > _BUTTONS_MAX:
        raise bad("reply markup is too long")
    for button in (button for row in rows for button in row):
        _check_button(button)
    kept = [row for row in rows if row]
    return {"inline_keyboard": kept} if kept else None


def _check_button(button: Any) -> None:
    if not isinstance(button, dict):
        raise bad("can't parse inline keyboard button: InlineKeyboardButton must be an Object")
    text = button.get("text")
    if not isinstance(text, str):
        raise bad("can't parse inline keyboard button: can't find field \"text\"")
    if not text.strip():
        raise bad("can't parse inline keyboard button: text buttons must have a non-empty text")
    kinds = [kind for kind in _BUTTON_KINDS if kind in button]
    if len(kinds) != 1:
        raise bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
    data = button.get("callback_data")
    if kinds == ["callback_data"]:
        if not isinstance(data, str):
            raise bad('can\'t parse inline keyboard button: field "callback_data" must be of type String')
        if not 1 <= len(data.encode()) <= CALLBACK_DATA_MAX_BYTES:
            raise bad("BUTTON_DATA_INVALID")
    if kinds == ["url"] and not re.match(r"(https?|tg|ton)://\S+$|[\w-]+(\.[\w-]+)+", str(button["url"])):
        raise bad(f"inline keyboard button URL '{button['url']}' is invalid: unsupported URL protocol")


def thread(params: Params, chat: FakeChat) -> int | None:
    """Return the topic that is sent to."""
    number = params.integer("message_thread_id")
    if not number:
        return None
    if number == GENERAL_TOPIC and chat.forum:
        raise bad("message thread not found")  # the general topic is written to without a thread id
    if number not in chat.topics:
        raise bad("message thread not found")
    if number in chat.closed_topics:
        raise bad("TOPIC_CLOSED")
    return number


def effect(params: Params, chat: FakeChat) -> str | None:
    """Return the effect with which a message comes."""
    number = params.text("message_effect_id")
    if number and (chat.type != "private" or not number.isdecimal()):
        raise bad("EFFECT_ID_INVALID")
    return number or None


def replied(params: Params, chat: FakeChat) -> tuple[FakeMessage | None, str | None]:
    """Return the message that is answered, and the words that are quoted from it."""
    wanted: dict[str, Any] | None = params.json("reply_parameters", dict, "reply parameters")
    if wanted is None:
        number = params.integer("reply_to_message_id")
        wanted = {"message_id": number} if number else {}
        if params.flag("allow_sending_without_reply"):
            wanted["allow_sending_without_reply"] = True
    if not wanted:
        return None, None
    message_id = wanted.get("message_id")
    if isinstance(message_id, str) and message_id.lstrip("-").isdecimal():
        message_id = int(message_id)
    if not isinstance(message_id, int) or isinstance(message_id, bool):
        raise bad('can\'t parse reply parameters: field "message_id" must be of type Number')
    if wanted.get("chat_id") not in (None, chat.id, str(chat.id)):
        raise bad("replies to other chats are not known to this server")
    message = chat.messages.get(message_id)
    if message is None or message.deleted:
        if not wanted.get("allow_sending_without_reply"):
            raise bad("message to be replied not found")
        return None, None
    quote = wanted.get("quote")
    if quote:
        quote, _ = parse(str(quote), str(wanted.get("quote_parse_mode") or ""))
        if quote not in message.text:
            raise bad("QUOTE_TEXT_INVALID")
    return message, quote or None


def reactions(params: Params) -> list[dict[str, Any]]:
    """Return the checked reactions of `setMessageReaction`: a bot may have one."""
    wanted: list[Any] = params.json("reaction", list, "reactions") or []
    for reaction in wanted:
        if not isinstance(reaction, dict) or reaction.get("type") not in ("emoji", "custom_emoji", "paid"):
            raise bad("can't parse reaction type: invalid reaction type specified")
        if reaction["type"] == "paid":
            raise bad("paid reactions can't be used by bots")
        if reaction["type"] == "custom_emoji" or reaction_emoji(str(reaction.get("emoji"))) not in REACTIONS:
            raise bad("REACTION_INVALID")
    if len(wanted) > 1:
        raise bad("REACTIONS_TOO_MANY")
    return wanted


def commands(params: Params) -> list[dict[str, str]]:
    """Return the checked commands of `setMyCommands`."""
    wanted = params.json("commands", list, "bot commands")
    if wanted is None:
        raise bad("commands must be specified")
    if len(wanted) > _COMMANDS_MAX:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in wanted:
        if not isinstance(command, dict) or not all(
            isinstance(command.get(name), str) for name in ("command", "description")
        ):
            raise bad("can't parse BotCommand: expected an Object with command and description")
        if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= utf16_len(command["description"].strip()) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    return [{name: command[name].strip() for name in ("command", "description")} for command in wanted]


def command_scope(params: Params) -> str:
    """Return whose commands are meant, as one string."""
    scope = params.json("scope", dict, "BotCommandScope") or {"type": "default"}
    needs = {
        **dict.fromkeys(("default", "all_private_chats", "all_group_chats", "all_chat_administrators"), ()),
        **{"chat": ("chat_id",), "chat_administrators": ("chat_id",), "chat_member": ("chat_id", "user_id")},
    }
    kind = scope.get("type")
    if kind not in needs:
        raise bad("can't parse BotCommandScope: unsupported type specified")
    if any(name not in scope for name in needs[kind]):
        raise bad("can't parse BotCommandScope: a field is missing")
    language = params.text("language_code")
    if language and not re.fullmatch(r"[a-z]{2}", language):
        raise bad("invalid language code specified")
    return ":".join(filter(None, [kind, *(str(scope[name]) for name in needs[kind]), language]))
