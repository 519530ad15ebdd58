-- The spine: people, agents, the two durable borders (inbox, outbox), and the journal between them.
-- Times are wall-clock milliseconds since the Unix epoch, UTC. Every row carries its user and its origin.

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    zone TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('person', 'group')),
    operator INTEGER NOT NULL DEFAULT 0,
    parent TEXT REFERENCES users (id),
    origin TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) WITHOUT ROWID;

-- 'telegram:123456' -> user; the reply's target is found the other way round.
CREATE TABLE user_connector_keys (
    connector_key TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users (id),
    origin TEXT NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX user_connector_keys_by_user ON user_connector_keys (user);

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    role TEXT,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    parent TEXT,
    state TEXT NOT NULL CHECK (state IN ('living', 'parked', 'dead')),
    config TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    session INTEGER NOT NULL DEFAULT 1,
    next_sub_index INTEGER NOT NULL DEFAULT 0,
    next_search_index INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    born TEXT, -- the call that made a helper, so that its repeat after a crash finds the first
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) WITHOUT ROWID;
CREATE UNIQUE INDEX agents_born ON agents (born) WHERE born IS NOT NULL;
CREATE UNIQUE INDEX agents_living_path ON agents (path) WHERE state <> 'dead';
CREATE INDEX agents_by_user ON agents (user, kind);
CREATE INDEX agents_by_path ON agents (path);

-- state: 0 waiting, 1 done, 2 dead, 3 held by a turn that was set aside (see `waits`). A done row keeps its key (and result) so that a repeat finds it; its text moves to
-- the history. lane: 0 control, 1 messages.
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    key TEXT NOT NULL,
    lane INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    sender TEXT NOT NULL,
    trace TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    turn INTEGER,
    created_at INTEGER NOT NULL,
    done_at INTEGER,
    text TEXT,
    extra TEXT,
    result TEXT
);
-- The key first: those of one source mostly rise, so that new entries lie side by side, in few pages a commit.
CREATE UNIQUE INDEX inbox_once ON inbox (key, agent_id);
CREATE INDEX inbox_waiting ON inbox (agent_id) WHERE state = 0; -- an index ends with the row number: in order of seq

CREATE TABLE sessions (
    agent_id TEXT NOT NULL,
    session INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    reason TEXT,
    PRIMARY KEY (agent_id, session)
) WITHOUT ROWID;

-- A turn names the inbox rows it works on before it starts; `attempt` counts tries, unclean stops included. It is open
-- as long as it has no row in `history`, and only an agent's newest can be.
CREATE TABLE turns (
    turn INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    session INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    trace TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seqs TEXT NOT NULL,
    retry_at INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    started_at INTEGER NOT NULL
);
CREATE INDEX turns_by_agent ON turns (agent_id);

-- How a turn ended, and its messages: a conversation is the list of its turns. Apart from `turns`, so that both tables
-- only grow at their end: a row that is never changed costs one write.
-- state: done, stopped, parked, split; a CHECK of four words would double the time of a write.
CREATE TABLE history (
    turn INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    session INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    state TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    error TEXT,
    messages TEXT NOT NULL
);

-- What stands in a prompt for the older turns of a session, up to the turn `through`; the turns stay in `history`.
CREATE TABLE summaries (
    agent_id TEXT NOT NULL,
    session INTEGER NOT NULL,
    through INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    turns INTEGER NOT NULL,
    text TEXT NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, session, through)
) WITHOUT ROWID;

-- The journal of a turn: each model call and tool call, so that finished ones are never repeated.
CREATE TABLE steps (
    turn INTEGER NOT NULL,
    step INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    idempotent INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (turn, step)
) WITHOUT ROWID;

-- Calls whose answer comes as a message. With `aside` their turn waits for it: it is no open turn meanwhile, its inbox
-- rows are held, and it goes on under a new number once an answer is there.
CREATE TABLE waits (
    key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    aside INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX waits_by_agent ON waits (agent_id);
CREATE INDEX waits_by_turn ON waits (turn);

-- state: 0 waiting, 1 sending, 2 sent, 3 dead.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    path TEXT NOT NULL,
    turn INTEGER,
    connector TEXT NOT NULL,
    target TEXT,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    trace TEXT NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    retry_at INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    sent_at INTEGER,
    receipt TEXT,
    error TEXT,
    text TEXT NOT NULL,
    parts_sent INTEGER NOT NULL DEFAULT 0, -- a long reply goes out in parts, each confirmed by itself
    extra TEXT
);
CREATE INDEX outbox_waiting ON outbox (connector) WHERE state < 2;
CREATE INDEX outbox_waiting_by_path ON outbox (path) WHERE state < 2;

