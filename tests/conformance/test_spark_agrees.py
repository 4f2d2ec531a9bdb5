"""The same table is stored as the same integers on Spark, and a question has the same answer.

Spark takes its time over every question, however small, so that much is asked in few of them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conformance import test_engines_agree as values
from conformance import test_questions_agree as questions
from conformance import worlds
from conformance.test_engines_agree import COLUMNS, KEY, NAN, WORDS
from conformance.with_spark import Beside
from conformance.worlds import World, make
from sfumato.curator.lower import expressions
from sfumato.curator.lower.functions import FUNCTIONS
from sfumato.engines.program import CellSums
from sfumato.engines.rows import ALL, Total
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredText, StoredTime
from sfumato.engines.values import Column, Constant, Divide, Multiply
from sfumato.errors import UsageError
from sfumato.queries.sql import parse_question


@pytest.fixture
def beside(tmp_path: Path, spark: Any) -> Beside:
    return Beside.at(tmp_path, spark)


def _alike(beside: Beside) -> Any:
    duck, spark = beside.stored("t")
    assert duck == spark
    return duck


# ---- what is stored ----------------------------------------------------------------------------------------

KNOWN = [name for name in COLUMNS if name != "clock"]
"""Spark reads no times of day from files that others wrote."""


PARTS = [KNOWN[:5], KNOWN[5:9], KNOWN[9:]]
WHOLE = ("double", "number as text", "moment as text")
"""Types whose values are all put into each kind of column. Of other types each takes every third kind."""


def _store(beside: Beside, names: list[str], every: bool) -> None:
    size = max(len(COLUMNS[name][1]) for name in names)
    source: dict[str, Any] = {"who": pa.array(range(size), pa.int64())}
    stored: list[Any] = []
    for name in names:
        of_type, listed = COLUMNS[name]
        column = pa.array([*listed, *[None] * (size - len(listed))], of_type, from_pandas=False)
        kinds = list(values._readings(name))
        for reading in kinds if every or name in WHOLE else kinds[KNOWN.index(name) % 3 :: 3]:
            source[f"x{len(stored)}"] = column
            stored.append(replace(reading, name=f"x{len(stored)}"))
    beside.prepare(pa.table(source), Preparation("who", 1, tuple(stored), KEY), "t")
    assert len(_alike(beside)[0]) == size


@pytest.mark.parametrize("names", PARTS, ids=["numbers", "texts", "others"])
def test_every_value_is_stored_alike(beside: Beside, names: list[str]) -> None:
    _store(beside, names, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("names", PARTS, ids=["numbers", "texts", "others"])
def test_every_value_is_stored_alike_in_every_kind(beside: Beside, names: list[str]) -> None:
    _store(beside, names, every=True)


def _identifiers(name: str, draw: random.Random) -> pa.Array:
    of_type, listed = COLUMNS[name]
    known = [value for value in listed if not (name == "single" and value and abs(value) > 2**53)]
    return pa.array([draw.choice(known) for _ in range(200)], of_type, from_pandas=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KNOWN if name != "double"])
def test_every_identifier_is_the_same_person(beside: Beside, name: str) -> None:
    draw = random.Random(1)
    who = _identifiers(name, draw)
    source = pa.table({"who": who, "x": [draw.randrange(9) for _ in range(200)]})
    beside.prepare(source, Preparation("who", 3, (StoredGrid("x", 0, 9),), KEY), "t")
    assert _alike(beside)[1]


def _mixed(size: int) -> pa.Table:
    draw = random.Random(2)
    return pa.table(
        {
            "who": pa.array([draw.choice([*"abcdefgh", "ü", None, ""]) for _ in range(size)]),
            "x": pa.array([draw.choice([None, NAN, 1.0, 2.5, 7.0]) for _ in range(size)], from_pandas=False),
            "note": pa.array([draw.choice(WORDS) for _ in range(size)]),
            "ward": pa.array([draw.choice("ABC") for _ in range(size)]),
        }
    )


MIXED = (
    StoredGrid("x", -5, 50, Fraction(1, 2)),
    StoredText("note"),
    StoredCodes("ward", ("A", "B"), None),
)


@pytest.mark.parametrize(("max_rows", "constant"), [(1, ()), (40, ("note", "x"))])
def test_the_very_same_rows_are_kept(beside: Beside, max_rows: int, constant: tuple[str, ...]) -> None:
    beside.prepare(_mixed(1500), Preparation("who", max_rows, MIXED, KEY, constant), "t")
    assert _alike(beside)[0]


def test_every_row_is_kept_where_rows_are_units(beside: Beside) -> None:
    beside.prepare(_mixed(300), Preparation(None, 1, MIXED, KEY), "t")
    assert len(_alike(beside)[0]) == 300


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_one_row_tables(beside: Beside, rows: int) -> None:
    source = pa.table({"who": pa.array([1] * rows, pa.int64()), "x": pa.array([2.5] * rows, pa.float64())})
    for unit in ("who", None):
        beside.prepare(source, Preparation(unit, 2, (StoredGrid("x", 0, 5),), KEY), "t")
        assert len(_alike(beside)[0]) == rows


def test_identifiers_that_may_have_been_rounded_are_refused(beside: Beside) -> None:
    source = pa.table({"who": pa.array([2.0**53, 1.0]), "x": [1, 2]})
    with pytest.raises(UsageError, match="SF-C205"):
        beside.spark.prepare(beside.frame(source), Preparation("who", 1, (), KEY), "t")
    assert not list(beside.spark.place.path.iterdir())  # type: ignore[attr-defined]


def test_random_doubles_and_moments_have_one_text_and_one_grid_point(beside: Beside) -> None:
    draw = random.Random(3)
    doubles = [draw.uniform(-1, 1) * 10 ** draw.uniform(-30, 40) for _ in range(3000)]
    doubles += [float(draw.randrange(-(10**17), 10**17)) / 2 ** draw.randrange(8) for _ in range(1000)]
    doubles += [draw.randrange(1, 2**52) * 5e-324 for _ in range(100)] + [5e-324 * n for n in range(100)]
    micros = [draw.randrange(315_537_897_599 * 10**6) for _ in doubles]
    moments = [datetime(1, 1, 1) + timedelta(microseconds=each) for each in micros]
    source = pa.table(
        {
            "who": range(len(doubles)),
            "a": doubles,
            "b": doubles,
            "c": [repr(value) for value in doubles],
            "d": pa.array(moments, pa.timestamp("us")),
            "e": [each.isoformat() for each in moments],
            "f": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )
    fine, ends = (-(2**52), 2**52, -20), (-(2**40), 2**40, True)
    columns = (
        StoredText("a"),
        StoredGrid("b", *fine),
        StoredGrid("c", *fine),
        StoredTime("d", *ends),
        StoredTime("e", *ends),
        StoredText("f"),
    )
    beside.prepare(source, Preparation("who", 1, columns, KEY), "t")
    assert _alike(beside)[0]


# ---- what is answered --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asking:
    world: World
    beside: Beside

    @classmethod
    def of(cls, folder: Path, spark: Any, seed: int) -> Asking:
        world, beside = make(folder / "world", seed, neighbours=False), Beside.at(folder, spark)
        _, sources = worlds._people(random.Random(seed))
        for name, table in world.tables.items():
            beside.prepare(sources[name], table.make_preparation(worlds.KEY), table.snapshot_name)
            duck, stored = beside.stored(table.snapshot_name)
            assert duck == stored
        return cls(world, beside)

    def agree(self, program: Any, about: Any = None) -> None:
        duck, spark = self.beside.run(program)
        assert duck == spark, (about, program)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Asking:
    return Asking.of(tmp_path_factory.mktemp("asking"), spark, 0)


def _compared(asking: Asking, draw: random.Random, number: int) -> Counter[str]:
    tried: Counter[str] = Counter()
    for sql, plan in questions._plans(asking.world, draw, number):
        tried["questions"] += 1
        for step in plan.steps:
            if not questions._drawn(step.program):
                asking.agree(step.program, sql)
                tried["programs"] += 1
    return tried


def test_generated_questions_have_the_same_integers(asking: Asking) -> None:
    assert _compared(asking, random.Random(0), 6)["questions"] >= 3


@pytest.mark.slow
def test_many_generated_questions_have_the_same_integers(asking: Asking) -> None:
    assert _compared(asking, random.Random(1), 280)["questions"] >= 200


def _several(parts: tuple[str, ...], each: int) -> list[str]:
    return [", ".join(parts[i : i + each]) for i in range(0, len(parts), each)]


def test_every_function_means_the_same(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    call = expressions.apply_function
    monkeypatch.setattr(
        expressions, "apply_function", lambda name, parts: called.add(name) or call(name, parts)
    )
    words = tuple(f"{each} LIKE '%1%' OR {each} LIKE '%a%'" for each in questions.WORDS)
    sums = tuple(f"SUM({each}) AS a{i}, COUNT({each}) AS b{i}" for i, each in enumerate(questions.NUMBERS))
    counts = tuple(
        f"COUNT(*) FILTER (WHERE {each}) AS n{i}, SUM(cost) FILTER (WHERE {each}) AS c{i}"
        for i, each in enumerate((*questions.CONDITIONS, *words))
    )
    asked = [f"SELECT {several} FROM visits" for several in _several(sums, 8) + _several(counts, 8)]
    asked += [f"SELECT {each} AS k, COUNT(*) AS n FROM visits GROUP BY {each}" for each in questions.KEYS]
    asked += [f"SELECT ward, MODE({each}) AS m FROM visits GROUP BY ward" for each in questions.MODES]
    per_unit = "SELECT who, AVG(gain) AS a, SUM(stay) AS t FROM visits GROUP BY who"
    asked.append(f"SELECT SUM(a) AS a, SUM(t) AS t FROM ({per_unit}) AS q")
    for sql in asked:
        for step in asking.world.plan(parse_question(sql)).steps:
            asking.agree(step.program, sql)
    assert called == set(FUNCTIONS)


COST = Column(0, "cost")


def _divisions() -> CellSums:
    """Quotients beyond 32 digits, and divisors of up to 120 bits."""
    large = Multiply(COST, Constant(2**76))
    divisors = (1, 2, 3, 7, 10**6 - 1, 10**6, 10**6 + 1, 2**60, 2**119 - 1, 2**120)
    return CellSums(questions.AT, ALL, (), tuple(Total(Divide(large, Constant(each))) for each in divisors))


def test_what_questions_seldom_ask(asking: Asking) -> None:
    for program in (*questions.RARE, _divisions()):
        asking.agree(program)
