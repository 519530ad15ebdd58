"""All servers of config.toml: kept, their tools looked at and approved of, and offered to agents.

A tool goes this way:

1. A host connects and lists what the server has. It is committed with its digest (`McpToolRows.found`) before anybody
   is told of it.
2. A person approves of exactly that digest (`approve`), committed before the tool is offered.
3. A model calls it: the call is journaled as begun, written to the host once, and made if the digest is the same still.
   What comes back is journaled as others' words.

What could go wrong on it, and does not:

- The daemon is killed in the middle of a call: the journal says that it had begun, so it is told as uncertain and not
  made again. The host ends with its input, the server with the host.
- A server ends, hangs or is stopped in the middle of a call: what was written is uncertain and is never written again,
  what was not was not done, and says so.
- A server changes a tool after somebody approved of it, or while they look: it is another digest, so neither the yes
  nor the call is for it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import ConflictError, InvalidError, NotFoundError, SetupError, UnavailableError
from daycare.base.events import McpChanged
from daycare.base.mcp_settings import McpServer, literal_network
from daycare.base.path import Kind, Pattern
from daycare.base.path import Path as AgentPath
from daycare.feature import Core
from daycare.features.approvals.service import ApprovalsService
from daycare.features.mcp.asking import AskingCalls, first
from daycare.features.mcp.connection import CallEars, McpConnection
from daycare.features.mcp.frames import McpAnswer, McpCode, McpListed, McpOpen, McpResult
from daycare.features.mcp.hosts import McpHosts
from daycare.features.mcp.keeper import CONNECT_S, McpKeeper
from daycare.features.mcp.records import McpNews, PinnedTool, ShownServer
from daycare.features.mcp.rows import McpToolRows
from daycare.features.mcp.tools import McpTool, called
from daycare.observe import log
from daycare.plugin import ToolContext, Waiting
from daycare.store.records import Agent, Commit
from daycare.store.retry import with_retry
from daycare.store.rotation import Keyring
from daycare.tools.catalogue import Catalogue

PING_S: Final = 10.0
SHOWN_MAX_CHARS: Final = 64_000  # of the tools of one server in a prompt: some 16,000 tokens

LOGIN_S: Final = 300.0  # for a person to follow a link, and come back
LINK_S: Final = 60.0  # until there is one

Warn = Callable[..., Awaitable[None]]


class McpServers:
    """Keeps them. `folder` has one folder for each server; `keyring` their secrets; `warn` tells the operator."""

    def __init__(
        self,
        core: Core,
        approvals: ApprovalsService,
        catalogue: Catalogue,
        folder: Path,
        keyring: Keyring,
        warn: Warn,
    ) -> None:
        self._core = core
        self._approvals = approvals
        self._asking: AskingCalls | None = None  # while it runs
        self._rows = core.store.of(McpToolRows)
        self._catalogue = catalogue
        self._folder = folder
        self._keyring = keyring
        self._warn = warn
        self._hosts = McpHosts()
        self._keepers: dict[str, tuple[McpKeeper, trio.CancelScope]] = {}
        self._listed: dict[str, McpListed] = {}  # what each has said last
        self._offered: dict[str, dict[str, McpTool]] = {}
        self._waiting: dict[str, int] = {}
        self._logins: dict[str, McpConnection] = {}
        self._tasks: trio.Nursery | None = None
        self._applied = trio.Event()  # once servers are kept
        self._changed = trio.Event()
        core.live.watch(lambda settings: settings.mcp, lambda: self._changed.set())

    async def run(self) -> None:
        """Keep those that the settings name, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            self._asking = AskingCalls(self._core, self._approvals, nursery, self.call)
            nursery.start_soon(self._asking.tend)
            nursery.start_soon(self._hosts.tend)
            while True:
                self._changed = trio.Event()
                await self._apply(nursery)
                self._applied.set()
                await self._changed.wait()

    async def offer_known(self) -> None:
        """Offer what is approved, before any server is kept: a call waits until it is."""
        for name in self._core.live.now.mcp:
            self._offer(name, await with_retry(partial(self._rows.find, name)))

    async def _apply(self, nursery: trio.Nursery) -> None:
        wanted = self._core.live.now.mcp
        for name, (keeper, scope) in list(self._keepers.items()):
            if wanted.get(name) != keeper.settings:
                scope.cancel()
                del self._keepers[name]
                self._listed.pop(name, None)
                self._offer(name, ())
        for name, settings in wanted.items():
            if name not in self._keepers:
                keeper = McpKeeper(name, settings, partial(self._connect, name, settings), partial(self._noted, name))
                scope = trio.CancelScope()
                self._keepers[name] = keeper, scope
                pinned = await with_retry(partial(self._rows.find, name))
                self._offer(name, pinned)
                nursery.start_soon(self._keep, keeper, scope)
                if not pinned or not settings.idle_s:  # nobody could call it before it was looked at
                    nursery.start_soon(_tried, keeper)

    async def _keep(self, keeper: McpKeeper, scope: trio.CancelScope) -> None:
        with scope:
            await keeper.run()

    # == what servers have =============================================================================================

    def _connect(self, name: str, settings: McpServer) -> McpConnection:
        opening = self._opening(name, settings)
        return self._connection(name, opening)

    def _connection(self, name: str, opening: McpOpen) -> McpConnection:
        keep = partial(self._keyring.put, _login_of(name))
        return McpConnection(opening, self._hosts, log.logger("daycare.mcp"), partial(self._hear, name), keep)

    def _opening(self, name: str, it: McpServer) -> McpOpen:
        """Return what a host is told. Raises `SetupError` for a secret that is not stored, or without the library."""
        if find_spec("mcp") is None:
            raise SetupError(
                "MCP_MISSING", f"starting {name}: the library is not installed", hint="pip install 'daycare[mcp]'"
            )
        if it.url:
            networks = tuple(filter(None, (*it.private, literal_network(it.url))))
            token = self._opened(name, it.key) if it.key else ""
            login = "" if it.key else self._keyring.open(_login_of(name)) or ""
            asks = self._may_ask(it)
            opening = McpOpen(server=name, deadline_s=CONNECT_S, url=it.url, token=token, networks=networks, asks=asks)
            return replace(opening, login=login)
        folder = self._folder / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        secrets = {variable: self._opened(name, key) for variable, key in it.secrets.items()}
        return McpOpen(
            server=name,
            deadline_s=CONNECT_S,
            command=it.command,
            env={**it.env, **secrets},
            folder=str(folder.resolve()),
            readable=it.readable,
            writable=it.writable,
            network=it.network,
            sandbox=it.sandbox,
            memory_mb=it.memory_mb,
            processes=it.processes,
            asks=self._may_ask(it),
        )

    def _may_ask(self, it: McpServer) -> bool:
        """Return whether there can be a person to ask during calls of a server."""
        attended = self._core.live.now.approvals.unattended == "ask" or any(role != "task" for role in it.roles)
        return it.question_s > 0 and attended

    def _opened(self, name: str, key: str) -> str:
        value = self._keyring.open(key)
        if value is None:
            raise SetupError(
                "KEY_MISSING", f"starting {name}: no secret {key} is stored", hint=f"daycare keys add {key}"
            )
        return value

    async def _hear(self, name: str, listed: McpListed) -> None:
        """Take what a server has now: committed, then offered as far as a person has approved of it."""
        if name not in self._keepers:
            return
        pinned = await with_retry(partial(self._rows.found, name, listed.tools))
        self._listed[name] = listed
        before = self._waiting.get(name, 0)
        self._offer(name, pinned)
        if self._waiting[name] > before:
            told = f"The MCP server {name} has {self._waiting[name]} tools that nobody has approved of."
            await self._warn(f"{told} Look at them: daycare mcp approve {name}", topic=f"mcp:{name}")

    def _offer(self, name: str, pinned: Sequence[PinnedTool]) -> None:
        """Let agents have those that are approved, and no others."""
        settings = self._core.live.now.mcp.get(name, McpServer())
        tools: dict[str, McpTool] = {}
        for each in pinned:
            if each.state == "approved" and called(name, each.tool) not in tools:
                tools[called(name, each.tool)] = McpTool(
                    each, self.ready, self._run, trusted=settings.trust_annotations
                )
        self._catalogue.remove(self._offered.pop(name, {}).values())
        self._waiting[name] = sum(each.state in ("new", "changed") for each in pinned)
        if tools:
            self._offered[name] = tools
            self._catalogue.add(tools.values(), offered=partial(self._may, name))

    def _may(self, name: str, agent: Agent, tool: str) -> bool:
        """Return whether an agent is one of those that may use a server."""
        settings = self._core.live.now.mcp.get(name)
        if settings is None or (agent.role or "default") not in settings.roles:
            return False
        path = AgentPath.stored(agent.path, Kind(agent.kind))
        return any(Pattern(each, None).matches(path) for each in settings.allow)

    def _noted(self, name: str) -> None:
        keeper, _ = self._keepers.get(name, (None, None))
        if keeper is not None:
            self._publish(name, keeper.state)

    def _publish(self, name: str, change: str, tools: int = 0) -> None:
        self._core.bus.publish(McpChanged(at_ms=self._core.clock.now_ms(), server=name, change=change, tools=tools))

    def committed(self, commit: Commit) -> None:
        """Let observers know what a commit has made of tools; stop calls whose turns it has stopped."""
        if self._asking is not None:
            self._asking.committed()
        news = commit.news_of(McpNews)
        for done, server, tools in news.done if news is not None else ():
            self._publish(server, done, tools)

    # == what is asked of them =========================================================================================

    async def ready(self, name: str) -> None:
        """Have a server started. Raises `UnavailableError` MCP_DOWN, `NotFoundError` MCP_UNKNOWN."""
        await self._kept()
        await self._get(name).connected()

    async def call(
        self,
        pinned: PinnedTool,
        arguments: dict[str, Any],
        ears: Callable[[Callable[[McpAnswer], None]], CallEars] = lambda _: CallEars(),
    ) -> McpResult:
        """Call a tool as it was approved of. Raises as `McpKeeper.call`, and `NotFoundError` MCP_UNKNOWN."""
        keeper = self._get(pinned.server)
        return await keeper.call(pinned.tool, pinned.approved, arguments, ears)

    async def _run(self, pinned: PinnedTool, arguments: dict[str, Any], context: ToolContext) -> McpResult | Waiting:
        """Make a call of an agent, whose person may be asked something during it."""
        await self._kept()
        within_s = self._get(pinned.server).settings.question_s
        if self._asking is None or not within_s:
            return await self.call(pinned, arguments, lambda _: CallEars(context.progress))
        return await self._asking.run(pinned, arguments, context, within_s)

    async def _kept(self) -> None:
        """Wait until servers are kept, which takes no time but at a start."""
        with trio.move_on_after(PING_S):
            await self._applied.wait()

    async def approve(self, name: str, digests: Mapping[str, str], by: str) -> list[PinnedTool]:
        """Approve of tools as they were seen. Raises as `McpToolRows.approve`, and `ConflictError` MCP_TOO_LONG."""
        self._get(name)
        known = await self._rows.find(name)
        shown = [each.now for each in known if each.state == "approved" or each.tool in digests]
        if sum(len(each.description) + len(msgspec.json.encode(each.schema)) for each in shown) > SHOWN_MAX_CHARS:
            raise ConflictError(
                "MCP_TOO_LONG",
                f"approving of {len(digests)} tools of {name}: together they would take over {SHOWN_MAX_CHARS}"
                " characters of a prompt",
                hint=f"approve of fewer: daycare mcp approve {name} TOOL...",
            )
        pinned = await self._rows.approve(name, digests, by)
        self._offer(name, pinned)
        return pinned

    async def revoke(self, name: str, tool: str) -> int:
        """Take back that a tool, or ("") all of a server, may be used; return how many."""
        count = await self._rows.revoke(name, tool)
        if name in self._keepers:
            self._offer(name, await self._rows.find(name))
        return count

    async def test(self, name: str) -> float:
        """Return how many seconds a server needs to answer, started if it does not run.

        Raises `UnavailableError` MCP_DOWN, and what a call raises.
        """
        keeper = self._get(name)
        began = self._core.clock.steady_s()
        connection = await keeper.connected()
        await connection.ping(PING_S)
        return self._core.clock.steady_s() - began

    async def login(self, name: str, redirect: str) -> str:
        """Begin to log in; return the link for a person, who is sent back to `redirect` then, "" if none is needed.

        Raises `InvalidError` MCP_LOGIN for one that takes no login, `UnavailableError` MCP_DOWN.
        """
        keeper = self._get(name)
        if not keeper.settings.url or keeper.settings.key or self._tasks is None:
            raise InvalidError("MCP_LOGIN", f"logging in to {name}: it has no url, or a key", hint=f"[mcp.{name}] url")
        if (before := self._logins.pop(name, None)) is not None:
            before.finish("another login was begun")
        opening = replace(self._opening(name, keeper.settings), redirect=redirect, deadline_s=LOGIN_S)
        connection = self._logins[name] = self._connection(name, opening)
        self._tasks.start_soon(self._log_in, connection)
        with trio.move_on_after(LINK_S):
            await first(connection.linked, connection.ready, connection.ended)
        if connection.linked.is_set():
            return connection.link
        connected = connection.ready.is_set()
        connection.finish("it gave no link")
        if connected:
            return ""
        raise UnavailableError("MCP_DOWN", f"logging in to {name}: {connection.why or 'it gives no link'}")

    async def logged_in(self, name: str, code: McpCode) -> None:
        """End a login with what the person came back with; what it leaves is sealed, and the server begun again.

        Raises `NotFoundError` MCP_LOGIN where none was begun, `UnavailableError` MCP_DOWN where it did not work.
        """
        connection = self._logins.pop(name, None)
        if connection is None:
            raise NotFoundError("MCP_LOGIN", f"logging in to {name}: begin first", hint=f"daycare mcp login {name}")
        connection.come_back(code)
        with trio.move_on_after(LINK_S):
            await first(connection.ready, connection.ended)
        connected = connection.ready.is_set()
        connection.finish("it did not work")
        if not connected:
            raise UnavailableError("MCP_DOWN", f"logging in to {name}: {connection.why or 'it does not answer'}")
        await self._get(name).again()

    async def _log_in(self, connection: McpConnection) -> None:
        with suppress(UnavailableError), error_boundary("MCP_CRASHED", "logging in"):
            await connection.run()

    async def restart(self, name: str) -> None:
        """End a server, forget its failures and begin it again. Raises `UnavailableError` MCP_DOWN."""
        keeper = self._get(name)
        await keeper.again()
        await keeper.connected()

    async def tools(self, name: str) -> list[PinnedTool]:
        """Return what is known of the tools of a server, also of one that is gone. Raises `NotFoundError`."""
        found = await self._rows.find(name)
        if not found:
            self._get(name)
        return found

    def shown(self) -> list[ShownServer]:
        """Return all servers as people see them."""
        return [self._shown(keeper) for keeper, _ in self._keepers.values()]

    def _shown(self, keeper: McpKeeper) -> ShownServer:
        listed = self._listed.get(keeper.name)
        return ShownServer(
            name=keeper.name,
            where=keeper.settings.where,
            state=keeper.state,
            offered=len(self._offered.get(keeper.name, ())),
            waiting=self._waiting.get(keeper.name, 0),
            problem=keeper.problem,
            fails=keeper.fails,
            retry_in_s=round(keeper.retry_in_s, 1),
            title=listed.title if listed else "",
            version=listed.version if listed else "",
            left_out=listed.left_out if listed else 0,
        )

    def _get(self, name: str) -> McpKeeper:
        if name not in self._keepers:
            there = ", ".join(self._keepers) or "none"
            raise NotFoundError(
                "MCP_UNKNOWN",
                f"looking up the MCP server {name[:40]!a}: there is none; there are: {there}",
                hint=f"add [mcp.{name[:40]}] to config.toml",
            )
        return self._keepers[name][0]


async def _tried(keeper: McpKeeper) -> None:
    with suppress(UnavailableError):  # its state says why
        await keeper.connected()


def _login_of(name: str) -> str:
    """Return the name under which what a login left is stored."""
    return f"mcp-login.{name}"
