"""What is told of a running daemon, of models and connectors, and of the service."""

import os
import resource
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.api.client import Client
from daycare.ops.doctor.finding import DoctorFinding
from daycare.ops.doctor.service import LINGER
from daycare.ops.unit import Unit
from daycare.process import EmbeddedDaemon
from daycare.store.home import Home, HomeLock
from daycare.testing.openai_server import FakeOpenAI
from tests.cli.fake_daemon import FakeDaemon
from tests.doctor.looking import add_job, bad, fix, look, now_ms, one, sql, store_secret

KEY = "sk-correct-horse-battery"


def test_a_real_daemon_is_asked_and_nothing_is_wrong(home: Home) -> None:
    with EmbeddedDaemon(home.path, work=True):
        findings = look(home)
    assert [each for each in findings if each.level == "fail"] == []
    told = {each.about: each for each in findings}
    assert told["daemon"].message == f"process {os.getpid()} answers"
    assert told["telegram"].message.startswith("off")
    assert told["socket"].level == "ok" and told["memory"].level == "ok"


def test_a_daemon_near_its_limit_of_open_files_is_told_by_doctor_and_by_its_health(home: Home) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with EmbeddedDaemon(home.path, work=True), closing(Client(home.socket)) as client, ExitStack() as opened:

        def health() -> Any:
            found = client.call("GET", "/v1/health")["findings"]
            return next(each for each in found if each["name"] == "descriptors")

        assert health()["ok"]
        for _ in range(400):
            opened.enter_context(open(os.devnull))  # noqa: PTH123
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, before[1]))  # noqa: PTH208
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        told = [each.message for each in look(home, "limits") if each.level == "warn"]
        assert any("near its limit of open files" in each for each in told), told
        assert not health()["ok"] and "LimitNOFILE" in health()["text"]


def test_a_home_that_somebody_has_without_answering_is_told(home: Home) -> None:
    with HomeLock(home) as lock:
        lock.acquire("run", now_ms())
        found = one(home, "daemon")
        assert found.level == "fail" and f"kill {os.getpid()}" in found.hint
        (home.path / "starts.json.new").touch()
        assert bad(home, "leftovers") == [], "it may be writing that"


def test_what_answers_and_is_no_daemon_is_told(home: Home, fake: FakeDaemon) -> None:
    fake.canned["GET", "/v1/status"] = (500, {"error": {"code": "DEFECT", "message": "it is broken"}})
    assert one(home, "daemon").message == "it is broken"


def test_what_health_says_is_told_once(home: Home, fake: FakeDaemon) -> None:
    fake.status |= {"version": "0.0.1", "store": {"trouble": "the disk is full"}}
    fake.canned["GET", "/v1/health"] = (200, {"ok": False, "findings": [
        {"name": "loop", "ok": False, "text": "it was 9.0 s late at most", "watched": True},
        {"name": "disk", "ok": False, "text": "nothing is free", "watched": True},
        {"name": "messages", "ok": True, "text": "nothing waits", "watched": True},
    ]})  # fmt: skip
    wrong = bad(home, "daemon")
    assert [(level, about) for level, about, _ in wrong] == [("warn", "daemon"), ("fail", "store"), ("warn", "loop")]
    assert "version 0.0.1" in wrong[0][2]


def test_settings_that_were_refused_or_wait_for_a_restart_are_told(home: Home, fake: FakeDaemon) -> None:
    fake.status["config"] = {"taken_at": 0, "refused": "config.toml:3: daemon.idle_s: expected more", "pending": []}
    found = one(home, "config")
    assert found.level == "fail" and "config.toml:3" in found.message
    fake.status["config"] = {"taken_at": 0, "refused": "", "pending": ["store.location"]}
    found = one(home, "config")
    assert (found.level, found.hint) == ("warn", "daycare restart")


def test_a_daemons_own_plugins_are_asked(home: Home, fake: FakeDaemon) -> None:
    plugin = {"name": "rowdy", "problem": "it crashed", "hint": "", "provides": {}, "health": ""}
    fake.canned["GET", "/v1/plugins"] = (200, {"plugins": [plugin]})
    assert bad(home, "plugins") == [("warn", "plugins", "rowdy: it crashed")]


def test_a_clock_that_was_set_ahead_since_the_start_is_told(home: Home, fake: FakeDaemon) -> None:
    with subprocess.Popen(["daycare", "60"], executable="/bin/sleep") as process:
        try:
            fake.status |= {"pid": process.pid, "started_at": now_ms()}
            assert not any("set" in message for _, _, message in bad(home, "clock"))
            fake.status["started_at"] = now_ms() - 3_600_000
            assert any("set ahead by 59 min" in message for _, _, message in bad(home, "clock"))
            fake.status["started_at"] = now_ms() + 3_600_000
            assert any("set back by" in message for _, _, message in bad(home, "clock"))
        finally:
            process.kill()


