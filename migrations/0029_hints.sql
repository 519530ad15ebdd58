-- What helps where a turn was given up.
ALTER TABLE history ADD COLUMN hint TEXT NOT NULL DEFAULT '';
