-- Divergence: two reads of one offset of a partition returned different records, or two
-- acknowledgements name different events there. Each offset counts once. A foreign record
-- is told from every event, and not from other foreign records.
CREATE OR REPLACE TEMPORARY VIEW divergences AS
SELECT history, topic, partition, log_offset
FROM readings
GROUP BY history, topic, partition, log_offset
HAVING min(coalesce(event, '')) <> max(coalesce(event, ''))
UNION
SELECT history, topic, log_partition, log_offset
FROM outcomes WHERE log_offset IS NOT NULL
GROUP BY history, topic, log_partition, log_offset
HAVING min(event) <> max(event);
