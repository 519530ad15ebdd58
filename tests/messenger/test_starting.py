"""While a connection starts, what must not fail waits for it: for a while, and all of it together."""

import pytest
import trio
from trio.testing import MockClock

from daycare.base.errors import AwayError
from daycare.messenger.starting import START_MAX_S, ClientSlot
from tests.telegram.bots import Host, host

__all__ = ["host"]


def slot_of(host: Host) -> ClientSlot[str]:
    return ClientSlot(host, "telegram", "calling")


async def test_a_call_waits_for_the_client_that_is_coming(host: Host, autojump_clock: MockClock) -> None:
    slot = slot_of(host)
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            await trio.sleep(START_MAX_S / 2)
            slot.fill("client")

        nursery.start_soon(start)
        assert await slot.wait() == "client"
    assert slot.delay_s() == 0


async def test_without_a_credential_nothing_waits_and_the_reason_is_told(host: Host, autojump_clock: MockClock) -> None:
    host.secrets.clear()
    began = trio.current_time()
    with pytest.raises(AwayError, match="no token is stored") as caught:
        await slot_of(host).wait()
    assert caught.value.hint == "daycare keys add telegram"
    assert trio.current_time() == began


async def test_many_files_of_a_connection_that_only_fails_wait_once(host: Host, autojump_clock: MockClock) -> None:
    slot, began = slot_of(host), trio.current_time()
    for _ in range(20):
        with pytest.raises(AwayError, match="not up yet"):
            await slot.wait()
    assert trio.current_time() - began == START_MAX_S
    await trio.sleep(2 * START_MAX_S)
    began = trio.current_time()
    with pytest.raises(AwayError):
        await slot.wait()
    assert trio.current_time() - began == START_MAX_S, "a later start is waited for again"
