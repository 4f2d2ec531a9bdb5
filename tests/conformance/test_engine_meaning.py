"""Every engine gives the integers of a plain Python reading of what was prepared and asked.

The reference is written from the definitions in `engines/program.py` and docs/proofs/contribution-bounds.md,
with exact rational arithmetic and no thought for speed.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import (
    Among,
    AtLeast,
    AtMost,
    Codes,
    Every,
    Grid,
    Key,
    Missing,
    Not,
    Preparation,
    Present,
    Program,
    Rows,
    Some,
    Square,
    Units,
    Value,
    Weight,
)

ENGINES = {"duckdb": DuckDBEngine}
KEY = bytes(range(16))
UNIT = object()
NAN, INF = math.nan, math.inf


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    return ENGINES[request.param](tmp_path / "lab")


# ---- the reference: preparing ------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    if isinstance(value, str):
        words = {"true": 1.0, "t": 1.0, "false": 0.0, "f": 0.0}
        try:
            value = words[value.lower()] if value.lower() in words else float(value)
        except ValueError:
            return None
    return None if value is None or math.isnan(value) else float(value)


def text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def stored(column: Grid | Codes, value: Any) -> int | None:
    if isinstance(column, Codes):
        texts = all(isinstance(listed, str) for listed in column.values)
        value = text(value) if texts else number(value)
        return column.values.index(value) if value in column.values else None
    x = number(value)
    if x is None:
        return None
    if math.isinf(x):
        return column.high if x > 0 else column.low
    nearest = math.floor(Fraction(x) / Fraction(2) ** column.exponent + Fraction(1, 2))
    return min(max(nearest, column.low), column.high)


def kept(rows: list[tuple[int | None, ...]], unit: str, preparation: Preparation) -> list[tuple]:
    seen: Counter[str] = Counter()
    places = []
    for row in rows:
        record = ",".join("" if field is None else str(field) for field in row)
        seen[record] += 1
        hashed = f"{preparation.key.hex()}:{record}:{seen[record]}:{unit}"
        places.append((hashlib.md5(hashed.encode()).hexdigest(), record, seen[record], row))
    return [row for *_, row in sorted(places, key=lambda place: place[:3])[: preparation.max_rows]]


def prepared(table: pa.Table, preparation: Preparation) -> list[dict[Any, Any]]:
    """The rows of a snapshot, each with its unit beside the columns."""
    units = defaultdict(list)
    for number_, row in enumerate(table.to_pylist()):
        unit = f"row {number_}" if preparation.unit is None else text(row[preparation.unit])
        units[unit].append(tuple(stored(column, row[column.name]) for column in preparation.columns))
    named = [unit for unit in units if unit]
    rows = [(unit, row) for unit in named for row in kept(units[unit], unit, preparation)]
    return [
        {UNIT: unit} | {c.name: field for c, field in zip(preparation.columns, row, strict=True)}
        for unit, row in rows
    ]


# ---- the reference: asking ---------------------------------------------------------------------------------


def holds(predicate: Any, row: dict[str, int | None]) -> bool | None:
    match predicate:
        case Missing(column):
            return row[column] is None
        case Not(part):
            inner = holds(part, row)
            return None if inner is None else not inner
        case Every(parts):
            return conjunction([holds(part, row) for part in parts])
        case Some(parts):
            negated = conjunction([holds(Not(part), row) for part in parts])
            return None if negated is None else not negated
    if row[predicate.column] is None:
        return None
    match predicate:
        case AtLeast(column, value):
            return row[column] >= value
        case AtMost(column, value):
            return row[column] <= value
        case Among(column, codes):
            return row[column] in codes


def conjunction(parts: list[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def amount(term: Any, row: dict[str, int | None]) -> int:
    if isinstance(term, Rows):
        return 1
    if row[term.column] is None:
        return 0
    match term:
        case Present():
            return 1
        case Value(column, centre):
            return row[column] - centre
        case Square(column, centre, shift):
            return min((row[column] - centre) ** 2 // 2**shift, 2**62)
        case Weight(column, weights):
            return weights[row[column]]


def answered(program: Program, rows: list[dict[str, int | None]]) -> list[list[int]]:
    cells = {cell: i for i, cell in enumerate(product(*(range(key.size) for key in program.keys)))}
    found: list[list[dict[Any, Any]]] = [[] for _ in cells]
    for row in rows:
        cell = cells.get(tuple(row[key.column] for key in program.keys))
        if cell is not None and holds(program.where, row) is True:
            found[cell].append(row)
    return [[over(term, some) for some in found] for term in program.terms]


def over(term: Any, rows: list[dict[Any, Any]]) -> int:
    if isinstance(term, Units):
        return len({row[UNIT] for row in rows})
    return sum(amount(term, row) for row in rows)


# ---- random tables and programs ----------------------------------------------------------------------------

COLUMNS = (
    Grid("cost", -40, 400, -2),
    Grid("far", -(2**52), 2**53, 0),
    Grid("coarse", -3, 40, 5),
    Codes("ward", ("A", "B", "ä 'quoted'", "")),
    Codes("grade", (0.5, 1.0, -2.0)),
    Codes("again", (False, True)),
    Codes("flag", ("true", "false")),
)
DOMAINS = {column.name: len(column.values) for column in COLUMNS if isinstance(column, Codes)}


def random_table(draw: random.Random, rows: int) -> pa.Table:
    def some(*values: Any) -> list[Any]:
        return [draw.choice(values) for _ in range(rows)]

    floats = [
        0.0,
        -0.0,
        0.2499,
        -10.0,
        -10.01,
        99.99,
        100.0,
        1e300,
        -1e300,
        5e-324,
        -5e-324,
        NAN,
        INF,
        -INF,
        None,
    ]
    units = [draw.choice([None, NAN, float(draw.randint(1, 12)), 3.5]) for _ in range(rows)]
    return pa.table(
        {
            "who": pa.array(units, pa.float64(), from_pandas=False),
            "cost": pa.array(some(*floats), pa.float64(), from_pandas=False),
            "coarse": pa.array(some(*floats), pa.float64(), from_pandas=False),
            "far": pa.array(some(2**53, 2**53 - 1, -(2**60), 7, 0, None), pa.int64()),
            "ward": some("A", "B", "ä 'quoted'", "", "unlisted", "a", None),
            "grade": some("0.5", "1", "1.0", " -2", "-2", "+0.5", "nan", "inf", "one", "true", "", None),
            "again": some(True, False, None),
            "flag": some(True, False, None),
        }
    )


def random_predicate(draw: random.Random, depth: int = 3) -> Any:
    kinds = [AtLeast, AtMost, Among, Missing] + ([Not, Every, Some] if depth else [])
    kind = draw.choice(kinds)
    if kind is Not:
        return Not(random_predicate(draw, depth - 1))
    if kind in (Every, Some):
        return kind(tuple(random_predicate(draw, depth - 1) for _ in range(draw.randrange(4))))
    column = draw.choice(COLUMNS).name
    if kind is Missing:
        return Missing(column)
    if kind is Among:
        codes = [draw.randint(0, 3) if draw.random() < 0.8 else draw.randint(-1, 300) for _ in range(40)]
        return Among(column, tuple(codes[: draw.choice([0, 1, 2, 3, 40])]))
    return kind(
        column, draw.choice([0, 1, 2, 3, -41, 255, 256, 399, 2**31, 2**53, -(2**52), 10**30, -(10**30)])
    )


def random_term(draw: random.Random) -> Any:
    column = draw.choice(COLUMNS).name
    weighted = draw.choice(list(DOMAINS))
    weights = tuple(draw.choice([0, 1, -1, 17, 2**62, -(2**62)]) for _ in range(DOMAINS[weighted]))
    terms = [
        Rows(),
        Present(column),
        Value(column),
        Value(column, draw.choice([5, -(2**53), 2**53])),
        Square(column, draw.choice([0, 5, -(2**53), 2**62]), draw.choice([0, 1, 7, 61, 88, 126])),
        Units(),
        Weight(weighted, weights),
    ]
    return draw.choice(terms)


def random_program(draw: random.Random, snapshot: str = "t-1") -> Program:
    keys = tuple(Key(name, DOMAINS[name]) for name in draw.sample(list(DOMAINS), draw.randrange(4)))
    terms = tuple(random_term(draw) for _ in range(draw.randint(1, 4)))
    return Program(snapshot, random_predicate(draw), keys, terms)


# ---- what is promised --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_what_the_reference_says(engine, seed):
    draw = random.Random(seed)
    table = random_table(draw, draw.choice([0, 1, 30, 400]) if seed else 400)
    preparation = Preparation(draw.choice(["who", "who", None]), draw.choice([1, 3, 20, 1000]), COLUMNS, KEY)
    engine.prepare(table, preparation, "t-1")
    rows = prepared(table, preparation)
    for program in [random_program(draw) for _ in range(40)]:
        assert engine.run(program).tolist() == answered(program, rows)


def test_a_heavy_unit_keeps_exactly_the_rows_the_definition_names(engine):
    draw = random.Random(99)
    rows = 3000
    table = random_table(draw, rows).set_column(0, "who", pa.array(draw.choices("abc", [90, 9, 1], k=rows)))
    for max_rows in (1, 2, 40, 299, 2900):
        preparation = Preparation("who", max_rows, COLUMNS, KEY)
        engine.prepare(table, preparation, "t-1")
        keys = tuple(Key(name, size) for name, size in DOMAINS.items())
        program = Program("t-1", Every(()), keys, (Rows(), Value("cost", 3), Value("far")))
        assert engine.run(program).tolist() == answered(program, prepared(table, preparation))


def test_the_key_decides_which_rows_are_kept(engine):
    table = pa.table({"who": ["x"] * 500, "cost": [float(i) for i in range(500)]})
    program = Program("t-1", Every(()), (), (Value("cost"),))
    sums = set()
    for key in (b"one", b"two", b"three"):
        engine.prepare(table, Preparation("who", 10, (Grid("cost", 0, 500, 0),), key), "t-1")
        sums.add(int(engine.run(program)[0, 0]))
    assert len(sums) == 3


def forms(table: pa.Table, folder: Any) -> dict[str, Any]:
    pa.parquet.write_table(table, folder / "t.parquet")
    pa.parquet.write_table(table, folder / "groups.parquet", row_group_size=37)
    pl.from_arrow(table).write_parquet(folder / "polars.parquet", row_group_size=50)
    pa.csv.write_csv(table, folder / "t.csv")
    frame = table.to_pandas()
    return {
        "arrow": table,
        "chunked arrow": pa.concat_tables([table.slice(0, 100), table.slice(100)]),
        "parquet": folder / "t.parquet",
        "parquet as text": str(folder / "t.parquet"),
        "parquet in groups": folder / "groups.parquet",
        "parquet by polars": folder / "polars.parquet",
        "csv": folder / "t.csv",
        "pandas": frame,
        "pandas objects": frame.astype(object),
        "pandas categories": frame.astype("category"),
        "polars": pl.from_arrow(table),
    }


def test_every_source_form_gives_the_same_integers(engine, tmp_path):
    draw = random.Random(5)
    table = random_table(draw, 800)
    table = table.set_column(
        0, "who", pa.array([draw.choice([None, *range(12)]) for _ in range(800)], pa.int64())
    )
    preparation = Preparation("who", 20, COLUMNS, KEY)
    programs = [random_program(draw) for _ in range(20)]
    expected = [answered(program, prepared(table, preparation)) for program in programs]
    for name, source in forms(table, tmp_path).items():
        engine.prepare(source, preparation, "t-1")
        assert [engine.run(program).tolist() for program in programs] == expected, name


def test_row_order_does_not_matter(engine):
    draw = random.Random(6)
    table = random_table(draw, 1000)
    preparation = Preparation("who", 7, COLUMNS, KEY)
    programs = [random_program(draw) for _ in range(20)]
    answers = []
    for order in (None, "reversed", "shuffled"):
        places = list(range(1000)) if order is None else list(reversed(range(1000)))
        if order == "shuffled":
            draw.shuffle(places)
        engine.prepare(table.take(places), preparation, "t-1")
        answers.append([engine.run(program).tolist() for program in programs])
    assert answers[0] == answers[1] == answers[2]


def test_the_number_of_threads_does_not_matter(tmp_path):
    rng = np.random.default_rng(7)
    size = 400_000
    table = pa.table(
        {
            "who": rng.integers(0, 2000, size),
            "cost": rng.normal(50, 40, size),
            "ward": rng.choice(["A", "B", "z"], size),
        }
    )
    columns = (Grid("cost", -(2**40), 2**40, -30), Codes("ward", ("A", "B")))
    program = Program(
        "t-1", AtLeast("cost", 0), (Key("ward", 2),), (Rows(), Value("cost", 17), Weight("ward", (3, -5)))
    )
    answers = []
    for threads in (1, 2, 4):
        engine = DuckDBEngine(tmp_path / str(threads), threads=threads)
        engine.prepare(table, Preparation("who", 150, columns, KEY), "t-1")
        answers.append(engine.run(program).tolist())
    assert answers[0] == answers[1] == answers[2]


def test_filters_are_exact_where_whole_stretches_are_missing_or_alike(engine):
    """What an engine keeps about a stretch of rows to pass over it must not change an answer."""
    rng = np.random.default_rng(8)
    size = 5 * 122_880 + 77
    stretch = np.arange(size) // 122_880
    cost = np.where(stretch == 3, 40.0, rng.integers(-40, 400, size))
    missing = np.where(stretch == 1, True, rng.random(size) < 0.1) & (stretch != 4)
    ward = np.where(stretch == 2, "A", rng.choice(["A", "B", "z"], size))
    table = pa.table({"cost": pa.array(cost, mask=missing), "ward": ward})
    columns = (Grid("cost", -40, 400, 0), Codes("ward", ("A", "B")))
    engine.prepare(table, Preparation(None, 1, columns, KEY), "t-1")
    code = np.select([ward == "A", ward == "B"], [0, 1], -1)
    among = tuple(range(-40, 400, 7))
    there = ~missing
    for where, chosen in {
        AtLeast("cost", 40): there & (cost >= 40),
        AtMost("cost", -41): there & False,
        Not(AtLeast("cost", 40)): there & (cost < 40),
        Among("cost", (40,)): there & (cost == 40),
        Among("cost", among): there & np.isin(cost, among),
        Not(Among("cost", among)): there & ~np.isin(cost, among),
        Missing("cost"): missing,
        Not(Missing("cost")): there,
        Some((Missing("cost"), AtMost("cost", 0))): missing | (cost <= 0),
        Every((AtLeast("cost", -40), Among("ward", (1,)))): there & (code == 1),
    }.items():
        answer = engine.run(
            Program("t-1", where, (Key("ward", 2),), (Rows(), Value("cost"), Present("cost")))
        )
        cells = [chosen & (code == i) for i in range(2)]
        assert answer.tolist() == [
            [int(cell.sum()) for cell in cells],
            [int(cost[cell & there].sum()) for cell in cells],
            [int((cell & there).sum()) for cell in cells],
        ]


def test_names_are_free(engine):
    names = ["unit", "UNIT", "c0", 'say "x"', "rows; DROP TABLE rows", "ünï", "snapshot", "select"]
    table = pa.table({name: [i, i + 1] for i, name in enumerate(names)} | {"who's": ["a", "b"]})
    preparation = Preparation("who's", 1, tuple(Grid(name, 0, 100, 0) for name in names), KEY)
    snapshot = "../t/1 'x' é"
    engine.prepare(table, preparation, snapshot)
    terms = tuple(Value(name) for name in names)
    assert engine.run(Program(snapshot, Every(()), (), terms)).tolist() == [[2 * i + 1] for i in range(8)]


def test_a_table_without_columns_can_be_counted(engine):
    table = pa.table({"who": [1, 1, 1, 2, None]})
    count = Program("t-1", Every(()), (), (Rows(),))
    engine.prepare(table, Preparation("who", 2, (), KEY), "t-1")
    assert engine.run(count).tolist() == [[3]]
    engine.prepare(table, Preparation(None, 1, (), KEY), "t-1")
    assert engine.run(count).tolist() == [[5]]


def test_a_value_listed_twice_does_not_double_a_row(engine):
    table = pa.table({"grade": [0.0, -0.0, 1.0]})
    engine.prepare(table, Preparation(None, 1, (Codes("grade", (0.0, -0.0, 1.0)),), KEY), "t-1")
    assert engine.run(Program("t-1", Every(()), (Key("grade", 3),), (Rows(),))).tolist() == [[2, 0, 1]]


def test_long_lists_of_values_keep_their_codes(engine):
    size = 64_909
    places = list(range(size))
    random.Random(1).shuffle(places)
    table = pa.table({"word": [f"w{i}" for i in places], "number": [float(i) for i in places]})
    columns = (
        Codes("word", tuple(f"w{i}" for i in range(size))),
        Codes("number", tuple(map(float, range(size)))),
    )
    engine.prepare(table, Preparation(None, 1, columns, KEY), "t-1")
    weights = tuple(i * i - 2**31 for i in range(size))
    terms = (Weight("word", weights), Value("number"), Rows())
    per_word = engine.run(
        Program("t-1", Among("number", tuple(range(0, size, 2))), (Key("word", size),), terms)
    )
    even = np.arange(size) % 2 == 0
    assert per_word.tolist() == [
        (np.array(weights) * even).tolist(),
        (np.arange(size) * even).tolist(),
        even.astype(int).tolist(),
    ]


def test_sums_beyond_64_bits_are_exact(engine):
    high = 2**53
    table = pa.table({"far": pa.array([float(high)] * 3000 + [-1.0])})
    engine.prepare(table, Preparation(None, 1, (Grid("far", -high, high, 0),), KEY), "t-1")
    answer = engine.run(
        Program("t-1", Every(()), (), (Value("far"), Value("far", -(2**62)), Value("far", 2**62), Rows()))
    )
    assert answer.dtype == object
    n, total = 3001, 3000 * high - 1
    assert answer.tolist() == [[total], [total + n * 2**62], [total - n * 2**62], [n]]


def test_squares_are_rounded_down_and_cut_before_they_are_summed(engine):
    table = pa.table({"x": pa.array([-3.0, 0.0, 2.0, 2.0**53, None])})
    engine.prepare(table, Preparation(None, 1, (Grid("x", -(2**53), 2**53, 0),), KEY), "t-1")
    terms = (Square("x", 0, 0), Square("x", 0, 2), Square("x", 2, 88), Square("x", 0, 126))
    largest = (2**53 - 2) ** 2 >> 88
    assert engine.run(Program("t-1", Every(()), (), terms)).tolist() == [
        [9 + 4 + 2**62],
        [2 + 1 + 2**62],
        [largest],
        [0],
    ]


def test_units_are_counted_once_in_each_cell(engine):
    table = pa.table({"who": [1, 1, 1, 2, 2, 3, None], "ward": list("AABABCA")})
    program = Program("t-1", Every(()), (Key("ward", 3),), (Units(), Rows()))
    engine.prepare(table, Preparation("who", 9, (Codes("ward", ("A", "B", "C")),), KEY), "t-1")
    assert engine.run(program).tolist() == [[2, 2, 1], [3, 2, 1]]
    assert engine.run(Program("t-1", Every(()), (), (Units(),))).tolist() == [[3]]


def test_without_a_unit_column_units_are_rows(engine):
    table = pa.table({"ward": list("AABABCA")})
    engine.prepare(table, Preparation(None, 1, (Codes("ward", ("A", "B", "C")),), KEY), "t-1")
    counted = engine.run(Program("t-1", Every(()), (Key("ward", 3),), (Units(), Rows())))
    assert counted.tolist() == [[4, 2, 1], [4, 2, 1]]


def test_pandas_whole_numbers_stay_the_same_person_beside_a_missing_one(engine):
    columns = (Grid("cost", 0, 100, 0),)
    program = Program("t-1", Every(()), (), (Rows(), Value("cost")))
    answers = []
    for who in (pd.Series([7, 7, 7, 8]), pd.Series([7, 7, 7, 8, None]), pd.Series([7, "7", 7.0, 8])):
        frame = pd.DataFrame({"who": who, "cost": range(1, len(who) + 1)})
        engine.prepare(frame, Preparation("who", 2, columns, KEY), "t-1")
        answers.append(engine.run(program).tolist())
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == [3]


def test_an_erased_snapshot_answers_nothing(engine):
    engine.prepare(pa.table({"x": [1]}), Preparation(None, 1, (Grid("x", 0, 1, 0),), KEY), "t-1")
    program = Program("t-1", Every(()), (), (Rows(),))
    assert engine.run(program).tolist() == [[1]]
    engine.erase("t-1")
    engine.erase("t-1")
    with pytest.raises(Exception, match=r"t-1"):
        engine.run(program)


def test_a_snapshot_made_again_is_seen(engine):
    program = Program("t-1", Every(()), (), (Rows(),))
    for rows in (1, 5):
        engine.prepare(pa.table({"x": [1] * rows}), Preparation(None, 1, (Grid("x", 0, 1, 0),), KEY), "t-1")
        assert engine.run(program).tolist() == [[rows]]
