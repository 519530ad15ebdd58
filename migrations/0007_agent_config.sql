-- Settings of agents that nobody reads any more: what may be spent stands in `budgets`, and rights have one form.

UPDATE agents SET config = json_remove(config, '$.budget') WHERE json_type(config, '$.budget') IS NOT NULL;
UPDATE agents SET config = json_remove(config, '$.permissions')
    WHERE json_type(config, '$.permissions') IS NOT NULL AND json_type(config, '$.permissions.rules') IS NOT 'array';
