-- 01 What tables are there?
SHOW TABLES;

-- 02 Which statuses can an order have?
SELECT DISTINCT status FROM orders ORDER BY status;

-- 03 Orders, revenue and average order value by country
SELECT
    country,
    COUNT(*) AS orders,
    SUM(quantity * unit_price) AS revenue,
    ROUND(AVG(quantity * unit_price), 2) AS avg_order_value
FROM orders
GROUP BY country
ORDER BY revenue DESC;

-- 04 Revenue by month with a running total
SELECT
    date_trunc('month', ordered_at) AS month,
    SUM(quantity * unit_price) AS revenue,
    SUM(SUM(quantity * unit_price)) OVER (ORDER BY date_trunc('month', ordered_at)) AS running_total
FROM orders
WHERE status <> 'returned'
GROUP BY 1
ORDER BY 1;

-- 05 Each category's share of all orders
SELECT
    p.category,
    COUNT(*) AS orders,
    ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct_of_total
FROM orders o
JOIN products p USING (product)
GROUP BY p.category
ORDER BY pct_of_total DESC;

-- 06 Do people with a coupon buy more at once?
SELECT
    CASE WHEN coupon IS NULL THEN 'no coupon' ELSE 'coupon' END AS used_coupon,
    COUNT(*) AS orders,
    COUNT(coupon) AS coupons,
    AVG(quantity) AS avg_quantity
FROM orders
GROUP BY used_coupon;

-- 07 [cannot be answered] What did customer 1017 order?
SELECT order_id, ordered_at, product, quantity
FROM orders
WHERE customer_id = 1017
ORDER BY ordered_at;

-- 08 Completed and returned orders side by side for each year
SELECT
    EXTRACT(YEAR FROM ordered_at) AS year,
    SUM(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
    SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) AS returned,
    COUNT(DISTINCT customer_id) AS customers
FROM orders
GROUP BY year
ORDER BY year;

-- 09 Customers by the year of their first order: how many, how many orders each, what are they worth?
WITH customer_orders AS (
    SELECT
        customer_id,
        MIN(ordered_at) AS first_order,
        COUNT(order_id) AS number_of_orders,
        SUM(quantity * unit_price) AS lifetime_value
    FROM orders
    GROUP BY customer_id
)
SELECT
    YEAR(first_order) AS cohort,
    COUNT(*) AS customers,
    ROUND(AVG(number_of_orders), 2) AS avg_orders,
    ROUND(AVG(lifetime_value), 2) AS avg_lifetime_value
FROM customer_orders
GROUP BY cohort
ORDER BY cohort;

-- 10 How many returns does a customer have on average, counting those without any?
WITH bought AS (
    SELECT customer_id, COUNT(*) AS orders
    FROM orders
    GROUP BY customer_id
),
sent_back AS (
    SELECT customer_id, COUNT(*) AS returns
    FROM orders
    WHERE status IN ('returned', 'return_pending')
    GROUP BY customer_id
)
SELECT AVG(b.orders) AS avg_orders, AVG(COALESCE(s.returns, 0)) AS avg_returns
FROM bought b
LEFT JOIN sent_back s ON b.customer_id = s.customer_id;

-- 11 How many orders have a complaint in the note?
SELECT status, COUNT(*) AS complaints
FROM orders
WHERE regexp_matches(lower(note), 'late|damaged|broken')
GROUP BY status
ORDER BY complaints DESC;

-- 12 Average rating by country and status
SELECT country, status, AVG(rating) AS avg_rating, COUNT(rating) AS ratings
FROM orders
GROUP BY ALL
ORDER BY ALL;

-- 13 At what time of the day do people order?
SELECT strftime(ordered_at, '%H') AS hour, COUNT(*) AS orders
FROM orders
GROUP BY hour
ORDER BY hour;

-- 14 How many customers ever returned something, and what did they order in all?
SELECT COUNT(DISTINCT o.customer_id) AS customers, SUM(o.quantity) AS items
FROM Orders o
WHERE EXISTS (
    SELECT 1
    FROM Orders r
    WHERE r.customer_id = o.customer_id AND r.status = 'returned'
);

-- 15 The five best selling products
SELECT p.product_name, SUM(o.quantity) AS units_sold
FROM orders AS o
INNER JOIN products AS p ON p.product = o.product
GROUP BY p.product_name
ORDER BY units_sold DESC
LIMIT 5;

-- 16 How much below list price do we sell in each category?
SELECT
    p.category,
    COUNT(*) FILTER (WHERE o.unit_price < p.list_price) AS reduced,
    ROUND(AVG(GREATEST(p.list_price - o.unit_price, 0)), 2) AS avg_reduction
FROM orders o
LEFT JOIN products p ON o.product = p.product
GROUP BY p.category
ORDER BY avg_reduction DESC;

-- 17 Items sold by year, by category, and altogether
SELECT YEAR(o.ordered_at) AS year, p.category, SUM(o.quantity) AS items
FROM orders o
JOIN products p ON o.product = p.product
GROUP BY GROUPING SETS ((YEAR(o.ordered_at)), (p.category), ())
ORDER BY year NULLS LAST, category NULLS LAST;

-- 18 How many days pass between two orders of the same customer?
SELECT ROUND(AVG(days), 1) AS avg_days, MEDIAN(days) AS median_days
FROM (
    SELECT
        date_diff('day', LAG(ordered_at) OVER (PARTITION BY customer_id ORDER BY ordered_at), ordered_at) AS days
    FROM orders
) AS gaps
WHERE days IS NOT NULL;

-- 19 The most popular product of each country, and how many different ones are bought there
SELECT country, MODE(product) AS favourite, COUNT(DISTINCT product) AS products
FROM orders
GROUP BY country
ORDER BY country;

-- 20 December of this year against December of last year
SELECT 'Dec 2023' AS period, COUNT(*) AS orders, SUM(quantity * unit_price) AS revenue
FROM orders
WHERE ordered_at >= '2023-12-01' AND ordered_at < '2024-01-01'
UNION ALL
SELECT 'Dec 2024' AS period, COUNT(*) AS orders, SUM(quantity * unit_price) AS revenue
FROM orders
WHERE ordered_at >= '2024-12-01' AND ordered_at < '2025-01-01';
