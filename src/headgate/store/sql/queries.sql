-- Every statement the SQLite store runs, by name.

-- name: note
SELECT text FROM note WHERE name = ?

-- name: set_note
INSERT INTO note VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET text = excluded.text

-- name: last_id
SELECT last FROM sequence

-- name: set_last_id
UPDATE sequence SET last = ?

-- name: pool_rows
SELECT pool.name, "limit", cooldown, paused_until, pause_note, learned, per_task, ordering
FROM pool LEFT JOIN pool_share AS s ON s.name = pool.name
UNION ALL SELECT name, NULL, NULL, NULL, '', '', per_task, ordering FROM pool_share
WHERE name NOT IN (SELECT name FROM pool) ORDER BY 1

-- name: pool_changes
SELECT seq, c.name, coalesce(pool.name, s.name), "limit", cooldown, paused_until,
    coalesce(pause_note, ''), coalesce(learned, ''), per_task, ordering
FROM pool_change AS c LEFT JOIN pool ON pool.name = c.name
    LEFT JOIN pool_share AS s ON s.name = c.name
WHERE seq >= ? ORDER BY seq

-- name: last_pool_change
SELECT max(seq) FROM pool_change

-- name: set_pool_row
INSERT OR REPLACE INTO pool VALUES (?, ?, ?, ?, ?, ?)

-- name: untune
DELETE FROM pool WHERE name = ?

-- name: set_pool_share
INSERT OR REPLACE INTO pool_share VALUES (?, ?, ?)

-- name: drop_pool_share
DELETE FROM pool_share WHERE name = ?

-- name: roles
SELECT roles FROM work_role WHERE work = ?

-- name: set_roles
INSERT OR REPLACE INTO work_role VALUES (?, ?)

-- name: trim_roles
DELETE FROM work_role
WHERE work < (SELECT work FROM work_role ORDER BY work DESC LIMIT 1 OFFSET ?)
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = work)
    AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.id = work)
    AND NOT EXISTS (SELECT 1 FROM ticket WHERE ticket.id = work)

-- name: turn
SELECT at FROM task_turn WHERE place = ? AND task = ?

-- name: latest_turn
SELECT coalesce(max(at), 0) FROM task_turn WHERE place = ?

-- name: set_turn
INSERT OR REPLACE INTO task_turn VALUES (?, ?, ?)

-- name: trim_turns
DELETE FROM task_turn WHERE at < (SELECT at FROM task_turn ORDER BY at DESC LIMIT 1 OFFSET ?)

-- name: lane_due
INSERT INTO task_lane VALUES (?, ?, ?) ON CONFLICT (lane)
DO UPDATE SET urgency = excluded.urgency, due = excluded.due
WHERE (excluded.urgency, excluded.due) < (urgency, due)

-- name: set_due
UPDATE task_lane SET urgency = ?, due = ? WHERE lane = ? AND (urgency, due) <> (?, ?)

-- name: lanes_in_turn
SELECT s.urgency, s.due, l.id, l.id, machine, key, cls, lender, view, waiting
FROM task_lane AS s JOIN lane AS l ON l.id = s.lane
WHERE (s.urgency, s.due, s.lane) > (?, ?, ?) AND (? OR machine <> '')
ORDER BY s.urgency, s.due, s.lane LIMIT ?

-- name: some_lanes_in_turn
SELECT s.urgency, s.due, l.id, l.id, machine, key, cls, lender, view, waiting
FROM task_lane AS s JOIN lane AS l ON l.id = s.lane
WHERE (s.urgency, s.due, s.lane) > (?, ?, ?) AND (? OR machine <> '')
    AND (key GLOB ? OR key GLOB ? OR key GLOB ? OR key GLOB ?)
ORDER BY s.urgency, s.due, s.lane LIMIT ?

-- name: lanes
SELECT id, machine, key, cls, lender, view, waiting FROM lane ORDER BY id

