-- Budgets: what paths may spend, what is reserved by calls that run, and sums of what was spent.

-- What somebody set for a path and all below it; `/` is the whole installation. Defaults stand in config.toml.
CREATE TABLE budgets (
    path TEXT PRIMARY KEY,
    limits TEXT NOT NULL, -- JSON: {"day.usd": 2000000}, in whole units; -1 lifts a default
    raises TEXT NOT NULL, -- JSON: {"2026-11-21": {"day.usd": 1000000}}
    set_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What a model call may take at most, from before it is made until it is charged. Numbers never come back.
CREATE TABLE reservations (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    day TEXT NOT NULL, -- of the calendar of its user
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL
);

-- Sums by day (`2026-11-21`) and by month (`2026-11`) of the user's calendar. A call counts in one row of each.
-- `unsettled` calls were cut off: they count as they were reserved, beside what others were charged.
CREATE TABLE spending (
    key TEXT NOT NULL,
    path TEXT NOT NULL,
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
    PRIMARY KEY (key, path, provider, model)
) WITHOUT ROWID;

-- Of which limits people were told that a share was reached, so that it is said once; `most` is what the limit was then.
CREATE TABLE budget_marks (
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    most INTEGER NOT NULL,
    share INTEGER NOT NULL,
    PRIMARY KEY (path, key, name, most, share)
) WITHOUT ROWID;

-- What was spent before there were sums, by days of UTC: nobody knows the zone people lived in then.
INSERT INTO spending (key, path, provider, model, user, calls, input_tokens, output_tokens, cached_tokens, cost_micros)
    SELECT strftime(form.text, s.at / 1000, 'unixepoch'), coalesce(a.path, '/' || s.user), s.provider, s.model, s.user,
        count(*), sum(s.input_tokens), sum(s.output_tokens), sum(s.cached_tokens), sum(s.cost_micros)
    FROM spend s LEFT JOIN agents a ON a.id = s.agent_id,
        (SELECT '%Y-%m-%d' AS text UNION ALL SELECT '%Y-%m') form
    WHERE s.provider <> 'offline'
    GROUP BY 1, 2, 3, 4;
