-- 01 How many people work here now?
SELECT COUNT(*) FROM EMPLOYEES WHERE LEFT_ON IS NULL;

-- 02 Lowest, highest and average salary by department
SELECT department, MIN(salary) AS min_salary, MAX(salary) AS max_salary, ROUND(AVG(salary)) AS avg_salary
FROM employees
GROUP BY department
ORDER BY avg_salary DESC;

-- 03 Titles that earn more than 64,000 on average
SELECT title, COUNT(*) AS n, AVG(salary) AS avg_salary
FROM employees
GROUP BY title
HAVING AVG(salary) > 64000
ORDER BY avg_salary DESC;

-- 04 [cannot be answered] Who has the highest salary?
SELECT employee_id, title, salary
FROM employees
ORDER BY salary DESC NULLS LAST
LIMIT 1;

-- 05 Pay gap between men and women by department
SELECT
    d.department_name,
    ROUND(AVG(e.salary) FILTER (WHERE e.gender = 'M'), 0) AS men,
    ROUND(AVG(e.salary) FILTER (WHERE e.gender = 'F'), 0) AS women,
    ROUND(AVG(e.salary) FILTER (WHERE e.gender = 'M') - AVG(e.salary) FILTER (WHERE e.gender = 'F'), 0) AS gap
FROM employees e
JOIN departments d ON e.department = d.department
GROUP BY d.department_name
ORDER BY gap DESC;

-- 06 Hires by year and quarter
SELECT YEAR(hired) || '-Q' || QUARTER(hired) AS quarter, COUNT(*) AS hires
FROM employees
GROUP BY quarter
ORDER BY quarter;

-- 07 In which decade were our people born?
SELECT
    CAST(FLOOR(EXTRACT(YEAR FROM birth_date) / 10) * 10 AS INTEGER) AS decade,
    COUNT(DISTINCT employee_id) AS employees
FROM employees
WHERE birth_date IS NOT NULL
GROUP BY decade
ORDER BY decade;

-- 08 Average total compensation, salary and commission together, by title
SELECT title, ROUND(AVG(salary * (1 + COALESCE(commission, 0))), 2) AS avg_compensation
FROM employees
GROUP BY title
ORDER BY avg_compensation DESC
LIMIT 3;

-- 09 How widely are salaries spread?
SELECT
    AVG(salary) AS mean,
    STDDEV(salary) AS sd,
    STDDEV(salary) / AVG(salary) AS cv,
    EXP(AVG(LN(salary))) AS geometric_mean
FROM employees
WHERE salary > 0;

-- 10 Does the salary go up with the level?
SELECT CORR(level, salary) AS correlation FROM employees;

-- 11 [cannot be answered] How does each new hire's salary compare with the one hired before?
SELECT employee_id, hired, salary, salary - LAG(salary) OVER (ORDER BY hired, employee_id) AS difference
FROM employees
ORDER BY hired, employee_id;

-- 12 How many managers does each office have?
SELECT office, COUNT(*) AS managers
FROM employees
WHERE title ILIKE '%manager' OR title = 'Director'
GROUP BY office
ORDER BY managers DESC, office;

-- 13 Share of remote jobs by office, only for offices that are filled in
SELECT
    office,
    COUNT(*) AS jobs,
    ROUND(AVG(CASE WHEN remote THEN 1.0 ELSE 0.0 END), 3) AS remote_share,
    RANK() OVER (ORDER BY AVG(CASE WHEN remote THEN 1.0 ELSE 0.0 END) DESC) AS place
FROM employees
WHERE office IS NOT NULL
GROUP BY office
ORDER BY place;

-- 14 Genders as columns, departments as rows
PIVOT employees ON gender USING COUNT(*) GROUP BY department;

-- 15 How many in each department earn more than the company average?
SELECT department, COUNT(*) AS above_average
FROM employees
WHERE salary > (SELECT AVG(salary) FROM employees)
GROUP BY department
ORDER BY above_average DESC;

-- 16 How much has the salary of those grown who had several jobs here?
SELECT
    COUNT(*) AS movers,
    ROUND(AVG(last_salary - first_salary)) AS avg_raise
FROM (
    SELECT
        employee_id,
        arg_min(salary, hired) AS first_salary,
        arg_max(salary, hired) AS last_salary
    FROM employees
    GROUP BY employee_id
    HAVING COUNT(*) > 1
) AS careers;

-- 17 Counting only everybody's latest job, how many are there of each title?
WITH latest AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY employee_id ORDER BY hired DESC) AS rn
    FROM employees
)
SELECT title, COUNT(*) AS people, ROUND(AVG(salary), 0) AS avg_salary
FROM latest
WHERE rn = 1
GROUP BY title
ORDER BY people DESC;

-- 18 The largest department of each division by payroll
WITH payroll AS (
    SELECT d.division, d.department_name, SUM(e.salary) AS total
    FROM employees e
    JOIN departments d ON d.department = e.department
    WHERE e.left_on IS NULL
    GROUP BY d.division, d.department_name
)
SELECT
    division,
    department_name,
    total,
    DENSE_RANK() OVER (PARTITION BY division ORDER BY total DESC) AS place
FROM payroll
ORDER BY division, place;

-- 19 How long did jobs last that have ended?
SELECT
    CASE
        WHEN left_on - hired < 90 THEN '1: under 3 months'
        WHEN left_on - hired < 365 THEN '2: under a year'
        ELSE '3: a year or more'
    END AS tenure,
    COUNT(*) AS jobs,
    AVG(LEAST(left_on - hired, 730)) AS avg_days
FROM employees
WHERE left_on IS NOT NULL
GROUP BY tenure
ORDER BY tenure;

-- 20 Hires by month in 2023, as text, with the titles that were hired
SELECT strftime(hired, '%Y-%m') AS month, COUNT(*) AS hires, COUNT(DISTINCT title) AS titles
FROM employees
WHERE hired BETWEEN '2023-01-01' AND '2023-12-31'
GROUP BY month
ORDER BY month;
