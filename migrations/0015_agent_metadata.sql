-- Settings of agents that nothing ever read.
UPDATE agents SET config = json_remove(config, '$.username', '$.workspace')
    WHERE json_type(config, '$.username') IS NOT NULL OR json_type(config, '$.workspace') IS NOT NULL;
UPDATE cron_jobs SET bounds = json_remove(bounds, '$.username', '$.workspace')
    WHERE json_type(bounds, '$.username') IS NOT NULL OR json_type(bounds, '$.workspace') IS NOT NULL;
