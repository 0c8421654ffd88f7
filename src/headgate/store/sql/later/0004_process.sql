-- What members tell of themselves: the version they are of, and when their process was started, as
-- the kernel tells it. A process of schema 3 does not know this table and has no row in it.
-- lives with: 3

CREATE TABLE process (
    member TEXT PRIMARY KEY,
    started INTEGER NOT NULL,
    version TEXT NOT NULL,
    schema INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Whoever removes a member may be a process of schema 3.
CREATE TRIGGER member_gone AFTER DELETE ON member BEGIN
    DELETE FROM process WHERE member = OLD.id;
END;
