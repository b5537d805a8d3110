-- Lost writes: acknowledged, and not in the log, though the final read of the partition is
-- complete or has passed the offset. Without any final read: acknowledged, returned by no
-- poll, and a poll returned a higher offset of that partition.

-- Acknowledged sends whose event no reading found anywhere.
CREATE OR REPLACE TEMPORARY VIEW absent AS
SELECT o.history, o.event, o.topic, o.log_partition, o.log_offset
FROM outcomes o
LEFT JOIN (SELECT DISTINCT history, event FROM logged) l ON l.history = o.history AND l.event = o.event
WHERE o.outcome = 'ok' AND l.event IS NULL;

-- Every partition that anything names.
CREATE OR REPLACE TEMPORARY VIEW named_partitions AS
SELECT history, topic, partition FROM readings
UNION SELECT history, topic, partition FROM final_logs
UNION SELECT history, topic, log_partition FROM outcomes WHERE log_partition IS NOT NULL
UNION SELECT history, topic, asked_partition FROM outcomes WHERE asked_partition IS NOT NULL
UNION SELECT history, topic, partition FROM position_changes WHERE partition IS NOT NULL
UNION SELECT history, topic, partition FROM replica_reads WHERE partition IS NOT NULL;

-- Topics of which every partition was read whole, from where the run began: whatever was
-- acknowledged there without saying in which one was seen, or is lost. Partitions count
-- from 0: one that anything names says that those below it are there.
CREATE OR REPLACE TEMPORARY VIEW topics_read_whole AS
SELECT n.history, n.topic
FROM named_partitions n
LEFT JOIN final_logs f ON f.history = n.history AND f.topic = n.topic AND f.partition = n.partition
LEFT JOIN topic_starts s ON s.history = n.history AND s.topic = n.topic AND s.partition = n.partition
LEFT JOIN topics t ON t.history = n.history AND t.topic = n.topic
GROUP BY n.history, n.topic
HAVING count(*) = sum(CASE WHEN f.complete AND f.log_start <= coalesce(s.log_end, 0) THEN 1 ELSE 0 END)
  AND count(*) > max(n.partition) AND count(*) >= coalesce(max(t.partitions), 0);

CREATE OR REPLACE TEMPORARY VIEW lost_writes AS
SELECT DISTINCT a.history, a.event
FROM absent a
LEFT JOIN final_logs f ON f.history = a.history AND f.topic = a.topic AND f.partition = a.log_partition
LEFT JOIN topic_starts s ON s.history = a.history AND s.topic = a.topic AND s.partition = a.log_partition
LEFT JOIN topics_read_whole w ON w.history = a.history AND w.topic = a.topic
LEFT JOIN (SELECT DISTINCT history FROM final_logs) finished ON finished.history = a.history
LEFT JOIN (
  SELECT history, topic, partition, max(log_offset) AS log_offset FROM readings WHERE certain
  GROUP BY history, topic, partition) highest
  ON highest.history = a.history AND highest.topic = a.topic AND highest.partition = a.log_partition
WHERE CASE
  WHEN a.log_partition IS NULL THEN w.topic IS NOT NULL
  WHEN f.history IS NULL THEN finished.history IS NULL AND highest.log_offset > a.log_offset
  WHEN a.log_offset IS NULL THEN f.complete AND f.log_start <= coalesce(s.log_end, 0)
  ELSE a.log_offset >= f.log_start
    AND (a.log_offset < f.position OR f.complete OR (f.frozen AND a.log_offset >= f.log_end))
END;
