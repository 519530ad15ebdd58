"""The offline responder: what it says, what it asks tools for, and that no text breaks it."""

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daycare.base.limits import MESSAGE_MAX_BYTES
from daycare.base.messages import Message, Origin, Text, ToolCall, ToolResult
from daycare.base.times import local_time
from daycare.plugin import Completion, InferRequest, ProviderConfig, TextDelta, ToolSpec
from daycare.testing.clock import EPOCH_MS, VirtualClock
from daycare_plugins.offline.arithmetic import calculate
from daycare_plugins.offline.plugin import OfflineProvider, answer, plugin
from daycare_plugins.offline.when import due
from tests.cost import IN_STEP, costs_at_most

MORNING_MS = EPOCH_MS + 9 * 3_600_000  # Friday 2027-01-01 09:00 UTC, 10:00 in Madrid
NAMES = ("remind", "send_message", "cron_add", "cron_list", "agent_create", "identity_propose")
TOOLS = tuple(ToolSpec(name=name, description="", schema={}) for name in NAMES)


def user(text: str, origin: Origin = Origin.PERSON, sender: str = "") -> Message:
    return Message("user", (Text(text),), at_ms=MORNING_MS, origin=origin, sender=sender)


def request(*messages: Message, now_ms: int = MORNING_MS, zone: str = "Europe/Madrid") -> InferRequest:
    return InferRequest(model="rules", system="", messages=messages, tools=TOOLS, zone=zone, now_ms=now_ms)


class Talk:
    """A conversation whose tools always succeed; `calls` are the tool calls of the last answer."""

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.calls: list[ToolCall] = []

    def say(self, *texts: str, status: str = "ok") -> str:
        self.history += [user(text) for text in texts]
        self.calls = []
        while True:
            text, calls = answer(request(*self.history))
            self.history.append(Message("assistant", calls or (Text(text),), at_ms=MORNING_MS))
            if not calls:
                return text
            self.calls += calls
            results = [ToolResult(call_id=c.id, name=c.name, text="why", status=status) for c in calls]  # type: ignore[arg-type]
            self.history.append(Message("tool", tuple(results)))


async def test_text_comes_in_words_and_ends_with_one_completion() -> None:
    provider = plugin.providers["offline"](ProviderConfig(name="offline", kind="offline"))
    async with aclosing(provider.infer(request(user("help")))) as stream:
        *deltas, last = [event async for event in stream]
    assert isinstance(last, Completion)
    assert len(deltas) > 20
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == last.message.text
    assert last.finish == "stop"
    assert await provider.models() == ["rules"]


def test_it_says_what_it_is_and_how_to_connect_a_model_once() -> None:
    talk = Talk()
    first, second, third = talk.say("hello"), talk.say("hello"), talk.say("Write me a poem about the sea")
    for word in ("not a language model", "daycare keys add openai", "[providers.NAME]", "README"):
        assert word in first
        assert word not in second + third
    assert "help" in third
    assert "not a language model" in talk.say("Are you ChatGPT?")
    assert "keys add" in Talk().say("Write me a poem")


@pytest.mark.parametrize(
    ("told", "asked", "expected"),
    [
        ("my cat is called Miso", "what is my cat called?", "Your cat is called Miso."),
        ("My cat's name is Miso.", "What's my cat's name?", "Your cat is called Miso."),
        ("my cat is called Miso", "what is the name of my cat", "Your cat is called Miso."),
        ("Our dogs are called Bo and Jo", "what are our dogs called?", "Your dogs is called Bo and Jo."),
        ("my door code is 1234", "What is my door code?", "Your door code is 1234."),
        ("my doctor is Dr. Smith", "who is my doctor?", "Your doctor is Dr. Smith."),
        ("remember that the bin day is Monday", "when is the bin day?", "The bin day is Monday."),
        ("Please remember that I park on level 3", "what do you remember?", "I park on level 3"),
        ("could you remember: oat milk", "what do you know about me?", "oat milk"),
        ("call me Ana", "what is my name?", "Your name is Ana."),
        ("Hi, my name is Ünal Öz.", "who am I?", "Your name is Ünal Öz."),
        ("Hello! My cat is called Miso. I like green tea.", "what do I like?", "You like green tea."),
        ("My cat is called Miso and I like tea", "do you remember my cat?", "Your cat is called Miso."),
        ("my sister Clara lives in Bern", "who is my sister?", "Your sister Clara lives in Bern."),
        ("Our cat hates me and likes fish!", "what do you remember?", "your cat hates you and likes fish"),
        ("my brother works at the mill", "what about my brother?", "Your brother works at the mill."),
        ("I live in Málaga", "where do I live?", "You live in Málaga."),
        ("我的猫\nmy 猫 is called 小米", "what is my 猫 called?", "Your 猫 is called 小米."),
        ("[Fri 2027-01-01 10:00 CET] my cat is called Miso", "what is my cat called", "Your cat is called Miso."),
    ],
)
def test_what_was_told_is_recalled_from_the_history(told: str, asked: str, expected: str) -> None:
    talk = Talk()
    talk.say("hello")
    assert "Noted" in talk.say(told)
    talk.say("12 * 2")
    assert expected in talk.say(asked)


