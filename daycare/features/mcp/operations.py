"""What can be asked about servers that speak the Model Context Protocol."""

from typing import Annotated

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.features.mcp.records import ShownServer, ShownTool

ServerName = Annotated[str, meaning("The server, as in [mcp.NAME]", metavar="NAME", max_length=64)]


class ListMcp(Operation, frozen=True, kw_only=True):
    """List MCP servers: how each is, how many of its tools agents may have, and how many wait for a yes."""

    ROUTE = "GET /v1/mcp"


class ShowMcp(Operation, frozen=True, kw_only=True):
    """Show the tools of an MCP server, word for word, with what was approved of them before."""

    ROUTE = "GET /v1/mcp/tools"
    server: ServerName


class TestMcp(Operation, frozen=True, kw_only=True):
    """Start an MCP server, if it does not run, and see whether it answers."""

    __test__ = False

    ROUTE = "POST /v1/mcp/test"
    server: ServerName


class ApproveMcp(Operation, frozen=True, kw_only=True):
    """Approve of tools of an MCP server exactly as they were seen: agents that may use the server have them then."""

    ROUTE = "POST /v1/mcp/approve"
    server: ServerName
    tools: Annotated[dict[str, str], meaning("The digest of each tool, by its name")]


class RevokeMcp(Operation, frozen=True, kw_only=True):
    """Take back that tools of an MCP server may be used: one of them, or all."""

    ROUTE = "POST /v1/mcp/revoke"
    server: ServerName
    tool: Annotated[str, meaning("Only this one", metavar="TOOL", max_length=200)] = ""


class RestartMcp(Operation, frozen=True, kw_only=True):
    """End an MCP server and begin it again, also one that is left alone as it only failed."""

    ROUTE = "POST /v1/mcp/restart"
    server: ServerName


class LoginMcp(Operation, frozen=True, kw_only=True):
    """Begin to log in to an MCP server by OAuth; the answer has the link that a person follows."""

    ROUTE = "POST /v1/mcp/login"
    server: ServerName
    redirect: Annotated[str, meaning("Where the browser comes back to", pattern=r"^https?://[^\s]+$", max_length=500)]


class FinishMcpLogin(Operation, frozen=True, kw_only=True):
    """End a login with what the browser came back with. What it leaves is sealed."""

    ROUTE = "POST /v1/mcp/login/finish"
    server: ServerName
    code: Annotated[str, meaning("The code", max_length=4_000)]
    state: Annotated[str, meaning("The state", max_length=4_000)]
    issuer: Annotated[str, meaning("Who says so, `iss`", max_length=2_000)] = ""


class McpLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Where to log in; no link: no login is needed."""

    server: str
    link: str


class McpList(msgspec.Struct, frozen=True, kw_only=True):
    """All servers."""

    servers: tuple[ShownServer, ...]


class McpTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server."""

    server: str
    tools: tuple[ShownTool, ...]


class McpTested(msgspec.Struct, frozen=True, kw_only=True):
    """How long a server took to answer, and its tools."""

    server: str
    seconds: float
    tools: tuple[ShownTool, ...]


class McpRevoked(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools may not be used any more."""

    server: str
    revoked: int
