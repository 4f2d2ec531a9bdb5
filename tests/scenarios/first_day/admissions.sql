-- 01 How many admissions do we have, and how many different patients?
SELECT COUNT(*) AS admissions, COUNT(DISTINCT patient_id) AS patients
FROM admissions;

-- 02 What columns does the table have?
DESCRIBE admissions;

-- 03 How many admissions did each ward have, busiest first?
SELECT ward, COUNT(*) AS total_admissions
FROM admissions
GROUP BY ward
ORDER BY total_admissions DESC;

-- 04 How are patients insured, including those where nothing was written down?
SELECT insurance, COUNT(*) AS n, ROUND(AVG(charge), 2) AS avg_charge
FROM admissions
GROUP BY insurance
ORDER BY insurance NULLS LAST;

-- 05 Which cities do more than 200 patients come from?
SELECT COALESCE(city, 'unknown') AS city, COUNT(DISTINCT patient_id) AS patients
FROM admissions
GROUP BY 1
HAVING COUNT(DISTINCT patient_id) > 200
ORDER BY patients DESC;

-- 06 Average length of stay by the name of the ward
SELECT w.ward_name, ROUND(AVG(date_diff('day', a.admitted, a.discharged)), 1) AS avg_stay
FROM admissions AS a
JOIN wards AS w ON a.ward = w.ward
GROUP BY w.ward_name
ORDER BY avg_stay DESC;

-- 07 [cannot be answered] Let me see the first ten rows
SELECT * FROM admissions LIMIT 10;

-- 08 Weight groups in steps of ten kilograms, heaviest first
SELECT FLOOR(weight / 10) * 10 AS weight_group, COUNT(*) AS patients_in_group
FROM admissions
GROUP BY weight_group
ORDER BY weight_group DESC;

-- 09 How many are obese (body mass index of 30 or more)?
SELECT
    CASE WHEN weight / POWER(height / 100.0, 2) >= 30 THEN 1 ELSE 0 END AS is_obese,
    COUNT(*) AS n,
    AVG(age) AS avg_age
FROM admissions
WHERE weight IS NOT NULL AND height IS NOT NULL AND age >= 18
GROUP BY is_obese
ORDER BY is_obese;

-- 10 Admissions by month, and the change from the month before
WITH monthly AS (
    SELECT date_trunc('month', admitted) AS month, COUNT(*) AS admissions
    FROM admissions
    GROUP BY 1
)
SELECT month, admissions, admissions - LAG(admissions) OVER (ORDER BY month) AS change
FROM monthly
ORDER BY month;

-- 11 On which day of the week do most people come in?
SELECT dayname(admitted) AS weekday, COUNT(*) AS admissions
FROM Admissions
GROUP BY dayname(admitted)
ORDER BY admissions DESC;

-- 12 What percentage of admissions are women?
SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*), 2) || '%' AS percent_women
FROM admissions;

-- 13 Median and 90th percentile of the charge, emergency or not
SELECT emergency, MEDIAN(charge) AS median_charge, QUANTILE_CONT(charge, 0.9) AS p90_charge
FROM admissions
GROUP BY emergency;

-- 14 How many fractures, and how old are these patients?
SELECT diagnosis, COUNT(*) AS cases, ROUND(AVG(age), 1) AS mean_age
FROM admissions
WHERE diagnosis LIKE 'Fracture%'
GROUP BY diagnosis
ORDER BY cases DESC;

-- 15 Emergencies by age band
SELECT
    CASE
        WHEN age < 18 THEN '0-17'
        WHEN age BETWEEN 18 AND 39 THEN '18-39'
        WHEN age BETWEEN 40 AND 64 THEN '40-64'
        ELSE '65+'
    END AS age_band,
    COUNT(*) AS admissions,
    SUM(CASE WHEN emergency THEN 1 ELSE 0 END) AS emergencies,
    ROUND(100.0 * SUM(CASE WHEN emergency THEN 1 ELSE 0 END) / COUNT(*), 1) AS pct_emergency
FROM admissions
GROUP BY age_band
ORDER BY age_band;

-- 16 How many patients came once, twice, three times ...?
SELECT visits, COUNT(*) AS patients
FROM (
    SELECT patient_id, COUNT(*) AS visits
    FROM admissions
    GROUP BY patient_id
) AS per_patient
GROUP BY visits
ORDER BY visits;

-- 17 How many admissions were within 30 days after the same patient had left?
WITH stays AS (
    SELECT
        patient_id,
        admitted,
        LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS previous_discharge
    FROM admissions
)
SELECT COUNT(*) AS readmissions
FROM stays
WHERE date_diff('day', previous_discharge, admitted) <= 30;

-- 18 Charges by ward and emergency with subtotals and a grand total
SELECT ward, emergency, SUM(charge) AS total_charge, COUNT(*) AS n
FROM admissions
GROUP BY ROLLUP (ward, emergency)
ORDER BY ward NULLS LAST, emergency NULLS LAST;

-- 19 Admissions per year to the wards on the third floor and above
SELECT YEAR(admitted) AS year, COUNT(*) AS admissions
FROM admissions
WHERE ward IN (SELECT ward FROM wards WHERE floor >= 3)
GROUP BY YEAR(admitted)
ORDER BY year;

-- 20 The three most common diagnoses of each ward
SELECT ward, diagnosis, cases, rnk
FROM (
    SELECT
        ward,
        diagnosis,
        COUNT(*) AS cases,
        RANK() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC) AS rnk
    FROM admissions
    WHERE diagnosis IS NOT NULL
    GROUP BY ward, diagnosis
) AS ranked
WHERE rnk <= 3
ORDER BY ward, rnk;
