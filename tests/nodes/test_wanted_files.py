"""A file that is with a messenger is fetched by the node that is connected there, for whichever node needs it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from daycare.agent.wanted_files import WantedFiles, wanted
from daycare.base.errors import UnavailableError
from daycare.base.messages import Origin
from daycare.store.sqlite.store import Store
from tests.nodes.test_stores import DEADLINE_S, two

USER = "ann"
Fetch = Callable[[int, str, str], Awaitable[None]]


async def announced(store: Store, remote: str) -> int:
    """Keep a file that is still where it came from; return its number."""
    file = await store.files.announce(f"key {remote}", USER, Origin.FILE, "a.txt", "text/plain", 5, remote)
    return file.id


def fetching(store: Store, fetched: list[str]) -> Fetch:
    async def fetch(file_id: int, user: str, remote: str) -> None:
        fetched.append(remote)
        await store.files.fill(file_id, user, b"hello")

    return fetch


async def test_a_file_is_fetched_once_by_the_node_that_is_connected(tmp_path: Path) -> None:
    fetched: dict[str, list[str]] = {"a": [], "b": []}
    with trio.fail_after(DEADLINE_S):
        async with two(tmp_path) as (a, b), trio.open_nursery() as nursery:
            nursery.start_soon(WantedFiles(a, lambda remote: False, fetching(a, fetched["a"])).run)
            nursery.start_soon(WantedFiles(b, lambda remote: True, fetching(b, fetched["b"])).run)
            number = await announced(a, "photo")
            async with trio.open_nursery() as both:  # two turns want it
                both.start_soon(wanted, a, number, USER, DEADLINE_S)
                both.start_soon(wanted, a, number, USER, DEADLINE_S)
            assert await a.files.read(number, USER) == b"hello"
            while await a.intake.recall_all("wanted-files", ""):
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    assert fetched == {"a": [], "b": ["photo"]}


async def test_files_that_nobody_can_fetch_now_keep_no_other_waiting(tmp_path: Path) -> None:
    fetched: list[str] = []
    with trio.fail_after(DEADLINE_S):
        async with two(tmp_path) as (a, b), trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(wanted, a, await announced(a, f"elsewhere {number}"), USER, DEADLINE_S)
            mine = await announced(a, "photo")
            while len(await b.intake.recall_all("wanted-files", "")) < 20:
                await trio.sleep(0.02)
            nursery.start_soon(WantedFiles(b, lambda remote: remote == "photo", fetching(b, fetched)).run)
            await wanted(a, mine, USER, DEADLINE_S / 2)
            nursery.cancel_scope.cancel()
    assert fetched == ["photo"]


async def test_whoever_wants_a_file_is_told_why_it_does_not_come(tmp_path: Path) -> None:
    async def refuse(file_id: int, user: str, remote: str) -> None:
        raise UnavailableError("FILE_GONE", f"it was deleted {'there ' * 2_000}")

    with trio.fail_after(DEADLINE_S):
        async with two(tmp_path) as (a, b), trio.open_nursery() as nursery:
            number = await announced(a, "photo")
            with pytest.raises(UnavailableError, match="no node has fetched it within"):
                await wanted(a, number, USER, 0.5)
            nursery.start_soon(WantedFiles(b, lambda remote: True, refuse).run)
            for _ in range(2):  # it is asked for again
                with pytest.raises(UnavailableError, match="it was deleted"):
                    await wanted(a, number, USER, DEADLINE_S)
            assert await a.files.read(number, USER) is None
            nursery.cancel_scope.cancel()


async def test_two_who_want_a_file_are_both_told_why_it_does_not_come(tmp_path: Path) -> None:
    told: list[str] = []

    async def refuse(file_id: int, user: str, remote: str) -> None:
        raise UnavailableError("FILE_GONE", "it was deleted")

    with trio.fail_after(DEADLINE_S):
        async with two(tmp_path) as (a, b), trio.open_nursery() as nursery:
            number = await announced(a, "photo")
            nursery.start_soon(WantedFiles(b, lambda remote: True, refuse).run)

            async def want() -> None:
                with pytest.raises(UnavailableError) as refused:
                    await wanted(a, number, USER, DEADLINE_S / 2)
                told.append(refused.value.message)

            async with trio.open_nursery() as both:
                both.start_soon(want)
                both.start_soon(want)
            nursery.cancel_scope.cancel()
    assert len(told) == 2 and all("it was deleted" in each for each in told), told
