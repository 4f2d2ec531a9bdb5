"""Write the page on SQL: every example is asked of a small lab, and the page says what became of it."""

# ruff: noqa: S608 -- the examples are SQL on purpose, and are asked of a lab of two made-up rows

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa

import sfumato as sf
from sfumato.curator.lower.functions import FUNCTIONS
from sfumato.errors import SfumatoError
from sfumato.queries.functions import INSTEAD, SQL_NAMES

_BY_PERSON = "SELECT AVG(x) AS a FROM (SELECT patient_id, {} AS x FROM visits GROUP BY patient_id)"
_OTHERS = "(SELECT 1 FROM visits AS w WHERE w.patient_id = v.patient_id AND w.ok)"
_OVER = "(PARTITION BY patient_id ORDER BY day)"

CLAUSES: dict[str, tuple[str, ...]] = {
    "Aggregates": (
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT COUNT(ward) AS n FROM visits",
        "SELECT COUNT(DISTINCT patient_id) AS n FROM visits",
        "SELECT COUNT(DISTINCT ward) AS n FROM visits",
        "SELECT COUNT(*) FILTER (WHERE age >= 65) AS n FROM visits",
        "SELECT COUNT_IF(age >= 65) AS n FROM visits",
        "SELECT SUM(cost) AS s, AVG(cost) AS a FROM visits",
        "SELECT VARIANCE(cost) AS v, STDDEV(cost) AS s FROM visits",
        "SELECT COVAR_SAMP(age, cost) AS c, CORR(age, cost) AS r FROM visits",
        "SELECT MEDIAN(cost) AS m, QUANTILE_CONT(cost, 0.9) AS q FROM visits",
        "SELECT MIN(cost) AS low, MAX(cost) AS high FROM visits",
        "SELECT MODE(ward) AS m FROM visits",
        "SELECT STRING_AGG(ward, ',') AS w FROM visits",
        "SELECT * FROM visits LIMIT 10",
    ),
    "Groups": (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY decade",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ALL",
        "SELECT DISTINCT ward FROM visits",
        "SELECT ward, ok, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, ok)",
        "SELECT ward, ok, COUNT(*) AS n FROM visits GROUP BY CUBE (ward, ok)",
        "SELECT ward, ok, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((ward), (ok), ())",
        "PIVOT visits ON ward USING COUNT(*)",
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT LOWER(ward) AS ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 100",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING ward <> 'A' AND COUNT(*) > 10",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2 OFFSET 1",
    ),
    "Numbers of an answer": (
        "SELECT 100 * COUNT_IF(ok) / COUNT(*) AS share FROM visits",
        "SELECT ROUND(AVG(cost), 2) AS a FROM visits",
        "SELECT ward, COALESCE(AVG(cost), 0) AS a FROM visits GROUP BY ward",
        "SELECT ward, CASE WHEN COUNT(*) > 20 THEN AVG(cost) END AS a FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward",
        "SELECT EXP(AVG(LN(cost))) AS g FROM visits",
        "SELECT AVG(n) AS mean FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
        "SELECT ward, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY ward",
        "SELECT COUNT(*) AS n FROM visits WHERE ok UNION ALL SELECT COUNT(*) AS n FROM visits WHERE NOT ok",
    ),
    "Rows": (
        "WITH old AS (SELECT * FROM visits WHERE age >= 65) SELECT COUNT(*) AS n FROM old",
        "SELECT SUM(beds) AS b FROM visits JOIN wards USING (ward)",
        "SELECT COUNT(*) AS n FROM visits LEFT JOIN wards ON visits.ward = wards.ward",
        "SELECT COUNT(*) AS n FROM visits FULL JOIN wards USING (ward)",
        "SELECT AVG(c) AS a FROM (SELECT patient_id, SUM(cost) AS c FROM visits GROUP BY patient_id)",
        "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 20)",
        f"SELECT COUNT(*) AS n FROM visits AS v WHERE EXISTS {_OTHERS}",
        "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
        "SELECT COUNT(*) AS n FROM visits TABLESAMPLE 10%",
    ),
    "Rows of one person": (
        _BY_PERSON.format("MIN(day) - MAX(day)"),
        _BY_PERSON.format("ARG_MIN(cost, day)"),
        _BY_PERSON.format("LAST(cost ORDER BY day)"),
        _BY_PERSON.format("MEDIAN(cost)"),
        f"SELECT AVG(x) AS a FROM (SELECT LAG(cost) OVER {_OVER} AS x FROM visits)",
        f"SELECT COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER {_OVER} AS nth FROM visits) WHERE nth = 1",
        f"SELECT AVG(x) AS a FROM (SELECT SUM(cost) OVER {_OVER} AS x FROM visits)",
        "SELECT AVG(x) AS a FROM (SELECT LAG(cost) OVER (ORDER BY day) AS x FROM visits)",
    ),
    "Conditions": tuple(
        f"SELECT COUNT(*) AS n FROM visits WHERE {each}"
        for each in (
            "age BETWEEN 18 AND 64 AND ward IN ('A', 'B') OR NOT ok",
            "ward IS NULL",
            "ward >= 'B'",
            "note LIKE '%fever%' OR note ILIKE 'PAIN_'",
            "REGEXP_MATCHES(note, 'fever|co(ugh|ld)')",
            "REGEXP_MATCHES(note, '[0-9]+')",
            "note SIMILAR TO 'fever|cough'",
            "note ~ 'fever'",
            "ward IS NOT DISTINCT FROM 'A'",
        )
    ),
    "What there is": ("SHOW TABLES", "DESCRIBE visits"),
}

