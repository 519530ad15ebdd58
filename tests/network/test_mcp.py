"""daycare as an MCP server: what a program reaches with a token, asked by the protocol's own library."""

import sys
from pathlib import Path
from typing import Any

import httpx
import trio
from msgspec.structs import replace

from daycare.features.mcp.connection import CallEars, McpConnection
from daycare.features.mcp.frames import FoundTool, McpListed, McpOpen
from daycare.features.mcp.hosts import McpHosts
from daycare.observe import log
from tests.network.conftest import Json, Network

TOOLS = ["send", "ask", "memory_search", "list_agents"]


def post(network: Network, who: str, method: str, *, headers: Any = None, **params: Any) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return network.call(who, "POST", "/mcp", message, headers=headers)


def call(network: Network, who: str, tool: str, **arguments: Any) -> tuple[str, bool]:
    answer: Json = post(network, who, "tools/call", name=tool, arguments=arguments).json()
    assert answer["id"] == 7, answer
    result = answer["result"]
    return result["content"][0]["text"], result.get("isError", False)


def test_a_token_reaches_by_it_what_it_reaches_anyway_and_nothing_else(network: Network) -> None:
    assert network.call("", "POST", "/mcp", {}).status_code == 401
    for who in ("operator", "read", "ann"):
        assert [each["name"] for each in post(network, who, "tools/list").json()["result"]["tools"]] == TOOLS
    answer, failed = call(network, "ann", "ask", text="hello", wait_s=20)
    assert answer and not failed
    assert not network.call("ann", "GET", "/v1/replies", path="/ann/direct").json()["replies"], "it is not shown again"
    assert "is with /ann/direct" in call(network, "ann", "send", text="hello")[0]
    assert "/ann/direct" in call(network, "ann", "list_agents")[0]
    assert call(network, "ann", "memory_search", query="hello")[1] is False
    for tool in ("send", "ask"):
        assert "may read, and change nothing" in call(network, "read", tool, text="x", agent="/ann/direct")[0]
        told, failed = call(network, "bob", tool, text="x", agent="/ann/direct")
        assert failed and "no such agent" in told
    told, failed = call(network, "bob", "memory_search", query="hello", agent="/ann/direct")
    assert failed and "/ann/direct" in told
    assert call(network, "read", "memory_search", query="hello", agent="/ann/direct")[1] is False


def test_what_is_no_request_of_the_protocol_is_told_so(network: Network) -> None:
    assert network.call("ann", "GET", "/mcp").status_code == 405
    assert network.call("ann", "POST", "/mcp", [1]).json()["error"]["code"] == "BODY_INVALID"
    assert post(network, "ann", "no/such").json()["error"]["code"] == -32601
    assert post(network, "ann", "tools/call", name="rm").json()["error"]["code"] == -32602
    assert post(network, "ann", "tools/call", name="ask", arguments={"words": 1}).json()["error"]["code"] == -32602
    assert post(network, "ann", "ping", headers={"MCP-Protocol-Version": "1999-01-01"}).status_code == 400
    notified = network.call("ann", "POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (notified.status_code, notified.content) == (202, b"")


async def _asked(opening: McpOpen) -> tuple[tuple[FoundTool, ...], str]:
    found: list[McpListed] = []
    text = ""

    async def listed(it: McpListed) -> None:
        found.append(it)

    hosts = McpHosts()
    connection = McpConnection(opening, hosts, log.logger("test"), listed)
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hosts.tend)
            why: list[str] = []

            async def run() -> None:
                why.append(await connection.run())
                nursery.cancel_scope.cancel()

            nursery.start_soon(run)
            await connection.ready.wait()
            tool = next(each for each in found[0].tools if each.name == "list_agents")
            text = (await connection.call(tool.name, tool.digest, {}, 30, CallEars())).text
            connection.finish("")
    return found[0].tools, text


def test_the_library_of_the_protocol_speaks_with_it_over_http_and_stdio(network: Network, tmp_path: Path) -> None:
    over_http = McpOpen(
        server="home",
        deadline_s=60,
        url=f"http://127.0.0.1:{network.port}/mcp",
        token=network.tokens["ann"],
        networks=("127.0.0.1/32",),
    )
    tools, text = trio.run(_asked, over_http)
    assert [each.name for each in tools] == TOOLS and not any(each.refused for each in tools)
    assert "/ann/direct" in text
    command = (sys.executable, "-m", "daycare", "mcp", "serve", "--home", str(network.home))
    over_stdio = McpOpen(server="home", deadline_s=60, command=command, folder=str(tmp_path), sandbox=False)
    assert trio.run(_asked, over_stdio)[0] == tools
    why = trio.run(_ended, replace(over_http, networks=()))
    assert "not on the public Internet" in why, "the settings do not name the address"


async def _ended(opening: McpOpen) -> str:
    hosts = McpHosts()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hosts.tend)
        why = await McpConnection(opening, hosts, log.logger("test"), lambda _: trio.sleep_forever()).run()
        nursery.cancel_scope.cancel()
    return why
