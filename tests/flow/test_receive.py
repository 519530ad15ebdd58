"""A batch over a connector: what becomes of each item, what its sender is told, and how fast they may write."""

from pathlib import Path

import pytest
import trio

from daycare.agent.rate_limit import CONNECTOR_BURST, SENDER_PER_MINUTE, SenderRateLimit
from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import (
    BATCH_MAX_ITEMS,
    INBOX_MAX_MESSAGES,
    MESSAGE_MAX_BYTES,
    PAIR_NOTICE_S,
    SENDER_BURST,
    TOPICS_MAX,
)
from daycare.base.pairing import code_hash
from daycare.plugin import Inbound, RemoteFile, Unreadable
from daycare.store.records import User
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted
from tests.flow.platform import CLUB, answered, asked, in_club, inbound, people, receive, states

MALFORMED = Unreadable(key="u1", reason="no such field", body='{"x": 1}')


# -- outcomes ---------------------------------------------------------------------------------------------------------


async def test_each_item_of_a_batch_has_its_own_outcome(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        batch: list[Inbound | Unreadable] = [
            inbound("a", "hello"),
            MALFORMED,
            inbound("s", sender="pigeon:eve", name="Eve"),
            inbound("e", " "),
            inbound("o", path="/bob/pigeon"),
            inbound("x", path="/ann/agent/nobody"),
            inbound("a", "hello"),
            in_club("c", "hi all"),
        ]
        outcomes = await receive(house, *batch, cursor="41")
        assert states(outcomes) == [
            "accepted", "unreadable", "stranger", "refused", "refused", "refused", "repeated", "accepted",
        ]  # fmt: skip
        assert await house.store.intake.recall("pigeon") == "41"
        assert await answered(house, outcomes[0]) == "echo: hello"
        assert await answered(house, outcomes[7]) == "echo: [Bob] hi all"
        await trio.sleep(1)
        assert sorted((flight.target, flight.text.partition(" (")[0]) for flight in pigeon.arrived) == [
            ("-42", "echo: [Bob] hi all"),
            ("ann", "Somebody who calls themselves `Eve`"),
            ("ann", "echo: hello"),
        ]
        codes = sorted(letter.code for letter in await house.store.dead.find())
        assert codes == ["AGENT_UNKNOWN", "MESSAGE_EMPTY", "OTHER_USER", "UNREADABLE"]
        assert states(await receive(house, *batch, cursor="41")) == [
            "repeated", "unreadable", "stranger", "refused", "refused", "refused", "repeated", "repeated",
        ]  # fmt: skip
        assert len(await house.store.dead.find()) == 4, "none of them twice"


async def test_what_one_person_writes_too_long_pushes_out_no_dead_letters_of_others(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.store.sqlite.letters.DEAD_LETTERS_MAX", 30)
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        assert states(await receive(house, inbound("a", " "), MALFORMED)) == ["refused", "unreadable"]
        long = "x" * (MESSAGE_MAX_BYTES + 1)
        flood = [in_club(f"c{n}", long) for n in range(40)]
        flood += [in_club(f"t{n}", long, chat=f"{CLUB}:{n}", within=CLUB) for n in range(40)]
        assert set(states(await receive(house, *flood))) == {"refused"}
        letters = await house.store.dead.find()
        assert [(it.user, it.code) for it in letters if it.user != "club"] == [
            ("", "UNREADABLE"),
            ("ann", "MESSAGE_EMPTY"),
        ]
        assert [(it.user, it.letters) for it in await house.store.dead.dropped()] == [("club", 80 - 28)]


async def test_what_is_said_to_a_sender_is_said_once_an_hour(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        wrong = [inbound(f"e{n}", " ") for n in range(3)]
        said = [outcome.say for outcome in await receive(house, *wrong)]
        assert "I could not take your message: " in said[0] and said[1:] == ["", ""]
        assert [outcome.say for outcome in await receive(house, in_club("c", " "))] != [""], "another sender"
        await trio.sleep(PAIR_NOTICE_S)
        assert [bool(outcome.say) for outcome in await receive(house, *wrong)] == [True, False, False]


async def test_a_stranger_costs_a_counter_and_is_shown_a_code_that_lets_them_in(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        file = RemoteFile(name="a.txt", reference="r", key="f")
        flood = [inbound(f"s{n}", "let me in", sender="pigeon:eve", name="Eve", files=(file,)) for n in range(200)]
        outcomes = await receive(house, *flood)
        assert set(states(outcomes)) == {"stranger"} and [bool(it.say) for it in outcomes] == [True] + [False] * 199
        await trio.sleep(30)
        assert (house.model.history, pigeon.flights, await house.store.dead.find()) == ([], [], [])
        assert await house.store.agents.count() == {} and await house.store.inbox.counts() == {"waiting": 0}
        assert house.store._db.execute("SELECT count(*) FROM files").fetchall() == [(0,)]
        [event] = house.events("stranger.knocked")
        assert (event["key"], event["name"]) == ("pigeon:eve", "Eve")
        [stranger] = await house.store.strangers.find()
        assert stranger.knocks == 200
        code = outcomes[0].say.rpartition("approve ")[2]
        await house.store.strangers.approve(code_hash(code), User(id="eve", name="Eve"))
        [outcome] = await receive(house, inbound("s200", "hello", sender="pigeon:eve"))
        assert await answered(house, outcome) == "echo: hello"


async def test_a_groups_code_is_the_groups_whoever_writes_and_in_whichever_topic(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        first, second = await receive(
            house,
            inbound("g1", "hi", sender="pigeon:ann", chat="pigeon:-9:3", within="pigeon:-9", chat_name="New club"),
            inbound("g2", "hi", sender="pigeon:eve", chat="pigeon:-9", chat_name="New club"),
        )
        assert (first.state, second.state, second.say) == ("stranger", "stranger", "")
        assert "let this group in" in first.say
        [stranger] = await house.store.strangers.find()
        assert (stranger.key, stranger.kind, stranger.name) == ("pigeon:-9", "group", "New club")


async def test_nothing_is_said_or_counted_of_a_batch_that_was_not_committed(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The connector repeats it; by then nobody may have used up their pace or missed their notice."""
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()], work=False) as house:
        await people(house)
        batch = [inbound(f"m{n}") for n in range(SENDER_BURST // 3)] + [inbound("e", " ")]
        take, fails = house.store.intake.take, 9

        async def away(*_: object) -> list[object]:
            raise UnavailableError("STORE_FULL", "the disk is full")

        house.store.intake.take = away  # type: ignore[method-assign, assignment]
        for _ in range(fails):
            with pytest.raises(UnavailableError):
                await receive(house, *batch, cursor="9")
        house.store.intake.take = take  # type: ignore[method-assign]
        for state in ("accepted", "repeated", "repeated"):
            outcomes = await receive(house, *batch, cursor="9")
            assert set(states(outcomes[:-1])) == {state}
            assert outcomes[-1].state == "refused"
        assert not outcomes[-1].say


async def test_what_no_store_takes_is_made_readable_instead_of_stopping_the_connector(
    tmp_path: Path, autojump_clock: object
) -> None:
    half, whole = "\ud83d", "\ud83d\ude00"
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        outcomes = await receive(
            house,
            inbound("a", f"half {half} whole {whole} nul \x00.", name=half, meta={"x": half}),
            inbound("b", sender="pigeon:eve", name=half),
            Unreadable(key="u", reason=half, body=half),
        )
        assert states(outcomes) == ["accepted", "stranger", "unreadable"]
        await answered(house, outcomes[0])
        assert asked(house.model)[-1] == "half \ufffd whole \U0001f600 nul ."


async def test_a_batch_has_a_bound(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        with pytest.raises(InvalidError):
            await receive(house, *[MALFORMED] * (BATCH_MAX_ITEMS + 1))


async def test_a_message_for_a_full_inbox_is_kept_as_a_dead_letter_and_its_sender_told(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()], work=False) as house:
        await people(house)
        for user in ("ann", "bob"):  # of two senders, as one alone may not write so many
            first = [in_club(f"{user}{n}", sender=f"pigeon:{user}") for n in range(INBOX_MAX_MESSAGES // 2)]
            assert set(states(await receive(house, *first))) == {"accepted"}
        [over] = await receive(house, in_club("over", "one more"))
        assert over.state == "refused" and "inbox full" in over.say
        [dead] = await house.store.dead.find()
        assert dead.source == "inbox"
        assert states(await receive(house, in_club("over", "one more"))) == ["repeated"]
        assert states(await receive(house, in_club("stop", "/stop"))) == ["accepted"], "that one always gets through"


# -- pace -------------------------------------------------------------------------------------------------------------


async def test_who_writes_too_fast_is_told_so_once_and_heard_again_later(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()], work=False) as house:
        await people(house)
        burst = [inbound(f"m{n}", sender="pigeon:7", chat=CLUB) for n in range(SENDER_BURST)]
        assert states(await receive(house, *burst))[-1] == "accepted"
        late = await receive(house, *(inbound(f"l{n}", sender="pigeon:7", chat=CLUB) for n in range(3)))
        assert states(late) == ["limited"] * 3 and [bool(it.say) for it in late] == [True, False, False]
        assert states(await receive(house, inbound("ann"))) == ["accepted"], "nobody else is held up"
        await trio.sleep(60 / SENDER_PER_MINUTE)
        again = await receive(house, inbound("n1", sender="pigeon:7"), inbound("n2", sender="pigeon:7", chat=CLUB))
        assert again[0].state == "stranger", "not counted: they have no chat of their own here"
        assert again[1].state == "refused", "counted again; that the inbox is full is another matter"


async def test_what_piled_up_over_a_long_outage_costs_nobody_their_turn() -> None:
    pace = SenderRateLimit()
    day_ms = 86_400_000
    for number in range(SENDER_BURST * 3):
        assert pace.admit("pigeon", "pigeon:7", number * 60_000), "one a minute, whenever they are read"
    assert pace.admit("pigeon", "pigeon:7", day_ms * 3)


async def test_an_older_time_than_the_last_is_no_debt() -> None:
    """An edit, or a button under an old message, bears the time of what it belongs to."""
    pace = SenderRateLimit()
    now_ms = 1_800_000_000_000
    assert pace.admit("pigeon", "pigeon:7", now_ms)
    assert pace.admit("pigeon", "pigeon:7", now_ms - 86_400_000)
    assert pace.admit("pigeon", "pigeon:8", now_ms - 86_400_000), "nor by the connector's clock"
    for _ in range(SENDER_BURST - 2):
        assert pace.admit("pigeon", "pigeon:7", now_ms - 86_400_000)
    assert not pace.admit("pigeon", "pigeon:7", now_ms - 86_400_000), "and no way around the pace"


async def test_a_connector_has_a_pace_of_its_own_and_who_is_held_up_by_it_is_not_counted() -> None:
    pace = SenderRateLimit()
    admitted = [pace.admit("pigeon", f"pigeon:{number}", 1_000_000_000) for number in range(CONNECTOR_BURST + 10)]
    assert sum(admitted) == pytest.approx(CONNECTOR_BURST, abs=1) and not any(admitted[-10:])
    assert pace.admit("other", "other:1", 1_000_000_000)
    pace.forgive("pigeon", "pigeon:19999")
    assert [pace.admit("pigeon", "pigeon:new", 1_000_000_000) for _ in range(2)] == [True, False]


# -- where an answer goes ---------------------------------------------------------------------------------------------


async def test_a_person_with_several_accounts_is_answered_where_they_wrote_from(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        await house.store.people.link("pigeon:work", "ann")
        for sender in ("pigeon:work", "pigeon:ann"):
            [outcome] = await receive(house, inbound(f"from {sender}", sender=sender, message="17"))
            await answered(house, outcome)
        await trio.sleep(1)
        assert [(flight.target, flight.reply_to) for flight in pigeon.arrived] == [("work", "17"), ("ann", "17")]


async def test_topics_of_a_known_chat_get_users_of_their_own(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    model = Scripted()
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await people(house)
        alike = [f"{CLUB}:{part}" for part in ("1-2", "12", "1_2")]  # three that would be named alike
        batch = [in_club(f"{chat}/{n}", chat, chat=chat, within=CLUB) for n in (1, 2) for chat in alike]
        outcomes = await receive(house, *batch)
        assert set(states(outcomes)) == {"accepted"}
        for outcome in outcomes:
            await answered(house, outcome)
        await trio.sleep(1)
        owners = [await house.store.people.by_key(chat) for chat in alike]
        assert [owner and (owner.id, owner.parent, owner.keys) for owner in owners] == [
            ("club-t12", "club", (alike[0],)), ("club-t12-2", "club", (alike[1],)), ("club-t12-3", "club", (alike[2],)),
        ]  # fmt: skip
        assert {flight.target for flight in pigeon.arrived} == {chat.removeprefix("pigeon:") for chat in alike}
        for request in model.history:
            words = " ".join(message.text for message in request.messages)
            assert sum(chat in words for chat in alike) == 1, "what is said in one is not read in another"


async def test_topics_past_the_most_share_the_groups_own_conversation(tmp_path: Path, autojump_clock: object) -> None:
    """One member who opens topic after topic makes no more users, agents and conversations than a group may have."""
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        many = [in_club(f"m{n}", f"in {n}", chat=f"{CLUB}:{n}", within=CLUB) for n in range(TOPICS_MAX + 20)]
        outcomes = [*await receive(house, *many[:50]), *await receive(house, *many[50:])]
        assert set(states(outcomes)) == {"accepted"}
        for outcome in outcomes:
            await answered(house, outcome)
        await trio.sleep(1)
        below = [user for user in await house.store.people.find() if user.parent == "club"]
        assert len(below) == TOPICS_MAX
        assert sorted(flight.target for flight in pigeon.arrived) == sorted(f"-42:{n}" for n in range(len(many)))
        assert {flight.target: flight.path for flight in pigeon.arrived}[f"-42:{TOPICS_MAX}"] == "/club/pigeon"
        told = [n for n, outcome in enumerate(outcomes) if outcome.say]
        assert told == [*range(TOPICS_MAX, TOPICS_MAX + 20)], "each topic is told, once"
        assert f"{TOPICS_MAX} topics" in outcomes[-1].say
        again = await receive(house, in_club("x", chat=f"{CLUB}:{TOPICS_MAX}", within=CLUB))
        assert [(outcome.state, outcome.say) for outcome in again] == [("accepted", "")]
        await house.store.people.remove("club-t3")
        [outcome] = await receive(house, in_club("y", chat=f"{CLUB}:{TOPICS_MAX}", within=CLUB))
        receipt = await house.store.inbox.receipt(outcome.seq)
        assert receipt is not None and receipt.path == f"/club-t{TOPICS_MAX}/pigeon", "there is room again"


async def test_accepting_a_topics_first_message_makes_its_user_as_well(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        for key in ("a", "b"):
            receipt = await house.daemon.intake.accept(in_club(key, "hi", chat=f"{CLUB}:5", within=CLUB))
            assert receipt.path == "/club-t5/pigeon"
        owner = await house.store.people.by_key(f"{CLUB}:5")
        assert owner is not None and owner.parent == "club"
