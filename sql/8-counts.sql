-- The answer: one row for each history.
CREATE OR REPLACE TEMPORARY VIEW counts AS
SELECT h.history,
  coalesce(max(CASE WHEN a.anomaly = 'lost-write' THEN a.instances END), 0) AS lost_write,
  coalesce(max(CASE WHEN a.anomaly = 'duplicate' THEN a.instances END), 0) AS duplicate,
  coalesce(max(CASE WHEN a.anomaly = 'order-violation' THEN a.instances END), 0) AS order_violation,
  coalesce(max(CASE WHEN a.anomaly = 'divergence' THEN a.instances END), 0) AS divergence
FROM histories h
LEFT JOIN (
  SELECT history, 'lost-write' AS anomaly, count(*) AS instances FROM lost_writes GROUP BY history
  UNION ALL SELECT history, 'duplicate', count(*) FROM duplicates GROUP BY history
  UNION ALL SELECT history, 'order-violation', count(*) FROM order_violations GROUP BY history
  UNION ALL SELECT history, 'divergence', count(*) FROM divergences GROUP BY history) a
  ON a.history = h.history
GROUP BY h.history;
