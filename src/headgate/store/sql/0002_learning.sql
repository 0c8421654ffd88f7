-- What pools have learned, and what leases must remember for it.
-- lives with: 2

ALTER TABLE pool ADD COLUMN learned TEXT NOT NULL DEFAULT '';

ALTER TABLE ticket ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE lease ADD COLUMN sent TEXT NOT NULL DEFAULT '';
ALTER TABLE lease ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE rest RENAME TO old_rest;
DROP INDEX rest_until;
CREATE TABLE rest (
    place TEXT NOT NULL,
    seats INTEGER NOT NULL,
    until INTEGER NOT NULL,
    keep INTEGER NOT NULL,
    granted INTEGER NOT NULL,
    released INTEGER NOT NULL,
    completed INTEGER NOT NULL
) STRICT;
CREATE INDEX rest_keep ON rest (keep);
INSERT INTO rest SELECT place, seats, until, until, until, until, 1 FROM old_rest;
DROP TABLE old_rest;
