-- What is added to a document is kept as just that: the text of such a version is the text of the version before, and
-- then this one's own. Older rows hold whole texts; upkeep makes them smaller by and by.
ALTER TABLE documents ADD COLUMN tail INTEGER NOT NULL DEFAULT 0; -- 1: `text` is what was added to the version before

-- Which documents have so many versions that some may be there no longer. Upkeep takes a document off this list once it
-- has looked at it, the next version puts it back.
CREATE TABLE documents_grown (
    layer TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (layer, owner, name)
) WITHOUT ROWID;
INSERT INTO documents_grown
    SELECT layer, owner, name, d.user, d.origin
    FROM (SELECT layer, owner, name, max(version) AS version FROM documents GROUP BY layer, owner, name) many
        JOIN documents d USING (layer, owner, name, version)
    WHERE many.version > 32;
