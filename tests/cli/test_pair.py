"""`daycare pair` against the real daemon: one that lives as long as the command, over a store with strangers in it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.pairing import code_hash
from daycare.features import open_store
from daycare.store.records import PairingRequest, User
from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import FakeDaemon
from tests.terminal import CTRL_C, CTRL_D, Terminal, Terminals

CODE = "7K1M-20DA"


@pytest.fixture(scope="module")
def prepared(home_of_ann: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose operator is Ann, in Berlin, with a Ben as well; a stranger of his name has knocked."""
    home = tmp_path_factory.mktemp("pair")
    shutil.copytree(home_of_ann, home, dirs_exist_ok=True)
    knock(home)
    return home


@pytest.fixture
def house(prepared: Path, home: Path) -> Path:
    shutil.copytree(prepared, home, dirs_exist_ok=True)
    return home


def knock(home: Path, key: str = "telegram:42", name: str = "Ben", code: str = CODE, kind: Any = "person") -> None:
    async def run() -> None:
        async with open_store(str(home / "daycare.db")) as store:
            if await store.people.get("ben") is None:
                await store.people.add(User(id="ben", name="Ben the first"))
            row = PairingRequest(key=key, connector="telegram", kind=kind, name=name, code_hash=code_hash(code))
            (taken,) = await store.intake.take("telegram", [row])
            assert taken.show_code

    trio.run(run)


def people(daycare: Daycare) -> dict[str, Any]:
    return {user["id"]: user for user in json.loads(daycare("users", "--json").stdout)["users"]}


def test_list_shows_who_knocked_and_whether_a_code_is_out(house: Path, daycare: Daycare) -> None:
    knock(house, "telegram:43", "Eve", "0000-0000")
    assert daycare("pair", "deny", "telegram:43").stdout == "Eve, telegram:43 is shown no more codes\n"
    for arguments in (("pair",), ("pair", "list")):
        done = daycare(*arguments)
        head, eve, ben = done.stdout.splitlines()
        assert head.split() == ["account", "name", "is", "a", "messages", "since", "last", "code"]
        assert eve.split()[:4] == ["telegram:43", "Eve", "person", "1"] and eve.endswith("denied")
        assert ben.split()[:4] == ["telegram:42", "Ben", "person", "1"] and "valid for 9 min" in ben
    listed = json.loads(daycare("pair", "list", "--json").stdout)["pairings"]
    assert [each["key"] for each in listed] == ["telegram:43", "telegram:42"]
    assert CODE not in done.stdout and code_hash(CODE) not in str(listed)


def test_nobody_knocked_is_said(daycare: Daycare) -> None:
    daycare("init", "--yes")
    assert daycare("pair").stdout == "no stranger wrote\n"


def test_approve_without_a_terminal_makes_a_new_user(house: Path, daycare: Daycare) -> None:
    done = daycare("pair", "approve", "7k1m20da")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "telegram:42 is ben-2 (new), and talks to /ben-2/telegram; they are told\n"
    made = people(daycare)["ben-2"]
    assert (made["name"], made["zone"], made["keys"]) == ("Ben", "Europe/Berlin", ["telegram:42"])


def test_approve_as_somebody_adds_an_account(house: Path, daycare: Daycare) -> None:
    done = daycare("pair", "approve", CODE, "--as", "ann", "--json")
    answer = json.loads(done.stdout)
    assert (answer["user"]["id"], answer["created"], answer["path"]) == ("ann", False, "/ann/telegram")
    assert "telegram:42" in people(daycare)["ann"]["keys"]


