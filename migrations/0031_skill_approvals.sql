-- Which skills people have approved, by the hash of all their files; what they said then shows what has changed since.
CREATE TABLE skill_approvals (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    hash TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    place TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    by TEXT NOT NULL,
    text TEXT NOT NULL,
    files TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (scope, place, name, hash)
);
