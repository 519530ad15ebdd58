"""What is changed for good is told exactly once, no matter by which door the change came in."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from daycare.base.documents import digest
from daycare.base.errors import ConflictError
from daycare.base.messages import Origin
from daycare.features.approvals.service import Approver
from daycare.store.records import AgentConfig, PairingRequest, User
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import call, say
from tests import program
from tests.approvals.story import asking, service_of
from tests.network.conftest import Network

SCRIBE = "/ann/agent/scribe"
MEMORY = {"agent": "/ann/direct", "path": "MEMORY.md"}
Act = Callable[["Doors"], Any]


class Doors(NamedTuple):
    """A network, and how to go through its doors."""

    network: Network
    marks: list[str]

    def rest(self, method: str, route: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """Call a route as the operator, over the network."""
        answer = self.network.call("operator", method, route, body, **query)
        assert answer.status_code < 300, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def cli(self, *arguments: str, stdin: str = "") -> None:
        """Run a command."""
        editor = self.network.home.parent / "editor"
        editor.write_text("#!/bin/sh\nprintf -- '- Rex\\n' >> \"$1\"\n")
        editor.chmod(0o700)
        env = {"DAYCARE_HOME": str(self.network.home), "EDITOR": str(editor), "PATH": "/usr/bin:/bin"}
        done = program.call(arguments, env=env, stdin=stdin, deadline_s=60)
        assert done.returncode == 0, done.stderr + done.stdout

    def said(self, who: str = "operator") -> list[dict[str, Any]]:
        """Return the events so far, as somebody's stream has them."""
        self.marks.append(f"/{'bob' if who == 'bob' else 'ann'}/agent/mark-{len(self.marks)}")
        self.network.locally("POST", "/v1/agents", {"path": self.marks[-1]})
        found = self.network.stream(who, until=self.marks[-1])
        return [each for each in found if each.get("path") not in self.marks]


def scribe(it: Doors) -> Any:
    it.rest("POST", "/v1/agents", {"path": SCRIBE})


def written(it: Doors) -> Any:
    it.rest("PUT", "/v1/memory/document", WRITE, **MEMORY)


def taken(it: Doors) -> None:
    [file] = [each for each in (it.network.home / "memory").rglob("MEMORY.md") if "Rex" in each.read_text()]
    file.write_text("- Max\n")
    it.cli("memory", "import")


