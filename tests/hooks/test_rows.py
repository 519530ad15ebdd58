"""Webhooks in the store: counted exactly, refusals without a write for each, and gone with whoever has them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from daycare.base.errors import ConflictError
from daycare.base.messages import Envelope, Origin
from daycare.features import open_store, rows
from daycare.features.hooks.records import HookScheme, InboundHook
from daycare.features.hooks.refusals import HOOK_REFUSED_WRITE_S, HookRefusals
from daycare.features.hooks.rows import HookRows
from daycare.store.records import User
from daycare.store.sqlite.purging import purge
from daycare.store.sqlite.store import Store
from tests.store.samples import HandClock, new_agent
from tests.stored import located


def seal(text: str) -> bytes:
    return f"sealed {text[::-1]}".encode()


async def added(store: Store, name: str = "ci", user: str = "bob") -> InboundHook:
    if await store.people.get("ann") is None:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), Origin.PERSON)
        await store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)), Origin.PERSON)
    hook = InboundHook(no=0, name=name, user=user, scheme=HookScheme.GITHUB, path=f"/{user}/direct")
    return await store.of(HookRows).add(hook, "a secret of sixteen", seal)


async def test_refused_deliveries_cost_one_write_a_minute_and_are_all_counted() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        hook, hooks = await added(store), store.of(HookRows)
        refusals = HookRefusals(hooks, clock)
        for _ in range(50):
            await refusals.count(hook, "wrong")
        [stored] = await hooks.find()
        assert (stored.refused, refusals.with_them(stored).refused) == (1, 50)
        assert refusals.with_them(stored).failing == 50
        clock.ms += int(HOOK_REFUSED_WRITE_S * 1000)
        await refusals.count(hook, "still wrong")
        [stored] = await hooks.find()
        assert (stored.refused, stored.refused_why, refusals.with_them(stored).refused) == (51, "still wrong", 51)
        refusals.forgive(hook)
        assert refusals.with_them(stored).failing == 0


async def test_of_two_who_change_a_webhook_at_once_the_second_is_told() -> None:
    async with open_store("memory:", HandClock(), inline=True) as store:
        hook, hooks = await added(store), store.of(HookRows)
        await hooks.edit(hook, replace(hook, template="theirs"), seal)
        with pytest.raises(ConflictError, match="somebody else"):
            await hooks.edit(hook, replace(hook, template="mine"), seal, "another of sixteen")
        [stored] = await hooks.find()
        assert stored.template == "theirs" and await hooks.secrets("ci") == (seal("a secret of sixteen"), None)


async def test_an_earlier_secret_goes_when_its_time_is_over() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        hooks = store.of(HookRows)
        await added(store)
        await hooks.rotate("ci", "another of sixteen", seal, clock.now_ms() + 1_000)
        assert await hooks.secrets("ci") == (seal("another of sixteen"), seal("a secret of sixteen"))
        assert await hooks.expire(clock.now_ms()) == 0
        clock.ms += 1_000
        assert await hooks.expire(clock.now_ms()) == 1
        assert await hooks.secrets("ci") == (seal("another of sixteen"), None)


@pytest.mark.parametrize("how", ["removed", "purged"])
async def test_of_a_person_who_is_gone_no_webhook_and_no_secret_is_left(tmp_path: Path, how: str) -> None:
    location = str(tmp_path / "daycare.db")
    async with open_store(location, HandClock()) as store:
        await added(store)
        await added(store, "hers", "ann")
        await store.of(HookRows).rotate("ci", "another of sixteen", seal, 10**15)
        if how == "removed":
            await store.people.remove("bob")
    if how == "purged":
        assert purge(located(tmp_path / "daycare.db"), "bob", 0, rows())["webhooks"] == 1
    async with open_store(location, HandClock()) as store:
        assert [each.name for each in await store.of(HookRows).find()] == ["hers"]
        assert [name for name, _ in await store.secrets.find()] == ["webhook:hers"]


async def test_a_message_and_its_count_are_one_commit() -> None:
    async with open_store("memory:", HandClock(), inline=True) as store:
        hook, hooks = await added(store), store.of(HookRows)
        agent = await store.agents.create(new_agent("/bob/direct", user="bob"))
        envelope = Envelope(
            to=agent.path,
            user="bob",
            origin=Origin.WEBHOOK,
            sender="webhook:ci",
            key="webhook:1:d1",
            text="x",
            trace="t",
        )
        answers = [(await hooks.take(hook, envelope, "push"))[0] for _ in range(3)]
        assert [each.state for each in answers] == ["accepted", "repeated", "repeated"]
        assert len({each.message for each in answers}) == 1
        [stored] = await hooks.find()
        assert (stored.accepted, stored.repeated, stored.accepted_event) == (1, 2, "push")