-- name: lane
SELECT id, machine, key, cls, lender, view, waiting FROM lane WHERE id = ?

-- name: lane_like
SELECT id, machine, key, cls, lender, view, waiting FROM lane
WHERE machine = ? AND key = ? AND cls = ? AND lender = ? AND view = ?

-- name: last_lane
SELECT coalesce(max(id), 0) FROM lane

-- name: first_lanes
SELECT id, machine, key, cls, lender, view, waiting FROM lane ORDER BY id LIMIT ?

-- name: machines
WITH RECURSIVE found (machine) AS (
    SELECT min(machine) FROM lane
    UNION ALL SELECT (SELECT min(machine) FROM lane WHERE lane.machine > found.machine)
    FROM found WHERE machine IS NOT NULL
) SELECT machine FROM found WHERE machine IS NOT NULL

-- name: lanes_in_order
SELECT s.urgency, s.since, s.id, l.id, machine, key, cls, lender, view, waiting
FROM stretch AS s JOIN lane AS l ON l.id = s.lane
WHERE (s.urgency, s.since, s.id) > (?, ?, ?) AND (? OR machine <> '')
    AND view NOT GLOB 'headgate.task/*'
ORDER BY s.urgency, s.since, s.id LIMIT ?

-- name: some_lanes_in_order
SELECT s.urgency, s.since, s.id, l.id, machine, key, cls, lender, view, waiting
FROM stretch AS s JOIN lane AS l ON l.id = s.lane
WHERE (s.urgency, s.since, s.id) > (?, ?, ?) AND (? OR machine <> '')
    AND (key GLOB ? OR key GLOB ? OR key GLOB ? OR key GLOB ?)
    AND view NOT GLOB 'headgate.task/*'
ORDER BY s.urgency, s.since, s.id LIMIT ?

-- name: lanes_apart
SELECT id, machine, key, cls, lender, view, waiting FROM lane
WHERE lender <> 0 OR (view <> '' AND view NOT GLOB 'headgate.task/*' AND view NOT GLOB 'headgate.role/*')
UNION ALL SELECT l.id, machine, key, cls, lender, view, waiting
FROM ticket AS t JOIN lane AS l ON l.id = t.lane WHERE overtaken <> ''

-- name: heaviest
SELECT coalesce(max(weight), 1) FROM ticket WHERE weight > 1

-- name: add_lane
INSERT INTO lane (id, machine, key, cls, lender, view, waiting) VALUES (?, ?, ?, ?, ?, ?, 0)

-- name: wait_more
UPDATE lane SET waiting = waiting + 1 WHERE id = ?

-- name: wait_less
UPDATE lane SET waiting = waiting - 1 WHERE id = ?

-- name: drop_empty_lane
DELETE FROM lane WHERE id = ? AND waiting <= 0

-- name: insert_ticket
INSERT INTO ticket VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_ticket
DELETE FROM ticket WHERE id = ?

-- name: ticket
SELECT * FROM ticket WHERE id = ?

-- name: fronts
SELECT ticket.* FROM lane JOIN ticket ON ticket.id IN (
    SELECT id FROM ticket WHERE lane = lane.id ORDER BY urgency, since, id LIMIT ?
)

-- name: page
SELECT * FROM ticket WHERE lane = ? AND (urgency, since, id) > (?, ?, ?)
ORDER BY urgency, since, id LIMIT ?

-- name: set_overtaken
UPDATE ticket SET overtaken = ? WHERE id = ?

-- name: waiting_members
SELECT t.member FROM lane AS l JOIN ticket AS t ON t.id IN (
    SELECT id FROM ticket WHERE lane = l.id AND member <> ?
    ORDER BY urgency DESC, since DESC, id DESC LIMIT ?
) WHERE l.machine = ? LIMIT ?

-- name: tickets_of
SELECT * FROM ticket WHERE member = ? ORDER BY id