def test_approve_as_somebody_new_names_them(house: Path, daycare: Daycare) -> None:
    daycare("pair", "approve", CODE, "--as", "benny", "--name", "Benny B.")
    assert people(daycare)["benny"]["name"] == "Benny B."


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("approve", "AAAA-AAAA"), 4, "no such code is valid now"),
        (("approve", "AAAA"), 2, "it has eight letters and digits"),
        (("approve", CODE, "--as", "not an id"), 2, "user id"),
        (("deny", "telegram:99"), 3, "nobody wrote from that address"),
        (("deny", "AAAA-AAAA"), 4, "no such code is valid now"),
        (("approve",), 2, "CODE"),
    ],
)
def test_refusals_have_their_exit_codes(
    house: Path, daycare: Daycare, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = daycare("pair", *arguments)
    assert done.returncode == code
    assert done.stderr.startswith("error: ") and said in done.stderr and "hint: " in done.stderr
    assert len(people(daycare)) == 2


def test_a_group_cannot_become_a_person(house: Path, daycare: Daycare) -> None:
    knock(house, "telegram:-100", "The Family", "0000-0000", "group")
    assert daycare("pair", "approve", "0000-0000", "--as", "ann").returncode == 5
    assert "telegram:-100 is the-family (new)" in daycare("pair", "approve", "oooo-oooo").stdout


# -- in a terminal -----------------------------------------------------------------------------------------------------


@pytest.fixture
def person(house: Path, terminals: Terminals) -> Terminal:
    terminal = terminals("pair", "approve", CODE)
    terminal.sees("Ben, telegram:42, a person, 1 message since ")
    terminal.sees("Who is it?", "1  you, ann (Ann)", "2  ben (Ben the first)", "n  somebody new", "[n] ")
    return terminal


def test_a_number_chooses_somebody_who_is_there(person: Terminal, daycare: Daycare) -> None:
    person.types("7\r")
    person.sees("Type one of the numbers, or n.", "[n] ")
    person.types("2\r")
    person.sees("telegram:42 is ben, and talks to /ben/telegram")
    person.leaves()


def test_enter_twice_takes_the_suggestion(person: Terminal, daycare: Daycare) -> None:
    person.types("\r")
    person.sees("Id of the new user [ben-2]: ")
    person.types("\r")
    person.sees("telegram:42 is ben-2 (new)")
    person.leaves()


def test_somebody_new_may_get_another_id(person: Terminal, daycare: Daycare) -> None:
    person.types("n\r")
    person.sees("[ben-2]: ")
    person.types("benny\r")
    person.sees("telegram:42 is benny (new)")
    person.leaves()


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_leaving_lets_nobody_in(person: Terminal, daycare: Daycare, key: str) -> None:
    person.types(key)
    person.leaves(130)
    assert "telegram:42" not in str(people(daycare))


def test_for_a_group_only_groups_are_offered(house: Path, terminals: Terminals) -> None:
    knock(house, "telegram:-100", "The Family", "0000-0000", "group")
    terminal = terminals("pair", "approve", "0000-0000")
    terminal.sees("The Family, telegram:-100, a group", "Which group is it?")
    terminal.child.expect(r"n  a new one.*\[n\] ")
    assert "ann" not in terminal.child.before
    terminal.types("\r")
    terminal.sees("[the-family]: ")
    terminal.types("\r")
    terminal.sees("telegram:-100 is the-family (new)")
    terminal.leaves()


# -- daycare status ----------------------------------------------------------------------------------------------------


def test_status_shows_each_connection_and_who_waits(fake: FakeDaemon, daycare: Daycare) -> None:
    assert "direct: up" in daycare("status").stdout and "strangers" not in daycare("status").stdout
    fake.status["strangers"] = 1
    fake.status["connectors"] = {
        "direct": {"state": "up"},
        "telegram": {"state": "up", "identity": "@ann_bot", "since": 1},
        "work": {"state": "conflict", "reason": "another program polls", "hint": "stop it", "since": 1_700_000_000_000},
    }
    lines = [line.strip() for line in daycare("status").stdout.splitlines()]
    assert "connectors    direct: up" in lines
    assert "telegram: up as @ann_bot" in lines
    assert any(
        line.startswith("work: conflict for ") and line.endswith("another program polls (stop it)") for line in lines
    )
    assert "strangers     1 stranger waits: daycare pair list" in lines
    fake.status["strangers"] = 2
    assert "2 strangers wait: daycare pair list" in daycare("status").stdout


def test_status_counts_strangers_whose_code_is_valid(house: Path, daycare: Daycare) -> None:
    assert json.loads(daycare("status", "--json").stdout)["strangers"] == 1
    daycare("pair", "deny", CODE)
    assert json.loads(daycare("status", "--json").stdout)["strangers"] == 0
