"""What every store promises when a chat gets another key, as a group does that becomes a supergroup."""

from daycare.base.messages import Origin
from daycare.store.records import NewAgent, PairingRequest, Reply, User
from daycare.store.sqlite.store import Store
from tests.store.samples import commits, new_agent

OLD, NEW = "telegram:-42", "telegram:-100"


async def club(store: Store) -> None:
    await store.people.add(User(id="club", name="Club", kind="group", keys=(OLD, "slack:-42")))
    await store.people.add(User(id="trips", name="Trips", kind="group", parent="club", keys=(f"{OLD}:7",)))
    await store.people.add(User(id="like", name="Like it", kind="group", keys=("telegram:-421", "telegram:-421:7")))


async def owner_of(store: Store, key: str) -> str:
    user = await store.people.by_key(key)
    return user.id if user else ""


async def queue(store: Store, *targets: str | None, connector: str = "telegram") -> list[int]:
    new: NewAgent = new_agent("/club/telegram", user="club")
    agent = await store.agents.create(new)
    return [
        await store.outbox.add(agent, Reply(connector=connector, target=target, text="hi"), "trace")
        for target in targets
    ]


async def targets(store: Store, seqs: list[int]) -> list[str | None]:
    rows = [await store.outbox.get(seq) for seq in seqs]
    return [row.target for row in rows if row]


async def knock(store: Store, key: str) -> None:
    who = PairingRequest(key=key, connector="telegram", kind="group", name="Club", code_hash="h")
    await store.intake.take("telegram", [who])


async def test_a_moved_chat_keeps_its_user_its_topics_and_its_other_keys(store: Store) -> None:
    await club(store)
    assert await store.people.move("telegram", OLD, NEW)
    assert [await owner_of(store, key) for key in (NEW, f"{NEW}:7", "slack:-42")] == ["club", "trips", "club"]
    assert [await owner_of(store, key) for key in (OLD, f"{OLD}:7")] == ["", ""]
    assert [await owner_of(store, key) for key in ("telegram:-421", "telegram:-421:7")] == ["like", "like"]


async def test_moving_again_changes_nothing(store: Store) -> None:
    await club(store)
    assert await store.people.move("telegram", OLD, NEW)
    before = await store.people.find()
    assert not await store.people.move("telegram", OLD, NEW)
    assert not await store.people.move("telegram", NEW, NEW), "a chat that stays where it is loses nothing"
    assert await store.people.find() == before


async def test_waiting_replies_follow_and_the_courier_is_told(store: Store) -> None:
    await club(store)
    seqs = await queue(store, "-42", "-42:7", None, "-421", "-421:7", "99")
    [sent, other] = [*await queue(store, "-42"), *await queue(store, "-42", connector="slack")]
    await store.outbox.sent([sent], "receipt")
    seen = commits(store)
    await store.people.move("telegram", OLD, NEW)
    assert await targets(store, seqs) == ["-100", "-100:7", None, "-421", "-421:7", "99"]
    assert await targets(store, [sent, other]) == ["-42", "-42"], "what was sent is over; others have their own numbers"
    assert seen[-1].connectors == {"telegram"}
    [late] = await queue(store, "-42")
    await store.people.move("telegram", OLD, NEW)
    assert await targets(store, [late]) == ["-100"], "told again, it finds what was queued since"


async def test_where_the_new_key_leads_to_somebody_that_stays(store: Store) -> None:
    await club(store)
    await store.people.add(User(id="new", name="New", kind="group", keys=(NEW,)))
    assert await store.people.move("telegram", OLD, NEW)
    assert [await owner_of(store, key) for key in (NEW, f"{NEW}:7", OLD)] == ["new", "trips", ""]


async def test_a_chat_that_is_known_is_no_stranger_under_its_new_key(store: Store) -> None:
    await club(store)
    await knock(store, NEW)
    await store.people.move("telegram", OLD, NEW)
    assert await store.strangers.find() == []


async def test_a_strangers_chat_stays_one(store: Store) -> None:
    await knock(store, OLD)
    assert not await store.people.move("telegram", OLD, NEW)
    await knock(store, NEW)
    assert [stranger.key for stranger in await store.strangers.find()] == [NEW]
    assert await owner_of(store, NEW) == ""
    assert await store.people.add(User(id="x", name="X", keys=(OLD,)), Origin.PERSON)