-- name: count_tickets_of
SELECT count(*) FROM ticket WHERE member = ?

-- name: stretch_at
SELECT urgency, since, id, tickets FROM stretch
WHERE lane = ? AND (urgency, since, id) <= (?, ?, ?)
ORDER BY urgency DESC, since DESC, id DESC LIMIT 1

-- name: first_stretch
SELECT urgency, since, id, tickets FROM stretch WHERE lane = ?
ORDER BY urgency, since, id LIMIT 1

-- name: marks
SELECT urgency, since, id FROM stretch WHERE lane = ? ORDER BY urgency, since, id

-- name: add_stretch
INSERT INTO stretch VALUES (?, ?, ?, ?, ?)

-- name: count_stretch
UPDATE stretch SET tickets = ? WHERE lane = ? AND urgency = ? AND since = ? AND id = ?

-- name: drop_stretch
DELETE FROM stretch WHERE lane = ? AND urgency = ? AND since = ? AND id = ?

-- name: move_stretch
UPDATE stretch SET urgency = ?, since = ?, id = ?, tickets = ?
WHERE lane = ? AND urgency = ? AND since = ? AND id = ?

-- name: stretch_middle
SELECT urgency, since, id FROM ticket WHERE lane = ? AND (urgency, since, id) >= (?, ?, ?)
ORDER BY urgency, since, id LIMIT 1 OFFSET ?

-- name: before_stretch
SELECT coalesce(sum(tickets), 0) FROM stretch
WHERE lane = ? AND (urgency, since, id) < (?, ?, ?)

-- name: within_stretch
SELECT count(*) FROM ticket
WHERE lane = ? AND (urgency, since, id) >= (?, ?, ?) AND (urgency, since, id) < (?, ?, ?)

-- name: add_lease
INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop_lease
DELETE FROM lease WHERE id = ?

-- name: take_lease
DELETE FROM lease WHERE id = ?
RETURNING *, coalesce((SELECT roles FROM work_role WHERE work = lease.id), '')

-- name: lease
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id WHERE id = ?

-- name: leases
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id
WHERE id > ? ORDER BY id LIMIT ?

-- name: leases_of
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id
WHERE member = ? ORDER BY id

-- name: families
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id
WHERE chain <> 0 ORDER BY chain, id

-- name: recent
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id WHERE granted > ?

-- name: held
SELECT machine, key, cls, sum(weight), count(*), chain <> 0 AS chained, coalesce(roles, '') AS carried
FROM lease LEFT JOIN work_role ON work = id GROUP BY machine, key, cls, chained, carried

-- name: held_by_task
SELECT machine, key, coalesce(roles, '') AS carried, task, sum(weight)
FROM lease LEFT JOIN work_role ON work = id WHERE chain = 0 GROUP BY machine, key, carried, task

-- name: change_lease
REPLACE INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: rests
SELECT place, seats, until, keep, granted, released, completed FROM rest

-- name: add_rest
INSERT INTO rest VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop_rests
DELETE FROM rest WHERE keep <= ?

-- name: learn_hold
INSERT OR REPLACE INTO history VALUES (?, ?, ?)

-- name: history
SELECT count, mean FROM history WHERE key = ?

-- name: known_keys
SELECT key FROM history WHERE key <> '' ORDER BY key

-- name: insert_member
INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?, ?, ?)

-- name: add_process
INSERT OR REPLACE INTO process VALUES (?, ?, ?, ?)

-- name: drop_member
DELETE FROM member WHERE id = ?

-- name: count_members
SELECT count(*) FROM member

-- name: members
SELECT m.id, machine, pid, pid_space, joined, works, coalesce(started, 0), coalesce(version, ''),
    coalesce(schema, 0)
FROM member AS m LEFT JOIN process ON process.member = m.id ORDER BY joined, m.id

-- name: member
SELECT m.id, machine, pid, pid_space, joined, works, coalesce(started, 0), coalesce(version, ''),
    coalesce(schema, 0)
