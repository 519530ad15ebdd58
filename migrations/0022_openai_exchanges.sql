-- What programs said to agents over OpenAI's protocol, so that they can go on from it: by `previous`, the ref of another
-- one, or by the name of a conversation. The answer is the result of the message `seq`.
CREATE TABLE openai_exchanges (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    ref TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    model TEXT NOT NULL,
    conversation TEXT NOT NULL,
    previous TEXT NOT NULL,
    instructions TEXT NOT NULL,
    said TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX openai_exchanges_by_conversation ON openai_exchanges (user, model, conversation);
CREATE INDEX openai_exchanges_by_agent ON openai_exchanges (agent_id);
