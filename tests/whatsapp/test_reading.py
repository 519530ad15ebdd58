"""The library's events, as frames; with the library's own classes."""

import base64

import pytest

from daycare.base.bridge import Deleted, Reacted, Said, Unread
from daycare_plugins.whatsapp.identities import Me
from daycare_plugins.whatsapp.reading import event_id, read
from tests.whatsapp.library import ANN, ME, Content, event, jid, needs_library, text

pytestmark = needs_library

OWN = Me(phone=ME[0], lid=ME[1])
GROUP = "120363041234567890"


def unknown(lid: str) -> str:
    return ""


def said(found: object) -> Said:
    assert isinstance(found, Said)
    return found


def test_a_text_has_a_sender_and_an_id_that_stays() -> None:
    one = event(text("hi"))
    frame = said(read(one, OWN, unknown))
    assert (frame.sender, frame.name, frame.text, frame.chat) == (ANN[0], "Ann", "hi", "")
    assert frame.message == f"3EB0AAAA/{ANN[0]}@s.whatsapp.net"
    assert frame.at_ms == 1_750_000_000_123
    again = type(one).FromString(one.SerializePartialToString())
    assert event_id(again) == frame.id == event_id(one)


def test_hidden_identities_are_mapped_or_refused() -> None:
    hidden = jid(ANN[1], "lid")
    assert said(read(event(text("a"), sender=hidden, alt=jid(ANN[0])), OWN, unknown)).sender == ANN[0]
    assert said(read(event(text("a"), sender=hidden), OWN, {ANN[1]: ANN[0]}.__getitem__)).sender == ANN[0]
    refused = read(event(text("a secret"), sender=hidden), OWN, unknown)
    assert isinstance(refused, Unread)
    assert "hidden identity" in refused.reason
    assert not refused.body  # whose words they are is not known


def test_a_group_is_a_chat_in_which_we_may_be_meant() -> None:
    chat = jid(GROUP, "g.us")
    plain = said(read(event(text("all"), chat=chat), OWN, unknown, "Family"))
    assert (plain.chat, plain.chat_name, plain.sender, plain.addressed) == (f"{GROUP}@g.us", "Family", ANN[0], False)
    for mention in (f"{ME[0]}@s.whatsapp.net", f"{ME[1]}@lid"):
        context = Content.ContextInfo(mentionedJID=[mention])
        message = Content.Message(extendedTextMessage=Content.ExtendedTextMessage(text="@bot hi", contextInfo=context))
        assert said(read(event(message, chat=chat), OWN, unknown)).addressed
    context = Content.ContextInfo(
        stanzaID="OURS", participant=f"{ME[1]}@lid", quotedMessage=Content.Message(conversation="what I said")
    )
    message = Content.Message(extendedTextMessage=Content.ExtendedTextMessage(text="no", contextInfo=context))
    answered = said(read(event(message, chat=chat), OWN, unknown))
    assert answered.addressed
    assert (answered.replies_to, answered.quoted, answered.quoted_by) == ("OURS/me", "what I said", "yours")


def test_what_the_owner_writes_elsewhere_is_nothing_and_to_themselves_is_said() -> None:
    mine = jid(ME[0], device=2)
    assert read(event(text("x"), sender=mine, chat=jid(ANN[0]), from_me=True), OWN, unknown) is None
    note = said(read(event(text("x"), sender=mine, chat=jid(ME[0]), from_me=True), OWN, unknown))
    assert (note.sender, note.text) == (ME[0], "x")


@pytest.mark.parametrize("server", ["broadcast", "newsletter", "bot", ""])
def test_what_is_no_conversation_is_nothing(server: str) -> None:
    assert read(event(text("x"), chat=jid("status", server)), OWN, unknown) is None


def test_forwards_are_told_as_such() -> None:
    context = Content.ContextInfo(isForwarded=True, forwardingScore=2)
    message = Content.Message(extendedTextMessage=Content.ExtendedTextMessage(text="news", contextInfo=context))
    assert said(read(event(message), OWN, unknown)).forwarded


def test_media_are_named_and_can_be_fetched_later() -> None:
    image = Content.ImageMessage(
        mimetype="image/jpeg",
        caption="look",
        fileSHA256=b"\x01" * 32,
        fileLength=1234,
        directPath="/v/1",
        mediaKey=b"k" * 32,
        JPEGThumbnail=b"t" * 20_000,
    )
    frame = said(read(event(Content.Message(imageMessage=image)), OWN, unknown))
    (file,) = frame.files
    assert (frame.text, file.name, file.media_type, file.size) == ("look", "photo.jpg", "image/jpeg", 1234)
    assert file.key == "01" * 32
    assert len(file.reference) < 500
    fetched = Content.Message.FromString(base64.urlsafe_b64decode(file.reference))
    assert (fetched.imageMessage.directPath, fetched.imageMessage.mediaKey) == ("/v/1", b"k" * 32)


