"""In a group only what is meant for the bot is passed on."""

import pytest

from daycare.base.connector import Inbound
from daycare.base.messages import Origin
from daycare_plugins.telegram.intake import read_batch
from daycare_plugins.telegram.overheard import Overheard
from daycare_plugins.telegram.reading import Bot, ReadingRules, join_albums, message_key, read
from daycare_plugins.telegram.settings import BotSettings
from tests.telegram.samples import (
    ANN,
    BEN,
    DATE,
    EVERY,
    FORUM,
    GROUP,
    OTHER_BOT,
    PHOTO,
    TOPIC_ROOT,
    USER_ORIGIN,
    Json,
    command,
    edited,
    entity,
    in_group,
    mentioning,
    message,
    reacted,
)
from tests.telegram.samples import (
    BOT as BOT_USER,
)

BOT = Bot(700, "Helper_Bot")
RULES = ReadingRules(connector="telegram")
ALWAYS = ReadingRules(connector="telegram", group_answers="always")
OURS = message(9, **{"from": BOT_USER, "chat": GROUP, "text": "Sure?"})


@pytest.mark.parametrize(
    "content",
    [
        command("/new"),
        command("/new@helper_bot please"),
        command("/New@HELPER_BOT"),
        mentioning("@helper_bot hi"),
        mentioning("👨‍👩‍👧 hi @helper_bot"),
        {"text": "hey you", "entities": [entity("text_mention", 0, 3, user=BOT_USER)]},
        {"text": "do /new@helper_bot", "entities": [entity("bot_command", 3, 15)]},
        {"text": "no", "reply_to_message": OURS},
        {"photo": PHOTO, "caption": "@helper_bot", "caption_entities": [entity("mention", 0, 11)]},
        {"text": "no", "external_reply": {"origin": {"type": "user", "date": DATE, "sender_user": BOT_USER}}},
    ],
)
def test_what_addresses_the_bot_is_passed_on(content: Json) -> None:
    item = read(in_group(**content), BOT, RULES).item
    assert isinstance(item, Inbound)
    assert (item.sender, item.chat, item.chat_name) == ("telegram:42", "telegram:-500", "Flat")
    assert item.origin is Origin.GROUP


@pytest.mark.parametrize(
    "content",
    [
        {"text": "hello all"},
        {"text": "@helper_bot without a mark"},
        mentioning("hi @helper_bots", "@helper_bots"),
        {"text": "say /new", "entities": [entity("bot_command", 4, 4)]},
        {"text": "hey", "entities": [entity("text_mention", 0, 3, user=BEN)]},
        {"text": "no", "reply_to_message": message(9, **{"from": BEN, "chat": GROUP, "text": "Sure?"})},
        {**mentioning("@helper_bot hi"), "forward_origin": USER_ORIGIN},
        {**command("/stop"), "forward_origin": USER_ORIGIN},
    ],
)
def test_the_rest_is_passed_on_only_where_the_rule_says_always(content: Json) -> None:
    done = read(in_group(**content), BOT, RULES)
    assert (done.item, done.why_ignored) == (None, "not addressed to the bot")
    assert isinstance(read(in_group(**content), BOT, ALWAYS).item, Inbound)
    assert isinstance(
        read(in_group(**content), BOT, ReadingRules(connector="t", overrides={-500: "always"})).item, Inbound
    )
    quiet = ReadingRules(connector="t", group_answers="always", overrides={-500: "addressed"})
    assert read(in_group(**content), BOT, quiet).item is None


@pytest.mark.parametrize("rules", [RULES, ALWAYS])
def test_a_command_for_another_bot_is_never_ours(rules: ReadingRules) -> None:
    for more in ({}, {"reply_to_message": OURS}):
        update = in_group(**command("/stop@other_bot"), **more)
        assert read(update, BOT, rules).why_ignored == "a command for another bot"
    again = edited(chat=GROUP, **command("/stop@other_bot"))
    assert read(again, BOT, rules, lambda key: False).item is None


def test_two_bots_cannot_talk_without_end() -> None:
    update = in_group(**mentioning("@helper_bot hi"), **{"from": OTHER_BOT})
    assert read(update, BOT, ALWAYS).why_ignored == "it is from another bot"


def test_an_anonymous_administrator_speaks_as_the_group() -> None:
    item = read(EVERY["anonymous"], BOT, RULES).item
    assert isinstance(item, Inbound)
    assert (item.sender, item.chat, item.name) == ("telegram:-500", "telegram:-500", "Flat")


# -- topics ------------------------------------------------------------------------------------------------------------


def test_a_topic_is_a_chat_within_its_forum() -> None:
    item = read(EVERY["topic"], BOT, RULES).item
    assert isinstance(item, Inbound)
    assert (item.chat, item.within, item.sender) == ("telegram:-1001:77", "telegram:-1001", "telegram:42")
    assert (item.chat_name, item.context) == ("Club / Cooking", "")


