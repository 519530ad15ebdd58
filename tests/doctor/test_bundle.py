"""The bundle for bug reports: nobody's secret, nobody's words, nobody's name, and still of use."""

import base64
import io
import json
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from daycare.base.errors import ConflictError, UnavailableError
from daycare.ops.doctor.bundle import BundleMember, refuse_target, write_bundle
from daycare.ops.doctor.checks import examine
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.pseudonyms import Pseudonyms
from daycare.ops.unit import Unit
from daycare.process import EmbeddedDaemon
from daycare.store.home import Home
from tests.cli.fake_daemon import FakeDaemon
from tests.doctor.looking import add_job, now_ms, sql, store_secret

SECRETS = ("correct-horse-battery-staple", "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw")
SAID = "the teal penguin sleeps at noon"
NAMES = (
    "ann",
    "Ann",
    "benedict",
    "Benedict Cumber",
    "99887766",
    "divorce",
    "penelope",
    "+491511234567",
    "ann@example.org",
)
LINES = (
    {"event": "turn.failed", "path": "/ann/agent/divorce", "user": "ann", "reason": f"refused: {SECRETS[0]}"},
    {"event": "x", "chat": 99887766, "other": 99887766, "url": f"https://api.telegram.org/bot{SECRETS[1]}/getMe"},
    {"event": "y", "text": SAID, "prompt": SAID, "reason": "call Benedict Cumber at +491511234567 or ann@example.org"},
    {"event": "z", "api_key": "whatever-it-is", "nested": {"password": "hunter2hunter2", "who": ["benedict", 5]}},
    {"event": "gone", "path": "/penelope/cron/feed-the-cat", "host": "http://nas.private.example:8080/v1"},
)


@pytest.fixture
def lived(home: Home) -> Home:
    """A home that has seen something."""
    store_secret(home, "openai", SECRETS[0])
    store_secret(home, "telegram", SECRETS[1])
    sql(home, "INSERT INTO users VALUES ('benedict', 'Benedict Cumber', 'UTC', 'person', 0, NULL, 'person', 0, NULL)")
    sql(home, "INSERT INTO user_connector_keys VALUES ('telegram:99887766', 'benedict', 'person', 0)")
    sql(
        home,
        "INSERT INTO inbox (agent_id, key, lane, kind, path, user, origin, sender, trace, created_at, text) VALUES"
        " ('a', 'k', 1, 'message', '/ann/agent/divorce', 'ann', 'person', 'telegram:99887766', 't', 5, ?)",
        SAID,
    )
    add_job(home, "/ann/cron/divorce", json.dumps({"cron": "0 9 * * *", "prompt": SAID}), next_at=now_ms() + 9**9)
    home.config.write_text(
        f'[agent]\nname = "Penelope"\ntone = "{SAID}"\n[cron.divorce]\ncron = "0 9 * * *"\nprompt = "{SAID}"\n'
        '[plugins.telegram]\n[daemon]\nidle_s = 17.5\n[providers.nas]\nbase_url = "http://nas.private.example/v1"\n'
    )
    encoded = {"event": "echoed", "reason": " ".join(form for secret in SECRETS for form in forms(secret))}
    lines = [*map(json.dumps, (*LINES, encoded)), "Traceback (most recent call last): benedict", ""]
    home.log_file.write_text("\n".join(lines))
    unit = Unit(name="daycare", home=home.path, system=False)
    unit.file.parent.mkdir(parents=True)
    unit.file.write_text(unit.text())
    return home


def pack(home: Home, target: Path, *, keep_names: bool = False) -> tuple[list[BundleMember], dict[str, str]]:
    context = DoctorContext.of(home, now_ms(), offline=True)
    members = write_bundle(target, context, list(examine(context)), keep_names=keep_names)
    with tarfile.open(fileobj=io.BytesIO(target.read_bytes())) as archive:
        found = {}
        for entry in archive.getmembers():
            opened = archive.extractfile(entry)
            assert opened is not None
            found[entry.name.removeprefix("daycare-report/")] = opened.read().decode()
            assert (entry.uid, entry.uname, entry.mode) == (0, "", 0o600)
    return members, found


def forms(secret: str) -> list[str]:
    raw = secret.encode()
    return [secret, quote(secret, safe=""), raw.hex(), base64.b64encode(raw).decode(), json.dumps(secret)[1:-1]]


def test_a_report_has_no_secret_and_nothing_that_was_said(lived: Home, tmp_path: Path) -> None:
    members, found = pack(lived, tmp_path / "report.tar.gz")
    whole = "\n".join(found.values())
    assert [(secret, form) for secret in SECRETS for form in forms(secret) if form.strip("=") in whole] == []
    assert [word for word in (SAID, "penguin", "whatever-it-is", "hunter2") if word in whole] == []
    assert lived.key_file.read_text().split()[-1] not in whole
    assert [(each.name, each.bytes) for each in members] == [(name, len(text.encode())) for name, text in found.items()]
    assert (tmp_path / "report.tar.gz").stat().st_mode & 0o777 == 0o600


