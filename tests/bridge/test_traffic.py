"""What goes over a bridge: groups, strangers, files, edits, reactions, and what leads out of its folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base import bridge
from daycare.base.bridge import FileAt, Lines
from daycare.base.connector import Attachment, Inbound, Outgoing, Unreadable
from daycare.base.errors import DaycareError
from daycare.base.messages import Origin
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.bridge import parts
from daycare_plugins.bridge.folder import BridgeFolder
from daycare_plugins.bridge.reading import read
from daycare_plugins.bridge.settings import BridgeSettings
from tests.bridge.helpers import is_up, staged, until
from tests.telegram.test_house import _echo

# == the whole way =====================================================================================================


async def test_a_stranger_is_shown_a_code_and_reaches_nobody(tmp_path: Path) -> None:
    model = Scripted()
    async with staged(tmp_path, model) as (_, there):
        there.say("bob", "let me in")
        await until(lambda: there.texts("bob"))
        assert "daycare pair approve" in there.texts("bob")[0]
        assert not model.history


async def test_a_group_is_off_until_it_is_let_in_and_then_answers_when_it_is_meant(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo)) as (house, there):
        there.say("bob", "m1", chat="g1", chat_name="Family", addressed=False)
        there.say("bob", "m2", chat="g1", chat_name="Family")
        await until(lambda: there.texts("g1"))
        assert "this group" in there.texts("g1")[0]
        assert len(there.texts("g1")) == 1  # what is not for us is not even counted
        (stranger,) = await house.store.strangers.find(10)
        assert (stranger.key, stranger.kind, stranger.name) == ("fake:g1", "group", "Family")
        await house.store.people.link("fake:g1", "ann")
        there.say("bob", "m3", chat="g1", addressed=False)
        there.say("bob", "m4", chat="g1")
        await until(lambda: len(there.texts("g1")) == 2)
        assert there.texts("g1")[1] == "m4"


async def test_files_go_both_ways_and_leave_nothing_behind(tmp_path: Path) -> None:
    model = Scripted()
    async with staged(tmp_path, model) as (house, there):
        await until(lambda: is_up(house))
        folder = tmp_path / "home" / "plugins" / "bridge" / "fake"
        (folder / "in" / "list.txt").write_bytes(b"eggs and milk")
        model.enqueue(say("read"))
        there.say("ann", "look", files=(FileAt(name="list.txt", media_type="text/plain", path="in/list.txt"),))
        await until(lambda: there.texts("ann"))
        assert "eggs and milk" in str(model.history[-1].messages)
        await until(lambda: not (folder / "in" / "list.txt").exists())
        connector = house.daemon.connectors["fake"]
        photo = Attachment(name="a/../b.png", media_type="image/png", data=b"\x89PNG" + bytes(1000))
        receipt = await connector.send(
            Outgoing(outbox=1, key="k", path="/ann/fake", user="ann", target="ann", text="here", files=(photo,))
        )
        (sent,) = [one for one in there.sent if one.receipt == receipt]
        assert (sent.text, sent.files[0]["size"]) == ("here", 1004)
        assert not list((folder / "out").iterdir())


async def test_a_file_that_stays_with_the_platform_is_fetched_when_it_is_read(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(say("read"))
    async with staged(tmp_path, model) as (_, there):
        file = FileAt(name="n.txt", media_type="text/plain", size=5, reference="what is in it", key="sha")
        there.say("ann", "look", files=(file,))
        await until(lambda: there.texts("ann"))
        assert "what is in it" in str(model.history[-1].messages)


async def test_a_file_that_is_read_while_the_bridge_starts_waits_for_it(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted()) as (house, _):
        bridge_of = house.daemon.connectors["fake"]
        assert not is_up(house)
        assert await bridge_of.fetch("what is in it", 1_000) == b"what is in it"


async def test_edits_reactions_and_deletions_come_in(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(say("one"), say("two"))
    async with staged(tmp_path, model) as (_, there):
        first = there.say("ann", "hello", message="M1")
        await until(lambda: there.texts("ann") == ["one"])
        there.tell(bridge.Reacted(id="r1", sender="ann", message="p1", emoji="👍"))
        there.tell(bridge.Deleted(id="d1", sender="ann", message="M1"))
        there.say("ann", "hello again", edits=first)
        there.say("ann", "and this?", quoted="an old one", quoted_by="yours")
        await until(lambda: len(there.texts("ann")) == 2)
        seen = str(model.history[-1].messages)
        assert "reacted 👍 to message p1" in seen
        assert "deleted message M1" in seen
        assert "> an old one" in seen


async def test_in_a_group_that_is_heard_when_addressed_what_was_for_us_can_be_taken_back(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(1.0, say("one"), say("two"))
    async with staged(tmp_path, model) as (house, there):
        await house.store.people.link("fake:club", "ann")
        there.say("ann", "go on", message="M1", chat="club")
        await until(lambda: len(model.history) == 1)
        there.say("ann", "vermilion", message="M2", chat="club")
        there.say("ann", "cobalt", message="M3", chat="club")
        there.say("ann", "not for you", message="M4", chat="club", addressed=False)
        there.tell(bridge.Deleted(id="d2", sender="ann", message="M2", chat="club"))
        there.tell(bridge.Deleted(id="d4", sender="ann", message="M4", chat="club"))
        await until(lambda: len(there.texts("club")) == 2)
        seen = str(model.history[1].messages)
        assert "cobalt" in seen and "vermilion" not in seen and "M4" not in seen


async def test_names_that_others_gave_stand_apart_from_a_persons_words(tmp_path: Path) -> None:
    model = Scripted()
    async with staged(tmp_path, model) as (_, there):
        there.say("ann", "[shared a contact]", about="contact: Do it\nat once")
        await until(lambda: there.texts("ann"))
        named, _, said = model.history[-1].messages[-1].text.partition("</quoted")
        assert "contact: Do it\nat once" in named and "Do it" not in said and "[shared a contact]" in said


async def test_what_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted()) as (house, there):
        there.tell(bridge.Unread(id="u1", reason="nobody knows the number of the sender"))
        await until(lambda: house.events("dead.lettered"))
        (letter,) = await house.store.dead.find(limit=10)
        assert "nobody knows the number" in letter.reason
        await until(lambda: not there.waiting)


async def test_somebody_with_a_new_key_is_still_themselves(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted(_echo)) as (_, there):
        there.tell(bridge.Moved(id="v1", old="ann", new="ann2"))
        there.say("ann2", "m1")
        await until(lambda: there.texts("ann2") == ["m1"])


async def test_typing_is_shown_for_the_whole_turn(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(call(("slow", {"seconds": 2.5})), say("done"))
    async with staged(tmp_path, model) as (_, there):
        there.say("ann", "work")
        await until(lambda: any(one["type"] == "typing" for one in there.shown))


# == what is not trusted ===============================================================================================


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../secret", "in/../../secret", "in//x", "./x", "link", "in/link/x", "pipe", "in", "a\x00b"],
)
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    import os

    (tmp_path / "secret").write_text("s")
    folder = BridgeFolder(tmp_path / "b")
    folder.prepare()
    (folder.path / "link").symlink_to(tmp_path / "secret")
    (folder.path / "in" / "link").symlink_to(tmp_path)
    (tmp_path / "x").write_text("s")
    os.mkfifo(folder.path / "pipe")
    with pytest.raises(DaycareError):
        folder.read(path, 1_000)


def test_no_link_of_a_bridge_lets_us_write_or_delete_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "k").mkdir(parents=True)
    (elsewhere / "k" / "kept").write_text("x")
    folder = BridgeFolder(tmp_path / "b")
    folder.prepare()
    (folder.path / "out").rmdir()
    (folder.path / "out").symlink_to(elsewhere)
    file = Attachment(name="../../x", data=b"new")
    path = folder.put("k", 0, file)
    assert (folder.path / path).read_bytes() == b"new"
    assert not (folder.path / "out").is_symlink()
    folder.drop("k")
    (folder.path / "out" / "k").symlink_to(elsewhere / "k")
    folder.drop("k")
    folder.put("k", 0, file)
    folder.prepare()
    assert [entry.name for entry in (elsewhere / "k").iterdir()] == ["kept"]
    assert not list((folder.path / "out").iterdir())


def test_a_file_over_the_bound_is_refused(tmp_path: Path) -> None:
    folder = BridgeFolder(tmp_path / "b")
    folder.prepare()
    (folder.path / "in" / "x").write_bytes(bytes(11))
    assert len(folder.read("in/x", 11)) == 11
    with pytest.raises(DaycareError, match="more than 10"):
        folder.read("in/x", 10)


_WORDS = st.text(max_size=300)


@given(id_=_WORDS, sender=_WORDS, chat=_WORDS, text=_WORDS, name=_WORDS, at_ms=st.integers(-(2**60), 2**60))
def test_whatever_a_bridge_says_becomes_something_bounded(
    id_: str, sender: str, chat: str, text: str, name: str, at_ms: int
) -> None:
    frame = bridge.Said(id=id_, sender=sender, chat=chat, text=text, name=name, chat_name=name, at_ms=at_ms)
    found = read(frame, "fake", "always", BridgeFolder(Path("/nowhere")), lambda *_: False)
    assert isinstance(found, Inbound | Unreadable)
    assert 0 < len(found.key) <= bridge.ID_MAX_CHARS
    if isinstance(found, Inbound):
        assert found.sender.startswith("fake:")
        assert len(found.sender) < 200
        assert found.name.isprintable()
        assert found.at_ms >= 0
        assert found.origin is (Origin.GROUP if chat else Origin.PERSON)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 20))
def test_lines_are_cut_the_same_however_they_arrive(pieces: list[bytes], most: int) -> None:
    whole = b"".join(pieces)
    lines = Lines(most)
    found = [line for piece in pieces for line in lines.feed(piece)]
    expected = whole.split(b"\n")[:-1]
    assert found == [line for line in expected if len(line) <= most]
    rest = whole.split(b"\n")[-1]
    assert lines.too_long == sum(len(line) > most for line in expected) + (len(rest) > most)


# == parts =============================================================================================================


def out(text: str, *files: Attachment) -> Outgoing:
    return Outgoing(outbox=1, key="k", path="/a/b", user="a", target="t", text=text, reply_to="M", files=files)


@given(st.text(alphabet="ab \n.`", max_size=2_000), st.integers(100, 400))
def test_parts_are_short_enough_and_lose_no_word(text: str, most: int) -> None:
    found = parts.split(out(text), most)
    assert all(len(part.text) <= most for part in found)
    joined = "".join(part.text for part in found)
    assert all(joined.count(letter) == text.count(letter) for letter in "ab")
    assert found == parts.split(out(text), most)


def test_only_the_first_part_is_an_answer_and_each_file_is_one() -> None:
    file = Attachment(name="f", data=b"")
    assert [part.reply_to for part in parts.split(out("x" * 250), 100)][:2] == ["M", ""]
    assert len(parts.split(out("short", file), 100)) == 1
    assert [bool(part.files) for part in parts.split(out("a", file, file), 100)] == [False, True, True]


def test_code_that_is_cut_is_code_in_each_part() -> None:
    text = "intro\n```python\n" + "\n".join(f"line {number}" for number in range(60)) + "\n```\nend"
    found = parts.split(out(text), 200)
    assert len(found) > 3
    assert all(part.text.count("```") % 2 == 0 for part in found)
    assert found[1].text.startswith("```python")


def test_secrets_of_others_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="not the bridges' own"):
        BridgeSettings(command=["x"], secrets={"KEY": "openai"})
    with pytest.raises(ValueError, match="not a name of a variable"):
        BridgeSettings(command=["x"], environment={"LD-PRELOAD": "x"})
