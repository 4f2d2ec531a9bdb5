"""Random tables about the same people, public ones to join them with, and their neighbours, ready for use.

Units have 1 to 1,000 rows; identifiers are missing, numbers are NaN, infinite, outside their bounds or not
there, dates lie at the edges, texts are not ASCII. Some units have all their rows at one corner of the
bounds, or at a corner in every group, so that bounds which nothing comes near are noticed.
"""

from __future__ import annotations

import math
import random
import shutil
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

import sfumato as sf
from sfumato.curator.catalog.catalog import Table, declare_table
from sfumato.curator.catalog.columns import (
    DateColumn,
    DeclaredColumn,
    ListedColumn,
    NumberColumn,
    TextColumn,
    text,
)
from sfumato.curator.catalog.public_facts import count_public_facts
from sfumato.curator.plan.plan import QuestionPlan, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.curator.question.measurement import Question

KEY = b"a key of the lab"
SPEND = PureSpend(Fraction(1), Fraction(1, 10**6))
REMOVALS = 20
SIZES = (1000, 300, *[40] * 8, *[10] * 6, *[3] * 4, 2, 2, 1, 1)
WORDS = ("", "pain", "PAIN a_b", "50% ä\\", "日本語", "ß", "x" * 1200)

VISITS: dict[str, DeclaredColumn] = {
    "cost": sf.between(0, 5000),
    "gain": sf.between(-7.5, 2.25, step=0.125),
    "stay": sf.between(-1, 60, step=1),
    "tip": sf.between(0, 50, step=0.25, missing=0),
    "ward": sf.one_of("A", "B", "C"),
    "flag": sf.one_of(0, 1, missing=0),
    "score": sf.one_of(-2, 0.5, 3),
    "ok": sf.one_of(True, False),
    "day": sf.between(date(2019, 12, 28), date(2021, 3, 2)),
    "seen": sf.between(datetime(1969, 12, 31, 22), datetime(1970, 1, 3, 5, 6, 7)),
    "note": text(),
    "sex": sf.one_of("f", "m", constant=True),
    "born": sf.between(1900, 2020, step=1, constant=True),
}
STAYS: dict[str, DeclaredColumn] = {
    "nights": sf.between(0, 30, step=1),
    "ward": sf.one_of("B", "C", "D"),
    "bill": sf.between(-100, 100),
    "since": sf.between(date(2020, 1, 1), date(2020, 12, 31), missing=date(2020, 7, 1)),
}
WARDS: dict[str, DeclaredColumn] = {
    "ward": sf.one_of("A", "B", "C"),
    "region": sf.one_of("N", "S"),
    "beds": sf.between(0, 500, step=1),
}
SURVEY: dict[str, DeclaredColumn] = {
    "cost": sf.between(0, 5000),
    "stay": sf.between(-1, 60, step=1),
    "ward": sf.one_of("A", "B", "C"),
    "flag": sf.one_of(0, 1),
    "ok": sf.one_of(True, False, missing=False),
    "note": text(),
}


# ---- values ------------------------------------------------------------------------------------------------


def _odd(draw: random.Random, promise: DeclaredColumn) -> Any:
    """Any value that a source may hold."""
    match promise:
        case NumberColumn(low, high):
            inside = draw.uniform(float(low), float(high))
            return draw.choice([*[inside] * 6, round(inside), *_outside(promise), math.nan, None, -0.0])
        case DateColumn(low, high):
            span = (high - low) / timedelta(seconds=1)
            return draw.choice([low, high, None, *[low + timedelta(seconds=int(draw.uniform(0, span)))] * 6])
        case ListedColumn(values):
            return draw.choice([*values, *values, None, *(["other"] if isinstance(values[0], str) else [])])
        case TextColumn():
            return draw.choice([*WORDS, None])


def _outside(promise: NumberColumn) -> list[float]:
    low, high = float(promise.low), float(promise.high)
    return [low, high, low - 1, high + 1, 1e308, -1e308, math.inf, -math.inf]


def _corner(draw: random.Random, promise: DeclaredColumn) -> Any:
    """A value at one end; of a list mostly the first, where public tables have most rows."""
    match promise:
        case NumberColumn():
            return draw.choice(_outside(promise))
        case DateColumn(low, high):
            return draw.choice([low, high])
        case ListedColumn(values):
            return draw.choice([values[0], *values])
        case TextColumn():
            return draw.choice(WORDS)


def _opposite(promise: DeclaredColumn, value: Any) -> Any:
    """The other end, or the next value of a list."""
    match promise:
        case NumberColumn(low, high):
            return float(high) if value < 0 or value == float(low) else float(low)
        case DateColumn(low, high):
            return high if value == low else low
        case ListedColumn(values):
            return values[(values.index(value) + 1) % len(values)]
        case TextColumn():
            return "other"