def test_a_report_names_nobody_and_still_says_who_is_the_same(lived: Home, tmp_path: Path) -> None:
    _, found = pack(lived, tmp_path / "report.tar.gz")
    whole = "\n".join(found.values())
    words = set(whole.replace("/", " ").replace('"', " ").replace(":", " ").split())
    assert [name for name in NAMES if name in words] == []
    assert [name for name in NAMES[2:] if name.lower() in whole.lower()] == []
    assert "private.example" not in whole and str(lived.path) not in whole
    first = json.loads(found["log.jsonl"].splitlines()[0])
    assert first["path"].split("/")[1] == first["user"] and first["user"].startswith("user-")
    _, again = pack(lived, tmp_path / "again.tar.gz")
    assert again["log.jsonl"] == found["log.jsonl"], "the same names in each report of an installation"


def test_a_report_is_of_use(lived: Home, tmp_path: Path) -> None:
    with FakeDaemon(lived.path):
        _, found = pack(lived, tmp_path / "report.tar.gz")
    assert set(found) >= {
        "README.txt", "findings.json", "versions.json", "system.json", "config.json", "status.json", "health.json",
        "plugins.json", "tables.json", "schema.sql", "unit-user-7.service", "log.jsonl",
    }  # fmt: skip
    settings = json.loads(found["config.json"])
    assert settings["daemon"]["idle_s"] == 17.5 and settings["models"]["default"] == "offline/rules"
    assert settings["agent"]["tone"] == f"[{len(SAID)} characters]"
    assert json.loads(found["tables.json"])["rows"]["inbox"] == 1
    assert "CREATE TABLE inbox" in found["schema.sql"]
    assert json.loads(found["versions.json"])["libraries"]["trio"]
    assert "WatchdogSec=60" in found["unit-user-7.service"]
    lines = [json.loads(line) for line in found["log.jsonl"].splitlines()]
    assert [each["event"] for each in lines] == [
        "turn.failed",
        "x",
        "y",
        "z",
        "gone",
        "echoed",
        "report.lines_left_out",
    ]
    assert lines[2]["text"] == f"[{len(SAID)} characters]"


def test_names_are_kept_where_that_is_wished_and_secrets_are_not(lived: Home, tmp_path: Path) -> None:
    _, found = pack(lived, tmp_path / "report.tar.gz", keep_names=True)
    whole = "\n".join(found.values())
    assert "/ann/agent/divorce" in whole and str(lived.path) in whole
    assert [secret for secret in SECRETS if secret in whole] == []
    assert SAID not in whole


def test_a_broken_home_has_a_report_too(home: Home, tmp_path: Path) -> None:
    home.config.write_text("[[[")
    (home.path / "daycare.db").write_bytes(b"x" * 5_000)
    home.key_file.write_text("no key")
    home.log_file.write_bytes(b"\xff\xfe{\n" * 100)
    _, found = pack(home, tmp_path / "report.tar.gz")
    assert "problem" in json.loads(found["tables.json"])
    assert json.loads(found["log.jsonl"])["count"] == 100


def test_a_real_daemons_report(home: Home, tmp_path: Path) -> None:
    with EmbeddedDaemon(home.path, work=False):
        _, found = pack(home, tmp_path / "report.tar.gz")
    assert json.loads(found["status.json"])["user"].startswith("user-")
    assert {each["name"] for each in json.loads(found["plugins.json"])} >= {"telegram", "tools"}
    assert json.loads(found["health.json"])["findings"]


def test_a_file_that_is_there_is_never_overwritten(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    target.symlink_to(home.config)
    with pytest.raises(ConflictError):
        refuse_target(target)
    with pytest.raises(UnavailableError):
        pack(home, target)
    assert "agent" in home.config.read_text()
    with pytest.raises(UnavailableError):
        refuse_target(tmp_path / "nowhere" / "report.tar.gz")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("called Benedict, or just CUMBER", "name-"),
        ("feed-the-cat feeds the cat", "feeds the cat"),
        ("{ann} has {Ann}'s keys", "user-"),
        ("max_output of ann_notes.md", "max_output"),
        ("annotations of planning", "annotations of planning"),
        ("123456@s.whatsapp.net wrote", "account-"),
        ("as @kitchen_bot", "@account-"),
        ("10.1.2.3 refused, 127.0.0.1 did not", "127.0.0.1"),
        ("wordllama@0123456789abcdef", "wordllama@0123456789abcdef"),
        ("/system/gc made its last round", "/system/gc"),
        ("https://api.openai.com/v1 is away", "https://api.openai.com/v1"),
    ],
)
def test_what_is_replaced_and_what_is_not(text: str, kept: str) -> None:
    names = Pseudonyms(b"key", [("user", "ann"), ("user", "me"), ("name", "Benedict Cumber"), ("part", "feed-the-cat")])
    told = names.text(text.format(ann="ann", Ann="Ann") if "{" in text else text)
    assert kept in told
    assert "benedict" not in told.lower() and "cumber" not in told.lower() and "feed-the-cat" not in told
    assert "ann_" not in told and "10.1.2.3" not in told and "kitchen" not in told and "123456@" not in told
    assert names.text("ANN") == names.text("ann") != Pseudonyms(b"other", [("user", "ann")]).text("ann")
