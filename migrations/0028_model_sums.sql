-- What models took each day, of all who called them: what is looked at most, over more rows than anything else. The sums
-- change in the transaction that changes `spending`, and are exactly what could be counted there.
CREATE TABLE model_sums (
    key TEXT NOT NULL, -- a day
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    unsettled INTEGER NOT NULL,
    unsettled_micros INTEGER NOT NULL,
    PRIMARY KEY (key, provider, model)
) WITHOUT ROWID;

INSERT INTO model_sums
    SELECT key, provider, model, sum(calls), sum(unpriced), sum(input_tokens), sum(output_tokens), sum(cached_tokens),
        sum(cost_micros), sum(wall_ms), sum(unsettled), sum(unsettled_micros)
    FROM spending WHERE length(key) = 10
    GROUP BY key, provider, model;
