# reading files
SELECT COUNT(*) FROM 'x.csv'
SELECT COUNT(*) FROM "x.csv"
SELECT COUNT(*) FROM 'x.parquet'
SELECT COUNT(*) FROM "x.parquet"
SELECT COUNT(*) FROM 'x.json'
SELECT COUNT(*) FROM '*.csv'
SELECT COUNT(*) FROM '**/*.duckdb'
SELECT COUNT(*) FROM '{folder}/x.csv'
SELECT COUNT(*) FROM "{folder}/x.csv"
SELECT COUNT(*) FROM '../../../../../../etc/passwd'
SELECT COUNT(*) FROM '/etc/passwd'
SELECT COUNT(*) FROM '/proc/self/environ'
SELECT COUNT(*) FROM 'file:///etc/passwd'
SELECT COUNT(*) FROM read_csv('x.csv')
SELECT COUNT(*) FROM read_csv_auto('x.csv')
SELECT COUNT(*) FROM read_csv(['x.csv', '{folder}/x.csv'])
SELECT COUNT(*) FROM read_csv('x.csv', header = true, columns = {'age': 'INT'})
SELECT COUNT(*) FROM read_parquet('x.parquet')
SELECT COUNT(*) FROM read_parquet('*.parquet', filename = true)
SELECT COUNT(*) FROM parquet_scan('x.parquet')
SELECT COUNT(*) FROM parquet_metadata('x.parquet')
SELECT COUNT(*) FROM parquet_schema('x.parquet')
SELECT COUNT(*) FROM parquet_kv_metadata('x.parquet')
SELECT COUNT(*) FROM read_json('x.json')
SELECT COUNT(*) FROM read_json_auto('x.json')
SELECT COUNT(*) FROM read_ndjson('x.json')
SELECT COUNT(*) FROM read_text('x.csv')
SELECT COUNT(*) FROM read_blob('x.csv')
SELECT COUNT(*) FROM glob('*')
SELECT COUNT(*) FROM glob('{folder}/../**')
SELECT COUNT(*) FROM sniff_csv('x.csv')
SELECT COUNT(*) FROM read_duckdb('{folder}/payroll/snapshots/payroll-1.duckdb')
SELECT content FROM read_text('x.csv')
SELECT * FROM read_csv('x.csv')
SELECT AVG(age) FROM read_csv('x.csv')
SELECT MAX(filename) FROM read_text('*')
SELECT (SELECT content FROM read_text('x.csv')) AS n, COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WHERE age > (SELECT age FROM 'x.csv')
SELECT COUNT(*) FROM visits WHERE ward IN (SELECT age FROM read_csv('x.csv'))
SELECT COUNT(*) FROM visits, 'x.csv'
SELECT COUNT(*) FROM visits, read_text('x.csv') AS t
SELECT COUNT(*) FROM visits JOIN 'x.csv' USING (patient_id)
SELECT COUNT(*) FROM visits JOIN read_csv('x.csv') AS f ON f.patient_id = visits.patient_id
SELECT COUNT(*) FROM visits UNION ALL SELECT age FROM 'x.csv'
WITH f AS (SELECT * FROM 'x.csv') SELECT COUNT(*) FROM f
WITH visits AS (SELECT * FROM read_csv('x.csv')) SELECT COUNT(*) FROM visits
FROM 'x.csv'
FROM read_csv('x.csv') SELECT COUNT(*)
TABLE 'x.csv'
SELECT COUNT(*) FROM st_read('x.csv')
SELECT COUNT(*) FROM read_xlsx('x.xlsx')
SELECT COUNT(*) FROM read_avro('x.avro')
SELECT COUNT(*) FROM delta_scan('x')
SELECT COUNT(*) FROM iceberg_scan('x')
SELECT COUNT(*) FROM sqlite_scan('ledger.sqlite', 'entry')
SELECT COUNT(*) FROM postgres_scan('host=localhost', 'public', 't')
SELECT COUNT(*) FROM mysql_scan('', '', '')
SELECT COUNT(*) FROM pandas_scan(0)
SELECT COUNT(*) FROM arrow_scan(0, 0, 0)
SELECT COUNT(*) FROM seq_scan('visits')
# the network
SELECT COUNT(*) FROM 'http://localhost:1/x.csv'
SELECT COUNT(*) FROM 'https://example.org/x.parquet'
SELECT COUNT(*) FROM 's3://bucket/x.parquet'
SELECT COUNT(*) FROM 'hf://datasets/x/y.parquet'
SELECT COUNT(*) FROM 'gcs://bucket/x.parquet'
SELECT COUNT(*) FROM read_csv('http://localhost:1/' || (SELECT MAX(name) FROM visits))
SELECT http_get('http://localhost:1/') FROM visits
INSTALL httpfs
LOAD httpfs
INSTALL 'x.duckdb_extension'
FORCE INSTALL httpfs FROM community
CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET_KEY 'b')
# writing files
COPY visits TO 'y.csv'
COPY (SELECT * FROM visits) TO 'y.parquet' (FORMAT parquet)
COPY visits FROM 'x.csv'
COPY (SELECT COUNT(*) FROM visits) TO '/dev/stdout'
COPY FROM DATABASE snapshot TO memory
EXPORT DATABASE 'out'
EXPORT DATABASE 'out' (FORMAT parquet)
IMPORT DATABASE 'out'
SELECT COUNT(*) INTO OUTFILE 'y.csv' FROM visits
SELECT COUNT(*) INTO y FROM visits
SELECT write_log('x') FROM visits
.read x.csv
.output y.csv
\copy visits to 'y.csv'
