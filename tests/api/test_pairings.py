"""Letting people in over the API: codes are typed, used once, and never shown."""

from typing import Any

import pytest

from daycare.base.limits import PAIR_TRIES_MAX
from daycare.base.pairing import code_hash, new_code
from daycare.store.records import PairingRequest, User
from tests.api.conftest import Api

CODE = "7K1M-20DA"


async def knock(
    api: Api, key: str = "telegram:42", name: str = "Ben Smith", code: str = CODE, kind: Any = "person"
) -> bool:
    """Let a stranger write; True if they are shown the code."""
    (taken,) = await api.store.intake.take(
        "telegram", [PairingRequest(key=key, connector="telegram", kind=kind, name=name, code_hash=code_hash(code))]
    )
    return taken.show_code


async def approve(api: Api, status: int = 200, **wish: Any) -> Any:
    return await api.call("POST", "/v1/pairings/approve", {"code": CODE} | wish, status=status)


async def told(api: Api) -> list[tuple[str, str | None, str]]:
    """Return (path, target, text) of what waits to be delivered over Telegram."""
    return [(row.path, row.target, row.text) for row in await api.store.outbox.waiting("telegram")]


async def test_strangers_are_listed_without_their_codes(api: Api) -> None:
    assert await api.call("GET", "/v1/pairings") == {"pairings": []}
    assert await knock(api)
    assert not await knock(api, code=new_code()), "one notice an hour"
    answer = await api.call("GET", "/v1/pairings")
    (listed,) = answer["pairings"]
    assert (listed["key"], listed["name"], listed["kind"], listed["knocks"]) == (
        "telegram:42",
        "Ben Smith",
        "person",
        2,
    )
    assert 595 <= listed["code_valid_s"] <= 600 and not listed["denied"]
    assert CODE not in str(answer) and code_hash(CODE) not in str(answer)
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/pairings", limit=0)


async def test_a_code_can_be_looked_at_and_stays_valid(api: Api) -> None:
    await knock(api)
    for typed in (CODE, "7k1m20da", "7kim-2oda"):
        seen = await api.call("POST", "/v1/pairings/look", {"code": typed})
        assert (seen["key"], seen["suggested"]) == ("telegram:42", "ben")
    assert (await approve(api))["user"]["id"] == "ben"


async def test_a_stranger_becomes_a_new_user_and_is_greeted(api: Api) -> None:
    await api.store.people.link("telegram:1", "ann")
    await knock(api)
    done = await approve(api)
    assert done["created"] and done["welcomed"]
    assert (done["user"]["id"], done["user"]["name"], done["user"]["keys"]) == ("ben", "Ben Smith", ["telegram:42"])
    assert not done["user"]["operator"]
    assert done["path"] == "/ben/telegram"
    words = "You are connected as ben. Write to me whenever you like; /help shows what else can be said."
    assert await told(api) == [("/ben/telegram", "42", words)]
    assert await api.store.people.by_key("telegram:42") is not None
    assert await api.call("GET", "/v1/pairings") == {"pairings": []}


async def test_a_new_user_gets_the_zone_of_the_operator(api: Api) -> None:
    await api.store.people.add(User(id="zoe", name="Zoe", zone="Asia/Tokyo", operator=True))
    await api.store.people.remove("ann")
    await api.store.people.add(User(id="ann", name="Ann", zone="Europe/Berlin", operator=True))
    await knock(api)
    assert (await approve(api))["user"]["zone"] == "Europe/Berlin"


async def test_a_code_works_once(api: Api) -> None:
    await knock(api)
    await approve(api)
    await api.refused(403, "PAIR_CODE", "POST", "/v1/pairings/approve", {"code": CODE})
    assert len(await told(api)) == 1


async def test_wrong_codes_void_those_that_are_out(api: Api) -> None:
    await knock(api)
    for _ in range(PAIR_TRIES_MAX):
        error = await api.refused(403, "PAIR_CODE", "POST", "/v1/pairings/look", {"code": new_code()})
        assert error["hint"] == "daycare pair list"
    await api.refused(403, "PAIR_CODE", "POST", "/v1/pairings/approve", {"code": CODE})
    (listed,) = (await api.call("GET", "/v1/pairings"))["pairings"]
    assert listed["code_valid_s"] == 0
    assert await api.store.people.by_key("telegram:42") is None


async def test_what_can_be_no_code_costs_no_try(api: Api) -> None:
    await knock(api)
    for _ in range(PAIR_TRIES_MAX + 1):
        await api.refused(400, "PAIR_CODE_MALFORMED", "POST", "/v1/pairings/approve", {"code": "ABCD"})
    await approve(api)


