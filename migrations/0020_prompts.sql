-- What models were shown. A prompt is kept by what it was made of: sections that stay from turn to turn once each, by
-- their hash; numbers of memories; and which turns and which summary stood in it. `hash` is of all of it, so that what
-- is made again from these rows can be compared.
CREATE TABLE prompt_texts (
    no INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, as layouts name it
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL, -- compressed, without the mark of its session
    UNIQUE (user, hash)
);

-- An agent has one layout until something in it changes, which begins the next. `parts` are [name, number of the text,
-- whether it was cut], the last are the tools.
CREATE TABLE prompt_layouts (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    zone TEXT NOT NULL,
    room INTEGER NOT NULL,
    images INTEGER,
    image_max_bytes INTEGER NOT NULL,
    parts TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX prompt_layouts_by_agent ON prompt_layouts (agent_id);

-- One row for the calls of a turn whose prompts differ by the turn's own messages only, from `said_first` of them to `said`.
-- `recalled` are numbers of memories, each as what it adds to the one before; `kept` are the turn's messages where they
-- are not those of its history.
CREATE TABLE prompts (
    turn INTEGER NOT NULL,
    said INTEGER NOT NULL,
    said_first INTEGER NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    layout INTEGER NOT NULL,
    summary INTEGER NOT NULL,
    first INTEGER NOT NULL,
    recalled BLOB,
    kept BLOB,
    hash BLOB NOT NULL,
    PRIMARY KEY (turn, said)
) WITHOUT ROWID;
