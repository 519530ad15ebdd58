-- Scheduled jobs, and a ledger of each time that one was due.

-- A removed job keeps its row, for the ledger; its name is free again. `spec` is how people wrote it, JSON.
CREATE TABLE cron_jobs (
    no INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    source TEXT NOT NULL, -- config, file, cli, agent
    source_ref TEXT NOT NULL, -- the file, or the agent's path
    key TEXT NOT NULL, -- of the call that made it, so that its repeat finds the first
    spec TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER, -- NULL: it is due no more, or not for now
    revision INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    removed_at INTEGER
);
CREATE UNIQUE INDEX cron_jobs_path ON cron_jobs (path) WHERE removed_at IS NULL;
CREATE INDEX cron_jobs_due ON cron_jobs (next_at) WHERE next_at IS NOT NULL;

-- state: waiting (to be posted at `post_at`), due (it is in the inbox), ran, late, missed, skipped, failed. A row with a
-- count above 1 sums up so many that were missed, from due_at to until_at.
CREATE TABLE cron_runs (
    no INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    by_hand INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, -- how often it was posted
    parameters TEXT, -- of a run by hand, JSON
    created_at INTEGER NOT NULL, -- when it was decided on
    post_at INTEGER, -- while it is waiting
    after_turn INTEGER NOT NULL DEFAULT 0, -- turns up to here were there before it
    agent_id TEXT,
    seq INTEGER, -- inbox.seq
    trace TEXT NOT NULL DEFAULT '',
    turn INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    tokens INTEGER NOT NULL DEFAULT 0,
    cost_micros INTEGER NOT NULL DEFAULT 0,
    outbox INTEGER -- outbox.seq of the answer
);
CREATE UNIQUE INDEX cron_runs_once ON cron_runs (job, due_at);
CREATE INDEX cron_runs_open ON cron_runs (job) WHERE state IN ('waiting', 'due');
CREATE INDEX cron_runs_due ON cron_runs (seq) WHERE state = 'due';
CREATE INDEX cron_runs_waiting ON cron_runs (post_at) WHERE state = 'waiting';
CREATE INDEX agents_cron ON agents (path) WHERE kind = 'cron' AND state <> 'dead';
CREATE INDEX cron_runs_by_user ON cron_runs (user);
CREATE INDEX cron_runs_answered ON cron_runs (outbox) WHERE outbox IS NOT NULL;
