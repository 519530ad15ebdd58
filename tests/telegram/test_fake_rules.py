"""The fake Telegram server refuses what the real one refuses, with its words."""

import json
from typing import Any

import httpx
import pytest

from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.fake_client import call, done, refusal

FACE = "😀"


async def test_a_text_has_4096_utf16_units_after_parsing() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        assert await refusal(server, "sendMessage", chat_id=5, text="") == "Bad Request: message text is empty"
        assert await refusal(server, "sendMessage", chat_id=5) == "Bad Request: message text is empty"
        assert "text is empty" in await refusal(server, "sendMessage", chat_id=5, text=" \n\t ")
        assert "text is empty" in await refusal(server, "sendMessage", chat_id=5, text="<b></b>", parse_mode="HTML")
        too_long = "Bad Request: message is too long"
        assert await refusal(server, "sendMessage", chat_id=5, text="x" * 4097) == too_long
        assert await refusal(server, "sendMessage", chat_id=5, text=FACE * 2049) == too_long
        assert len((await done(server, "sendMessage", chat_id=5, text=FACE * 2048))["text"]) == 2048
        markup = "<b>" + "&lt;" * 4096 + "</b>"
        assert (await done(server, "sendMessage", chat_id=5, text=markup, parse_mode="HTML"))["text"] == "<" * 4096
        sent = await done(server, "sendMessage", chat_id=5, text=" \n a b \n")
        assert sent["text"] == "a b"


async def test_a_caption_has_1024_units_and_may_be_empty() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        file_id = server.document(ann, ann, b"x").wire["document"]["file_id"]
        assert "caption" not in await done(server, "sendDocument", chat_id=5, document=file_id)
        await done(server, "sendDocument", chat_id=5, document=file_id, caption=FACE * 512)
        too_long = await refusal(server, "sendDocument", chat_id=5, document=file_id, caption="x" * 1025)
        assert too_long == "Bad Request: message caption is too long"


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ({"type": "bold", "offset": 0, "length": 6}, "ends after the end"),
        ({"type": "bold", "offset": 2, "length": 1}, "in the middle of a UTF-16 symbol"),
        ({"type": "bold", "offset": 1, "length": 1}, "in the middle of a UTF-16 symbol"),
        ({"type": "bold", "offset": -1, "length": 1}, "negative"),
        ({"type": "bold", "offset": 0, "length": 0}, "no length"),
        ({"type": "blink", "offset": 0, "length": 1}, "Unsupported type"),
        ({"type": "bold", "offset": "0", "length": 1}, "type Number"),
        ({"type": "text_link", "offset": 0, "length": 1}, "url"),
        ("bold", "expected an Object"),
    ],
)
async def test_entities_must_fit_the_text(entity: Any, words: str) -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        said = await refusal(server, "sendMessage", chat_id=5, text=f"a{FACE}bc", entities=[entity])
        assert said.startswith("Bad Request: ") and words in said
        assert not server.sent(5)


async def test_more_than_a_hundred_entities_are_ignored_in_silence_but_seen() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        entities = [{"type": "bold", "offset": at, "length": 1} for at in range(0, 240, 2)]
        sent = await done(server, "sendMessage", chat_id=5, text="x-" * 120, entities=entities)
        assert len(sent["entities"]) == 100
        assert server.sent(5)[0].entities_dropped == 20
        await done(server, "editMessageText", chat_id=5, message_id=sent["message_id"], text="y")
        assert server.sent(5)[0].entities_dropped == 0


async def test_an_entity_is_cut_with_the_blanks_that_it_covers() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        sent = await done(
            server, "sendMessage", chat_id=5, text="  x y  ", entities=[{"type": "bold", "offset": 4, "length": 3}]
        )
        assert (sent["text"], sent["entities"]) == ("x y", [{"type": "bold", "offset": 2, "length": 1}])


