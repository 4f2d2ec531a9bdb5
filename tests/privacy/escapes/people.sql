# undeclared columns
SELECT AVG(name) FROM visits
SELECT COUNT(name) FROM visits
SELECT COUNT(*) FROM visits WHERE name = 'Ada'
SELECT COUNT(*) FROM visits WHERE diagnosis IS NULL
SELECT COUNT(*) FROM visits WHERE "name" >= 'A'
SELECT COUNT(*) FROM visits WHERE NAME <> 'A'
SELECT name, COUNT(*) FROM visits GROUP BY name
SELECT diagnosis AS ward, COUNT(*) FROM visits GROUP BY diagnosis
SELECT COUNT(*) FROM visits GROUP BY name
SELECT COUNT(DISTINCT name) FROM visits
SELECT COUNT(*) FROM visits HAVING name = 'A'
SELECT COUNT(*) AS n FROM visits ORDER BY name
SELECT MAX(diagnosis) FROM visits
SELECT COUNT(ssn) FROM people
SELECT SUM(visits.name) FROM visits
SELECT COUNT(*) FROM visits WHERE ssn = '1'
SELECT COUNT(*) FROM visits WHERE height > 1
SELECT COUNT(*) FROM visits WHERE people.height > 1
SELECT COUNT(*) FROM visits WHERE c0 > 1
SELECT SUM(c1) FROM visits
SELECT COUNT(*) FROM visits WHERE rowid = 1
SELECT SUM(rowid) FROM visits
SELECT COUNT(*) FROM visits WHERE rownum = 1
SELECT COUNT(*) FROM visits WHERE ctid = '(0,1)'
SELECT COUNT(*) FROM visits WHERE _rowid_ = 1
SELECT COUNT(*) FROM visits WHERE file_row_number = 1
SELECT COUNT(*) FROM visits WHERE filename = 'x'
# the unit's identifier
SELECT patient_id FROM visits
SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id
SELECT COUNT(*) FROM visits GROUP BY patient_id
SELECT COUNT(*) FROM visits WHERE patient_id = '7'
SELECT COUNT(*) FROM visits WHERE patient_id IN ('7', '8')
SELECT COUNT(*) FROM visits WHERE patient_id LIKE '%7'
SELECT COUNT(*) FROM visits WHERE patient_id IS NULL
SELECT COUNT(*) FROM visits WHERE PATIENT_ID > '5'
SELECT COUNT(*) FROM visits WHERE unit = '7'
SELECT COUNT(*) FROM visits WHERE "unit" = '7'
SELECT COUNT(DISTINCT unit) FROM visits
SELECT COUNT(patient_id) FROM visits
SELECT COUNT(DISTINCT patient_id) FROM visits
SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE patient_id = '7'
SELECT MAX(patient_id) FROM visits
SELECT MIN(patient_id) FROM visits
SELECT SUM(patient_id) FROM visits
SELECT MEDIAN(patient_id) FROM visits
SELECT ward, MAX(patient_id) FROM visits GROUP BY ward
SELECT LENGTH(patient_id) AS n, COUNT(*) FROM visits GROUP BY 1
SELECT LEFT(patient_id, 3) AS n, COUNT(*) FROM visits GROUP BY n
SELECT COUNT(*) FROM visits WHERE LENGTH(patient_id) = 7
SELECT COUNT(*) FROM visits WHERE hash(patient_id) % 2 = 0
SELECT SUM(CASE WHEN patient_id = '7' THEN 5000 ELSE 0 END) AS s FROM visits
SELECT COUNT(*) AS n FROM visits ORDER BY patient_id
SELECT COUNT(*) AS n FROM visits HAVING MIN(patient_id) = '7'
SELECT COUNT(*) FROM (SELECT patient_id, MAX(age) AS a FROM visits GROUP BY patient_id) WHERE patient_id = '7'
SELECT patient_id, a FROM (SELECT patient_id, MAX(age) AS a FROM visits GROUP BY patient_id)
SELECT id, COUNT(*) FROM (SELECT patient_id AS id FROM visits) GROUP BY id
WITH v AS (SELECT patient_id AS ward FROM visits) SELECT ward, COUNT(*) FROM v GROUP BY ward
SELECT staff_id, COUNT(*) FROM staff GROUP BY staff_id
SELECT COUNT(DISTINCT staff_id) FROM visits
SELECT COUNT(DISTINCT patient_id) FROM staff
# one person's row
SELECT age FROM visits
SELECT age, cost FROM visits WHERE age = 109
SELECT * FROM visits
SELECT visits.* FROM visits
SELECT * EXCLUDE (name) FROM visits
SELECT * REPLACE (age + 1 AS age) FROM visits
SELECT * RENAME (age AS a) FROM visits
SELECT COLUMNS(*) FROM visits
SELECT COLUMNS('a.*') FROM visits
SELECT SUM(COLUMNS(*)) FROM visits
SELECT COUNT(COLUMNS(* EXCLUDE (name))) FROM visits
SELECT COUNT(*) FROM visits WHERE COLUMNS(*) IS NOT NULL
SELECT UNPACK(COLUMNS(*)) FROM visits
SELECT visits FROM visits
SELECT COUNT(visits) FROM visits
SELECT ROW(age, cost) FROM visits
SELECT (age, cost) FROM visits
SELECT DISTINCT age FROM visits
SELECT DISTINCT ON (ward) age FROM visits
SELECT DISTINCT ON (ward) ward, COUNT(*) FROM visits GROUP BY ward
SELECT DISTINCT COUNT(*) FROM visits
SELECT ALL COUNT(*) FROM visits
SELECT TOP 1 age FROM visits
SELECT age FROM visits LIMIT 1
SELECT age FROM visits ORDER BY cost DESC LIMIT 1
SELECT age FROM visits USING SAMPLE 1
SELECT #1 FROM visits
SELECT COUNT(*) FROM visits GROUP BY #1
SELECT ward, COUNT(*) FROM visits GROUP BY #1 ORDER BY #2
SELECT ward, #1 FROM visits GROUP BY ward
SELECT ward, COUNT(*) FROM visits GROUP BY ALL
SELECT age, COUNT(*) FROM visits GROUP BY ALL
SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY ALL
SELECT age, COUNT(*) FROM visits GROUP BY age
SELECT cost AS ward, COUNT(*) FROM visits GROUP BY ward
SELECT ward, age FROM visits GROUP BY ward
SELECT age FROM visits GROUP BY ward
SELECT ward, COUNT(*) + age AS n FROM visits GROUP BY ward
SELECT COUNT(*) * age AS n FROM visits
FROM visits
FROM visits SELECT *
FROM visits SELECT COUNT(*)
FROM visits WHERE age = 109
TABLE visits
VALUES (1)
SELECT COUNT(*) FROM visits WHERE age = 109 AND cost = 4999
SELECT AVG(cost) FROM visits WHERE age = 109
SELECT SUM(cost) AS s FROM visits WHERE age >= 108 AND ward = 'C'
SELECT COUNT(*) FROM visits WHERE age IS NULL AND cost > 4998
