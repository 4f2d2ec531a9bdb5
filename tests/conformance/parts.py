"""Pieces of random questions: what the tables in `worlds.py` offer, numbers of a row, and conditions on it.

A piece knows whether plain SQL on the bounded data says the same. Where it does not, the reason is one of the
stated differences: rounding of negative halves, MOD of negative numbers, ASCII letters alone, and quotients
compared on their grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass(frozen=True)
class Part:
    """A piece of SQL, and whether plain SQL computes the same of it, to the last digit if it is `exact`."""

    sql: str
    direct: bool = True
    exact: bool = True
    present: bool = False
    natural: bool = False
    """Whether it is a whole number that is not negative."""


@dataclass(frozen=True)
class Pool:
    """Where rows come from, and what can be asked of them."""

    kind: str
    source: str
    population: str
    unit: str | None = None
    numbers: tuple[Part, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    """Kinds of keys, and their SQL."""
    conditions: tuple[Part, ...] = ()
    texts: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    direct: bool = True


# ---- what a table offers -----------------------------------------------------------------------------------

_NUMBERS = (
    Part("cost"),
    Part("gain"),
    Part("stay"),
    Part("tip", present=True),
    Part("flag", present=True, natural=True),
    Part("score"),
    Part("born", natural=True),
    Part("YEAR(day)", natural=True),
    Part("MONTH(day)", natural=True),
    Part("EXTRACT(day FROM day)", natural=True),
    Part("DATE_PART('quarter', day)", natural=True),
    Part("ISODOW(day)", natural=True),
    Part("DAYOFWEEK(day)", natural=True),
    Part("DAYOFYEAR(day)", natural=True),
    Part("WEEK(day)", natural=True),
    Part("DATE_DIFF('month', DATE '2020-02-29', day)"),
    Part("HOUR(seen)", natural=True),
    Part("MINUTE(seen)", natural=True),
    Part("SECOND(seen)", natural=True),
    Part("DATE_DIFF('day', DATE '2020-02-29', day)"),
    Part("(day - DATE '2020-02-29')"),
    Part("((day + 7) - DATE '2020-02-29')"),
    Part("LENGTH(note)", natural=True),
    Part("LENGTH(ward)", natural=True),
    Part("(seen - TIMESTAMP '1970-01-01 00:00:00')", direct=False),
)
_KEYS = (
    ("listed", "ward"),
    ("listed", "flag"),
    ("listed", "score"),
    ("listed", "ok"),
    ("constant", "sex"),
    ("constant", "born"),
    ("constant", "FLOOR(born / 50)"),
    ("step-1", "stay"),
    ("binned", "FLOOR(cost / 500)"),
    ("binned", "FLOOR(gain)"),
    ("binned", "CAST(stay AS INTEGER)"),
    ("binned", "stay // 7"),
    ("binned", "CASE WHEN cost < 10.5 THEN 'low' WHEN cost < 4000 THEN 'mid' ELSE 'high' END"),
    ("binned", "CASE ward WHEN 'A' THEN 1 WHEN 'B' THEN 2 END"),
    ("binned", "cost >= 2500"),
    ("calendar", "DATE_TRUNC('month', day)"),
    ("calendar", "DATE_TRUNC('week', day)"),
    ("calendar", "DATE_TRUNC('quarter', day)"),
    ("calendar", "DATE_TRUNC('year', day)"),
    ("calendar", "DATE_TRUNC('hour', seen)"),
    ("calendar", "DATE_TRUNC('day', seen)"),
    ("calendar", "ISODOW(day)"),
    ("calendar", "day"),
    ("rewritten", "LOWER(ward)"),
    ("rewritten", "DAYNAME(day)"),
    ("rewritten", "MONTHNAME(seen)"),
    ("rewritten", "STRFTIME(day, '%Y-%m')"),
    ("rewritten", "STRFTIME(seen, '%H')"),
    ("rewritten", "YEAR(day) || '-Q' || QUARTER(day)"),
    ("rewritten", "CONCAT(ward, '/', sex)"),
    ("rewritten", "SUBSTRING(sex, 1, 1)"),
    ("rewritten", "COALESCE(ward, 'none')"),
    ("bought", "note"),
    ("bought", "LOWER(note)"),
    ("bought", "DATE_TRUNC('second', seen)"),
)
_CONDITIONS = (
    Part("day >= DATE '2020-06-01'"),
    Part("day BETWEEN '2019-12-31' AND '2020-02-29'"),
    Part("day < TIMESTAMP '2020-06-01 12:00:00'"),
    Part("seen > TIMESTAMP '1970-01-01 00:00:01'"),
    Part("CAST(seen AS DATE) <> DATE '1970-01-02'"),
    Part("note = 'pain'"),
    Part("note <> ''"),
    Part("note IN ('pain', '日本語', 'it''s')"),
    Part("note LIKE 'pa_n%'"),
    Part("note LIKE '%日_語'"),
    Part("note NOT LIKE '%a\\%'"),
    Part("note ILIKE '%PAIN%'"),
    Part("LOWER(note) = 'pain a_b'"),
    Part("CONTAINS(note, '%')"),
    Part("STARTS_WITH(note, 'x')"),
    Part("ENDS_WITH(note, '_b')"),
    Part("REGEXP_MATCHES(note, 'pa|b$|^.本')"),
    Part("REGEXP_FULL_MATCH(note, '(x|pain).?.?')"),
    Part("NOT REGEXP_MATCHES(LOWER(note), 'p[ao]in|%')"),
    Part("note IS NULL"),
    Part("ward IN ('A', 'B')"),
    Part("ward NOT IN ('C')"),
    Part("ward <> 'A'"),
    Part("ward IS DISTINCT FROM 'A'"),
    Part("flag IS NOT DISTINCT FROM score"),
    Part("ward LIKE '_'"),
    Part("ok"),
    Part("NOT ok"),
    Part("sex = 'f'"),
    Part("score > 0"),
    Part("flag = 1"),
    Part("CASE WHEN cost > 3 THEN ok ELSE TRUE END"),
    Part(f"stay IN ({', '.join(str(i) for i in range(-1, 61, 2))})"),
    Part(f"CASE WHEN stay IN ({', '.join(str(i) for i in range(0, 61, 2))}) THEN TRUE ELSE ok END"),
)
VISITS = Pool(
    "plain", "visits", "people", "who", _NUMBERS, _KEYS, _CONDITIONS, ("note",), ("note", "ward", "ok", "day")
)
_SURVEY = (
    (Part("cost"), Part("stay"), Part("flag", natural=True), Part("LENGTH(note)", natural=True)),
    (("listed", "ward"), ("listed", "flag"), ("binned", "FLOOR(stay / 10)"), ("bought", "note")),
    (Part("ok"), Part("ward <> 'A'"), Part("note LIKE '%a%'")),
)
SURVEY = Pool("row", "survey", "survey", None, *_SURVEY, counted=("note", "ward"))
CENSUS = Pool("replaced", "census", "census", None, *_SURVEY, counted=("note", "ward"))


# ---- numbers and conditions --------------------------------------------------------------------------------


def number(draw: random.Random, pool: Pool, depth: int = 2) -> Part:
    """A number of a row."""
    if depth == 0 or draw.random() < 0.4:
        return draw.choice(pool.numbers)
    return draw.choice(_COMPUTED)(draw, pool, depth - 1)


def _literal(draw: random.Random) -> str:
    return draw.choice(["0", "1", "2", "3.5", "0.25", "7", "60", "2500", "-1", "-6.5"])


def _arithmetic(draw: random.Random, pool: Pool, depth: int) -> Part:
    one, other = number(draw, pool, depth), number(draw, pool, depth)
    sign = draw.choice("+-*")
    return _joined(f"({one.sql} {sign} {other.sql})", one, other)


def _scaled(draw: random.Random, pool: Pool, depth: int) -> Part:
    one = number(draw, pool, depth)
    return _joined(f"({one.sql} {draw.choice('+-*')} {_literal(draw)})", one)


def _divided(draw: random.Random, pool: Pool, depth: int) -> Part:
    one, other = number(draw, pool, 0), number(draw, pool, 0)
    by = draw.choice([other.sql, "3", "-7", "0.5", "NULLIF(" + other.sql + ", 0)"])
    return _joined(f"({one.sql} / {by})", one, other, exact=False)


def _joined(sql: str, *parts: Part, exact: bool = True, present: bool = True) -> Part:
    """What is computed of something rounded is rounded by more than a step, and no longer comparable."""
    return Part(
        sql,
        all(part.direct and part.exact for part in parts),
        exact and all(part.exact for part in parts),
        present and all(part.present for part in parts),
    )


def _function(draw: random.Random, pool: Pool, depth: int) -> Part:
    one = number(draw, pool, depth)
    whole = draw.choice(["ABS({})", "SIGN({})", "FLOOR({})", "CEIL({})", "-{}", "POWER({}, 2)"])
    made = _joined(whole.format(f"({one.sql})"), one)
    return made if one.exact or whole.startswith(("ABS", "-")) else _only_here(made)


def _curve(draw: random.Random, pool: Pool, depth: int) -> Part:
    """A root, a logarithm or an exponential, where plain SQL has one too."""
    one = number(draw, pool, 0)
    sql = draw.choice(
        [
            "SQRT(ABS({}))",
            "LN(ABS({}) + 1)",
            "LOG10(ABS({}) + 0.5)",
            "EXP({} / 65536)",
            "POWER(ABS({}), 1.5)",
            "POWER(ABS({}), 3)",
        ]
    )
    made = _joined(sql.format(one.sql), one, exact=False)
    # A product of rounded factors is off by more than a step of its own.
    return _only_here(made) if sql.startswith(("POWER", "EXP")) else made


def _rounded(draw: random.Random, pool: Pool, depth: int) -> Part:
    one = number(draw, pool, depth)
    made = _joined(draw.choice(["ROUND({})", "ROUND({}, 1)", "CAST({} AS INTEGER)"]).format(one.sql), one)
    return made if one.natural else _only_here(made)


def _rest(draw: random.Random, pool: Pool, depth: int) -> Part:
    one = number(draw, pool, 0)
    sql = draw.choice(["({} % 7)", "({} // 7)", "MOD({}, 5)"]).format(one.sql)
    if one.natural and "//" in sql:
        return _joined(f"FLOOR({one.sql} / 7)", one)
    made = _joined(sql, one)
    return made if one.natural else _only_here(made)


def _extreme(draw: random.Random, pool: Pool, depth: int) -> Part:
    parts = [number(draw, pool, depth), number(draw, pool, 0)]
    name = draw.choice(["LEAST", "GREATEST"])
    third = draw.choice([f", {_literal(draw)}", ", NULL", ""])
    return _joined(f"{name}({parts[0].sql}, {parts[1].sql}{third})", *parts)


def _filled(draw: random.Random, pool: Pool, depth: int) -> Part:
    one, other = number(draw, pool, depth), number(draw, pool, 0)
    sql = draw.choice([f"COALESCE({one.sql}, {other.sql}, {_literal(draw)})", f"NULLIF({one.sql}, 1)"])
    return _joined(sql, one, other, present=False)


def _case(draw: random.Random, pool: Pool, depth: int) -> Part:
    one, other, when = number(draw, pool, depth), number(draw, pool, 0), condition(draw, pool, 1)
    otherwise = draw.choice([f" ELSE {other.sql}", f" ELSE {_literal(draw)}", ""])
    sql = draw.choice(
        [f"CASE WHEN {when.sql} THEN {one.sql}{otherwise} END", f"IF({when.sql}, {one.sql}, {other.sql})"]
    )
    return _joined(sql, one, other, when, present=False)


def _only_here(part: Part) -> Part:
    return Part(part.sql, False, part.exact, part.present)


_COMPUTED = (
    _arithmetic,
    _arithmetic,
    _scaled,
    _divided,
    _function,
    _curve,
    _rounded,
    _rest,
    _extreme,
    _filled,
    _case,
)


def condition(draw: random.Random, pool: Pool, depth: int = 2) -> Part:
    """A condition on a row."""
    if depth == 0 or draw.random() < 0.5:
        compares = _compares(draw, pool)
        return draw.choice([*pool.conditions, compares, compares]) if draw.random() < 0.5 else compares
    one, other = condition(draw, pool, depth - 1), condition(draw, pool, depth - 1)
    sql = draw.choice(
        [f"({one.sql} AND {other.sql})", f"({one.sql} OR {other.sql})", f"NOT ({one.sql})", f"({one.sql})"]
    )
    return Part(sql, one.direct and other.direct)


def _compares(draw: random.Random, pool: Pool) -> Part:
    one, other = number(draw, pool, 1), number(draw, pool, 0)
    sign = draw.choice(["=", "<>", "<", "<=", ">", ">="])
    sql = draw.choice(
        [
            f"{one.sql} {sign} {_literal(draw)}",
            f"{_literal(draw)} {sign} ({one.sql})",
            f"{one.sql} {sign} {other.sql}",
            f"{one.sql} BETWEEN 1 AND 40.5",
            f"{one.sql} NOT BETWEEN 1 AND {other.sql}",
            f"{one.sql} IN (0, 2.25, 60)",
            f"({one.sql}) IS NULL",
            f"({one.sql}) IS NOT NULL",
        ]
    )
    plain = "score IN" not in sql and "flag IN" not in sql  # what is not listed is refused
    return Part(sql if plain else "flag = 1", one.direct and other.direct and one.exact and other.exact)
