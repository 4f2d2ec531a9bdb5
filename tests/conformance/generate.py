"""Random questions of every shape, asked of the tables in `worlds.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from conformance.parts import CENSUS, SURVEY, VISITS, Part, Pool, condition, number
from sfumato.curator.question.measurement import ContributionLimits, Question
from sfumato.curator.question.relation import UnitRowCounts
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    import random


@dataclass(frozen=True)
class Asked:
    """A question, its SQL, and what it is a case of."""

    sql: str
    question: Question
    population: str
    shapes: tuple[str, ...]
    direct: bool
    keys: int
    figures: tuple[str, ...] = ()
    exact: bool = True
    """Whether nothing in it is rounded down."""


# ---- where rows come from ----------------------------------------------------------------------------------

_REDEFINED = (Part("x"), Part("y"), Part("z", natural=True))


def _inner(kind: str, source: str) -> Pool:
    return Pool(
        kind,
        f"({source}) AS q",
        "people",
        "who",
        _REDEFINED,
        (("binned", "FLOOR(x / 1000)"), ("binned", "CASE WHEN y > 1 THEN 'more' ELSE 'less' END")),
        (Part("x > 3"), Part("y <> 1"), Part("z IS NOT NULL")),
        counted=("x", "y"),
    )


def selected(draw: random.Random) -> Pool:
    x, y, where = number(draw, VISITS, 1), number(draw, VISITS, 1), condition(draw, VISITS, 1)
    inner = f"SELECT who, {x.sql} AS x, {y.sql} AS y, tip AS z, ward FROM visits WHERE {where.sql}"
    direct = x.direct and y.direct and where.direct
    pool = _inner("selected", inner)
    if draw.random() < 0.5:
        pool = replace(pool, source=f"(SELECT * FROM {pool.source} WHERE x > 1) AS r")
    numbers = tuple(Part(p.sql, direct and x.direct, p.sql != "x" or x.exact) for p in (Part("x"), Part("z")))
    return replace(pool, numbers=numbers, direct=direct and x.exact and y.exact)


_FIGURES = (
    "SUM(cost)",
    "COALESCE(SUM(gain), 0)",
    "SUM(tip)",
    "AVG(born)",
    "SUM(CASE WHEN cost > 100 THEN 1 ELSE 0 END)",
    "MIN(stay)",
    "MAX(cost)",
    "MAX(gain) - MIN(gain)",
    "COUNT(note)",
    "LEAST(SUM(tip), 60)",
    "GREATEST(LEAST(SUM(stay), 60), -5)",
    "AVG(tip)",
    "AVG(gain)",
    "ARG_MIN(tip, CAST(gain * 8 AS INTEGER) * 500 + stay)",
    "ARG_MAX(stay, day)",
    "FIRST(tip ORDER BY cost)",
    "LAST(gain ORDER BY day DESC)",
    "SQRT(SUM(tip))",
)


def per_unit(draw: random.Random) -> Pool:
    """One row a unit, or one for each of its wards; and what is left of them after HAVING."""
    key = draw.choice(["", "", ", ward", ", FLOOR(stay / 10)"])
    shown = key.replace(", FLOOR(stay / 10)", ", FLOOR(stay / 10) AS ward")
    where = condition(draw, VISITS, 1) if draw.random() < 0.5 else Part("TRUE = ok OR TRUE")
    filtered = f" WHERE {where.sql}" if where.sql.count("TRUE") < 2 else ""
    having = draw.choice(["", "", " HAVING COUNT(*) > 1", " HAVING SUM(tip) >= 2 AND MIN(flag) = 0"])
    x, y = draw.choice(_FIGURES), draw.choice(_FIGURES)
    figures = f"{x} AS x, {y} AS y, COUNT(*) AS z{shown}"
    source = f"SELECT who, {figures} FROM visits{filtered} GROUP BY who{key}{having}"
    if key and draw.random() < 0.4:
        nested = "SELECT who, SUM(x) AS x, MAX(y) AS y, COUNT(*) AS z FROM"
        pool = _inner("per unit of per unit", f"{nested} ({source}) AS p GROUP BY who")
    else:
        pool = _inner("per unit and key" if key else "per unit", source)
    exact = not any("AVG" in figure for figure in (x, y))
    # Rows that tie by time are told apart by their values here, and by chance in plain SQL.
    by_time = any(name in x + y for name in ("ARG_", "FIRST", "LAST", "SQRT"))
    direct = where.direct and "SUM(stay)" not in x + y and not by_time
    numbers = tuple(
        Part(part.sql, direct, exact or part.sql == "z", natural=part.natural) for part in pool.numbers
    )
    return replace(pool, numbers=numbers, direct=direct and exact)


_WINDOWS = (
    "LAG({}) OVER ({} {})",
    "LAG({}, 2) OVER ({} {} DESC)",
    "LEAD({}) OVER ({} {}, gain)",
    "FIRST_VALUE({}) OVER ({} {})",
    "ROW_NUMBER() OVER ({1} {2})",
    "RANK() OVER ({1} {2})",
    "DENSE_RANK() OVER ({1} {2} DESC)",
    "DATE_DIFF('day', LAG(day) OVER ({1} {2}), day)",
)


def history(draw: random.Random) -> Pool:
    """Rows with what others of their unit have, before or after them in some order."""
    by = draw.choice(["day", "seen", "cost", "stay", "score"])
    x, y = (
        draw.choice(_WINDOWS).format(draw.choice(["cost", "tip", "flag"]), "PARTITION BY who ORDER BY", by)
        for _ in range(2)
    )
    where = f" WHERE {condition(draw, VISITS, 1).sql}" if draw.random() < 0.4 else ""
    source = f"SELECT who, {x} AS x, {y} AS y, tip AS z FROM visits{where}"
    if draw.random() < 0.4:
        number = f"ROW_NUMBER() OVER (PARTITION BY who ORDER BY {by})"
        kept = draw.choice(["nth = 1", "nth <= 2", "nth > 1", "nth IN (1, 3)"])
        source = (
            f"SELECT * FROM (SELECT *, {number} AS nth, {x} AS x, {y} AS y, tip AS z FROM visits{where}) "
        )
        source += f"WHERE {kept}"
    pool = _inner("history", source)
    return replace(pool, direct=False)


def existing(draw: random.Random) -> Pool:
    """Rows of units that have a row somewhere else, or have none; or of listed places."""
    inner = condition(draw, VISITS, 1).sql
    tests = [
        "EXISTS (SELECT 1 FROM stays AS s WHERE s.who = v.who AND s.nights > 3)",
        f"NOT EXISTS (SELECT * FROM visits AS w WHERE w.who = v.who AND ({inner}))",
        "who IN (SELECT who FROM stays GROUP BY who HAVING COUNT(*) > 1)",
        "ward IN (SELECT ward FROM wards WHERE beds > 3)",
        "ward NOT IN (SELECT ward FROM wards WHERE region = 'N')",
        "EXISTS (SELECT 1 FROM wards AS w WHERE w.ward = v.ward AND w.beds > 3) OR ok",
    ]
    chosen = " AND ".join(f"({each})" for each in draw.sample(tests, draw.choice([1, 1, 2])))
    source = f"SELECT * FROM visits AS v WHERE {chosen}"
    return replace(VISITS, kind="existing", source=f"({source}) AS q", direct=False)


def with_(draw: random.Random) -> Pool:
    """The same by name: see `ask`, which puts WITH before the question."""
    pool = draw.choice([selected, per_unit])(draw)
    return replace(pool, kind="with")


_BESIDE = (
    Part("beds", natural=True),
    Part("cost"),
    Part("gain"),
    Part("(beds * tip)"),
    Part("(cost - beds)"),
)


def looked_up(draw: random.Random) -> Pool:
    other, kind = draw.choice([("wards", "public 1"), ("offers", "public 3")])
    left = draw.choice(["JOIN", "LEFT JOIN", "INNER JOIN"])
    on = draw.choice(["USING (ward)", f"ON visits.ward = {other}.ward"])
    extra = " AND beds > 3" if left != "LEFT JOIN" and on.startswith("ON") and draw.random() < 0.5 else ""
    keys = (("listed", "region"), ("listed", "visits.ward"), ("constant", "sex"), ("bought", "note"))
    if draw.random() < 0.3:
        on = "ON visits.tip = " + other + ".beds"
    return Pool(
        kind,
        f"visits {left} {other} {on}{extra}",
        "people",
        "who",
        _BESIDE,
        keys,
        (Part("region = 'N'"), Part("beds > 0"), Part("cost < 4000"), Part("region IS NULL")),
        counted=("region", "beds", "note"),
    )


_TWO = (
    Part("nights", natural=True),
    Part("bill"),
    Part("cost"),
    Part("(nights * tip)"),
    Part("(bill + gain)"),
)


def paired(draw: random.Random) -> Pool:
    left = draw.choice(["JOIN", "JOIN", "LEFT JOIN"])
    on = draw.choice(["USING (who)", "ON visits.who = stays.who"])
    extra = draw.choice([" AND visits.ward = stays.ward", " AND day = since", " AND since <= day"])
    joined = f"visits {left} stays {on}"
    if on.startswith("ON") and left == "JOIN":
        joined += extra
    return Pool(
        "two tables",
        joined,
        "people",
        "visits.who",
        _TWO,
        (
            ("listed", "stays.ward"),
            ("listed", "visits.ward"),
            ("constant", "sex"),
            ("binned", "FLOOR(nights / 10)"),
        ),
        (Part("nights > 3"), Part("bill < 0"), Part("stays.ward IS NULL"), Part("cost > bill")),
        counted=("nights", "since", "note"),
    )


def paired_units(draw: random.Random) -> Pool:
    """The rows of one table beside one row a unit of the other."""
    figures = "SELECT who, COUNT(*) AS nights, MAX(bill) AS bill FROM stays GROUP BY who"
    left = draw.choice(["JOIN", "LEFT JOIN"])
    first = "(SELECT who, SUM(tip) AS cost, MIN(tip) AS tip, MIN(gain) AS gain FROM visits GROUP BY who) AS v"
    source = draw.choice(["visits AS v", first])
    keys = (("constant", "FLOOR(nights / 2)"), ("binned", "FLOOR(cost / 100)"))
    joined = f"{source} {left} ({figures}) AS s USING (who)"
    return Pool(
        "units joined", joined, "people", "v.who", _TWO, keys, (Part("nights > 1"),), counted=("nights",)
    )


def plain(draw: random.Random) -> Pool:
    return VISITS


_SOURCES = (
    *[plain] * 4,
    lambda draw: SURVEY,
    lambda draw: CENSUS,
    selected,
    per_unit,
    per_unit,
    history,
    existing,
    with_,
    looked_up,
    paired,
    paired_units,
)


# ---- whole questions ---------------------------------------------------------------------------------------


def _counted(draw: random.Random, pool: Pool) -> tuple[str, Part]:
    kinds = ["count", "count x", "count if"] + (["units"] if pool.unit else [])
    kind = draw.choice(kinds)
    if kind == "units":
        return kind, Part(f"COUNT(DISTINCT {pool.unit})")
    if kind == "count x":
        return kind, Part(f"COUNT({draw.choice(pool.counted)})")
    if kind == "count if":
        when = condition(draw, pool, 1)
        return kind, Part(f"COUNT(*) FILTER (WHERE {when.sql})", when.direct)
    return kind, Part("COUNT(*)")


_MOMENTS = ("VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP")


def figure(draw: random.Random, pool: Pool) -> tuple[str, Part]:
    """An aggregate, and its kind."""
    kind = draw.choice(["count", "count", "sum", "sum", "avg", "variance", "covariance", "quantile"])
    if kind == "count":
        return _counted(draw, pool)
    one, other = number(draw, pool), number(draw, pool, 0)
    if kind == "variance":
        return kind, Part(f"{draw.choice(_MOMENTS)}({one.sql})", one.direct and one.exact)
    if kind == "covariance":
        name = draw.choice(["COVAR_POP", "COVAR_SAMP", "CORR"])
        direct = one.direct and other.direct and one.exact and other.exact
        return kind, Part(f"{name}({one.sql}, {other.sql})", direct)
    if kind == "quantile":
        name = draw.choice(
            ["MEDIAN({})", "QUANTILE_CONT({}, 0.25)", "QUANTILE_DISC({}, 0.9)", "MIN({})", "MAX({})"]
        )
        return kind, Part(name.format(one.sql), one.direct and one.exact)
    if kind == "sum" and draw.random() < 0.2:
        when = condition(draw, pool, 1)
        return kind, Part(f"SUM({one.sql}) FILTER (WHERE {when.sql})", one.direct and when.direct, one.exact)
    return kind, Part(f"{'SUM' if kind == 'sum' else 'AVG'}({one.sql})", one.direct, one.exact)


def ask_plainly(draw: random.Random) -> Asked:
    """One aggregate of all rows, which some unit moves as far as it can."""
    pool = draw.choice(_SOURCES)(draw)
    kind, part = _counted(draw, pool) if draw.random() < 0.5 else figure(draw, pool)
    sql = _select(pool, [], [part.sql], None)
    shapes = (kind, f"{pool.kind}: {kind}")
    direct = pool.direct and part.direct
    return Asked(sql, parse_question(sql), pool.population, shapes, direct, 0, (part.sql,), part.exact)


def ask(draw: random.Random) -> Asked:
    """One question, which may be refused where numbers grow beyond every grid."""
    if draw.random() < 0.2:
        return ask_plainly(draw)
    pool = draw.choice(_SOURCES)(draw)
    figures = [figure(draw, pool) for _ in range(draw.choice([1, 1, 2, 3]))]
    keys = draw.sample(pool.keys, min(len(pool.keys), draw.choice([0, 0, 1, 1, 2])))
    if any(kind == "bought" for kind, _ in keys):
        figures = [each for each in figures if each[0] != "quantile"] or [("count", Part("COUNT(*)"))]
    where = condition(draw, pool) if draw.random() < 0.5 else None
    sql = _select(pool, [sql for _, sql in keys], [part.sql for _, part in figures], where)
    bounds = _bounds(draw, pool)
    direct = pool.direct and all(part.direct for _, part in figures) and (where is None or where.direct)
    shapes = {kind for kind, _ in figures} | {f"by {kind}" for kind, _ in keys}
    shapes |= {f"{pool.kind}: {kind}" for kind, _ in figures} | ({"where"} if where else set())
    shapes |= {"bounded", f"bounded: {pool.kind}"} if bounds else set()
    asked = replace(parse_question(sql), bounds=bounds)
    population = pool.population
    numbers = tuple(part.sql for _, part in figures)
    direct = direct and bounds is None and _plain_keys(keys)
    exact = all(part.exact for _, part in figures)
    return Asked(sql, asked, population, tuple(sorted(shapes)), direct, len(keys), numbers, exact)


def _plain_keys(keys: list[tuple[str, str]]) -> bool:
    """Whether plain SQL makes the same groups: it casts by rounding halves to even, and folds all letters."""
    return not any("CAST" in sql or "//" in sql or "LOWER(note)" in sql for _, sql in keys)


def _bounds(draw: random.Random, pool: Pool) -> ContributionLimits | None:
    return (
        ContributionLimits(draw.choice([1, 2, 3]), draw.choice([1, 2, 5])) if draw.random() < 0.15 else None
    )


def _select(pool: Pool, keys: list[str], figures: list[str], where: Part | None) -> str:
    shown = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    shown += [f"{figure} AS a{i}" for i, figure in enumerate(figures)]
    before, source = "", pool.source
    if pool.kind == "with":
        inner, _, alias = source.rpartition(") AS ")
        before, source = f"WITH named AS {inner}) ", f"named AS {alias}"
    filtered = "" if where is None else f" WHERE {where.sql}"
    grouped = f" GROUP BY {', '.join(f'k{i}' for i in range(len(keys)))}" if keys else ""
    return f"{before}SELECT {', '.join(shown)} FROM {source}{filtered}{grouped}"


def ask_sizes(draw: random.Random) -> Asked:
    """Of how many rows the source had of each unit, which SQL has no name for."""
    shown = draw.choice(["AVG(rows) AS a0", "SUM(LEAST(rows, 50)) AS a0", "MEDIAN(rows) AS a0"])
    grouped = draw.choice(["", "rows > 20"])
    keys = f"{grouped} AS k0, " if grouped else ""
    sql = f"SELECT {keys}{shown} FROM visits" + (f" GROUP BY {grouped}" if grouped else "")
    asked = replace(parse_question(sql), relation=UnitRowCounts("visits"))
    kind = "quantile" if "MEDIAN" in sql else "avg" if "AVG" in sql else "sum"
    return Asked(sql, asked, "people", ("sizes", f"sizes: {kind}"), False, int(bool(grouped)))
