"""The odometer: exact, labelled, and where it is shown."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.privacy import (
    NOTHING,
    ApproxDP,
    Budget,
    Event,
    Gaussian,
    Laplace,
    Odometer,
    Pure,
    Sequential,
    caps,
    epsilon,
    price,
    read_odometer,
)
from sfumato.privacy.gaussian_costs import RESERVES, find_capacity

if TYPE_CHECKING:
    from pathlib import Path

BUDGET = Budget(4, 1e-6)
OLDER = replace(caps(BUDGET), gaussian=None)
"""The same filters without that of Gaussian DP."""


def read(event: Event, budget: Budget = BUDGET) -> Odometer:
    return read_odometer(budget, caps(budget), price(event))


def test_pure_questions_need_no_delta() -> None:
    assert read(Sequential([Pure(0.3), Laplace(10)])) == Odometer(0.4, 0.0, "the filter of pure ε")
    # A δ that was paid beside is part of the statement.
    assert read(Sequential([Pure(0.3), ApproxDP(0.1, 1e-8)])).delta == 1e-6
    assert read_odometer(BUDGET, caps(BUDGET), NOTHING).epsilon == 0


@pytest.mark.parametrize("sigma", [1.9, 3, 8, 30])
def test_gaussian_questions_are_read_from_gaussian_dp(sigma: float) -> None:
    shown = read(Gaussian(sigma))
    # The reserve is part of what the filter of Gaussian DP proves, and of very little it is the larger part.
    assert shown.proven_by.startswith(
        "the filter of Gaussian DP" if sigma < 5 else "the Rényi filter of order"
    )
    # Never below the ε of the run itself, and not far above it.
    assert epsilon(Gaussian(sigma), 1e-6) <= shown.epsilon <= 1.5 * epsilon(Gaussian(sigma), 1e-6) + 0.1
    assert sigma > 5 or shown.epsilon < read_odometer(BUDGET, OLDER, price(Gaussian(sigma))).epsilon
    assert f"ε = {shown.epsilon:.4g} at δ = 1e-06" in str(shown)
    assert "fixed in advance" in str(shown)


def test_it_reaches_the_budget_where_the_account_ends() -> None:
    limits, spent, cost = caps(BUDGET), NOTHING, price(Gaussian(10))
    while limits.admits(spent, cost):
        before = read_odometer(BUDGET, limits, spent).epsilon
        spent = spent + cost
        assert before < read_odometer(BUDGET, limits, spent).epsilon <= 4
    assert read_odometer(BUDGET, limits, spent + cost).epsilon > 4


def test_levels_are_those_of_filters_with_the_same_shares() -> None:
    """At the level shown, the filter that is named is just full: a hair less and none would hold."""
    limits, spent = OLDER, price(Sequential([Gaussian(5), Laplace(4)]))
    shown = Fraction(read_odometer(BUDGET, limits, spent).epsilon)
    for change, holds in ((Fraction(1, 10**9), True), (-Fraction(1, 10**9), False)):
        lower = [cap - (BUDGET.epsilon - shown - change) * 10**12 for cap in limits.renyi]
        held = any(cap >= total for cap, total in zip(lower, spent.renyi, strict=True) if cap >= 0)
        assert held is holds


def test_the_level_of_gaussian_dp_is_that_of_a_filter_with_the_same_share() -> None:
    """With that ε, the same share of δ and the same reserve, the filter would just hold what was spent."""
    limits, spent = caps(BUDGET), price(Gaussian(3))
    shown = Fraction(read_odometer(BUDGET, limits, spent).epsilon)
    assert limits.gaussian is not None
    assert spent.gaussian is not None
    needed = RESERVES[limits.gaussian.place] + spent.gaussian[limits.gaussian.place] / 10**12
    assert find_capacity(shown + Fraction(1, 10**6), BUDGET.delta / 4) >= needed
    assert find_capacity(shown - Fraction(1, 10**6), BUDGET.delta / 4) < needed


def test_more_side_delta_than_there_is_proves_nothing() -> None:
    shown = read(ApproxDP(0.1, 1e-3))
    assert math.isinf(shown.epsilon)
    assert "more than can be proven" in str(shown)
    assert Odometer.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown


def test_a_lab_shows_what_was_spent(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    rows = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register("visits", rows, unit=sf.Unit("who", 1), columns=columns, budget=BUDGET)
    assert lab.budget.spent["population:who"].epsilon == 0
    lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.25)
    spent = lab.session().budget.spent
    assert spent["population:who"] == Odometer(0.25, 0.0, "the filter of pure ε")
    assert spent.to_dict()["population:who"]["epsilon"] == 0.25
    assert "spent so far: ε = 0.25, by the filter of pure ε" in str(spent)
    assert "spent: ε = 0.25" in str(lab.budget)
    assert "spent: ε = 0.25" in lab.budget._repr_html_()
