"""What the daemon tells of agents: idle after a while without work, awake again; and no echo of it without end."""

from pathlib import Path

import trio

from daycare.base.limits import HOPS_MAX, SIGNAL_IDLE_S
from daycare.features.signals.lives import Listeners
from daycare.plugin import Completion, InferRequest
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say
from tests.signals.helpers import ANN, IDA, TOM, Several, heard, history, living, subscribe


async def told(house: TestDaemon) -> list[tuple[str, str]]:
    """Return what was told of agents and is out."""
    return [(it.sender, it.type.rsplit(":", 1)[1]) for it in await history(house) if it.state == "fired"]


async def test_an_agent_is_idle_after_a_minute_and_wakes_with_the_next_message(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Several()
    model.script(IDA)
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA)
        await subscribe(house, IDA, "agent:*:idle")
        await subscribe(house, IDA, f"agent:{ANN}:wake")
        await house.talk("one")
        await trio.sleep(SIGNAL_IDLE_S / 2)
        await house.talk("two")
        assert await told(house) == [(ANN, "wake")]
        await trio.sleep(SIGNAL_IDLE_S - 1)
        assert await told(house) == [(ANN, "wake")]
        await trio.sleep(10)
        assert await told(house) == [(ANN, "wake"), (ANN, "idle")]
        await trio.sleep(600)
        await house.talk("three")
        await trio.sleep(600)
        assert await told(house) == [(ANN, "wake"), (ANN, "idle")] * 2
        assert await heard(house, IDA) == [f"agent:{ANN}:wake", f"agent:{ANN}:idle"] * 2
        assert "told by the daemon (not said by the user)" in model.of[IDA].history[0].messages[-1].text


async def test_nothing_is_written_where_nobody_listens(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await living(house, IDA)
        await subscribe(house, IDA, "tea:*")
        await subscribe(house, IDA, "*:*:*:*")
        assert house.store._writer.memory.followers.of(Listeners).patterns == {}
        await house.talk("one")
        await trio.sleep(600)
        assert await history(house) == []
        await subscribe(house, IDA, f"agent:{TOM}:idle")
        await house.talk("two")
        await trio.sleep(600)
        assert await history(house) == []


async def test_a_long_turn_is_no_idleness_and_neither_is_waiting_for_another(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Several()
    model.script(IDA)
    model.script(TOM).enqueue(110.0, say("found"))
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        await subscribe(house, IDA, "agent:*:idle")
        model.enqueue(call(("ask", {"to": TOM, "text": "look", "deadline_s": 900})), say("not yet"), say("it is found"))
        receipt = await house.say("ask tom")
        await trio.sleep(5)
        assert await house.talk("meanwhile") == "not yet"
        await trio.sleep(SIGNAL_IDLE_S * 1.5)
        assert await told(house) == []
        assert await house.hear(receipt) == "it is found"
        await trio.sleep(600)
        assert sorted(await told(house)) == [(TOM, "idle"), (ANN, "idle")]


async def test_two_agents_that_listen_to_each_other_fall_silent(tmp_path: Path, autojump_clock: object) -> None:
    model = Several()
    model.script(IDA), model.script(TOM)
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        for path in (IDA, TOM):
            await subscribe(house, path, "agent:*:idle")
            await subscribe(house, path, "agent:*:wake")
        await house.post(IDA, "work", sender=ANN, key="k")
        await trio.sleep(1_800)
        assert await told(house) == [(IDA, "wake"), (IDA, "idle")]
        assert len(model.of[IDA].history) == 1 and len(model.of[TOM].history) == 2


async def test_two_agents_that_answer_signals_with_signals_are_stopped(tmp_path: Path, autojump_clock: object) -> None:
    def again(request: InferRequest) -> Completion:
        if request.messages[-1].role == "tool":
            return say("NO_REPLY")
        return call(("signal_send", {"type": "ping:pong"}))

    model = Several()
    for path in (IDA, TOM):
        model.script(path).default = again
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        for path in (IDA, TOM):
            await subscribe(house, path, "ping:*")
        await house.say("begin", path=IDA)
        await trio.sleep(1_800)
        sent = await history(house)
        assert len(sent) == HOPS_MAX
        assert all(it.state == "fired" and len(it.deliveries) == 1 for it in sent)
        [storm] = house.events("storm.stopped")
        assert storm["hops"] == HOPS_MAX + 1


async def test_two_agents_that_answer_idleness_with_work_are_stopped(tmp_path: Path, autojump_clock: object) -> None:
    def busy(other: str) -> object:
        def answer(request: InferRequest) -> Completion:
            if request.messages[-1].role == "tool":
                return say("NO_REPLY")
            return call(("send_message", {"to": other, "text": "you are idle: do something"}))

        return answer

    model = Several()
    model.script(IDA).default = busy(TOM)  # type: ignore[assignment]
    model.script(TOM)
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        await subscribe(house, IDA, f"agent:{TOM}:idle")
        await house.post(TOM, "begin", sender=ANN, key="k")
        await trio.sleep(3_600)
        assert 5 < len(await told(house)) <= HOPS_MAX
        before = len(model.history)
        await trio.sleep(1_800)
        assert len(model.history) == before


async def test_signals_and_heartbeats_are_no_work_that_others_hear_of(tmp_path: Path, autojump_clock: object) -> None:
    model = Several()
    model.script(IDA), model.script(TOM)
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        await subscribe(house, IDA, "agent:*:*")
        await subscribe(house, TOM, "tea:*")
        for _ in range(3):
            await house.daemon.signals.controls.send("ann", "tea:ready", call=f"{trio.current_time()}")
            await trio.sleep(600)
        assert await heard(house, TOM) == ["tea:ready"] * 3
        assert await told(house) == [("", "ready")] * 3
        assert await heard(house, IDA) == []


async def test_a_signal_in_between_takes_nothing_from_the_idleness_that_follows_work(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Several()
    model.script(IDA), model.script(TOM)
    async with open_daemon(tmp_path, model) as house:
        await living(house, IDA, TOM)
        await subscribe(house, IDA, "agent:*:idle")
        await subscribe(house, TOM, "tea:*")
        await house.post(TOM, "work", sender=ANN, key="k")
        await trio.sleep(30)
        model.of[TOM].enqueue(100.0, say("NO_REPLY"))
        await house.daemon.signals.controls.send("ann", "tea:ready", call="c")
        await trio.sleep(95)
        assert (TOM, "idle") not in await told(house)  # it works on the signal
        await trio.sleep(300)
        assert (await told(house)).count((TOM, "idle")) == 1


async def test_a_dead_agent_is_not_idle_and_an_idle_agent_stays_so_over_a_restart(
    tmp_path: Path, autojump_clock: object
) -> None:
    model, clock = Several(), VirtualClock()
    model.script(IDA), model.script(TOM)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await living(house, IDA, TOM)
        await subscribe(house, IDA, "agent:*:idle")
        await house.talk("one")
        await house.post(TOM, "work", sender=ANN, key="k")
        await trio.sleep(10)
        await house.store.agents.set_state((await house.daemon.directory.at(TOM)).id, "dead", "ended")
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await trio.sleep(600)
        assert await told(house) == [(ANN, "idle")]
        assert all(it.state == "fired" for it in await history(house))
