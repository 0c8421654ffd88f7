-- With ten thousand pools nobody can read all of them for every decision. Whoever has read them once
-- learns here which have changed since. Triggers write it, so that processes of older schemas do too.
-- lives with: 3

CREATE TABLE pool_change (
    seq INTEGER PRIMARY KEY, -- only the oldest are ever removed, so no number comes twice
    name TEXT NOT NULL
) STRICT;
INSERT INTO pool_change VALUES (1, '');

CREATE TRIGGER pool_added AFTER INSERT ON pool BEGIN
    INSERT INTO pool_change (name) VALUES (NEW.name);
    DELETE FROM pool_change WHERE seq < (SELECT max(seq) FROM pool_change) - 1000;
END;
CREATE TRIGGER pool_changed AFTER UPDATE ON pool BEGIN
    INSERT INTO pool_change (name) VALUES (NEW.name);
END;
CREATE TRIGGER pool_gone AFTER DELETE ON pool BEGIN
    INSERT INTO pool_change (name) VALUES (OLD.name);
END;
