"""Two people in one house: whatever an agent of one tries on agents of the other is refused, told and recorded.

Tools are called by a model in a running house, so each attempt goes the way that a real one goes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from daycare.api.app import build
from daycare.base.causes import AgentQuestion
from daycare.base.errors import ForbiddenError
from daycare.base.messages import Envelope, Origin, ToolResult
from daycare.base.path import Kind
from daycare.base.path import Path as Address
from daycare.base.permission import ACTIONS, Decision, OwnRule, Permissions, Rule
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.store.records import Agent, AgentConfig, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say

PEOPLE = ("ann", "ben")
ROOTS = ("direct", "agent/x", "cron/morning", "task/move", "app/notes", "subuser/{}-kid")
BELOW = ("sub/0", "sub/0/sub/0", "search/0", "memory")
CROSSING = "nothing goes from one user to another"


def addresses(user: str) -> list[str]:
    """Return an address of every kind."""
    roots = [f"/{user}/{root.format(user)}" for root in ROOTS]
    return [*roots, *(f"/{user}/agent/x/{below}" for below in BELOW), "/system/gc"]


@dataclass
class Household:
    house: TestDaemon
    model: Scripted

    async def attempt(self, path: str, tool: str, arguments: dict[str, Any], user: str = "ann") -> ToolResult:
        """Let the agent at a path call a tool; return what it is told."""
        self.model.enqueue(call((tool, arguments)), say("done"))
        await self.house.talk("go", path=path, user=user)
        agent = await self.house.daemon.directory.at(path)
        history = await self.house.store.turns.history(agent.id, agent.session, 100)
        parts = [part for message in history for part in message.parts if isinstance(part, ToolResult)]
        return parts[-1]

    async def at(self, path: str) -> Agent:
        return await self.house.daemon.directory.at(path)


@asynccontextmanager
async def household(tmp: Path, *rules: Rule, work: bool = True) -> AsyncIterator[Household]:
    model = Scripted()
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        rules=rules,
    )
    async with open_daemon(tmp, model, config=config, work=work) as house:
        store, directory = house.store, house.daemon.directory
        await store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        for user in PEOPLE:
            await store.people.add(User(id=f"{user}-kid", name="Kid", parent=user, keys=(f"direct:{user}-kid",)))
            for root in ROOTS:
                await house.agent(f"/{user}/{root.format(user)}")
            x = await directory.at(f"/{user}/agent/x")
            child = await directory.spawn(x, Kind.SUB, origin=Origin.AGENT)
            await directory.spawn(child, Kind.SUB, origin=Origin.AGENT)
            await directory.spawn(x, Kind.SEARCH, origin=Origin.AGENT)
            await directory.spawn(x, Kind.MEMORY, origin=Origin.SYSTEM)
        await directory.create(Address.system("gc"), origin=Origin.SYSTEM)
        yield Household(house, model)


def test_every_kind_of_address_is_tried() -> None:
    assert {Address.parse(path, ["direct"]).kind for path in addresses("ben")} == set(Kind)


ATTEMPTS: list[tuple[str, str, str]] = [
    ("message", "send_message", "to"),
    ("message", "ask", "to"),
    ("read_history", "read_history", "agent"),
    ("kill", "end_agent", "agent"),
]


@pytest.mark.parametrize(("action", "tool", "field"), ATTEMPTS, ids=lambda value: str(value))
async def test_no_tool_reaches_another_user(
    tmp_path: Path, autojump_clock: object, action: str, tool: str, field: str
) -> None:
    more = {"text": "psst"} if action == "message" else {}
    async with household(tmp_path) as home:
        before = await home.house.store.agents.count()
        targets = addresses("ben")
        for target in targets:
            result = await home.attempt("/ann/agent/x", tool, {field: target, **more})
            assert result.status == "error" and CROSSING in result.text, f"{tool} {target}: {result.text}"
            if target != "/system/gc":
                agent = await home.at(target)
                assert await home.house.store.inbox.waiting(agent.id) == []
        assert await home.house.store.agents.count() == before
        refused = home.house.events("permission.refused")
        assert [event["object"] for event in refused] == targets
        assert {event["action"] for event in refused} == {action}
        await trio.sleep(1)
        kept = await home.house.store.ledger.events(limit=1000)
        assert sum('"permission.refused"' in text for text in map(str, kept)) == len(targets)


async def test_no_tool_schedules_anything_for_another_users_agent(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        none = (await home.attempt("/ann/agent/x", "cron_list", {})).text
        for number, target in enumerate(addresses("ben")):
            job = {"name": f"job{number}", "prompt": "psst", "cron": "0 9 * * *", "target": target}
            result = await home.attempt("/ann/agent/x", "cron_add", job)
            assert result.status == "error" and CROSSING in result.text, f"cron_add {target}: {result.text}"
        refused = home.house.events("permission.refused")
        assert [(event["action"], event["object"]) for event in refused] == [
            ("schedule", target) for target in addresses("ben")
        ]
        for user in PEOPLE:
            assert (await home.attempt(f"/{user}/agent/x", "cron_list", {}, user=user)).text == none
        mine = {"name": "mine", "prompt": "water the plants", "cron": "0 9 * * *", "target": "/ann/agent/x"}
        assert (await home.attempt("/ann/agent/x", "cron_add", mine)).status == "ok"
        before = (await home.attempt("/ann/agent/x", "cron_list", {})).text
        assert "mine" in before
        for tool in ("cron_pause", "cron_remove"):
            for name in ("mine", "/ann/cron/mine", "../ann/cron/mine"):
                await home.attempt("/ben/agent/x", tool, {"name": name}, user="ben")
        assert (await home.attempt("/ann/agent/x", "cron_list", {})).text == before, "names are the user's own"


async def test_a_rule_keeps_an_agent_from_scheduling(tmp_path: Path, autojump_clock: object) -> None:
    no = Rule(action="schedule", decision=Decision.DENY, subject="/ann/agent/x")
    async with household(tmp_path, no) as home:
        job = {"name": "mine", "prompt": "water the plants", "cron": "0 9 * * *"}
        refused = await home.attempt("/ann/agent/x", "cron_add", job)
        assert refused.status == "error" and "rule 1 of config.toml" in refused.text
        assert (await home.attempt("/ann/direct", "cron_add", job)).status == "ok"


async def test_every_action_of_every_kind_of_address_is_refused_across_users(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with household(tmp_path) as home:
        permissions = home.house.daemon.permissions
        for subject in addresses("ann"):
            for target in addresses("ben"):
                for action in ACTIONS:
                    if subject != target:
                        with pytest.raises(ForbiddenError, match="one user to another"):
                            await permissions.check(subject, action, target)


async def test_no_helper_is_made_below_another_users_agent(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        before = await home.house.store.agents.count()
        for target in addresses("ben"):
            task = Envelope(
                to="", user="ben", origin=Origin.AGENT, sender="/ann/agent/x", key="k", text="x", trace="t",
                cause=AgentQuestion("w", "id", 1),
            )  # fmt: skip
            with pytest.raises(ForbiddenError, match="one user to another"):
                await home.house.daemon.helpers.help(await home.at(target), AgentConfig(), f"born:{target}", task)
        assert await home.house.store.agents.count() == before


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_read", {"path": "{}/MEMORY.md"}),
        ("memory_read", {"path": "/{}"}),
        ("memory_list", {"prefix": "{}"}),
        ("memory_search", {"query": "secret"}),
        ("memory_write", {"path": "{}/MEMORY.md", "text": "owned", "reason": "x"}),
        ("memory_append", {"path": "{}/MEMORY.md", "text": "owned", "reason": "x"}),
        ("memory_delete", {"path": "{}/MEMORY.md", "reason": "x"}),
    ],
)
async def test_no_tool_of_memory_reads_or_writes_what_another_user_keeps(
    tmp_path: Path, autojump_clock: object, tool: str, arguments: dict[str, str]
) -> None:
    async with household(tmp_path) as home:
        result = await home.attempt("/ben/agent/x", "memory_append_daily", {"text": "the secret is plugh"}, user="ben")
        assert result.status == "ok"
        await home.house.talk("my secret is plugh", path="/ben/agent/x", user="ben")
        await trio.sleep(60)
        for target in addresses("ben"):
            asked = {name: value.format(target) for name, value in arguments.items()}
            result = await home.attempt("/ann/agent/x", tool, asked)
            assert "plugh" not in result.text
            assert result.status == "error" or tool == "memory_search"
        assert await home.house.store.of(ApprovalRows).find(decider="ben", states=(), limit=10) == []


async def test_a_person_reaches_nobody_elses_agents_over_the_api(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        transport = httpx.ASGITransport(app=build(home.house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            for user, other in (PEOPLE, PEOPLE[::-1]):
                for target in addresses(other):
                    if target.startswith("/system/") and user == PEOPLE[0]:
                        continue  # who runs the installation may talk with its own agents
                    answer = await client.post("/v1/messages", json={"text": "psst", "user": user, "path": target})
                    code = "OPERATORS_ONLY" if target.startswith("/system/") else "OTHER_USER"
                    assert (answer.status_code, answer.json().get("error", {}).get("code")) == (403, code), target
        assert (await home.house.store.inbox.counts())["waiting"] == 0


async def test_can_tells_what_would_be_decided_and_why(tmp_path: Path, autojump_clock: object) -> None:
    no = Rule(action="message", decision=Decision.DENY, subject="/ann/agent/x", object="/ann/direct")
    async with household(tmp_path, no) as home:
        transport = httpx.ASGITransport(app=build(home.house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            query = {"subject": "/ann/agent/x/sub/0", "action": "message", "object": "/ann/direct"}
            verdict = (await client.get("/v1/can", params=query)).json()
            assert (verdict["decision"], verdict["limited_by"]) == ("deny", "/ann/agent/x")
            assert [step["decision"] for step in verdict["steps"]] == ["allow", "deny"]
            verdict = (await client.get("/v1/can", params={**query, "object": "/ann/task/move"})).json()
            assert verdict["decision"] == "allow"
            answer = await client.get("/v1/can", params={**query, "action": "fly"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "ACTION_UNKNOWN")
        assert home.house.events("permission.refused") == [], "asking is no attempt"


async def test_a_refusal_names_the_rule_to_the_model(tmp_path: Path, autojump_clock: object) -> None:
    rules = [
        Rule(action="message", decision=Decision.DENY, subject="/ann/agent/x/**", object="/ann/task/move"),
        Rule(action="message", decision=Decision.DENY, subject="/ann/agent/x/**", object="/ann/app/notes"),
        Rule(action="tool:now", decision=Decision.DENY, subject="/ann/**"),
        Rule(action="spawn", decision=Decision.DENY, subject="/ann/direct"),
        Rule(action="read_memory", decision=Decision.DENY, subject="/ann/agent/x"),
    ]
    attempts: list[tuple[str, dict[str, Any], str]] = [
        ("send_message", {"to": "/ann/task/move", "text": "hi"}, "rule 1 of config.toml"),
        ("ask", {"to": "/ann/app/notes", "text": "hi"}, "rule 2 of config.toml"),
        ("now", {}, "rule 3 of config.toml"),
        ("spawn", {"task": "hi"}, "rule 4 of config.toml"),
        ("memory_search", {"query": "tea"}, "rule 5 of config.toml"),
        ("memory_list", {}, "rule 5 of config.toml"),
        ("memory_read", {"path": "MEMORY.md"}, "rule 5 of config.toml"),
    ]
    async with household(tmp_path, *rules) as home:
        for tool, arguments, named in attempts:
            path = "/ann/direct" if tool == "spawn" else "/ann/agent/x"
            result = await home.attempt(path, tool, arguments)
            assert result.status == "error" and named in result.text, result.text
        assert len(home.house.events("permission.refused")) == len(attempts)
        result = await home.attempt("/ann/agent/x", "send_message", {"to": "/ann/direct", "text": "hi"})
        assert result.status == "ok"


@pytest.mark.parametrize(
    ("action", "tool", "arguments"),
    [
        ("tool:now", "now", {}),
        ("message", "send_message", {"to": "/ann/direct", "text": "hi"}),
        ("message", "ask", {"to": "/ann/direct", "text": "hi"}),
        ("spawn", "spawn", {"task": "hi"}),
        ("read_history", "read_history", {"agent": "/ann/agent/x"}),
        ("read_memory", "memory_read", {"path": "MEMORY.md"}),
        ("schedule", "cron_add", {"name": "tea", "prompt": "make tea", "cron": "0 7 * * *"}),
    ],
)
async def test_a_rule_that_asks_makes_a_request_for_just_that_call(
    action: str, tool: str, arguments: dict[str, Any], tmp_path: Path, autojump_clock: object
) -> None:
    async with household(tmp_path, Rule(action=action, decision=Decision.ASK, subject="/ann/agent/x")) as home:
        asked = await home.attempt("/ann/agent/x", tool, arguments)
        assert asked.text.startswith("proposed, request 1"), asked.text
        assert "rule 1 of config.toml" in asked.text
        assert home.house.events("permission.refused") == [], "it was asked for"
        [it] = await home.house.store.of(ApprovalRows).find()
        assert (it.action.name, it.decider) == (tool, "ann") and "rule 1" in it.reason
        approvals = home.house.daemon.approvals
        await approvals.decide(it.no, "approve", Approver("ann", "direct:ann"), it.seen)
        await trio.sleep(30)
        agent = await home.at("/ann/agent/x")
        said = await home.house.store.turns.history(agent.id, agent.session, 50)
        made = [part for each in said for part in each.parts if isinstance(part, ToolResult) and part.name == tool]
        assert len(made) == 2 and made[1].status == "ok" and not made[1].text.startswith("proposed"), made[1:]


async def test_a_rule_that_asks_for_writing_leads_to_the_desk(tmp_path: Path, autojump_clock: object) -> None:
    ask = Rule(action="write_memory", decision=Decision.ASK, subject="/ann/agent/x")
    async with household(tmp_path, ask) as home:
        asked = await home.attempt("/ann/agent/x", "memory_append_daily", {"text": "tea was bought"})
        assert "proposed, request" in asked.text
        done = await home.attempt("/ann/direct", "memory_append_daily", {"text": "tea was bought"})
        assert done.text.startswith("done"), "elsewhere the log needs no yes"


async def test_an_agents_own_rules_narrow_it_and_its_helpers(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        x = await home.at("/ann/agent/x")
        own = Permissions(rules=(OwnRule(action="message", decision="deny", object="/ann/direct"),))
        await home.house.store.agents.configure(x.id, msgspec.structs.replace(x.config, permissions=own))
        refused = await home.attempt("/ann/agent/x", "send_message", {"to": "/ann/direct", "text": "hi"})
        assert "rule 1 of /ann/agent/x itself" in refused.text
        permissions = home.house.daemon.permissions
        assert (await permissions.may("/ann/agent/x/sub/0/sub/0", "message", "/ann/direct")).decision is Decision.DENY
        assert (await permissions.may("/ann/task/move", "message", "/ann/direct")).decision is Decision.ALLOW


async def test_a_child_keeps_the_bounds_of_a_parent_that_has_died(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path, work=False) as home:  # in which nobody tells the child to go
        permissions, store = home.house.daemon.permissions, home.house.store
        x = await home.at("/ann/agent/x")
        own = Permissions(rules=(OwnRule(action="message", decision="deny"),))
        await store.agents.configure(x.id, msgspec.structs.replace(x.config, permissions=own))
        await store.agents.set_state(x.id, "dead", "for the test")
        await home.house.agent("/ann/agent/x")
        assert (await permissions.may("/ann/agent/x", "message", "/ann/direct")).decision is Decision.ALLOW
        verdict = await permissions.may("/ann/agent/x/sub/0", "message", "/ann/direct")
        child = await home.house.daemon.directory.find("/ann/agent/x/sub/0")
        assert child is not None and child.parent == x.id
        assert (verdict.decision, verdict.limited_by) == (Decision.DENY, "/ann/agent/x")


async def test_where_the_operator_allows_it_one_user_may_write_to_another(
    tmp_path: Path, autojump_clock: object
) -> None:
    yes = Rule(action="message", decision=Decision.ALLOW, subject="/ben/**", object="/ann/agent/x")
    async with household(tmp_path, yes) as home:
        home.model.enqueue(call(("ask", {"to": "/ann/agent/x", "text": "is there milk?"})), say("yes"), say("there is"))
        assert await home.house.talk("milk?", path="/ben/agent/x", user="ben") == "there is"
        x = await home.at("/ann/agent/x")
        [question, _] = await home.house.store.turns.history(x.id, x.session, 10)
        assert question.sender == "/ben/agent/x"
        back = await home.attempt("/ann/agent/x", "send_message", {"to": "/ben/agent/x", "text": "psst"})
        assert back.status == "error" and CROSSING in back.text


async def test_helpers_are_ended_by_their_agent_and_what_lasts_is_not(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        helper = await home.at("/ann/agent/x/sub/0")
        done = await home.attempt("/ann/agent/x", "end_agent", {"agent": helper.path})
        assert done.status == "ok"
        await trio.sleep(5)
        assert (await home.house.daemon.directory.get(helper.id)).state == "dead"
        lasting = await home.attempt("/ann/agent/x", "end_agent", {"agent": "/ann/direct"})
        assert lasting.status == "error" and "only helpers" in lasting.text


async def test_what_was_said_to_a_helper_can_be_read_by_its_agent(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        home.model.enqueue(call(("spawn", {"task": "count to three"})), say("one two three"), say("counted"))
        await home.house.talk("go", path="/ann/agent/x")
        result = await home.attempt("/ann/agent/x", "read_history", {"agent": "/ann/agent/x/sub/1"})
        assert "count to three" in result.text and "assistant: one two three" in result.text


async def test_a_call_that_waits_for_a_helper_hears_that_it_was_ended(tmp_path: Path, autojump_clock: object) -> None:
    async with household(tmp_path) as home:
        home.model.enqueue(call(("spawn", {"task": "think"})), 500.0)
        receipt = await home.house.say("go", path="/ann/direct")
        await trio.sleep(5)
        ended = await home.attempt("/ann/direct", "end_agent", {"agent": "/ann/direct/sub/0", "reason": "too slow"})
        assert ended.status == "ok"
        await home.house.hear(receipt, 60)
        [result] = [part for part in home.model.history[-1].messages[-1].parts if isinstance(part, ToolResult)]
        assert (result.name, result.status) == ("spawn", "error"), "and not only when its time is over"
