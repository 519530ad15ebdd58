"""The chat commands that tell how things are and those that change settings, in a house with its real store."""

from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.agent.commands import BUILT_IN, MENU
from daycare.base.connector import Health
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.pairing import code_hash
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.store.records import AgentConfig, PairingRequest, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted
from tests.agent.helpers import PATH, me

REFUSED = BusyError("REQUEST_REFUSED", "the model refuses the request")


async def ben(house: TestDaemon) -> None:
    """Add somebody who is no operator."""
    await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))


async def give_up(house: TestDaemon, model: Scripted, text: str, user: str = "ann") -> int:
    """Let a message become a dead letter; return the letter's number."""
    model.enqueue(*[REFUSED] * 5)
    receipt = await house.say(text, user=user)
    with pytest.raises(Exception, match="given up"):
        await house.hear(receipt)
    return (await house.store.dead.find())[0].no


async def test_every_core_command_is_reserved_and_nothing_else(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert set(house.daemon.commands._commands) == BUILT_IN - {"quit", "exit"}


async def test_the_menu_is_short_and_in_the_order_of_use(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        listed = house.daemon.commands.listed()
        assert tuple(name for name, _ in listed) == MENU
        assert all(3 <= len(help_) <= 256 and "\n" not in help_ for _, help_ in listed)
        assert (await house.talk("/help")).splitlines()[0] == "/new - start a new conversation; the old one is kept"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/stat", "I do not know /stat. Did you mean /status? /help shows what I know."),
        ("/hepl me", "I do not know /hepl. Did you mean /help? /help shows what I know."),
        ("/agent@some_bot", "I do not know /agent. Did you mean /agents? /help shows what I know."),
        ("/dance", "I do not know /dance. /help shows what I know."),
    ],
)
async def test_an_unknown_command_is_answered_with_the_nearest(
    tmp_path: Path, autojump_clock: object, typed: str, told: str
) -> None:
    async with open_daemon(tmp_path) as house:
        assert await house.talk(typed) == told


async def test_start_greets_by_name_whatever_stands_behind_it(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        hello = await house.talk("/start")
        assert hello.startswith("Hello Ann, I am ") and "/help" in hello
        assert await house.talk("/start abc123") == hello
        await house.agent("/ann/agent/xavier", AgentConfig(name="Xavier"))
        assert (await house.talk("/start", path="/ann/agent/xavier")).startswith("Hello Ann, I am Xavier.")
        assert house.model.history == [], "no model is asked"


async def test_new_and_reset_begin_a_conversation_and_cancel_stops(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        assert "new conversation" in await house.talk("/new")
        assert "new conversation" in await house.talk("/reset")
        assert (await me(house)).session == 3
        assert await house.talk("/cancel") == "Nothing is running."
        model.enqueue(500.0)
        first = await house.say("hello")
        await trio.sleep(5)
        assert await house.talk("/cancel") == "Stopped."
        assert trio.current_time() < 10, "the turn was not waited for"
        assert await house.hear(first) == ""


# -- /status -----------------------------------------------------------------------------------------------------------


async def test_status_shows_the_operator_everything(tmp_path: Path, autojump_clock: object) -> None:
    model, pigeon = Scripted(), FakeConnector()
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await ben(house)
        await house.talk("hello", user="ben")
        await trio.sleep(3_700)
        house.daemon.host.report("pigeon", Health(state="conflict", reason="another one flies", hint="stop it"))
        await trio.sleep(90)
        no = await give_up(house, model, "poison")
        await house.store.intake.take("pigeon", [knock("pigeon:7", "Cat", "7K1M-20DA")])
        status = await house.talk("/status")
        lines = status.splitlines()
        assert lines[0].startswith("daycare ") and "up 1 h " in lines[0]
        assert lines[1] == "your agents: 1 (1 awake)" or lines[1] == "your agents: 1 (1 at work)"
        assert "waiting for me: nothing" in lines
        assert "direct: up" in lines
        assert any(line.startswith("pigeon: conflict for 2 min") for line in lines), status
        assert "another one flies (stop it)" in status
        assert f"1 dead letter, the last: the model refuses the request; /retry {no} tries it again" in lines
        assert "all dead letters: 1, see daycare dead list" in lines
        assert any(line.startswith("all agents: 2 living") for line in lines)
        assert "1 stranger waiting to be let in, see daycare pair list" in lines


async def test_status_shows_others_only_what_concerns_them(tmp_path: Path, autojump_clock: object) -> None:
    model, pigeon = Scripted(), FakeConnector()
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()]) as house:
        await ben(house)
        await give_up(house, model, "my secret")
        status = await house.talk("/status", user="ben")
        assert "pigeon" not in status and "direct: up" in status
        assert "all " not in status and "dead letter" not in status and "stranger" not in status
        assert "your agents: 1 " in status


