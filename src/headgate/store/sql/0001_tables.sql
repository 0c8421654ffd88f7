-- One row per fact. What is used is counted from the rows of `lease` and `rest` in the transaction
-- that decides; there is no counter that could drift.
-- lives with: 1

CREATE TABLE note (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE sequence (last INTEGER NOT NULL) STRICT;
INSERT INTO sequence VALUES (0);

-- What was set by hand. "limit" is a number of seats, or the word 'unlimited'.
CREATE TABLE pool (
    name TEXT PRIMARY KEY,
    "limit" ANY,
    cooldown INTEGER,
    paused_until INTEGER,
    pause_note TEXT NOT NULL
) WITHOUT ROWID, STRICT;

-- A lane exists while someone waits in it.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    machine TEXT NOT NULL,
    key TEXT NOT NULL,
    cls TEXT NOT NULL,
    lender INTEGER NOT NULL,
    view TEXT NOT NULL,
    waiting INTEGER NOT NULL,
    UNIQUE (machine, key, cls, lender, view)
) STRICT;

CREATE TABLE ticket (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    urgency INTEGER NOT NULL,
    since INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    task TEXT NOT NULL,
    member TEXT NOT NULL,
    label TEXT NOT NULL,
    marked INTEGER NOT NULL,
    overtaken TEXT NOT NULL
) STRICT;
CREATE INDEX ticket_line ON ticket (lane, urgency, since, id);
CREATE INDEX ticket_member ON ticket (member);

-- Each lane is cut into stretches of at most a thousand tickets. A stretch begins at a place in the
-- line and knows how many tickets it has, so a position is a sum over stretches, not over tickets.
CREATE TABLE stretch (
    lane INTEGER NOT NULL,
    urgency INTEGER NOT NULL,
    since INTEGER NOT NULL,
    id INTEGER NOT NULL,
    tickets INTEGER NOT NULL,
    PRIMARY KEY (lane, urgency, since, id)
) WITHOUT ROWID, STRICT;

-- No indexes beside the id: there are as many leases as there are seats, and each index would be
-- one more page to write, and to wait for, whenever a seat is taken or given back.
CREATE TABLE lease (
    id INTEGER PRIMARY KEY,
    machine TEXT NOT NULL,
    key TEXT NOT NULL,
    cls TEXT NOT NULL,
    urgency INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    task TEXT NOT NULL,
    member TEXT NOT NULL,
    label TEXT NOT NULL,
    marked INTEGER NOT NULL,
    granted INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    lender INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    cancel TEXT NOT NULL
) STRICT;

CREATE TABLE rest (
    place TEXT NOT NULL,
    seats INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX rest_until ON rest (until);

-- How long work of each key held its seats: a mean that forgets.
CREATE TABLE history (
    key TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    mean REAL NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE member (
    id TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_space TEXT NOT NULL,
    joined INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE event (
    id INTEGER PRIMARY KEY, -- only the oldest are ever removed, so no id comes twice
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    work INTEGER NOT NULL,
    key TEXT NOT NULL,
    task TEXT NOT NULL,
    pool TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
