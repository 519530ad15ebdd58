"""MCP servers over the API."""

import msgspec
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.features.approvals.findings import findings_of
from daycare.features.mcp.frames import McpCode
from daycare.features.mcp.operations import (
    ApproveMcp,
    FinishMcpLogin,
    ListMcp,
    LoginMcp,
    McpList,
    McpLogin,
    McpRevoked,
    McpTested,
    McpTools,
    RestartMcp,
    RevokeMcp,
    ShowMcp,
    TestMcp,
)
from daycare.features.mcp.records import PinnedTool, ShownTool
from daycare.features.mcp.service import McpServers
from daycare.features.mcp.tools import called


class McpRoutes:
    """`/v1/mcp` and what is below it."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    def routes(self) -> list[Route]:
        """Return them."""
        return [
            route(ListMcp, self.find),
            route(ShowMcp, self.show),
            route(TestMcp, self.test),
            route(ApproveMcp, self.approve),
            route(RevokeMcp, self.revoke),
            route(RestartMcp, self.restart),
            route(LoginMcp, self.login),
            route(FinishMcpLogin, self.finish_login),
        ]

    @described({200: McpList})
    async def find(self, wish: ListMcp) -> McpList:
        """List servers."""
        return McpList(servers=tuple(self._servers.shown()))

    @described({200: McpTools})
    async def show(self, wish: ShowMcp) -> McpTools:
        """Show tools."""
        return McpTools(server=wish.server, tools=await self._tools(wish.server))

    @described({200: McpTested}, refuses=(503,))
    async def test(self, wish: TestMcp) -> McpTested:
        """See whether one answers."""
        seconds = await self._servers.test(wish.server)
        return McpTested(server=wish.server, seconds=round(seconds, 3), tools=await self._tools(wish.server))

    @described({200: McpTools}, refuses=(409,))
    async def approve(self, wish: ApproveMcp) -> McpTools:
        """Approve of tools."""
        await self._servers.approve(wish.server, wish.tools, "operator")
        return McpTools(server=wish.server, tools=await self._tools(wish.server))

    @described({200: McpRevoked})
    async def revoke(self, wish: RevokeMcp) -> McpRevoked:
        """Take approvals back."""
        return McpRevoked(server=wish.server, revoked=await self._servers.revoke(wish.server, wish.tool))

    @described({200: McpTools}, refuses=(503,))
    async def restart(self, wish: RestartMcp) -> McpTools:
        """Begin one again."""
        await self._servers.restart(wish.server)
        return McpTools(server=wish.server, tools=await self._tools(wish.server))

    @described({200: McpLogin}, refuses=(503,))
    async def login(self, wish: LoginMcp) -> McpLogin:
        """Begin a login."""
        return McpLogin(server=wish.server, link=await self._servers.login(wish.server, wish.redirect))

    @described({200: McpTools}, refuses=(503,))
    async def finish_login(self, wish: FinishMcpLogin) -> McpTools:
        """End a login."""
        code = McpCode(code=wish.code, state=wish.state, issuer=wish.issuer)
        await self._servers.logged_in(wish.server, code)
        return McpTools(server=wish.server, tools=await self._tools(wish.server))

    async def _tools(self, server: str) -> tuple[ShownTool, ...]:
        return tuple([await _shown(each) for each in await self._servers.tools(server)])


async def _shown(it: PinnedTool) -> ShownTool:
    words = f"{it.now.name}\n{it.now.description}\n{msgspec.json.encode(it.now.schema).decode()}"
    found = await findings_of(words)
    return ShownTool(
        tool=it.tool,
        called=called(it.server, it.tool),
        state=it.state,
        digest=it.now.digest,
        description=it.now.description,
        schema=it.now.schema,
        reads_only=it.now.reads_only,
        refused=it.now.refused,
        before=it.before.description if it.before else "",
        before_schema=it.before.schema if it.before else {},
        suspicious=tuple(dict.fromkeys(each.meaning for each in found)),
        approved_at=it.approved_at,
        approved_by=it.approved_by,
    )
