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

-- With ten thousand lanes nobody can look at the first ticket of each. A stretch of a lane begins at or
-- before its first ticket, so this is the order in which lanes come up.
CREATE INDEX stretch_line ON stretch (urgency, since, id);

-- Those few that are looked at wherever they stand.
CREATE INDEX lane_apart ON lane (id) WHERE lender <> 0 OR view <> '';
CREATE INDEX ticket_overtaken ON ticket (lane) WHERE overtaken <> '';
CREATE INDEX ticket_heavy ON ticket (weight) WHERE weight > 1;
