"""Every engine gives the integers of a plain Python reading of what was prepared and asked.

The reference of what is prepared is written from docs/proofs/contribution-bounds.md, with exact rational
arithmetic and no thought for speed; that of what is asked is in `reference.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import random
from collections import Counter, defaultdict
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from conformance.reference import Reference
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellKey,
    CellSums,
    Counted,
    CountedUnits,
    CountedValues,
    HistogramCounts,
    KeyedSums,
    Present,
    Total,
)
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid, StoredText, StoredTime
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Folded,
    Greatest,
    Least,
    Length,
    Less,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Same,
    Some,
    Spelled,
    UnitBlock,
)
from sfumato.errors import EngineError

ENGINES = {"duckdb": DuckDBEngine}
KEY = bytes(range(16))
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


def stored(column: Any, value: Any) -> int | str | None:
    if isinstance(column, StoredText):
        return text(value)
    if isinstance(column, StoredTime):
        return None if value is None else min(max((value - date(1970, 1, 1)).days, column.low), column.high)
    if isinstance(column, StoredCodes):
        texts = all(isinstance(listed, str) for listed in column.values)
        value = text(value) if texts else number(value)
        return column.values.index(value) if value in column.values else None
    x = number(value)
    if x is None:
        return None
    if math.isinf(x):
        return column.high if x > 0 else column.low
    nearest = math.floor(Fraction(x) / column.step + Fraction(1, 2))
    return min(max(nearest, column.low), column.high)


def kept(rows: list[tuple[Any, ...]], unit: str, preparation: Preparation) -> list[tuple[Any, ...]]:
    """In the keyed order of docs/proofs/contribution-bounds.md."""
    derived = hmac.new(preparation.key, b"unit", "sha256").hexdigest()[:32]
    salt = int.from_bytes(hashlib.md5(f"{derived}:{unit}".encode()).digest()[8:], "little")
    seen: Counter[tuple[Any, ...]] = Counter()
    places = []
    for row in rows:
        seen[row] += 1
        record = ",".join([str(salt), str(seen[row]), *map(written, row)])
        places.append((int.from_bytes(hashlib.md5(record.encode()).digest(), "little"), row))
    ranked = [row for _, row in sorted(places, key=lambda place: place[0])]
    return ranked[: preparation.max_rows]


def written(field: Any) -> str:
    if field is None:
        return ""
    return hashlib.md5(field.encode()).hexdigest() if isinstance(field, str) else str(field)


def prepared(table: pa.Table, preparation: Preparation) -> Reference:
    """A reference that reads the rows of this snapshot."""
    people = defaultdict(list)
    for number_, row in enumerate(table.to_pylist()):
        unit = f"row {number_}" if preparation.unit is None else text(row[preparation.unit])
        people[unit].append(tuple(stored(column, row[column.name]) for column in preparation.columns))
    names = [column.name for column in preparation.columns]
    rows = [
        (unit, place, dict(zip(names, row, strict=True)))
        for unit, own in people.items()
        if unit
        for place, row in enumerate(kept(own, unit, preparation), 1)
    ]
    units, places, fields = ([row[i] for row in rows] for i in range(3))
    sizes = [(unit, len(own)) for unit, own in people.items() if unit]
    return Reference(lambda name: (units, places, fields), lambda name: sizes)


def told(found: Any) -> Any:
    """What an engine answers, as the reference says it."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, HistogramCounts):
        return found.triplets().tolist()
    numbers = zip(found.keys, found.units.tolist(), *found.sums.tolist(), strict=True)
    return {key: tuple(sums) for key, *sums in numbers}


# ---- random tables and programs ----------------------------------------------------------------------------

