-- Which of several that had one number, one after the other: a copy elsewhere that was made of another is none of it.
ALTER TABLE memory_scopes ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory_models ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
