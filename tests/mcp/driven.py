"""A real daemon with real servers, driven over its API by a model that does what it is told; and killed at times."""

import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome, client_of
from daycare.testing.obedient import obey_server
from daycare.testing.openai_server import FakeOpenAI

NPM = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")
USER = "me"  # of a home that made itself
READY_S = 90.0


def section(name: str, command: list[str], **more: Any) -> str:
    lines = [f"[mcp.{name}]", f"command = {json.dumps(command)}", f'allow = ["/{USER}/**"]']
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in more.items())]) + "\n"


class Driven:
    """The daemon, and what is asked of it."""

    def __init__(self, home: ThrowawayHome, client: httpx.AsyncClient) -> None:
        self.home, self.client = home, client
        self.agents = 0

    async def ask(self, method: str, route: str, body: Any = None, **query: Any) -> Any:
        answer = await self.client.request(method, route, json=body, params=query, timeout=READY_S)
        assert answer.is_success, f"{method} {route}: {answer.text}"
        return answer.json()

    async def approved(self, server: str) -> list[str]:
        """Wait until a server has said what it has, and approve of all of it."""
        with trio.fail_after(READY_S):
            while not (shown := (await self.ask("GET", "/v1/mcp/tools", server=server))["tools"]):
                await trio.sleep(0.1)
        tools = {each["tool"]: each["digest"] for each in shown if each["state"] in ("new", "changed")}
        await self.ask("POST", "/v1/mcp/approve", {"server": server, "tools": tools})
        return sorted(tools)

    async def answer(self) -> None:
        """Answer the next question of a server, or agree to open its page."""
        with trio.fail_after(READY_S):
            while not (found := (await self.ask("GET", "/v1/approvals"))["approvals"]):
                await trio.sleep(0.05)
        [it] = found
        fields = {"name": "Bob", "check": "no", "email": "bob@example.org"} if it["question"]["fields"] else {}
        wish = {"verdict": "approve", "seen": it["content_hash"], "fields": fields}
        await self.ask("POST", f"/v1/approvals/{it['no']}/decide", wish)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Let a fresh agent make a call; return what its model read of it."""
        self.agents += 1
        path = f"/{USER}/agent/a{self.agents}"
        await self.ask("POST", "/v1/agents", {"path": path})
        order = f"CALL {name} {json.dumps(arguments)}"
        await self.ask("POST", "/v1/messages", {"text": order, "path": path, "wait_s": 80})
        said = (await self.ask("GET", "/v1/agent", path=path))["history"]
        return next(
            (part["text"] for each in said for part in each["parts"] if part.get("type") == "tool_result"),
            json.dumps(said)[-2_000:],
        )


@asynccontextmanager
async def driven(folder: Path, sections: str) -> AsyncIterator[tuple[Driven, ThrowawayHome, DaemonProcess]]:
    async with FakeOpenAI.serve(reply=obey_server) as model:
        config = (
            '[models]\ndefault = "box/fake-large"\n'
            f'[providers.box]\nkind = "openai"\nbase_url = "{model.base_url}"\n'
            f'[memory]\nembedder = "none"\n[memory.retrieval]\nenabled = false\n{sections}'
        )
        home = ThrowawayHome(folder, config)
        daemon = DaemonProcess(home)
        try:
            await daemon.ready()
            async with client_of(home.socket) as client:
                yield Driven(home, client), home, daemon
        finally:
            await daemon.kill()


async def servers(folder: Path) -> dict[str, Any]:
    """Call a tool of each reference server; return what each said, or why it was left out."""
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "note.txt").write_text("milk\n")
    sections = section("time", ["mcp-server-time"])
    sections += section("git", ["mcp-server-git", "--repository", str(repository)], writable=[str(repository)])
    calls: dict[str, tuple[str, dict[str, Any], str]] = {
        "time": ("get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
        "git": ("git_status", {"repo_path": str(repository)}, "note.txt"),
    }
    found: dict[str, Any] = {}
    if shutil.which("npm") is None:
        found["npm"] = "skipped: npm is not installed"
    else:
        there = folder / "npm"
        subprocess.run(["npm", "install", "--silent", "--prefix", str(there), *NPM], check=True)
        node = shutil.which("node") or "node"
        for name, inner in (("everything", []), ("filesystem", [str(repository)])):
            module = there / "node_modules/@modelcontextprotocol" / f"server-{name}" / "dist/index.js"
            readable = [str(there), str(repository)]
            sections += section(name, [node, str(module), *inner], readable=readable, memory_mb=2_048)
        calls["everything"] = ("echo", {"message": "hello there"}, "hello there")
        calls["everything paints"] = ("get-tiny-image", {}, "result-1.png, image/png")
        calls["everything asks"] = ("trigger-elicitation-request", {}, "bob@example.org")
        calls["everything shows a page"] = (
            "trigger-url-elicitation",
            {"url": "https://example.org/login"},
            "accept",
        )
        calls["everything wants a page"] = (
            "trigger-url-elicitation",
            {"url": "https://example.org/login", "errorPath": True},
            "the user has agreed",
        )
        calls["filesystem"] = ("read_text_file", {"path": str(repository / "note.txt")}, "milk")
    async with driven(folder, sections) as (house, _, _):
        for name, (tool_name, arguments, expected) in calls.items():
            server = name.partition(" ")[0]
            began = time.perf_counter()
            tools = await house.approved(server)
            async with trio.open_nursery() as nursery:
                if "elicitation" in tool_name:
                    nursery.start_soon(house.answer)
                said = await house.call(f"{server}__{tool_name}", arguments)
            spent = round(time.perf_counter() - began, 2)
            found[name] = {"tools": len(tools), "ok": expected in said, "said": said[:200], "seconds": spent}
        status = Path(f"/proc/{(await house.ask('GET', '/v1/status'))['pid']}/status").read_text()
        found["daemon_rss_mb"] = int(status.split("VmRSS:")[1].split()[0]) // 1024
    return found
