"""What narrows exported agents and jobs from outside of their own rows: who they were born of."""

import apsw
import msgspec

from daycare.base.path import Kind
from daycare.features.exports.records import JobBounds
from daycare.store.records import AgentConfig
from daycare.store.records_bounds import bound_by

_OWN_TOOLS = (Kind.SEARCH, Kind.MEMORY)  # those above do not narrow theirs
_decode_config = msgspec.json.Decoder(AgentConfig).decode


def bound_above(db: apsw.Connection, config: AgentConfig, kind: str, parent: str | None) -> AgentConfig:
    """Return settings of an agent as those above it bind it that are not exported with it: the dead count, too."""
    while parent is not None:
        row = db.execute(
            "SELECT parent, config, id IN (SELECT id FROM exported) FROM agents WHERE id = ?", (parent,)
        ).fetchone()
        if row is None or row[2]:
            break
        config = bound_by(config, _decode_config(str(row[1])), tools=kind not in _OWN_TOOLS)
        parent = None if row[0] is None else str(row[0])
    return config


def bounds_from(text: str) -> JobBounds:
    """Return what a job's row says of its agent."""
    config = _decode_config(text)
    return JobBounds(tools=config.tools, permissions=config.permissions, approvals=config.approvals)
