"""The same question gives the same integers on DuckDB and on PostgreSQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance import worlds
from conformance.both_engines import Both
from conformance.generate import ask, ask_sizes
from conformance.worlds import World, make
from sfumato.curator.lower import expressions
from sfumato.curator.lower.functions import FUNCTIONS
from sfumato.curator.plan.plan import QuestionPlan
from sfumato.engines.program import (
    CellHistogram,
    CellKey,
    CellSums,
    Counted,
    CountedValues,
    KeyedSums,
    UnitFigures,
)
from sfumato.engines.rows import (
    ALL,
    Bounded,
    Largest,
    Ordered,
    PerUnit,
    Position,
    Scan,
    Smallest,
    Total,
    UnitSizes,
)
from sfumato.engines.values import (
    Among,
    AtLeast,
    Choose,
    Column,
    Constant,
    Either,
    Folded,
    Length,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Spelled,
    UnitBlock,
)
from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_question


@dataclass(frozen=True)
class Asking:
    world: World
    both: Both

    @classmethod
    def of(cls, folder: Path, address: str, seed: int) -> Asking:
        world, both = make(folder / "world", seed, neighbours=False), Both.at(folder, address)
        _, sources = worlds._people(random.Random(seed))
        for name, table in world.tables.items():
            both.prepare(sources[name], table.make_preparation(worlds.KEY), table.snapshot_name)
            duck, postgres = both.stored(table.snapshot_name)
            assert duck == postgres
        return cls(world, both)

    def agree(self, program: Any, about: Any = None) -> None:
        duck, postgres = self.both.run(program)
        assert duck == postgres, (about, program)


def _plans(world: World, draw: random.Random, number: int) -> Iterator[tuple[str, QuestionPlan]]:
    for i in range(number):
        try:
            case = ask_sizes(draw) if i % 40 == 39 else ask(draw)
            yield case.sql, world.plan(case.question)
        except PolicyError:
            continue


def _drawn(node: Any) -> bool:
    """Whether a block is used: where rows are units, blocks are drawn anew by every engine."""
    if isinstance(node, tuple):
        return any(map(_drawn, node))
    return isinstance(node, UnitBlock) or (
        is_dataclass(node) and any(_drawn(getattr(node, each.name)) for each in fields(node))
    )


def _compared(asking: Asking, draw: random.Random, number: int) -> Counter[str]:
    tried: Counter[str] = Counter()
    for sql, plan in _plans(asking.world, draw, number):
        tried["questions"] += 1
        for step in plan.steps:
            if not _drawn(step.program):
                asking.agree(step.program, sql)
                tried["programs"] += 1
    return tried


def test_generated_questions_have_the_same_integers(tmp_path: Path, postgres: str) -> None:
    tried = _compared(Asking.of(tmp_path, postgres, 0), random.Random(0), 130)
    assert tried["programs"] >= 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_generated_questions_have_the_same_integers(tmp_path: Path, postgres: str, seed: int) -> None:
    tried = _compared(Asking.of(tmp_path, postgres, seed), random.Random(seed), 400)
    assert tried["programs"] >= 300


# ---- every function ----------------------------------------------------------------------------------------

NUMBERS = (
    "gain + tip", "gain - stay", "gain * stay", "cost / stay", "cost // 7", "stay % 7", "-gain", "ABS(gain)",
    "SIGN(gain)", "FLOOR(gain)", "CEIL(gain)", "ROUND(gain)", "ROUND(cost, -2)", "POWER(gain, 2)",
    "COALESCE(gain, stay)", "NULLIF(stay, 3)", "LEAST(gain, stay, 1)", "GREATEST(gain, stay)", "YEAR(day)",
    "MONTH(day)", "DAY(day)", "EXTRACT(ISODOW FROM day)", "QUARTER(day)", "HOUR(seen)", "MINUTE(seen)",
    "SECOND(seen)", "DATEDIFF('day', DATE '2020-02-29', day)", "LENGTH(note)", "LENGTH(ward)", "score * 3",
    "CASE WHEN ok THEN gain ELSE stay END", "SQRT(gain)", "LN(stay)", "LOG2(stay)", "LOG10(stay)",
    "EXP(gain)", "POWER(cost, 1.5)", "POWER(stay, -2)", "DAYOFWEEK(day)", "DAYOFYEAR(day)", "WEEK(day)",
    "DATE_DIFF('month', DATE '2020-02-29', day)", "DATE_DIFF('year', DATE '2020-02-29', day)",
    "DATE_DIFF('quarter', day, DATE '2020-02-29')", "DATE_DIFF('week', day, DATE '2020-02-29')",
    "DATE_DIFF('hour', TIMESTAMP '1970-01-01 00:00:00', seen)",
    "DATE_DIFF('minute', TIMESTAMP '1970-01-01 00:00:00', seen)",
    "DATE_DIFF('second', TIMESTAMP '1970-01-01 00:00:00', seen)",
)  # fmt: skip
MORE_NUMBERS = (
    "SQRT(cost)", "LN(cost)", "LOG2(cost + 1)", "EXP(-cost)", "POWER(gain, 0.5)", "POWER(cost + 0.5, 2.5)",
)  # fmt: skip
KEYS = (
    "LOWER(ward)", "UPPER(ward)", "SUBSTRING(ward, 1, 1)", "LEFT(ward, 1)", "COALESCE(ward, 'A')",
    "DATE_TRUNC('minute', seen)", "DATE_TRUNC('hour', seen)", "DATE_TRUNC('day', seen)",
    "DATE_TRUNC('week', day)", "DATE_TRUNC('month', day)", "DATE_TRUNC('quarter', day)",
    "DATE_TRUNC('year', day)", "DATE_TRUNC('second', seen)",
)  # fmt: skip
WORDS = (
    "DAYNAME(day)", "MONTHNAME(seen)", "STRFTIME(day, '%Y-%m')", "STRFTIME(seen, '%H:%M')",
    "STRFTIME(day, '%a %-d. %B')", "YEAR(day) || '-Q' || QUARTER(day)", "CONCAT(ward, flag, '-', ok)",
    "ward || sex",
)  # fmt: skip
MODES = ("score", "sex", "CASE WHEN ok THEN stay END")
CONDITIONS = (
    "LOWER(note) = 'pain a_b'", "UPPER(note) = 'PAIN'", "note LIKE '%a\\_b'", "note LIKE '_本%'",
    "note LIKE '5%\\'", "note LIKE '%ä%'", "STARTS_WITH(note, 'PA')", "ENDS_WITH(note, '語')",
    "REGEXP_MATCHES(note, 'pa|^.本|_b$')", "REGEXP_FULL_MATCH(note, 'p[ae]in.*')", "CONTAINS(note, '%')",
    "note <> 'ß'", "note IN ('', '日本語')", "note IS NULL", "gain < stay", "NOT ok",
    "day + 7 > DATE '2020-03-01'", "ward IN ('A', 'B') OR flag = 1",
)  # fmt: skip


def test_every_function_means_the_same(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: set[str] = set()
    call = expressions.apply_function
    monkeypatch.setattr(
        expressions, "apply_function", lambda name, parts: called.add(name) or call(name, parts)
    )
    asking = Asking.of(tmp_path, postgres, 7)
    asked = [f"SELECT SUM({each}) AS a, COUNT({each}) AS b FROM visits" for each in NUMBERS + MORE_NUMBERS]
    asked += [f"SELECT {each} AS k, COUNT(*) AS n FROM visits GROUP BY {each}" for each in KEYS + WORDS]
    asked += [f"SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE {each}" for each in CONDITIONS]
    asked += [f"SELECT ward, MODE({each}) AS m FROM visits GROUP BY ward" for each in MODES]
    per_unit = "SELECT who, AVG(gain) AS a, SUM(stay) AS t FROM visits GROUP BY who"
    asked.append(f"SELECT SUM(a) AS a, SUM(t) AS t FROM ({per_unit}) AS q")
    for sql in asked:
        for step in asking.world.plan(parse_question(sql)).steps:
            asking.agree(step.program, sql)
    assert called == set(FUNCTIONS)


# ---- what questions seldom ask -----------------------------------------------------------------------------

AT = Scan("visits-1", 0)
NOTE, COST, BORN = Column(0, "note"), Column(0, "cost"), Column(0, "born")
RARE = (
    KeyedSums(AT, ALL, (NOTE,), (Counted(), Total(COST))),
    KeyedSums(AT, ALL, (Folded(NOTE, upper=True), Column(0, "ward")), (Counted(),)),
    KeyedSums(AT, Spelled(NOTE, ("", "\0", "ß")), (NOTE,), ()),
    KeyedSums(AT, ALL, (NOTE, Column(0, "ward")), (Counted(), CountedValues(COST)), (0, 1)),
    KeyedSums(AT, ALL, (NOTE, Length(NOTE)), (Counted(),), (0,)),
    CellSums(
        AT, ALL, (CellKey(Column(0, "ward"), 4, nulls=True),), (CountedValues(NOTE), CountedValues(COST))
    ),
    CellHistogram(AT, ALL, (CellKey(Column(0, "ward"), 4, nulls=True),), Length(NOTE), 1001),
    CellSums(AT, Spelled(NOTE, ("\0",)), (), (Counted(),)),
    CellSums(AT, Matches(NOTE, "\0%"), (), (Counted(),)),
    CellSums(AT, Not(Matches(NOTE, "%\\")), (), (Counted(),)),
    CellSums(
        AT, ALL, (), (Total(Constant(2**62)), Total(Lookup(Column(0, "ward"), (2**62, None, -(2**62)))))
    ),
    CellSums(
        AT, ALL, (), (Total(Lookup(Multiply(COST, Constant(-(2**30))), (1,))), Total(Lookup(COST, (7, 8))))
    ),
    CellSums(AT, ALL, (), (Total(Lookup(Multiply(COST, Constant(2**20)), (1, 2))),)),
    CellSums(AT, ALL, (), (Total(UnitBlock(0, 50)), Total(UnitBlock(0, 7)))),
    CellHistogram(AT, ALL, (), Length(NOTE), 1001),
    CellHistogram(AT, Missing(NOTE), (), Length(NOTE), 1001),
    UnitFigures(
        AT,
        ALL,
        (Counted(), Total(COST), Smallest(Either(COST, Constant(7))), Largest(Either(BORN, Constant(7)))),
    ),
    # The rows of a unit side by side, as a module is trained on them.
    UnitFigures(
        Ordered(Bounded(AT, AtLeast(COST, 1), (), 1, 3), ALL, (), (Position("row_number"),), 1),
        ALL,
        tuple(
            Total(Choose(Among(Column(1, "v0"), (place,)), each, Constant(0)))
            for place in (1, 2, 3)
            for each in (Constant(1), Either(COST, Constant(-1)), BORN)
        ),
    ),
    CellSums(UnitSizes("visits-1", 0), ALL, (), (Counted(), Total(Column(0, "rows")))),
    KeyedSums(
        Bounded(PerUnit(AT, ALL, (NOTE,), (Counted(), Smallest(COST)), 1), ALL, (Column(1, "k0"),), 2, 1),
        ALL,
        (Column(1, "k0"),),
        (Total(Column(1, "f0")), Total(Column(1, "f1"))),
    ),
    KeyedSums(Bounded(AT, ALL, (NOTE,), 2, 1), ALL, (NOTE,), (Total(COST),)),
)


def test_what_questions_seldom_ask(tmp_path: Path, postgres: str) -> None:
    asking = Asking.of(tmp_path, postgres, 8)
    for program in RARE:
        asking.agree(program)
