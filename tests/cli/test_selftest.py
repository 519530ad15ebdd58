"""`daycare selftest` in a process of its own, and faults that it must see."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from daycare.testing.daemon_process import ThrowawayHome
from daycare.testing.kill_trial import CONFIG, KillFigures, SaidMessage, judged
from tests.chance import sliced
from tests.crash.process import REPOSITORY

DEADLINE_S = 240.0
# What is planted runs in the process of the test, before the program: as no user can.
WEAKER_STORE = """
from daycare.store.sqlite import database, store
opened = database.open_writer
def open_weaker(location, vfs=None):
    db = opened(location, vfs)
    db.pragma("synchronous", "OFF")
    return db
store.open_writer = open_weaker
"""
FORGETFUL_DAEMON = """
import apsw
from daycare.testing import kill_trial
judged = kill_trial.judged
def forgotten(home, said, figures):
    db = apsw.Connection(str(home.database))
    db.execute("DELETE FROM inbox WHERE seq = ?", (said[0].seq,))
    db.close()
    return judged(home, said, figures)
kill_trial.judged = forgotten
"""
MAIN = "from daycare.cli.main import main; main()"


def started(folder: Path, *arguments: str, planted: str = "") -> "subprocess.Popen[str]":
    """Start the program over a home in `folder` that does not exist, with nothing of the user's environment."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "VIRTUAL_ENV")}
    return subprocess.Popen(
        [sys.executable, "-c", planted + MAIN, "selftest", "--home", str(folder / "home"), *arguments],
        env=kept | {"HOME": str(folder), "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_kills_and_power_cuts_lose_nothing_and_leave_nothing_behind(home: Path) -> None:
    program = started(home, "--kills", "3", "--powercuts", "20", "--json")
    out, errors = program.communicate(timeout=DEADLINE_S)
    found = json.loads(out)
    assert (program.returncode, found["ok"], found["complete"], found["findings"]) == (0, True, True, []), errors
    assert found["kills"]["kills"] == 3
    assert found["kills"]["answered"] == found["kills"]["acknowledged"] > 0
    assert found["power_cuts"]["cuts"] == 20 and found["power_cuts"]["promises"] > 20
    assert "It takes about" in errors and "at most" in errors and "kills: 3 of 3" in errors
    assert list(home.iterdir()) == [], "neither a folder of the test nor a home"


PLANTED = (
    (WEAKER_STORE, ("--kills", "0", "--powercuts", "50"), ("lost: was acknowledged", "power cut after")),
    (FORGETFUL_DAEMON, ("--kills", "1", "--powercuts", "0"), ("lost: was acknowledged", "it is not in the inbox")),
)


@pytest.mark.parametrize(("planted", "arguments", "said"), sliced(PLANTED, 2))
def test_a_planted_fault_is_reported_in_plain_words_and_kept(
    home: Path, planted: str, arguments: tuple[str, ...], said: tuple[str, ...]
) -> None:
    program = started(home, *arguments, "--seed", "7", planted=planted)
    out, errors = program.communicate(timeout=DEADLINE_S)
    assert program.returncode == 1, errors
    assert "daycare broke what it promises on this machine" in out
    assert [words for words in said if words not in out] == []
    [kept] = home.iterdir()
    assert f"The folder was kept: {kept}" in out
    assert (kept / "h" / "daycare.db").exists()


def test_ctrl_c_ends_it_with_130_and_leaves_no_process_and_no_folder(home: Path) -> None:
    program = started(home, "--kills", "50", "--powercuts", "0")
    assert program.stderr is not None
    for line in program.stderr:
        if line.startswith("It takes"):
            break
    assert list(home.iterdir()), "it works in a folder of its own"
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=DEADLINE_S)
    assert program.returncode == 130
    assert list(home.iterdir()) == []
    assert list(daemons_of(home)) == []


def test_a_folder_that_does_not_exist_is_refused_with_what_to_do(home: Path) -> None:
    program = started(home, "--dir", str(home / "nowhere"))
    out, errors = program.communicate(timeout=DEADLINE_S)
    assert (program.returncode, out) == (3, "")
    assert "nowhere: there is no such folder\nhint: daycare selftest --dir DIR" in errors


def daemons_of(folder: Path) -> Iterator[int]:
    """Yield the processes whose command line names the folder."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and os.fsencode(f"{folder}/daycare-selftest") in (entry / "cmdline").read_bytes():
                yield int(entry.name)
        except OSError:
            continue  # it ended


# -- the judge -----------------------------------------------------------------------------------------------------


SAID = [SaidMessage("/me/direct", number, f"{number}+1", seq=number) for number in (1, 2, 3)]
DAMAGES = [
    ("", None),
    ("DELETE FROM inbox WHERE seq = 2", "lost"),
    ("DELETE FROM outbox WHERE seq = 2", "lost"),
    ("INSERT INTO dead_letters VALUES (2, 'TURN_FAILED')", "lost"),
    ("DELETE FROM outbox WHERE seq = 2; INSERT INTO dead_letters VALUES (2, 'TURN_POISON')", None),
    ("INSERT INTO inbox SELECT path, key, 9, state FROM inbox WHERE seq = 2", "doubled"),
    ("INSERT INTO outbox SELECT * FROM outbox WHERE seq = 2", "doubled"),
    ("INSERT INTO history SELECT * FROM history", "doubled"),
    ("UPDATE inbox SET seq = 9 WHERE seq = 2", "reordered"),
    ("UPDATE outbox SET seq = 9 WHERE seq = 2", "reordered"),
    ("UPDATE outbox SET text = '2+1 = 4' WHERE seq = 2", "broken"),
]


@pytest.mark.parametrize(("damage", "kind"), DAMAGES)
def test_each_kind_of_damage_is_found_and_what_is_documented_is_excused(
    tmp_path: Path, damage: str, kind: str | None
) -> None:
    home = ThrowawayHome(tmp_path, CONFIG)
    db = apsw.Connection(str(home.database))
    db.execute(
        "CREATE TABLE inbox (path, key, seq, state); CREATE TABLE outbox (path, seq, text);"
        "CREATE TABLE dead_letters (seq, code); CREATE TABLE agents (id, path);"
        "CREATE TABLE history (agent_id, state, messages); CREATE TABLE turns (interrupted);"
        "INSERT INTO agents VALUES ('a', '/me/direct')"
    ).fetchall()
    for said in SAID:
        db.execute("INSERT INTO inbox VALUES (?, ?, ?, 1)", (said.path, said.key, said.seq))
        db.execute("INSERT INTO outbox VALUES (?, ?, ?)", (said.path, said.seq, f"{said.sum} = {said.number + 1}"))
        heard = [{"role": "user", "parts": [{"type": "text", "text": said.text}]}]
        db.execute("INSERT INTO history VALUES ('a', 'done', ?)", (json.dumps(heard),))
    db.execute(damage).fetchall()
    db.close()
    figures = KillFigures()
    assert {found for found, _ in judged(home, SAID, figures)} == ({kind} if kind else set())
    assert figures.set_aside == ("TURN_POISON" in damage)
