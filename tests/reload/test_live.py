"""What is changed in config.toml counts from the next turn, call or look on; what runs is not disturbed."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from daycare.agent.notify import NOTIFY_LOOK_S
from daycare.base.documents import Attribution
from daycare.base.errors import AwayError, ConflictError
from daycare.base.limits import SWEEP_S, TURN_DEADLINE_S
from daycare.base.messages import Origin
from daycare.features.memory.search.queries import MemoryQuery
from daycare.observe import log
from daycare.plugin import InferRequest, Plugin, ProviderConfig, StreamEvent
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from tests.reload.homes import BASE, change, open_home, refused, write

SLOW_S = 20.0
QUIET = "[memory.ingestion]\nbackground = false\n"


class Servers:
    """Providers of the kind `box`, each with its own address; `asked` has (address, model) of each call."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.made: list[str] = []
        self.closed: list[str] = []
        self.script = Scripted()

    def plugin(self) -> Plugin:
        return Plugin(name="boxes", providers={"box": self._make})

    def _make(self, config: ProviderConfig) -> "Server":
        self.made.append(config.base_url)
        return Server(self, config)


class Server:
    needs_key = False

    def __init__(self, servers: Servers, config: ProviderConfig) -> None:
        self.name = config.name
        self._servers = servers
        self._url = config.base_url

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        self._servers.asked.append((self._url, request.model))
        async for event in self._servers.script.infer(request):
            yield event

    async def models(self) -> list[str]:
        return []

    async def aclose(self) -> None:
        self._servers.closed.append(self._url)


def boxes(url: str, model: str = "box/m") -> str:
    return f"""{QUIET}[models]\ndefault = "{model}"\n[providers.box]\nkind = "box"\nbase_url = "{url}"\n"""


# -- models ------------------------------------------------------------------------------------------------------------


