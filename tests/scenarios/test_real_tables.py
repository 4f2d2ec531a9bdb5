"""Sixty questions that an analyst asks on the first day with real tables, compared with plain DuckDB.

The tables are in the folder of real data; without it the tests are skipped. Mechanisms give their exact
input, so what is compared went the whole way of a release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato as sf
from exact_answers import Exact
from plain_answers import compare_answers, find_relative
from sfumato.noise.audit_hook import recording


@dataclass(frozen=True)
class RealTable:
    """How a file becomes a table in DuckDB, and what a steward knows of it."""

    file: str
    read: str
    unit: Any
    columns: dict[str, Any]


_ADULT = """SELECT column00 AS age, NULLIF(TRIM(column01), '?') AS workclass, TRIM(column03) AS education,
    column04 AS education_num, TRIM(column05) AS marital, NULLIF(TRIM(column06), '?') AS occupation,
    TRIM(column09) AS sex, column10 AS capital_gain, column11 AS capital_loss, column12 AS hours,
    NULLIF(TRIM(column13), '?') AS country, TRIM(column14) AS income
    FROM read_csv('{}', header = false)"""
_STAYS = """SELECT patient_nbr, NULLIF(race, '?') AS race,
    NULLIF(gender, 'Unknown/Invalid') AS gender, age, admission_type_id, time_in_hospital,
    num_lab_procedures, num_procedures, num_medications, number_outpatient, number_emergency,
    number_inpatient, number_diagnoses, A1Cresult AS a1c, insulin, change,
    diabetesMed AS medicated, readmitted FROM '{}'"""
_PURCHASES = """SELECT CAST(x[1] AS INTEGER) AS customer, CAST(STRPTIME(x[3], '%Y%m%d') AS DATE) AS day,
    CAST(x[4] AS INTEGER) AS cds, CAST(x[5] AS DECIMAL(7, 2)) AS dollars
    FROM (SELECT REGEXP_SPLIT_TO_ARRAY(TRIM(line), '\\s+') AS x FROM
    read_csv('{}', columns = {{'line': 'VARCHAR'}}, delim = '|', header = false))"""
_RATINGS = """SELECT CAST(x[1] AS INTEGER) AS person, CAST(x[3] AS INTEGER) AS rating,
    MAKE_TIMESTAMP(CAST(x[4] AS BIGINT) * 1000000) AS rated FROM (SELECT STRING_SPLIT(line, '::') AS x FROM
    read_csv('{}', columns = {{'line': 'VARCHAR'}}, delim = '|', header = false))"""
_PEOPLE = """SELECT PUMA AS puma, CAST(AGEP AS INTEGER) AS age, CAST(SEX AS INTEGER) AS sex,
    CAST(MSP AS INTEGER) AS married, CAST(EDU AS INTEGER) AS edu,
    CAST(PINCP AS INTEGER) AS income, CAST(OWN_RENT AS INTEGER) AS tenure,
    CAST(DENSITY AS DECIMAL(8, 1)) AS density, CAST(NOC AS INTEGER) AS children,
    CAST(DVET AS INTEGER) AS veteran FROM read_csv('{}', all_varchar = true, nullstr = 'N')"""


def _whole(low: int, high: int, *, missing: Any = None) -> Any:
    return sf.between(low, high, step=1, **({} if missing is None else {"missing": missing}))


def _listed(*values: Any) -> Any:
    """A column that is never missing."""
    return sf.one_of(*values, missing=values[0])


_DEGREES = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
_MARITAL = (
    "Never-married", "Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent", "Separated",
    "Divorced", "Widowed",
)  # fmt: skip
_CLASSES = (
    "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
    "Never-worked",
)  # fmt: skip
_DECADES = tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10))
_PUMAS = (
    "01-01301", "06-07502", "06-08507", "08-00803", "13-04600", "17-03529", "17-03531", "19-01700",
    "24-01004", "26-02702", "28-01100", "29-01901", "30-00600", "32-00405", "36-03710", "36-04010",
    "38-00100", "40-00200", "51-01301", "51-51255",
)  # fmt: skip

TABLES = {
    "adult": RealTable(
        "adult/adult.data.gz",
        _ADULT,
        sf.ROW,
        {
            "age": _whole(17, 90, missing=17),
            "workclass": sf.one_of(*_CLASSES),
            "education": _listed(*_DEGREES),
            "education_num": _whole(1, 16, missing=1),
            "marital": _listed(*_MARITAL),
            "sex": _listed("Female", "Male"),
            "capital_gain": _whole(0, 99999, missing=0),
            "capital_loss": _whole(0, 5000, missing=0),
            "hours": _whole(1, 99, missing=40),
            "income": _listed("<=50K", ">50K"),
        },
    ),
    "stays": RealTable(
        "diabetes130/diabetic_data.parquet",
        _STAYS,
        sf.Unit("patient_nbr", max_rows=40, of="patients"),
        {
            "race": sf.one_of("AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other"),
            "gender": sf.one_of("Female", "Male"),
            "age": _listed(*_DECADES),
            "admission_type_id": _whole(1, 8, missing=1),
            "time_in_hospital": _whole(1, 14, missing=1),
            "num_lab_procedures": _whole(1, 132, missing=1),
            "num_procedures": _whole(0, 6, missing=0),
            "num_medications": _whole(1, 81, missing=1),
            "number_outpatient": _whole(0, 42, missing=0),
            "number_emergency": _whole(0, 76, missing=0),
            "number_inpatient": _whole(0, 21, missing=0),
            "number_diagnoses": _whole(1, 16, missing=1),
            "a1c": _listed("None", "Norm", ">7", ">8"),
            "insulin": _listed("No", "Steady", "Up", "Down"),
            "medicated": _listed("Yes", "No"),
            "readmitted": _listed("NO", "<30", ">30"),
        },
    ),
    "purchases": RealTable(
        "cdnow/CDNOW_sample.txt.gz",
        _PURCHASES,
        sf.Unit("customer", max_rows=60, of="customers"),
        {
            "day": sf.between(date(1997, 1, 1), date(1998, 6, 30), missing=date(1997, 1, 1)),
            "cds": _whole(1, 40, missing=1),
            "dollars": sf.between(0, 600, step=0.01, missing=0),
        },
    ),
    "ratings": RealTable(
        "movietweetings100k/ratings.dat.gz",
        _RATINGS,
        sf.Unit("person", max_rows=1000, of="persons"),
        {
            "rating": _whole(0, 10, missing=0),
            "rated": sf.between(datetime(2013, 2, 1), datetime(2013, 9, 30)),
        },
    ),
    "people": RealTable(
        "nist_acs/national2019.csv.gz",
        _PEOPLE,
        sf.ROW,
        {
            "puma": _listed(*_PUMAS),
            "age": _whole(0, 99, missing=0),
            "sex": _listed(1, 2),
            "married": _whole(1, 6),
            "edu": _whole(1, 12),
            "income": _whole(-20_000, 2_000_000),
            "tenure": _whole(0, 2, missing=0),
            "density": sf.between(0, 60_000, step=0.1, missing=0),
            "children": _whole(0, 15),
            "veteran": sf.one_of(1, 2, 3, 4, 5, 6),
        },
    ),
}

QUESTIONS = {
    # adult
    "How many people are in the census sample?": "SELECT COUNT(*) AS n FROM adult",
    "Average age and hours of work by sex": """
        SELECT sex, AVG(age) AS age, AVG(hours) AS hours FROM adult GROUP BY sex ORDER BY sex""",
    "Share of high incomes by education": """
        SELECT education, ROUND(100.0 * COUNT(*) FILTER (WHERE income = '>50K') / COUNT(*), 1) AS percent
        FROM adult GROUP BY education ORDER BY percent DESC""",
    "Age groups of ten years": """
        SELECT age // 10 * 10 AS decade, COUNT(*) AS n FROM adult GROUP BY decade ORDER BY decade""",
    "Who has more gains than losses?": """
        SELECT COUNT(*) AS n FROM adult WHERE capital_gain - capital_loss > 0""",
    "Gain for each hour of work in a year": """
        SELECT AVG(capital_gain / (hours * 52.0)) AS per_hour FROM adult""",
    "Part time, full time and more": """
        SELECT CASE WHEN hours < 35 THEN 'part' WHEN hours <= 40 THEN 'full' ELSE 'over' END AS kind,
            COUNT(*) AS n, AVG(age) AS age FROM adult GROUP BY kind ORDER BY n DESC""",
    "Work classes, with those that are not known": """
        SELECT COALESCE(workclass, 'unknown') AS class, COUNT(*) AS n FROM adult GROUP BY 1
        ORDER BY n DESC""",
    "Mean of the logarithm of gains, of those who had some": """
        SELECT AVG(LN(capital_gain)) AS g, COUNT(*) AS n FROM adult WHERE capital_gain > 0""",
    "How age and hours go together": "SELECT CORR(age, hours) AS r FROM adult WHERE hours < 80",
    "Spread of the hours": "SELECT STDDEV(hours) AS s, VAR_POP(age) AS v FROM adult",
    "Married people with a doctorate, in percent of all": """
        SELECT 100.0 * COUNT_IF(marital LIKE 'Married%' AND education = 'Doctorate') / COUNT(*) AS percent
        FROM adult""",
    # stays
    "Stays and patients": "SELECT COUNT(*) AS stays, COUNT(DISTINCT patient_nbr) AS patients FROM stays",
    "Mean length of stay by age": """
        SELECT age, ROUND(AVG(time_in_hospital), 2) AS days FROM stays GROUP BY age ORDER BY age""",
    "Readmitted within thirty days, by insulin": """
        SELECT insulin, COUNT(*) AS n, COUNT_IF(readmitted = '<30') / COUNT(*) AS rate
        FROM stays GROUP BY insulin ORDER BY rate DESC""",
    "Laboratory tests for each day": """
        SELECT AVG(num_lab_procedures / time_in_hospital) AS tests FROM stays""",
    "Stays with more than twenty medications for each procedure": """
        SELECT COUNT(*) AS n FROM stays WHERE num_medications / NULLIF(num_procedures, 0) > 20""",
    "Earlier visits of any kind": """
        SELECT LEAST(number_outpatient + number_emergency + number_inpatient, 5) AS visits, COUNT(*) AS n
        FROM stays GROUP BY visits ORDER BY visits""",
    "Races, with those not recorded": "SELECT race, COUNT(*) AS n FROM stays GROUP BY race ORDER BY race",
    "Medians of stay and tests": """
        SELECT MEDIAN(time_in_hospital) AS stay, MEDIAN(num_lab_procedures) AS tests FROM stays""",
    "Long stays by gender and readmission": """
        SELECT gender, readmitted, COUNT(*) AS n FROM stays WHERE time_in_hospital >= 7 AND gender IS NOT NULL
        GROUP BY gender, readmitted ORDER BY gender, readmitted""",
    "Stays of each patient, on average": """
        SELECT AVG(n) AS mean, MAX(n) AS most FROM (SELECT patient_nbr, COUNT(*) AS n FROM stays
        GROUP BY patient_nbr)""",
    "Diabetes tests that were done": """
        SELECT CASE WHEN a1c = 'None' THEN 0 ELSE 1 END AS tested, AVG(num_medications) AS drugs
        FROM stays GROUP BY tested ORDER BY tested""",
    "A severity score": """
        SELECT AVG(0.5 * time_in_hospital + 0.3 * num_procedures + 0.2 * SQRT(num_medications)) AS score
        FROM stays WHERE medicated = 'Yes'""",
    # purchases
    "Revenue": "SELECT SUM(dollars) AS revenue, COUNT(*) AS n FROM purchases",
    "Revenue by month": """
        SELECT DATE_TRUNC('month', day) AS month, SUM(dollars) AS revenue FROM purchases
        GROUP BY month ORDER BY month""",
    "Mean price of a CD": "SELECT AVG(dollars / cds) AS price FROM purchases",
    "Price classes": """
        SELECT CASE WHEN dollars / cds < 10 THEN 'low' WHEN dollars / cds < 15 THEN 'middle' ELSE 'high' END
            AS class, COUNT(*) AS n FROM purchases GROUP BY class ORDER BY n""",
    "Purchases of exactly 11.77 dollars a CD": """
        SELECT COUNT(*) AS n FROM purchases WHERE dollars = 11.77 * cds""",
    "With tax of 8.25 percent, in cents": "SELECT SUM(ROUND(dollars * 1.0825, 2)) AS total FROM purchases",
    "Best quarters": """
        SELECT YEAR(day) AS year, QUARTER(day) AS quarter, SUM(dollars) AS revenue FROM purchases
        GROUP BY year, quarter HAVING SUM(dollars) > 30000 ORDER BY revenue DESC""",
    "Weekends and other days": """
        SELECT EXTRACT(ISODOW FROM day) >= 6 AS weekend, AVG(dollars) AS spent FROM purchases
        GROUP BY weekend ORDER BY weekend""",
    "Spent by each customer": """
        SELECT AVG(total) AS mean, MEDIAN(total) AS middle FROM (SELECT customer, SUM(dollars) AS total
        FROM purchases GROUP BY customer)""",
    "Customers who came back": """
        SELECT COUNT(*) AS n FROM (SELECT customer FROM purchases GROUP BY customer HAVING COUNT(*) > 1)""",
    "Days since the campaign began": """
        SELECT AVG(DATE_DIFF('day', DATE '1997-01-01', day)) AS days FROM purchases""",
    "Weeks since the campaign began, of large purchases": """
        SELECT AVG(DATE_DIFF('week', DATE '1997-01-01', day)) AS weeks FROM purchases WHERE dollars >= 100""",
    # ratings
    "Mean rating": "SELECT AVG(rating) AS mean, STDDEV(rating) AS spread, COUNT(*) AS n FROM ratings",
    "How often each rating was given": """
        SELECT rating, COUNT(*) AS n FROM ratings GROUP BY rating ORDER BY n DESC, rating LIMIT 5""",
    "Ratings by month": """
        SELECT STRFTIME(rated, '%Y-%m') AS month, COUNT(*) AS n FROM ratings GROUP BY month ORDER BY month""",
    "Ratings by hour": """
        SELECT EXTRACT(HOUR FROM rated) AS hour, COUNT(*) AS n, AVG(rating) AS mean FROM ratings
        GROUP BY hour ORDER BY hour""",
    "By day of the week": """
        SELECT DAYNAME(rated) AS day, COUNT(*) AS n FROM ratings GROUP BY day ORDER BY n DESC""",
    "Good, fair and bad": """
        SELECT CASE WHEN rating >= 8 THEN 'good' WHEN rating >= 5 THEN 'fair' ELSE 'bad' END AS kind,
            ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS percent FROM ratings GROUP BY kind
        ORDER BY percent DESC""",
    "Ratings on a scale from -1 to 1": "SELECT SUM((rating - 5) / 5.0) AS total FROM ratings",
    "Above the mean of the scale, squared": "SELECT AVG(POWER(rating - 5, 2)) AS q FROM ratings",
    "Ratings of each person": """
        SELECT AVG(n) AS mean FROM (SELECT person, COUNT(*) AS n FROM ratings GROUP BY person)""",
    "People who rate kindly": """
        SELECT COUNT(*) AS n FROM (SELECT person, AVG(rating) AS mean FROM ratings GROUP BY person)
        WHERE mean >= 9""",
    "In the first week of April": """
        SELECT COUNT(*) AS n FROM ratings WHERE rated >= TIMESTAMP '2013-04-01 00:00:00'
        AND rated < TIMESTAMP '2013-04-08 00:00:00'""",
    "Days with ratings of ten": """
        SELECT CAST(rated AS DATE) AS day, COUNT(*) AS n FROM ratings WHERE rating = 10
        GROUP BY day ORDER BY n DESC, day LIMIT 3""",
    # people
    "People and their mean age by area": """
        SELECT puma, COUNT(*) AS n, ROUND(AVG(age), 1) AS age FROM people GROUP BY puma ORDER BY puma""",
    "Mean income of those who have one": """
        SELECT AVG(income) AS mean, COUNT(income) AS n FROM people WHERE income > 0""",
    "Income in thousands, rounded to ten": """
        SELECT ROUND(income / 1000, -1) AS thousands, COUNT(*) AS n FROM people
        WHERE income BETWEEN 0 AND 100000 GROUP BY thousands ORDER BY thousands""",
    "Income per year of age": "SELECT AVG(income / age) AS ratio FROM people WHERE age >= 18",
    "Missing incomes": "SELECT COUNT(*) AS n FROM people WHERE income IS NULL",
    "Veterans by rating, others as such": """
        SELECT veteran, COUNT(*) AS n FROM people GROUP BY veteran ORDER BY veteran NULLS LAST""",
    "Tenure by name": """
        SELECT CASE tenure WHEN 1 THEN 'own' WHEN 2 THEN 'rent' ELSE 'group' END AS tenure_name,
            AVG(density) AS density FROM people GROUP BY tenure_name ORDER BY tenure_name""",
    "Dense areas": "SELECT COUNT(*) AS n FROM people WHERE density > 10000.5",
    "Logarithm of the density": "SELECT AVG(LOG10(density)) AS d, AVG(SQRT(density)) AS r FROM people",
    "Adults without a degree, by sex": """
        SELECT CASE WHEN sex = 1 THEN 'male' ELSE 'female' END AS s, COUNT(*) AS n FROM people
        WHERE age >= 25 AND edu < 5 GROUP BY s ORDER BY s""",
    "Children in families, with subtotals": """
        SELECT sex, COUNT(*) AS n, SUM(children) AS children FROM people GROUP BY ROLLUP (sex)
        ORDER BY sex NULLS LAST""",
    "The three areas with the highest mean income": """
        SELECT puma, AVG(income) AS mean FROM people WHERE income IS NOT NULL GROUP BY puma
        ORDER BY mean DESC LIMIT 3""",
}  # fmt: skip


