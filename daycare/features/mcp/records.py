"""Servers and their tools as they are stored and shown. Times are wall-clock milliseconds, UTC."""

from typing import Any, Literal

import msgspec

from daycare.features.mcp.frames import FoundTool

PinState = Literal["approved", "new", "changed", "gone", "refused"]


class PinnedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server: what is said of it now, and what a person has approved of, if they have.

    `here`: the server had it when it was asked last. `before` is what was approved of and is not the same any more.
    """

    server: str
    tool: str
    now: FoundTool
    here: bool
    found_at: int
    approved: str = ""
    before: FoundTool | None = None
    approved_at: int | None = None
    approved_by: str = ""

    @property
    def state(self) -> PinState:
        """Whether it is offered: only while it is `approved`."""
        if not self.here:
            return "gone"
        if self.now.refused:
            return "refused"
        if not self.approved:
            return "new"
        return "approved" if self.approved == self.now.digest else "changed"


class ShownTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as people see it. `digest` is what a yes is given to, `suspicious` what is found in what it says."""

    tool: str
    called: str
    state: PinState
    digest: str
    description: str = ""
    schema: dict[str, Any] = {}
    reads_only: bool = False
    refused: str = ""
    before: str = ""
    before_schema: dict[str, Any] = {}
    suspicious: tuple[str, ...] = ()
    approved_at: int | None = None
    approved_by: str = ""


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as people see it. `offered` and `waiting` count its tools; it is tried again in `retry_in_s`."""

    name: str
    where: str
    state: str
    offered: int
    waiting: int
    problem: str = ""
    fails: int = 0
    retry_in_s: float = 0.0
    title: str = ""
    version: str = ""
    left_out: int = 0


class McpNews(msgspec.Struct):
    """Servers of which a commit has changed tools, by what was done."""

    done: list[tuple[Literal["found", "approved", "revoked"], str, int]] = []  # msgspec gives each its own
