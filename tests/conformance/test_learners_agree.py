"""What learners ask for is the same integers on every engine: products, cells, layers of shortened rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.both_engines import Both
from conformance.test_engines_agree import KEY
from conformance.with_spark import Beside
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.lowered_value import LoweredValue, coarsen_grid, require_number
from sfumato.engines.program import CellHistograms, CellSums, Counted, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.learn.cells import clip_value, locate_bin, locate_nearest, locate_orthant
from sfumato.oracle.arrays.integer_rows import ONE, RowTransform
from sfumato.oracle.blocks import Add, CellKey, Column, Constant, Either, Lookup, Multiply
from sfumato.oracle.declared import Declared, Feature
from sfumato.oracle.moments import build_cross_block, build_gram_block
from sfumato.oracle.table_features import centre_features, clip_source_rows

A, B, Y = (Column(0, name) for name in "aby")
C = Column(0, "c")


def centred(column: Column, low: int, high: int) -> Feature:
    """As the catalog's columns become features."""
    part, domain = require_number(
        coarsen_grid(LoweredValue(column, Numbers(low, high)), Numbers(low, high), 8), "it"
    )
    value = Add(Multiply(part.value, Constant(2)), Constant(-(domain.low + domain.high)))
    return Feature(column.name, Either(value, Constant(0)), domain.high - domain.low, 0.0, 1.0)


FEATURES = (centred(A, -(2**20), 2**20), centred(B, -(2**19), 2**20))
TARGET = centred(Y, 0, 2**20)
DECLARED = Declared(FEATURES, TARGET, {A: (-(2**20), 2**20), B: (-(2**19), 2**20), Y: (0, 2**20)})
PLAIN = [
    *build_gram_block(FEATURES, None, Fraction(1)).terms,
    *build_cross_block(FEATURES, TARGET, None, Fraction(1)).terms,
    locate_orthant(FEATURES, [0.1, -0.2]),
    locate_bin(FEATURES[0].value, [-900, 0, 17, 800]),
    clip_value(FEATURES[1].value, 300),
    Lookup(C, (5, -7, 11)),
]
CENTRES = np.array([[-0.5, 0.1], [0.6, 0.6], [0.0, -0.7]])
PROGRAMS: dict[str, CellSums | CellHistograms] = {
    "plain": CellSums(Scan("t"), ALL, (), (Counted(), *map(Total, PLAIN))),
    "cells": CellSums(
        Scan("t"),
        ALL,
        (CellKey(locate_nearest(FEATURES, CENTRES), 3), CellKey(C, 3)),
        (Counted(), *map(Total, PLAIN[:3])),
    ),
}


@dataclass(frozen=True)
class Rows:
    """What layers need of a source."""

    rows: Any
    next_at: int


def shortened() -> CellSums:
    """Rows around a point, with a constant and a target that go with them."""
    view = RowTransform(0.4, centre=(0.1, -0.3), one=0.3, target_centre=0.2, target_reach=0.5)
    source: Any = Rows(Scan("t"), 1)
    rows, declared = clip_source_rows(source, centre_features(DECLARED, view), view.length, view.target_reach)
    target: Any = declared.target
    vector: Any = [declared.one, *declared.features]
    terms = [
        *build_gram_block(vector, declared.norm, Fraction(1)).terms,
        *build_cross_block(vector, target, 1, Fraction(1)).terms,
    ]
    return CellSums(rows.rows, ALL, (), tuple(map(Total, terms)))


PROGRAMS["shortened"] = shortened()
PROGRAMS["tallies"] = CellHistograms(
    Scan("t"), ALL, (CellKey(C, 3),), tuple(Add(each.value, Constant(each.bound)) for each in FEATURES), 8193
)


def table() -> pa.Table:
    rng = np.random.default_rng(8)
    numbers = {
        name: pa.array(rng.uniform(-1.2, 1.2, 400), mask=rng.random(400) < 0.05) for name in ("a", "b", "y")
    }
    return pa.table({**numbers, "c": rng.integers(0, 4, 400)})


def prepared() -> Preparation:
    grids = (
        StoredGrid("a", -(2**20), 2**20, Fraction(1, 2**20)),
        StoredGrid("b", -(2**19), 2**20, Fraction(1, 2**20)),
        StoredGrid("y", 0, 2**20, Fraction(1, 2**20)),
        StoredCodes("c", (0.0, 1.0, 2.0)),
    )
    return Preparation(None, 1, grids, KEY)


@pytest.mark.parametrize("name", PROGRAMS)
def test_postgres_sums_the_same(tmp_path: Path, postgres: str, name: str) -> None:
    both = Both.at(tmp_path, postgres)
    both.prepare(table(), prepared(), "t")
    duck, other = both.run(PROGRAMS[name])
    assert np.array_equal(duck, other)
    assert np.any(np.asarray(duck) != 0)


def test_spark_sums_the_same(tmp_path: Path, spark: Any) -> None:
    beside = Beside.at(tmp_path, spark)
    beside.prepare(table(), prepared(), "t")
    for program in PROGRAMS.values():
        duck, other = beside.run(program)
        assert np.array_equal(duck, other)


def test_shortened_rows_are_no_longer_than_their_norm(tmp_path: Path, postgres: str) -> None:
    """The squares of one row, summed, are at most those of the norm."""
    both = Both.at(tmp_path, postgres)
    norm = int(0.4 * ONE)
    for place in range(12):
        both.duck.prepare(table().slice(place, 1), prepared(), f"one{place}")
        program = shortened()
        found = both.duck.run(_of(program, f"one{place}"))[:, 0]
        assert (int(found[0]) + int(found[3]) + int(found[5])) // 5 <= norm**2


def _of(program: Any, snapshot: str) -> Any:
    """The same program about another snapshot."""
    if isinstance(program, Scan):
        return replace(program, snapshot=snapshot)
    return replace(program, rows=_of(program.rows, snapshot))
