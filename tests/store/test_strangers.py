"""What every store promises of those who knocked: a counter, few codes, and nobody in without one."""

from itertools import permutations
from pathlib import Path
from typing import Literal

import pytest

from daycare.base.errors import ConflictError, ForbiddenError, NotFoundError
from daycare.base.limits import PAIR_CODE_S, PAIR_NOTICE_S, PAIR_TRIES_MAX
from daycare.base.messages import Origin
from daycare.base.pairing import code_hash, new_code
from daycare.features import open_store
from daycare.store.records import PairingRequest, Stranger, User
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.strangers import PAIR_NOTICES_MAX
from tests.chance import WHOLE
from tests.store.samples import HandClock

BOT = "telegram"
KNOCKS = 10_000 if WHOLE else 1_000
BOB = User(id="bob", name="Bob")
WRONG = code_hash("00000000")


async def knock(store: Store, key: str = "telegram:66", code: str = "", connector: str = BOT, **more: object) -> str:
    """Knock; return the code that is shown now, or nothing."""
    code = code or new_code()
    fields = {"kind": "person", "name": "Eve"} | more
    who = PairingRequest(key=key, connector=connector, code_hash=code_hash(code), **fields)  # type: ignore[arg-type]
    [taken] = await store.intake.take(connector, [who])
    return code if taken.show_code else ""


async def known(store: Store, key: str = "telegram:66") -> Stranger | None:
    return next((each for each in await store.strangers.find(limit=5_000) if each.key == key), None)


async def is_valid(store: Store, code: str) -> bool:
    try:
        await store.strangers.by_code(code_hash(code))
    except ForbiddenError:
        return False
    return True


# -- knocking ---------------------------------------------------------------------------------------------------------


async def test_a_strangers_flood_is_one_row_and_one_code(store: Store, clock: HandClock) -> None:
    shown = []
    for number in range(50):
        shown.append(await knock(store, name=f"Eve\n{number}"))
        clock.ms += 1_000
    assert [bool(code) for code in shown] == [True] + [False] * 49
    [stranger] = await store.strangers.find()
    assert (stranger.knocks, stranger.name, stranger.last_at - stranger.first_at) == (50, "Eve 49", 49_000)
    assert (await store.dead.count(), await store.people.find(), await store.inbox.counts()) == (0, [], {"waiting": 0})


async def test_a_stranger_is_shown_one_code_an_hour(store: Store, clock: HandClock) -> None:
    first = await knock(store)
    clock.ms += int(PAIR_NOTICE_S * 1000) - 1
    assert not await knock(store)
    clock.ms += 1
    second = await knock(store)
    assert second and second != first
    assert await is_valid(store, second) and not await is_valid(store, first)


