-- What agents have changed in their workspaces, with what stood there before, so that it can be taken back.
CREATE TABLE file_changes (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    folder TEXT NOT NULL,
    file TEXT NOT NULL,
    before BLOB,
    before_hash TEXT NOT NULL,
    after_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    clean INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    undone_at INTEGER
);
CREATE INDEX file_changes_by_folder ON file_changes (folder, no);
CREATE INDEX file_changes_by_content ON file_changes (folder, file, after_hash);
