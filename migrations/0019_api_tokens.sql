-- Who may use the API over the network. `hash` is the SHA-256 of a token, which is 32 random bytes and shown once.
CREATE TABLE api_tokens (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    may TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    used_from TEXT,
    revoked_at INTEGER
);
CREATE UNIQUE INDEX api_tokens_by_name ON api_tokens (name) WHERE revoked_at IS NULL;
