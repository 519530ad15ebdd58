-- The turn that makes the call a person has approved: no other ever does.
ALTER TABLE approvals ADD COLUMN made_in INTEGER;

-- Calls that a person has approved in advance, by a pattern that they were shown: in one conversation, or until taken back.
CREATE TABLE call_grants (
    no INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: a button of before must take back no other
    request INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    by TEXT NOT NULL,
    session INTEGER,
    others INTEGER NOT NULL,
    pattern TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX call_grants_once ON call_grants (request);
CREATE INDEX call_grants_of ON call_grants (agent_id);
