-- Jobs that were decided on at a time that is still to come, as the clock was set back, without going through all.

CREATE INDEX cron_jobs_updated ON cron_jobs (updated_at) WHERE next_at IS NOT NULL;
