-- Dead letters have one bound for all. Whoever has most makes room: a person with everybody below them, a group with its
-- topics (`share`; empty: nobody knows whose). Before, one person's could push out those of everybody else.

ALTER TABLE dead_letters ADD COLUMN share TEXT NOT NULL DEFAULT '';
UPDATE dead_letters SET share = coalesce((
    WITH RECURSIVE above (id, parent) AS (
        SELECT id, parent FROM users WHERE id = dead_letters.user
        UNION SELECT u.id, u.parent FROM users u JOIN above a ON u.id = a.parent
    )
    SELECT id FROM above WHERE parent IS NULL
), user);
CREATE INDEX dead_letters_by_share ON dead_letters (share); -- an index ends with the row number

-- How many were dropped to make room, of whom and when, until they are pruned.
CREATE TABLE dropped_letters (
    user TEXT PRIMARY KEY,
    origin TEXT NOT NULL DEFAULT 'system',
    letters INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL
) WITHOUT ROWID;
