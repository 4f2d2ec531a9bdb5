# joins
SELECT COUNT(*) FROM visits, people
SELECT COUNT(*) FROM visits, visits
SELECT COUNT(*) FROM visits AS a, visits AS b
SELECT COUNT(*) FROM visits CROSS JOIN people
SELECT COUNT(*) FROM visits JOIN people USING (patient_id)
SELECT COUNT(*) FROM visits AS v JOIN people AS p ON v.patient_id = p.patient_id
SELECT COUNT(*) FROM visits AS v JOIN people AS p ON p.patient_id = v.patient_id WHERE p.height > 170
SELECT p.sex, COUNT(*) AS n, AVG(v.cost) AS c FROM visits v JOIN people p ON v.patient_id = p.patient_id GROUP BY p.sex
SELECT COUNT(*) FROM visits v JOIN people p ON v.age = p.height
SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id <> p.patient_id
SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id = p.patient_id OR true
SELECT COUNT(*) FROM visits v JOIN people p ON true
SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id = p.ssn
SELECT COUNT(*) FROM visits v JOIN people p ON v.name = p.ssn
SELECT COUNT(*) FROM visits v LEFT JOIN people p ON v.patient_id = p.patient_id WHERE p.sex IS NULL
SELECT COUNT(*) FROM visits v RIGHT JOIN people p USING (patient_id)
SELECT COUNT(*) FROM visits v FULL JOIN people p USING (patient_id)
SELECT COUNT(*) FROM visits NATURAL JOIN people
SELECT COUNT(*) FROM visits SEMI JOIN people USING (patient_id)
SELECT COUNT(*) FROM visits ANTI JOIN people USING (patient_id)
SELECT COUNT(*) FROM visits POSITIONAL JOIN people
SELECT COUNT(*) FROM visits ASOF JOIN people ON visits.age >= people.height
SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id
SELECT SUM(a.cost) AS s FROM visits a JOIN visits b ON a.patient_id = b.patient_id JOIN visits c ON c.patient_id = a.patient_id
SELECT COUNT(*) FROM visits v JOIN staff s ON v.ward = s.ward
SELECT COUNT(*) FROM visits v JOIN staff s ON v.patient_id = s.staff_id
SELECT COUNT(*) FROM visits v, staff s WHERE v.ward = s.ward
SELECT SUM(salary) AS s FROM visits
SELECT COUNT(*) FROM visits JOIN payroll USING (patient_id)
SELECT COUNT(*) FROM visits v JOIN people v USING (patient_id)
SELECT COUNT(*) FROM visits v JOIN people p USING (name)
SELECT COUNT(*) FROM visits v JOIN people p ON v.patient_id = p.patient_id AND p.ssn = '1'
SELECT p.patient_id, COUNT(*) FROM visits v JOIN people p USING (patient_id) GROUP BY p.patient_id
SELECT v.age FROM visits v JOIN people p USING (patient_id)
SELECT COUNT(*) FROM visits v LEFT JOIN LATERAL (SELECT 1 FROM people) t ON true
SELECT COUNT(*) FROM visits, LATERAL (SELECT MAX(height) AS h FROM people WHERE people.patient_id = visits.patient_id) t
SELECT COUNT(*) FROM visits CROSS APPLY people
# subqueries
SELECT COUNT(*) FROM (SELECT * FROM visits)
SELECT COUNT(*) FROM (SELECT age FROM visits)
SELECT AVG(a) AS m FROM (SELECT age AS a FROM visits)
SELECT COUNT(*) FROM (SELECT * FROM visits) AS visits
SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 1)
SELECT SUM(age) AS s FROM (SELECT age FROM visits ORDER BY cost DESC LIMIT 1)
SELECT SUM(age) AS s FROM (SELECT age FROM visits OFFSET 3)
SELECT COUNT(*) FROM (SELECT DISTINCT age FROM visits)
SELECT COUNT(*) FROM (SELECT age, COUNT(*) FROM visits GROUP BY age)
SELECT SUM(n) AS s FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)
SELECT SUM(m) AS s FROM (SELECT ward, MAX(age) AS m FROM visits GROUP BY ward)
SELECT AVG(n) AS s FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)
SELECT SUM(s) AS s FROM (SELECT patient_id, SUM(cost) AS s FROM visits GROUP BY patient_id)
SELECT SUM(s) AS s FROM (SELECT patient_id, SUM(cost) * 1000000 AS s FROM visits GROUP BY patient_id)
SELECT n, COUNT(*) AS people FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY n
SELECT COUNT(*) FROM (SELECT patient_id FROM visits GROUP BY patient_id HAVING MAX(age) = 109)
SELECT COUNT(*) FROM ((((SELECT age FROM visits))))
SELECT COUNT(*) FROM (SELECT age FROM visits) AS t (salary) WHERE salary > 1
SELECT COUNT(*) FROM visits AS t (a, b, c)
SELECT COUNT(*) FROM visits AS people
SELECT COUNT(*) FROM visits AS staff WHERE salary > 1
SELECT COUNT(*) FROM (SELECT name AS ward, age FROM visits) WHERE ward = 'A'
SELECT ward, COUNT(*) FROM (SELECT name AS ward FROM visits) GROUP BY ward
SELECT SUM(age) AS s FROM (SELECT age * 1000 AS age FROM visits)
SELECT SUM(age) AS s FROM (SELECT cost AS age FROM visits)
SELECT SUM(age) AS s FROM (SELECT CAST(patient_id AS INT) AS age FROM visits)
SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age FROM visits)
SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (age)
SELECT SUM(age) AS s FROM (SELECT 1 AS age)
SELECT SUM(age) AS s FROM (SELECT 1 AS age) AS visits
SELECT (SELECT COUNT(*) FROM visits) AS n
SELECT (SELECT age FROM visits LIMIT 1) AS n FROM visits
SELECT (SELECT age FROM visits LIMIT 1) AS n, COUNT(*) FROM visits
SELECT COUNT(*) + (SELECT MAX(age) FROM visits) AS n FROM visits
SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits)
SELECT COUNT(*) FROM visits WHERE age = (SELECT MAX(age) FROM visits)
SELECT COUNT(*) FROM visits WHERE age = ANY (SELECT age FROM visits)
SELECT COUNT(*) FROM visits WHERE age > ALL (SELECT height FROM people)
SELECT COUNT(*) FROM visits WHERE age IN (SELECT height FROM people)
SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM people WHERE height > 170)
SELECT COUNT(*) FROM visits WHERE patient_id NOT IN (SELECT patient_id FROM people)
SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits WHERE age = 109)
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM people p WHERE p.patient_id = v.patient_id)
SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.cost > v.cost)
SELECT COUNT(*) FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE w.ward = v.ward)
SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.age > v.age) < 1
SELECT COUNT(*) FROM visits WHERE (age, cost) IN (SELECT age, cost FROM visits)
SELECT COUNT(*) FROM visits WHERE (age, cost) = (109, 4999)
SELECT COUNT(*) FROM visits GROUP BY (SELECT 1)
SELECT COUNT(*) FROM visits ORDER BY (SELECT MAX(age) FROM visits)
# WITH
WITH v AS (SELECT * FROM visits) SELECT COUNT(*) FROM v
WITH v AS (SELECT age FROM visits WHERE age > 65) SELECT COUNT(*) AS n FROM v
WITH visits AS (SELECT * FROM visits) SELECT COUNT(*) FROM visits
WITH visits AS (SELECT * FROM people) SELECT COUNT(*) FROM visits
WITH people AS (SELECT 1 AS height) SELECT SUM(height) AS s FROM people
WITH v AS (SELECT 1 AS age) SELECT SUM(age) AS s FROM v
WITH v AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM v
WITH v AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT SUM(n) AS s FROM v
WITH v AS (SELECT age FROM visits), w AS (SELECT age FROM v) SELECT COUNT(*) FROM w
WITH v AS (SELECT age FROM w), w AS (SELECT age FROM visits) SELECT COUNT(*) FROM v
WITH v AS (SELECT age FROM v) SELECT COUNT(*) FROM v
WITH v AS (SELECT 1), v AS (SELECT 2) SELECT COUNT(*) FROM v
WITH v AS MATERIALIZED (SELECT age FROM visits) SELECT COUNT(*) FROM v
WITH v (a, b) AS (SELECT age, cost FROM visits) SELECT SUM(a) AS s FROM v
WITH v AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM v
WITH v AS (VALUES (1)) SELECT COUNT(*) FROM v
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 1000000000) SELECT SUM(n) AS s FROM t
WITH RECURSIVE t AS (SELECT age FROM visits UNION ALL SELECT age FROM t) SELECT COUNT(*) FROM t
WITH RECURSIVE t USING KEY (n) AS (SELECT 1 AS n UNION SELECT n FROM t) SELECT COUNT(*) FROM t
WITH v AS (SELECT age FROM visits) SELECT (WITH w AS (SELECT 1) SELECT * FROM w) AS n, COUNT(*) FROM v
WITH v AS (SELECT age FROM visits) SELECT COUNT(*) FROM v AS a JOIN v AS b ON true
WITH v AS (SELECT patient_id, age FROM visits) SELECT COUNT(*) FROM v AS a JOIN v AS b ON a.patient_id = b.patient_id
# set operations
SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM people
SELECT COUNT(*) FROM visits UNION ALL SELECT MAX(age) FROM visits
SELECT COUNT(*) FROM visits UNION ALL BY NAME SELECT age FROM visits
SELECT COUNT(*) FROM visits INTERSECT SELECT 1
SELECT COUNT(*) FROM visits EXCEPT SELECT 1
SELECT COUNT(*) FROM visits EXCEPT ALL SELECT age FROM visits
(SELECT COUNT(*) FROM visits)
((SELECT COUNT(*) FROM visits))
(SELECT COUNT(*) FROM visits) LIMIT 1
SELECT COUNT(*) FROM visits UNION (SELECT name FROM visits)
# tables from nothing
SELECT COUNT(*)
SELECT 1
SELECT
SELECT COUNT(*) FROM range(10)
SELECT COUNT(*) FROM range(1000000000000)
SELECT COUNT(*) FROM generate_series(1, 1000000000000)
SELECT SUM(generate_series) FROM generate_series(1, 10)
SELECT COUNT(*) FROM repeat(1, 1000000000000)
SELECT COUNT(*) FROM repeat_row(1, num_rows = 5)
SELECT COUNT(*) FROM unnest([1, 2, 3])
SELECT unnest([age, cost]) FROM visits
SELECT unnest(LIST(age)) FROM visits
SELECT COUNT(*) FROM visits, unnest([1, 2, 3])
SELECT COUNT(*) FROM visits, unnest([age]) AS t (a)
SELECT COUNT(*) FROM visits, range(1000)
SELECT COUNT(*) FROM visits CROSS JOIN generate_series(1, 1000)
SELECT SUM(cost) AS s FROM visits, (VALUES (1), (2), (3)) AS t (x)
SELECT COUNT(*) FROM summary((SELECT * FROM visits))
SELECT COUNT(*) FROM test_all_types()
SELECT COUNT(*) FROM checkpoint()
SELECT COUNT(*) FROM force_checkpoint()
SELECT COUNT(*) FROM repeat_table()
SELECT COUNT(*) FROM visits()
SELECT COUNT(*) FROM visits(1)
SELECT COUNT(*) FROM ONLY visits
SELECT COUNT(*) FROM visits *
# turning, sampling, other times
PIVOT visits ON ward USING COUNT(*)
PIVOT visits ON name USING COUNT(*) GROUP BY ward
UNPIVOT visits ON age, cost
SELECT COUNT(*) FROM (PIVOT visits ON name USING COUNT(*))
SELECT COUNT(*) FROM visits PIVOT (COUNT(*) FOR ward IN ('A', 'B'))
SELECT COUNT(*) FROM visits UNPIVOT (v FOR k IN (age, cost))
SELECT COUNT(*) FROM visits TABLESAMPLE 10%
SELECT COUNT(*) FROM visits TABLESAMPLE RESERVOIR (1)
SELECT COUNT(*) FROM visits TABLESAMPLE BERNOULLI (100) REPEATABLE (1)
SELECT COUNT(*) FROM visits USING SAMPLE 1 ROWS
SELECT COUNT(*) FROM visits USING SAMPLE reservoir(1 ROWS) REPEATABLE (42)
SELECT COUNT(*) FROM visits AT (VERSION => 1)
SELECT COUNT(*) FROM visits AT (TIMESTAMP => now())
SELECT COUNT(*) FROM visits FOR SYSTEM_TIME AS OF '2020-01-01'
SELECT COUNT(*) FROM visits VERSION AS OF 1
SELECT COUNT(*) FROM visits@1
SELECT COUNT(*) FROM visits WITH ORDINALITY
SELECT COUNT(*) FROM visits MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS true)
SELECT COUNT(*) FROM visits FOR UPDATE
SELECT COUNT(*) FROM visits WITH (NOLOCK)
SELECT COUNT(*) FROM visits FINAL
SELECT /*+ hint(visits) */ COUNT(*) FROM visits
SELECT COUNT(*) FROM visits CONNECT BY PRIOR age = cost
SELECT COUNT(*) FROM visits LATERAL VIEW explode(age) t AS x
SELECT COUNT(*) FROM visits SETTINGS max_threads = 1
SELECT COUNT(*) FROM visits FORMAT JSON
SELECT COUNT(*) FROM visits PREWHERE age > 1
SELECT COUNT(*) FROM visits CLUSTER BY age
SELECT COUNT(*) FROM visits |> WHERE age > 1