async def test_chats_that_cannot_be_written_to_say_why() -> None:
    async with FakeTelegram.serve() as server:
        ann, bob, eve = server.person(5), server.person(6, started=False), server.person(7)
        group = server.group(-100200, "Team")
        basic = server.group(-300, "Basic", kind="group")
        server.membership(ann, "kicked")
        server.membership(eve, "deactivated")
        wanted: dict[Any, tuple[int, str]] = {
            99: (400, "Bad Request: chat not found"),
            "@nobody": (400, "Bad Request: chat not found"),
            "x": (400, "Bad Request: chat not found"),
            "": (400, "Bad Request: chat_id is empty"),
            5: (403, "Forbidden: bot was blocked by the user"),
            6: (403, "Forbidden: bot can't initiate conversation with a user"),
            7: (403, "Forbidden: user is deactivated"),
        }
        for chat_id, expected in wanted.items():
            answer = await call(server, "sendMessage", chat_id=chat_id, text="hi")
            assert (answer["error_code"], answer["description"]) == expected
        server.say(bob, bob, "/start")
        assert await done(server, "sendMessage", chat_id=6, text="hi")
        server.membership(group, "kicked", by=6)
        kicked = "Forbidden: bot was kicked from the supergroup chat"
        assert await refusal(server, "sendMessage", chat_id=-100200, text="hi") == kicked
        assert await done(server, "leaveChat", chat_id=-300)
        assert "not a member of the group chat" in await refusal(server, "sendMessage", chat_id=basic.id, text="hi")
        assert "private chats" in await refusal(server, "leaveChat", chat_id=6)


async def test_a_migrated_group_names_its_new_id() -> None:
    async with FakeTelegram.serve() as server:
        group = server.group(-300, kind="group")
        new = server.migrate(group, by=5)
        answer = await call(server, "sendMessage", chat_id=-300, text="hi")
        assert answer["description"] == "Bad Request: group chat was upgraded to a supergroup chat"
        assert answer["parameters"] == {"migrate_to_chat_id": new.id} and str(new.id).startswith("-100")
        assert await done(server, "sendMessage", chat_id=new.id, text="hi")


async def test_replies_need_their_message() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        said = server.say(ann, ann, "one two three")
        to = {"chat_id": 5, "text": "x"}
        lost = await refusal(server, "sendMessage", **to, reply_parameters={"message_id": 999})
        assert lost == "Bad Request: message to be replied not found"
        sent = await done(
            server, "sendMessage", **to, reply_parameters={"message_id": 999, "allow_sending_without_reply": True}
        )
        assert "reply_to_message" not in sent
        quoted = {"message_id": said.id, "quote": "two"}
        sent = await done(server, "sendMessage", **to, reply_parameters=quoted)
        assert sent["reply_to_message"]["message_id"] == said.id and sent["quote"]["position"] == 4
        quoted["quote"] = "four"
        assert "QUOTE_TEXT_INVALID" in await refusal(server, "sendMessage", **to, reply_parameters=quoted)
        assert await refusal(server, "sendMessage", **to, reply_parameters={"chat_id": 5})
        assert "object expected" in await refusal(server, "sendMessage", **to, reply_parameters=[said.id])


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ("{", "can't parse reply markup JSON object"),
        ([], "object expected as reply markup"),
        ({"inline_keyboard": [{"text": "a"}]}, "Array of Arrays"),
        ({"inline_keyboard": [[{"text": "a"}]]}, "Text buttons are unallowed"),
        ({"inline_keyboard": [[{"text": "", "callback_data": "x"}]]}, "non-empty"),
        ({"inline_keyboard": [[{"callback_data": "x"}]]}, "text"),
        ({"inline_keyboard": [[{"text": "a", "callback_data": ""}]]}, "BUTTON_DATA_INVALID"),
        ({"inline_keyboard": [[{"text": "a", "callback_data": "ä" * 33}]]}, "BUTTON_DATA_INVALID"),
        ({"inline_keyboard": [[{"text": "a", "callback_data": "x", "url": "https://x.y"}]]}, "unallowed"),
        ({"inline_keyboard": [[{"text": "a", "url": "javascript:1"}]]}, "unsupported URL protocol"),
        ({"inline_keyboard": [[{"text": "a", "callback_data": "x"}] * 101]}, "too long"),
        ({"nonsense": 1}, "can't parse"),
    ],
)
async def test_keyboards_are_checked(markup: Any, words: str) -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        assert words in await refusal(server, "sendMessage", chat_id=5, text="x", reply_markup=markup)


async def test_sixty_four_bytes_of_button_data_are_fine() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "ä" * 32}], []]}
        sent = await done(server, "sendMessage", chat_id=5, text="x", reply_markup=json.dumps(keyboard))
        assert sent["reply_markup"]["inline_keyboard"] == [[{"text": "a", "callback_data": "ä" * 32}]]


