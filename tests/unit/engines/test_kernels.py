"""NumPy computes the integers that SQL gives: random values with missing numbers, products, cells, layers."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine, batches, run
from sfumato.engines.kernels import held_rows, long_programs
from sfumato.engines.program import CellKey, CellSums, Counted, Total
from sfumato.engines.rows import ALL, Bounded, Computed, Rows, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Predicate,
    Same,
    Some,
    Value,
)
from sfumato.learn.cells import clip_value, locate_nearest
from sfumato.oracle.declared import Feature

NAMES = ("a", "b", "c", "wide")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    draw = np.random.default_rng(3)
    rows = 700
    holes = draw.random((3, rows)) < 0.2
    source = pa.table(
        {
            "who": draw.integers(0, 250, rows),
            "a": np.where(holes[0], np.nan, draw.integers(-40, 41, rows)),
            "b": np.where(holes[1], np.nan, draw.integers(0, 7, rows)),
            "c": pa.array([None if hole else "xyz"[at % 3] for at, hole in enumerate(holes[2])]),
            "wide": draw.integers(-(2**33), 2**33, rows).astype(float),
        }
    )
    columns = (
        StoredGrid("a", -40, 40),
        StoredGrid("b", 0, 6),
        StoredCodes("c", ("x", "y", "z")),
        StoredGrid("wide", -(2**33), 2**33),
    )
    found = DuckDBEngine(tmp_path_factory.mktemp("lab"))
    found.prepare(source, Preparation("who", 5, columns, b"k"), "t")
    found.prepare(source.slice(0, 0), Preparation("who", 5, columns, b"k"), "empty")
    return found


class Writer:
    """Draws values and conditions that use earlier ones again, as learners do."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.values: list[Value] = [Column(0, name) for name in NAMES]

    def value(self, depth: int = 3) -> Value:
        pick = self.draw.random()
        if depth == 0 or pick < 0.25:
            return self.draw.choice(self.values)
        if pick < 0.35:
            return Constant(self.draw.choice([None, 0, 1, -1, 3, 16, -(2**12), 2**18]))
        found = self._of_parts(depth - 1)
        self.values.append(found)
        return found

    def _of_parts(self, depth: int) -> Value:
        kind = self.draw.choice([Add, Multiply, Least, Greatest, Either, Divide, Lookup, Choose, "sum"])
        if kind is Lookup:
            return Lookup(self.value(depth), self.draw.choice([(5, None, -7), (), tuple(range(40))]))
        if kind is Choose:
            return Choose(self.condition(depth), self.value(depth), self.value(depth))
        if kind is Divide:
            # Neither side of a division is negative.
            return Divide(Greatest(self.value(depth), Constant(0)), self.draw.choice(
                [Constant(4), Constant(7), Constant(0), Greatest(self.value(depth), Constant(0))]
            ))  # fmt: skip
        if kind == "sum":
            found: Value = Constant(self.draw.randint(-9, 9))
            for name in (*NAMES, "a", "b"):
                found = Add(found, Multiply(Column(0, name), Constant(self.draw.randint(-9, 9))))
            return found
        if kind in (Least, Greatest):
            return kind(self.value(depth), self.value(depth), self.draw.random() < 0.6)  # type: ignore[operator,no-any-return]
        return kind(self.value(depth), self.value(depth))  # type: ignore[operator,no-any-return]

    def condition(self, depth: int) -> Predicate:
        kind = self.draw.choice([AtLeast, AtMost, Among, Less, Same, Missing, Not, Every, Some])
        if kind in (AtLeast, AtMost):
            return kind(self.value(depth), self.draw.choice([-5, 0, 2, 2**50]))  # type: ignore[no-any-return]
        if kind is Among:
            return Among(self.value(depth), self.draw.choice([(2,), (0, 1, 5), ()]))
        if kind in (Less, Same):
            return kind(self.value(depth), self.value(depth))  # type: ignore[no-any-return]
        if kind is Missing:
            return Missing(self.value(depth))
        if depth == 0:
            return AtLeast(self.value(0), 1)
        parts = tuple(self.condition(depth - 1) for _ in range(self.draw.randint(0, 3)))
        return Not(self.condition(depth - 1)) if kind is Not else kind(parts)  # type: ignore[no-any-return]


def program(seed: int, snapshot: str) -> CellSums:
    writer = Writer(seed)
    rows: Rows = Scan(snapshot)
    if writer.draw.random() < 0.3:
        rows = Bounded(rows, AtLeast(Column(0, "a"), -30), (), 1, 2)
    for layer in range(1, 1 + writer.draw.randint(0, 2)):
        rows = Computed(rows, tuple(writer.value(2) for _ in range(2)), layer)
        writer.values += [Column(layer, "v0"), Column(layer, "v1")]
    keys: tuple[CellKey, ...] = ()
    if writer.draw.random() < 0.5:
        one, other = (writer.draw.random() < 0.5 for _ in range(2))
        keys = (CellKey(Column(0, "c"), 3 + one, one), CellKey(writer.value(2), 4 + other, other))
    term, by = writer.value(), writer.value(2)
    split = [Total(Choose(Every((Among(by, (at,)),)), term, Constant(0))) for at in range(3)]
    squares = [Total(Add(Multiply(each, each), Constant(-3))) for each in (writer.value(1), Column(0, "a"))]
    others = [Total(writer.value()) for _ in range(4)]
    where: Predicate = ALL if writer.draw.random() < 0.5 else AtMost(Column(0, "b"), 4)
    return CellSums(rows, where, keys, (Counted(), *split, *squares, *others))