FROM member AS m LEFT JOIN process ON process.member = m.id WHERE m.id = ?

-- name: working_members
SELECT m.id, machine, pid, pid_space, joined, works, coalesce(started, 0), coalesce(version, ''),
    coalesce(schema, 0)
FROM member AS m LEFT JOIN process ON process.member = m.id WHERE works ORDER BY joined, m.id

-- name: add_event
INSERT INTO event (at, kind, work, key, task, pool, text) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: trim_events
DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?

-- name: latest_event
SELECT coalesce(max(at), 0) FROM event

-- name: events
SELECT id, at, kind, work, key, task, pool, text FROM event WHERE id > ? ORDER BY id LIMIT ?

-- name: newest_events
SELECT * FROM (
    SELECT id, at, kind, work, key, task, pool, text FROM event ORDER BY id DESC LIMIT ?
) ORDER BY id

-- name: events_of
SELECT id, at, kind, work, key, task, pool, text FROM event
WHERE work = ? AND id > ? ORDER BY id LIMIT ?

-- name: newest_of
SELECT * FROM (
    SELECT id, at, kind, work, key, task, pool, text FROM event
    WHERE work = ? AND id > ? ORDER BY id DESC LIMIT ?
) ORDER BY id

-- name: add_job
INSERT INTO job VALUES (:id, :state, :code, :text, :key, :urgency, :since, :weight, :task, :name,
    :label, :submitted, :due, :expires, :attempts, :parks, :started, :ended, :exit, :session, :spec,
    :failures)

-- name: job
SELECT * FROM job WHERE id = ?

-- name: change_job
UPDATE job SET state = :state, code = :code, text = :text, key = :key, urgency = :urgency,
    since = :since, due = :due, expires = :expires, attempts = :attempts, parks = :parks,
    started = :started, ended = :ended, exit = :exit, session = :session, failures = :failures
WHERE id = :id

-- name: jobs
SELECT * FROM job WHERE state = ? AND (state = 'parked' AND code = '') = ? AND id > ?
ORDER BY id LIMIT ?

-- name: latest_jobs
SELECT * FROM job WHERE state = ? AND (state = 'parked' AND code = '') = ?
ORDER BY id DESC LIMIT ?

-- name: jobs_named
SELECT * FROM job INDEXED BY job_name WHERE name = ? AND name <> '' ORDER BY id DESC

-- name: count_jobs
SELECT count(*) FROM job WHERE state = ?

-- name: count_returned
SELECT count(*) FROM job WHERE state = 'parked' AND code = ''

-- name: aside
SELECT * FROM job INDEXED BY job_aside
WHERE state IN ('held', 'parked', 'queued') AND code <> '' ORDER BY id LIMIT ?

-- name: count_aside
SELECT count(*) FROM job INDEXED BY job_aside
WHERE state IN ('held', 'parked', 'queued') AND code <> ''

-- name: due_jobs
SELECT * FROM job WHERE due > 0 AND due <= ? ORDER BY due, id LIMIT ?

-- name: next_due
SELECT due FROM job WHERE due > 0 ORDER BY due LIMIT 1

-- name: old_jobs
SELECT id FROM job WHERE ended > 0 AND ended < ? ORDER BY ended, id LIMIT ?

-- name: drop_job
DELETE FROM job WHERE id = ?

-- name: drop_attempts
DELETE FROM attempt WHERE job = ?

-- name: add_after
INSERT OR IGNORE INTO after VALUES (?, ?)

-- name: needs_of
SELECT needs FROM after WHERE job = ? ORDER BY needs

-- name: needed_by
SELECT job FROM after WHERE needs = ? ORDER BY job

-- name: drop_needs
DELETE FROM after WHERE job = ?

-- name: drop_after
DELETE FROM after WHERE job = ? AND needs = ?