def test_a_later_fact_replaces_an_earlier_one_and_everything_can_be_forgotten() -> None:
    talk = Talk()
    talk.say("my cat is called Miso")
    talk.say("my cat is called Tofu")
    assert talk.say("what is my cat called?") == "Your cat is called Tofu."
    assert "Miso" not in talk.say("what do you remember?")
    talk.say("forget everything")
    assert talk.say("what is my cat called?") == "You have not told me what your cat is called."
    assert talk.say("what do you remember?") == (
        "You have told me nothing in this conversation yet. /memory shows what I remember of others."
    )


def test_what_was_not_told_in_this_conversation_is_answered_by_what_memory_has() -> None:
    said = ("what is my colour", "my colour is teal", "I live in Oslo")
    lines = "\n".join(f"[2026-12-01 10:00] Ann: {each}" for each in said)
    system = f'<memory tier="log" 00112233aabbccdd>\n{lines}\n</memory 00112233aabbccdd>'
    for asked, expected in (("what is my colour?", "my colour is teal"), ("where do I live?", "I live in Oslo")):
        recalled = replace(request(user(asked)), system=system)
        assert answer(recalled)[0] == f"This is what I remember of it:\n[2026-12-01 10:00] Ann: {expected}"
        told = (user("my colour is red. I live in Rome"), Message("assistant", (Text("Noted."),)), user(asked))
        assert expected not in answer(replace(recalled, messages=told))[0], "what was told last counts"
        told = (user("forget everything"), Message("assistant", (Text("Yes."),)), user(asked))
        assert "have not told me" in answer(replace(recalled, messages=told))[0]
    assert "have not told me" in answer(replace(request(user("what is my hat?")), system=system))[0]
    document = "<memory-md 00112233aabbccdd>\n# F\n\n- The boiler is serviced in May.\n</memory-md 00112233aabbccdd>"
    found = answer(replace(request(user("when is the boiler serviced?")), system=document))[0]
    assert found == "This is what I remember of it:\n- The boiler is serviced in May."


def test_it_greets_by_the_name_it_was_told() -> None:
    talk = Talk()
    talk.say("call me Ana")
    assert talk.say("hello").startswith("Hello, Ana!")


def test_time_and_date_are_those_of_the_users_zone() -> None:
    talk = Talk()
    assert talk.say("what time is it?") == "It is 10:00 (Europe/Madrid)."
    assert talk.say("What's the date today?") == "It is Friday, 1 January 2027 (Europe/Madrid)."
    assert "09:00" in answer(request(user("time"), zone="No/Where"))[0]
    assert answer(request(user("time"), zone="../etc/passwd", now_ms=10**18))[0] != ""


# -- what comes again, agents, lasting memory ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "cron", "text"),
    [
        ("every weekday at 8 remind me to stretch", "0 8 * * 1-5", "stretch"),
        ("Every weekday at 8: stretch", "0 8 * * 1-5", "stretch"),
        ("remind me every Monday at 18:30 to call Bob", "30 18 * * 1", "call Bob"),
        ("remind me to call Bob every day at 7 am", "0 7 * * *", "call Bob"),
        ("every evening at 8 tell me to water the plants.", "0 20 * * *", "water the plants"),
        ("every morning remind me about the pills", "0 8 * * *", "the pills"),
        ("every Saturday and Sunday at 10 remind me to sleep", "0 10 * * 0,6", "sleep"),
        ("on weekends at noon remind me to eat", "0 12 * * 6,0", "eat"),
        ("remind me to drink every two hours", "0 */2 * * *", "drink"),
        ("every 15 minutes: blink", "*/15 * * * *", "blink"),
        ("hourly: blink", "0 * * * *", "blink"),
    ],
)
def test_what_comes_again_is_a_scheduled_job(asked: str, cron: str, text: str) -> None:
    talk = Talk()
    said = talk.say(asked)
    [made] = talk.calls
    assert (made.name, made.arguments["cron"], made.arguments["prompt"]) == ("cron_add", cron, text)
    assert made.arguments["zone"] == "Europe/Madrid"
    assert f"daycare cron rm {made.arguments['name']}" in said