def _unit_rows(draw: random.Random, columns: Mapping[str, DeclaredColumn], size: int) -> list[dict[str, Any]]:
    """Of one unit: varied, all the same at a corner, or at a corner in every group."""
    style = draw.choice(["varied", "corner", "corner", "spread"])
    corner = {name: _corner(draw, promise) for name, promise in columns.items()}
    if style == "corner":
        return [corner] * size
    if style == "varied":
        return [{name: _odd(draw, promise) for name, promise in columns.items()} for _ in range(size)]
    keys = {name: promise for name, promise in columns.items() if not isinstance(promise, NumberColumn)}
    return [corner | {name: _corner(draw, promise) for name, promise in keys.items()} for _ in range(size)]


# ---- sources -----------------------------------------------------------------------------------------------


def _arrow(rows: list[dict[str, Any]], columns: Mapping[str, DeclaredColumn]) -> pa.Table:
    arrays = {name: pa.array([row[name] for row in rows], _type(p)) for name, p in columns.items()}
    if rows and "who" in rows[0]:
        arrays["who"] = pa.array([row["who"] for row in rows], pa.int64())
    return pa.table(arrays)


def _type(promise: DeclaredColumn) -> pa.DataType:
    match promise:
        case NumberColumn():
            return pa.float64()
        case DateColumn():
            return pa.timestamp("us") if promise.unit == "second" else pa.date32()
        case ListedColumn(values):
            kinds = {str: pa.string(), bool: pa.bool_()}
            return kinds.get(type(values[0]), pa.float64())
        case TextColumn():
            return pa.string()


def _numbers(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


def _rows(
    draw: random.Random, columns: Mapping[str, DeclaredColumn], sizes: tuple[int, ...]
) -> list[dict[str, Any]]:
    rows = [
        {name: _numbers(value) for name, value in row.items()} | {"who": who}
        for who, size in enumerate([*sizes, 2])
        for row in _unit_rows(draw, columns, size)
    ]
    nobody = len(sizes)
    return [row | {"who": None if row["who"] == nobody else row["who"]} for row in rows]


def _public(draw: random.Random, name: str, most: int) -> tuple[Table, pa.Table]:
    """Wards, the first of which stands there `most` times, another not at all."""
    wards = [*["A"] * most, "B", None]
    rows = [{n: _numbers(_corner(draw, p)) for n, p in WARDS.items()} | {"ward": ward} for ward in wards]
    for row in rows:
        row["beds"] = min(max(row["beds"], 0.0), 500.0)
    return Table(name, PUBLIC, WARDS), _arrow(rows, WARDS)


# ---- worlds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Tables with their snapshots, and for each population the same with one unit less, or another one."""

    folder: Path
    tables: dict[str, Table]
    neighbours: dict[str, list[DuckDBEngine]]

    @cached_property
    def engine(self) -> DuckDBEngine:
        return DuckDBEngine(self.folder / "whole", threads=1)

    def plan(self, question: Question) -> QuestionPlan:
        return price_question(ResolvedQuestion(self.tables.__getitem__, question), SPEND)

    def decoded(self) -> duckdb.DuckDBPyConnection:
        """The bounded data as ordinary numbers, dates and texts, for anyone's SQL."""
        connection = duckdb.connect(config={"threads": "1", "ieee_floating_point_ops": "false"})
        connection.execute("SET error_on_division_by_zero = false")
        for name, table in self.tables.items():
            connection.register(f"{name}_arrow", _decoded(self.folder / "whole", table))
            connection.execute(f"CREATE TABLE {name} AS FROM {name}_arrow")
        return connection


def make(folder: Path, seed: int, *, neighbours: bool = True) -> World:
    draw = random.Random(seed)
    tables, sources = _people(draw)
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder, tables, {})
    for name, table in tables.items():
        world.engine.prepare(sources[name], table.make_preparation(KEY), table.snapshot_name)
        if table.is_public:
            tables[name] = count_public_facts(world.engine, table)
    if neighbours:
        world.neighbours["people"] = _without(world, sources, draw)
        world.neighbours["survey"] = _changed(world, "survey", sources["survey"], draw)
        world.neighbours["census"] = _changed(world, "census", sources["census"], draw)
    return world


def _people(draw: random.Random) -> tuple[dict[str, Table], dict[str, pa.Table]]:
    visits = declare_table("visits", sf.Unit("who", draw.choice([1, 3, 8, 20]), of="people"), VISITS)
    stays = declare_table("stays", sf.Unit("who", draw.choice([1, 2, 4]), of="people"), STAYS)
    survey, census = (declare_table(name, sf.ROW, SURVEY) for name in ("survey", "census"))
    few = tuple(min(size, 40) for size in SIZES[:-3])
    sources = {
        "visits": _arrow(_rows(draw, VISITS, SIZES), VISITS),
        "stays": _arrow(_rows(draw, STAYS, few), STAYS),
        **{name: _arrow(_surveyed(draw), SURVEY) for name in ("survey", "census")},
    }
    everyone = sources["census"].num_rows
    census = replace(census, neighbours=Neighbours.REPLACE_ONE, public_rows=everyone)
    tables = {table.name: table for table in (visits, stays, survey, census)}
    for name, most in (("wards", 1), ("offers", 3)):
        tables[name], sources[name] = _public(draw, name, most)
    return tables, sources


