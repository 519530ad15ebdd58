"""What is kept of people and messages, within its bounds; pace; and what Meta's codes mean."""

import random
from typing import Any

import httpx
import pytest
import structlog
import trio
from trio.testing import MockClock

from daycare.base.errors import AwayError, BusyError, ConflictError, ForbiddenError, InvalidError, UnavailableError
from daycare.messenger.http import of_http
from daycare_plugins.whatsapp_cloud import people, receipts
from daycare_plugins.whatsapp_cloud.failures import META, of_answer, surely_not_sent
from daycare_plugins.whatsapp_cloud.http_in import signature
from daycare_plugins.whatsapp_cloud.people import CloudPeople, is_id
from daycare_plugins.whatsapp_cloud.rate_limit import PAIR_BURST, CloudRateLimit
from daycare_plugins.whatsapp_cloud.receipts import Receipts, Status

DAY_MS = 86_400_000


class Host:
    """What a daemon remembers for a plugin, in memory, with its bounds."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.at_ms = 1_800_000_000_000
        self.log = structlog.get_logger()

    def now_ms(self) -> int:
        return self.at_ms

    async def recall(self, connector: str, name: str = "cursor") -> str:
        return self.values.get(name, "")

    async def remember(self, connector: str, name: str, value: str) -> None:
        assert len(value) <= 4_000
        self.values[name] = value
        assert len(self.values) <= 1_000


async def people_of(host: Any) -> CloudPeople:
    found = CloudPeople(host, "whatsapp-cloud")
    await found.load()
    return found


async def test_thousands_of_people_fit_and_the_newest_are_known_after_a_restart() -> None:
    host: Any = Host()
    known = await people_of(host)
    await known.heard("4900", host.at_ms)
    await known.changed("4900", "wamid.change")
    for number in range(4_000):
        host.at_ms += 10
        await known.heard(f"49151{number:08}", host.at_ms)
    again = await people_of(host)
    assert sum(bool(again.is_open(f"49151{number:08}")) for number in range(2_000, 4_000)) == 2_000
    assert again.target("4900") == "4900~1", "who somebody is, is never forgotten"
    with pytest.raises(ForbiddenError):
        again.who("4900")
    assert again.who("4900~1") == "4900"


async def test_the_window_is_a_day_and_a_crash_costs_a_minute_of_it_at_most() -> None:
    host: Any = Host()
    known = await people_of(host)
    assert known.is_open("491") is None
    start = host.at_ms
    for _ in range(100):
        host.at_ms += 1_000
        await known.heard("491", host.at_ms)
    assert len(host.values) == 1
    host.at_ms = start + 100_000 + people.WINDOW_MS - 1
    assert known.is_open("491")
    assert not (await people_of(host)).is_open("491")
    host.at_ms = start + 40_000 + people.WINDOW_MS
    assert (await people_of(host)).is_open("491")
    assert await known.heard("491", host.at_ms + DAY_MS) is None  # type: ignore[func-returns-value]
    assert known.get("491").heard_ms == host.at_ms, "nobody writes in the future"


async def test_a_change_of_identity_is_made_once_for_each_notice() -> None:
    host: Any = Host()
    known = await people_of(host)
    for _ in range(3):
        await known.changed("491", "wamid.a")
    assert known.target("491") == "491~1"
    await known.changed("491", "wamid.b")
    assert (await people_of(host)).target("491") == "491~2"


@pytest.mark.parametrize(
    ("text", "good"),
    [("4915112345678", True), ("DE.49aB", True), ("", False), ("49 1", False), ("49~1", False), ("de.1", False),
     ("\u0661\u0662", False), ("DE.", False), ("1" * 21, False), ("DE.a/b", False)],
)  # fmt: skip
def test_an_id_is_a_number_or_metas_own(text: str, good: bool) -> None:
    assert is_id(text) is good


async def test_a_thousand_receipts_are_remembered_over_a_restart() -> None:
    host: Any = Host()
    known = Receipts(host, "whatsapp-cloud")
    for number in range(3_000):
        wamid = f"wamid.HBgLMTY1MDM4Nzk0MzkVAgARGBI{number:030}AA=="
        await known.take(Status(wamid=wamid, state="sent", who="491", key=f"clh3am8hi0000pw3kc1yxq8x9:{number}"))
    again = Receipts(host, "whatsapp-cloud")
    await again.load()
    found = [bool(await again.confirmed(f"clh3am8hi0000pw3kc1yxq8x9:{n}", 0)) for n in range(2_500, 3_000)]
    assert all(found)
    assert len(host.values) == receipts.SHARDS


async def test_late_and_doubled_statuses_are_no_news() -> None:
    known = Receipts(Host(), "whatsapp-cloud")  # type: ignore[arg-type]
    order = ["read", "sent", "delivered", "read", "sent"]
    random.Random(1).shuffle(order)
    for state in ["read", *order]:
        await known.take(Status(wamid="wamid.x", state=state, who="491", key="k"))
    assert dict(known.counts) == {"read": 1}


async def test_a_wait_ends_with_the_status(autojump_clock: MockClock) -> None:
    known = Receipts(Host(), "whatsapp-cloud")  # type: ignore[arg-type]

    async def later() -> None:
        await trio.sleep(3)
        await known.take(Status(wamid="wamid.x", state="delivered", who="491", key="k"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(later)
        assert await known.confirmed("k", 10) == "wamid.x"
        assert trio.current_time() == 3
    assert await known.confirmed("other", 5) == ""
    assert trio.current_time() == 8


async def test_one_person_gets_a_burst_and_then_one_message_each_six_seconds(autojump_clock: MockClock) -> None:
    pace = CloudRateLimit()
    went = []
    for _ in range(PAIR_BURST + 5):
        await trio.sleep(pace.delay_s("a"))
        pace.take("a")
        went.append(trio.current_time())
    assert went[PAIR_BURST - 1] < 2
    assert all(later - one == pytest.approx(6) for one, later in zip(went[-5:], went[-4:], strict=False))
    assert pace.delay_s("b") < 1
    assert [pace.refused("a", 6.0, pair=True) for _ in range(5)] == [6, 24, 96, 384, 600]
    assert pace.delay_s("b") < 1
    pace.refused("a", 60.0, pair=False)
    assert pace.delay_s("b") == 60


@pytest.mark.parametrize(
    ("status", "code", "kind", "sent"),
    [
        (401, 190, AwayError, False),
        (400, 10, AwayError, False),
        (400, 4, BusyError, False),
        (400, 80007, BusyError, False),
        (400, 130429, BusyError, False),
        (400, 131056, BusyError, False),
        (400, 131047, ConflictError, False),
        (400, 131026, ForbiddenError, False),
        (400, 131051, InvalidError, False),
        (404, 132001, InvalidError, False),
        (500, 131000, UnavailableError, False),
        (503, 2, AwayError, False),
        (500, 999, UnavailableError, False),
        (500, None, UnavailableError, True),
        (502, None, UnavailableError, True),
        (429, None, BusyError, False),
        (418, 999, InvalidError, False),
    ],
)
def test_codes_decide_what_happens_to_a_reply(status: int, code: int | None, kind: type, sent: bool) -> None:
    tree = {"error": {"code": code, "message": "no EAAabcdefghijklmnopqrstuvwxyz"}} if code is not None else None
    found = of_answer(status, tree, "sending")
    assert isinstance(found, kind)
    assert surely_not_sent(found) is not sent
    assert "EAAabc" not in found.message


def test_what_did_not_reach_the_server_was_not_sent() -> None:
    assert isinstance(of_http(httpx.ConnectError("refused"), "x", META), AwayError)
    assert isinstance(of_http(httpx.ConnectTimeout("late"), "x", META), AwayError)
    assert not surely_not_sent(of_http(httpx.ReadTimeout("late"), "x", META))
    assert not surely_not_sent(of_http(httpx.RemoteProtocolError("gone"), "x", META))


def test_the_signature_is_that_of_rfc_4231() -> None:
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert signature(b"what do ya want for nothing?", "Jefe") == f"sha256={expected}"