@pytest.mark.parametrize("asked", ["every 7 hours remind me to drink", "remind me every 45 minutes to blink"])
def test_what_no_calendar_repeats_is_told_and_not_scheduled(asked: str) -> None:
    talk = Talk()
    assert "comes again" in talk.say(asked)
    assert talk.calls == []


@pytest.mark.parametrize("said", ["Every morning I am tired", "Every Monday at 9 I go swimming"])
def test_what_people_do_again_and_again_is_no_order(said: str) -> None:
    talk = Talk()
    talk.say(said)
    assert talk.calls == []


def test_agents_lasting_memory_and_what_waits_are_asked_for() -> None:
    talk = Talk()
    assert "/use diary" in talk.say("make a diary agent")
    assert talk.calls[0].arguments == {"name": "diary", "template": "diary"}
    assert "/use finder" in talk.say("Please create a research agent called finder")
    assert "needs your yes" in talk.say("remember for good that I eat no meat")
    assert talk.calls[0].arguments["text"] == "- I eat no meat"
    assert "/approvals" in talk.say("what is waiting for me?")
    assert talk.calls[0].name == "cron_list"


# -- reminders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "after_s", "text"),
    [
        ("remind me in 10 minutes to stretch", 600, "stretch"),
        ("Remind me to stretch in 10 minutes.", 600, "stretch"),
        ("in 10 min remind me to stretch", 600, "stretch"),
        ("could you please remind me in an hour about the call with Dr. Smith", 3600, "the call with Dr. Smith"),
        ("remind me in half an hour that the oven is on!", 1800, "the oven is on"),
        ("remind me in 1 hour and 30 minutes to leave", 5400, "leave"),
        ("remind me in 1h30m to leave", 5400, "leave"),
        ("remind me in ten seconds: stretch", 10, "stretch"),
        ("remind me in 2 days to call", 172_800, "call"),
        ("remind me at 18:30 to cook", 8.5 * 3600, "cook"),
        ("remind me at 6:30 pm to cook", 8.5 * 3600, "cook"),
        ("remind me to cook at 6.30 p.m.", 8.5 * 3600, "cook"),
        ("remind me at 9 to cook", 23 * 3600, "cook"),
        ("remind me at noon to cook", 2 * 3600, "cook"),
        ("remind me tomorrow at 9 to cook", 23 * 3600, "cook"),
        ("remind me tomorrow to cook", 23 * 3600, "cook"),
        ("remind me to cook on Monday at 10", 3 * 86_400, "cook"),
        ("[Fri 2027-01-01 10:00] remind me in 10 minutes to stretch", 600, "stretch"),
    ],
)
def test_a_reminder_is_a_call_of_the_tool(asked: str, after_s: float, text: str) -> None:
    talk = Talk()
    talk.say(asked)
    assert [(call.name, call.arguments) for call in talk.calls] == [("remind", {"after_s": after_s, "text": text})]


def test_a_reminder_is_confirmed_in_local_time_after_the_tool_ran() -> None:
    talk = Talk()
    assert talk.say("remind me in 10 minutes to stretch") == "I will remind you at 10:10: stretch"
    assert talk.say("remind me tomorrow to cook") == "I will remind you on Saturday, 2 January 2027 at 09:00: cook"
    assert talk.say("remind me in 5 seconds to jump") == "I will remind you at 10:00:05: jump"


def test_a_tool_that_failed_is_told_as_failed() -> None:
    talk = Talk()
    assert talk.say("remind me in 10 minutes to stretch", status="error") == "That did not work: why"
    assert "cannot say" in talk.say("remind me in 10 minutes to stretch", status="uncertain")


