"""Dead letters, traces, people, secrets."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from daycare.base.messages import Lane
from daycare.observe.redact import without_secrets
from daycare.store.records import NewTimer
from tests.api.conftest import ANN, Api
from tests.store.samples import letter


async def test_dead_letter_is_listed_shown_and_replayed_once(api: Api) -> None:
    no = await api.letter()
    (listed,) = (await api.call("GET", "/v1/dead", path=ANN))["dead"]
    assert (listed["code"], listed["reason"], listed["path"]) == ("POISON", "it was poison", ANN)
    assert await api.call("GET", f"/v1/dead/{no}") == listed
    seq = (await api.call("POST", f"/v1/dead/{no}/replay"))["seq"]
    assert seq > listed["seq"]
    await api.refused(409, "DEAD_REPLAYED", "POST", f"/v1/dead/{no}/replay")


async def test_dead_letters_are_paged_newest_first(api: Api) -> None:
    numbers = [await api.letter() for _ in range(3)]

    async def page(**query: Any) -> list[int]:
        return [letter["no"] for letter in (await api.call("GET", "/v1/dead", **query))["dead"]]

    assert await page() == numbers[::-1]
    assert await page(limit=1) == numbers[2:]
    assert await page(before=numbers[2]) == [numbers[1], numbers[0]]
    assert await page(path="/ann/telegram") == []


async def test_dead_letters_are_pruned_by_age(api: Api) -> None:
    await api.letter()
    assert await api.call("POST", "/v1/dead/prune", {"older_than_s": 3_600}) == {"deleted": 0}
    assert await api.call("POST", "/v1/dead/prune", {"older_than_s": 0}) in ({"deleted": 1}, {"deleted": 0})
    error = await api.refused(400, "BODY_INVALID", "POST", "/v1/dead/prune", {})
    assert "older_than_s" in error["message"]
    await api.refused(400, "BODY_INVALID", "POST", "/v1/dead/prune", {"older_than_s": -1})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/dead/prune", {"older_than_s": 1e300})


@pytest.mark.parametrize(("method", "end"), [("GET", ""), ("POST", "/replay")])
async def test_unknown_dead_letter_is_refused(api: Api, method: str, end: str) -> None:
    await api.refused(404, "DEAD_UNKNOWN", method, f"/v1/dead/99{end}")
    await api.refused(400, "ROUTE_INVALID", method, f"/v1/dead/first{end}")
    await api.refused(400, "ROUTE_INVALID", method, f"/v1/dead/{2**70}{end}")


async def test_trace_is_found_by_id_and_by_message_number(api: Api) -> None:
    answer = await api.ask("hello")
    by_id = await api.call("GET", f"/v1/trace/{answer['trace']}")
    whats = [entry["what"] for entry in by_id["entries"]]
    assert whats[0] == "accepted"
    assert "reply queued" in whats
    assert await api.call("GET", f"/v1/trace/{answer['seq']}") == by_id


async def test_unknown_trace_is_refused(api: Api) -> None:
    for unknown in ("99", "0123456789abcdef", "9" * 40, "%F0%9F%90%8C", "²"):
        await api.refused(404, "TRACE_UNKNOWN", "GET", f"/v1/trace/{unknown}")


async def test_person_is_added_linked_unlinked_and_removed(api: Api) -> None:
    ben = {"id": "ben", "name": "Ben", "zone": "Europe/Berlin", "operator": False}
    made = await api.call("POST", "/v1/users", ben, status=201)
    assert made == ben | {"kind": "person", "parent": None, "keys": ["direct:ben"]}
    linked = await api.call("POST", "/v1/users/ben/links", {"key": "telegram:42"})
    assert linked["keys"] == ["direct:ben", "telegram:42"]
    assert [user["id"] for user in (await api.call("GET", "/v1/users"))["users"]] == ["ann", "ben"]
    await api.call("DELETE", "/v1/links/telegram:42")
    await api.refused(404, "KEY_UNKNOWN", "DELETE", "/v1/links/telegram:42")
    renamed = await api.call("PATCH", "/v1/users/ben", {"name": "Benjamin"})
    assert renamed == made | {"name": "Benjamin"}
    assert (await api.call("PATCH", "/v1/users/ben", {"zone": "UTC"})) == renamed | {"zone": "UTC"}
    await api.refused(400, "ZONE_UNKNOWN", "PATCH", "/v1/users/ben", {"zone": "Mars/Base"})
    await api.call("DELETE", "/v1/users/ben")
    await api.refused(404, "USER_UNKNOWN", "DELETE", "/v1/users/ben")
    await api.refused(404, "USER_UNKNOWN", "PATCH", "/v1/users/ben", {"name": "Ben"})


async def test_address_with_odd_letters_can_be_unlinked(api: Api) -> None:
    key = "matrix:@ann:home/org?x=1%"
    await api.call("POST", "/v1/users/ann/links", {"key": key})
    await api.call("DELETE", "/v1/links/matrix%3A%40ann%3Ahome%2Forg%3Fx%3D1%25")
    assert (await api.call("GET", "/v1/users"))["users"][0]["keys"] == ["direct:ann"]


async def test_wrong_person_is_refused(api: Api) -> None:
    await api.refused(409, "USER_EXISTS", "POST", "/v1/users", {"id": "ann"})
    await api.refused(400, "PATH_INVALID", "POST", "/v1/users", {"id": "Ann Lee"})
    await api.refused(400, "PATH_INVALID", "POST", "/v1/users", {"id": "system"})
    for zone in ("Mars/Base", "../etc/passwd", "Europe", ""):
        await api.refused(400, "ZONE_UNKNOWN", "POST", "/v1/users", {"id": "ben", "zone": zone})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/users", {"id": "ben", "age": 3})
    await api.refused(409, "LAST_OPERATOR", "DELETE", "/v1/users/ann")


async def test_wrong_link_is_refused(api: Api) -> None:
    await api.call("POST", "/v1/users", {"id": "ben"}, status=201)
    await api.call("POST", "/v1/users/ann/links", {"key": "telegram:42"})
    await api.refused(409, "KEY_TAKEN", "POST", "/v1/users/ben/links", {"key": "telegram:42"})
    await api.refused(404, "USER_UNKNOWN", "POST", "/v1/users/cy/links", {"key": "telegram:43"})
    for key in ("telegram", "telegram:", ":42", "tele gram:4", "telegram:4 2", "x:" + "y" * 300):
        await api.refused(400, "BODY_INVALID", "POST", "/v1/users/ben/links", {"key": key})


async def test_secret_goes_in_and_never_comes_out(api: Api) -> None:
    value = "correct-horse-battery"
    assert await api.call("PUT", "/v1/keys/openai", {"value": value}) == {"stored": "openai", "tried": ""}
    listing = await api.call("GET", "/v1/keys")
    assert [key["name"] for key in listing["keys"]] == ["openai"]
    assert set(listing["keys"][0]) == {"name", "created_at"}
    token = api.store.secrets.get("openai")
    assert token is not None and api.vault.open(token) == value
    assert value not in without_secrets(f"the key is {value}")
    assert await api.call("POST", "/v1/keys/rotate") == {"resealed": 1}
    assert api.vault.open(api.store.secrets.get("openai") or b"") == value
    await api.call("DELETE", "/v1/keys/openai")
    await api.refused(404, "SECRET_UNKNOWN", "DELETE", "/v1/keys/openai")


async def test_wrong_secret_is_refused_and_not_repeated(api: Api) -> None:
    await api.refused(400, "KEY_NAME_INVALID", "PUT", "/v1/keys/Open%20AI", {"value": "x"})
    await api.refused(400, "BODY_INVALID", "PUT", "/v1/keys/openai", {"value": ""})
    for body in ({"value": ["sk-very-secret"]}, {"valeu": "sk-very-secret"}, "sk-very-secret"):
        error = await api.refused(400, "BODY_INVALID", "PUT", "/v1/keys/openai", body)
        assert not re.search("very", str(error))


async def test_many_dead_letters_are_replayed_in_pages_and_what_cannot_be_is_told(api: Api) -> None:
    first, second, third = [await api.letter() for _ in range(3)]
    await api.call("POST", f"/v1/dead/{second}/replay")
    page = await api.call("POST", "/v1/dead/replay", {"path": ANN, "limit": 1})
    assert page == {"queued": [first], "refused": [], "next": first}
    page = await api.call("POST", "/v1/dead/replay", {"path": ANN, "limit": 1, "after": page["next"]})
    assert (page["queued"], page["next"]) == ([third], third)
    assert (await api.call("POST", "/v1/dead/replay", {"after": third}))["next"] is None
    assert (await api.call("POST", "/v1/dead/replay", {"code": "OTHER"}))["queued"] == []


async def test_chosen_dead_letters_are_deleted_and_no_others(api: Api) -> None:
    first, second, third = [await api.letter() for _ in range(3)]
    assert await api.call("POST", "/v1/dead/prune", {"numbers": [first], "code": "OTHER"}) == {"deleted": 0}
    assert await api.call("POST", "/v1/dead/prune", {"numbers": [first, third]}) == {"deleted": 2}
    assert [it["no"] for it in (await api.call("GET", "/v1/dead", code="POISON", waiting="true"))["dead"]] == [second]
    assert await api.call("POST", "/v1/dead/prune", {"path": ANN}) == {"deleted": 1}


async def test_a_reminder_is_cancelled_and_a_deadline_is_not(api: Api) -> None:
    await api.ask("hello")
    agent = await api.services.directory.at(ANN)
    numbers = []
    for key, due_at, lane in (("call Ben", 1 << 50, Lane.MESSAGES), ("end", (1 << 50) + 1, Lane.CONTROL)):
        envelope = replace(letter(key, ANN, user="ann"), lane=lane)
        timer = NewTimer(agent_id=agent.id, key=key, due_at=due_at, envelope=envelope)
        numbers.append(await api.store.timers.add(timer))
    first = (await api.call("GET", "/v1/timers", path=ANN, limit=1))["timers"]
    assert [(it["no"], it["path"], it["deadline"]) for it in first] == [(numbers[0], ANN, False)]
    rest = (await api.call("GET", "/v1/timers", after_due=first[0]["due_at"], after=first[0]["no"]))["timers"]
    assert [(it["no"], it["deadline"]) for it in rest] == [(numbers[1], True)]
    assert (await api.call("DELETE", f"/v1/timers/{numbers[0]}"))["cancelled"]["no"] == numbers[0]
    await api.refused(404, "TIMER_UNKNOWN", "DELETE", f"/v1/timers/{numbers[0]}")
    await api.refused(409, "TIMER_DEADLINE", "DELETE", f"/v1/timers/{numbers[1]}")