def test_jobs_that_a_daemon_lets_wait_are_told(home: Home, fake: FakeDaemon) -> None:
    add_job(home, "/ann/cron/a", '{"cron": "0 9 * * *", "prompt": "x"}', next_at=now_ms() - 3_600_000)
    fake.status["cron"] = {"problems": ["cron/b.md:2: prompt: is needed"]}
    assert [level for level, _, _ in bad(home, "cron")] == ["fail", "fail"]


# -- models ------------------------------------------------------------------------------------------------------------


async def _look(home: Home, *names: str, **how: Any) -> list[DoctorFinding]:
    return await trio.to_thread.run_sync(partial(look, home, *names, **how))


async def test_models_are_called_without_a_daemon(home: Home) -> None:
    async with FakeOpenAI.serve() as server:
        server.api_key = KEY
        home.config.write_text(
            f'[models]\ndefault = "fake/fake-small"\n[providers.fake]\nbase_url = "{server.base_url}"\n'
        )
        store_secret(home, "fake", KEY)
        [found] = await _look(home, "models")
        assert (found.level, found.message.split(",")[0]) == ("ok", "fake/fake-small answers")
        store_secret(home, "fake", "sk-wrong-horse-battery")
        [found] = await _look(home, "models")
        assert found.level == "fail" and found.hint and "horse" not in found.message + found.hint
        asked = len(server.history)
        [found] = await _look(home, "models", offline=True)
        assert found.level == "ok" and len(server.history) == asked


def test_a_provider_that_nobody_answers_at_is_told(home: Home) -> None:
    home.config.write_text('[models]\ndefault = "fake/x"\n[providers.fake]\nbase_url = "http://127.0.0.1:9/v1"\n')
    found = one(home, "models")
    assert found.level == "fail" and found.message.startswith("fake/x: ")


def test_models_are_called_by_the_daemon_that_runs(home: Home, fake: FakeDaemon) -> None:
    fake.status["models"] = {"default": "openai/gpt-5-mini", "task": "openai/gpt-5"}
    result = {"model": "openai/gpt-5-mini", "latency_ms": 5, "code": "KEY_REFUSED", "message": "no", "hint": "do so"}
    spent = {"model": "openai/gpt-5", "latency_ms": 5, "code": "BUDGET_EXHAUSTED", "message": "spent", "hint": ""}
    fake.canned["POST", "/v1/models/test"] = (200, {"results": [result, spent]})
    assert [(each.level, each.hint) for each in look(home, "models")] == [
        ("fail", "do so"),
        ("warn", "daycare models test openai/gpt-5"),
    ]
    assert ("POST", "/v1/models/test") in [request[:2] for request in fake.requests]


# -- connectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "since_s", "level"),
    [
        ("up", 10, "ok"),
        ("off", 10, "ok"),
        ("starting", 5, "ok"),
        ("starting", 600, "warn"),
        ("away", 5, "warn"),
        ("stalled", 5, "warn"),
        ("conflict", 5, "fail"),
        ("refused", 5, "fail"),
        ("held", 5, "fail"),
    ],
)
def test_how_a_connector_is_decides(home: Home, fake: FakeDaemon, state: str, since_s: int, level: str) -> None:
    fake.canned["GET", "/v1/plugins"] = (200, {"plugins": []})
    sql(home, "INSERT INTO inbox (agent_id, key, lane, kind, path, user, origin, sender, trace, created_at)"
        " VALUES ('a', 'k', 1, 'message', '/ann/telegram', 'ann', 'person', 'telegram:42', 't', ?)", now_ms() - 60_000,
    )  # fmt: skip
    fake.status["connectors"] = {
        "direct": {"state": "up"},
        "telegram": {"state": state, "reason": "so it is", "since": now_ms() - since_s * 1000, "identity": "@bot"},
    }
    found = next(each for each in look(home, "connectors") if each.about == "telegram")
    assert found.level == level and "so it is" in found.message
    assert ("the last message came 1 min ago" in found.message) == (state == "up")


def test_credentials_are_tried_without_a_daemon(home: Home) -> None:
    assert "none but the terminal" in one(home, "connectors").message
    home.config.write_text('[plugins.telegram]\nbase_url = "http://127.0.0.1:9"\n')
    store_secret(home, "telegram", "123456789:" + "A" * 35)
    found = one(home, "connectors")
    assert (found.level, found.about) == ("warn", "telegram")
    assert "A" * 35 not in found.message + found.hint
    assert [each.level for each in look(home, "connectors", offline=True)] == ["ok"]


