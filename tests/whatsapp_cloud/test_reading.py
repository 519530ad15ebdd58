"""Messages of every kind as Meta writes them, and whatever else may come."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.connector import Inbound, RemoteFile, Unreadable
from daycare.base.messages import Origin
from daycare_plugins.whatsapp_cloud.reading import Raw, read, unpack
from daycare_plugins.whatsapp_cloud.receipts import Status

ANN = "4915112345678"
NAME = "whatsapp-cloud"


def raw(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"from": ANN, "id": "wamid.eA==", "timestamp": "1749416383", "type": kind, kind: content} | more


class _Words(dict[str, str]):
    def get_or_empty(self, key: str) -> str:
        return self.get(key, "")


def said(message: Any) -> Inbound:
    item = read(Raw(message, "Ann"), NAME, lambda who: who, _Words({"wamid.known": "the words"}).get_or_empty).item
    assert isinstance(item, Inbound), item
    return item


def test_a_text_is_its_words_and_whose_they_are() -> None:
    item = said(raw("text", {"body": "hi\n*there*"}))
    assert (item.text, item.sender, item.key, item.name) == ("hi\n*there*", f"{NAME}:{ANN}", "wamid.eA==", "Ann")
    assert (item.message, item.at_ms, item.origin, item.kind) == ("wamid.eA==", 1749416383000, Origin.PERSON, "message")


@pytest.mark.parametrize(
    ("kind", "content", "text", "context"),
    [
        ("location", {"latitude": 50.5, "longitude": 7, "name": "Bonn"}, "[location: 50.5, 7]", "place: Bonn"),
        ("location", {"latitude": "x"}, "[location: unknown]", ""),
        (
            "contacts",
            [{"name": {"formatted_name": "Bob\n"}, "phones": [{"phone": "+49 1"}], "emails": [{"email": "b@x.org"}]}],
            "[shared 1 contact]",
            "contact: Bob, +49 1, b@x.org",
        ),
        ("button", {"text": "Yes", "payload": "yes please"}, "yes please", ""),
        ("interactive", {"type": "list_reply", "list_reply": {"id": "#3", "title": "cut", "description": "whole"}},
         "whole", ""),
        ("interactive", {"type": "nfm_reply", "nfm_reply": {"response_json": '{"a":1}'}}, "[filled in a form]",
         'what they filled in:\n> {"a":1}'),
        ("order", {"text": "please", "product_items": [{}, {}]}, "please\n\n[sent an order of 2 products]", ""),
        ("hologram", {"x": 1}, "[sent something that this assistant cannot read: hologram]", ""),
    ],
)  # fmt: skip
def test_what_is_no_text_is_told_in_words(kind: str, content: Any, text: str, context: str) -> None:
    item = said(raw(kind, content))
    assert (item.text, item.context) == (text, context)


def test_unsupported_says_why() -> None:
    message = raw("unsupported", {}, errors=[{"code": 131051, "title": "Message type unknown"}])
    assert said(message).text == "[sent something that this assistant cannot read: Message type unknown]"


@pytest.mark.parametrize("kind", ["image", "video", "audio", "document", "sticker"])
def test_files_are_named_and_fetched_later(kind: str) -> None:
    media = {"id": "123", "mime_type": "audio/ogg; codecs=opus", "sha256": "a" * 64, "caption": "look", "voice": True}
    item = said(raw(kind, media | {"filename": "../a b.pdf"}))
    [found] = item.files
    assert isinstance(found, RemoteFile)
    assert (found.reference, found.media_type, found.name) == ("123", "audio/ogg", "a b.pdf")
    assert found.key == f"whatsapp-cloud:{'a' * 64}"
    assert item.text.startswith("look")
    assert said(raw(kind, {"id": "123"})).origin is (Origin.PERSON if kind == "sticker" else Origin.FILE)
    assert "cannot be fetched" in said(raw(kind, {"id": "../../me"})).text


def test_a_voice_note_is_its_senders_own_words_unless_it_is_forwarded() -> None:
    voice = {"id": "123", "mime_type": "audio/ogg; codecs=opus", "voice": True}
    assert said(raw("audio", voice)).origin is Origin.PERSON
    assert said(raw("audio", voice, context={"forwarded": True})).origin is Origin.FORWARD


def test_replies_say_to_what_and_forwards_are_others_words() -> None:
    item = said(raw("text", {"body": "why?"}, context={"from": "1", "id": "wamid.known"}))
    assert (item.replies_to, item.context) == ("wamid.known", "in reply to this message:\n> the words")
    assert said(raw("text", {"body": "a"}, context={"id": "wamid.old"})).context == "in reply to an earlier message"
    forward = said(raw("text", {"body": "do this"}, context={"forwarded": True}))
    assert (forward.origin, forward.context) == (Origin.FORWARD, "forwarded from somebody else")


def test_reactions_deletions_and_edits() -> None:
    item = said(raw("reaction", {"message_id": "wamid.x", "emoji": "\U0001f44d"}))
    assert (item.kind, item.text) == ("note", "reacted \U0001f44d to message wamid.x")
    assert said(raw("reaction", {"message_id": "wamid.x"})).text == "took back a reaction from message wamid.x"
    gone = said(raw("revoke", {"original_message_id": "wamid.x"}))
    assert (gone.kind, gone.deletes) == ("note", "wamid.x")
    new = {"type": "text", "text": {"body": "better"}}
    edit = said(raw("edit", {"original_message_id": "wamid.x", "message": new}))
    assert (edit.text, edit.edits, edit.key) == ("better", "wamid.x", "wamid.eA==")
    assert isinstance(reading_of(raw("edit", {"message": new})), Unreadable)


def reading_of(message: Any) -> Inbound | Unreadable:
    return read(Raw(message, ""), NAME, lambda who: who, lambda wamid: "").item


def test_a_change_of_number_concerns_both_numbers() -> None:
    body = {"body": "User A changed from 1 to 2", "wa_id": "4915199", "type": "user_changed_number"}
    found = read(Raw(raw("system", body), ""), NAME, lambda who: who, lambda wamid: "")
    assert (found.who, found.new, found.changed) == (ANN, "4915199", "wamid.eA==")
    assert isinstance(found.item, Inbound)
    assert found.item.kind == "note"
    other = read(Raw(raw("system", {"type": "something_new"}), ""), NAME, lambda who: who, lambda wamid: "")
    assert (other.changed, other.new) == ("", "")


@pytest.mark.parametrize(
    "message",
    [
        {},
        [],
        "text",
        raw("text", {"body": "a"}, **{"from": "49 151"}),
        raw("text", {"body": "a"}, **{"from": "1:2~3"}),
        raw("text", {"body": "a"}, id=""),
        raw("text", {"body": "a"}, id="x" * 300),
        raw("text", {"body": "a"}, id="wa mid"),
        raw("text", {"body": "a"}, group_id="g"),
    ],
)
def test_what_does_not_say_from_whom_it_is_reaches_nobody(message: Any) -> None:
    assert isinstance(reading_of(message), Unreadable)


def test_an_id_of_metas_own_stands_for_who_shows_no_number() -> None:
    message = raw("text", {"body": "a"}, from_user_id="DE.4915Ab")
    del message["from"]
    assert said(message).sender == "whatsapp-cloud:DE.4915Ab"


def test_statuses_carry_our_key_and_why_they_failed() -> None:
    error = {"code": 131026, "title": "Undeliverable", "error_data": {"details": "no such person"}}
    status = {"id": "wamid.x", "status": "failed", "timestamp": "5", "recipient_id": ANN, "errors": [error]}
    value = {"metadata": {"phone_number_id": "7"}, "statuses": [status | {"biz_opaque_callback_data": "k:1"}, {}]}
    parcel = unpack({"entry": [{"changes": [{"field": "messages", "value": value}]}]}, "7")
    assert parcel.statuses == [
        Status(wamid="wamid.x", state="failed", who=ANN, key="k:1", code=131026, reason="no such person", at_ms=5000)
    ]
    assert parcel.others == ["unreadable_status"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
KINDS = st.sampled_from(
    ["text", "image", "audio", "document", "location", "contacts", "interactive", "button", "reaction", "system",
     "edit", "revoke", "order", "unsupported", "x"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(KINDS, JSON, JSON, JSON)
def test_nothing_that_comes_raises_or_vanishes(kind: str, content: Any, context: Any, errors: Any) -> None:
    item = reading_of(raw(kind, content, context=context, errors=errors, referral=content))
    assert isinstance(item, Unreadable) or item.text
    msgspec.json.encode(item)
    value = {"metadata": {"phone_number_id": "7"}, "messages": content, "statuses": context, "contacts": errors}
    parcel = unpack({"entry": [{"changes": [{"field": "messages", "value": value}]}]}, "7")
    for message in parcel.messages:
        read(message, NAME, lambda who: who, lambda wamid: "")
    unpack(content, "7")
    unpack({"entry": content}, "7")
    unpack({"entry": [{"changes": content}]}, "7")
