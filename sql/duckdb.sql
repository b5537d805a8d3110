-- Runs the judge in DuckDB, from the folder of the tables:
--   cd DIR && duckdb -c ".read sql/duckdb.sql"
CREATE OR REPLACE VIEW histories AS SELECT * FROM 'histories.parquet';
CREATE OR REPLACE VIEW topics AS SELECT * FROM 'topics.parquet';
CREATE OR REPLACE VIEW topic_starts AS SELECT * FROM 'topic_starts.parquet';
CREATE OR REPLACE VIEW properties AS SELECT * FROM 'properties.parquet';
CREATE OR REPLACE VIEW effects AS SELECT * FROM 'effects.parquet';
CREATE OR REPLACE VIEW producers AS SELECT * FROM 'producers.parquet';
CREATE OR REPLACE VIEW producer_refusals AS SELECT * FROM 'producer_refusals.parquet';
CREATE OR REPLACE VIEW consumers AS SELECT * FROM 'consumers.parquet';
CREATE OR REPLACE VIEW closes AS SELECT * FROM 'closes.parquet';
CREATE OR REPLACE VIEW sends AS SELECT * FROM 'sends.parquet';
CREATE OR REPLACE VIEW send_returns AS SELECT * FROM 'send_returns.parquet';
CREATE OR REPLACE VIEW attempts AS SELECT * FROM 'attempts.parquet';
CREATE OR REPLACE VIEW attempt_sends AS SELECT * FROM 'attempt_sends.parquet';
CREATE OR REPLACE VIEW polls AS SELECT * FROM 'polls.parquet';
CREATE OR REPLACE VIEW poll_returns AS SELECT * FROM 'poll_returns.parquet';
CREATE OR REPLACE VIEW poll_records AS SELECT * FROM 'poll_records.parquet';
CREATE OR REPLACE VIEW position_changes AS SELECT * FROM 'position_changes.parquet';
CREATE OR REPLACE VIEW commits AS SELECT * FROM 'commits.parquet';
CREATE OR REPLACE VIEW commit_returns AS SELECT * FROM 'commit_returns.parquet';
CREATE OR REPLACE VIEW fault_starts AS SELECT * FROM 'fault_starts.parquet';
CREATE OR REPLACE VIEW fault_ends AS SELECT * FROM 'fault_ends.parquet';
CREATE OR REPLACE VIEW cluster_events AS SELECT * FROM 'cluster_events.parquet';
CREATE OR REPLACE VIEW notes AS SELECT * FROM 'notes.parquet';
CREATE OR REPLACE VIEW final_records AS SELECT * FROM 'final_records.parquet';
CREATE OR REPLACE VIEW final_reads AS SELECT * FROM 'final_reads.parquet';
CREATE OR REPLACE VIEW replica_records AS SELECT * FROM 'replica_records.parquet';
CREATE OR REPLACE VIEW replica_reads AS SELECT * FROM 'replica_reads.parquet';
.read sql/1-answers.sql
.read sql/2-outcomes.sql
.read sql/3-logs.sql
.read sql/4-lost-writes.sql
.read sql/5-duplicates.sql
.read sql/6-order-violations.sql
.read sql/7-divergences.sql
.read sql/8-counts.sql
SELECT * FROM counts ORDER BY history;
