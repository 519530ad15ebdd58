-- Removing a user ends what is theirs and below them. Before, it forgot their own accounts alone: topics and sub-users
-- stayed let in, and agents, jobs and reminders went on. What was left of that ends here.

CREATE INDEX users_below ON users (parent) WHERE parent IS NOT NULL;

WITH RECURSIVE gone (id) AS (
    SELECT id FROM users WHERE removed_at IS NOT NULL
    UNION SELECT u.id FROM users u JOIN gone g ON u.parent = g.id
)
UPDATE users SET removed_at = strftime('%s', 'now') * 1000 WHERE removed_at IS NULL AND id IN (SELECT id FROM gone);
DELETE FROM user_connector_keys WHERE user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE agents SET state = 'dead', reason = 'its user was removed', ended_at = strftime('%s', 'now') * 1000
    WHERE state <> 'dead' AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE inbox SET state = 2, done_at = strftime('%s', 'now') * 1000, result = 'its user was removed'
    WHERE state IN (0, 3) AND agent_id IN
    (SELECT id FROM agents WHERE user IN (SELECT id FROM users WHERE removed_at IS NOT NULL));
UPDATE outbox SET state = 3, error = 'its user was removed'
    WHERE state < 2 AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE tasks SET settled = 1, state = 'failed', reason = 'its user was removed', ended_at = strftime('%s', 'now') * 1000
    WHERE ended_at IS NULL AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE cron_runs SET state = 'skipped', reason = 'its user was removed', post_at = NULL,
    ended_at = strftime('%s', 'now') * 1000
    WHERE state IN ('waiting', 'due') AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE cron_jobs SET removed_at = strftime('%s', 'now') * 1000, next_at = NULL
    WHERE removed_at IS NULL AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE approvals SET state = 'stale', why = 'its user was removed', decided_at = strftime('%s', 'now') * 1000
    WHERE state = 'pending' AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
UPDATE signals SET state = 'replaced', ended_at = strftime('%s', 'now') * 1000
    WHERE state = 'waiting' AND user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
DELETE FROM signal_subscriptions WHERE user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
DELETE FROM timers WHERE user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
DELETE FROM waits WHERE user IN (SELECT id FROM users WHERE removed_at IS NOT NULL);