@pytest.mark.parametrize(
    "asked", ["remind me to stretch", "remind me at 25:00 to x", "remind me in 99999999 weeks to x"]
)
def test_a_reminder_without_a_time_ahead_asks_for_one(asked: str) -> None:
    talk = Talk()
    assert "I need a time" in talk.say(asked)
    assert not talk.calls


def test_without_the_tool_it_says_so() -> None:
    asked = InferRequest(model="rules", system="", messages=(user("remind me in 10 minutes to stretch"),))
    text, calls = answer(asked)
    assert "no tool `remind`" in text
    assert not calls


def test_a_timer_is_answered_as_a_reminder() -> None:
    for text in ("stretch", "Reminder: stretch", "help", "[2027-01-01 10:10] stretch"):
        wanted = text.split("] ")[-1].removeprefix("Reminder: ")
        assert answer(request(user(text, Origin.TIMER)))[0] == f"Reminder: {wanted}"


def test_summer_time_is_counted() -> None:
    """On 2027-03-28 Madrid's clocks jump from 02:00 to 03:00: from 23:00 to 09:00 are nine hours."""
    now = datetime(2027, 3, 27, 23, 0, tzinfo=ZoneInfo("Europe/Madrid"))
    at = due("tomorrow at 9", now)
    assert at is not None
    assert at.astimezone(UTC) - now.astimezone(UTC) == timedelta(hours=9)
    later = due("in 10 hours", now)
    assert later is not None
    assert f"{later:%H:%M}" == "10:00"


# -- several at once, and others -------------------------------------------------------------------------------------


def test_merged_messages_are_all_answered_and_their_tools_called_together() -> None:
    talk = Talk()
    text = talk.say(
        "remind me in 10 minutes to stretch\nwhat is 2 + 2?", "my cat is called Miso", "tell /ana/agent/x: hi"
    )
    assert text.splitlines() == [
        "I will remind you at 10:10: stretch",
        "2 + 2 = 4",
        "Noted: your cat is called Miso.",
        "I wrote to /ana/agent/x.",
    ]
    assert [call.name for call in talk.calls] == ["remind", "send_message"]
    assert len({call.id for call in talk.calls}) == 2


def test_a_message_that_comes_while_a_tool_runs_is_answered_in_the_same_turn() -> None:
    call = ToolCall("a", "remind", {"after_s": 600, "text": "stretch"})
    result = ToolResult(call_id="a", name="remind", text="ok")
    so_far = [
        user("remind me in 10 minutes to stretch"),
        Message("assistant", (call,), at_ms=MORNING_MS),
        Message("tool", (result,)),
        user("remind me in 20 minutes to walk"),
    ]
    _, calls = answer(request(*so_far))
    assert [call.arguments for call in calls] == [{"after_s": 1200, "text": "walk"}]
    assert calls[0].id != "a"
    so_far += [
        Message("assistant", calls, at_ms=MORNING_MS),
        Message("tool", (ToolResult(call_id=calls[0].id, name="remind", text="ok"),)),
    ]
    text, calls = answer(request(*so_far))
    assert text.splitlines() == ["I will remind you at 10:10: stretch", "I will remind you at 10:20: walk"]
    assert not calls


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("tell /ana/agent/x that tea is ready", "tea is ready"),
        ("ask /ana/agent/x: what time is it?", "what time is it?"),
        ("send to /ana/agent/x hello", "hello"),
    ],
)
def test_words_for_another_agent_are_sent_by_the_tool(asked: str, text: str) -> None:
    talk = Talk()
    talk.say(asked)
    assert [(c.name, c.arguments) for c in talk.calls] == [("send_message", {"to": "/ana/agent/x", "text": text})]


def test_another_agents_words_are_passed_on_and_never_for_ever() -> None:
    told = answer(request(user("the tea is ready", Origin.AGENT, "/ana/agent/x")))[0]
    assert told == "/ana/agent/x says: the tea is ready"
    assert answer(request(user(told, Origin.AGENT, "/ana/telegram"))) == ("", ())


def test_forwarded_words_and_files_make_it_do_nothing() -> None:
    for origin in (Origin.FORWARD, Origin.FILE):
        assert answer(request(user("remind me in 10 minutes to pay", origin)))[1] == ()
        told = answer(request(user("call me Eve", origin), Message("assistant", (Text("ok"),)), user("who am I?")))[0]
        assert "not told" in told


