"""Statistics of blocks of people: the private middle of a number that each block gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("labs")
    lab = sf.create(folder / "lab")
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 80, 20_000)
    cost = np.clip(20 * age + rng.normal(0, 200, 20_000), 0, 5000)
    lab.register(
        "t",
        pa.table({"age": age, "cost": cost}),
        unit=sf.ROW,
        columns={"age": sf.between(0, 110), "cost": sf.between(0, 5000)},
        budget=sf.Budget(epsilon=1000),
    )
    return lab.session().table("t"), age, cost


@pytest.mark.parametrize(
    ("aggregate", "exact", "off"),
    [
        (sf.mean("cost"), lambda age, cost: cost.mean(), 40),
        (sf.median("cost"), lambda age, cost: np.median(cost), 60),
        (sf.variance("age"), lambda age, cost: age.var(), 25),
        (sf.stddev("age"), lambda age, cost: age.std(), 1),
        (sf.covariance("age", "cost"), lambda age, cost: np.cov(age, cost)[0, 1], 600),
        (sf.correlation("age", "cost"), lambda age, cost: np.corrcoef(age, cost)[0, 1], 0.03),
    ],
    ids=["mean", "median", "variance", "stddev", "covariance", "correlation"],
)
def test_the_middle_of_blocks_is_near_the_whole(table: Any, aggregate: Any, exact: Any, off: float) -> None:
    frame, age, cost = table
    found = frame.subsample(aggregate, blocks=50).release(epsilon=20)
    assert abs(found.value - exact(age, cost)) < off


def test_blocks_whose_rows_say_nothing_count_as_the_middle(table: Any) -> None:
    found = (
        table[0].where("age > 109").subsample(sf.correlation("age", "cost"), blocks=50).release(epsilon=20)
    )
    assert abs(found.value) < 0.01


def test_what_a_part_does_not_estimate_is_refused(table: Any) -> None:
    with pytest.raises(PolicyError, match="SF-Q154"):
        table[0].subsample(sf.count(), blocks=50).quote(epsilon=1)