async def test_status_names_a_provider_that_is_away_to_operators(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await ben(house)
        await house.talk("hello", user="ben")
        model.enqueue(*[UnavailableError("PROVIDER_DOWN", "the lights are off there")] * 30)
        await house.say("hello")
        await trio.sleep(20)
        assert "model provider scripted: away, the lights are off there" in await house.talk("/status")
        others = await house.talk("/status", user="ben")
        assert "no model answers me now" in others and "scripted" not in others
        assert "away now: the lights are off there" in await house.talk("/model")


async def test_status_counts_what_waits_without_the_command_itself(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(*[UnavailableError("PROVIDER_DOWN", "the lights are off there")] * 30)
    async with open_daemon(tmp_path, model) as house:
        await house.say("first")
        await house.say("second")
        await trio.sleep(20)
        assert "waiting for me: 2 messages" in await house.talk("/status")


# -- /trace ------------------------------------------------------------------------------------------------------------


async def test_trace_tells_what_became_of_the_last_message(tmp_path: Path) -> None:
    async with open_daemon(tmp_path, location="file.db") as house:
        first = await house.say("hello")
        await house.hear(first)
        await house.talk("/whoami")
        for words in ("/trace", "/trace last", f"/trace {first.seq}", f"/trace {first.trace}"):
            told = await house.talk(words)
            assert told.startswith(f"Message {first.trace}:\n"), words
            assert f"accepted from direct:ann, message {first.seq}" in told
            assert "reply queued" in told and "/ann" not in told.partition("\n")[2]


async def test_trace_knows_nothing_of_others(tmp_path: Path) -> None:
    async with open_daemon(tmp_path, location="file.db") as house:
        await ben(house)
        theirs = await house.say("a secret", user="ben")
        await house.hear(theirs)
        assert "nothing of your last message" in await house.talk("/trace")
        for words in (str(theirs.seq), theirs.trace, "nonsense", "999999", "9" * 40, "%"):
            told = await house.talk(f"/trace {words}")
            assert told == f"I know nothing of your message {words}: there is none, or it was long ago."


# -- /agents, /model, /retry -------------------------------------------------------------------------------------------


async def test_agents_are_listed_with_state_and_description(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await ben(house)
        await house.talk("hello", user="ben")
        await house.agent("/ann/agent/xavier", AgentConfig(description="waters the plants"))
        lines = (await house.talk("/agents")).splitlines()
        assert lines[0] == "/ann/agent/xavier (asleep): waters the plants"
        assert lines[1].startswith(f"{PATH} (") and lines[1].endswith(", this one)")
        assert len(lines) == 2, "others' agents are not shown"


def two_models() -> Config:
    return Config(
        models=ModelsSection(default="scripted/model", fallbacks=("other/model",)),
        providers={"scripted": ProviderSection(kind="scripted"), "other": ProviderSection(kind="scripted")},
    )


async def test_model_is_shown_to_all_and_chosen_by_operators(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=two_models()) as house:
        await ben(house)
        assert await house.talk("/model", user="ben") == "scripted/model answers here. If it does not: other/model."
        assert await house.talk("/model other/model", user="ben") == "Only Ann may choose the model."
        assert (await house.daemon.directory.at("/ben/direct")).config.model == ""
        assert "/model PROVIDER/MODEL" in await house.talk("/model")
        assert (await house.talk("/model other/model")).startswith("From now on other/model answers here.")
        assert (await me(house)).config.model == "other/model"
        assert (await house.talk("/model")).startswith("other/model answers here, chosen for this agent.")
        assert (await house.talk("/model default")).startswith("Back to the default. scripted/model answers here.")
        assert (await me(house)).config.model == ""


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ("nobody/model", "nobody"),
        ("scripted/modle", "did you mean /model scripted/model?"),
        ("unheard-of", "unheard-of"),
        ("scripted/", "no name after its provider's"),
    ],
)
async def test_a_model_that_nobody_has_is_not_chosen(
    tmp_path: Path, autojump_clock: object, wish: str, why: str
) -> None:
    async with open_daemon(tmp_path, config=two_models()) as house:
        await house.talk("/model other/model")
        assert why in await house.talk(f"/model {wish}")
        assert (await me(house)).config.model == "other/model"


async def test_the_other_settings_of_an_agent_stay(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=two_models()) as house:
        agent = await house.agent("/ann/agent/xavier", AgentConfig(name="Xavier", tools=()))
        await house.talk("/model other/model", path=agent.path)
        config = (await house.daemon.directory.at(agent.path)).config
        assert config == AgentConfig(name="Xavier", tools=(), model="other/model")


async def test_retry_takes_a_given_up_message_up_once(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        no = await give_up(house, model, "water the plants")
        assert await house.talk(f"/retry {no}") == "I try it again."
        await trio.sleep(5)
        assert model.history[-1].messages[-1].text.endswith("water the plants")
        assert await house.talk(f"/retry {no}") == "I have taken it up again already."


async def test_retry_is_for_messages_to_this_agent_only(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await ben(house)
        no = await give_up(house, model, "a secret", user="ben")
        assert await house.talk(f"/retry {no}") == f"I have given up no message with the number {no} here."
        letter = await house.store.dead.get(no)
        assert letter is not None and letter.replayed_at is None
        for odd in ("", " all", " -1", " ²", f" {'9' * 30}"):
            assert (await house.talk(f"/retry{odd}")).startswith("Which one?")
        assert "/retry" not in await house.talk("/help")


def knock(key: str, name: str, code: str, **more: Any) -> PairingRequest:
    return PairingRequest(
        key=key, connector=key.partition(":")[0], kind="person", name=name, code_hash=code_hash(code), **more
    )


async def test_status_tells_how_long_it_runs(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await trio.sleep(2 * 3_600 + 60)
        assert "up 2 h 1 min" in (await house.talk("/status")).splitlines()[0]