COLUMNS = (
    StoredGrid("cost", -40, 400, Fraction(1, 2**2)),
    StoredGrid("far", -(2**52), 2**53),
    StoredGrid("coarse", -3, 40, Fraction(2**5)),
    StoredCodes("ward", ("A", "B", "ä 'quoted'", "")),
    StoredCodes("grade", (0.5, 1.0, -2.0)),
    StoredCodes("again", (False, True)),
    StoredCodes("flag", ("true", "false")),
    StoredText("note"),
    StoredTime("day", -800, 30000, seconds=False),
)
NUMBERS = tuple(Column(0, each.name) for each in COLUMNS if not isinstance(each, StoredText))
SMALL = tuple(each for each in NUMBERS if each.name != "far")
NOTE, DAY, FAR = Column(0, "note"), Column(0, "day"), Column(0, "far")
WORDS = ("", "a", "A b_c", "50% \\ä", "日本", "a\nb")
DOMAINS = {column.name: len(column.values) for column in COLUMNS if isinstance(column, StoredCodes)}


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
            "note": some(*WORDS, None),
            "day": some(date(1967, 10, 24), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), None),
        }
    )


def random_value(draw: random.Random, depth: int = 2) -> Any:
    """An integer of a row, small enough that three of them can be multiplied."""
    if depth == 0 or draw.random() < 0.2:
        days = Calendar(DAY, draw.choice(["year", "month", "day", "weekday"]))
        text = draw.choice([NOTE, Folded(NOTE, True), Folded(NOTE, False)])
        constant = Constant(draw.choice([None, 0, 1, -7, 400, 2**20]))
        return draw.choice([*SMALL, constant, days, Length(text)])
    one, other = random_value(draw, depth - 1), random_value(draw, depth - 1)
    natural = [Greatest(each, Constant(0)) for each in (one, other)]
    entries = tuple(draw.choice([None, 0, -1, 2**62]) for _ in range(draw.choice([1, 3, 30])))
    return draw.choice(
        [
            Add(one, other),
            Multiply(one, draw.choice(SMALL)),
            Divide(natural[0], draw.choice([natural[1], Constant(7), Constant(2**70)])),
            Least(one, other, draw.random() < 0.5),
            Greatest(one, other, draw.random() < 0.5),
            Either(one, other),
            Lookup(draw.choice(SMALL), entries),
            Choose(random_predicate(draw, 1, 0), one, other),
        ]
    )


def random_leaf(draw: random.Random, depth: int) -> Any:
    part, other = draw.choice([*NUMBERS, random_value(draw, depth)]), random_value(draw, depth)
    codes = [draw.randint(0, 3) if draw.random() < 0.8 else draw.randint(-1, 300) for _ in range(40)]
    bound = draw.choice([0, 1, 2, 3, -41, 255, 256, 399, 2**31, 2**53, -(2**52), 10**30, -(10**30)])
    text = draw.choice([NOTE, Folded(NOTE, True), Folded(NOTE, False)])
    return draw.choice(
        [
            AtLeast(part, bound),
            AtMost(part, bound),
            Among(part, tuple(codes[: draw.choice([0, 1, 2, 3, 40])])),
            Less(part, other),
            Same(part, other),
            Same(text, NOTE),
            Spelled(text, tuple(draw.sample(WORDS, draw.randrange(3)))),
            Matches(text, draw.choice(["%", "", "a%", "%b\\_c", "_", "50\\%%\\\\_", "%本", "a_b"])),
            Missing(draw.choice([part, text])),
        ]
    )


def random_predicate(draw: random.Random, depth: int = 3, values: int = 1) -> Any:
    kind = draw.choice([Not, Every, Some, None, None, None]) if depth else None
    if kind is Not:
        return Not(random_predicate(draw, depth - 1, values))
    if kind in (Every, Some):
        return kind(tuple(random_predicate(draw, depth - 1, values) for _ in range(draw.randrange(4))))
    return random_leaf(draw, values)


def random_term(draw: random.Random) -> Any:
    part = draw.choice([*NUMBERS, random_value(draw)])
    centred = Add(part, Constant(draw.choice([5, -(2**53), 2**62])))
    return draw.choice(
        [
            Counted(),
            Present(part),
            Present(NOTE),
            Total(part),
            Total(centred),
            Total(random_value(draw)),
            CountedUnits(),
            CountedValues(draw.choice([part, NOTE])),
        ]
    )


def random_key(draw: random.Random) -> CellKey:
    name = draw.choice(list(DOMAINS))
    computed = CellKey(random_value(draw, 1), draw.choice([1, 5, 40]), draw.random() < 0.5)
    stored = Column(0, name)
    return draw.choice(
        [CellKey(stored, DOMAINS[name]), CellKey(stored, DOMAINS[name] + 1, nulls=True), computed]
    )


