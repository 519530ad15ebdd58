-- Tasks: one-off work in the background, by an agent of its own.

-- state: waiting, running, done, failed, cancelled, expired. What it came to is the result of its message in the inbox.
CREATE TABLE tasks (
    no INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL, -- person or agent, whoever asked
    asker TEXT NOT NULL, -- path of the agent that asked; empty: a person
    key TEXT NOT NULL, -- of the call that made it, so that its repeat finds the first
    prompt TEXT NOT NULL,
    parameters TEXT NOT NULL, -- JSON
    deliver TEXT NOT NULL, -- a person's conversation, or none; empty: the most recent
    connector TEXT NOT NULL, -- by which the person asked, and where on it
    target TEXT,
    waits INTEGER NOT NULL, -- the agent that asked has set its turn aside for the answer
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    progress TEXT NOT NULL DEFAULT '[]', -- the newest lines, JSON
    settled INTEGER NOT NULL DEFAULT 0, -- whoever asked knows how it ended, and its agent was told to go
    after_turn INTEGER NOT NULL, -- turns up to here were there before it
    agent_id TEXT NOT NULL,
    seq INTEGER NOT NULL, -- inbox.seq
    trace TEXT NOT NULL,
    turn INTEGER,
    created_at INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    tokens INTEGER NOT NULL DEFAULT 0,
    cost_micros INTEGER NOT NULL DEFAULT 0,
    outbox INTEGER -- outbox.seq of what a person was told
);
CREATE INDEX tasks_path ON tasks (path);
CREATE UNIQUE INDEX tasks_key ON tasks (key);
CREATE INDEX tasks_by_user ON tasks (user);
CREATE INDEX tasks_open ON tasks (seq) WHERE ended_at IS NULL;
CREATE INDEX tasks_unsettled ON tasks (no) WHERE settled = 0;
CREATE INDEX tasks_of_agent ON tasks (agent_id);
CREATE INDEX tasks_answered ON tasks (outbox) WHERE outbox IS NOT NULL;
