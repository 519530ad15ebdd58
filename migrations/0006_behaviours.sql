-- Behaviours: agents whose turns are code; and what upkeep looks for.

-- What such an agent keeps from turn to turn, JSON, with the turn that wrote it.
CREATE TABLE behaviour_states (
    agent_id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    turn INTEGER NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX agents_dead ON agents (ended_at) WHERE state = 'dead';
CREATE INDEX agents_by_parent ON agents (parent) WHERE parent IS NOT NULL;
