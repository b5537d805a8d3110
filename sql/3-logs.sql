-- What lies in each partition's log, and the first place of each event there.

-- The final read of each partition, at read-uncommitted. complete: it saw the whole log.
-- frozen: the log's end stays above the high watermark, so records are there and not shown.
CREATE OR REPLACE TEMPORARY VIEW final_logs AS
SELECT history, topic, coalesce(partition, -1) AS partition, coalesce(log_start, -1) AS log_start, position,
  CASE WHEN second_log_end > log_end THEN second_log_end ELSE log_end END AS log_end,
  coalesce(error = '' AND position = high_watermark AND log_end = high_watermark
    AND second_high_watermark = high_watermark AND second_log_end = log_end, false) AS complete,
  coalesce(error = '' AND log_end > high_watermark AND position = high_watermark
    AND second_high_watermark = high_watermark AND second_log_end >= log_end, false) AS frozen
FROM (
  SELECT final_reads.*, row_number() OVER (PARTITION BY history, topic, partition ORDER BY entry DESC) AS turn
  FROM final_reads WHERE isolation <> 'read_committed') r
WHERE turn = 1;

-- Every record that anybody read. certain: by a poll that did not fail.
CREATE OR REPLACE TEMPORARY VIEW readings AS
SELECT history, topic, coalesce(partition, -1) AS partition, log_offset, event, true AS polled,
  stated = '' OR stated = 'ok' AS certain
FROM poll_records WHERE log_offset IS NOT NULL
UNION ALL
SELECT history, topic, coalesce(partition, -1), log_offset, event, false, false
FROM final_records WHERE log_offset IS NOT NULL AND isolation <> 'read_committed';

-- The log, as it was read: what the final read found, and below its start, or where there
-- was none, what polls saw. What a consumer saw above and the final read lacks is not added.
CREATE OR REPLACE TEMPORARY VIEW logged AS
SELECT DISTINCT r.history, r.topic, r.partition, r.log_offset, r.event
FROM readings r
LEFT JOIN final_logs f ON f.history = r.history AND f.topic = r.topic AND f.partition = r.partition
WHERE r.event IS NOT NULL AND (NOT r.polled OR f.history IS NULL OR r.log_offset < f.log_start);

-- Where each event lies: in the log as it was read, and, if no reading found it anywhere,
-- where it was acknowledged in a partition without a final read.
CREATE OR REPLACE TEMPORARY VIEW places AS
SELECT history, topic, partition, log_offset, event FROM logged
UNION ALL
SELECT DISTINCT o.history, o.topic, o.log_partition, o.log_offset, o.event
FROM outcomes o
LEFT JOIN (SELECT DISTINCT history, event FROM logged) l ON l.history = o.history AND l.event = o.event
LEFT JOIN final_logs f ON f.history = o.history AND f.topic = o.topic AND f.partition = o.log_partition
WHERE o.log_offset IS NOT NULL AND l.event IS NULL AND f.history IS NULL;

-- The first place of each event: its lowest offset. Of one that lies in several partitions,
-- in the one that acknowledged the earliest of its sends, else in the one that the earliest
-- was sent to, else in the first one by name and number.
CREATE OR REPLACE TEMPORARY VIEW first_places AS
SELECT history, event, min(topic) AS topic, min(partition) AS partition, min(log_offset) AS log_offset
FROM places GROUP BY history, event HAVING count(*) = 1
UNION ALL
SELECT history, event, topic, partition, log_offset
FROM (
  SELECT p.*, row_number() OVER (
    PARTITION BY history, event
    ORDER BY coalesce(acknowledged, 9223372036854775807), coalesce(asked, 9223372036854775807), topic, partition, log_offset) AS turn
  FROM (
    SELECT p.history, p.event, p.topic, p.partition, p.log_offset,
      min(CASE WHEN o.log_partition = p.partition THEN o.entry END) AS acknowledged,
      min(CASE WHEN o.asked_partition = p.partition THEN o.entry END) AS asked
    FROM (SELECT history, event FROM places GROUP BY history, event HAVING count(*) > 1) several
    JOIN places p ON p.history = several.history AND p.event = several.event
    LEFT JOIN outcomes o ON o.history = p.history AND o.event = p.event AND o.topic = p.topic
    GROUP BY p.history, p.event, p.topic, p.partition, p.log_offset) p) t
WHERE turn = 1;
