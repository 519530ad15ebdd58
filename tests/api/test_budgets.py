"""Budgets over the API: set, explained, raised, and what was spent."""

import csv
import io

import pytest

from daycare.base.messages import Usage
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Spend
from tests.api.conftest import Api

DIRECT = "/ann/direct"


async def spend(api: Api, path: str = DIRECT, micros: int = 500_000, model: str = "m") -> None:
    usage = Usage(input_tokens=100, output_tokens=10)
    await api.store.of(BudgetRows).settle(
        Spend(agent_id="", user="ann", turn=0, provider="p", model=model, usage=usage, cost_micros=micros, path=path)
    )


async def test_a_budget_is_set_explained_raised_and_removed(api: Api) -> None:
    await spend(api)
    view = await api.call("PUT", "/v1/budget", {"path": DIRECT, "limits": {"day.usd": 1_000_000, "month.calls": 9}})
    assert {limit["name"]: (limit["limit"], limit["used"]) for limit in view["limits"]} == {
        "day.usd": (1_000_000, 500_000),
        "month.calls": (9, 1),
    }
    chain = (await api.call("GET", "/v1/budget", path=f"{DIRECT}/sub/0"))["budgets"]
    assert [(each["path"], len(each["limits"])) for each in chain] == [
        (f"{DIRECT}/sub/0", 0),
        (f"{DIRECT}/sub", 0),
        (DIRECT, 2),
        ("/ann", 1),
        ("/", 0),
    ]
    raised = await api.call("POST", "/v1/budget/raise", {"path": DIRECT, "amount": "2usd"})
    assert (raised["budget"]["limits"][0]["limit"], raised["replayed"]) == (3_000_000, 0)
    assert raised["budget"]["limits"][0]["raised"] == 2_000_000
    listed = {each["path"]: each for each in (await api.call("GET", "/v1/budgets"))["budgets"]}
    assert {"/", "/ann", DIRECT} <= set(listed)
    assert listed["/ann"]["limits"][0]["source"] == "default"
    assert (await api.call("DELETE", "/v1/budget", path=DIRECT))["removed"]
    assert not (await api.call("DELETE", "/v1/budget", path=DIRECT))["removed"]


async def test_what_was_spent_is_told_by_day_path_and_model(api: Api) -> None:
    await spend(api)
    await spend(api, "/ann/direct/sub/1", 250_000)
    found = await api.call("GET", "/v1/spend", days=2, path=DIRECT)
    assert found["days"] == 2
    assert {(row["path"], row["key"] == found["today"], row["cost_micros"]) for row in found["spent"]} == {
        (DIRECT, True, 500_000),
        ("/ann/direct/sub/1", True, 250_000),
    }


async def test_what_many_paths_spent_today_is_one_look_with_the_limit_that_each_has_itself(api: Api) -> None:
    await spend(api)
    await spend(api, "/ann/direct/sub/1", 250_000)
    await api.call("PUT", "/v1/budget", {"path": DIRECT, "amounts": ["1usd a day", "9 calls a month"]})
    await api.call("POST", "/v1/budget/raise", {"path": DIRECT, "amount": "2usd"})
    found = await api.call("GET", "/v1/spend/today", paths=f"/ann,{DIRECT},/ann/agent/none,,/nobody")
    assert found["spent"] == {
        "/ann": {"micros": 750_000, "limit": 20_000_000},
        DIRECT: {"micros": 750_000, "limit": 3_000_000},
        "/ann/agent/none": {"micros": 0, "limit": None},
        "/nobody": {"micros": 0, "limit": None},
    }


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"path": DIRECT, "limits": {"week.usd": 1}}, 400, "BUDGET_INVALID"),
        ({"path": DIRECT, "limits": {"day.usd": -2}}, 400, "BODY_INVALID"),
        ({"path": "/nobody", "limits": {"day.usd": 1}}, 404, "USER_UNKNOWN"),
        ({"path": "/ann/nowhere", "limits": {"day.usd": 1}}, 400, "PATH_INVALID"),
        ({"path": "ann", "limits": {"day.usd": 1}}, 400, "PATH_INVALID"),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, body: dict[str, object], status: int, code: str) -> None:
    await api.refused(status, code, "PUT", "/v1/budget", body)


async def test_limits_are_set_as_people_write_them(api: Api) -> None:
    view = await api.call("PUT", "/v1/budget", {"path": DIRECT, "amounts": ["2usd a day", "1k tokens a month"]})
    assert {each["name"]: each["limit"] for each in view["limits"]} == {"day.usd": 2_000_000, "month.tokens": 1_000}
    await api.refused(400, "BUDGET_INVALID", "PUT", "/v1/budget", {"path": DIRECT})
    await api.refused(400, "BUDGET_INVALID", "PUT", "/v1/budget", {"path": DIRECT, "amounts": ["much a day"]})
    everything = [each["path"] for each in (await api.call("GET", "/v1/budgets"))["budgets"]]
    page = [each["path"] for each in (await api.call("GET", "/v1/budgets", after="/", limit=1))["budgets"]]
    assert page == everything[1:2]


async def test_what_was_spent_is_summed_day_by_day_and_the_rest_is_one_group(api: Api) -> None:
    for path, micros in ((DIRECT, 5), (f"{DIRECT}/sub/1", 3), ("/ann/agent/scribe", 4), ("/ann/cron/x", 1)):
        await spend(api, path, micros)
    found = await api.call("GET", "/v1/spend/sums", by="agent", groups=2, days=7)
    assert found["groups"] == [DIRECT, "/ann/agent/scribe", ""]
    assert [(each["day"], each["group"], each["cost_micros"], each["calls"]) for each in found["sums"]] == [
        (found["today"], DIRECT, 8, 2),
        (found["today"], "/ann/agent/scribe", 4, 1),
        (found["today"], "", 1, 1),
    ]
    assert found["last"] == found["today"] and found["turns"] == 0
    before = await api.call("GET", "/v1/spend/sums", until=found["first"], days=90)
    assert before["sums"] == [] and before["last"] == found["first"]
    await api.refused(400, "SPEND_DAYS", "GET", "/v1/spend/sums", until="2026-13-01")


async def test_a_table_of_what_was_spent_is_rfc_4180_and_has_no_formulas(api: Api) -> None:
    hostile = ('=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\t=1", '"a", b', "＝1")  # noqa: RUF001 - a wide sign
    for model in hostile:
        await spend(api, model=model)
    answer = await api.client.get("/v1/spend/csv", params={"days": 1})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")
    head, *rows = csv.reader(io.StringIO(answer.text, newline=""), strict=True)
    assert answer.text.count("\r\n") == 1 + len(hostile) and "\n" not in answer.text.replace("\r\n", "")
    models = {row[head.index("model")] for row in rows}
    assert models == {'"a", b', *(f"'{each}" for each in hostile if each != '"a", b')}
    assert {row[head.index("cost_usd")] for row in rows} == {"0.500000"}