CREATE TABLE dead_letters (
    no INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    seq INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    trace TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    replayed_at INTEGER
);
CREATE INDEX dead_letters_of_intake ON dead_letters (trace) WHERE source = 'intake';

CREATE TABLE timers (
    no INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    key TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    envelope TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX timers_once ON timers (agent_id, key);
CREATE INDEX timers_due ON timers (due_at);

CREATE TABLE events (
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT NOT NULL,
    trace TEXT NOT NULL,
    event TEXT NOT NULL
);

-- Money is counted in millionths of a US dollar.
CREATE TABLE spend (
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    step INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    UNIQUE (turn, step)
);

-- What people attach, and results of tools that are too long for a prompt. A file without data is still with its
-- platform: `remote` says where, and it is fetched when somebody reads it.
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB,
    remote TEXT,
    UNIQUE (user, key)
);

-- Who knocked and is nobody's key yet: a counter, and at most one pairing code at a time, whose hash is kept.
CREATE TABLE strangers (
    connector_key TEXT PRIMARY KEY,
    connector TEXT NOT NULL,
    user TEXT NOT NULL DEFAULT '', -- nobody yet
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    knocks INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    noticed_at INTEGER NOT NULL,
    denied INTEGER NOT NULL DEFAULT 0,
    code_hash TEXT,
    code_until INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX strangers_by_age ON strangers (connector, last_at);

-- What a connector remembers over restarts: where to read on, how long it was told to wait.
CREATE TABLE connector_memory (
    connector TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL DEFAULT '', -- the daemon's own
    origin TEXT NOT NULL DEFAULT 'system',
    value TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (connector, name)
) WITHOUT ROWID;

-- Documents: texts that people and agents keep, shown to them as files. Each row is a version; rows are only added. A
-- version without a text is a deletion. The text stands last, so that reading about versions does not read it.
CREATE TABLE documents (
    no INTEGER PRIMARY KEY,
    layer TEXT NOT NULL,
    owner TEXT NOT NULL, -- the agent's or the user's id, empty for global ones
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    author TEXT NOT NULL,
    approver TEXT NOT NULL,
    reason TEXT NOT NULL,
    provenance TEXT NOT NULL,
    hash TEXT NOT NULL,
    base_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    key TEXT NOT NULL,
    scope TEXT NOT NULL, -- layer and owner as one word of the index below
    created_at INTEGER NOT NULL,
    text TEXT
);
CREATE UNIQUE INDEX documents_line ON documents (layer, owner, name, version);
CREATE UNIQUE INDEX documents_once ON documents (layer, owner, name, key) WHERE key <> '';

-- The newest versions that are no deletions.
CREATE TABLE living_documents (
    layer TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    no INTEGER NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (layer, owner, name)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE documents_text USING fts5 (
    scope, name, text, content = 'documents', content_rowid = 'no', tokenize = 'porter unicode61'
);

-- What agents ask people for, and what was decided. A decision and what it does are one transaction. `root` is the
-- lasting agent's path, for whose helpers the bounds count, too.
CREATE TABLE approvals (
    no INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    path TEXT NOT NULL,
    root TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    decider TEXT NOT NULL,
    state TEXT NOT NULL,
    revision INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    salt TEXT NOT NULL,
    base_hash TEXT NOT NULL,
    reason TEXT NOT NULL,
    provenance TEXT NOT NULL,
    findings TEXT NOT NULL,
    trace TEXT NOT NULL,
    session INTEGER NOT NULL,
    edited_by TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    decided_by TEXT NOT NULL DEFAULT '',
    why TEXT NOT NULL DEFAULT '',
    version INTEGER,
    undone INTEGER,
    action TEXT NOT NULL
);
CREATE UNIQUE INDEX approvals_once ON approvals (key);
CREATE INDEX approvals_by_root ON approvals (root, created_at);
CREATE INDEX approvals_by_decider ON approvals (decider, state);
CREATE INDEX approvals_pending ON approvals (root) WHERE state = 'pending';

-- Which replies show which request, with which content.
CREATE TABLE approval_messages (
    outbox INTEGER PRIMARY KEY,
    no INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX approval_messages_by_request ON approval_messages (no);

-- What an agent asks for of one kind is approved at once for a while.
CREATE TABLE approval_grants (
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    by TEXT NOT NULL,
    until INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, kind)
) WITHOUT ROWID;

-- Encrypted; the key that opens them is never in this file.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    token BLOB NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Memories: what was said, and what was learned from it. Each scope (whose they are) has a number; a memory's is the
-- scope's in the high bits and one that rises within it in the low 32. So the rows of a scope are one range, here and
-- in every table with these numbers, and no read can leave it.
CREATE TABLE memory_scopes (
    no INTEGER PRIMARY KEY,
    scope TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    next INTEGER NOT NULL DEFAULT 1,
    living INTEGER NOT NULL DEFAULT 0, -- memories that are not forgotten
    words INTEGER NOT NULL DEFAULT 0, -- of these in the index
    changed INTEGER NOT NULL DEFAULT 0 -- the newest row of memory_changes
);

-- A memory without a text is forgotten: its hash is left. `indexed` is what the index has words of where that is not
-- the text; the index keeps no texts, so it has to be told again which words go. The text stands last, so that what is
-- about memories does not read it.
CREATE TABLE memories (
    no INTEGER PRIMARY KEY,
    tier TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    path TEXT NOT NULL,
    session INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    speaker TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    until_ms INTEGER,
    words INTEGER NOT NULL,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    document INTEGER, -- memory_documents.no
    version INTEGER,
    hash BLOB NOT NULL,
    extra TEXT, -- what is said of a fact or an entity, JSON
    indexed TEXT,
    text TEXT
);
CREATE INDEX memories_by_agent ON memories (agent_id) WHERE tier = 'log'; -- an index ends with the row number
CREATE INDEX memories_by_tier ON memories (tier) WHERE tier <> 'log';
CREATE INDEX memories_by_document ON memories (document) WHERE document IS NOT NULL;

-- The words as porter stems, each with the number of its scope before it: `7:hello`. So the postings of a word are those
-- of one scope, however many others use it. How often a memory has a word, and where, is not kept: in texts this short
-- it tells little.
CREATE VIRTUAL TABLE memory_words USING fts5 (
    words, content = '', detail = none, columnsize = 0, tokenize = "ascii tokenchars ':'"
);
CREATE VIRTUAL TABLE memory_postings USING fts5vocab (memory_words, instance);

-- From which log entries something was learned. Entries expire; of which turn they were stays known.
CREATE TABLE memory_sources (
    no INTEGER NOT NULL,
    source INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (no, source)
) WITHOUT ROWID;
CREATE INDEX memory_sources_by_source ON memory_sources (source);
CREATE INDEX memory_sources_by_turn ON memory_sources (turn);

-- What facts and entities are looked up by: subjects, names, aliases, without regard to case.
CREATE TABLE memory_names (
    name TEXT NOT NULL,
    no INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (name, no)
) WITHOUT ROWID;

-- How far the memory worker of an agent has come in its log (`through`), and what the log has of it.
CREATE TABLE memory_marks (
    agent_id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    through INTEGER NOT NULL DEFAULT 0,
    newest INTEGER NOT NULL DEFAULT 0,
    oldest INTEGER NOT NULL DEFAULT 0,
    oldest_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX memory_marks_uncurated ON memory_marks (newest) WHERE newest > through;
CREATE INDEX memory_marks_by_age ON memory_marks (oldest_at) WHERE oldest > 0;

-- Which turns are in the log, as ranges: what lies between two of them are turns that have not ended.
CREATE TABLE memory_logged (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    user TEXT NOT NULL DEFAULT '', -- everybody's
    origin TEXT NOT NULL DEFAULT 'system'
);

-- Which version of a document is in chunks. All rows of `documents` up to the number of the row without a name are.
CREATE TABLE memory_documents (
    no INTEGER PRIMARY KEY,
    layer TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (layer, owner, name)
);
INSERT INTO memory_documents (layer, owner, name, user, origin, version) VALUES ('', '', '', '', 'system', 0);

-- Which memories were changed or deleted, for what is kept of them elsewhere.
CREATE TABLE memory_changes (
    seq INTEGER PRIMARY KEY,
    no INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL
);

CREATE TABLE memory_models (
    no INTEGER PRIMARY KEY,
    model TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    user TEXT NOT NULL DEFAULT '', -- everybody's
    origin TEXT NOT NULL DEFAULT 'system'
);

-- How many vectors of a model a scope has.
CREATE TABLE memory_embedded (
    model INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    vectors INTEGER NOT NULL,
    PRIMARY KEY (model, scope)
) WITHOUT ROWID;

-- The key is the model's number in the high bits, and the memory's in the low 52: a scope's vectors are one range.
CREATE TABLE memory_vectors (
    key INTEGER PRIMARY KEY,
    hash BLOB NOT NULL, -- the beginning of the text's
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    data BLOB NOT NULL -- float16, little-endian
);
CREATE INDEX memory_vectors_by_hash ON memory_vectors (hash);

-- Turns whose words were forgotten, with the hash of what the history had.
CREATE TABLE forgotten_turns (
    turn INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    hash BLOB NOT NULL,
    at_ms INTEGER NOT NULL
);

-- Something was forgotten, and it is not certain yet that no page of the file shows it.
CREATE TABLE forgetting (
    no INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
