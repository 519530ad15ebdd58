-- How many there are of what is asked for often, counted as it changes: whatever changes a row changes its count, in the
-- same transaction. And ways to find what was looked for in all rows of a table.

CREATE TABLE counts (
    name TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counts
    SELECT 'agents.living', count(*) FROM agents WHERE state = 'living' AND kind <> 'system'
    UNION ALL SELECT 'agents.parked', count(*) FROM agents WHERE state = 'parked' AND kind <> 'system'
    UNION ALL SELECT 'agents.dead', count(*) FROM agents WHERE state = 'dead' AND kind <> 'system'
    UNION ALL SELECT 'outbox.waiting', count(*) FROM outbox WHERE state < 2
    UNION ALL SELECT 'dead.waiting', count(*) FROM dead_letters WHERE replayed_at IS NULL
    UNION ALL SELECT 'approvals.pending', count(*) FROM approvals WHERE state = 'pending'
    UNION ALL SELECT 'cron.jobs', count(*) FROM cron_jobs WHERE removed_at IS NULL
    UNION ALL SELECT 'cron.paused', count(*) FROM cron_jobs WHERE removed_at IS NULL AND paused
    UNION ALL SELECT 'memories', coalesce(sum(living), 0) FROM memory_scopes
    -- of all months there are
    UNION ALL SELECT 'spent.input_tokens', coalesce(sum(input_tokens), 0) FROM spending WHERE length(key) = 7
    UNION ALL SELECT 'spent.output_tokens', coalesce(sum(output_tokens), 0) FROM spending WHERE length(key) = 7
    UNION ALL SELECT 'spent.cost_micros', coalesce(sum(cost_micros + unsettled_micros), 0) FROM spending
        WHERE length(key) = 7;

CREATE TRIGGER agents_came AFTER INSERT ON agents WHEN new.kind <> 'system' BEGIN
    UPDATE counts SET number = number + 1 WHERE name = 'agents.' || new.state;
END;
CREATE TRIGGER agents_changed AFTER UPDATE OF state ON agents WHEN new.kind <> 'system' AND old.state <> new.state BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'agents.' || old.state;
    UPDATE counts SET number = number + 1 WHERE name = 'agents.' || new.state;
END;
CREATE TRIGGER agents_went AFTER DELETE ON agents WHEN old.kind <> 'system' BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'agents.' || old.state;
END;

CREATE TRIGGER outbox_came AFTER INSERT ON outbox WHEN new.state < 2 BEGIN
    UPDATE counts SET number = number + 1 WHERE name = 'outbox.waiting';
END;
CREATE TRIGGER outbox_changed AFTER UPDATE OF state ON outbox WHEN (old.state < 2) <> (new.state < 2) BEGIN
    UPDATE counts SET number = number + (new.state < 2) - (old.state < 2) WHERE name = 'outbox.waiting';
END;
CREATE TRIGGER outbox_went AFTER DELETE ON outbox WHEN old.state < 2 BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'outbox.waiting';
END;

CREATE TRIGGER dead_letters_came AFTER INSERT ON dead_letters WHEN new.replayed_at IS NULL BEGIN
    UPDATE counts SET number = number + 1 WHERE name = 'dead.waiting';
END;
CREATE TRIGGER dead_letters_changed AFTER UPDATE OF replayed_at ON dead_letters BEGIN
    UPDATE counts SET number = number + (new.replayed_at IS NULL) - (old.replayed_at IS NULL)
        WHERE name = 'dead.waiting';
END;
CREATE TRIGGER dead_letters_went AFTER DELETE ON dead_letters WHEN old.replayed_at IS NULL BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'dead.waiting';
END;

CREATE TRIGGER approvals_came AFTER INSERT ON approvals WHEN new.state = 'pending' BEGIN
    UPDATE counts SET number = number + 1 WHERE name = 'approvals.pending';
END;
CREATE TRIGGER approvals_changed AFTER UPDATE OF state ON approvals
WHEN (old.state = 'pending') <> (new.state = 'pending') BEGIN
    UPDATE counts SET number = number + (new.state = 'pending') - (old.state = 'pending')
        WHERE name = 'approvals.pending';
END;
CREATE TRIGGER approvals_went AFTER DELETE ON approvals WHEN old.state = 'pending' BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'approvals.pending';
END;

CREATE TRIGGER cron_jobs_came AFTER INSERT ON cron_jobs WHEN new.removed_at IS NULL BEGIN
    UPDATE counts SET number = number + iif(name = 'cron.jobs', 1, new.paused) WHERE name IN ('cron.jobs', 'cron.paused');
END;
CREATE TRIGGER cron_jobs_changed AFTER UPDATE OF removed_at, paused ON cron_jobs BEGIN
    UPDATE counts SET number = number + (new.removed_at IS NULL) - (old.removed_at IS NULL) WHERE name = 'cron.jobs';
    UPDATE counts SET number = number + (new.removed_at IS NULL AND new.paused) - (old.removed_at IS NULL AND old.paused)
        WHERE name = 'cron.paused';
END;
CREATE TRIGGER cron_jobs_went AFTER DELETE ON cron_jobs WHEN old.removed_at IS NULL BEGIN
    UPDATE counts SET number = number - iif(name = 'cron.jobs', 1, old.paused) WHERE name IN ('cron.jobs', 'cron.paused');
END;

CREATE TRIGGER memory_scopes_came AFTER INSERT ON memory_scopes WHEN new.living <> 0 BEGIN
    UPDATE counts SET number = number + new.living WHERE name = 'memories';
END;
CREATE TRIGGER memory_scopes_changed AFTER UPDATE OF living ON memory_scopes BEGIN
    UPDATE counts SET number = number + new.living - old.living WHERE name = 'memories';
END;
CREATE TRIGGER memory_scopes_went AFTER DELETE ON memory_scopes WHEN old.living <> 0 BEGIN
    UPDATE counts SET number = number - old.living WHERE name = 'memories';
END;

CREATE TRIGGER spending_came AFTER INSERT ON spending WHEN length(new.key) = 7 BEGIN
    UPDATE counts SET number = number + new.input_tokens WHERE name = 'spent.input_tokens';
    UPDATE counts SET number = number + new.output_tokens WHERE name = 'spent.output_tokens';
    UPDATE counts SET number = number + new.cost_micros + new.unsettled_micros WHERE name = 'spent.cost_micros';
END;
CREATE TRIGGER spending_changed AFTER UPDATE ON spending WHEN length(new.key) = 7 BEGIN
    UPDATE counts SET number = number + new.input_tokens - old.input_tokens WHERE name = 'spent.input_tokens';
    UPDATE counts SET number = number + new.output_tokens - old.output_tokens WHERE name = 'spent.output_tokens';
    UPDATE counts SET number = number + new.cost_micros - old.cost_micros + new.unsettled_micros - old.unsettled_micros
        WHERE name = 'spent.cost_micros';
END;
CREATE TRIGGER spending_went AFTER DELETE ON spending WHEN length(old.key) = 7 BEGIN
    UPDATE counts SET number = number - old.input_tokens WHERE name = 'spent.input_tokens';
    UPDATE counts SET number = number - old.output_tokens WHERE name = 'spent.output_tokens';
    UPDATE counts SET number = number - old.cost_micros - old.unsettled_micros WHERE name = 'spent.cost_micros';
END;

-- How many memories have a vector of a model, in all scopes together.
ALTER TABLE memory_models ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0;
UPDATE memory_models SET vectors = coalesce((SELECT sum(e.vectors) FROM memory_embedded e WHERE e.model = no), 0);
CREATE TRIGGER memory_embedded_came AFTER INSERT ON memory_embedded BEGIN
    UPDATE memory_models SET vectors = vectors + new.vectors WHERE no = new.model;
END;
CREATE TRIGGER memory_embedded_changed AFTER UPDATE OF vectors ON memory_embedded BEGIN
    UPDATE memory_models SET vectors = vectors + new.vectors - old.vectors WHERE no = new.model;
END;
CREATE TRIGGER memory_embedded_went AFTER DELETE ON memory_embedded BEGIN
    UPDATE memory_models SET vectors = vectors - old.vectors WHERE no = old.model;
END;

CREATE INDEX users_by_parent ON users (parent) WHERE parent IS NOT NULL;
CREATE INDEX users_operating ON users (id) WHERE operator AND removed_at IS NULL;
CREATE INDEX agents_parked ON agents (path) WHERE state = 'parked';
CREATE INDEX dead_letters_waiting ON dead_letters (created_at) WHERE replayed_at IS NULL;
CREATE INDEX dead_letters_by_path ON dead_letters (path);
CREATE INDEX agents_helping ON agents (id) WHERE kind IN ('sub', 'search') AND state = 'living';
CREATE INDEX approval_messages_open ON approval_messages (created_at) WHERE content_hash <> '';
CREATE INDEX cron_jobs_by_source ON cron_jobs (source) WHERE removed_at IS NULL;
CREATE INDEX cron_jobs_by_user ON cron_jobs (user) WHERE removed_at IS NULL;
CREATE INDEX cron_jobs_by_key ON cron_jobs (key);
