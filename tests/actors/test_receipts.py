"""Who waits for an answer is told by the commit that ends its message, as who looks into the store is."""

from pathlib import Path

import trio

from daycare.base.errors import ConflictError
from daycare.store.records import Receipt
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted

WAIT_S = 60.0


async def told(house: TestDaemon, receipts: list[Receipt]) -> list[Receipt]:
    """Return what those who wait for messages are told."""
    found: dict[int, Receipt] = {}

    async def wait(receipt: Receipt) -> None:
        found[receipt.seq] = await house.daemon.router.wait(receipt, WAIT_S)

    async with trio.open_nursery() as nursery:
        for receipt in receipts:
            nursery.start_soon(wait, receipt)
    return [found[receipt.seq] for receipt in receipts]


async def test_what_a_commit_tells_of_a_message_is_what_the_store_says(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        answered = await told(house, [await house.say("one")])
        answered += await told(house, [await house.say("two"), await house.say("three")])
        answered += await told(house, [await house.say("/status")])
        answered += await told(house, [await house.say("one", key="say:1")])
        model.enqueue(1_000.0)
        thinking = await house.say("think")

        async def stop() -> None:
            await trio.sleep(1)
            await house.say("/stop")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            answered += await told(house, [thinking])
        assert [each.state for each in answered] == ["done"] * 5 + ["stopped"]
        assert answered == [await house.store.inbox.receipt(each.seq) for each in answered]
        await trio.sleep(1)  # the command ends, too
        assert not house.daemon.router._open and not house.daemon.router._waiters


async def test_who_waits_for_a_message_that_is_given_up_hears_why(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(1_000.0)
        await house.say("think")
        await trio.sleep(1)
        agent = await house.daemon.directory.at("/ann/direct")
        later = await house.say("a note for later")
        heard: list[str] = []

        async def wait() -> None:
            try:
                await house.daemon.router.wait(later, WAIT_S)
            except ConflictError as error:
                heard.append(error.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            await house.store.inbox.drop(agent, later.seq, "nobody needs it")
        assert len(heard) == 1 and "nobody needs it" in heard[0]
        await house.say("/stop")
