-- Tools of servers that speak the Model Context Protocol, as a person has approved of them and as they are now.
CREATE TABLE mcp_tools (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    found TEXT NOT NULL,
    definition TEXT NOT NULL,
    here INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    approved TEXT NOT NULL DEFAULT '',
    approved_definition TEXT NOT NULL DEFAULT '',
    approved_at INTEGER,
    approved_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (server, tool)
) WITHOUT ROWID;