async def test_the_next_turn_takes_the_new_model(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        await house.talk("one")
        found = await change(house, tmp_path, base=BASE.replace("scripted/model", "scripted/other"))
        assert found.changed == ("models.default",) and found.pending == found.restarted == ()
        await house.talk("two")
        assert [request.model for request in house.model.history] == ["model", "other"]
        assert (await house.daemon.status())["models"] == {"default": "scripted/other"}


async def test_roles_and_fallbacks_are_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        new = 'user = "scripted/chat"\nfallbacks = ["scripted/spare"]\n'
        await change(house, tmp_path, base=BASE.replace("[providers", new + "[providers"))
        plan = [str(choice) for choice in await house.daemon.pool.plan("user")]
        assert plan == ["scripted/chat", "scripted/spare"]


async def test_a_running_turn_goes_on_with_the_server_it_began_with(tmp_path: Path, autojump_clock: object) -> None:
    servers = Servers()
    async with open_home(tmp_path, base=boxes("http://a"), plugins=[servers.plugin()]) as house:
        servers.script.enqueue(SLOW_S, call(("now", {})), say("done"))
        receipt = await house.say("work")
        await trio.sleep(1)
        found = await change(house, tmp_path, base=boxes("http://b", "box/new"))
        assert found.changed == ("models.default", "providers.box")
        assert await house.hear(receipt) == "done"
        await house.talk("next")
    assert servers.asked == [("http://a", "m"), ("http://a", "m"), ("http://b", "new")]


async def test_a_running_turn_outlives_its_provider(tmp_path: Path, autojump_clock: object) -> None:
    servers = Servers()
    async with open_home(tmp_path, base=boxes("http://a"), plugins=[servers.plugin()]) as house:
        servers.script.enqueue(SLOW_S, call(("now", {})), say("done"))
        receipt = await house.say("work")
        await trio.sleep(1)
        await change(house, tmp_path)
        assert await house.hear(receipt) == "done"
        assert await house.talk("next") == "echo: next"
        assert house.daemon.pool.configured == ["offline", "scripted"]


async def test_servers_that_are_no_longer_used_are_closed_and_others_are_not_made_anew(
    tmp_path: Path, autojump_clock: object
) -> None:
    servers = Servers()
    async with open_home(tmp_path, base=boxes("http://a"), plugins=[servers.plugin()]) as house:
        kept = house.daemon.pool.sources["box"]
        await change(house, tmp_path, '[notify]\nquiet = "22:00-07:00"\n', base=boxes("http://a"))
        await change(house, tmp_path, base=boxes("http://a", "box/n"))
        assert house.daemon.pool.sources["box"] is kept
        await change(house, tmp_path, base=boxes("http://b"))
        assert not servers.closed  # a turn may still ask it
        await trio.sleep(TURN_DEADLINE_S + 1)
        await change(house, tmp_path, base=boxes("http://c"))
        assert servers.closed == ["http://a"]
        await house.daemon.pool.aclose()
        assert servers.closed == ["http://a", "http://b", "http://c"]


async def test_an_outage_of_a_provider_that_is_gone_is_over(tmp_path: Path, autojump_clock: object) -> None:
    servers = Servers()
    async with open_home(tmp_path, base=boxes("http://a"), plugins=[servers.plugin()]) as house:
        servers.script.default = lambda request: (_ for _ in ()).throw(AwayError("AWAY", "nobody is there"))
        await house.say("hello")
        await trio.sleep(300)
        assert house.daemon.pool.away
        await change(house, tmp_path)
        assert not house.daemon.pool.away
        assert house.events("provider.away")[-1]["cleared"] is True


async def test_a_kind_that_nobody_provides_is_refused_with_its_line(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        error = await refused(house, tmp_path, '[providers.x]\nkind = "unheard"\n')
        assert f"{tmp_path}/config.toml:9: providers.x.kind: no plugin provides unheard" in error.message
        assert await house.talk("still here") == "echo: still here"


# -- rights ------------------------------------------------------------------------------------------------------------


def offered(house: TestDaemon) -> set[str]:
    return {tool.name for tool in house.model.history[-1].tools}


async def test_tools_of_a_role_are_taken_away_and_given_back(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        await house.talk("one")
        assert {"now", "remind"} <= offered(house)
        await change(house, tmp_path, '[tools]\nuser = ["now"]\n')
        await house.talk("two")
        assert offered(house) == {"now"}
        await change(house, tmp_path)
        await house.talk("three")
        assert "remind" in offered(house)


async def test_a_rule_counts_from_the_next_call_on(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        house.model.enqueue(SLOW_S, call(("now", {})), say("done"))
        receipt = await house.say("what time is it")
        await trio.sleep(1)
        await change(house, tmp_path, '[[rules]]\naction = "tool:now"\ndecision = "deny"\n')
        assert await house.hear(receipt) == "done"
        [result] = [part for part in house.model.history[-1].messages[-1].parts if hasattr(part, "call_id")]
        assert "not permitted" in str(result)


async def test_approvals_are_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        written = []
        for policy in ("always", "auto"):
            await change(house, tmp_path, f'[approvals]\nmemory_write = "{policy}"\n')
            house.model.enqueue(
                call(("memory_write", {"path": "knowledge/dog.md", "text": "Rex", "reason": "x"})), say("done")
            )
            await house.talk("write that down")
            agent = await house.daemon.directory.at("/ann/direct")
            written.append("knowledge/dog.md" in {it.path for it in await house.daemon.memory.documents.listing(agent)})
            assert ("memory_write: auto" in await house.talk("/approvals")) is written[-1]
        assert written == [False, True]


async def test_a_new_budget_bounds_the_next_call(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        assert await house.talk("one") == "echo: one"
        await change(house, tmp_path, '[budgets]\noperator = ["1 calls a day"]\n')
        with pytest.raises(ConflictError, match="The budget of /ann for today, 1 call, is used up"):
            await house.talk("two")
        await change(house, tmp_path, "[budgets]\noperator = []\n")
        assert await house.talk("three") == "echo: three"


# -- agents ------------------------------------------------------------------------------------------------------------


async def test_name_tone_and_personality_are_in_the_next_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        await house.talk("one")
        before = house.model.history[-1].system
        await change(house, tmp_path, '[agent]\nname = "Nanny"\ntone = "dry"\npersonality = "professional"\n')
        await house.talk("two")
        after = house.model.history[-1].system
        assert "Your name is Nanny." in after and "Your tone is dry." in after and "Nanny" not in before
        assert before != after.replace("Nanny", "daycare").replace("dry", "friendly")
        assert "I am Nanny" in await house.talk("/start")


async def test_policy_room_and_sleep_are_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        more = (
            '[agent]\npolicy = "collect"\n[daemon]\nturns_max_running = 1\nidle_s = 5.0\n[agents]\ndefault = "aide"\n'
        )
        await change(house, tmp_path, more)
        assert house.daemon.supervisor.room.size == 1
        await house.agent("/ann/agent/aide")
        said = [await house.say("one"), await house.say("two")]
        assert [await house.hear(each) for each in said] == ["echo: two"] * 2, "one turn for both"
        assert {event["path"] for event in house.events("message.accepted")} == {"/ann/agent/aide"}
        assert house.daemon.supervisor.awake
        await trio.sleep(5 + 2 * SWEEP_S)
        assert not house.daemon.supervisor.awake


async def test_a_running_turn_goes_on_with_the_policy_it_began_with(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        house.model.enqueue(SLOW_S, say("a long story"))
        first = await house.say("tell me")
        await trio.sleep(1)
        await change(house, tmp_path, '[agent]\npolicy = "interrupt"\n')
        second = await house.say("shorter")
        assert await house.hear(first) == "a long story" and await house.hear(second) == "echo: shorter"
        house.model.enqueue(SLOW_S, say("another one"))
        third = await house.say("tell me more")
        await trio.sleep(1)
        await house.say("stop it")
        assert await house.hear(third) == "", "the next turn goes by the new one"


async def test_fewer_turns_at_once_end_none_that_runs(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        for name in ("a", "b"):
            await house.agent(f"/ann/agent/{name}")
        house.model.enqueue(SLOW_S, say("one"), SLOW_S, say("two"))
        said = [await house.say("go", path=f"/ann/agent/{name}") for name in ("a", "b")]
        await trio.sleep(1)
        await change(house, tmp_path, "[daemon]\nturns_max_running = 1\n")
        assert sorted([await house.hear(each) for each in said]) == ["one", "two"]
        assert await house.talk("more") == "echo: more"


# -- memory ------------------------------------------------------------------------------------------------------------


async def test_memory_goes_by_the_new_settings_with_the_embedder_it_has(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        daemon, query = house.daemon, MemoryQuery(scope="ann", text="the dog Rex", now_ms=0)

        async def recalled(text: str) -> int:
            """Say something in a new conversation; return how often memories were recalled for it."""
            await house.talk("/new")
            before = len(house.events("memory.recalled"))
            await house.talk(text)
            await trio.sleep(60)  # it is written
            return len(house.events("memory.recalled")) - before

        await recalled("My dog is called Rex")
        assert await recalled("What is the dog Rex like?") and await daemon.memory.find(query)
        await change(house, tmp_path, "[memory.retrieval]\nenabled = false\n")
        assert not await recalled("What is the dog Rex like, I ask?") and await daemon.memory.find(query)
        await change(house, tmp_path, "daily_logs = false\n")
        assert not await daemon.memory.find(query), "what is not kept is not found, even if it is still there"
        result = await change(house, tmp_path, base=BASE + '[memory]\nembedder = "local"\nkeep_days = 3\n')
        assert result.pending == ("memory.embedder",)
        assert (await daemon.status())["memory"]["embedder"] == "none"


async def test_a_document_is_in_passages_from_the_turn_on_that_has_no_room_for_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_home(tmp_path) as house:
        for most in (4_000, 5, 4_000):
            await change(house, tmp_path, f"[memory.documents]\nchat_max_tokens = {most}\n")
            if most == 4_000 and not house.model.history:
                await house.talk("hello")
                agent = await house.daemon.directory.at("/ann/direct")
                text = "# Memory\n\n## The boiler\n\nThe boiler is in the cellar.\n\n## The piano\n\nIt is upstairs.\n"
                by = Attribution(origin=Origin.PERSON, author="ann", approver="ann", reason="")
                await house.daemon.memory.documents.write(agent, "MEMORY.md", text, by)
            await house.talk("Where is the boiler?")
            system = house.model.history[-1].system
            assert ("It is upstairs." in system) is (most == 4_000)
            assert "The boiler is in the cellar." in system


async def test_memory_workers_wake_once_that_is_wanted(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        await house.talk("I live in Bonn")
        await trio.sleep(1_900)
        assert await house.store.agents.at("/ann/direct/memory") is None
        await change(house, tmp_path, base=BASE.replace("background = false", "background = true"))
        await trio.sleep(120)
        assert await house.store.agents.at("/ann/direct/memory") is not None


# -- the rest ----------------------------------------------------------------------------------------------------------


async def test_jobs_come_change_and_go(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:

        async def jobs() -> dict[str, str]:
            await trio.sleep(30)
            return {job.path: job.spec.prompt for job in await house.daemon.cron.controls.find()}

        job = '[cron.morning]\ncron = "30 7 * * *"\nprompt = "say hello"\n'
        found = await change(house, tmp_path, job)
        assert found.changed == ("cron.morning",)
        assert await jobs() == {"/ann/cron/morning": "say hello"}
        await change(house, tmp_path, job.replace("hello", "hi"))
        assert await jobs() == {"/ann/cron/morning": "say hi"}
        await change(house, tmp_path, job + '[cron.lost]\ncron = "@daily"\nprompt = "x"\nuser = "nobody"\n')
        assert list(await jobs()) == ["/ann/cron/morning"]
        assert (await house.daemon.status())["cron"]["problems"]
        await change(house, tmp_path)
        assert await jobs() == {} and not (await house.daemon.status())["cron"]["problems"]


async def test_quiet_hours_and_backups_are_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        await house.talk("hello")
        daemon = house.daemon
        more = '[notify]\nquiet = "00:00-23:59"\n[backup]\nevery = "24h"\nkeep = 3\n'
        found = await change(house, tmp_path, more + "[daemon]\nshutdown_grace_s = 2.0\n")
        assert not found.pending and (await daemon.backups.status())["keep"] == 3

        async def told() -> bool:
            await trio.sleep(2 * NOTIFY_LOOK_S)
            return "the cellar is wet" in [it.text for it in await house.store.outbox.unread("/ann/direct")]

        await daemon.notifier.notify("ann", "the cellar is wet")
        assert not await told()
        await change(house, tmp_path)
        assert await told()


async def test_an_agent_is_kept_for_as_long_as_is_said_now(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_home(tmp_path, clock=clock) as house:
        await house.agent("/ann/agent/aide")
        await house.talk("/agents rm aide yes")
        await trio.sleep(5)
        clock.shift(10 * 86_400)
        await change(house, tmp_path, "[store]\nkeep_days = 9\n")
        assert "lives again" not in await house.talk("/agents restore aide")
        await change(house, tmp_path, "[store]\nkeep_days = 11\n")
        assert "lives again" in await house.talk("/agents restore aide")


async def test_the_log_tells_more(tmp_path: Path, autojump_clock: object) -> None:
    file = tmp_path / "daycare.log"
    log.configure("info", file)
    try:
        async with open_home(tmp_path) as house:
            log.logger().debug("before")
            await change(house, tmp_path, '[daemon]\nlog_level = "debug"\nlog_max_mb = 1\n')
            log.logger().debug("after")
    finally:
        log.configure("info")
    assert "after" in file.read_text() and "before" not in file.read_text()


async def test_what_needs_a_restart_is_told_until_it_is_taken_back(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        found = await change(house, tmp_path, '[store]\nlocation = "other.db"\n[plugins]\ndisable = ["lists"]\n')
        assert sorted(found.changed) == ["plugins.disable", "store.location"] == sorted(found.pending)
        assert sorted((await house.daemon.status())["config"]["pending"]) == ["plugins.disable", "store.location"]
        [finding] = await house.daemon.reloading.findings()
        assert finding.ok and "after `daycare restart`" in finding.text
        found = await change(house, tmp_path)
        assert not found.pending and (await house.daemon.status())["config"]["pending"] == []


async def test_the_same_file_again_is_no_change(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        write(tmp_path, "# only a remark\n")
        await house.daemon.reloading.read()
        assert not house.events("config.reloaded")
