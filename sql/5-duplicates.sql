-- Duplicates: an event at more offsets of the log, or in more partitions, than the
-- application's sends explain. A send that certainly failed explains none.
CREATE OR REPLACE TEMPORARY VIEW duplicates AS
SELECT s.history, s.event, s.sends, l.copies
FROM (SELECT history, event, count(*) AS copies FROM logged GROUP BY history, event HAVING count(*) > 1) l
JOIN (
  SELECT history, event, sum(CASE WHEN outcome <> 'fail' THEN 1 ELSE 0 END) AS sends
  FROM outcomes GROUP BY history, event) s
  ON s.history = l.history AND s.event = l.event
WHERE l.copies > s.sends;