def random_program(draw: random.Random, snapshot: str = "t-1") -> Any:
    rows, where = Scan(snapshot), random_predicate(draw)
    keys = tuple(random_key(draw) for _ in range(draw.randrange(4)))
    terms = tuple(random_term(draw) for _ in range(draw.randint(1, 4)))
    free = (draw.choice([NOTE, Folded(NOTE, False)]), random_value(draw, 1))
    return draw.choice(
        [
            CellSums(rows, where, keys, terms),
            CellSums(rows, where, keys, terms),
            CellHistogram(rows, where, keys, random_value(draw), draw.choice([1, 300])),
            KeyedSums(rows, where, free[: draw.randint(1, 2)], terms, draw.choice([(), (0,), (0, 1)])),
            CellHistograms(
                rows, where, keys, (random_value(draw), random_value(draw)), draw.choice([1, 300])
            ),
        ]
    )


# ---- what is promised --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_what_the_reference_says(engine, seed):
    draw = random.Random(seed)
    table = random_table(draw, draw.choice([0, 1, 30, 400]) if seed else 400)
    preparation = Preparation(draw.choice(["who", "who", None]), draw.choice([1, 3, 20, 1000]), COLUMNS, KEY)
    engine.prepare(table, preparation, "t-1")
    rows = prepared(table, preparation)
    for program in [random_program(draw) for _ in range(40)]:
        assert told(engine.run(program)) == rows.run(program), program


def test_a_heavy_unit_keeps_exactly_the_rows_the_definition_names(engine):
    draw = random.Random(99)
    rows = 3000
    table = random_table(draw, rows).set_column(0, "who", pa.array(draw.choices("abc", [90, 9, 1], k=rows)))
    for max_rows in (1, 2, 40, 299, 2900):
        preparation = Preparation("who", max_rows, COLUMNS, KEY)
        engine.prepare(table, preparation, "t-1")
        keys = tuple(CellKey(Column(0, name), size) for name, size in DOMAINS.items())
        terms = (Counted(), Total(Add(Column(0, "cost"), Constant(-3))), Total(Column(0, "far")))
        program = CellSums(Scan("t-1"), ALL, keys, terms)
        assert engine.run(program).tolist() == prepared(table, preparation).run(program)


