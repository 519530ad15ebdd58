"""Files are kept once, for their user, and messages name them."""

from typing import Any

import trio

from daycare.api.app import API_BODY_MAX_BYTES
from daycare.base.limits import FILE_MAX_BYTES
from daycare.store.records import User
from tests.api.conftest import ANN, Api


async def _upload(api: Api, data: bytes, *, status: int = 201, **query: Any) -> Any:
    answer = await api.client.post("/v1/files", content=data, params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_file_is_kept_and_a_message_names_it(api: Api) -> None:
    data = b"x" * (API_BODY_MAX_BYTES + 1)
    kept = await _upload(api, data, name="a.csv", key="k")
    assert kept == {"type": "file", "id": kept["id"], "name": "a.csv", "media_type": "text/csv", "size": len(data)}
    assert await _upload(api, b"other", name="b", key="k") == kept, "a repeat of the key keeps the first"
    api.echo.hold = trio.Event()
    await api.call("POST", "/v1/messages", {"text": "", "files": [kept["id"]]}, status=202)
    [row] = (await api.call("GET", "/v1/inbox", path=ANN))["rows"]
    assert row["envelope"]["files"] == [kept]
    assert await api.store.files.read(kept["id"], "ann") == data


async def test_what_is_no_file_of_the_user_is_refused(api: Api) -> None:
    await api.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
    kept = await _upload(api, b"mine", name="a")
    for number, user in ((kept["id"] + 1, None), (kept["id"], "bob")):
        body = {"text": "look", "files": [number], "user": user}
        await api.refused(404, "FILE_UNKNOWN", "POST", "/v1/messages", body)
    error = (await _upload(api, b"x", name="a", user="nobody", status=404))["error"]
    assert error["code"] == "USER_UNKNOWN"


async def test_a_file_that_is_too_large_is_refused(api: Api) -> None:
    error = (await _upload(api, b"x" * (FILE_MAX_BYTES + 1), name="a", status=413))["error"]
    assert error["code"] == "BODY_TOO_LARGE"


async def test_a_file_is_given_to_its_user_only(api: Api) -> None:
    await api.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
    kept = await _upload(api, b"<script>", name="\u00fc.html")
    route = f"/v1/files/{kept['id']}"
    answer = await api.client.get(route)
    assert answer.content == b"<script>"
    assert answer.headers["content-type"] == "application/octet-stream", "a browser must not run it"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%BC.html"
    assert (await api.client.get(route, params={"user": "bob"})).status_code == 404
    await api.refused(400, "FILE_NUMBER", "GET", "/v1/files/x")
