-- Who may use the server from elsewhere. Of a token only a hash is kept, so that nobody who reads the
-- store can use one.
-- lives with: 3

CREATE TABLE token (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    hash TEXT NOT NULL,
    templates TEXT NOT NULL, -- with commas between; empty for any command
    created INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- What was handed in under which key, so that whoever got no answer can ask again, and nothing is
-- handed in twice.
CREATE TABLE submission (
    key TEXT PRIMARY KEY,
    digest TEXT NOT NULL, -- of what was asked for
    ids TEXT NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX submission_at ON submission (at);
