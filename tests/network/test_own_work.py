"""What a person sees of what is done for them: jobs, tasks, timers, signals, dead letters, costs; nobody else's."""

import trio

from daycare.base.messages import Envelope, Origin, Usage
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Spend
from tests.network.conftest import Network

SEEN = {
    "/v1/cron": "/{0}/cron/morning",
    "/v1/cron/runs": "/{0}/cron/morning",
    "/v1/tasks": "/{0}/task/errand",
    "/v1/signals": "for {0}",
    "/v1/signals/subscriptions": "/{0}/direct",
    "/v1/timers": "/{0}/direct",
    "/v1/dead": "/{0}/agent/gone",
    "/v1/spend": "/{0}/direct",
    "/v1/spend/sums?by=agent": "/{0}/direct",
    "/v1/spend/sums?by=payer": "/{0}/direct",
}


def works(network: Network, user: str) -> None:
    """Let something of each kind be there of somebody."""
    network.locally("POST", "/v1/cron", {"id": "morning", "spec": {"cron": "30 7 * * *", "prompt": "x"}, "user": user})
    network.locally("POST", "/v1/cron/run", {}, path=f"/{user}/cron/morning")
    network.locally("POST", "/v1/tasks", {"id": "errand", "spec": {"prompt": "x"}, "user": user})
    network.locally("POST", "/v1/messages", {"text": "remind me in 3 hours to sleep", "user": user, "wait_s": 20})
    network.locally("POST", "/v1/signals/subscriptions", {"path": f"/{user}/direct", "pattern": "door:*"})
    network.locally("POST", "/v1/signals", {"type": "door:bell", "data": f"for {user}", "user": user})
    network.locally("POST", "/v1/agents", {"path": f"/{user}/agent/gone"})
    daemon = network.daemon._daemon

    async def lose_and_spend() -> None:
        agent = await daemon.directory.at(f"/{user}/agent/gone")
        await daemon.store.agents.set_state(agent.id, "parked")
        by = f"direct:{user}"
        lost = Envelope(to=agent.path, user=user, origin=Origin.PERSON, sender=by, key="x", text="x", trace="0" * 16)
        await daemon.store.inbox.post(lost)
        await daemon.store.agents.set_state(agent.id, "dead")
        usage = Usage(input_tokens=1_000, output_tokens=10)
        root = f"/{user}/direct"
        spend = Spend(agent_id=agent.id, user=user, turn=0, provider="lab", model="m", usage=usage, path=root)
        await daemon.store.of(BudgetRows).settle(spend)

    trio.from_thread.run(lose_and_spend, trio_token=network.daemon._token)


def test_a_person_sees_their_own_work_and_costs_and_nobody_elses(network: Network) -> None:
    for user in ("ann", "bob"):
        works(network, user)
    for route, own in SEEN.items():
        for who, other in (("ann", "bob"), ("bob", "ann")):
            answer = network.call(who, "GET", route)
            assert answer.status_code == 200, answer.text
            assert own.format(who) in answer.text and f"/{other}" not in answer.text, f"{route} of {who}: {answer.text}"
            assert network.call(who, "GET", route, user=other, path=f"/{other}/direct").status_code in (400, 404), route
    assert network.call("ann", "GET", "/v1/cron/job", path="/bob/cron/morning").status_code == 404
    assert network.call("ann", "GET", "/v1/tasks/task", path="/bob/task/errand").status_code == 404
    assert network.call("ann", "GET", "/v1/budget", path="/bob/direct").status_code == 404
    letters = {each["user"]: each["no"] for each in network.locally("GET", "/v1/dead")["dead"]}
    assert network.call("ann", "GET", f"/v1/dead/{letters['ann']}").status_code == 200
    assert network.call("ann", "GET", f"/v1/dead/{letters['bob']}").status_code == 404
    network.add("gone", user="ann", may="person", paths="/ann/agent/gone")
    for route, own in SEEN.items():
        told = network.call("gone", "GET", route)
        assert own.format("ann") not in told.text or "gone" in own, f"{route}: {told.text}"
