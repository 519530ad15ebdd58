-- Where programs outside may deliver what happened. Secrets are among `secrets`, as webhook:NAME and webhook:NAME:older.
CREATE TABLE webhooks (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    scheme TEXT NOT NULL,
    path TEXT NOT NULL,
    signal TEXT NOT NULL,
    events TEXT NOT NULL,
    template TEXT NOT NULL,
    instruction TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    older_until INTEGER,
    accepted INTEGER NOT NULL DEFAULT 0,
    repeated INTEGER NOT NULL DEFAULT 0,
    ignored INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    accepted_at INTEGER,
    accepted_event TEXT NOT NULL DEFAULT '',
    refused_at INTEGER,
    refused_why TEXT NOT NULL DEFAULT ''
);
