"""A synthesis measures the same integers on every engine, of numbers, bins, codes and missing values."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.both_engines import Both
from conformance.test_engines_agree import KEY
from conformance.with_spark import Beside
from sfumato.audit.replay import Playback, Recording
from sfumato.curator.catalog.domains import Listed, Numbers
from sfumato.engines.program import Counted, KeyedSums, Total, UnitFigures
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import Preparation, StoredCodes, StoredGrid
from sfumato.noise.audit_hook import recording
from sfumato.oracle.blocks import Column, Constant, Either
from sfumato.oracle.row_groups import GroupStep, pack_cells
from sfumato.oracle.row_kernels import KernelStep
from sfumato.synth.column_cells import declare_cells
from sfumato.synth.images.class_moments import MomentsKernel
from sfumato.synth.images.mean_embedding import EmbeddingKernel
from sfumato.synth.images.public_basis import PublicBasis
from sfumato.synth.kernel import MarginalsKernel
from sfumato.synth.spending import Currency
from sfumato.synth.workload import weigh_marginals

A, B = Numbers(-(2**20), 2**20, Fraction(1, 2**20)), Numbers(0, 2**20, Fraction(1, 2**20))
CODES = Listed((Fraction(0), Fraction(1), Fraction(2)))
CELLS = (
    declare_cells("a", A, True, 7),
    declare_cells("b", B, True, [0.1, 0.25, 0.9]),
    declare_cells("c", CODES, True, None),
    declare_cells("d", A, True, ("quantiles", 4)),
    # So many columns that their cells are more than one number.
    *(declare_cells(name, A, True, 1000) for name in "efghi"),
)
NAMES = [each.name for each in CELLS]


def make_step() -> GroupStep:
    weights = weigh_marginals([("a", "b", "c"), ("c", "d")], NAMES)
    kernel = MarginalsKernel(CELLS, "aim", weights, Currency(True), Fraction(1, 2), 2**14)
    keys = pack_cells([each.lower(Column(0, each.name)) for each in CELLS], kernel.sizes)
    assert len(keys) == 2
    return GroupStep(KeyedSums(Scan("t"), ALL, keys, (Counted(),)), kernel)


def make_generator_step(kind: str) -> KernelStep:
    """Return what is asked of an engine for a generator: numbers, listed values and the class of each row."""
    numbers = [Either(Column(0, name), Constant(0)) for name in "abd"]
    label, ward = (Either(Column(0, name), Constant(-1)) for name in "cs")
    bounds, places = (2**20,) * 3, [ward] if kind == "merf" else []
    kernel = (
        EmbeddingKernel(bounds, (2,), 3, Fraction(2), 20, 0, None)
        if kind == "merf"
        else MomentsKernel(PublicBasis.of((3,)), bounds, 3, Fraction(2))
    )
    figures = tuple(map(Total, [*numbers, *places, label]))
    return KernelStep(UnitFigures(Scan("t"), ALL, figures), kernel)


STEPS = {
    "marginals": make_step,
    "moments": lambda: make_generator_step("moments"),
    "merf": lambda: make_generator_step("merf"),
}


def make_table() -> pa.Table:
    random = np.random.default_rng(9)
    numbers = {
        name: pa.array(random.uniform(-1.2, 1.2, 300), mask=random.random(300) < 0.1)
        for name in NAMES
        if name != "c"
    }
    codes = pa.array(random.integers(0, 4, 300), mask=random.random(300) < 0.1)
    wards = pa.array(random.choice(["x", "y", "z"], 300), mask=random.random(300) < 0.1)
    return pa.table({**numbers, "c": codes, "s": wards})


def prepare() -> Preparation:
    grids = [
        StoredGrid(name, -(2**20) if name != "b" else 0, 2**20, Fraction(1, 2**20))
        for name in NAMES
        if name != "c"
    ]
    codes = StoredCodes("c", (0.0, 1.0, 2.0)), StoredCodes("s", ("x", "y"))
    return Preparation(None, 1, (*grids, *codes), KEY)


def compare(one: Any, other: Any, kind: str) -> None:
    """Give the second engine the answers of the first, and compare what each mechanism was asked about."""
    step, record = STEPS[kind](), Recording()
    with recording(record):
        first = step.release(one.run(step.program))
    again = Playback(record)
    with recording(again):
        second = step.release(other.run(step.program))
    assert first == second
    assert len(again.calls) == len(record.calls) >= 5
    for mine, theirs in zip(record.calls, again.calls, strict=True):
        exact = [each.counts(0, 1) if hasattr(each, "widen") else each for each in (mine.exact, theirs.exact)]
        assert np.array_equal(*exact)


@pytest.mark.parametrize("kind", STEPS)
def test_postgres_measures_the_same(tmp_path: Path, postgres: str, kind: str) -> None:
    both = Both.at(tmp_path, postgres)
    both.prepare(make_table(), prepare(), "t")
    compare(both.duck, both.postgres, kind)


@pytest.mark.parametrize("kind", STEPS)
def test_spark_measures_the_same(tmp_path: Path, spark: Any, kind: str) -> None:
    beside = Beside.at(tmp_path, spark)
    beside.prepare(make_table(), prepare(), "t")
    compare(beside.duck, beside.spark, kind)
