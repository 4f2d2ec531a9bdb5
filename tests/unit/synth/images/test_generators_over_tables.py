"""Generators of labelled rows behind the curator, and what fits on own rows cost together."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = np.repeat([0, 1], [1500, 500])
AGES = np.where(CLASSES == 0, 30, 70) + np.arange(2000) % 7
TABLE = pa.table(
    {
        "age": pa.array(AGES, mask=np.arange(2000) % 50 == 0),
        "score": AGES / 4,
        "ward": np.where(CLASSES == 0, "a", "b"),
        "sex": pa.array(np.where(np.arange(2000) % 3 == 0, "f", "m"), mask=np.arange(2000) % 40 == 0),
    }
)
COLUMNS = {
    "age": sf.between(0, 110, 1),
    "score": sf.between(0, 50, 0.25),
    "ward": sf.one_of("a", "b", "c"),
    "sex": sf.one_of("f", "m", "x"),
}
ASKED: dict[str, Any] = {"table": "visits", "features": ["sex", "age", "score"], "target": "ward"}


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    made = sf.create(tmp_path / "lab")
    made.register("visits", TABLE, unit=sf.ROW, columns=COLUMNS, budget=sf.Budget(epsilon=40, delta=1e-5))
    return made


def _merf(**other: Any) -> Any:
    return sf.synth.MERF(**{"epsilon": 20, "delta": 1e-6, "waves": 100, "steps": 100, **other})


def test_a_mixed_table_is_charged_once_and_the_same_fit_again_is_free(lab: Any) -> None:
    session = lab.session()
    rows, wards = session.fit(_merf(), **ASKED).sample(500, seed=4)
    assert rows.column_names == ["sex", "age", "score"]
    assert pa.types.is_integer(rows["age"].type)
    assert set(rows["sex"].to_pylist()) <= {"f", "m", "x"}
    age, score = (rows[name].to_numpy() for name in ("age", "score"))
    assert (score * 4 % 1 == 0).all()
    assert 0 <= score.min() <= score.max() <= 50
    # Noise in a mean of 500 rows is far below 1 at this ε, and the middle of the bounds is 55.
    assert age[wards == "b"].mean() > age[wards == "a"].mean() + 20
    spent = str(lab.budget)
    again = session.fit(_merf(steps=1), **ASKED)
    assert again.class_counts_.sum() == pytest.approx(2000, abs=200)
    assert str(lab.budget) == spent
    session.fit(_merf(seed=1), **ASKED)
    assert str(lab.budget) != spent


@pytest.mark.parametrize("kind", [sf.synth.Moments, sf.synth.MERF])
def test_a_quote_divides_the_whole_budget_and_costs_nothing(lab: Any, kind: Any) -> None:
    before = str(lab.budget)
    asked = {**ASKED, "features": ["age", "score"]}
    found = lab.session().quote(kind(epsilon=1, delta=1e-6), **asked)
    assert sum(share for _, share, _ in found.parts) == pytest.approx(1)
    assert "class counts" in str(found)
    assert str(lab.budget) == before


@pytest.mark.parametrize("other", [{"target": None}, {"rows_per_unit": 2}])
def test_what_cannot_be_fitted_is_refused_before_the_charge(lab: Any, other: Any) -> None:
    before = str(lab.budget)
    with pytest.raises(UsageError, match="SF-E112"):
        lab.session().fit(_merf(), **{**ASKED, **other})
    assert str(lab.budget) == before


def test_neither_missing_rows_nor_a_missing_class_make_a_fit_fail(lab: Any) -> None:
    kept = lab.session().table("visits").where("age > 105")
    made = lab.session().fit(_merf(epsilon=1, steps=5), **{**ASKED, "table": kept})
    rows, _ = made.sample(20)
    assert rows.num_rows == 20


@pytest.mark.parametrize("kind", [sf.synth.Moments, sf.synth.MERF])
def test_samples_stay_within_bounds_whose_grid_is_too_fine_for_sums(tmp_path: Path, kind: Any) -> None:
    ends = pa.table({"cost": [1000.0] * 200, "ward": ["a", "b"] * 100})
    columns = {"cost": sf.between(0, 1000), "ward": sf.one_of("a", "b")}
    made = sf.create(tmp_path / "fine")
    made.register("ends", ends, unit=sf.ROW, columns=columns, budget=sf.Budget(200, 1e-5))
    found = made.session().fit(kind(epsilon=100, delta=1e-6), table="ends", features=["cost"], target="ward")
    rows, _ = found.sample(500, seed=1)
    drawn = rows["cost"].to_numpy() if kind is sf.synth.MERF else rows[:, 0]
    # Noise moves a mean by less than 10 at this ε, so that samples come near the bound or reach it.
    assert 900 < drawn.max() <= 1000


# ---- own rows without an account ----

ROWS = np.column_stack([AGES, AGES / 2])
KINDS = [sf.synth.Moments, lambda **given: sf.synth.MERF(**given, waves=10, steps=1)]


@pytest.mark.parametrize("kind", KINDS)
def test_fits_without_an_account_are_counted_with_those_of_copies(kind: Any) -> None:
    made = kind(epsilon=1, delta=1e-6, bounds=(0, 110), classes=[0, 1]).fit(ROWS, CLASSES)
    assert made.guarantee_.others == ""
    again = copy.deepcopy(made).fit(ROWS, CLASSES)
    assert "2 fits" in again.guarantee_.others
    assert "ε" in again.guarantee_.others


def test_fits_of_marginals_are_counted_too() -> None:
    made = sf.synth.Marginals(epsilon=1, delta=1e-6, bounds={"age": (0, 110)})
    made.fit({"age": AGES})
    assert "2 fits" in copy.copy(made).fit({"age": AGES}).guarantee_.others
    with pytest.raises(PolicyError, match="SF-L303"):
        pickle.loads(pickle.dumps(sf.synth.Marginals(rho=1, bounds={"age": (0, 110)}))).fit({"age": AGES})


@pytest.mark.parametrize("kind", KINDS)
def test_one_out_of_a_pickle_needs_an_account(kind: Any) -> None:
    made = pickle.loads(pickle.dumps(kind(epsilon=1, delta=1e-6, bounds=(0, 110), classes=[0, 1])))
    with pytest.raises(PolicyError, match="SF-L303"):
        made.fit(ROWS, CLASSES)
