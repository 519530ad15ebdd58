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

-- How many there are of each, as in 0014.
INSERT INTO counts
    SELECT 'files.placed', count(*) FROM files WHERE object <> ''
    UNION ALL SELECT 'files.waiting', count(*) FROM files WHERE object = ''
    UNION ALL SELECT 'files.gone', count(*) FROM gone_objects;

CREATE TRIGGER files_came AFTER INSERT ON files WHEN new.object IS NOT NULL BEGIN
    UPDATE counts SET number = number + 1
        WHERE name = CASE WHEN new.object = '' THEN 'files.waiting' ELSE 'files.placed' END;
END;
CREATE TRIGGER files_changed_from AFTER UPDATE OF object ON files WHEN old.object IS NOT NULL BEGIN
    UPDATE counts SET number = number - 1
        WHERE name = CASE WHEN old.object = '' THEN 'files.waiting' ELSE 'files.placed' END;
END;
CREATE TRIGGER files_changed_to AFTER UPDATE OF object ON files WHEN new.object IS NOT NULL BEGIN
    UPDATE counts SET number = number + 1
        WHERE name = CASE WHEN new.object = '' THEN 'files.waiting' ELSE 'files.placed' END;
END;
CREATE TRIGGER files_went AFTER DELETE ON files WHEN old.object IS NOT NULL BEGIN
    UPDATE counts SET number = number - 1
        WHERE name = CASE WHEN old.object = '' THEN 'files.waiting' ELSE 'files.placed' END;
END;
CREATE TRIGGER gone_objects_came AFTER INSERT ON gone_objects BEGIN
    UPDATE counts SET number = number + 1 WHERE name = 'files.gone';
END;
CREATE TRIGGER gone_objects_went AFTER DELETE ON gone_objects BEGIN
    UPDATE counts SET number = number - 1 WHERE name = 'files.gone';
END;
