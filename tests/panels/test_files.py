"""The documents of an agent as files."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from daycare.base.documents import Attribution, digest
from daycare.base.messages import Origin
from tests.memory import hostile
from tests.panels.conftest import Panels

FILES = "/v1/agents/{id}/memory"
BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")


async def put(panels: Panels, path: str, text: str) -> None:
    await panels.house.daemon.memory.documents.write(panels.scribe, path, text, BY)


async def test_files_are_listed_with_their_times_and_sizes(panels: Panels) -> None:
    await put(panels, "knowledge/garden.md", "Beans.")
    await put(panels, "shared/knowledge/house.md", "Ünder.")
    await put(panels, "knowledge/garden.md", "Tomatoes.")
    found = (await panels.call("GET", FILES))["files"]
    assert [each["path"] for each in found] == ["knowledge/garden.md", "shared/knowledge/house.md"]
    first = found[0]
    assert set(first) == {"path", "content_type", "created_at", "updated_at", "size_bytes"}
    assert (first["content_type"], first["size_bytes"], found[1]["size_bytes"]) == ("text/markdown", 9, 7)
    assert datetime.fromisoformat(first["created_at"]) < datetime.fromisoformat(first["updated_at"])
    assert found[1]["created_at"] == found[1]["updated_at"]
    below = await panels.call("GET", FILES, prefix="shared/knowledge")
    assert [each["path"] for each in below["files"]] == ["shared/knowledge/house.md"]


async def test_a_file_that_was_deleted_and_came_back_is_as_old_as_that(panels: Panels) -> None:
    await put(panels, "knowledge/garden.md", "Beans.")
    [before] = (await panels.call("GET", FILES))["files"]
    assert (await panels.ask("DELETE", f"{FILES}/knowledge/garden.md")).status_code == 204
    await put(panels, "knowledge/garden.md", "Beans.")
    [after] = (await panels.call("GET", FILES))["files"]
    assert after["created_at"] == after["updated_at"] > before["created_at"]


async def test_a_file_is_read_with_its_text(panels: Panels) -> None:
    await put(panels, "knowledge/garden.md", "Beans.")
    answer = await panels.ask("GET", f"{FILES}/knowledge/garden.md")
    found = answer.json()
    assert set(found) == {"path", "content", "content_type", "updated_at"}
    assert (found["path"], found["content"], found["content_type"]) == (
        "knowledge/garden.md",
        "Beans.",
        "text/markdown",
    )
    assert answer.headers["etag"] == f'"{digest("Beans.")}"'


async def test_views_are_read_and_neither_listed_nor_deleted(panels: Panels) -> None:
    tools = await panels.call("GET", f"{FILES}/tools.json")
    assert (tools["content_type"], tools["updated_at"]) == ("application/json", None)
    assert "# Agents" in (await panels.call("GET", f"{FILES}/AGENTS.md"))["content"]
    assert (await panels.call("GET", FILES))["files"] == []
    for view in ("AGENTS.md", "tools.json"):
        await panels.refused(400, "DOCUMENT_READ_ONLY", "DELETE", f"{FILES}/{view}")


async def test_a_file_is_deleted_once_and_only_as_it_was_seen(panels: Panels) -> None:
    await put(panels, "knowledge/garden.md", "Beans.")
    one = f"{FILES}/knowledge/garden.md"
    await panels.refused(409, "DOCUMENT_CHANGED", "DELETE", one, headers={"If-Match": f'"{digest("Peas.")}"'})
    gone = await panels.ask("DELETE", one, headers={"If-Match": f'"{digest("Beans.")}"'})
    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "DELETE"):
        await panels.refused(404, "DOCUMENT_MISSING", method, one)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_is_not_there_is_404_and_what_is_no_path_400(panels: Panels, method: str) -> None:
    await panels.refused(404, "DOCUMENT_MISSING", method, f"{FILES}/knowledge/none.md")
    await panels.refused(404, "AGENT_UNKNOWN", method, "/v1/agents/ann.agent.none/memory/MEMORY.md")
    for path in ("..%2F..%2Fetc%2Fpasswd", "knowledge%2F..%2Fsecret.md", "%2Fetc%2Fpasswd", "knowledge%5Cx.md"):
        await panels.refused(400, "MEMORY_PATH_INVALID", method, f"{FILES}/{path}")


async def test_no_hostile_path_leads_anywhere(panels: Panels) -> None:
    for path in filter(None, hostile.PATHS[::2]):
        sent = quote(path, safe="", errors="surrogatepass").replace(".", "%2E")  # else the client makes sense of it
        answer: Any = await panels.ask("GET", f"{FILES}/{sent}")
        assert answer.status_code in (400, 404, 431), path
