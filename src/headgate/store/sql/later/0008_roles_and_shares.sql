-- Roles that work carries, and how tasks share a pool. Each fact has a table of its own. Tickets that need
-- any of this stand in lanes that processes of older schemas let nobody out of (`store/lane_codec.py`).
-- lives with: 3

-- Of leases, tickets and jobs. Those without a role have no row.
CREATE TABLE work_role (
    work INTEGER PRIMARY KEY,
    roles TEXT NOT NULL
) STRICT;

-- What was set by hand: the most that one task may hold (a number, or the word 'unlimited'), and who is next.
CREATE TABLE pool_share (
    name TEXT PRIMARY KEY,
    per_task ANY,
    ordering TEXT
) WITHOUT ROWID, STRICT;
CREATE TRIGGER pool_share_added AFTER INSERT ON pool_share BEGIN
    INSERT INTO pool_change (name) VALUES (NEW.name);
END;
CREATE TRIGGER pool_share_changed AFTER UPDATE ON pool_share BEGIN
    INSERT INTO pool_change (name) VALUES (NEW.name);
END;
CREATE TRIGGER pool_share_gone AFTER DELETE ON pool_share BEGIN
    INSERT INTO pool_change (name) VALUES (OLD.name);
END;

-- When each task had its last turn, in places where tasks take turns.
CREATE TABLE task_turn (
    place TEXT NOT NULL,
    task TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (place, task)
) WITHOUT ROWID, STRICT;
CREATE INDEX task_turn_latest ON task_turn (place, at);

-- Where the lanes of single tasks come up: at or before the turn of the first ticket, which may be long
-- after that ticket's own place.
CREATE TABLE task_lane (
    lane INTEGER PRIMARY KEY,
    urgency INTEGER NOT NULL,
    due INTEGER NOT NULL
) STRICT;
CREATE INDEX task_lane_line ON task_lane (urgency, due, lane);
CREATE TRIGGER task_lane_gone AFTER DELETE ON lane WHEN OLD.view <> '' BEGIN
    DELETE FROM task_lane WHERE lane = OLD.id;
END;

-- Those few that are looked at wherever they stand.
CREATE INDEX lane_odd ON lane (id)
WHERE lender <> 0 OR (view <> '' AND view NOT GLOB 'headgate.task/*' AND view NOT GLOB 'headgate.role/*');
