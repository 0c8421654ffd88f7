-- Clients on other machines. No kernel here can tell whether they live, so each is judged by when it
-- was last heard of, on the store's clock. Processes of older schemas do not know this table: for them
-- a client is a member whose pipes do not tell, and who counts as alive.
-- lives with: 3

CREATE TABLE remote_member (
    member TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    server TEXT NOT NULL, -- the member that serves it, and is woken for it
    boot TEXT NOT NULL, -- of the store's machine: what passes from one boot to the next, nobody has seen
    heard INTEGER NOT NULL,
    fence INTEGER -- for how long it may be silent; NULL for ever
) WITHOUT ROWID, STRICT;

-- What a client has asked for, by the key under which it asks again if it got no answer.
CREATE TABLE remote_request (
    member TEXT NOT NULL,
    key TEXT NOT NULL,
    id INTEGER NOT NULL,
    digest TEXT NOT NULL, -- of what was asked
    PRIMARY KEY (member, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX remote_request_id ON remote_request (id);

-- Whoever removes a member, or a lease, may be a process of schema 3.
CREATE TRIGGER remote_member_gone AFTER DELETE ON member BEGIN
    DELETE FROM remote_member WHERE member = OLD.id;
    DELETE FROM remote_request WHERE member = OLD.id;
END;
CREATE TRIGGER remote_lease_gone AFTER DELETE ON lease BEGIN
    DELETE FROM remote_request WHERE id = OLD.id;
END;