WRITE = {"text": "# Memory\n- Rex\n", "base_hash": ""}
# what is changed | the event, and what it says | what there has to be | the doors
CHANGES: list[tuple[str, str, dict[str, Any], Act | None, dict[str, Act]]] = [
    (
        "create an agent",
        "agent.created",
        {"path": SCRIBE, "user": "ann"},
        None,
        {"rest": scribe, "cli": lambda it: it.cli("agents", "create", SCRIBE)},
    ),
    (
        "edit an agent",
        "agent.changed",
        {"path": SCRIBE, "fields": ["description"]},
        scribe,
        {
            "rest": lambda it: it.rest("PATCH", "/v1/agent", {"description": "writes"}, path=SCRIBE),
            "cli": lambda it: it.cli("agents", "set", SCRIBE, "description=writes"),
        },
    ),
    (
        "end an agent",
        "agent.died",
        {"path": SCRIBE, "reason": "ended by the operator"},
        scribe,
        {
            "rest": lambda it: it.rest("DELETE", "/v1/agent", path=SCRIBE),
            "cli": lambda it: it.cli("agents", "rm", SCRIBE, "--yes"),
        },
    ),
    (
        "restore an agent",
        "agent.restored",
        {"path": SCRIBE},
        lambda it: (scribe(it), it.rest("DELETE", "/v1/agent", path=SCRIBE)),
        {
            "rest": lambda it: it.rest("POST", "/v1/agent/restore", path=SCRIBE),
            "cli": lambda it: it.cli("agents", "restore", SCRIBE),
        },
    ),
    (
        "copy an agent",
        "agent.created",
        {"path": "/ann/agent/copy"},
        scribe,
        {
            "rest": lambda it: it.rest("POST", "/v1/clones", {"path": SCRIBE, "to": "/ann/agent/copy"}),
            "cli": lambda it: it.cli("clone", SCRIBE, "/ann/agent/copy"),
        },
    ),
    (
        "add a user",
        "user.added",
        {"user": "eve", "kind": "person"},
        None,
        {
            "rest": lambda it: it.rest("POST", "/v1/users", {"id": "eve"}),
            "cli": lambda it: it.cli("users", "add", "eve"),
        },
    ),
    (
        "change a user",
        "user.changed",
        {"user": "bob", "fields": ["name"]},
        None,
        {"rest": lambda it: it.rest("PATCH", "/v1/users/bob", {"name": "Robert"})},
    ),
    (
        "link an address",
        "user.changed",
        {"user": "bob", "fields": ["keys"]},
        None,
        {
            "rest": lambda it: it.rest("POST", "/v1/users/bob/links", {"key": "telegram:7"}),
            "cli": lambda it: it.cli("users", "link", "bob", "telegram:7"),
        },
    ),
    (
        "unlink an address",
        "user.changed",
        {"user": "bob", "fields": ["keys"]},
        lambda it: it.rest("POST", "/v1/users/bob/links", {"key": "telegram:7"}),
        {
            "rest": lambda it: it.rest("DELETE", "/v1/links/telegram:7"),
            "cli": lambda it: it.cli("users", "unlink", "telegram:7"),
        },
    ),
    (
        "remove a user",
        "user.removed",
        {"user": "bob"},
        None,
        {
            "rest": lambda it: it.rest("DELETE", "/v1/users/bob"),
            "cli": lambda it: it.cli("users", "remove", "bob"),
        },
    ),
    (
        "store a key",
        "key.stored",
        {"name": "weather"},
        None,
        {
            "rest": lambda it: it.rest("PUT", "/v1/keys/weather", {"value": "sk-very-secret-1234"}),
            "cli": lambda it: it.cli("keys", "add", "weather", "--stdin", stdin="sk-very-secret-1234\n"),
        },
    ),
    (
        "remove a key",
        "key.removed",
        {"name": "weather"},
        lambda it: it.rest("PUT", "/v1/keys/weather", {"value": "sk-very-secret-1234"}),
        {
            "rest": lambda it: it.rest("DELETE", "/v1/keys/weather"),
            "cli": lambda it: it.cli("keys", "remove", "weather"),
        },
    ),
    (
        "change the vault's key",
        "key.resealed",
        {"keys": 1},
        lambda it: it.rest("PUT", "/v1/keys/weather", {"value": "sk-very-secret-1234"}),
        {"rest": lambda it: it.rest("POST", "/v1/keys/rotate"), "cli": lambda it: it.cli("keys", "rotate")},
    ),
    (
        "make a token",
        "token.made",
        {"name": "phone", "user": "bob", "may": "person"},
        None,
        {
            "rest": lambda it: it.rest("POST", "/v1/tokens", {"name": "phone", "user": "bob"}),
            "cli": lambda it: it.cli("tokens", "add", "phone", "--user", "bob"),
        },
    ),
    (
        "revoke a token",
        "token.revoked",
        {"name": "bob", "user": "bob"},
        None,
        {
            "rest": lambda it: it.rest("DELETE", "/v1/tokens", name="bob"),
            "cli": lambda it: it.cli("tokens", "revoke", "bob"),
        },
    ),
    (
        "write a document",
        "document.changed",
        {"path": "/ann/direct", "document": "MEMORY.md", "layer": "agent", "version": 1},
        None,
        {
            "rest": written,
        },
    ),
    (
        "change a document",
        "document.changed",
        {"path": "/ann/direct", "document": "MEMORY.md", "layer": "agent", "version": 2, "author": "direct:ann"},
        lambda it: (written(it), it.cli("memory", "export")),
        {
            "rest": lambda it: it.rest(
                "PUT", "/v1/memory/document", {"text": "- Max\n", "base_hash": digest(WRITE["text"])}, **MEMORY
            ),
            "cli": lambda it: it.cli("memory", "edit", "MEMORY.md"),
            "import": taken,
        },
    ),
    (
        "delete a document",
        "document.changed",
        {"path": "/ann/direct", "document": "MEMORY.md", "version": 2, "deleted": True},
        written,
        {
            "rest": lambda it: it.rest("DELETE", "/v1/memory/document", **MEMORY, base_hash=digest(WRITE["text"])),
            "cli": lambda it: it.cli("memory", "rm", "MEMORY.md"),
        },
    ),
    (
        "take a change of a document back",
        "document.changed",
        {"path": "/ann/direct", "document": "MEMORY.md", "version": 2, "deleted": True},
        written,
        {
            "rest": lambda it: it.rest("POST", "/v1/memory/undo", {}, **MEMORY),
            "cli": lambda it: it.cli("memory", "undo", "MEMORY.md"),
        },
    ),
]


@pytest.mark.parametrize(
    ("event", "says", "first", "act"),
    [
        pytest.param(event, says, first, act, id=f"{what} by {door}")
        for what, event, says, first, doors in CHANGES
        for door, act in doors.items()
    ],
)
def test_a_change_is_told_exactly_once(
    network: Network, event: str, says: dict[str, Any], first: Act | None, act: Act
) -> None:
    doors = Doors(network, [])
    if first is not None:
        first(doors)
    before = len([each for each in doors.said() if each["event"] == event])
    act(doors)
    all_ = doors.said()
    [told] = [each for each in all_ if each["event"] == event][before:]
    assert told | says == told
    assert "very-secret" not in json.dumps(all_)
    assert not any(token and token in json.dumps(all_) for token in network.tokens.values())


