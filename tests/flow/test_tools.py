"""Tools in a turn: the model's mistakes come back as words, and what a tool asks for is committed with the turn."""

from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from daycare.agent.steps import TOOL_CALLS_MAX
from daycare.base.errors import BusyError, ConflictError
from daycare.base.fence import fence
from daycare.base.limits import TIMERS_MAX_PER_AGENT
from daycare.base.messages import Envelope, Origin, ToolResult
from daycare.base.tool import STAYS
from daycare.config import ToolsSection
from daycare.plugin import Plugin, StructTool, ToolContext
from daycare.store.records import AgentConfig, NewTimer, User
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from daycare.testing.tools import NoteWord
from daycare.tools.builtin import READ_MAX_BYTES
from daycare.tools.runner import TOOL_DEADLINE_S, TOOL_RESULT_MAX_CHARS
from tests.actors.helpers import config, history, said_to, tools


async def _result(house: TestDaemon, model: Scripted, name: str, arguments: dict[str, object]) -> ToolResult:
    model.enqueue(call((name, arguments)), say("ok"))
    assert await house.talk("do it") == "ok"
    [part] = model.history[-1].messages[-1].parts
    assert isinstance(part, ToolResult) and part.name == name
    return part


async def test_what_the_model_does_wrong_comes_back_to_it(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        unknown = await _result(house, model, "fly", {})
        assert unknown.status == "error"
        assert "there is no tool called fly" in unknown.text and "remind" in unknown.text
        wrong = await _result(house, model, "remind", {"after_s": "soon", "text": "x"})
        assert wrong.status == "error" and "after_s" in wrong.text
        missing = await _result(house, model, "remind", {"after_s": 5})
        assert missing.status == "error" and "text" in missing.text
        extra = await _result(house, model, "note", {"word": "a", "colour": "red"})
        assert extra.status == "error" and "colour" in extra.text
        outside = await _result(house, model, "remind", {"after_s": 0, "text": "x"})
        assert outside.status == "error" and "after_s" in outside.text
        assert await house.store.timers.find() == []


async def test_an_agent_may_use_only_its_tools(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        agent = await house.agent("/ann/direct")
        await house.store.agents.configure(agent.id, AgentConfig(tools=("note",)))
        refused = await _result(house, model, "remind", {"after_s": 5, "text": "x"})
        assert refused.status == "error" and "there are: note" in refused.text
        assert [tool.name for tool in model.history[0].tools] == ["note"]


async def test_a_tool_that_takes_too_long_is_cut_off(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model, plugins=[tools]) as house:
        late = await _result(house, model, "wait", {"seconds": 10_000})
        assert late.status == "error" and f"within {TOOL_DEADLINE_S:g} s" in late.text
        assert trio.current_time() == pytest.approx(TOOL_DEADLINE_S, abs=0.1)


async def test_a_long_result_is_cut_and_kept_for_reading_on(tmp_path: Path, autojump_clock: object) -> None:
    async def talk(context: ToolContext, arguments: NoteWord) -> str:
        return "x" * TOOL_RESULT_MAX_CHARS + "the end"

    long = Plugin(name="long", tools=(StructTool("talk", NoteWord, talk, idempotent=True, **STAYS),))
    model = Scripted()
    async with open_daemon(tmp_path, model, plugins=[long]) as house:
        result = await _result(house, model, "talk", {"word": "a"})
        assert result.status == "ok"
        cut = f"\n[cut: {TOOL_RESULT_MAX_CHARS + 7} characters in all; read on with read_result, file 1, from offset "
        assert result.text == "x" * TOOL_RESULT_MAX_CHARS + cut + f"{TOOL_RESULT_MAX_CHARS}]"
        rest = await _result(house, model, "read_result", {"file": 1, "offset": TOOL_RESULT_MAX_CHARS})
        assert rest.text == "the end"
        begin = await _result(house, model, "read_result", {"file": 1})
        more = TOOL_RESULT_MAX_CHARS + 7 - READ_MAX_BYTES
        assert begin.text.endswith(f"[{more} bytes more, from offset {READ_MAX_BYTES}]")
        wrongs: list[dict[str, object]] = [{"file": 1, "offset": 99_999}, {"file": 2}]
        for wrong in wrongs:
            assert (await _result(house, model, "read_result", wrong)).status == "error"
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        model.enqueue(call(("read_result", {"file": 1})), lambda request: say(request.messages[-1].parts[0].text))  # type: ignore[union-attr]
        assert "there is none" in await house.talk("read it", user="bob"), "another user's file does not exist"


async def test_too_many_calls_at_once_are_not_run(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(*[("now", {})] * (TOOL_CALLS_MAX + 2)), say("done"))
        assert await house.talk("go") == "done"
        results = [message.parts[0] for message in model.history[-1].messages if message.role == "tool"]
        assert [result.status for result in results[-3:]] == ["ok", "error", "error"]  # type: ignore[union-attr]


async def test_a_role_has_the_tools_of_its_list_only(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    settings = config()
    settings = replace(settings, tools=ToolsSection(user=("now", "spawn"), subagent=("remind", "now")))
    async with open_daemon(tmp_path, model, config=settings) as house:
        model.enqueue(call(("remind", {"after_s": 5, "text": "x"})), say("no"))
        await house.talk("go")
        assert [tool.name for tool in model.history[0].tools] == ["spawn", "now"]
        assert "there is no tool called remind" in model.history[1].messages[-1].parts[0].text  # type: ignore[union-attr]
        model.enqueue(call(("spawn", {"task": "x"})), say("done"), say("fine"))
        await house.talk("help me")
        assert [tool.name for tool in model.history[3].tools] == ["now"], "no more than its parent, nor than its role"


async def test_a_tool_says_how_far_it_is(tmp_path: Path, autojump_clock: object) -> None:
    async def dig(context: ToolContext, arguments: NoteWord) -> str:
        context.progress("half way")
        return "dug"

    digging = Plugin(name="digging", tools=(StructTool("dig", NoteWord, dig, idempotent=True, **STAYS),))
    model = Scripted()
    async with open_daemon(tmp_path, model, plugins=[digging]) as house:
        await _result(house, model, "dig", {"word": "a"})
        assert [event["text"] for event in house.events("tool.progress")] == ["half way"]


async def test_a_message_to_another_agent_leaves_with_the_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("send_message", {"to": "/ann/agent/helper", "text": "help"})), 50.0, say("sent"))
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/helper")
        receipt = await house.say("get help")
        await trio.sleep(20)
        assert (await house.store.inbox.counts())["waiting"] == 1, "only what the person said waits"
        assert await house.hear(receipt) == "sent"
        await trio.sleep(1)
        assert (await history(house, "/ann/agent/helper"))[0] == (
            "user",
            f"Message from /ann/direct (not from the user):\n{fence('message', 'help')}",
        )
        assert await said_to(house) == ["sent"], "another agent's answer is not sent to the person"


async def test_a_given_up_turn_sends_nothing_and_sets_no_timer(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(
        call(("send_message", {"to": "/ann/agent/helper", "text": "help"}), ("remind", {"after_s": 5, "text": "x"}))
    )
    model.enqueue(*[BusyError("REQUEST_REFUSED", "the model refuses the request")] * 5)
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/helper")
        with pytest.raises(ConflictError):
            await house.talk("get help")
        await trio.sleep(100)
        assert await history(house, "/ann/agent/helper") == []
        assert await house.store.timers.find() == []


async def test_messages_to_strangers_agents_are_refused(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        await house.talk("hi", user="bob")
        other = await _result(house, model, "send_message", {"to": "/bob/direct", "text": "psst"})
        assert other.status == "error" and "nothing goes from one user to another" in other.text
        nobody = await _result(house, model, "send_message", {"to": "/ann/agent/nobody", "text": "psst"})
        assert nobody.status == "error" and "no such agent" in nobody.text
        long = await _result(house, model, "send_message", {"to": "/ann/direct", "text": "x" * 70_000})
        assert long.status == "error" and "at most 65536" in long.text


async def test_a_message_to_one_who_dies_meanwhile_is_a_dead_letter(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("send_message", {"to": "/ann/agent/helper", "text": "help"})), 50.0, say("sent"))
    async with open_daemon(tmp_path, model) as house:
        helper = await house.agent("/ann/agent/helper")
        receipt = await house.say("get help")
        await trio.sleep(20)
        await house.store.agents.set_state(helper.id, "dead", "gone")
        assert await house.hear(receipt) == "sent", "the turn still commits"
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code, letter.path) == ("post", "AGENT_UNKNOWN", "/ann/agent/helper")


async def test_a_reminder_fires_once_at_its_time(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("remind", {"after_s": 7_200, "text": "stretch"})), say("noted"))
    async with open_daemon(tmp_path, model) as house:
        await house.talk("remind me in two hours")
        [timer] = await house.store.timers.find()
        await trio.sleep(7_199)
        assert await said_to(house) == ["noted"]
        await trio.sleep(2)
        assert (await said_to(house))[1:] == ["echo: Reminder due now: stretch"]
        await trio.sleep(7_200)
        assert len(await said_to(house)) == 2, "once"
        assert timer.due_at == house.daemon.started_at + 7_200_000


