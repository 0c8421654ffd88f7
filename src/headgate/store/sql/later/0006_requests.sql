-- What agents have asked upstream: a record of its own, because requests are many and are no events.
-- Never a word of what was asked.
-- lives with: 3

CREATE TABLE request (
    seq INTEGER PRIMARY KEY, -- only the oldest are ever removed, so no number comes twice
    work INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT NOT NULL,
    task TEXT NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    first_byte INTEGER,
    took INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    cached INTEGER,
    tries INTEGER NOT NULL,
    refused INTEGER NOT NULL
) STRICT;
CREATE INDEX request_work ON request (work, seq);

-- How each agent is counted and watched, with the sums of all its requests, those that are forgotten
-- too, and those that are on their way now.
CREATE TABLE metered (
    work INTEGER PRIMARY KEY,
    meter TEXT NOT NULL,
    why TEXT NOT NULL,
    hint TEXT NOT NULL,
    in_flight INTEGER NOT NULL,
    oldest INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    waited INTEGER NOT NULL,
    took INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cached INTEGER NOT NULL
) STRICT;
CREATE INDEX metered_in_flight ON metered (work) WHERE in_flight > 0;

-- Whoever forgets a job may be a process of schema 3.
CREATE TRIGGER job_gone AFTER DELETE ON job BEGIN
    DELETE FROM metered WHERE work = OLD.id;
END;