class NoKernelError(Exception):
    """A program that only SQL computes."""


def refuse(*given: Any) -> str:
    raise NoKernelError


def ask(engine: DuckDBEngine, asked: CellSums, monkeypatch: pytest.MonkeyPatch, *, by_sql: bool) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(long_programs, "_LONG", 10**9 if by_sql else 0)
        if not by_sql:
            patched.setattr(run, "compile_program", refuse)
        return [list(map(int, row)) for row in np.asarray(engine.run(asked)).tolist()]


@pytest.mark.parametrize(("snapshot", "seeds"), [("t", 40), ("empty", 10)])
def test_numpy_and_sql_give_the_same_integers(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch, snapshot: str, seeds: int
) -> None:
    compared = 0
    for seed in range(seeds):
        asked = program(seed, snapshot)
        with suppress(NoKernelError):
            mine = ask(engine, asked, monkeypatch, by_sql=False)
            assert mine == ask(engine, asked, monkeypatch, by_sql=True), (seed, asked)
            compared += 1
    assert compared > seeds // 4


def nearest(features: int) -> CellSums:
    """A round of k-means: the cell of the nearest centre is part of every sum."""
    values = [Add(Multiply(Column(0, "ab"[at % 2]), Constant(2)), Constant(-at)) for at in range(features)]
    points = np.random.default_rng(0).uniform(-1, 1, size=(8, features))
    named = [Feature(str(at), value, 100, 0.0, 1.0) for at, value in enumerate(values)]
    cell = locate_nearest(named, points)
    shifts = tuple(range(8))
    sums = [Total(clip_value(Add(value, Lookup(cell, shifts)), 30)) for value in values]
    return CellSums(Scan("t"), ALL, (CellKey(cell, 8),), (Counted(), *sums))


def test_the_sql_of_a_round_does_not_grow_with_its_features(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    compiled = batches.compile_columns
    monkeypatch.setattr(
        batches, "compile_columns", lambda *given: (asked.append(compiled(*given)), asked[-1])[1]
    )
    few, many = (np.asarray(engine.run(nearest(features))) for features in (5, 20))
    assert (few.shape, many.shape) == ((6, 8), (21, 8))
    assert few[0].sum() == many[0].sum() > 0
    assert len(asked) == 2
    assert asked[0] == asked[1]


# ---- rows that a fit holds ----


def boosted(rounds: int) -> list[CellSums]:
    """Programs of which each adds a computed column to those of the one before it."""
    rows: Rows = Scan("t")
    score: Value = Constant(0)
    found = []
    for at in range(1, 1 + rounds):
        leaf = Choose(AtLeast(Column(0, "ab"[at % 2]), at), Constant(1), Constant(0))
        moved = Add(Either(score, Constant(-9)), Lookup(leaf, (at, -2 * at)))
        rows = Computed(rows, (Least(moved, Column(0, "b")), Add(moved, Constant(1))), at)
        score = Column(at, "v0")
        squares = [Total(Multiply(score, Column(0, name))) for name in "ab"]
        found.append(CellSums(rows, ALL, (CellKey(leaf, 2),), (Counted(), Total(score), *squares)))
    return found


def sums(engine: DuckDBEngine, asked: CellSums) -> list[list[int]]:
    found: list[list[int]] = np.asarray(engine.run(asked)).tolist()
    return found


def test_rounds_that_hold_rows_have_the_same_sums(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, read = boosted(4), []
    expected = [ask(engine, each, monkeypatch, by_sql=True) for each in programs]
    compiled = batches.compile_columns
    monkeypatch.setattr(batches, "compile_columns", lambda *given: (read.append(1), compiled(*given))[1])
    monkeypatch.setattr(long_programs, "_LONG", 0)
    with held_rows.hold_rows():
        assert [sums(engine, each) for each in programs] == expected
        # `b` and `a` are read with the first two; from then on nothing is.
        assert len(read) <= 2
        held = held_rows.current_held_rows()
        assert 0 < len(held.computed) <= 4
        # Other rows, a column more, and the same again.
        assert sums(engine, program(1, "empty")) == ask(engine, program(1, "empty"), monkeypatch, by_sql=True)
        assert [sums(engine, each) for each in reversed(programs)] == expected[::-1]
    assert held_rows.current_held_rows().computed == {}


def test_rows_that_are_too_many_are_read_in_every_round(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = boosted(3)
    expected = [ask(engine, each, monkeypatch, by_sql=True) for each in programs]
    monkeypatch.setattr(long_programs, "_LONG", 0)
    monkeypatch.setattr(held_rows.HeldRows.__init__, "__defaults__", (100,))
    with held_rows.hold_rows():
        assert [sums(engine, each) for each in programs] == expected
        assert held_rows.current_held_rows().computed == {}