def _table(sql: str) -> str:
    (name,) = (name for name in TABLES if f"FROM {name}" in " ".join(sql.split()))
    return name


@pytest.fixture(scope="module")
def plain(data_folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in TABLES.items():
        file = data_folder / table.file
        if not file.exists():
            pytest.skip(f"REAL DATA IS MISSING: no {table.file}; set SFUMATO_DATA to the data folder")
        connection.execute(f"CREATE TABLE {name} AS {table.read.format(file)}")
    return connection


@pytest.fixture(scope="module")
def session(
    plain: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], sf.Session]:
    """Sessions by the table asked about; a table is registered when it is first asked about."""
    lab = sf.create(tmp_path_factory.mktemp("real") / "lab")

    def find(name: str) -> sf.Session:
        if name not in {table.name for table in lab.tables()}:
            table = TABLES[name]
            source = plain.sql(f"FROM {name}").to_arrow_table()
            budget = sf.Budget(epsilon=10**6, delta=1e-3)
            lab.register(name, source, unit=table.unit, columns=table.columns, budget=budget)
        return lab.session()

    return find


def test_there_are_sixty() -> None:
    assert len(QUESTIONS) == 60


@pytest.mark.parametrize("words", QUESTIONS)
def test_the_answer_is_that_of_plain_duckdb(
    session: Callable[[str], sf.Session], plain: duckdb.DuckDBPyConnection, words: str
) -> None:
    sql = QUESTIONS[words]
    with recording(Exact()):
        answer = session(_table(sql)).sql(sql).release(epsilon=1000).to_arrow()
    compare_answers(sql, answer, plain, relative=find_relative(sql), step=1)
