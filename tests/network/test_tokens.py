"""Tokens: shown once, kept as a hash, good for a time."""

from pathlib import Path

import pytest
import trio
import trio.testing
from starlette.types import Receive, Scope, Send

from daycare.api.callers import Caller, May
from daycare.api.guard import NetworkGuard
from daycare.api.peers import Peers
from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.features import open_store
from daycare.features.tokens.rows import TokenRows
from daycare.features.tokens.service import ApiTokens
from daycare.settings import Live
from daycare.store.records import User
from tests.network.conftest import Network
from tests.store.samples import HandClock

DAY_MS = 86_400_000


async def test_a_token_is_good_until_it_expires_or_is_revoked() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        await store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        token, text = await tokens.add("laptop", May.PERSON, "bob", 2)
        assert text.startswith("daycare_") and len(text) > 40
        caller = await tokens.caller(text, "127.0.0.1")
        assert caller is not None and caller.left_s == 2 * 86_400
        assert (caller.user, caller.may, caller.name) == ("bob", May.PERSON, "laptop")
        [known] = await tokens.find()
        assert (known.used_at, known.used_from) == (clock.now_ms(), "127.0.0.1")
        assert await tokens.caller(text + "x", "") is await tokens.caller(text[:-1], "") is None
        with pytest.raises(ConflictError):
            await tokens.add("laptop", May.PERSON, "bob", None)
        clock.ms += 2 * DAY_MS
        assert await tokens.caller(text, "") is None, "it has expired"
        revoked = await tokens.revoke("laptop")
        assert revoked.no == token.no
        with pytest.raises(NotFoundError):
            await tokens.revoke("laptop")
        again, other = await tokens.add("laptop", May.READ, None, None)
        assert other != text and again.user == "ann"
        assert await tokens.caller(other, "") is not None
        _, theirs = await tokens.add("phone", May.PERSON, "bob", None)
        assert await tokens.caller(theirs, "") is not None
        await store.people.remove("bob")
        assert await tokens.caller(theirs, "") is None, "whose it is, is gone"
        clock.ms += 40 * DAY_MS
        assert await tokens.expire(clock.now_ms() - 30 * DAY_MS) == 1
        assert [each.name for each in await tokens.find()] == ["phone", "laptop"]


async def test_the_database_knows_no_token(tmp_path: Path) -> None:
    location = tmp_path / "daycare.db"
    async with open_store(str(location), HandClock()) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        _, text = await ApiTokens(store, HandClock(), "ann").add("laptop", May.OPERATOR, None, None)
        assert await store.of(TokenRows).find()
    assert text.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"name": "A b"}, InvalidError),
        ({"name": "x", "user": "nobody"}, NotFoundError),
        ({"name": "x", "user": "bob", "may": "operator"}, InvalidError),
        ({"name": "x", "user": "bob", "may": "read"}, InvalidError),
        ({"name": "x", "days": 0}, InvalidError),
        ({"name": "x", "may": "all"}, InvalidError),
    ],
)
def test_what_cannot_be_a_token_is_refused(
    network: Network, wish: dict[str, object], error: type[DaycareError]
) -> None:
    with pytest.raises(error):
        network.locally("POST", "/v1/tokens", wish)


def test_no_token_stands_in_the_log(network: Network) -> None:
    network.call("operator", "GET", "/v1/status")
    network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
    log = (network.home / "daycare.log").read_text()
    assert log and not any(token in log for token in network.tokens.values() if token)


async def test_a_token_that_is_revoked_while_its_call_begins_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        _, text = await tokens.add("laptop", May.OPERATOR, None, None)
        looked_up = store.people.get

        async def slowly(user: str) -> User | None:
            found = await looked_up(user)
            monkeypatch.setattr(store.people, "get", looked_up)
            await tokens.revoke("laptop")
            return found

        monkeypatch.setattr(store.people, "get", slowly)
        caller = await tokens.caller(text, "127.0.0.1")
        assert caller is not None and caller.ended is not None and caller.ended.is_set()
        began: list[bool] = []

        async def endless(scope: Scope, receive: Receive, send: Send) -> None:
            began.append(True)
            await trio.sleep_forever()

        class Known:
            async def caller(self, text: str, address: str) -> Caller | None:
                return caller

        live = Live()
        guard = NetworkGuard(endless, Known(), live, Peers(live))  # type: ignore[arg-type]
        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer x")]
        scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/v1/events", "headers": headers}
        with trio.fail_after(5):
            await guard({**scope, "query_string": b"", "client": ("127.0.0.1", 1)}, trio.sleep_forever, trio.sleep)  # type: ignore[arg-type]
        assert began in ([], [True])


async def test_there_are_a_thousand_tokens_and_room_again_once_one_is_revoked() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        for number in range(1_000):
            await tokens.add(f"t{number}", May.PERSON, None, None)
        with pytest.raises(BusyError, match="1000"):
            await tokens.add("more", May.PERSON, None, None)
        await tokens.revoke("t7")
        await tokens.add("more", May.PERSON, None, None)


async def test_who_waits_for_a_token_is_told_once_and_goes_on_when_there_is_one() -> None:
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        missing: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tokens.wait_for_one, lambda: missing.append("none"))
            await trio.testing.wait_all_tasks_blocked()
            assert missing == ["none"]
            await tokens.add("laptop", May.PERSON, None, None)
        assert missing == ["none"]
        await tokens.wait_for_one(lambda: missing.append("again"))
        await tokens.revoke("laptop")
        await tokens.link(None, None)
        await tokens.wait_for_one(lambda: missing.append("again"))
        assert missing == ["none"], "a link for a browser is enough, too"
