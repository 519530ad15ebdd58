"""What a platform posts to one node is taken by the one that is connected, or refused so that it is posted again."""

import random

import pytest
import trio
import trio.testing

from daycare.base.errors import BusyError, UnavailableError
from daycare.nodes.calls import NODE_CALL_S, NodeCalls
from daycare.nodes.webhook_posts import WEBHOOK_POST, WEBHOOK_POST_MAX_BYTES, WebhookPosts
from daycare.store.postgres.wake import TEXT_MAX_CHARS
from tests.nodes.test_talk import Line, talk

WORDS = ("hello", "what", "is", "new", "today", "nothing", "at", "all")


def posts(line: Line, name: str, nursery: trio.Nursery) -> WebhookPosts:
    calls = NodeCalls(talk(line, name))
    made = WebhookPosts(calls.ask)
    calls.serve(WEBHOOK_POST, made.asked)
    nursery.start_soon(calls.run)
    return made


async def test_a_post_is_taken_once_by_the_node_that_is_connected(autojump_clock: trio.testing.MockClock) -> None:
    line, taken = Line("a", "b", "c"), list[bytes]()

    async def take(body: bytes) -> None:
        if body == b"full":
            raise BusyError("INBOX_FULL", "no room")
        taken.append(body)

    seed = random.randrange(2**32)
    print(f"seed {seed}")
    word = random.Random(seed).choice
    long = " ".join(f'{{"text": "{word(WORDS)}"}}' for _ in range(40_000)).encode()
    async with trio.open_nursery() as nursery:
        a, b, c = (posts(line, name, nursery) for name in "abc")
        with b.taking("telegram", take):
            for node in (a, b, c):
                await node.hand_on("telegram", b"hello")
            await a.hand_on("telegram", long)
            for node in (a, b):
                with pytest.raises(BusyError, match="no room"):
                    await node.hand_on("telegram", b"full")
            began = trio.current_time()
            with pytest.raises(UnavailableError, match="slack") as silent:
                await a.hand_on("slack", b"hello")
        assert (silent.value.code, trio.current_time() - began) == ("NODE_SILENT", NODE_CALL_S)
        nursery.cancel_scope.cancel()
    assert taken == [b"hello"] * 3 + [long]
    assert all(len(text) < TEXT_MAX_CHARS for _, text in line.said)


async def test_what_is_under_way_when_the_connection_goes_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    line, codes = Line("a", "b"), list[str]()
    async with trio.open_nursery() as nursery:
        a, b = (posts(line, name, nursery) for name in "ab")

        async def post(node: WebhookPosts) -> None:
            with pytest.raises(UnavailableError) as refused:
                await node.hand_on("telegram", b"hello")
            codes.append(refused.value.code)

        async def take(body: bytes) -> None:
            await trio.sleep_forever()

        began = trio.current_time()
        async with trio.open_nursery() as both:
            with b.taking("telegram", take):
                both.start_soon(post, a)
                both.start_soon(post, b)
                await trio.sleep(1)
        assert trio.current_time() - began == 1
        await post(b)
        nursery.cancel_scope.cancel()
    assert codes == ["NOT_CONNECTED", "NOT_CONNECTED", "NODE_SILENT"]


async def test_a_daemon_that_works_alone_refuses_what_nobody_takes() -> None:
    alone, taken = WebhookPosts(), list[bytes]()

    async def take(body: bytes) -> None:
        taken.append(body)

    with alone.taking("telegram", take):
        await alone.hand_on("telegram", bytes(WEBHOOK_POST_MAX_BYTES))
        with alone.taking("telegram", take):  # a connection that begins again before the last one has ended
            pass
    with pytest.raises(UnavailableError, match="not connected"):
        await alone.hand_on("telegram", b"hello")
    assert len(taken) == 1