async def test_edits_need_a_message_of_the_bot_and_a_change() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        theirs = server.say(ann, ann, "mine")
        keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "b"}]]}
        number = (await done(server, "sendMessage", chat_id=5, text="x", reply_markup=keyboard))["message_id"]
        same = "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
        edit = {"chat_id": 5, "message_id": number}
        said = await refusal(server, "editMessageText", **edit, text="x", reply_markup=keyboard)
        assert said == f"{same} same as a current content and reply markup of the message"
        edited = await done(server, "editMessageText", **edit, text="x")
        assert "reply_markup" not in edited and edited["edit_date"]
        assert same in await refusal(server, "editMessageReplyMarkup", **edit)
        assert await done(server, "editMessageReplyMarkup", **edit, reply_markup=keyboard)
        assert server.sent(5)[0].text == "x" and server.sent(5)[0].keyboard
        assert "message to edit not found" in await refusal(
            server, "editMessageText", chat_id=5, message_id=999, text="y"
        )
        assert "can't be edited" in await refusal(server, "editMessageText", chat_id=5, message_id=theirs.id, text="y")
        assert "too long" in await refusal(server, "editMessageText", **edit, text="y" * 4097)


async def test_deleting_needs_the_right_to() -> None:
    async with FakeTelegram.serve() as server:
        ann, group = server.person(5), server.group(-100200)
        private, public = server.say(ann, ann, "a"), server.say(group, ann, "b")
        assert await done(server, "deleteMessage", chat_id=5, message_id=private.id)
        assert "to delete not found" in await refusal(server, "deleteMessage", chat_id=5, message_id=private.id)
        assert "can't be deleted" in await refusal(server, "deleteMessage", chat_id=group.id, message_id=public.id)
        server.membership(group, "administrator", by=ann)
        assert await done(server, "deleteMessage", chat_id=group.id, message_id=public.id)


async def test_topics_exist_in_forums_only_and_effects_in_private_chats_only() -> None:
    async with FakeTelegram.serve() as server:
        ann, plain, forum = server.person(5), server.group(-100200), server.group(-100300, forum=True)
        thread = server.topic(forum, "Cooking", by=ann)
        sent = await done(server, "sendMessage", chat_id=forum.id, text="x", message_thread_id=thread)
        assert sent["message_thread_id"] == thread and sent["is_topic_message"]
        assert sent["reply_to_message"]["forum_topic_created"]["name"] == "Cooking"
        missing = "Bad Request: message thread not found"
        for chat_id, number in ((forum.id, 999), (plain.id, thread), (5, thread), (forum.id, 1)):
            assert await refusal(server, "sendMessage", chat_id=chat_id, text="x", message_thread_id=number) == missing
        server.close_topic(forum, thread, by=ann)
        closed = await refusal(server, "sendMessage", chat_id=forum.id, text="x", message_thread_id=thread)
        assert closed == "Bad Request: TOPIC_CLOSED"
        effect = {"text": "x", "message_effect_id": "5104841245755180586"}
        assert (await done(server, "sendMessage", chat_id=5, **effect))["effect_id"] == effect["message_effect_id"]
        assert "EFFECT_ID_INVALID" in await refusal(server, "sendMessage", chat_id=plain.id, **effect)


async def test_drafts_reactions_actions_and_callbacks_are_checked() -> None:
    async with FakeTelegram.serve() as server:
        ann, group = server.person(5), server.group(-100200)
        said = server.say(ann, ann, "hi")
        draft = {"draft_id": 1, "text": "x"}
        assert "TEXTDRAFT_PEER_INVALID" in await refusal(server, "sendMessageDraft", chat_id=group.id, **draft)
        assert await refusal(server, "sendMessageDraft", chat_id=5, draft_id=0, text="x")
        assert "too long" in await refusal(server, "sendMessageDraft", chat_id=5, draft_id=1, text="x" * 4097)
        assert await done(server, "sendMessageDraft", chat_id=5, draft_id=1)
        react = {"chat_id": 5, "message_id": said.id}
        emoji = [{"type": "emoji", "emoji": "👀"}]
        assert await done(server, "setMessageReaction", **react, reaction=emoji)
        assert await done(server, "setMessageReaction", **react, reaction=[{"type": "emoji", "emoji": "❤️"}])
        assert await done(server, "setMessageReaction", **react) and said.reactions == []
        assert "REACTION_INVALID" in await refusal(
            server, "setMessageReaction", **react, reaction=[{"type": "emoji", "emoji": "🦜"}]
        )
        assert "REACTIONS_TOO_MANY" in await refusal(server, "setMessageReaction", **react, reaction=emoji * 2)
        assert "not found" in await refusal(server, "setMessageReaction", chat_id=5, message_id=99, reaction=emoji)
        assert "wrong parameter action" in await refusal(server, "sendChatAction", chat_id=5, action="dancing")
        old = "Bad Request: query is too old and response timeout expired or query ID is invalid"
        assert await refusal(server, "answerCallbackQuery", callback_query_id="1") == old
        keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "b"}]]}
        await done(server, "sendMessage", chat_id=5, text="x", reply_markup=keyboard)
        query = server.press(server.sent(5)[0], "b")
        assert await refusal(server, "answerCallbackQuery", callback_query_id=query, text="x" * 201)
        assert await done(server, "answerCallbackQuery", callback_query_id=query, text="done")
        assert server.answered_callbacks[0].answer == {"text": "done", "show_alert": False}
        assert await refusal(server, "answerCallbackQuery", callback_query_id=query) == old
        with pytest.raises(ValueError, match="no button"):
            server.press(server.sent(5)[0], "c")


