"""Three recorded streams of each protocol, damaged at every byte: never a partial tool call, never a hang.

Over a transport in memory and in virtual time; a smaller slice goes over real sockets.
"""

import random
from collections.abc import Sequence
from contextlib import aclosing

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_NEXT_TOKEN_S
from daycare.inference.http import MODEL_LAST_FRAMES_S
from daycare.plugin import Completion
from daycare.testing.model_server import ScriptedAnswer
from tests.chance import SEED, WHOLE, sliced
from tests.inference.wire import ANSWERS, KINDS, AnyProvider, Recorded, Then, arguments, config, over, recorded, request

END_BYTES = 300
BITS = range(8) if WHOLE else None
PATIENCE_S = MODEL_FIRST_TOKEN_S + MODEL_NEXT_TOKEN_S + MODEL_LAST_FRAMES_S

both = pytest.mark.parametrize("kind", sorted(KINDS))
each_answer = pytest.mark.parametrize("answer", sorted(ANSWERS))


async def outcome(made: AnyProvider) -> Completion | DaycareError:
    """Return how a call ended: with exactly one completion, as its last event, or an error of ours, in time."""
    start = trio.current_time()
    completions: list[Completion] = []
    try:
        async with aclosing(made.infer(request())) as stream:
            async for event in stream:
                assert not completions, "something follows the completion"
                if isinstance(event, Completion):
                    completions.append(event)
    except DaycareError as error:
        assert not completions
        assert trio.current_time() - start <= PATIENCE_S
        return error
    assert trio.current_time() - start <= PATIENCE_S
    assert len(completions) == 1
    return completions[0]


def cuts(size: int) -> Sequence[int]:
    """Return where to cut a stream: all of its end, where it becomes complete, and of the rest a slice."""
    return [*sliced(range(max(0, size - END_BYTES)), 8), *range(max(0, size - END_BYTES), size)]


@both
@each_answer
@pytest.mark.parametrize("then", ["close", "reset", "stall"])
async def test_a_stream_that_ends_anywhere_is_the_whole_reply_or_an_error(
    kind: str, answer: str, then: Then, autojump_clock: trio.testing.MockClock
) -> None:
    print(f"SEED={SEED}")
    data = recorded(kind, ANSWERS[answer])
    transport = Recorded(data, dice=random.Random(SEED))
    made = over(transport, kind)
    whole = await outcome(made)
    assert isinstance(whole, Completion)
    assert len(whole.message.tool_calls) == len(ANSWERS[answer].tool_calls)
    transport.then = then
    completed = []
    for cut in cuts(len(data)):
        transport.data = data[:cut]
        end = await outcome(made)
        if isinstance(end, Completion):
            completed.append(cut)
            assert (end.message, end.finish) == (whole.message, whole.finish), cut
        else:
            assert type(end) is UnavailableError, cut
            assert end.code == ("MODEL_SILENT" if then == "stall" else "STREAM_CUT"), cut
    # Complete from the frame on that says why it ended, and never before.
    first = min(completed, default=len(data))
    assert completed == [cut for cut in cuts(len(data)) if cut >= first]
    ends = data[:first]
    assert (b'"message_stop"' if kind == "anthropic" else b'"finish_reason":"') in ends
    await made.aclose()


@both
@each_answer
async def test_a_bit_that_flips_anywhere_never_yields_a_part_of_a_call(
    kind: str, answer: str, autojump_clock: trio.testing.MockClock
) -> None:
    """It may change a letter of an argument, which nobody can see; it may not lose or mix pieces of arguments."""
    print(f"SEED={SEED}")
    dice = random.Random(SEED)
    data = recorded(kind, ANSWERS[answer])
    transport = Recorded(data, dice=random.Random(SEED))
    made = over(transport, kind)
    whole = await outcome(made)
    assert isinstance(whole, Completion)
    tried = refused = 0
    for at in sliced(range(len(data)), 8):
        for bit in BITS or (dice.randrange(8),):
            transport.data = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            end = await outcome(made)
            tried += 1
            if isinstance(end, DaycareError):
                assert type(end) is UnavailableError, (at, bit)
                refused += 1
                continue
            assert len(end.message.tool_calls) == len(whole.message.tool_calls), (at, bit, transport.data)
            for (name, got), (first_name, first) in zip(arguments(end), arguments(whole), strict=True):
                # One letter of it, or an escape in its place; a piece of arguments has seven.
                assert abs(len(got) - len(first)) <= 2, (at, bit, got)
                assert abs(len(name) - len(first_name)) <= 1, (at, bit, name)
            assert end.finish == whole.finish, (at, bit)
    assert refused > tried // 4
    await made.aclose()


@both
@each_answer
async def test_over_real_sockets_it_is_the_same(kind: str, answer: str, nursery: trio.Nursery) -> None:
    print(f"SEED={SEED}")
    dice = random.Random(SEED)
    fake, provider = KINDS[kind]
    script = ANSWERS[answer]
    size = len(recorded(kind, script))
    async with fake.serve(nursery) as server:
        made = provider(config(kind, server.base_url))
        server.enqueue(script)
        whole = await outcome(made)
        assert isinstance(whole, Completion)
        for cut in sorted(dice.sample(range(1, size), 8)):
            for then in ("close", "reset"):
                server.enqueue(_with(script, cut_after_bytes=cut, then=then))
                end = await outcome(made)
                if isinstance(end, Completion):
                    assert (end.message, end.finish) == (whole.message, whole.finish), cut
                else:
                    assert end.code in ("STREAM_CUT", "PROVIDER_UNREACHABLE"), cut
            server.enqueue(_with(script, flip=cut * 8 + dice.randrange(8)))
            end = await outcome(made)
            if isinstance(end, Completion):
                assert len(end.message.tool_calls) == len(whole.message.tool_calls), cut
        server.enqueue(_with(script, byte_delay_s=0.00001))
        assert await outcome(made) == whole
        await made.aclose()


@both
async def test_a_server_that_falls_silent_is_left_at_the_deadline(
    kind: str, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    fake, provider = KINDS[kind]
    async with fake.serve(nursery) as server:
        made = provider(config(kind, server.base_url))
        server.enqueue(_with(ANSWERS["call"], cut_after_bytes=600, then="stall"))
        end = await outcome(made)
        assert isinstance(end, UnavailableError)
        assert end.code == "MODEL_SILENT"
        await made.aclose()


def _with(answer: ScriptedAnswer, **changes: object) -> ScriptedAnswer:
    return msgspec.structs.replace(answer, **changes)