def test_a_message_in_a_topic_that_the_bot_opened_is_no_reply_to_it() -> None:
    update = in_group(chat=FORUM, message_thread_id=77, is_topic_message=True, reply_to_message=TOPIC_ROOT, text="hi")
    assert read(update, BOT, RULES).item is None
    root = {**TOPIC_ROOT}
    del root["forum_topic_created"]
    update["message"]["reply_to_message"] = root
    assert read(update, BOT, RULES).item is None


@pytest.mark.parametrize("more", [{}, {"message_thread_id": 55}, {"message_thread_id": 1, "is_topic_message": True}])
def test_the_general_topic_and_threads_of_replies_are_the_chat_itself(more: Json) -> None:
    item = read(in_group(chat=FORUM, text="hi", **more), BOT, ALWAYS).item
    assert isinstance(item, Inbound)
    assert (item.chat, item.within) == ("telegram:-1001", "")


# -- what only the neighbours tell -------------------------------------------------------------------------------------


def _album(number: int, **content: object) -> Json:
    return in_group(number, photo=PHOTO, media_group_id="777", **content)


def test_an_album_is_meant_as_a_whole() -> None:
    caption = {"caption": "@helper_bot look", "caption_entities": [entity("mention", 0, 11)]}
    for order in ([_album(1, **caption), _album(2), _album(3)], [_album(1), _album(2), _album(3, **caption)]):
        reads = join_albums([read(update, BOT, RULES) for update in order])
        assert [one.message_id for one in reads if one.item is not None] == [1, 2, 3]
        assert not any(one.why_ignored for one in reads)


def test_an_album_for_nobody_stays_out() -> None:
    reads = join_albums([read(_album(number), BOT, RULES) for number in (1, 2)])
    assert [one.item for one in reads] == [None, None]


def test_a_late_part_of_an_album_that_is_known_is_passed_on() -> None:
    known = {"700:-500:a:777"}
    assert read(_album(4), BOT, RULES, known.__contains__).item is not None
    waiting = read(_album(4), BOT, RULES)
    assert waiting.album == "700:-500:a:777"
    assert join_albums([waiting], known.__contains__)[0].item is not None


def test_an_edit_belongs_to_a_message_that_is_known() -> None:
    update = edited(chat=GROUP, text="without a mention now")
    assert read(update, BOT, RULES).item is None
    item = read(update, BOT, RULES, {message_key(700, -500, 10)}.__contains__).item
    assert isinstance(item, Inbound)
    assert item.edits == "700:-500:m:10"


def test_an_edit_that_comes_together_with_its_message_belongs_to_it() -> None:
    said, change = in_group(10, **mentioning("@helper_bot hi")), edited(chat=GROUP, text="without a mention now")
    first, second = read_batch([said, change], BOT, RULES, lambda key: False)
    assert isinstance(first.item, Inbound) and isinstance(second.item, Inbound)
    assert second.item.edits == first.item.key
    assert read_batch([change], BOT, RULES, lambda key: False)[0].item is None


def test_an_edit_that_names_the_bot_now_is_passed_on() -> None:
    assert read(edited(chat=GROUP, **mentioning("@helper_bot hi")), BOT, RULES).item is not None


def test_reactions_count_at_messages_that_are_known() -> None:
    update = reacted([], ["👍"], GROUP)
    assert read(update, BOT, RULES).why_ignored == "a reaction to somebody else's message"
    item = read(update, BOT, RULES, {message_key(700, -500, 12)}.__contains__).item
    assert isinstance(item, Inbound)
    assert (item.chat, item.sender, item.name) == ("telegram:-500", "telegram:42", ANN["first_name"] + " Lee")
    assert read(update, BOT, ALWAYS).item is not None


def test_last_words_of_a_group_come_with_the_message_that_addresses_the_bot() -> None:
    overheard = Overheard(2)
    reads = [
        *(read(in_group(text=f"word {n}"), BOT, RULES) for n in range(3)),
        read(in_group(**mentioning("@helper_bot who is right?")), BOT, RULES),
        read(in_group(text="later"), BOT, RULES),
    ]
    told, since = overheard.told(reads)
    assert overheard.told(reads) == (told, since), "what was not committed comes again, and is the same"
    overheard.keep(since)
    asked = told[3].item
    assert isinstance(asked, Inbound)
    assert asked.text == "@helper_bot who is right?"
    assert "word 0" not in asked.context
    assert asked.context.endswith("word 2") and all(line.startswith("> ") for line in asked.context.splitlines()[-2:])
    [again], since = overheard.told([read(in_group(**mentioning("@helper_bot and now?")), BOT, RULES)])
    overheard.keep(since)
    assert isinstance(again.item, Inbound)
    assert "later" in again.item.context and "word" not in again.item.context, "each is told once"


def test_last_words_of_a_group_are_bounded_and_off_by_default() -> None:
    reads = [
        *(read(in_group(text=f"{n}" + "x" * 4_000), BOT, RULES) for n in range(30)),
        read(in_group(**mentioning("@helper_bot hi")), BOT, RULES),
    ]
    told, _ = Overheard(20).told(reads)
    assert isinstance(told[-1].item, Inbound)
    assert 300 < len(told[-1].item.context) < 2_000
    assert BotSettings().group_context == 0
    assert Overheard(0).told(reads) == (reads, {})