_ARGUMENTS = {
    "COALESCE": "cost, 0",
    "NULLIF": "age, 0",
    "LEAST": "cost, 100",
    "GREATEST": "cost, 0",
    "POWER": "cost, 0.5",
    "STRFTIME": "day, '%Y-%m'",
    "CONCAT": "ward, '-', ok",
    "SUBSTRING": "ward, 1, 1",
    "LEFT": "ward, 1",
    "STARTS_WITH": "note, 'a'",
    "ENDS_WITH": "note, 'a'",
    "CONTAINS": "note, 'a'",
    "LOWER": "ward",
    "UPPER": "ward",
    "LENGTH": "note",
    **dict.fromkeys(("HOUR", "MINUTE", "SECOND"), "seen"),
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "DAY", "ISODOW"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DAYOFYEAR", "WEEK", "DAYNAME", "MONTHNAME"), "day"),
}
_OPERATORS = (
    "cost + 1 - 2 * 3 / 4", "age // 10", "age % 10", "ward || '-' || ok", "LOG2(cost)", "LOG10(cost)",
    "CASE WHEN age >= 65 THEN 1 ELSE 0 END", "IF(ok, 1, 0)", "CAST(cost AS INTEGER)", "CAST(cost AS VARCHAR)",
    "EXTRACT(year FROM day)", "DATE_PART('dow', day)", "DATE_TRUNC('month', day)",
    "DATE_DIFF('month', day, DATE '2024-01-31')", "day + 7", "day + INTERVAL 7 DAY", "day + INTERVAL 1 MONTH",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """An example and what became of it: an answer could be had, or the words of the refusal."""

    example: str
    refusal: SfumatoError | None

    def row(self) -> str:
        shown = self.example.replace("|", "\\|")
        if self.refusal is None:
            return f"| `{shown}` | yes | |"
        what, *fields = str(self.refusal).splitlines()
        code, sentence = what.split(None, 1)
        instead = next((line.split(None, 1)[1] for line in fields if line.split()[0] == "hint"), "")
        told = f"{sentence} Instead: `{instead}`" if instead else sentence
        return f"| `{shown}` | no, {code} | {told.replace('|', '&#124;')} |"


def sql_page() -> str:
    """Return a page with a row for each example of SQL."""
    with tempfile.TemporaryDirectory() as folder:
        session = _small_lab(Path(folder) / "lab").session()
        clauses = {title: [_ask(session, each, each) for each in asked] for title, asked in CLAUSES.items()}
        functions = [*_OPERATORS, *(f"{name}({_ARGUMENTS.get(name, 'cost')})" for name in SQL_NAMES)]
        asked = [_ask(session, each, f"SELECT COUNT({each}) AS n FROM visits") for each in functions]
    left_out = [f"| `{name}` | `{instead}` |" for name, instead in sorted(INSTEAD.items())]
    table = "\n".join(["| function | instead |", "|---|---|", *left_out])
    sections = [_section(*each) for each in {**clauses, "Functions of a row": asked}.items()]
    return "\n".join([_HEAD, *sections, _TAIL.format(table=table)])


def _section(title: str, asked: list[Asked]) -> str:
    head = [f"## {title}\n", "| SQL | answered | |", "|---|---|---|"]
    return "\n".join([*head, *(each.row() for each in asked), ""])


def _ask(session: sf.Session, shown: str, sql: str) -> Asked:
    try:
        session.sql(sql)
    except SfumatoError as refusal:
        return Asked(shown, refusal)
    return Asked(shown, None)


def _small_lab(folder: Path) -> sf.Lab:
    """Return a lab with visits of patients, and the public table wards."""
    lab = sf.create(folder)
    visits = pa.table(
        {
            "patient_id": [1, 2],
            "age": [30, 70],
            "cost": [10.0, 20.0],
            "ward": ["A", "B"],
            "ok": [True, False],
            "day": [date(2024, 1, 1), date(2024, 1, 2)],
            "seen": [datetime(2024, 1, 1, 1), datetime(2024, 1, 2, 2)],  # noqa: DTZ001
            "note": ["fever", "cough"],
        }
    )
    columns = {
        "age": sf.between(0, 110, step=1),
        "cost": sf.between(0, 100),
        "ward": sf.one_of("A", "B"),
        "ok": sf.one_of(False, True),
        "day": sf.between(date(2024, 1, 1), date(2024, 12, 31)),
        "seen": sf.between(datetime(2024, 1, 1), datetime(2024, 12, 31)),  # noqa: DTZ001
        "note": sf.text(),
    }
    unit, budget = sf.Unit("patient_id", max_rows=5), sf.Budget(epsilon=1, delta=1e-6)
    lab.register("visits", visits, unit=unit, columns=columns, budget=budget)
    wards = pa.table({"ward": ["A", "B"], "beds": [10, 20]})
    public = {"ward": sf.one_of("A", "B"), "beds": sf.between(0, 100, step=1)}
    lab.register("wards", wards, unit=sf.PUBLIC, columns=public)
    return lab


_HEAD = f"""# SQL

What analysts type, and whether it is answered. Every example below is asked of a small lab when `make docs`
writes this page, so it says what the code does: "yes" where it is priced, or the code of the refusal, its
sentence and what to write instead. Names of tables and columns ignore case. In `GROUP BY` and `HAVING` a
column of the table comes before an alias of the same name. A refusal costs nothing.

All {len(FUNCTIONS)} functions of a row mean the same on DuckDB, PostgreSQL and Spark; tests compare them to
the last digit. [Questions](questions.md) explains the answers, and [limits](limits.md) how large one may be.
"""

_TAIL = """## SQL over an answer

Whatever a query does not compute from its groups, DuckDB computes from the answer: `r.sql(text)` runs any
SELECT over the table `answer`, at no charge. Sums, averages and shares have intervals, and a line says why
other columns have none. [Questions](questions.md#after-the-noise) says more.

```python
import numpy as np
import pyarrow as pa
import sfumato as sf

rng = np.random.default_rng(0)
visits = pa.table({{"patient_id": np.arange(3_000), "ward": rng.choice(["A", "B", "C"], 3_000)}})
lab = sf.create("clinic")
columns = {{"ward": sf.one_of("A", "B", "C")}}
budget = sf.Budget(epsilon=1)
lab.register("visits", visits, unit=sf.Unit("patient_id", max_rows=1), columns=columns, budget=budget)
s = lab.session()
r = s.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=0.5)
print(r.sql("SELECT AVG(n) AS mean FROM answer"))
print(r.sql("SELECT ward, n - AVG(n) OVER () AS above, RANK() OVER (ORDER BY n DESC) AS place FROM answer"))
```

## Functions that are not supported

A function that is not on the list above is refused by its name, `Function TRIM is not supported.`, with what
to write instead:

{table}

For any other function of a row, `CASE` over the values that matter does the same, or a column that is
computed before the table is registered.
"""
