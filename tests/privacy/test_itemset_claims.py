"""Frequent itemsets, replayed on worst-case neighbours: the same noisy answers lead the same way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato import audit
from sfumato.learn import AssociationRules, FrequentItemsets
from sfumato.learn.itemsets.capped_counts import ONE, ContributionCap
from sfumato.privacy.events import Pure, Sequential

SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]
ITEMS = 14


def extremes() -> list[np.ndarray]:
    """Transactions that hold everything, nothing, one item, half of all, huge numbers, and missing ones."""
    one, half = np.zeros(ITEMS), (np.arange(ITEMS) % 2).astype(float)
    one[0] = 1
    return [np.ones(ITEMS), np.zeros(ITEMS), one, half, np.full(ITEMS, 1e300), np.full(ITEMS, np.nan)]


def neighbours(density: float, rows: int = 2000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A table with and without one extreme transaction, both ways round."""
    chances = density * 2 / np.arange(1, ITEMS + 1) ** 0.5
    X = (np.random.default_rng(7).random((rows, ITEMS)) < chances).astype(float)
    for row in extremes():
        more = np.vstack([X, row])
        yield X, more
        yield more, X


def learned(model: Any) -> dict[str, Any]:
    rules = [str(rule) for rule in getattr(model, "rules_", [])]
    return {"itemsets": list(map(str, model.itemsets_)), "counts": model.counts_, "rules": rules}


def audited(make: Any, spend: dict[str, float], density: float) -> Any:
    budget = make(**spend).fit_budget()
    events = budget.events
    if density > 1 and "delta" in spend:  # one cell a transaction: all of it by pure ε
        events = (Pure(budget.aside.epsilon), Pure(budget.alone.epsilon))
    return audit.replay(
        lambda X: learned(make(**spend).fit(X)), neighbours(density), claim=Sequential(events)
    )


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize("density", [0.1, 0.3, 3.0], ids=["sparse", "usual", "dense"])
@pytest.mark.parametrize("make", [lambda **spend: AssociationRules(8, **spend)])
def test_itemsets_keep_their_price(
    make: Any, spend: dict[str, float], density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which way is taken follows from a noisy histogram, now and then the other one; here each is fixed.

    They are priced in different ways, pure ε or Gaussian, and a claim of one does not cover the other.
    """
    monkeypatch.setattr("sfumato.learn.itemsets.mining._DENSE", 0.0 if density > 1 else math.inf)
    found = audited(make, spend, density)
    assert found.finding is None
    assert found.reached > 0.9


def test_transactions_that_are_not_weighed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: every transaction counts fully, at the price of a capped one."""
    honest = ContributionCap.weight.fget  # type: ignore[attr-defined]
    full = property(lambda self: honest(replace(self, weights=tuple(ONE for _ in self.weights))))
    monkeypatch.setattr(ContributionCap, "weight", full)
    assert audited(lambda **spend: FrequentItemsets(8, **spend), {"epsilon": 0.2}, 0.1).violates


def test_items_read_off_the_data_are_found() -> None:
    def program(X: np.ndarray) -> dict[str, Any]:
        seen = np.flatnonzero(np.nansum(X, axis=0))
        names = [str(place) for place in seen]
        rows = [[str(place) for place in np.flatnonzero(row > 0)] for row in X]
        return learned(FrequentItemsets(3, items=names, epsilon=1.0).fit(rows))

    X = np.zeros((50, ITEMS))
    X[:, :4] = 1
    assert audit.replay(program, [(X, np.vstack([X, np.ones(ITEMS)]))], claim=1.0).violates