async def test_commands_are_checked_and_kept_by_scope() -> None:
    async with FakeTelegram.serve() as server:
        for name, description in (("Help", "x"), ("a" * 33, "x"), ("a-b", "x"), ("", "x"), ("/a", "x")):
            said = await refusal(server, "setMyCommands", commands=[{"command": name, "description": description}])
            assert said == "Bad Request: BOT_COMMAND_INVALID"
        for description in ("", "x" * 257):
            said = await refusal(server, "setMyCommands", commands=[{"command": "a", "description": description}])
            assert said == "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"
        many = [{"command": f"c{number}", "description": "x"} for number in range(101)]
        assert "TOO_MUCH" in await refusal(server, "setMyCommands", commands=many)
        assert await done(server, "setMyCommands", commands=many[:100])
        scope = {"type": "chat", "chat_id": 5}
        assert await done(server, "setMyCommands", commands=many[:1], scope=scope, language_code="de")
        assert await done(server, "getMyCommands", scope=scope, language_code="de") == many[:1]
        assert await done(server, "getMyCommands", scope=scope) == []
        assert list(server.commands) == ["default", "chat:5:de"]
        assert await refusal(server, "setMyCommands", commands=[], scope={"type": "planet"})


async def test_files_are_checked() -> None:
    async with FakeTelegram.serve() as server, httpx.AsyncClient(trust_env=False, verify=False) as client:
        ann = server.person(5)
        huge = server.document(ann, ann, None, "huge.bin", size=20_000_001).wire["document"]["file_id"]
        large = server.document(ann, ann, None, "large.bin", size=20_000_000).wire["document"]["file_id"]
        assert await refusal(server, "getFile", file_id=huge) == "Bad Request: file is too big"
        assert await done(server, "getFile", file_id=large)
        assert "wrong file_id" in await refusal(server, "getFile", file_id="nonsense")
        assert "wrong file identifier" in await refusal(server, "sendPhoto", chat_id=5, photo="nonsense")
        assert "no photo in the request" in await refusal(server, "sendPhoto", chat_id=5)
        url = f"{server.base_url}{server.token}"

        async def upload(method: str, content: bytes) -> str:
            name = method.removeprefix("send").lower()
            sent = await client.post(f"{url}/{method}", data={"chat_id": "5"}, files={name: ("f", content)})
            return str(sent.json().get("description", "ok"))

        assert "IMAGE_PROCESS_FAILED" in await upload("sendPhoto", b"no image")
        assert "non-empty" in await upload("sendDocument", b"")
        assert await upload("sendDocument", b"no image") == "ok"
        assert "too big" in await upload("sendPhoto", b"\xff\xd8\xff" + bytes(10_000_001))
        media = [{"type": "photo", "media": "x"}, {"type": "document", "media": "x"}]
        assert "can't be mixed" in await refusal(server, "sendMediaGroup", chat_id=5, media=media)
        assert "2-10" in await refusal(server, "sendMediaGroup", chat_id=5, media=media[:1])


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        *(("MarkdownV2", text) for text in ("*x", "_x*y_*", "`x", "```x", "[x]", "[x](y", "a.b", "1-2", "x!", "|x|")),
        *(("HTML", text) for text in ("<b>x", "x</b>", "<b>x</i>", "a < b", "<div>x</div>", "<br/>", "<b", "<span>x")),
        *(("Markdown", text) for text in ("*x", "`x", "_x")),
    ],
)
async def test_unbalanced_markup_is_refused(mode: str, text: str) -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        said = await refusal(server, "sendMessage", chat_id=5, text=text, parse_mode=mode)
        assert said.startswith("Bad Request: can't parse entities: ")
        assert "unsupported parse_mode" in await refusal(server, "sendMessage", chat_id=5, text=text, parse_mode="Word")


async def test_parameters_of_a_wrong_type_are_refused() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        wrongs: list[dict[str, Any]] = [{"message_thread_id": "x"}, {"disable_notification": "maybe"}, {"entities": {}}]
        for wrong in wrongs:
            assert await refusal(server, "sendMessage", chat_id=5, text="x", **wrong)
