-- What became of each send: ok (acknowledged), fail (certainly not written), info (unknown),
-- and where it was acknowledged. Unknown is never taken for not written.

-- The sends. Where two of a process carry one operation number, which is malformed, only the first
-- one is known to have been: what happened to which nobody can say.
CREATE OR REPLACE TEMPORARY VIEW numbered_sends AS
SELECT * FROM (
  SELECT sends.*, row_number() OVER (PARTITION BY history, process, number ORDER BY entry) AS turn FROM sends) s
WHERE turn = 1;

-- Whoever sent, with the acks that decide what an answer proves: the session's own
-- properties where it gives any, else those of the header. NULL: not known.
CREATE OR REPLACE TEMPORARY VIEW senders AS
SELECT s.history, s.process,
  coalesce(p.client, '') AS client,
  CASE WHEN p.properties_given THEN own.value ELSE common.value END AS acks,
  -- Every request is in the history only if the history is whole.
  coalesce(p.attempts_visible, false) AND NOT h.cut AND (h.ended OR h.imported) AS attempts_visible
FROM (SELECT DISTINCT history, process FROM sends) s
JOIN histories h ON h.history = s.history
LEFT JOIN producers p ON p.history = s.history AND p.name = s.process
LEFT JOIN properties own ON own.history = s.history AND own.scope = 'producer' AND own.owner = s.process
  AND own.name = 'acks'
LEFT JOIN properties common ON common.history = s.history AND common.scope = 'header' AND common.name = 'acks';

-- The completion that counts: the first success, else the last one. An answer that comes
-- after the recorder had given up is a second completion.
CREATE OR REPLACE TEMPORARY VIEW completions AS
SELECT history, process, number, partition, log_offset, error, client_error, closed, stated, succeeded
FROM (
  SELECT r.*, row_number() OVER (
    PARTITION BY history, process, number
    ORDER BY CASE WHEN succeeded THEN 0 ELSE 1 END, CASE WHEN succeeded THEN entry ELSE -entry END) AS turn
  FROM (
    SELECT send_returns.*,
      NOT closed AND error = '' AND client_error = '' AND (stated = '' OR stated = 'ok') AS succeeded
    FROM send_returns) r) t
WHERE turn = 1;

-- What the attempts of each send certainly did to the log.
CREATE OR REPLACE TEMPORARY VIEW attempts_of_sends AS
SELECT s.history, s.process, s.number,
  count(*) AS attempts,
  sum(CASE WHEN a.appended = 'yes' THEN 1 ELSE 0 END) AS acknowledged,
  sum(CASE WHEN a.appended = 'unknown' THEN 1 ELSE 0 END) AS unknown
FROM attempt_sends s
JOIN (
  SELECT a.history, a.entry,
    CASE
      WHEN m.answer IS NULL OR p.acks = '0' THEN 'unknown'
      WHEN p.acks = '1' THEN m.with_acks_1
      WHEN p.acks = 'all' OR p.acks = '-1' OR m.with_acks_1 = m.with_acks_all THEN m.with_acks_all
      ELSE 'unknown'
    END AS appended
  FROM attempts a
  JOIN senders p ON p.history = a.history AND p.process = a.process
  LEFT JOIN answer_meanings m ON m.answer = a.answer) a
ON a.history = s.history AND a.entry = s.entry
GROUP BY s.history, s.process, s.number;

-- One row for each send. log_partition and log_offset are where it was acknowledged, NULL
-- where nobody said. With acks=0 nothing is acknowledged, and no answer names a place:
-- "confirmed" is then that the client reported it as sent.
CREATE OR REPLACE TEMPORARY VIEW outcomes AS
SELECT o.history, o.entry, o.process, o.number, o.event, o.topic, o.asked_partition, o.ordering_key, o.rank, o.resend,
  o.outcome,
  o.outcome = 'ok' OR (o.succeeded AND o.without_acks) AS confirmed,
  CASE WHEN o.outcome = 'ok' THEN coalesce(CASE WHEN o.names_place THEN o.told_partition END, o.asked_partition) END
    AS log_partition,
  CASE WHEN o.outcome = 'ok' AND o.names_place AND coalesce(o.told_partition, o.asked_partition) IS NOT NULL
    THEN o.told_offset END AS log_offset
FROM (
  SELECT s.history, s.entry, s.process, s.number, s.event, s.topic, s.partition AS asked_partition, s.ordering_key,
    s.rank, s.resend, c.partition AS told_partition, c.log_offset AS told_offset,
    coalesce(c.succeeded, false) AS succeeded,
    coalesce(p.acks = '0', false) AS without_acks,
    coalesce(c.succeeded, false) AND NOT coalesce(p.acks = '0', false) AS names_place,
    CASE
      WHEN c.history IS NULL THEN 'info'
      WHEN c.stated <> '' THEN c.stated
      WHEN p.acks = '0' AND (c.succeeded OR c.closed OR a.attempts > 0) THEN 'info'
      WHEN c.succeeded OR a.acknowledged > 0 THEN 'ok'
      WHEN c.closed THEN 'info'
      WHEN p.attempts_visible THEN CASE WHEN a.unknown > 0 THEN 'info' ELSE 'fail' END
      WHEN d.client IS NOT NULL THEN 'fail'
      ELSE 'info'
    END AS outcome
  FROM numbered_sends s
  JOIN senders p ON p.history = s.history AND p.process = s.process
  LEFT JOIN completions c ON c.history = s.history AND c.process = s.process AND c.number = s.number
  LEFT JOIN attempts_of_sends a ON a.history = s.history AND a.process = s.process AND a.number = s.number
  LEFT JOIN definite_client_errors d ON d.client = p.client AND d.client_error = c.client_error) o;