@pytest.mark.parametrize(
    ("sum_", "value"),
    [
        ("2+3*4", "14"),
        ("(2 + 3) \u00d7 4", "20"),
        ("1/3", "0.3333333333"),
        ("0.1+0.2", "0.3"),
        ("-(2) - -3", "1"),
        ("1,000 * 3", "3000"),
    ],
)
def test_sums_are_exact(sum_: str, value: str) -> None:
    assert calculate(sum_) == value
    assert Talk().say(f"what is {sum_}?").endswith(f"= {value}")


@pytest.mark.parametrize("sum_", ["1/0", "(1+2", "1++", "1 2", "", "(" * 119 + "1", "²+1"])
def test_what_is_no_sum_has_no_value(sum_: str) -> None:
    with pytest.raises(ValueError):
        calculate(sum_)


# -- any text --------------------------------------------------------------------------------------------------------

# fmt: off
PIECES = st.sampled_from([
    "remind me", "in", "10 minutes", "99999999 weeks", "at", "25:61", "tomorrow", "to", "half an", "and", "monday",
    "my", "cat", "is called", "remember that", "forget everything", "what is", "called", "i like", "hello", "tell",
    "/a/b", "1/0", "((", ".", "?", "\n", "\x00", "\u2028", "[09:00]", "\u00df", "\u0130", "\u0663", "\U0001f408", "''",
])
WORST = (
    "remind me ", "remind me to a at ", "remind me in 1h ", "in 1 ", "in 1 h", "my ", "my a's ", "1+", "(", "hi, ",
    "Aaaa. ", "[", "what is my ", "a\n", " ", "'", "tell /", "tell /a: ", "could you ",
)
# fmt: on


@given(
    texts=st.lists(st.one_of(st.text(), st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join)), max_size=4),
    origin=st.sampled_from(Origin),
    zone=st.one_of(st.sampled_from(["UTC", "Asia/Kathmandu", "Europe", ""]), st.text()),
    now_ms=st.integers(-(2**63), 2**63),
)
@settings(max_examples=300, deadline=None, print_blob=True)
def test_no_text_breaks_it(texts: list[str], origin: Origin, zone: str, now_ms: int) -> None:
    messages: list[Message] = []
    for text in texts:
        messages.append(user(text, origin))
        said, calls = answer(request(*messages, zone=zone, now_ms=now_ms))
        results = tuple(ToolResult(call_id=call.id, name=call.name, text=text) for call in calls)
        if calls:
            messages += [Message("assistant", calls), Message("tool", results)]
            said, calls = answer(request(*messages, zone=zone, now_ms=now_ms))
            assert not calls
        messages.append(Message("assistant", (Text(said),)))
    answer(request(*messages, zone=zone, now_ms=now_ms))


HISTORY_CHARS = 200_000  # what 50,000 tokens take, its window


@pytest.mark.parametrize("seed", WORST)
def test_no_text_is_slow(seed: str) -> None:
    """Of one long line, and of a history of the worst lines, of which it takes 50,000 tokens."""

    def history(line_chars: int, chars: int) -> InferRequest:
        line = user((seed * (line_chars // len(seed) + 1))[:line_chars])
        return request(*[line] * (chars // line_chars), Message("assistant", (Text("ok"),)), line)

    for quarter, whole in (
        (history(MESSAGE_MAX_BYTES // 4, MESSAGE_MAX_BYTES // 4), history(MESSAGE_MAX_BYTES, MESSAGE_MAX_BYTES)),
        (history(999, HISTORY_CHARS // 4), history(999, HISTORY_CHARS)),
    ):
        assert costs_at_most(IN_STEP, partial(answer, whole), partial(answer, quarter))


def test_a_long_line_is_refused_in_words() -> None:
    assert "too long" in Talk().say("remember that " + "x" * 2000)


async def test_days_pass_at_once_on_the_virtual_clock(autojump_clock: trio.testing.MockClock) -> None:
    clock = VirtualClock()
    await trio.sleep(86_400.5)
    assert clock.now_ms() == EPOCH_MS + 86_400_500
    assert f"{local_time(EPOCH_MS, UTC):%Y-%m-%dT%H:%M:%S %A}" == "2027-01-01T00:00:00 Friday"
    assert await trio.to_thread.run_sync(clock.now_ms) == EPOCH_MS + 86_400_500


def test_the_provider_keeps_nothing_between_calls() -> None:
    one = OfflineProvider()
    assert vars(one) == {"name": "offline", "needs_key": False}
