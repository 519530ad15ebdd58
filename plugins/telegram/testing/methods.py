"""What a bot may call at Telegram, but for `getUpdates`: each method checks, acts on the world and returns a result."""

import re
from collections.abc import Callable
from typing import Any, Final

import trio

from daycare.testing.http_server import Params, bad
from daycare_plugins.telegram.testing import rules as rules
from daycare_plugins.telegram.testing.limits import too_many
from daycare_plugins.telegram.testing.media import sent_media
from daycare_plugins.telegram.testing.world import (
    DOWNLOAD_MAX_BYTES,
    Action,
    FakeChat,
    FakeDraft,
    FakeMessage,
    FakeReaction,
    TelegramWorld,
)

_CALLBACK_S: Final = 900.0  # for so long a pressed button can be answered
_DELETE_S: Final = 48 * 3600
_GROUP: Final = range(2, 11)
_TOKEN_OF_WEBHOOK: Final = re.compile(r"[A-Za-z0-9_-]+")


def chat_of(world: TelegramWorld, params: Params) -> FakeChat:
    """Return the chat that a call is about, or refuse."""
    name = params.text("chat_id").strip()
    if not name:
        raise bad("chat_id is empty")
    if name.startswith("@"):
        found = [chat.id for chat in world.chats.values() if chat.is_group and chat.username == name[1:]]
        if not found:
            raise bad("chat not found")
        return world.open_chat(found[0])
    if not re.fullmatch(r"-?\d{1,19}", name):
        raise bad("chat not found")
    return world.open_chat(int(name))


# -- sending ---------------------------------------------------------------------------------------------------------