def test_what_bridges_need_of_the_machine_is_told(home: Home, programs: Callable[[str, str], None]) -> None:
    home.config.write_text('[plugins.bridge.to.signal]\ncommand = ["true"]\n')
    assert "ffmpeg is not installed" in " ".join(message for _, _, message in bad(home, "connectors", offline=True))
    programs("ffmpeg", "exit 0")
    assert "ffmpeg is not installed" not in str(bad(home, "connectors", offline=True))


# -- the service -------------------------------------------------------------------------------------------------------

SYSTEMCTL = """
case "$*" in
*Version*) echo Version=255 ;;
*show*) cat "$(dirname "$0")/shown" ;;
esac
"""


def _installed(home: Home, programs: Callable[[str, str], None], **how: Any) -> Callable[..., None]:
    unit = Unit(name="daycare", home=home.path, system=False, **how)
    unit.file.parent.mkdir(parents=True)
    unit.file.write_text(unit.text())
    programs("systemctl", SYSTEMCTL)
    os.environ["PATH"] += ":/bin:/usr/bin"

    def shows(**fields: str) -> None:
        lines = {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": "4242", "NRestarts": "0"} | fields
        file = home.path.parent / "programs" / "shown"
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    shows()
    return shows


def _told(home: Home) -> list[tuple[str, str]]:
    """Return what is wrong, but that whoever runs the tests may be logged out."""
    return [
        (each.level, each.hint) for each in look(home, "service") if each.level != "ok" and "linger" not in each.hint
    ]


def test_a_unit_as_it_should_be_is_fine(
    home: Home, fake: FakeDaemon, programs: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no unit keeps it running" in one(home, "service").message
    _installed(home, programs, jit=True, key=Path("/etc/daycare/k.cred"))
    assert _told(home) == []
    assert any("is active" in each.message for each in look(home, "service"))
    lingers = os.path.lexists(LINGER / "root") if os.geteuid() == 0 else True
    assert any("log out" in message for _, _, message in bad(home, "service")) != lingers or os.geteuid()


@pytest.mark.parametrize(
    ("fields", "level", "hint"),
    [
        ({"ActiveState": "failed", "Result": "exit-code"}, "fail", "daycare service logs"),
        ({"ActiveState": "inactive"}, "warn", "daycare service install"),
        ({"UnitFileState": "disabled"}, "warn", "systemctl --user enable daycare"),
        ({"MainPID": "1"}, "warn", "daycare stop; systemctl --user restart daycare"),
    ],
)
def test_a_unit_in_another_state_is_told(
    home: Home,
    fake: FakeDaemon,
    programs: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, str],
    level: str,
    hint: str,
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])  # put back afterwards
    _installed(home, programs)(**fields)
    [(found, command)] = _told(home)
    assert found == level and command.startswith(hint)


def test_a_unit_of_an_older_version_is_told_with_the_options_that_it_has(
    home: Home, fake: FakeDaemon, programs: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    _installed(home, programs, jit=True)
    unit = Unit(name="daycare", home=home.path, system=False)
    unit.file.write_text(unit.file.read_text().replace("WatchdogSec=60", "WatchdogSec=5"))
    assert _told(home) == [("warn", "daycare service install --jit")]
    other = Home(home.path.parent / "other")
    other.path.mkdir(mode=0o700)
    assert "no unit" in one(other, "service").message, "it is that of another home"


def test_runs_that_did_not_end_in_order_are_told(home: Home, fake: FakeDaemon) -> None:
    assert _told(home) == []
    home.starts_file.write_text('{"running_since": 5, "unclean": [6, 7]}')
    assert _told(home) == [("warn", "daycare logs")]
    home.starts_file.write_text('{"running_since": 5, "unclean": [6, 7, 8]}')
    assert _told(home) == [("fail", "daycare logs")]
    fake.status["connectors"]["telegram"] = {"state": "held"}
    assert _told(home)[0][1].endswith("daycare run --no-breaker")
    fake.stop()
    home.starts_file.write_text('{"running_since": 5}')
    assert _told(home) == [("warn", "daycare logs, then daycare run")]
    home.starts_file.write_text("{")
    assert _told(home) == [("warn", "daycare restart")]


def test_what_needs_the_home_for_itself_is_left_while_a_daemon_runs(home: Home) -> None:
    row = "SELECT no, scope, name, text FROM documents WHERE no = (SELECT min(no) FROM living_documents)"
    sql(home, f"INSERT INTO documents_text (documents_text, rowid, scope, name, text) SELECT 'delete', * FROM ({row})")
    with EmbeddedDaemon(home.path, work=False):
        [left] = fix(home, "database")
        assert not left.done and "is in use by" in left.problem
    [done] = fix(home, "database")
    assert done.done
