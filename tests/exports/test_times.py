"""Times that no calendar holds: no export brings them in, and rows that have them already cost nobody anything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio
from starlette.routing import Route

from daycare.api.app import build
from daycare.base.errors import InvalidError
from daycare.base.times import EARLIEST_MS, LATEST_MS, is_time, local_time, moment, when
from daycare.cli import render
from daycare.store.sqlite.writer import Tx
from daycare.testing.daemon import TestDaemon
from tests.exports.houses import WORK, exported, house_at, imported, lived
from tests.exports.test_hostile import Members, lines, packed, unpacked

WRONG: Final = (2**62, -(2**62), LATEST_MS + 1)
COLUMNS: Final = {
    "agents": ("created_at",),
    "sessions": ("started_at", "ended_at"),
    "turns": ("started_at",),
    "history": ("ended_at",),
    "inbox": ("created_at", "done_at"),
    "outbox": ("created_at", "sent_at"),
    "summaries": ("created_at",),
    "documents": ("created_at",),
    "memories": ("at_ms", "until_ms", "created_at"),
    "files": ("created_at",),
    "dead_letters": ("created_at",),
    "approvals": ("created_at", "decided_at"),
    "cron_jobs": ("created_at", "updated_at"),
    "events": ("at",),
    "steps": ("at",),
    "spend": ("at",),
    "users": ("created_at",),
}
DOCUMENTS: Final = (("history", "messages", "turn"), ("memories", "extra", "no"))  # JSON that has times within
ASKED: Final = (
    *("/status", "/context", "/trace", "/history", "/memory", "/facts", "/why", "/spend", "/dead", "/agents", "/tasks"),
    *("what is my favourite colour?", "when did I talk of Clara?", "remember that the sky is blue", "hello again"),
)


def spoiled(at_ms: int) -> Callable[[Tx], None]:
    """Return what puts a time everywhere where one is stored, as an import of an earlier version could."""

    def spoil(tx: Tx) -> None:
        for table, columns in COLUMNS.items():
            for column in columns:
                tx.run(f"UPDATE {table} SET {column} = ? WHERE {column} IS NOT NULL", (at_ms,))
        for table, column, key in DOCUMENTS:
            query = f"SELECT {key}, unpacked({column}) FROM {table} WHERE {column} IS NOT NULL"
            for no, text in tx.db.execute(query).fetchall():
                mended = json.dumps(_with(json.loads(str(text)), at_ms)) if text else text
                tx.run(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (mended, no))

    return spoil


def _with(value: Any, at_ms: int) -> Any:
    if isinstance(value, list):
        return [_with(each, at_ms) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: at_ms if name.endswith("_ms") and isinstance(each, int) else _with(each, at_ms)
        for name, each in value.items()
    }


async def _shown(house: TestDaemon) -> None:
    """Ask for all that the API lists and shows without being told what of."""
    app = build(house.daemon.services)
    routes = [each for each in app.routes if isinstance(each, Route) and "GET" in (each.methods or ())]
    plain = [each.path for each in routes if "{" not in each.path and not each.path.endswith("/events")]
    assert len(plain) > 20
    agent = await house.daemon.directory.at(WORK)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daycare") as client:
        for path in [*plain, f"/v1/agents{WORK}", f"/v1/agents/{agent.id}"]:
            answer = await client.get(path, params={"path": WORK, "agent": WORK, "user": "ann"})
            if answer.status_code == 400:  # it knows none of these
                answer = await client.get(path)
            assert answer.status_code < 500, f"{path}: {answer.text[:300]}"


@pytest.mark.parametrize("at_ms", WRONG)
async def test_rows_whose_time_is_none_cost_no_answer_listing_view_or_export(
    autojump_clock: object, tmp_path: Path, at_ms: int
) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        await house.store._writer.write(spoiled(at_ms))
    async with house_at(tmp_path) as house:
        for text in ASKED:
            answer = await house.talk(text, path=WORK)
            assert answer and "couldn't process" not in answer, text
        assert not house.events("turn.failed")
        await _shown(house)
        await trio.sleep(1_000)  # workers look at it, too
        assert not house.events("turn.failed")
        _, data = await exported(house)
        assert [each for each in _times(data) if not is_time(each)] == []
        await imported(house, data, "/bob/agent/moved", approve=True)
        assert await house.talk("hello there", path="/bob/agent/moved", user="bob")


def _times(data: bytes) -> list[int]:
    found: list[int] = []

    def look(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                look(each, key)
        elif isinstance(value, list):
            for each in value:
                look(each, name)
        elif isinstance(value, int) and name.endswith(("_ms", "_at")):
            found.append(value)

    for member, text in unpacked(data).items():
        if member.endswith(".jsonl"):
            for row in text.splitlines():
                look(json.loads(row))
    assert len(found) > 20
    return found


TOLD: Final[dict[str, tuple[str, Callable[[list[Any], int], object]]]] = {
    "a message": ("turns.jsonl", lambda found, at_ms: found[0]["messages"][0].update(at_ms=at_ms)),
    "a turn": ("turns.jsonl", lambda found, at_ms: found[0].update(started_at=at_ms)),
    "a memory": ("memories.jsonl", lambda found, at_ms: found[0].update(at_ms=at_ms)),
    "a fact": ("memories.jsonl", lambda found, at_ms: found[6]["fact"].update(valid_from_ms=at_ms)),
    "a reminder": ("reminders.jsonl", lambda found, at_ms: found[0].update(due_at=at_ms)),
    "a document": ("documents.jsonl", lambda found, at_ms: found[0].update(created_at=at_ms)),
}


async def test_an_export_with_a_time_that_is_none_is_refused(autojump_clock: object, tmp_path: Path) -> None:
    async with house_at(tmp_path) as house:
        await lived(house)
        _, data = await exported(house)
        for what, (part, change) in TOLD.items():
            for at_ms in (LATEST_MS + 1, 2**53, EARLIEST_MS - 1):
                members: Members = unpacked(data)
                lines(part, lambda found, at_ms=at_ms, change=change: change(found, at_ms))(members)  # type: ignore[misc]
                with pytest.raises(InvalidError) as refused:
                    await imported(house, packed(members), "/bob/agent/second", approve=True)
                assert refused.value.code == "EXPORT_INVALID", f"{what}: {refused.value}"


@pytest.mark.parametrize("at_ms", [*WRONG, 10**30, -(10**30), EARLIEST_MS, LATEST_MS, 0])
def test_any_time_can_be_shown(at_ms: int) -> None:
    assert 1 <= local_time(at_ms).year <= 9999
    assert when(at_ms) and render.clock(at_ms)
    assert 0 <= moment(at_ms) <= LATEST_MS


def test_times_are_shown_by_one_function() -> None:
    """`datetime.fromtimestamp` raises for what no calendar holds: whoever shows a stored time uses `local_time`."""
    root = Path(render.__file__).parent.parent
    known = {"base/times.py", "base/crontab.py"}  # the latter computes with times that it has checked
    found = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if "fromtimestamp(" in file.read_text("utf-8") and "testing" not in file.parts
    }
    assert found == known
