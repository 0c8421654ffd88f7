-- Durable work. A job that waits has a ticket that belongs to no process (its lane to no machine),
-- one that runs has a lease; both have the job's own id, so that no job can run twice at once.
-- lives with: 3

ALTER TABLE member ADD COLUMN works INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN job INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN life TEXT NOT NULL DEFAULT '';

CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    code TEXT NOT NULL,
    text TEXT NOT NULL,
    key TEXT NOT NULL,
    urgency INTEGER NOT NULL,
    since INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    task TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    submitted INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    parks INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    exit TEXT NOT NULL,
    session TEXT NOT NULL,
    spec TEXT NOT NULL,
    failures INTEGER NOT NULL
) STRICT;
CREATE INDEX job_state ON job (state, id);
CREATE INDEX job_aside ON job (id) WHERE state IN ('held', 'parked', 'queued') AND code <> '';
CREATE INDEX job_due ON job (due) WHERE due > 0;
CREATE INDEX job_ended ON job (ended) WHERE ended > 0;

CREATE TABLE after (
    job INTEGER NOT NULL,
    needs INTEGER NOT NULL,
    PRIMARY KEY (job, needs)
) WITHOUT ROWID, STRICT;
CREATE INDEX after_needs ON after (needs);

CREATE TABLE attempt (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    code TEXT NOT NULL,
    text TEXT NOT NULL,
    exit TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID, STRICT;