def test_the_key_decides_which_rows_are_kept(engine):
    table = pa.table({"who": ["x"] * 500, "cost": [float(i) for i in range(500)]})
    program = CellSums(Scan("t-1"), ALL, (), (Total(Column(0, "cost")),))
    sums = set()
    for key in (b"one", b"two", b"three"):
        engine.prepare(table, Preparation("who", 10, (StoredGrid("cost", 0, 500),), key), "t-1")
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
    expected = [prepared(table, preparation).run(program) for program in programs]
    for name, source in forms(table, tmp_path).items():
        engine.prepare(source, preparation, "t-1")
        assert [told(engine.run(program)) for program in programs] == expected, name


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
        answers.append([told(engine.run(program)) for program in programs])
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
    columns = (StoredGrid("cost", -(2**40), 2**40, Fraction(1, 2**30)), StoredCodes("ward", ("A", "B")))
    program = CellSums(
        Scan("t-1"),
        AtLeast(Column(0, "cost"), 0),
        (CellKey(Column(0, "ward"), 2),),
        (Counted(), Total(Add(Column(0, "cost"), Constant(-17))), Total(Lookup(Column(0, "ward"), (3, -5)))),
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
    columns = (StoredGrid("cost", -40, 400), StoredCodes("ward", ("A", "B")))
    engine.prepare(table, Preparation(None, 1, columns, KEY), "t-1")
    code = np.select([ward == "A", ward == "B"], [0, 1], -1)
    among = tuple(range(-40, 400, 7))
    there = ~missing
    for where, chosen in {
        AtLeast(Column(0, "cost"), 40): there & (cost >= 40),
        AtMost(Column(0, "cost"), -41): there & False,
        Not(AtLeast(Column(0, "cost"), 40)): there & (cost < 40),
        Among(Column(0, "cost"), (40,)): there & (cost == 40),
        Among(Column(0, "cost"), among): there & np.isin(cost, among),
        Not(Among(Column(0, "cost"), among)): there & ~np.isin(cost, among),
        Missing(Column(0, "cost")): missing,
        Not(Missing(Column(0, "cost"))): there,
        Some((Missing(Column(0, "cost")), AtMost(Column(0, "cost"), 0))): missing | (cost <= 0),
        Every((AtLeast(Column(0, "cost"), -40), Among(Column(0, "ward"), (1,)))): there & (code == 1),
    }.items():
        answer = engine.run(
            CellSums(
                Scan("t-1"),
                where,
                (CellKey(Column(0, "ward"), 2),),
                (Counted(), Total(Column(0, "cost")), Present(Column(0, "cost"))),
            )
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
    preparation = Preparation("who's", 1, tuple(StoredGrid(name, 0, 100) for name in names), KEY)
    snapshot = "../t/1 'x' é"
    engine.prepare(table, preparation, snapshot)
    terms = tuple(Total(Column(0, name)) for name in names)
    assert engine.run(CellSums(Scan(snapshot), ALL, (), terms)).tolist() == [[2 * i + 1] for i in range(8)]


def test_a_table_without_columns_can_be_counted(engine):
    table = pa.table({"who": [1, 1, 1, 2, None]})
    count = CellSums(Scan("t-1"), ALL, (), (Counted(),))
    engine.prepare(table, Preparation("who", 2, (), KEY), "t-1")
    assert engine.run(count).tolist() == [[3]]
    engine.prepare(table, Preparation(None, 1, (), KEY), "t-1")
    assert engine.run(count).tolist() == [[5]]


def test_a_value_listed_twice_does_not_double_a_row(engine):
    table = pa.table({"grade": [0.0, -0.0, 1.0]})
    engine.prepare(table, Preparation(None, 1, (StoredCodes("grade", (0.0, -0.0, 1.0)),), KEY), "t-1")
    assert engine.run(
        CellSums(Scan("t-1"), ALL, (CellKey(Column(0, "grade"), 3),), (Counted(),))
    ).tolist() == [[2, 0, 1]]


def test_long_lists_of_values_keep_their_codes(engine):
    size = 64_909
    places = list(range(size))
    random.Random(1).shuffle(places)
    table = pa.table({"word": [f"w{i}" for i in places], "number": [float(i) for i in places]})
    columns = (
        StoredCodes("word", tuple(f"w{i}" for i in range(size))),
        StoredCodes("number", tuple(map(float, range(size)))),
    )
    engine.prepare(table, Preparation(None, 1, columns, KEY), "t-1")
    weights = tuple(i * i - 2**31 for i in range(size))
    terms = (Total(Lookup(Column(0, "word"), weights)), Total(Column(0, "number")), Counted())
    per_word = engine.run(
        CellSums(
            Scan("t-1"),
            Among(Column(0, "number"), tuple(range(0, size, 2))),
            (CellKey(Column(0, "word"), size),),
            terms,
        )
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
    engine.prepare(table, Preparation(None, 1, (StoredGrid("far", -high, high),), KEY), "t-1")
    answer = engine.run(
        CellSums(
            Scan("t-1"),
            ALL,
            (),
            (Total(FAR), Total(Add(FAR, Constant(2**62))), Total(Add(FAR, Constant(-(2**62)))), Counted()),
        )
    )
    assert answer.dtype == object
    n, total = 3001, 3000 * high - 1
    assert answer.tolist() == [[total], [total + n * 2**62], [total - n * 2**62], [n]]


def test_products_are_rounded_down_before_they_are_summed(engine):
    table = pa.table({"x": pa.array([-3.0, 0.0, 2.0, 2.0**53, None])})
    engine.prepare(table, Preparation(None, 1, (StoredGrid("x", -(2**53), 2**53),), KEY), "t-1")
    x = Column(0, "x")
    square = Multiply(x, x)
    terms = (Total(square), Total(Divide(square, Constant(4))), Total(Divide(square, Constant(2**90))))
    assert engine.run(CellSums(Scan("t-1"), ALL, (), terms)).tolist() == [
        [9 + 4 + 2**106],
        [2 + 1 + 2**104],
        [2**16],
    ]


def test_outside_a_list_there_is_nothing(engine):
    table = pa.table({"x": pa.array([-2.0, -1.0, 0.0, 2.0, 3.0, 2.0**53, None])})
    engine.prepare(table, Preparation(None, 1, (StoredGrid("x", -(2**53), 2**53),), KEY), "t-1")
    listed = Lookup(Column(0, "x"), (10, None, 5))
    assert engine.run(CellSums(Scan("t-1"), ALL, (), (Total(listed), Present(listed)))).tolist() == [
        [15],
        [2],
    ]


def test_blocks_share_out_units_whatever_their_rows(engine):
    who = [i // 3 for i in range(3000)]
    table = pa.table({"who": who, "x": [1.0] * 3000})
    engine.prepare(table, Preparation("who", 3, (StoredGrid("x", 0, 1),), KEY), "t-1")
    rows, units = engine.run(
        CellSums(Scan("t-1"), ALL, (CellKey(UnitBlock(0, 10), 10),), (Counted(), CountedUnits()))
    ).tolist()
    assert (sum(rows), sum(units)) == (3000, 1000)
    assert rows == [3 * each for each in units]
    assert min(units) > 50  # 100 each on average, with a deviation below 10


def test_units_are_counted_once_in_each_cell(engine):
    table = pa.table({"who": [1, 1, 1, 2, 2, 3, None], "ward": list("AABABCA")})
    program = CellSums(Scan("t-1"), ALL, (CellKey(Column(0, "ward"), 3),), (CountedUnits(), Counted()))
    engine.prepare(table, Preparation("who", 9, (StoredCodes("ward", ("A", "B", "C")),), KEY), "t-1")
    assert engine.run(program).tolist() == [[2, 2, 1], [3, 2, 1]]
    assert engine.run(CellSums(Scan("t-1"), ALL, (), (CountedUnits(),))).tolist() == [[3]]


def test_without_a_unit_column_units_are_rows(engine):
    table = pa.table({"ward": list("AABABCA")})
    engine.prepare(table, Preparation(None, 1, (StoredCodes("ward", ("A", "B", "C")),), KEY), "t-1")
    counted = engine.run(
        CellSums(Scan("t-1"), ALL, (CellKey(Column(0, "ward"), 3),), (CountedUnits(), Counted()))
    )
    assert counted.tolist() == [[4, 2, 1], [4, 2, 1]]


def test_pandas_whole_numbers_stay_the_same_person_beside_a_missing_one(engine):
    columns = (StoredGrid("cost", 0, 100),)
    program = CellSums(Scan("t-1"), ALL, (), (Counted(), Total(Column(0, "cost"))))
    answers = []
    for who in (pd.Series([7, 7, 7, 8]), pd.Series([7, 7, 7, 8, None]), pd.Series([7, "7", 7.0, 8])):
        frame = pd.DataFrame({"who": who, "cost": range(1, len(who) + 1)})
        engine.prepare(frame, Preparation("who", 2, columns, KEY), "t-1")
        answers.append(engine.run(program).tolist())
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == [3]


def test_an_erased_snapshot_answers_nothing(engine):
    engine.prepare(pa.table({"x": [1]}), Preparation(None, 1, (StoredGrid("x", 0, 1),), KEY), "t-1")
    program = CellSums(Scan("t-1"), ALL, (), (Counted(),))
    assert engine.run(program).tolist() == [[1]]
    engine.erase("t-1")
    engine.erase("t-1")
    with pytest.raises(EngineError, match="SF-C221"):
        engine.run(program)


def test_a_snapshot_made_again_is_seen(engine):
    program = CellSums(Scan("t-1"), ALL, (), (Counted(),))
    for rows in (1, 5):
        engine.prepare(
            pa.table({"x": [1] * rows}), Preparation(None, 1, (StoredGrid("x", 0, 1),), KEY), "t-1"
        )
        assert engine.run(program).tolist() == [[rows]]
