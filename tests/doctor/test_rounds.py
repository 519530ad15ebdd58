"""Looks side by side: what hangs or breaks costs nobody else anything."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.base.errors import InvalidError
from daycare.ops.doctor.checks import CHECKS, chosen, examine, mend
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding, Look, Mend
from daycare.store.home import Home, HomeLock
from tests.doctor.looking import now_ms


@pytest.fixture
def context(home: Home) -> DoctorContext:
    return DoctorContext.of(home, now_ms(), offline=True)


def test_a_look_that_hangs_is_told_and_holds_up_no_other(context: DoctorContext) -> None:
    release = threading.Event()
    ended: list[bool] = []

    def hangs(_: DoctorContext) -> Iterator[DoctorFinding]:
        release.wait(60)
        ended.append(True)
        yield DoctorFinding("ok", "late", "")

    def works(_: DoctorContext) -> Iterator[DoctorFinding]:
        yield DoctorFinding("ok", "works", "yes")

    looks: dict[str, tuple[Look, float]] = {"hangs": (hangs, 0.3), "works": (works, 30.0)}
    waiting: list[list[str]] = []
    hung, worked = examine(context, tuple(looks), lambda names: waiting.append(list(names)), looks=looks)
    assert not ended, "somebody waited for it"
    release.set()
    assert (hung.level, hung.look, hung.hint) == ("fail", "hangs", "daycare doctor --only hangs")
    assert worked.message == "yes"
    assert waiting and all(names == ["hangs"] for names in waiting)


def test_a_look_that_breaks_is_told_with_what_it_found_before(context: DoctorContext) -> None:
    def breaks(_: DoctorContext) -> Iterator[DoctorFinding]:
        yield DoctorFinding("warn", "one", "first")
        raise ValueError("a defect")

    found = list(examine(context, ("breaks",), looks={"breaks": (breaks, 30.0)}))
    assert [(each.level, each.message) for each in found] == [
        ("warn", "first"),
        ("fail", "looking at breaks: ValueError: a defect"),
    ]


def test_looks_are_chosen_by_name_in_their_own_order() -> None:
    assert chosen(["disk", "home"]) == ("home", "disk")
    assert chosen([]) == tuple(CHECKS)
    with pytest.raises(InvalidError, match="doctr"):
        chosen(["doctr"])


def test_a_look_stands_alone_for_each_part_that_is_broken(home: Home) -> None:
    home.config.write_text("[[[")
    (home.path / "daycare.db").write_bytes(b"x" * 5_000)
    home.key_file.write_text("no key")
    home.starts_file.write_text("?")
    home.cron.write_text("no folder")
    (home.path / "restoring").touch()
    found = list(examine(DoctorContext.of(home, now_ms(), offline=True)))
    assert {"home", "config", "database", "backup", "keys"} <= {each.about for each in found if each.level == "fail"}
    assert [each for each in found if "LOOK_FAILED" in each.message or "Error:" in each.message] == []
    assert all(each.hint for each in found if each.level == "fail"), [each for each in found if each.level == "fail"]


# -- mending -----------------------------------------------------------------------------------------------------------


def test_one_thing_is_mended_once_and_a_failure_holds_up_no_other(context: DoctorContext) -> None:
    done: list[str] = []

    def breaks() -> None:
        raise PermissionError("not yours")

    findings = [
        DoctorFinding("fail", "a", "", look="a", mend=Mend("break", breaks)),
        DoctorFinding("warn", "b", "", look="b", mend=Mend("mend", lambda: done.append("b"))),
        DoctorFinding("warn", "c", "", look="c", mend=Mend("mend", lambda: done.append("c"))),
        DoctorFinding("ok", "d", "", look="d", mend=Mend("never", lambda: done.append("d"))),
    ]
    assert [each.done for each in mend(context, findings, now_ms(), dry_run=True)] == [False, False]
    assert done == []
    broke, mended = mend(context, findings, now_ms(), dry_run=False)
    assert (broke.done, broke.problem) == (False, "break: PermissionError: not yours")
    assert (mended.done, done) == (True, ["b"])


def test_what_needs_the_home_alone_waits_for_nobody(context: DoctorContext) -> None:
    findings = [DoctorFinding("warn", "a", "", look="a", mend=Mend("mend", lambda: None, alone=True))]
    with HomeLock(context.home) as lock:
        lock.acquire("run", now_ms())
        [left] = mend(context, findings, now_ms(), dry_run=False)
        assert not left.done and "is in use by daycare run" in left.problem
    [done] = mend(context, findings, now_ms(), dry_run=False)
    assert done.done


def test_looking_changes_no_file(home: Home) -> None:
    def tree() -> dict[str, tuple[int, bytes]]:
        files = (file for file in home.path.rglob("*") if file.is_file() and not file.name.endswith(("-wal", "-shm")))
        return {str(file): (file.stat().st_mode, file.read_bytes()) for file in files}

    home.config.chmod(0o644)
    (home.path / "starts.json.new").touch()
    before = tree()
    list(examine(DoctorContext.of(home, now_ms())))
    assert tree() == before
    assert not Path(home.path / "daycare.lock").exists() or before[str(home.path / "daycare.lock")]
