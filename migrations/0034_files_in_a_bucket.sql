-- nodes-from: 0032
-- Files whose bytes lie in a bucket: `object` is its name there, `sha256` of what was put there. An empty `object` is one
-- of which the bytes are here and are to be carried there.
ALTER TABLE files ADD COLUMN object TEXT;
ALTER TABLE files ADD COLUMN sha256 TEXT;
CREATE INDEX files_to_carry ON files (id) WHERE object = '';
CREATE INDEX files_by_object ON files (object) WHERE object <> '';

-- Objects that no row names any more: they are removed once that is committed.
CREATE TABLE gone_objects (
    object TEXT PRIMARY KEY,
    user TEXT NOT NULL DEFAULT '', -- nobody's any more
    origin TEXT NOT NULL DEFAULT 'system'
) WITHOUT ROWID;
CREATE TRIGGER files_object_left AFTER UPDATE OF object ON files WHEN old.object <> '' AND coalesce(new.object, '') <> old.object BEGIN
    INSERT INTO gone_objects (object) VALUES (old.object) ON CONFLICT (object) DO NOTHING;
END;
CREATE TRIGGER files_object_went AFTER DELETE ON files WHEN old.object <> '' BEGIN
    INSERT INTO gone_objects (object) VALUES (old.object) ON CONFLICT (object) DO NOTHING;
END;
