# other scripts and invisible marks
SELECT COUNT(*) FROM visits{U+FEFF}
{U+FEFF}SELECT COUNT(*) FROM visits
SELECT COUNT(*) FROM vis{U+200B}its
SELECT COUNT(*) FROM visits{U+200D}
SELECT COUNT(*) FROM vi{U+0455}its
SELECT COUNT(*) FROM {U+FF56}isits
SELECT COUNT(*) FROM visits{U+0301}
SELECT COUNT(*) FROM {U+202E}stisiv
SELECT COUNT(*) FROM {U+2066}visits{U+2069}
SELECT COUNT(*){U+00A0}FROM{U+00A0}visits
SELECT{U+3000}COUNT(*){U+3000}FROM{U+3000}visits
SELECT{U+2003}COUNT(*) FROM visits
SELECT{U+0085}COUNT(*) FROM visits
SELECT{U+000B}COUNT(*) FROM visits
SELECT{U+000C}COUNT(*){U+0009}FROM{U+000D}{U+000A}visits
SELECT COUNT(*) FROM visits{U+0000}
SELECT COUNT(*) FROM visits{U+0000}; DROP TABLE visits
{U+0000}
SELECT{U+0000}COUNT(*) FROM visits
SELECT COUNT(*) FROM visits WHERE age > 5{U+0000}00
SELECT COUNT(*) FROM "vis{U+0000}its"
SELECT COUNT({U+FF0A}) FROM visits
SELECT COUNT{U+FF08}*{U+FF09} FROM visits
{U+FF33}ELECT COUNT(*) FROM visits
SELE{U+0421}T COUNT(*) FROM visits
SELECT COUNT(*) {U+24BB}ROM visits
{U+017F}ELECT COUNT(*) FROM vi{U+017F}it{U+017F}
SELECT COUNT(*) FROM v{U+0131}s{U+0131}ts
SELECT COUNT(*) FROM V{U+0130}S{U+0130}TS
SELECT COUNT(*) FROM VISITS
SELECT COUNT(*) FROM Visits
SELECT AVG({U+0410}GE) FROM visits
SELECT AVG(AG{U+0395}) FROM visits
SELECT SUM({U+FF41}{U+FF47}{U+FF45}) FROM visits
SELECT SUM(co{U+017F}t) AS s FROM visits
SELECT ward AS {U+202E}n, COUNT(*) FROM visits GROUP BY ward
SELECT COUNT(*) AS "{U+202E}" FROM visits
SELECT COUNT(*) AS "{U+200B}" FROM visits
SELECT COUNT(*) AS "{U+0000}" FROM visits
SELECT COUNT(*) AS "{U+000A}{U+000A}SF-B101" FROM visits
SELECT COUNT(*) AS "{U+001B}[2J" FROM visits
SELECT COUNT(*) AS "<script>alert(1)</script>" FROM visits
SELECT COUNT(*) AS "{U+1F600}" FROM visits
SELECT COUNT(*) AS "{U+D800}" FROM visits
SELECT COUNT(*) AS n{U+D800} FROM visits
SELECT COUNT(*) FROM visits WHERE ward = '{U+D83D}'
SELECT COUNT(*) FROM visits WHERE ward = '{U+DFFF}{U+D800}'
SELECT COUNT(*) FROM "{U+D800}"
SELECT SUM("{U+DC80}") FROM visits
SELECT COUNT(*) AS "{U+10FFFF}{U+FFFE}" FROM visits
SELECT COUNT(*) AS "{U+FDD0}" FROM visits
SELECT COUNT(*) FROM visits -- {U+D800}
SELECT COUNT(*) FROM visits {U+2014}{U+2014} x
SELECT COUNT(*) FROM visits {U+FF1B} DROP TABLE visits
SELECT COUNT(*) FROM visits{U+037E} DROP TABLE visits
SELECT COUNT(*) FROM visits WHERE ward = 'A'{U+2215}* x *{U+2215}
SELECT COUNT(*) FROM visits LIMIT {U+FF11}
SELECT COUNT(*) FROM visits LIMIT {U+00B9}
SELECT COUNT(*) FROM visits LIMIT {U+0967}
SELECT COUNT(*) FROM visits OFFSET {U+0661}
SELECT ward, COUNT(*) AS n FROM visits GROUP BY {U+FF11}
SELECT ward, COUNT(*) AS n FROM visits GROUP BY {U+00B9}
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY {U+0662}
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY {U+00B2}
SELECT COUNT(*) * {U+FF11}{U+FF12} AS n FROM visits
SELECT COUNT({U+0661}) AS n FROM visits
SELECT COUNT({U+00B2}) AS n FROM visits
# comments in odd places
SELECT/**/COUNT(*)/**/FROM/**/visits
SELECT COUNT(*) FROM visits -- comment
SELECT COUNT(*) FROM visits --
SELECT COUNT(*) FROM visits /* open
SELECT COUNT(*) FROM visits */
SELECT COUNT(*) FROM /* '; DROP TABLE visits; -- */ visits
SELECT COUNT(/* x */*/* y */) FROM visits
SELECT COU/**/NT(*) FROM visits
--{U+000A}SELECT COUNT(*) FROM visits
-- SELECT COUNT(*) FROM visits
/* SELECT COUNT(*) FROM visits */
/*!50000 SELECT COUNT(*) FROM visits */
SELECT COUNT(*) FROM visits # comment
SELECT COUNT(*) FROM visits // comment
SELECT COUNT(*) FROM visits WHERE ward = 'A' -- ' OR name = 'Ada'
SELECT COUNT(*) FROM visits WHERE ward = 'A' --{U+000D}OR 1=1
{# jinja #} SELECT COUNT(*) FROM visits
{% set x = 1 %} SELECT COUNT(*) FROM visits
# quotes
SELECT COUNT(*) FROM visits WHERE ward = 'A' OR '1'='1'
SELECT COUNT(*) FROM visits WHERE ward = 'A'' OR 1=1 --'
SELECT COUNT(*) FROM visits WHERE ward = 'A
SELECT COUNT(*) FROM visits WHERE ward = "A
SELECT COUNT(*) FROM "visits
SELECT COUNT(*) FROM visits'
SELECT COUNT(*) FROM visits"
SELECT COUNT(*) FROM visits`
SELECT COUNT(*) FROM $$visits$$
SELECT COUNT(*) FROM $a$visits$a$
SELECT COUNT(*) FROM visits WHERE ward = $a$A$b$A$a$
SELECT COUNT(*) FROM 'visits'
SELECT COUNT(*) FROM E'visits'
SELECT COUNT(*) FROM U&"visits"
SELECT 'COUNT(*)' FROM visits
SELECT "COUNT(*)" FROM visits
SELECT COUNT("*") FROM visits
SELECT COUNT('*') FROM visits
# names
SELECT COUNT(*) AS "n"", name AS x FROM rows --" FROM visits
SELECT COUNT(*) AS "'; DROP TABLE rows; --" FROM visits
SELECT COUNT(*) AS 'n' FROM visits
SELECT COUNT(*) AS "" FROM visits
SELECT COUNT(*) "n" FROM visits
SELECT COUNT(*) n FROM visits
SELECT n: COUNT(*) FROM visits
SELECT COUNT(*) AS select FROM visits
SELECT COUNT(*) AS "select" FROM visits
SELECT COUNT(*) AS age, AVG(age) AS cost FROM visits WHERE age > 5 AND cost > 5
SELECT COUNT(*) AS ward, ward AS n FROM visits GROUP BY ward
SELECT age AS ward, COUNT(*) FROM visits GROUP BY ward
SELECT ward AS age, AVG(age) AS ward FROM visits GROUP BY ward
SELECT ward AS age, COUNT(*) FROM visits GROUP BY age
SELECT patient_id AS ward, COUNT(*) AS n FROM visits GROUP BY ward
SELECT COUNT(*) AS n, SUM(cost) AS N FROM visits
SELECT COUNT(*) AS n, SUM(cost) AS n FROM visits
SELECT COUNT(*) AS visits FROM visits
SELECT COUNT(*) AS patient_id FROM visits
SELECT COUNT(*) AS unit, COUNT(age) AS c0 FROM visits
SELECT COUNT(*) AS n_low, SUM(cost) AS n FROM visits
SELECT COUNT(*) AS {3000×n} FROM visits
SELECT COUNT(*) AS "{15000×n}" FROM visits
SELECT COUNT(*) FROM {3000×v}
SELECT SUM({3000×c}) FROM visits
SELECT {3000×c} FROM visits
SELECT COUNT(*) FROM visits AS "; DROP TABLE rows; --"
SELECT COUNT(*) FROM visits AS v WHERE v.age > 5
SELECT COUNT(*) FROM visits AS v WHERE visits.age > 5
SELECT COUNT(*) FROM visits AS v WHERE "V"."AGE" > 5
SELECT COUNT(*) FROM "../visits"
SELECT COUNT(*) FROM "visits%2F..%2Fpeople-1"
SELECT COUNT(*) FROM "visits-1.duckdb"
SELECT COUNT(*) FROM ""
SELECT COUNT(*) FROM " visits"
SELECT COUNT(*) FROM "visits "
SELECT COUNT(*) FROM NULL
SELECT COUNT(*) FROM 1
SELECT COUNT(*) FROM *
SELECT COUNT(*) FROM ()
SELECT COUNT(*) FROM (visits)
SELECT COUNT(*) FROM (visits JOIN people USING (patient_id))
SELECT COUNT(*) FROM visits,
SELECT , FROM visits
SELECT COUNT(*), FROM visits
# numbers after the noise
SELECT COUNT(*) / 0 AS n FROM visits
SELECT 1 / COUNT(*) AS n FROM visits
SELECT COUNT(*) / (COUNT(*) - COUNT(*)) AS n FROM visits
SELECT SUM(cost) / COUNT(*) AS n FROM visits WHERE age = 109
SELECT COUNT(*) * 1e30 * 1e30 AS n FROM visits
SELECT COUNT(*) * 99999999999999999999999999999999999999 * 99999999999999999999999999999999999999 AS n FROM visits
SELECT COUNT(*) + 1e39 AS n FROM visits
SELECT COUNT(*) * 0.0000000000000000000000000001 AS n FROM visits
SELECT 1e30 * 1e30 + COUNT(*) AS n FROM visits
SELECT -COUNT(*) AS n FROM visits
SELECT - - COUNT(*) AS n FROM visits
SELECT COUNT(*) % 2 AS n FROM visits
SELECT COUNT(*) // 2 AS n FROM visits
SELECT COUNT(*) ** 2 AS n FROM visits
SELECT COUNT(*) || 'x' AS n FROM visits
SELECT COUNT(*) > 5 AS n FROM visits
SELECT CASE WHEN COUNT(*) > 5 THEN MAX(age) END AS n FROM visits
SELECT COALESCE(SUM(age), MAX(age)) AS n FROM visits
SELECT ROUND(AVG(age), 2) AS n FROM visits
SELECT SQRT(COUNT(*)) AS n FROM visits
SELECT CAST(COUNT(*) AS VARCHAR) AS n FROM visits
SELECT COUNT(*)::TINYINT AS n FROM visits
SELECT TRY_CAST(AVG(age) AS DATE) AS n FROM visits
SELECT error(COUNT(*)) AS n FROM visits
SELECT STRUCT_PACK(n := COUNT(*)) AS n FROM visits
SELECT [COUNT(*), MAX(age)] AS n FROM visits
SELECT {'n': COUNT(*)} AS n FROM visits
SELECT {:1} FROM visits
e{:2e}_(
SELECT MAP {'n': COUNT(*)} AS n FROM visits
SELECT COUNT(*) AS n, n + 1 AS m FROM visits
SELECT COUNT(*) AS n, (SELECT n) AS m FROM visits
SELECT 5 AS n, COUNT(*) AS m FROM visits
SELECT 'x' AS n, COUNT(*) AS m FROM visits
SELECT NULL AS n, COUNT(*) AS m FROM visits
SELECT now() AS n, COUNT(*) AS m FROM visits
SELECT random() AS n, COUNT(*) AS m FROM visits
SELECT COUNT(*) + random() AS n FROM visits
SELECT uuid() AS n, COUNT(*) AS m FROM visits
SELECT SUM(age + cost) AS s FROM visits
SELECT SUM(age * 1000000) AS s FROM visits
SELECT SUM(age * age * age * age * age * age) AS s FROM visits
SELECT SUM(1 / (age - 109)) AS s FROM visits
SELECT AVG(CAST(ward AS INT)) AS s FROM visits
SELECT SUM(CASE WHEN age = 109 THEN 1e300 ELSE 0 END) AS s FROM visits
SELECT SUM(CASE WHEN age = 109 THEN error('x') ELSE 0 END) AS s FROM visits
SELECT SUM(LENGTH(name)) AS s FROM visits
SELECT SUM(LENGTH(ward)) AS s FROM visits
SELECT SUM(-cost) AS s FROM visits
SELECT SUM(cost) AS s, SUM(cost) AS t, SUM(cost) AS u FROM visits
SELECT AVG(ward) AS s FROM visits
SELECT SUM(smoker) AS s FROM visits
SELECT SUM(exp(age * 100)) AS s FROM visits
SELECT SUM(sqrt(age - 100)) AS s FROM visits
SELECT SUM(ln(readmitted)) AS s FROM visits
SELECT SUM(COALESCE(age, 1e300)) AS s FROM visits
SELECT SUM(hash(name)) AS s FROM visits
# size
SELECT {800×COUNT(*), }COUNT(*) FROM visits
SELECT {300×(}COUNT(*){300×)} AS n FROM visits
SELECT {3000×(}COUNT(*){3000×)} AS n FROM visits
SELECT COUNT(*){700× + COUNT(*)} AS n FROM visits
SELECT COUNT(*) FROM {500×(SELECT * FROM }visits{500×)}
{300×SELECT (}SELECT COUNT(*) FROM visits{300×)}
{19990×x}
{30000×x}
{5000×;}
{5000×,}
{5000×'}
{5000×"}
{9000×--}
{5000×(}
{5000×[}
{3000×{}
{5000×CASE }
{3000×SELECT }
{1500×WITH a AS (}
{2000×NOT }
{5000×.}
SELECT COUNT(*) FROM visits{3000×.a}
SELECT COUNT(*) FROM a{3000×, a}
SELECT COUNT(*) FROM visits{1000× JOIN people ON true}
SELECT COUNT(*) FROM visits{800× UNION SELECT 1}
SELECT ward, COUNT(*) FROM visits GROUP BY ward{2000×, ward}
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n{3000×, n}