async def test_after_a_flood_of_knocks_a_newcomer_gets_a_code_within_a_minute(store: Store, clock: HandClock) -> None:
    flood = [
        PairingRequest(key=f"telegram:f{number}", connector=BOT, kind="person", name="", code_hash=f"{number:064x}")
        for number in range(KNOCKS)
    ]
    shown = 0
    for begin in range(0, KNOCKS, KNOCKS // 10):  # over ten minutes
        shown += sum(taken.show_code for taken in await store.intake.take(BOT, flood[begin : begin + KNOCKS // 10]))
        clock.ms += 60_000
    assert shown == 10 * PAIR_NOTICES_MAX
    code = await knock(store, "telegram:honest")
    assert code and await is_valid(store, code)


async def test_a_connector_shows_so_many_codes_a_minute_whoever_knocks(store: Store, clock: HandClock) -> None:
    shown = [await knock(store, f"telegram:{number}") for number in range(PAIR_NOTICES_MAX + 5)]
    assert sum(map(bool, shown)) == PAIR_NOTICES_MAX
    assert await knock(store, "slack:1", connector="slack"), "another connector has its own"
    clock.ms += 60_000
    assert await knock(store, "telegram:new")


async def test_a_flood_of_strangers_leaves_room_for_groups_and_one_of_groups_for_people(
    store: Store, clock: HandClock
) -> None:
    kinds: tuple[Literal["person", "group"], ...] = ("person", "group")
    for flooding, other in permutations(kinds):
        flood = [
            PairingRequest(key=f"telegram:{flooding}{n}", connector=BOT, kind=flooding, name="", code_hash=f"{n:064x}")
            for n in range(PAIR_NOTICES_MAX + 5)
        ]
        assert sum(it.show_code for it in await store.intake.take(BOT, flood)) == PAIR_NOTICES_MAX
        honest = PairingRequest(key=f"telegram:{other}-honest", connector=BOT, kind=other, name="", code_hash="f" * 64)
        assert [it.show_code for it in await store.intake.take(BOT, [honest])] == [True]
        clock.ms += 60_000


async def test_the_bound_forgets_those_without_a_code_first(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of new names may neither void a code that is out, nor let one be shown a second time within the hour."""
    most = 2 * PAIR_NOTICES_MAX
    monkeypatch.setattr("daycare.store.sqlite.strangers.STRANGERS_MAX", most)
    codes = [await knock(store, f"telegram:{number}") for number in range(PAIR_NOTICES_MAX)]
    await store.strangers.deny("telegram:0")
    clock.ms += 1_000
    flood = [
        PairingRequest(key=f"telegram:f{number}", connector=BOT, kind="person", name="", code_hash=WRONG)
        for number in range(most + 50)
    ]
    await store.intake.take(BOT, flood)
    assert len(await store.strangers.find(limit=5_000)) == most
    assert [await is_valid(store, code) for code in codes] == [False] + [True] * (PAIR_NOTICES_MAX - 1)
    denied = await known(store, "telegram:0")
    assert denied is not None and denied.denied
    clock.ms += int(PAIR_CODE_S * 1000) + 1
    assert not await knock(store, "telegram:1"), "the code is void by now, and the hour is not over"


# -- codes ------------------------------------------------------------------------------------------------------------


async def test_a_code_is_valid_for_ten_minutes(store: Store, clock: HandClock) -> None:
    code = await knock(store)
    clock.ms += int(PAIR_CODE_S * 1000) - 1
    found = await store.strangers.by_code(code_hash(code.lower().replace("-", " ")))
    assert (found.key, found.code_until) == ("telegram:66", clock.ms + 1)
    clock.ms += 1
    with pytest.raises(ForbiddenError) as caught:
        await store.strangers.by_code(code_hash(code))
    assert caught.value.code == "PAIR_CODE"
    with pytest.raises(ForbiddenError):
        await store.strangers.approve(code_hash(code), BOB)


async def test_wrong_codes_void_all_that_are_out(store: Store, clock: HandClock) -> None:
    one, two = await knock(store, "telegram:1"), await knock(store, "telegram:2")
    for number in range(PAIR_TRIES_MAX):
        assert await is_valid(store, one), number
        with pytest.raises(ForbiddenError):
            await (store.strangers.by_code(WRONG) if number % 2 else store.strangers.approve(WRONG, BOB))
    assert [await is_valid(store, code) for code in (one, two)] == [False, False]
    three = await knock(store, "telegram:3")
    assert await is_valid(store, three), "a later one has its own tries"
    clock.ms += int(PAIR_NOTICE_S * 1000)
    assert await is_valid(store, await knock(store, "telegram:1"))


async def test_a_right_code_costs_no_try(store: Store) -> None:
    one, two = await knock(store, "telegram:1"), await knock(store, "telegram:2")
    for _ in range(PAIR_TRIES_MAX * 2):
        await store.strangers.by_code(code_hash(one))
    assert await is_valid(store, two)


async def test_denied_means_no_more_codes(store: Store, clock: HandClock) -> None:
    code = await knock(store)
    for _ in range(2):
        assert (await store.strangers.deny("telegram:66")).denied
    assert not await is_valid(store, code)
    clock.ms += int(PAIR_NOTICE_S * 1000) + 1
    assert not await knock(store)
    stranger = await known(store)
    assert stranger is not None and (stranger.knocks, stranger.denied) == (2, True)
    with pytest.raises(NotFoundError):
        await store.strangers.deny("telegram:1")


async def test_the_code_itself_is_nowhere_in_the_file(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "daycare.db"), HandClock()) as store:
        code = await knock(store)
        bare = code.replace("-", "")
        files = [file.read_bytes() for file in tmp_path.iterdir()]
        assert any(code_hash(code).encode() in data for data in files)
        assert not any(text.encode() in data for data in files for text in (code, bare, bare.lower()))
        await store.strangers.approve(code_hash(code), BOB)


# -- approving --------------------------------------------------------------------------------------------------------


async def test_an_approved_person_is_a_user_and_no_stranger_any_more(store: Store) -> None:
    code = await knock(store)
    stranger, user = await store.strangers.approve(code_hash(code), BOB)
    assert (stranger.key, user.id, user.kind, user.keys) == ("telegram:66", "bob", "person", ("telegram:66",))
    assert await store.people.by_key("telegram:66") == user
    assert await store.strangers.find() == []
    with pytest.raises(ForbiddenError):
        await store.strangers.approve(code_hash(code), BOB)


async def test_an_approved_person_may_be_somebody_already(store: Store) -> None:
    await store.people.add(User(id="bob", name="Robert", operator=True, keys=("direct:bob",)))
    _, user = await store.strangers.approve(code_hash(await knock(store)), BOB, Origin.PERSON)
    assert (user.name, user.operator, user.keys) == ("Robert", True, ("direct:bob", "telegram:66"))


async def test_an_approved_group_is_a_group(store: Store) -> None:
    code = await knock(store, "telegram:-42", kind="group", name="The club")
    _, user = await store.strangers.approve(code_hash(code), User(id="club", name="The club"))
    assert (user.kind, user.keys) == ("group", ("telegram:-42",))


@pytest.mark.parametrize("kind", ["group", "person"])
async def test_a_group_cannot_become_a_person_nor_a_person_a_group_and_the_code_stays_valid(
    store: Store, kind: str
) -> None:
    await store.people.add(User(id="bob", name="Bob", kind="person" if kind == "group" else "group"))
    code = await knock(store, kind=kind)
    with pytest.raises(ConflictError):
        await store.strangers.approve(code_hash(code), BOB)
    _, user = await store.strangers.approve(code_hash(code), User(id="eve", name="Eve"))
    assert (user.id, user.kind) == ("eve", kind)
    bob = await store.people.get("bob")
    assert bob is not None and bob.keys == ()


async def test_one_who_was_linked_by_hand_is_no_stranger_any_more(store: Store) -> None:
    await store.people.add(BOB)
    code = await knock(store)
    await store.people.link("telegram:66", "bob")
    assert await store.strangers.find() == [] and not await is_valid(store, code)
