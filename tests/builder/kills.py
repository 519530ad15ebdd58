"""A real daemon is killed again and again while it makes agents that people have approved.

`python -m tests.builder.kills --kills 30 --seed 1`. The model is a server of the testing kit, the kills are SIGKILL at
random moments, and the person goes on with the same words under the same keys. At each start no agent may be there in
part, at the end each once, as it was shown.
"""

import argparse
import random
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome, client_of, die_tidily
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall, said
from daycare.testing.openai_server import FakeOpenAI

AGENTS: Final = 4
_MOST_S: Final = 1.5  # from the first answer of a daemon to its end
_QUIET_S: Final = 60.0
_POLL_S: Final = 0.05


def proposal(number: int) -> dict[str, Any]:
    """Return what is proposed of an agent."""
    return {
        "name": f"scribe{number}",
        "reason": "minutes",
        "soul": f"You are scribe {number}.",
        "style": "Short.",
        "tools": ["remind", "skill"],
        "skills": [{"name": "minutes", "description": "How they look", "instructions": "Who, what, when."}],
        "schedule": [{"name": f"weekly{number}", "cron": "0 17 * * FRI", "text": "Send them."}],
        "budget": ["1usd a day"],
    }


def reply(body: dict[str, Any]) -> ScriptedAnswer:
    """Propose what was asked for since the last answer, by its number."""
    messages = body["messages"]
    since = max((at for at, each in enumerate(messages) if each["role"] == "assistant"), default=-1) + 1
    words = [said(each.get("content")) for each in messages[since:] if each["role"] == "user"]
    numbers = [int(found) for text in words for found in re.findall(r"build number (\d+)", text)]
    return ScriptedAnswer(
        text="" if numbers else "done",
        tool_calls=tuple(ScriptedCall("agent_propose", proposal(number)) for number in numbers),
    )


class KillCampaign:
    """One home, whose daemons are killed."""

    def __init__(self, home: ThrowawayHome, rng: random.Random) -> None:
        self._home = home
        self._rng = rng
        self.kills = 0
        self.in_part: list[str] = []
        self.seen: set[int] = set()  # how many agents were there at a start
        self.user = ""

    async def run(self, kills: int) -> dict[str, Any]:
        """Kill so often, let the last daemon bring it to an end, and return what is there then."""
        while self.kills < kills:
            async with self._daemon():
                with trio.move_on_after(self._rng.uniform(0.0, _MOST_S)):
                    await self._live(kills)
            self.kills += 1
        async with self._daemon():
            with trio.fail_after(_QUIET_S):
                await self._live(0)
            return await self._verdict()

    @asynccontextmanager
    async def _daemon(self) -> AsyncIterator[None]:
        """Run a daemon, and kill it at the end of the block, whatever ends that."""
        daemon = DaemonProcess(self._home)
        try:
            await daemon.ready()
            yield
        finally:
            with trio.CancelScope(shield=True):
                await daemon.kill()

    async def _live(self, kills: int) -> None:
        """Do what a person does: say all of it again under the same keys, and decide on what waits."""
        async with client_of(self._home.socket) as client:
            self.user = (await client.get("/v1/status")).json()["user"]
            await self._look(client)
            opened = (await client.post("/v1/builder", json={})).json()
            path = opened["agent"]["path"]
            # As the kills go on more is asked for, so that there is something to do until the end.
            wanted = AGENTS if not kills else 1 + self.kills * AGENTS // kills
            for number in range(wanted):
                ask = {"path": path, "text": f"build number {number}", "key": f"build-{number}"}
                (await client.post("/v1/messages", json=ask)).raise_for_status()
            while len(await self._look(client)) < wanted:
                for letter in (await client.get("/v1/dead")).json()["dead"]:  # it was at work alone at five deaths
                    await client.post(f"/v1/dead/{letter['no']}/replay")
                for it in (await client.get("/v1/approvals")).json()["approvals"]:
                    decision = {"verdict": "approve", "seen": it["content_hash"]}
                    await client.post(f"/v1/approvals/{it['no']}/decide", json=decision)
                await trio.sleep(_POLL_S)

    async def _look(self, client: httpx.AsyncClient) -> list[str]:
        """Return the agents that are there; note those that are there in part."""
        agents = (await client.get("/v1/agents", params={"kind": "agent"})).json()["agents"]
        found = [each["path"] for each in agents if not each["path"].endswith("/builder")]
        jobs = [each["spec"]["target"] for each in (await client.get("/v1/cron")).json()["jobs"]]
        budgets = [each["path"] for each in (await client.get("/v1/budgets")).json()["budgets"]]
        for path in found:
            listed = (await client.get("/v1/memory", params={"agent": path})).json()["documents"]
            own = {each["path"] for each in listed if each["layer"] == "agent"}
            parts = {"SOUL.md", "STYLE.md", "skills/minutes.md"} <= own, path in jobs, path in budgets
            if not all(parts):
                self.in_part.append(f"{path}: {parts}")
        self.seen.add(len(found))
        return found

    async def _verdict(self) -> dict[str, Any]:
        async with client_of(self._home.socket) as client:
            found = await self._look(client)
            approvals = (await client.get("/v1/approvals", params={"all": True, "limit": 100})).json()["approvals"]
            jobs = (await client.get("/v1/cron")).json()["jobs"]
            versions = []
            for path in found:
                history = await client.get("/v1/memory/history", params={"agent": path, "path": "agent/SOUL.md"})
                versions.append(len(history.json()["versions"]))
        return {
            "kills": self.kills,
            "agents": len(found),
            "jobs": len(jobs),
            "requests": len(approvals),
            "approved": sum(each["state"] == "approved" for each in approvals),
            "versions of each": sorted(set(versions)),
            "there in part": self.in_part,
            "agents seen at starts": sorted(self.seen),
        }


async def campaign(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Run one in a new home below a folder; return what came of it."""
    async with FakeOpenAI.serve(reply=reply) as model:
        config = f'[models]\ndefault = "box/model"\n[providers.box]\nbase_url = "{model.base_url}"\n'
        return await KillCampaign(ThrowawayHome(folder, config), random.Random(seed)).run(kills)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    die_tidily()
    print(f"SEED={wanted.seed}")
    with tempfile.TemporaryDirectory() as folder:
        for name, value in trio.run(campaign, Path(folder), wanted.kills, wanted.seed).items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