async def test_an_account_is_added_to_somebody_who_is_named(api: Api) -> None:
    await knock(api)
    done = await approve(api, user="ann", name="ignored")
    assert not done["created"] and done["path"] == "/ann/telegram"
    assert done["user"]["name"] == "Ann"
    assert done["user"]["keys"] == ["direct:ann", "telegram:42"]


async def test_a_second_account_of_a_person_is_greeted_where_it_knocked(api: Api) -> None:
    await api.store.people.link("telegram:1", "ann")
    await knock(api)
    await approve(api, user="ann")
    assert [target for _, target, _ in await told(api)] == ["42"]


async def test_nobody_becomes_somebody_else_by_their_name(api: Api) -> None:
    await api.call("POST", "/v1/users", {"id": "ben"}, status=201)
    await api.call("POST", "/v1/messages", {"text": "mine", "user": "ben", "wait_s": 10})
    await api.call("DELETE", "/v1/users/ben")
    await knock(api, name="ANN")
    assert (await approve(api))["user"]["id"] == "ann-2"
    await knock(api, "telegram:43", "Ben")
    assert (await approve(api))["user"]["id"] == "ben-2", "the first Ben's conversations are not his"


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("Jürgen Müller", "jurgen"), ("王小明", "telegram-42"), ("", "telegram-42"), ("System", "system-user"),
        ("system x", "system-x"), ("🦆", "telegram-42"), ("X Æ", "x"), ("../../etc", "etc"), ("a" * 300, "a" * 32),
    ],
)  # fmt: skip
async def test_any_name_leads_to_an_id(api: Api, name: str, user: str) -> None:
    await knock(api, name=name)
    assert (await approve(api))["user"]["id"] == user


async def test_a_name_may_be_given(api: Api) -> None:
    await knock(api)
    user = (await approve(api, user="benny", name=" Benny "))["user"]
    assert (user["id"], user["name"]) == ("benny", "Benny")


async def test_a_group_is_a_user_of_its_own(api: Api) -> None:
    await knock(api, "telegram:-100", "The Family", kind="group")
    error = await api.refused(409, "USER_KIND", "POST", "/v1/pairings/approve", {"code": CODE, "user": "ann"})
    assert error["hint"]
    done = await approve(api)
    assert (done["user"]["id"], done["user"]["kind"], done["path"]) == ("the-family", "group", "/the-family/telegram")
    ((_, target, words),) = await told(api)
    assert target == "-100" and words.startswith("This group is connected as the-family.")
    await knock(api)
    await api.refused(409, "USER_KIND", "POST", "/v1/pairings/approve", {"code": CODE, "user": "the-family"})


async def test_a_user_id_that_cannot_be_is_refused_and_the_code_stays(api: Api) -> None:
    await knock(api)
    for wrong in ("Ben Smith", "system", "", "a/b"):
        await api.refused(400, "PATH_INVALID", "POST", "/v1/pairings/approve", {"code": CODE, "user": wrong})
    await approve(api)


@pytest.mark.parametrize("who", [{"code": CODE}, {"key": "telegram:42"}])
async def test_somebody_who_is_denied_is_shown_no_more_codes(api: Api, who: dict[str, str]) -> None:
    await knock(api)
    assert (await api.call("POST", "/v1/pairings/deny", who))["denied"] is True
    await api.refused(403, "PAIR_CODE", "POST", "/v1/pairings/approve", {"code": CODE})
    assert not await knock(api, code=new_code())
    (listed,) = (await api.call("GET", "/v1/pairings"))["pairings"]
    assert (listed["denied"], listed["knocks"], listed["code_valid_s"]) == (True, 2, 0)


async def test_denying_needs_exactly_one_word_for_whom(api: Api) -> None:
    await api.refused(400, "BODY_INVALID", "POST", "/v1/pairings/deny", {})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/pairings/deny", {"code": CODE, "key": "telegram:42"})
    await api.refused(404, "STRANGER_UNKNOWN", "POST", "/v1/pairings/deny", {"key": "telegram:42"})


async def test_whoever_was_linked_meanwhile_is_listed_no_more(api: Api) -> None:
    await knock(api)
    await api.call("POST", "/v1/users/ann/links", {"key": "telegram:42"})
    assert await api.call("GET", "/v1/pairings") == {"pairings": []}


@pytest.mark.parametrize("route", ["look", "approve", "deny"])
async def test_bodies_are_read_strictly(api: Api, route: str) -> None:
    for wrong in ({"code": 7}, {"code": "x" * 201}, {"codes": CODE}):
        await api.refused(400, "BODY_INVALID", "POST", f"/v1/pairings/{route}", wrong)