async def test_a_reminder_due_while_the_daemon_was_down_fires_once_at_the_start(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    model = Scripted(echo)
    model.enqueue(call(("remind", {"after_s": 100, "text": "stretch"})), say("noted"))
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await house.talk("remind me")
    await trio.sleep(5_000)
    for _ in range(2):
        async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
            await trio.sleep(1)
            assert await said_to(house) == ["noted", "echo: Reminder due now: stretch"]


async def test_a_reminder_beyond_the_bound_is_a_visible_failure(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("remind", {"after_s": 500_000, "text": "one too many"})), say("noted"))
    async with open_daemon(tmp_path, model) as house:
        agent = await house.agent("/ann/direct")
        for n in range(TIMERS_MAX_PER_AGENT):
            envelope = Envelope(
                to=agent.path,
                user="ann",
                origin=Origin.TIMER,
                sender=agent.path,
                key=f"t{n}",
                text="x",
                trace="t",
            )
            await house.store.timers.add(NewTimer(agent_id=agent.id, key=f"t{n}", due_at=1 << 50, envelope=envelope))
        assert await house.talk("remind me") == "noted"
        assert len(await house.store.timers.find(limit=2_000)) == TIMERS_MAX_PER_AGENT
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code) == ("timer", "TIMERS_MAX")