-- name: keep_attempt
INSERT OR REPLACE INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: attempts
SELECT * FROM attempt WHERE job = ? ORDER BY number

-- name: job_leases
SELECT lease.*, coalesce(roles, '') FROM lease LEFT JOIN work_role ON work = id
WHERE job > 0 ORDER BY id

-- name: make_jobs_younger
UPDATE job SET
    submitted = submitted + min(:by, :start - submitted),
    due = due + iif(due > 0 AND (due < :start OR due = expires), min(:by, :start - submitted), 0),
    expires = expires + iif(expires > 0, min(:by, :start - submitted), 0),
    started = started + iif(started > 0 AND started < :start, min(:by, :start - started), 0),
    ended = ended + iif(ended > 0 AND ended < :start, min(:by, :start - ended), 0)
WHERE submitted < :start

-- name: make_events_younger
UPDATE event SET at = at + :by WHERE at <= :last

-- name: make_requests_younger
UPDATE request SET at = at + :by WHERE at <= :last

-- name: add_request
INSERT INTO request (work, at, key, task, outcome, status, waited, first_byte, took, input, output,
    cached, tries, refused)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: trim_requests
DELETE FROM request WHERE seq <= (SELECT max(seq) FROM request) - ?

-- name: requests_of
SELECT * FROM request WHERE work = ? ORDER BY seq DESC LIMIT ?

-- name: add_sums
INSERT INTO metered VALUES (?, '', '', '', 0, 0, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (work) DO UPDATE SET requests = requests + excluded.requests,
    refused = refused + excluded.refused, waited = waited + excluded.waited,
    took = took + excluded.took, input = input + excluded.input,
    output = output + excluded.output, cached = cached + excluded.cached

-- name: keep_meter
INSERT INTO metered VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0)
ON CONFLICT (work) DO UPDATE SET meter = excluded.meter, why = excluded.why, hint = excluded.hint,
    in_flight = 0, oldest = 0

-- name: set_in_flight
INSERT INTO metered VALUES (?, '', '', '', ?, ?, 0, 0, 0, 0, 0, 0, 0)
ON CONFLICT (work) DO UPDATE SET in_flight = excluded.in_flight, oldest = excluded.oldest

-- name: metered
SELECT * FROM metered WHERE work = ?

-- name: in_flight
SELECT * FROM metered WHERE in_flight > 0 ORDER BY work

-- name: trim_metered
DELETE FROM metered
WHERE work < (SELECT work FROM metered ORDER BY work DESC LIMIT 1 OFFSET ?)
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = work)
    AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.id = work)

-- name: tokens
SELECT id, name, scope, hash, templates, created FROM token ORDER BY created, id

-- name: token
SELECT id, name, scope, hash, templates, created FROM token WHERE id = ?

-- name: add_token
INSERT INTO token VALUES (?, ?, ?, ?, ?, ?)

-- name: drop_token
DELETE FROM token WHERE id = ?

-- name: submission
SELECT key, digest, ids, at FROM submission WHERE key = ?

-- name: add_submission
INSERT OR REPLACE INTO submission VALUES (?, ?, ?, ?)

-- name: forget_submissions
DELETE FROM submission WHERE at < ?

-- name: remote_member
SELECT member, name, server, boot, heard, fence FROM remote_member WHERE member = ?

-- name: remote_members
SELECT member, name, server, boot, heard, fence FROM remote_member ORDER BY member

-- name: keep_remote_member
INSERT OR REPLACE INTO remote_member VALUES (?, ?, ?, ?, ?, ?)

-- name: remote_request
SELECT member, key, id, digest FROM remote_request WHERE member = ? AND key = ?

-- name: remote_requests
SELECT member, key, id, digest FROM remote_request WHERE member = ?

-- name: keep_remote_request
INSERT OR REPLACE INTO remote_request VALUES (?, ?, ?, ?)

-- name: drop_remote_request
DELETE FROM remote_request WHERE id = ?
