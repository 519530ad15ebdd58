"""Numbers over the API, and messages that belong to a trace from outside."""

import re

from tests.api.conftest import Api

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_numbers_are_text_for_prometheus(api: Api) -> None:
    answer = await api.client.get("/v1/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_a_message_may_belong_to_a_trace_from_outside(api: Api) -> None:
    header = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    answer = await api.client.post("/v1/messages", json={"text": "hi"}, headers=header)
    assert answer.json()["trace"] == TRACE
    assert re.fullmatch(rf"00-{TRACE}-[0-9a-f]{{16}}-01", answer.headers["traceparent"])
    assert (await api.call("GET", f"/v1/trace/{TRACE}"))["entries"]


async def test_without_or_with_nonsense_a_message_has_a_trace_of_its_own(api: Api) -> None:
    answer = await api.client.post("/v1/messages", json={"text": "hi"}, headers={"traceparent": "nonsense"})
    trace = answer.json()["trace"]
    assert re.fullmatch("[0-9a-f]{16}", trace)
    assert answer.headers["traceparent"].startswith(f"00-{'0' * 16}{trace}-")
