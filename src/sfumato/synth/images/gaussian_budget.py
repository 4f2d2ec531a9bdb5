"""Budgets of fits whose noise is Gaussian, and the error for samples that are asked for too early."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.curator.plan.spend import GaussianSpend
from sfumato.errors import UsageError
from sfumato.oracle.fit_budget import FitBudget


def read_gaussian_budget(epsilon: Any, delta: Any, rho: Any, name: str) -> FitBudget:
    """Return the budget of a fit whose noise is Gaussian, which needs a δ or a ρ."""
    typed = {"epsilon": epsilon, "delta": delta, "rho": rho}
    budget = FitBudget.of({key: value for key, value in typed.items() if value is not None}, Fraction(0))
    if not isinstance(budget.main, GaussianSpend):
        raise UsageError(
            "SF-N316",
            f"{name} needs a delta, or a rho: pure ε would need far more noise for so many sums.",
            try_="epsilon=1.0, delta=1e-6",
        )
    return budget


def multiplier_of(budget: FitBudget) -> Fraction:
    """Return the noise multiplier that a budget pays for."""
    if not isinstance(budget.main, GaussianSpend):
        raise AssertionError(budget)
    return budget.main.multiplier


def unfitted() -> UsageError:
    """Return the error for samples that are asked for too early."""
    return UsageError("SF-N606", "This has not been fitted yet.", try_="fit(X, y), or s.fit(…)")
