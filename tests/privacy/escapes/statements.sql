# other databases
ATTACH 'payroll/snapshots/payroll-1.duckdb'
ATTACH '{folder}/payroll/snapshots/payroll-1.duckdb' AS other (READ_ONLY)
ATTACH ':memory:' AS scratch
ATTACH IF NOT EXISTS 'x.db' AS x (TYPE sqlite)
DETACH snapshot
DETACH DATABASE IF EXISTS snapshot
USE snapshot
USE memory.main
SELECT COUNT(*) FROM payroll
SELECT COUNT(*) FROM snapshot.rows
SELECT COUNT(*) FROM snapshot.main.rows
SELECT COUNT(*) FROM "snapshot"."rows"
SELECT COUNT(*) FROM rows
SELECT COUNT(*) FROM columns
SELECT COUNT(*) FROM snapshot.columns
SELECT COUNT(*) FROM memory.main.visits
SELECT COUNT(*) FROM main.visits
SELECT COUNT(*) FROM visits.visits
SELECT COUNT(*) FROM "visits-1"
SELECT COUNT(*) FROM "snapshot.rows"
SELECT COUNT(*) FROM temp.visits
SELECT COUNT(*) FROM pg_temp.visits
SELECT COUNT(*) FROM one.visits
SELECT COUNT(*) FROM system.main.visits
SELECT COUNT(*) FROM [visits]
SELECT COUNT(*) FROM `visits`
# settings
PRAGMA table_info('visits')
PRAGMA database_list
PRAGMA show_tables
PRAGMA version
PRAGMA storage_info('rows')
PRAGMA enable_profiling
PRAGMA memory_limit = '1GB'
SET enable_external_access = true
SET lock_configuration = false
SET SESSION threads = 1
SET GLOBAL threads = 1
SET VARIABLE x = 1
SET x TO (SELECT MAX(age) FROM visits)
SET search_path = 'snapshot'
RESET enable_external_access
RESET ALL
SELECT current_setting('temp_directory') FROM visits
SELECT COUNT(*) FROM visits WHERE current_setting('threads') = '2'
SELECT getvariable('x') FROM visits
SELECT @@version FROM visits
SELECT getenv('SFUMATO_CANARY') FROM visits
SELECT COUNT(*) FROM visits WHERE getenv('SFUMATO_CANARY') LIKE 'S%'
SELECT COUNT(*) FROM duckdb_settings()
# changing things
CREATE TABLE t AS SELECT * FROM visits
CREATE TEMP TABLE t AS FROM visits
CREATE OR REPLACE TABLE visits (age INT)
CREATE VIEW v AS SELECT * FROM visits
CREATE MACRO f(x) AS x + 1
CREATE MACRO COUNT(x) AS TABLE SELECT * FROM visits
CREATE TEMP MACRO t() AS TABLE SELECT * FROM 'x.csv'
CREATE FUNCTION f(x) AS x
CREATE SCHEMA s
CREATE SEQUENCE s
CREATE TYPE t AS ENUM (SELECT name FROM visits)
CREATE INDEX i ON visits (age)
CREATE TRIGGER t AFTER INSERT ON visits EXECUTE f()
INSERT INTO visits VALUES (1)
INSERT INTO visits SELECT * FROM visits
INSERT INTO visits (age) VALUES (1) RETURNING name
INSERT OR REPLACE INTO visits BY NAME SELECT 1 AS age
UPDATE visits SET age = 1
UPDATE visits SET age = 1 RETURNING *
DELETE FROM visits
DELETE FROM visits RETURNING name
TRUNCATE visits
MERGE INTO visits USING people ON true WHEN MATCHED THEN DELETE
DROP TABLE visits
DROP DATABASE snapshot
ALTER TABLE visits ADD COLUMN x INT
ALTER TABLE visits RENAME TO v
COMMENT ON TABLE visits IS 'x'
GRANT SELECT ON visits TO ada
REVOKE SELECT ON visits FROM ada
ANALYZE visits
VACUUM
CHECKPOINT
FORCE CHECKPOINT
BEGIN
COMMIT
ROLLBACK
BEGIN TRANSACTION; SELECT COUNT(*) FROM visits; COMMIT
PREPARE q AS SELECT COUNT(*) FROM visits
EXECUTE q
DEALLOCATE q
CALL pragma_version()
CALL duckdb_tables()
EXPLAIN SELECT COUNT(*) FROM visits
EXPLAIN ANALYZE SELECT COUNT(*) FROM visits
DESCRIBE visits
DESCRIBE SELECT * FROM visits
SUMMARIZE visits
SUMMARIZE SELECT age FROM visits
SHOW TABLES
SHOW ALL TABLES
SHOW visits
SELECT COUNT(*) FROM (DESCRIBE visits)
SELECT COUNT(*) FROM (SUMMARIZE visits)
SELECT COUNT(*) FROM (SHOW TABLES)
KILL 1
LOCK TABLE visits
LISTEN x
DECLARE c CURSOR FOR SELECT * FROM visits
FETCH ALL FROM c
DO $$ BEGIN END $$
# several statements
SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM visits; DROP TABLE visits
SELECT COUNT(*) FROM visits; COPY visits TO 'y.csv'
SELECT COUNT(*) FROM visits;; SELECT name FROM visits
; SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM visits;
SELECT COUNT(*) FROM visits; --
SELECT COUNT(*) FROM visits WHERE ward = 'A'; SET threads = 1; --'
SET threads = 1; SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM visits{U+000A}GO{U+000A}SELECT name FROM visits
SELECT COUNT(*) FROM visits \g SELECT name FROM visits
SELECT 1; SELECT 2; SELECT 3
;;;
