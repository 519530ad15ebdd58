-- Tasks that scheduled jobs start, and whose budget besides its own a task counts for.

ALTER TABLE tasks ADD COLUMN payer TEXT NOT NULL DEFAULT ''; -- path of the agent that asked, or of the job; empty: nobody
UPDATE tasks SET payer = asker;
ALTER TABLE cron_runs ADD COLUMN task TEXT NOT NULL DEFAULT ''; -- path of the task that does the work of this run

-- What narrows the agent that made a job narrows the job's own: settings, JSON.
ALTER TABLE cron_jobs ADD COLUMN bounds TEXT NOT NULL DEFAULT '{}';

ALTER TABLE reservations ADD COLUMN payer TEXT NOT NULL DEFAULT '';

CREATE TABLE charged (
    key TEXT NOT NULL,
    path TEXT NOT NULL,
    payer TEXT NOT NULL, -- counts for this path, too, and for all above it
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    user TEXT NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    cost_micros INTEGER NOT NULL DEFAULT 0,
    wall_ms INTEGER NOT NULL DEFAULT 0,
    unsettled INTEGER NOT NULL DEFAULT 0,
    unsettled_tokens INTEGER NOT NULL DEFAULT 0,
    unsettled_micros INTEGER NOT NULL DEFAULT 0,
    unsettled_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (key, path, payer, provider, model)
) WITHOUT ROWID;
INSERT INTO charged
    SELECT key, path, '', provider, model, user, calls, unpriced, input_tokens, output_tokens, cached_tokens,
        cost_micros, wall_ms, unsettled, unsettled_tokens, unsettled_micros, unsettled_ms
    FROM spending;
DROP TABLE spending;
ALTER TABLE charged RENAME TO spending;
CREATE INDEX spending_charged ON spending (key, payer) WHERE payer <> '';
