-- Signals: named events of a user, and the agents that want to hear of them; and heartbeats of agents.

-- state: waiting, fired, replaced. What became of a fired one stands in `deliveries`, for each agent that wanted it.
CREATE TABLE signals (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    origin TEXT NOT NULL, -- agent, system (the daemon), person
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    sender TEXT NOT NULL, -- path of the agent that sent it, or that it tells of; empty: a person
    sender_id TEXT NOT NULL,
    trace TEXT NOT NULL,
    via TEXT NOT NULL, -- JSON: by whose turns it came about
    key TEXT NOT NULL, -- a later one of the same user, type and key replaces this one while it waits
    call TEXT NOT NULL, -- what sent it, so that its repeat finds the first
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    ended_at INTEGER,
    deliveries TEXT NOT NULL DEFAULT '[]' -- JSON
);
CREATE UNIQUE INDEX signals_once ON signals (call);
CREATE UNIQUE INDEX signals_repeated ON signals (user, type, key) WHERE state = 'waiting' AND key <> '';
CREATE INDEX signals_waiting ON signals (user) WHERE state = 'waiting';
CREATE INDEX signals_due ON signals (due_at) WHERE state = 'waiting';
CREATE INDEX signals_by_sender ON signals (sender_id, created_at);
CREATE INDEX signals_by_user ON signals (user); -- an index ends with the row number

CREATE TABLE signal_subscriptions (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL, -- person or agent, whoever subscribed it
    pattern TEXT NOT NULL,
    silent INTEGER NOT NULL, -- a note in the conversation, no turn
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX signal_subscriptions_once ON signal_subscriptions (agent_id, pattern);
CREATE INDEX signal_subscriptions_by_user ON signal_subscriptions (user);

-- Of the agents among whose settings a heartbeat stands: since when, and the last beat.
CREATE TABLE heartbeats (
    agent_id TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0,
    beat_at INTEGER,
    seq INTEGER -- inbox.seq of the last beat
) WITHOUT ROWID;
CREATE INDEX agents_with_heartbeat ON agents (id) WHERE state = 'living' AND instr(config, '"heartbeat_s":') > 0;
