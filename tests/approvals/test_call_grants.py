"""Calls that a person approves in advance: never wider than shown, not after others' words unless said, taken back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from daycare.base.causes import Approved
from daycare.base.connector import Attachment
from daycare.base.errors import InvalidError
from daycare.base.permission import Decision, Rule
from daycare.features.approvals.call_patterns import CallPattern, PatternWish, pattern_of
from daycare.features.approvals.records import ApprovalState, CallAction
from daycare.features.approvals.service import ApprovalAsk
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from tests.approvals.story import ANN, ann, button, settle
from tests.approvals.story import asking as story_asking
from tests.injection.world import CONFIG, World, ordered

PAGE = "https://example.org/"


@asynccontextmanager
async def asking(folder: Path, unattended: str = "ask") -> AsyncIterator[World]:
    """A house in which a rule wants a yes for each page."""
    rules = (Rule(action="tool:fetch", decision=Decision.ASK),)
    approvals = replace(CONFIG.approvals, unattended=unattended)
    world = World(page="a page")
    world.pigeon = FakeConnector()  # type: ignore[attr-defined]
    plugins = [world.pigeon.plugin(), world.plugin()]  # type: ignore[attr-defined]
    config = replace(CONFIG, rules=rules, approvals=approvals)
    world.clock = VirtualClock()
    async with open_daemon(folder, world.model, config=config, plugins=plugins, clock=world.clock) as house:
        world.house, world.agent = house, await ann(house)
        yield world


async def pending(world: World, url: str, path: str = "/ann/pigeon") -> bool:
    """Return whether an agent waits for a yes to fetch a page; a model that reads of earlier orders repeats them."""
    asked = [it for it in await world.requests() if it.state is ApprovalState.PENDING and it.path == path]
    return any(url in it.action.text for it in asked)


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"url": f"{PAGE}b"}, True),
        ({"url": "https://example.org.evil.example/"}, False),
        ({"url": "https://example.org@evil.example/"}, False),
        ({"url": "http://example.org/a"}, False),
        ({"url": f"{PAGE}b", "body": "x"}, False),
        ({"url": [f"{PAGE}b"]}, False),
        ({}, False),
    ],
)
def test_a_pattern_is_as_wide_as_its_host_and_no_wider(arguments: dict[str, Any], fits: bool) -> None:
    pattern = pattern_of(CallAction(tool="fetch", arguments={"url": f"{PAGE}a?b"}))
    assert str(pattern) == f'fetch: url begins with "{PAGE}"'
    assert pattern.fits(CallAction(tool="fetch", arguments=arguments)) is fits
    assert not pattern.fits(CallAction(tool="post", arguments=arguments))


def test_what_is_no_plain_address_stays_as_it_is() -> None:
    for value in ("0 7 * * *", "https://a@b.example/", "https://example.org", "file:///etc/passwd", 5, None, True):
        pattern = pattern_of(CallAction(tool="x", arguments={"it": value}))
        assert pattern == CallPattern(tool="x", exact={"it": value})
    assert not CallPattern(tool="x", exact={"it": 1}).fits(CallAction(tool="x", arguments={"it": True}))


async def test_always_holds_for_the_host_that_was_shown_until_it_is_taken_back(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with asking(tmp_path) as world:
        file = Attachment(name="a.txt", data=b"the words of others")
        await world.say(ordered("fetch", {"url": f"{PAGE}a"}), files=(file,))
        shown = await world.say(button(world.pigeon, "Always…"))  # type: ignore[attr-defined]
        assert "also after words of others" in shown and "begins with" in shown and PAGE in shown and world.sent == []
        await world.say(button(world.pigeon, "Yes, without asking"))  # type: ignore[attr-defined]
        assert world.sent == [f"{PAGE}a"]
        await world.say("/reset")
        await world.order("fetch", url=f"{PAGE}b")
        assert f"{PAGE}b" in world.sent, "it was not asked for again"
        assert {it["grant"] for it in world.house.events("approval.used")} == {1}
        await world.say("/reset")
        await world.order("fetch", url="https://example.com/")
        assert await pending(world, "https://example.com/")
        await world.say("/reset")
        await world.say("/approvals revoke 1")
        await world.order("fetch", url=f"{PAGE}c")
        assert f"{PAGE}c" not in world.sent and await pending(world, f"{PAGE}c")


async def test_a_session_ends_with_its_conversation(tmp_path: Path, autojump_clock: object) -> None:
    async with asking(tmp_path) as world:
        await world.order("fetch", url=f"{PAGE}a")
        [it] = await world.requests()
        more = PatternWish(scope="session", pattern=pattern_of(it.action), others=True)  # type: ignore[arg-type]
        await world.house.daemon.approvals.decide(it.no, "approve", ANN, it.seen, more=more)
        await settle(world.house)
        await world.order("fetch", url=f"{PAGE}b")
        assert f"{PAGE}b" in world.sent
        await world.say("/reset")
        await world.order("fetch", url=f"{PAGE}c")
        assert f"{PAGE}c" not in world.sent and await pending(world, f"{PAGE}c")


async def test_a_grant_covers_no_turn_with_others_words_unless_it_says_so(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with asking(tmp_path) as world:
        await world.order("fetch", url=f"{PAGE}a")
        [it] = await world.requests()
        more = PatternWish(scope="always", pattern=pattern_of(it.action))  # type: ignore[arg-type]
        await world.house.daemon.approvals.decide(it.no, "approve", ANN, it.seen, more=more)
        await settle(world.house)
        await world.say("/reset")
        file = Attachment(name="a.txt", data=ordered("fetch", {"url": f"{PAGE}?secret"}).encode())
        await world.say("look", files=(file,))
        assert f"{PAGE}?secret" not in world.sent and await pending(world, f"{PAGE}?secret")


async def test_what_may_not_be_granted_is_refused_and_leaves_the_request(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with asking(tmp_path) as world:
        await world.order("fetch", url=f"{PAGE}a")
        [it] = await world.requests()
        for pattern, others in (
            (CallPattern(tool="post", begins={"url": PAGE}), False),
            (CallPattern(tool="fetch", begins={"url": "https://exam"}), False),
            (CallPattern(tool="fetch", begins={"url": "h"}), True),
            (CallPattern(tool="fetch", free=("url",)), True),
            (CallPattern(tool="fetch", exact={"url": f"{PAGE}b"}), False),
        ):
            more = PatternWish(scope="always", pattern=pattern, others=others)
            with pytest.raises(InvalidError, match="approving more than request 1"):
                await world.house.daemon.approvals.decide(it.no, "approve", ANN, it.seen, more=more)
        assert await pending(world, PAGE) and await world.house.daemon.approvals.granted(None) == []


@pytest.mark.parametrize("unattended", ["ask", "deny"])
async def test_a_job_asks_or_is_refused_as_the_settings_say(
    unattended: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with asking(tmp_path, unattended) as world:
        order = ordered("fetch", {"url": PAGE})
        await world.order("cron_add", name="look", prompt=order, cron="*/15 * * * *")
        await settle(world.house, 1_000)
        assert world.sent == [] and await pending(world, PAGE, "/ann/cron/look") == (unattended == "ask")


async def test_no_answer_in_time_is_a_no_that_the_agent_is_told(tmp_path: Path, autojump_clock: object) -> None:
    async with asking(tmp_path) as world:
        await world.order("fetch", url=PAGE)
        world.clock.sleep(8 * 86_400)
        await settle(world.house, 3_600)
        [it] = await world.requests()
        assert it.state is ApprovalState.EXPIRED and world.sent == []
        await world.say("well?")
        assert "which is a no" in str(world.model.history[-1].messages)


async def test_who_said_yes_hears_what_came_of_it_also_of_an_agent_nobody_talks_with_now(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with asking(tmp_path) as world:
        scribe = await world.house.agent("/ann/agent/scribe")
        await world.house.say(ordered("fetch", {"url": PAGE}), key="x", path=scribe.path, user="ann")
        await settle(world.house)
        [it] = await world.requests()
        before = len(world.pigeon.arrived)  # type: ignore[attr-defined]
        await world.house.daemon.approvals.decide(it.no, "approve", ANN, it.seen)
        await settle(world.house)
        assert world.sent == [PAGE] and len(world.pigeon.arrived) == before + 1  # type: ignore[attr-defined]


async def test_an_approved_call_is_made_by_one_turn_alone(tmp_path: Path, autojump_clock: object) -> None:
    """Also if the message that says so came to a second one."""
    async with asking(tmp_path) as world:
        await world.order("fetch", url=PAGE)
        [it] = await world.requests()
        await world.house.daemon.approvals.decide(it.no, "approve", ANN, it.seen)
        await settle(world.house)
        rows = world.house.daemon.approvals._rows
        [decided] = await world.requests()
        assert decided.made_in is not None and world.sent == [PAGE]
        said: Any = SimpleNamespace(envelope=SimpleNamespace(cause=Approved(it.no)))
        assert len(await rows.claim(world.agent, decided.made_in, [said])) == 1
        assert await rows.claim(world.agent, decided.made_in + 1, [said]) == []
        undo = "UPDATE history SET state = 'split' WHERE turn = ?"
        await rows._write(lambda tx: tx.run(undo, (decided.made_in,)))
        assert await rows.claim(world.agent, decided.made_in + 1, [said]), "a turn that was split made no call"


async def test_the_network_lists_grants_and_takes_them_back(tmp_path: Path, autojump_clock: object) -> None:
    import httpx

    from daycare.api.app import build

    async with asking(tmp_path) as world:
        await world.order("fetch", url=PAGE)
        transport = httpx.ASGITransport(app=build(world.house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            [it] = (await client.get("/v1/approvals")).json()["approvals"]
            assert it["pattern"] == {"tool": "fetch", "begins": {"url": PAGE}} and not it["others"]
            more = {"scope": "always", "pattern": it["pattern"]}
            wish = {"verdict": "approve", "seen": it["content_hash"], "more": more}
            assert (await client.post(f"/v1/approvals/{it['no']}/decide", json=wish)).status_code == 200
            [grant] = (await client.get("/v1/approvals")).json()["calls"]
            assert (grant["path"], grant["session"]) == ("/ann/pigeon", None) and PAGE in grant["title"]
            assert (await client.post("/v1/approvals/grants/7/revoke", json={})).status_code == 404
            assert (await client.post("/v1/approvals/grants/1/revoke", json={})).status_code == 200
            assert (await client.get("/v1/approvals")).json()["calls"] == []


async def test_what_a_dead_agent_wanted_to_do_is_withdrawn_and_what_it_wanted_kept_is_not(
    autojump_clock: object, tmp_path: Path
) -> None:
    async with asking(tmp_path) as world:
        house = world.house
        helper = await house.agent("/ann/agent/helper")
        call = ApprovalAsk(kind="call", action=CallAction(tool="fetch", arguments={"url": PAGE}), turn=1, step=1)
        asked = await house.daemon.approvals.request(helper, call)
        noted = await house.daemon.approvals.request(helper, story_asking(helper, "- likes tea\n"))
        await house.store.agents.set_state(helper.id, "dead", "its work is done")
        it = await house.daemon.approvals.get(asked.no)
        assert (it.state, it.why) == (ApprovalState.STALE, "the agent that asked for it has ended")
        assert (await house.daemon.approvals.get(noted.no)).state is ApprovalState.PENDING
