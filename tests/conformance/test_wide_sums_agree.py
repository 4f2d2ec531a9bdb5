"""Many sums over many columns are the same integers on Spark, which is asked for them in parts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.test_engines_agree import KEY
from conformance.test_learners_agree import Rows, centred
from conformance.with_spark import Beside
from sfumato.engines.program import CellSums, Counted, Present, Total
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.engines.spark.run import MOST_TERMS, split_sums
from sfumato.oracle.arrays.integer_rows import RowTransform
from sfumato.oracle.blocks import CellKey, Column, Constant, Multiply
from sfumato.oracle.declared import Declared
from sfumato.oracle.moments import build_cross_block, build_gram_block, build_sum_block
from sfumato.oracle.table_features import centre_features, clip_source_rows

ROWS, REACH = 3000, 2**20
NAMES = [f"x{at}" for at in range(20)]
COLUMNS = [Column(0, name) for name in NAMES]
FEATURES = tuple(centred(column, -REACH, REACH) for column in COLUMNS)
SIDE = Column(0, "side")
WHOLE = (-REACH, REACH)


def principal(columns: int = 8) -> CellSums:
    """What principal components are computed from."""
    some = FEATURES[:columns]
    terms = [
        *build_sum_block(some, None, Fraction(1)).terms,
        *build_gram_block(some, None, Fraction(1)).terms,
    ]
    return CellSums(Scan("t"), ALL, (), (Counted(), *map(Total, terms)))


def bayes() -> CellSums:
    """What naive Bayes is computed from, for each class."""
    squares = [Multiply(each.value, each.value) for each in FEATURES]
    terms = [each for pair in zip(FEATURES, squares, strict=True) for each in (pair[0].value, pair[1])]
    return CellSums(Scan("t"), ALL, (CellKey(SIDE, 2),), (Counted(), *map(Total, terms)))


def every_width() -> CellSums:
    """Sums of one limb, of two, of three, and of what 64 bits do not hold."""
    values = [Multiply(COLUMNS[0], Constant(2**bits)) for bits in range(0, 99, 3)]
    return CellSums(Scan("t"), ALL, (), tuple(term(each) for each in values for term in (Total, Present)))


def regression() -> CellSums:
    """What linear regression is computed from: rows shortened, with their target."""
    target = centred(Column(0, "y"), -REACH, REACH)
    spans = dict.fromkeys([*COLUMNS, Column(0, "y")], WHOLE)
    view = RowTransform(1.5, centre=(0.1,) * 20, one=0.3, target_centre=0.2, target_reach=0.5)
    source: Any = Rows(Scan("t"), 1)
    rows, declared = clip_source_rows(
        source, centre_features(Declared(FEATURES, target, spans), view), view.length, view.target_reach
    )
    vector: Any = [declared.one, *declared.features]
    goal: Any = declared.target
    terms = [
        *build_gram_block(vector, declared.norm, Fraction(1)).terms,
        *build_cross_block(vector, goal, 1, Fraction(1)).terms,
    ]
    return CellSums(rows.rows, ALL, (), tuple(map(Total, terms)))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Beside:
    rng = np.random.default_rng(11)
    numbers = {
        name: pa.array(rng.uniform(-1.1, 1.1, ROWS), mask=rng.random(ROWS) < 0.02) for name in [*NAMES, "y"]
    }
    grids = [StoredGrid(name, -REACH, REACH, Fraction(1, 2**20)) for name in numbers]
    found = Beside.at(tmp_path_factory.mktemp("wide"), spark)
    source = pa.table({**numbers, "side": rng.integers(0, 2, ROWS)})
    found.prepare(source, Preparation(None, 1, (*grids, StoredCodes("side", (0.0, 1.0))), KEY), "t")
    return found


def agree(beside: Beside, program: CellSums) -> None:
    duck, spark = beside.run(program)
    assert np.array_equal(duck, spark)
    assert np.shape(spark) == (len(program.terms), program.cells)
    assert np.any(np.asarray(spark) != 0)


@pytest.mark.parametrize("program", [principal, bayes, every_width])
def test_spark_has_the_same_integers(beside: Beside, program: Any) -> None:
    agree(beside, program())


@pytest.mark.slow
def test_spark_has_the_same_integers_of_twenty_columns(beside: Beside) -> None:
    agree(beside, principal(20))


@pytest.mark.slow
def test_spark_has_the_same_integers_of_shortened_rows(beside: Beside) -> None:
    agree(beside, regression())


def test_parts_are_small_and_lose_nothing() -> None:
    for program in (principal(), bayes(), every_width()):
        found: Any = split_sums(program)
        assert len(found) > 1
        assert max(len(part.terms) for part in found) <= MOST_TERMS
        assert tuple(term for part in found for term in part.terms) == program.terms


def test_few_sums_are_one_question() -> None:
    program = CellSums(Scan("t"), ALL, (), (Counted(),) * MOST_TERMS)
    assert split_sums(program) == [program]