async def test_what_agents_change_is_told_exactly_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        direct = await house.agent("/ann/direct")
        made = {"name": "scribe", "prompt": "You write minutes."}
        for tool, arguments, event, told in (
            ("agent_create", made, "agent.created", {"path": SCRIBE, "by": "/ann/direct"}),
            ("agent_edit", made | {"prompt": "Be short."}, "agent.changed", {"path": SCRIBE, "fields": ("prompt",)}),
            ("spawn", {"task": "count"}, "agent.created", {"path": "/ann/direct/sub/0", "by": "/ann/direct"}),
            ("memory_append_daily", {"text": "fed her"}, "document.changed", {"path": "/ann/direct", "version": 1}),
        ):
            before = len(house.events(event))
            house.model.enqueue(call((tool, arguments)), say("done"))
            await house.talk(tool)
            [found] = house.events(event)[before:]
            assert found | told == found, tool
        before = len(house.events("agent.died"))
        await house.talk("/agents rm scribe yes")
        [died] = house.events("agent.died")[before:]
        assert died["path"] == SCRIBE and died["user"] == "ann"
        assert direct.id == house.events("document.changed")[-1]["agent_id"]


async def test_what_an_approval_writes_is_told_exactly_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await house.agent("/ann/direct")
        it = await service_of(house).request(agent, asking(agent, "- Rex\n"))
        assert house.events("document.changed") == []
        await service_of(house).decide(it.no, "approve", Approver("ann", "direct:ann"), it.content_hash)
        [told] = house.events("document.changed")
        assert told["document"] == "MEMORY.md" and "Rex" not in str(told)


async def test_one_who_is_let_in_is_told_of_as_added_and_as_paired(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        stranger = PairingRequest(key="telegram:7", connector="telegram", name="Eve", kind="person", code_hash="x")
        await house.store.intake.take("telegram", [stranger], "")
        await house.store.strangers.admit("telegram:7", User(id="eve", name="Eve"))
        assert [it["user"] for it in house.events("user.added")] == ["eve"]
        assert [(it["user"], it["key"]) for it in house.events("user.paired")] == [("eve", "telegram:7")]
        assert house.events("user.changed") == []


async def test_a_repeat_that_changes_nothing_tells_nothing(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await house.agent(SCRIBE, AgentConfig(description="writes"))
        before = len(house.events())
        await house.agent(SCRIBE)
        await house.store.agents.configure(agent.id, agent.config)
        await house.store.people.change("ann", name="Ann", zone="UTC")
        await house.store.people.link("direct:ann", "ann", Origin.PERSON)
        assert await house.store.secrets.remove("nothing") is False
        assert house.events()[before:] == []


async def test_of_a_change_that_was_undone_nothing_is_told(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        with pytest.raises(ConflictError):
            await house.store.people.add(User(id="eve", name="Eve", keys=("direct:ann",)))  # after the row was written
        assert await house.store.people.get("eve") is None
        assert house.events("user.added") == []


# The statements that change what there are events of: each stands in a function that publishes them. One more of them
# is a door of its own: it has to publish, too, and then to be counted here.
STATEMENTS = {
    "INTO agents ": {"store/sqlite/agents.py": 1, "features/exports/importing.py": 1},
    "UPDATE agents SET (state|config)": {"store/sqlite/agents.py": 2, "store/sqlite/lives.py": 1},
    r"INTO documents |insert_into\(\"documents\"": {"features/memory/documents/stored.py": 1},
    "INTO users ": {"store/sqlite/people.py": 1},
    "UPDATE users SET": {"store/sqlite/people.py": 1, "store/sqlite/removal.py": 1},
    "INTO user_connector_keys": {"store/sqlite/people.py": 1},
    "INTO secrets |UPDATE secrets|DELETE FROM secrets": {"store/sqlite/people.py": 4},  # webhooks' too
    "INTO api_tokens|UPDATE api_tokens SET revoked_at": {"features/tokens/rows.py": 2},
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_there_is_one_place_for_each_change(statement: str) -> None:
    root = Path(__file__).parents[2] / "daycare"
    counts = {
        str(file.relative_to(root)): len(re.findall(statement, file.read_text()))
        for file in sorted(root.rglob("*.py"))
        if "testing" not in file.parts
    }
    assert {file: count for file, count in counts.items() if count} == STATEMENTS[statement]


def test_a_person_sees_their_own_documents_and_no_users_keys_or_tokens(network: Network) -> None:
    doors = Doors(network, [])
    network.locally("POST", "/v1/agents", {"path": "/bob/agent/cook"})
    written(doors)
    network.add("phone", user="bob")
    doors.rest("PATCH", "/v1/users/bob", {"name": "Robert"})
    doors.rest("PUT", "/v1/keys/weather", {"value": "sk-very-secret-1234"})
    seen = {who: {(each["event"], each.get("path", "")) for each in doors.said(who)} for who in ("operator", "bob")}
    mine = {("agent.created", "/bob/agent/cook"), ("document.changed", "/bob/agent/cook")}  # with its first ones
    others = {("document.changed", "/ann/direct"), ("token.made", ""), ("user.changed", ""), ("key.stored", "")}
    assert seen["operator"] >= mine | others
    assert seen["bob"] == mine