def _send_message(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    text, entities, dropped = rules.words(params, "text", rules.TEXT_MAX)
    params.json("link_preview_options", dict, "link preview options")
    content = {"text": text} | ({"entities": entities} if entities else {})
    return _post(world, chat, params, content, dropped).wire


def _sender(kind: str, *numbers: str) -> Callable[[TelegramWorld, FakeChat, Params], Any]:
    """Return the method that sends a file; `numbers` and the strings of audio are taken over into the message."""

    def send(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
        content, dropped = _caption(params)
        details: dict[str, Any] = {name: params.integer(name) for name in numbers if name in params}
        if kind == "audio":
            details |= {name: params.text(name) for name in ("performer", "title") if name in params}
        content[kind] = sent_media(world, params, kind, params.text(kind), details, kind)
        return _post(world, chat, params, content, dropped).wire

    return send


def _send_media_group(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    media = params.json("media", list, "input media")
    if media is None or len(media) not in _GROUP:
        raise bad("wrong number of items in the media group: it must include 2-10 items")
    kinds = {item.get("type") if isinstance(item, dict) else None for item in media}
    if not kinds <= {"photo", "video", "document", "audio"}:
        raise bad("can't parse InputMedia: type must be one of photo, video, document, audio")
    for alone in ("document", "audio"):
        if alone in kinds and len(kinds) > 1:
            raise bad(f"{alone} can't be mixed with other media types")
    contents = []
    for item in media:
        content, dropped = _caption(Params({**item, "entities": None}))
        value, kind = str(item.get("media", "")), item["type"]
        content[kind] = sent_media(world, params, kind, value, {}, "")
        contents.append((content, dropped))
    group = world.serial()
    _check_flood(world, chat, len(contents))
    posted = [
        _post(world, chat, params, content | {"media_group_id": group}, dropped, counted=True)
        for content, dropped in contents
    ]
    return [message.wire for message in posted]


def _caption(params: Params) -> tuple[dict[str, Any], int]:
    caption, entities, dropped = rules.words(params, "caption", rules.CAPTION_MAX, least=0)
    content: dict[str, Any] = {"caption": caption} if caption else {}
    return content | ({"caption_entities": entities} if entities else {}), dropped


def _post(
    world: TelegramWorld,
    chat: FakeChat,
    params: Params,
    content: dict[str, Any],
    dropped: int,
    *,
    counted: bool = False,
) -> FakeMessage:
    """Check what all messages of the bot have, and post it."""
    if chat.bot == "restricted":
        raise bad("not enough rights to send text messages to the chat")
    thread = rules.thread(params, chat)
    effect = rules.effect(params, chat)
    markup = rules.keyboard(params)
    answered, quote = rules.replied(params, chat)
    silent = params.flag("disable_notification")
    if not counted:
        _check_flood(world, chat, 1)
    wire = world.skeleton(chat, world.me, thread)
    world.answering(chat, wire, answered.id if answered else None)
    wire |= content
    if quote and answered:
        wire["quote"] = {"text": quote, "position": answered.text.index(quote), "is_manual": True}
    if markup:
        wire["reply_markup"] = markup
    if effect:
        wire["effect_id"] = effect
    message = FakeMessage(
        wire=wire,
        chat_id=chat.id,
        by_bot=True,
        at=trio.current_time(),
        entities_dropped=dropped,
        silent=silent,
        effect_id=effect,
    )
    world.store(chat, message)
    world.tell(message)
    return message


def _check_flood(world: TelegramWorld, chat: FakeChat, messages: int) -> None:
    world.flood.count(chat.id, chat.is_group, messages, trio.current_time())


def _send_chat_action(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    action = params.text("action")
    if action not in rules.ACTIONS:
        raise bad("wrong parameter action in request")
    thread = params.integer("message_thread_id") or None
    if thread is not None and thread != 1 and thread not in chat.topics:
        raise bad("message thread not found")
    world.actions.append(Action(chat_id=chat.id, action=action, thread_id=thread, at=trio.current_time()))
    return True


def _send_message_draft(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    if chat.type != "private":
        raise bad("TEXTDRAFT_PEER_INVALID")
    number = params.integer("draft_id")
    if number == 0:
        raise bad("RANDOM_ID_INVALID")
    text, entities, dropped = rules.words(params, "text", rules.TEXT_MAX, least=0)
    thread = rules.thread(params, chat)
    draft = FakeDraft(
        chat_id=chat.id,
        draft_id=number,
        text=text,
        entities=entities,
        entities_dropped=dropped,
        thread_id=thread,
        can_stop=params.flag("can_stop"),
        at=trio.current_time(),
    )
    world.drafts.append(draft)
    return True


# -- what was sent ---------------------------------------------------------------------------------------------------


def _own(chat: FakeChat, params: Params) -> FakeMessage:
    message = chat.messages.get(params.integer("message_id"))
    if message is None or message.deleted:
        raise bad("message to edit not found")
    if not message.by_bot:
        raise bad("message can't be edited")
    return message


def _edit_message_text(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    text, entities, dropped = rules.words(params, "text", rules.TEXT_MAX)
    message = _own(chat, params)
    if "text" not in message.wire:
        raise bad("there is no text in the message to edit")
    change = {"text": text} | ({"entities": entities} if entities else {})
    return _edit(world, chat, params, message, ("text", "entities"), change, dropped)


def _edit_message_caption(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    change, dropped = _caption(params)
    message = _own(chat, params)
    if message.kind not in ("photo", "document", "voice", "audio", "video", "animation"):
        raise bad("there is no caption in the message to edit")
    return _edit(world, chat, params, message, ("caption", "caption_entities"), change, dropped)


def _edit_message_reply_markup(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    return _edit(world, chat, params, _own(chat, params), (), {}, None)


def _edit(
    world: TelegramWorld,
    chat: FakeChat,
    params: Params,
    message: FakeMessage,
    fields: tuple[str, ...],
    change: dict[str, Any],
    dropped: int | None,
) -> Any:
    """Put `change` in the place of `fields` and of the keyboard: one that is not given again is gone."""
    markup = rules.keyboard(params, inline_only=True)
    wire = {name: value for name, value in message.wire.items() if name not in (*fields, "reply_markup")} | change
    if markup:
        wire["reply_markup"] = markup
    if wire == message.wire:
        raise bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a "
            "current content and reply markup of the message"
        )
    _check_flood(world, chat, 1)
    if dropped is not None:
        message.edits.append(message.text)
        message.entities_dropped = dropped
    message.wire = wire | {"edit_date": world.now()}
    world.tell(message)
    return message.wire


def _delete_message(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    message = chat.messages.get(params.integer("message_id"))
    if message is None or message.deleted:
        raise bad("message to delete not found")
    others = not message.by_bot and chat.is_group and chat.bot != "administrator"
    if others or world.now() - message.wire["date"] > _DELETE_S:
        raise bad("message can't be deleted")
    message.deleted = True
    return True


def _set_message_reaction(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    wanted = rules.reactions(params)
    params.flag("is_big")
    message = chat.messages.get(params.integer("message_id"))
    if message is None or message.deleted:
        raise bad("message to react not found")
    message.reactions = wanted
    emoji = [reaction["emoji"] for reaction in wanted]
    world.reactions.append(FakeReaction(chat_id=chat.id, message_id=message.id, emoji=emoji, at=trio.current_time()))
    return True


# -- chats -----------------------------------------------------------------------------------------------------------


def _get_chat(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    gifts = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
    more: dict[str, Any] = {"accent_color_id": 0, "max_reaction_count": 11}
    more["accepted_gift_types"] = dict.fromkeys(gifts, False)
    if chat.is_group:
        more["permissions"] = {"can_send_messages": chat.bot != "restricted"}
    return chat.wire | more


def _leave_chat(world: TelegramWorld, chat: FakeChat, params: Params) -> Any:
    if not chat.is_group:
        raise bad("chat member status can't be changed in private chats")
    chat.bot = "left"
    return True


# -- the bot itself --------------------------------------------------------------------------------------------------


def _get_me(world: TelegramWorld, params: Params) -> Any:
    return world.me.wire | {
        "can_join_groups": True,
        "can_read_all_group_messages": not world.privacy,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": False,
    }


def _answer_callback_query(world: TelegramWorld, params: Params) -> Any:
    callback = world.callbacks.get(params.text("callback_query_id"))
    if callback is None or callback.answer is not None or trio.current_time() - callback.at > _CALLBACK_S:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    if len(params.text("text")) > 200:
        raise bad("MESSAGE_TOO_LONG")
    callback.answer = {"text": params.text("text"), "show_alert": params.flag("show_alert")}
    world.answered_callbacks.append(callback)
    return True


def _set_my_commands(world: TelegramWorld, params: Params) -> Any:
    world.commands[rules.command_scope(params)] = rules.commands(params)
    return True


def _get_my_commands(world: TelegramWorld, params: Params) -> Any:
    return world.commands.get(rules.command_scope(params), [])


def _delete_my_commands(world: TelegramWorld, params: Params) -> Any:
    world.commands.pop(rules.command_scope(params), None)
    return True


def _get_file(world: TelegramWorld, params: Params) -> Any:
    file = world.files.get(params.text("file_id"))
    if file is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if file.size > DOWNLOAD_MAX_BYTES:
        raise bad("file is too big")
    fields = {"file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.size}
    return fields | {"file_path": file.path}


def _set_webhook(world: TelegramWorld, params: Params) -> Any:
    url = params.text("url")
    secret = params.text("secret_token")
    if not url:
        return _delete_webhook(world, params)
    now = trio.current_time()
    if now < world.webhook_settable_at:
        raise too_many(world.webhook_settable_at - now)
    world.webhook_settable_at = now + 1.0
    if not re.match(r"https://|http://(127\.0\.0\.1|localhost|\[::1\])[:/]", url):
        raise bad("bad webhook: An HTTPS URL must be provided for webhook")
    if len(secret) > 256:
        raise bad("secret token is too long")
    if secret and not _TOKEN_OF_WEBHOOK.fullmatch(secret):
        raise bad("secret token contains unallowed characters")
    allow(world, params)
    if params.flag("drop_pending_updates"):
        world.queue.drop()
    world.webhook = {"url": url, "secret_token": secret, "max_connections": params.integer("max_connections", 40)}
    world.queue.end_poll("Conflict: terminated by setWebhook request")
    return True


def _delete_webhook(world: TelegramWorld, params: Params) -> Any:
    if params.flag("drop_pending_updates"):
        world.queue.drop()
    world.webhook = {}
    return True


def _get_webhook_info(world: TelegramWorld, params: Params) -> Any:
    shown = {name: value for name, value in world.webhook.items() if name != "secret_token"}
    return {"url": "", "has_custom_certificate": False, "pending_update_count": len(world.queue)} | shown


def allow(world: TelegramWorld, params: Params) -> None:
    """Take over the kinds of updates that the bot wants from now on, if it says so."""
    kinds = params.json("allowed_updates", list, "allowed updates")
    if kinds is not None:
        world.queue.allow([kind for kind in kinds if isinstance(kind, str)])


_FILES: Final = {
    "sendPhoto": _sender("photo"),
    "sendDocument": _sender("document"),
    "sendVoice": _sender("voice", "duration"),
    "sendAudio": _sender("audio", "duration"),
    "sendVideo": _sender("video", "duration", "width", "height"),
}
IN_CHATS: Final[dict[str, Callable[[TelegramWorld, FakeChat, Params], Any]]] = {
    "sendMessage": _send_message,
    **_FILES,
    "sendMediaGroup": _send_media_group,
    "sendChatAction": _send_chat_action,
    "sendMessageDraft": _send_message_draft,
    "editMessageText": _edit_message_text,
    "editMessageCaption": _edit_message_caption,
    "editMessageReplyMarkup": _edit_message_reply_markup,
    "deleteMessage": _delete_message,
    "setMessageReaction": _set_message_reaction,
    "getChat": _get_chat,
    "leaveChat": _leave_chat,
}
OF_THE_BOT: Final[dict[str, Callable[[TelegramWorld, Params], Any]]] = {
    "getMe": _get_me,
    "answerCallbackQuery": _answer_callback_query,
    "setMyCommands": _set_my_commands,
    "getMyCommands": _get_my_commands,
    "deleteMyCommands": _delete_my_commands,
    "getFile": _get_file,
    "setWebhook": _set_webhook,
    "deleteWebhook": _delete_webhook,
    "getWebhookInfo": _get_webhook_info,
}