def _surveyed(draw: random.Random) -> list[dict[str, Any]]:
    """The first rows are at corners, and are the ones that change."""
    rows = [{n: _corner(draw, p) for n, p in SURVEY.items()} for _ in range(REMOVALS)]
    rows += [{n: _odd(draw, p) for n, p in SURVEY.items()} for _ in range(40)]
    return [{name: _numbers(value) for name, value in row.items()} for row in rows]


def _without(world: World, sources: Mapping[str, pa.Table], draw: random.Random) -> list[DuckDBEngine]:
    """Everything again, each time without one unit, in all tables of its people."""
    engines = []
    for gone in [0, 1, *draw.sample(range(2, len(SIZES)), REMOVALS - 2)]:
        engine = _copy(world, f"without{gone}")
        for name in ("visits", "stays"):
            kept = [who != gone for who in sources[name]["who"].to_pylist()]
            table = world.tables[name]
            engine.prepare(
                sources[name].filter(pa.array(kept)), table.make_preparation(KEY), table.snapshot_name
            )
        engines.append(engine)
    return engines


def _changed(world: World, name: str, source: pa.Table, draw: random.Random) -> list[DuckDBEngine]:
    """One row taken out, or where neighbours replace a row, one at the other end of everything."""
    engines, table = [], world.tables[name]
    for place in range(REMOVALS):
        engine, rows = _copy(world, f"{name}{place}"), source.to_pylist()
        if table.neighbours is Neighbours.REPLACE_ONE:
            rows[place] = {n: _numbers(_opposite(p, rows[place][n])) for n, p in SURVEY.items()}
            rows[place] |= {n: _numbers(_odd(draw, SURVEY[n])) for n in draw.sample(list(SURVEY), place % 3)}
        else:
            del rows[place]
        engine.prepare(_arrow(rows, SURVEY), table.make_preparation(KEY), table.snapshot_name)
        engines.append(engine)
    return engines


def _copy(world: World, name: str) -> DuckDBEngine:
    """Another engine that has the public tables already."""
    engine = DuckDBEngine(world.folder / name, threads=1)
    engine.folder.mkdir()
    for table in world.tables.values():
        if table.is_public:
            file = f"{table.snapshot_name}.duckdb"
            shutil.copy(world.engine.folder / file, engine.folder / file)
    return engine


# ---- reading snapshots -------------------------------------------------------------------------------------


def stored(folder: Path, table: Table) -> tuple[list[Any], list[int], list[dict[str, Any]]]:
    """Of each row of a snapshot: whose it is, its place, and its columns by their declared names."""
    path = folder / f"{table.snapshot_name}.duckdb"
    with duckdb.connect(str(path), read_only=True) as connection:
        names = dict(connection.execute("SELECT declared, stored FROM columns").fetchall())
        units = table.unit.column is not None
        whose = "person" if units else "unit"
        place = "place" if table.unit.max_rows > 1 else "1"
        joined = " JOIN units USING (unit)" if units else ""
        chosen = ", ".join([f"CAST({whose} AS VARCHAR)", place, *(names[name] for name in table.columns)])
        found = connection.execute(f"SELECT {chosen} FROM rows{joined}").fetchall()
    rows = [dict(zip(table.columns, fields, strict=True)) for _, _, *fields in found]
    return [row[0] for row in found], [row[1] for row in found], rows


def sizes(folder: Path, table: Table) -> list[tuple[str, int]]:
    """How many rows the source had of each person."""
    with duckdb.connect(str(folder / f"{table.snapshot_name}.duckdb"), read_only=True) as connection:
        return connection.execute("SELECT CAST(person AS VARCHAR), rows FROM units").fetchall()


def _decoded(folder: Path, table: Table) -> pa.Table:
    who, _, rows = stored(folder, table)
    arrays = {
        name: pa.array([decoded(promise, row[name]) for row in rows], _type(promise))
        for name, promise in table.columns.items()
    }
    whose = {} if table.unit.column is None else {"who": pa.array(who, pa.string())}
    return pa.table({**whose, **arrays})


def decoded(promise: DeclaredColumn, stored: Any) -> Any:
    if stored is None or isinstance(stored, str):
        return stored
    match promise:
        case NumberColumn():
            return float(stored * promise.step)
        case DateColumn():
            return _moment(stored, promise.unit)
        case ListedColumn(values):
            return _numbers(values[stored])


def _moment(place: int, unit: str) -> date:
    if unit == "second":
        return datetime(1970, 1, 1) + timedelta(seconds=place)
    return date(1970, 1, 1) + timedelta(days=place)
