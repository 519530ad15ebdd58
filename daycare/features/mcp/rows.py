"""Tools of servers in the store: what a person has approved of, word for word, and what is there now."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from daycare.base.errors import ConflictError, NotFoundError
from daycare.features.mcp.frames import FoundTool
from daycare.features.mcp.records import McpNews, PinnedTool
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

_COLUMNS: Final = (
    "server, tool, found, definition, here, found_at, approved, approved_definition, approved_at, approved_by"
)
_FIND: Final = (
    "INSERT INTO mcp_tools (server, tool, found, definition, here, found_at) VALUES (?1, ?2, ?3, ?4, 1, ?5)"
    " ON CONFLICT (server, tool) DO UPDATE SET found = ?3, definition = ?4, here = 1, found_at = ?5"
)
_KEPT_MAX: Final = 512  # of one server: those that are there no more go first
_DROP: Final = (
    "DELETE FROM mcp_tools WHERE server = ?1 AND here = 0 AND tool IN (SELECT tool FROM mcp_tools WHERE server = ?1"
    " ORDER BY here DESC, found_at DESC LIMIT -1 OFFSET ?2)"
)
WAIT: Final = "mcp:"  # how the keys of waiting turns begin
_AWAITED: Final = (
    "SELECT key, agent_id FROM waits WHERE instr(key, ?1) = 1 UNION SELECT s.body ->> '$.wait', t.agent_id FROM steps s"
    " JOIN turns t USING (turn) WHERE s.state = 'waiting' AND instr(s.body ->> '$.wait', ?1) = 1 AND s.turn IN (SELECT"
    " max(turn) FROM turns WHERE agent_id IN (SELECT DISTINCT agent_id FROM inbox WHERE state = 0) GROUP BY agent_id)"
    " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = s.turn)"
)
_IS_AWAITED: Final = (
    "SELECT 1 FROM waits WHERE key = ?1 UNION ALL SELECT 1 FROM steps s WHERE s.turn = ?2 AND s.step = ?3"
    " AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = s.turn)"
)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(FoundTool).decode


class McpToolRows(Rows):
    """All of them, by server."""

    tables: ClassVar = (
        Table(
            "mcp_tools",
            called="tools of MCP servers",
            why="the operator looks at the tools of a server there, and approves of them",
            what="tools of MCP servers",
            query="SELECT 0",
        ),
    )

    async def awaited(self, key: str, turn: int, step: int) -> bool:
        """Return whether a turn waits for a call that it made in a step, or is about to."""
        return self._reader.execute(_IS_AWAITED, (key, turn, step)).fetchone() is not None

    async def interrupted(self) -> list[tuple[str, str]]:
        """Return the calls that turns wait for, (key, agent's id): set aside already, or about to be."""
        return [(str(key), str(agent)) for key, agent in self._reader.execute(_AWAITED, (WAIT,)).fetchall()]

    async def find(self, server: str | None = None) -> list[PinnedTool]:
        """Return tools by name, those of one server or all."""
        return _TOOLS.find(self._reader, "?1 IS NULL OR server = ?1 ORDER BY server, tool", (server,))

    async def found(self, server: str, tools: Sequence[FoundTool]) -> list[PinnedTool]:
        """Note what tools a server has now; return all that are known of it. Nothing that was approved is forgotten."""

        def run(tx: Tx) -> list[PinnedTool]:
            known = {each.tool: each for each in _of(tx, server)}
            names = {tool.name for tool in tools}
            news = [tool for tool in tools if (one := known.get(tool.name)) is None or one.now != tool or not one.here]
            for tool in news:
                tx.run(_FIND, (server, tool.name, tool.digest, _encode(tool).decode(), tx.now))
            for gone in (each for each in known.values() if each.here and each.tool not in names):
                tx.run("UPDATE mcp_tools SET here = 0 WHERE server = ? AND tool = ?", (server, gone.tool))
            if news:
                tx.run(_DROP, (server, _KEPT_MAX))
                tx.commit.add(McpNews).done.append(("found", server, len(news)))
            return _of(tx, server)

        return await self._write(run)

    async def approve(self, server: str, digests: Mapping[str, str], by: str) -> list[PinnedTool]:
        """Approve of tools, each as it has this digest; return all of the server's.

        Raises `NotFoundError` MCP_TOOL_UNKNOWN, `ConflictError` MCP_CHANGED for one that is not as it was seen: then
        none is approved.
        """

        def run(tx: Tx) -> list[PinnedTool]:
            for tool, digest in digests.items():
                it = _TOOLS.one(tx.db, "server = ? AND tool = ?", (server, tool))
                if it is None or not it.here:
                    raise NotFoundError(
                        "MCP_TOOL_UNKNOWN",
                        f"approving of {tool[:80]!a}: {server} has no such tool",
                        hint=f"daycare mcp show {server}",
                    )
                if it.now.digest != digest or it.now.refused:
                    why = it.now.refused or "it is not what you have seen"
                    raise ConflictError(
                        "MCP_CHANGED", f"approving of {tool}: {why}", hint=f"look again: daycare mcp show {server}"
                    )
                tx.run(
                    "UPDATE mcp_tools SET approved = found, approved_definition = definition, approved_at = ?,"
                    " approved_by = ? WHERE server = ? AND tool = ?",
                    (tx.now, by, server, tool),
                )
            tx.commit.add(McpNews).done.append(("approved", server, len(digests)))
            return _of(tx, server)

        return await self._write(run)

    async def revoke(self, server: str, tool: str) -> int:
        """Take back that tools of a server are approved, one or ("") all; return how many were."""

        def run(tx: Tx) -> int:
            tx.run(
                "UPDATE mcp_tools SET approved = '', approved_definition = '', approved_at = NULL, approved_by = ''"
                " WHERE server = ?1 AND (?2 = '' OR tool = ?2) AND approved != ''",
                (server, tool),
            )
            count: int = tx.db.changes()
            if count:
                tx.commit.add(McpNews).done.append(("revoked", server, count))
            return count

        return await self._write(run)


def _of(tx: Tx, server: str) -> list[PinnedTool]:
    return _TOOLS.find(tx.db, "server = ? ORDER BY tool", (server,))


def _tool(row: tuple[Any, ...]) -> PinnedTool:
    server, tool, _, definition, here, found_at, approved, before, approved_at, approved_by = row
    now = _decode(definition)
    return PinnedTool(
        server=server,
        tool=tool,
        now=now,
        here=bool(here),
        found_at=found_at,
        approved=approved,
        before=_decode(before) if approved and approved != now.digest else None,
        approved_at=approved_at,
        approved_by=approved_by,
    )


_TOOLS: Final = Select(_COLUMNS, "mcp_tools", _tool)
