"""MCP servers: whether what they need is here."""

from collections.abc import Iterator
from importlib.util import find_spec

from daycare.features.shell.sandbox import why_not
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding


def mcp(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the protocol's library is installed and, for programs, a sandbox starts. How each is says health."""
    servers = context.config.mcp
    if not servers:
        return
    if find_spec("mcp") is None:
        yield DoctorFinding("fail", "mcp", "the library of the protocol is not installed", "pip install 'daycare[mcp]'")
        return
    confined = [name for name, it in servers.items() if it.command and it.sandbox]
    why, hint = why_not() if confined else ("", "")
    if why:
        yield DoctorFinding("fail", "mcp", f"{', '.join(confined)} cannot be started: {why}", hint)
    for name in (name for name, it in servers.items() if not it.allow):
        yield DoctorFinding("warn", "mcp", f"no agent may use {name}", f"[mcp.{name}] allow in config.toml")
    if not why:
        yield DoctorFinding("ok", "mcp", f"what {len(servers)} servers need is here")
