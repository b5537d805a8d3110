-- Order violations, as descents: of two neighbours in the send order of one producer and
-- ordering key in one partition, both acknowledged, the first lies behind the second.

-- The acknowledged events of each line of order, with their place. An event takes part with
-- its first send only: what the application sends again does not move it.
CREATE OR REPLACE TEMPORARY VIEW ordered AS
SELECT o.history, o.process, o.ordering_key, p.topic, p.partition, o.rank, o.entry, o.event, p.log_offset
FROM outcomes o
JOIN first_places p ON p.history = o.history AND p.event = o.event
JOIN (SELECT history, event, min(entry) AS entry FROM numbered_sends GROUP BY history, event) f
  ON f.history = o.history AND f.event = o.event AND f.entry = o.entry
WHERE o.confirmed AND o.rank IS NOT NULL AND NOT o.resend;

CREATE OR REPLACE TEMPORARY VIEW order_violations AS
SELECT history, topic, partition, earlier_event, earlier_log_offset, event, log_offset
FROM (
  SELECT history, topic, partition, event, log_offset,
    lag(event) OVER (PARTITION BY history, process, ordering_key, topic, partition ORDER BY rank, entry) AS earlier_event,
    lag(log_offset) OVER (PARTITION BY history, process, ordering_key, topic, partition ORDER BY rank, entry)
      AS earlier_log_offset
  FROM ordered) t
WHERE earlier_log_offset > log_offset;
