-- What limits ask for, summed: a call counts in one row for each path it counts for, in the transaction that reserves or
-- charges it. So a look at a limit reads three rows at most, however many agents and users lie below its path.

CREATE TABLE budget_sums (
    key TEXT NOT NULL, -- a day or a month, as in `spending`
    path TEXT NOT NULL, -- `/` is the whole installation
    -- 0: by calls at or below the path; 1: by those elsewhere that somebody at or below it has asked for; 2: by all
    -- users below the user whose path this is
    part INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    reserved_calls INTEGER NOT NULL,
    reserved_tokens INTEGER NOT NULL,
    reserved_micros INTEGER NOT NULL,
    reserved_ms INTEGER NOT NULL,
    PRIMARY KEY (key, path, part)
) WITHOUT ROWID;

INSERT INTO budget_sums
WITH RECURSIVE
    one (key, path, payer, user, calls, tokens, micros, ms, r_calls, r_tokens, r_micros, r_ms) AS MATERIALIZED (
        SELECT key, path, payer, substr(path, 2, instr(substr(path, 2) || '/', '/') - 1), calls + unsettled,
            input_tokens + output_tokens + unsettled_tokens, cost_micros + unsettled_micros, wall_ms + unsettled_ms,
            0, 0, 0, 0
        FROM spending
        UNION ALL
        SELECT form.key, path, payer, substr(path, 2, instr(substr(path, 2) || '/', '/') - 1), 0, 0, 0, 0,
            1, tokens, cost_micros, wall_ms
        FROM (SELECT no, day AS key FROM reservations UNION ALL SELECT no, substr(day, 1, 7) FROM reservations) form
            JOIN reservations USING (no)
    ),
    above (path, scope) AS (
        SELECT path, path FROM one
        UNION SELECT payer, payer FROM one WHERE payer <> ''
        -- without its last name; '' is above all
        UNION SELECT path, rtrim(rtrim(scope, replace(scope, '/', '')), '/') FROM above WHERE scope <> ''
    ),
    over (user, above) AS (
        SELECT id, parent FROM users WHERE parent IS NOT NULL
        UNION SELECT o.user, u.parent FROM over o JOIN users u ON u.id = o.above WHERE u.parent IS NOT NULL
    ),
    counted AS (
        SELECT key, iif(scope = '', '/', scope) AS scope, 0 AS part, calls, tokens, micros, ms, r_calls, r_tokens,
            r_micros, r_ms
        FROM one JOIN above USING (path)
        UNION ALL
        SELECT key, scope, 1, calls, tokens, micros, ms, r_calls, r_tokens, r_micros, r_ms
        FROM one JOIN above ON above.path = one.payer
        WHERE instr(substr(scope, 2), '/') AND substr(one.path || '/', 1, length(scope) + 1) <> scope || '/'
        UNION ALL
        SELECT key, '/' || above, 2, calls, tokens, micros, ms, r_calls, r_tokens, r_micros, r_ms
        FROM one JOIN over USING (user)
        WHERE above <> user
    )
SELECT key, scope, part, sum(calls), sum(tokens), sum(micros), sum(ms), sum(r_calls), sum(r_tokens), sum(r_micros),
    sum(r_ms)
FROM counted GROUP BY key, scope, part;

-- What helpers spent, to be found when it becomes their agent's.
CREATE INDEX spending_of_helpers ON spending (key)
    WHERE instr(path, '/sub/') OR instr(path, '/search/') OR substr(path, -7) = '/memory' OR instr(payer, '/sub/');