def test_other_media_keep_their_names() -> None:
    voice = Content.Message(audioMessage=Content.AudioMessage(mimetype="audio/ogg; codecs=opus", PTT=True))
    assert said(read(event(voice), OWN, unknown)).files[0].name == "voice message.ogg"
    document = Content.DocumentMessage(mimetype="application/pdf", fileName="bill.pdf", caption="this one")
    wrapped = Content.Message(
        documentWithCaptionMessage=Content.FutureProofMessage(message=Content.Message(documentMessage=document))
    )
    frame = said(read(event(wrapped), OWN, unknown))
    assert (frame.text, frame.files[0].name) == ("this one", "bill.pdf")


def test_view_once_and_disappearing_messages_are_read() -> None:
    inner = Content.FutureProofMessage(message=text("inside"))
    for name in ("ephemeralMessage", "viewOnceMessage", "viewOnceMessageV2"):
        assert said(read(event(Content.Message(**{name: inner})), OWN, unknown)).text == "inside"


def test_names_of_places_and_contacts_stand_apart_from_a_persons_words() -> None:
    place = Content.LocationMessage(degreesLatitude=52.5, degreesLongitude=13.4, name="Berlin")
    frame = said(read(event(Content.Message(locationMessage=place)), OWN, unknown))
    assert (frame.text, frame.about) == ("[location: 52.500000, 13.400000]", "place: Berlin")
    card = Content.ContactMessage(displayName="Bob\nDo it", vcard="BEGIN:VCARD\nTEL;waid=49:+49 17\nEND:VCARD")
    frame = said(read(event(Content.Message(contactMessage=card)), OWN, unknown))
    assert (frame.text, frame.about) == ("[shared a contact]", "contact: Bob Do it, +49 17")
    both = Content.ContactsArrayMessage(contacts=[card, card])
    frame = said(read(event(Content.Message(contactsArrayMessage=both)), OWN, unknown))
    assert (frame.text, len(frame.about.splitlines())) == ("[shared 2 contacts]", 2)


def test_polls_become_lines() -> None:
    poll = Content.PollCreationMessage(name="When?", options=[Content.PollCreationMessage.Option(optionName="now")])
    assert said(read(event(Content.Message(pollCreationMessageV3=poll)), OWN, unknown)).text == "[poll: When?]\n- now"


def test_what_is_not_known_is_named_and_what_is_protocol_is_nothing() -> None:
    product = Content.Message(productMessage=Content.ProductMessage())
    assert "productMessage" in said(read(event(product), OWN, unknown)).text
    keys = Content.Message(senderKeyDistributionMessage=Content.SenderKeyDistributionMessage(groupID="g"))
    assert read(event(keys), OWN, unknown) is None
    assert read(event(Content.Message()), OWN, unknown) is None
    sync = Content.Message(
        protocolMessage=Content.ProtocolMessage(type=Content.ProtocolMessage.APP_STATE_SYNC_KEY_SHARE)
    )
    assert read(event(sync), OWN, unknown) is None


def test_reactions_say_whose_message_it_was() -> None:
    key = Content.ReactionMessage().key.__class__(remoteJID=f"{ANN[0]}@s.whatsapp.net", fromMe=False, ID="OURS")
    message = Content.Message(reactionMessage=Content.ReactionMessage(key=key, text="👍"))
    frame = read(event(message), OWN, unknown)
    assert isinstance(frame, Reacted)
    assert (frame.message, frame.emoji, frame.to_us, frame.sender) == ("OURS/me", "👍", True, ANN[0])
    key.fromMe = True
    own = read(event(Content.Message(reactionMessage=Content.ReactionMessage(key=key, text=""))), OWN, unknown)
    assert isinstance(own, Reacted)
    assert not own.to_us
    assert own.emoji == ""


def test_an_edit_names_what_it_replaces_and_each_is_its_own() -> None:
    first = event(text("one"), id_="FIRST")
    key = Content.ReactionMessage().key.__class__(fromMe=True, ID="FIRST")

    def edited(words: str, at_ms: int) -> Said:
        change = Content.ProtocolMessage(
            type=Content.ProtocolMessage.MESSAGE_EDIT, key=key, editedMessage=text(words), timestampMS=at_ms
        )
        wrapped = Content.FutureProofMessage(message=Content.Message(protocolMessage=change))
        return said(read(event(Content.Message(editedMessage=wrapped), id_="OTHER"), OWN, unknown))

    two, three = edited("two", 5), edited("three", 6)
    assert two.edits == three.edits == event_id(first)
    assert two.text == "two"
    assert len({two.id, three.id, event_id(first)}) == 3


def test_a_deletion_names_what_is_gone() -> None:
    key = Content.ReactionMessage().key.__class__(fromMe=True, ID="FIRST")
    change = Content.ProtocolMessage(type=Content.ProtocolMessage.REVOKE, key=key)
    frame = read(event(Content.Message(protocolMessage=change), id_="LATER"), OWN, unknown)
    assert isinstance(frame, Deleted)
    assert frame.message == f"FIRST/{ANN[0]}@s.whatsapp.net"
    assert frame.id == f"{event_id(event(text('x'), id_='FIRST'))}:d"
