"""The judge of what people allow is shown stores and a world in which something is wrong, and must see each."""

import shutil
from collections import Counter
from pathlib import Path

import apsw
import pytest
import trio
from msgspec.structs import replace

from daycare.base.permission import Decision, Rule
from daycare.config import Config
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.settings import ModelsSection, ProviderSection, with_offline
from daycare.testing.clock import patient_clock
from daycare.testing.daemon import OWNER, open_daemon
from daycare.testing.scripted import Scripted
from tests.crash import mind, wishes
from tests.crash.approvals import effects_of
from tests.crash.approved import Asked, approved

DIRECT = f"/{OWNER}/direct"
BY = Approver(OWNER, f"direct:{OWNER}")
DECISIONS = {1: "approve", 2: "approve", 3: "reject"}  # of a post, a file, and another file


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYCARE_TEST_LEDGER", str(folder / "tools"))
        trio.run(_live, folder, clock=patient_clock())
    return folder


async def _live(folder: Path) -> None:
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers=with_offline({"scripted": ProviderSection(kind="scripted")}),
        rules=(Rule(action="tool:post", decision=Decision.ASK),),
    )
    plugins = [mind.plugin, wishes.plugin]
    async with open_daemon(
        folder, Scripted(mind.think), location="daycare.db", config=config, plugins=plugins, work=True
    ) as house:
        agent = await house.agent(DIRECT)
        await house.store.agents.configure(agent.id, replace(agent.config, workspace="notes"))
        for number, verb in enumerate(("post", "write", "write"), 1):
            await house.hear(await house.say(f"{verb} s0 {number}", key=f"key {number}", path=DIRECT))
        for it in reversed(await house.store.of(ApprovalRows).find()):
            await house.daemon.approvals.decide(it.no, DECISIONS[it.no], BY, it.seen)  # type: ignore[arg-type]
        await trio.sleep(60)


def verdict(folder: Path, damage: str = "", effects: Counter[tuple[str, str]] | None = None) -> set[str]:
    """Return what the judge finds once a store was damaged."""
    db = apsw.Connection(str(folder / "daycare.db"))
    try:
        db.execute("UPDATE history SET messages = unpacked(messages)")
        before = db.total_changes()
        for _ in db.execute(damage):
            pass
        assert not damage or db.total_changes() > before, "the damage was done"
        asked = Asked(set(DECISIONS), dict(DECISIONS), dict(DECISIONS))
        return {kind for kind, _ in approved(db, asked, EFFECTS if effects is None else effects, Counter())}
    finally:
        db.close()


_ROW = "agent_id, path, user, origin, folder, file, before_hash, after_hash, size, clean, created_at"
COPY = f"INSERT INTO file_changes (key, {_ROW}) SELECT key || 'x', {_ROW} FROM file_changes"
EFFECTS = Counter({("post", "s0-1"): 1, ("file_write", "s0-2"): 1})


def test_what_was_done_as_it_was_decided_is_found_faultless(lived: Path) -> None:
    assert effects_of(lived, lived / "tools") == EFFECTS
    assert verdict(lived) == set()


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("lost", "DELETE FROM approvals WHERE no = 1"),
        ("decisions_lost", "UPDATE approvals SET state = 'pending' WHERE no = 3"),
        ("lost", "UPDATE history SET messages = replace(messages, 'approved_1', 'other') WHERE messages LIKE '%d_1%'"),
        ("untold", "UPDATE history SET messages = replace(messages, '\"status\":\"ok\"', '\"status\":\"uncertain\"')"
         " WHERE messages LIKE '%posted s0-1%'"),
        ("repeated_tools", COPY),
        ("doubled", "UPDATE approvals SET action = (SELECT action FROM approvals WHERE no = 2) WHERE no = 3"),
    ],
)  # fmt: skip
def test_the_judge_sees_damage(lived: Path, tmp_path: Path, kind: str, damage: str) -> None:
    shutil.copy(lived / "daycare.db", tmp_path)
    assert kind in verdict(tmp_path, damage)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("lost", {("post", "s0-1"): -1}),
        ("repeated_tools", {("post", "s0-1"): 1}),
        ("unapproved", {("file_write", "s0-3"): 1}),
    ],
)
def test_the_judge_sees_what_the_world_should_not_have(
    lived: Path, kind: str, more: dict[tuple[str, str], int]
) -> None:
    effects = EFFECTS.copy()
    effects.update(more)
    assert kind in verdict(lived, effects=effects)
