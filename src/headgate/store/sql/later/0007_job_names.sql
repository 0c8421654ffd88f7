-- A job can be named instead of its id, so it is looked up by name. Jobs without a name cost nothing.
-- lives with: 3

CREATE INDEX job_name ON job (name, id) WHERE name <> '';
