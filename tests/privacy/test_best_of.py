"""The best of a random number of runs: its law, written down for small mechanisms, held against its price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.privacy.events import ApproxDP, BestOf, Event, Gaussian, Pure
from sfumato.privacy.events.event import NONE

Floats = np.ndarray
ORDERS = [1.1, 1.5, 2.0, 4.0, 16.0, 100.0]


def divergence(order: float, p: Floats, q: Floats) -> float:
    """Rényi's, of two laws on a few answers."""
    return float(np.logaddexp.reduce(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1))


@dataclass(frozen=True, slots=True)
class Known(Event):
    """A mechanism with these two laws, at its exact price."""

    tag: ClassVar[str] = "known"
    p: tuple[float, ...]
    q: tuple[float, ...]

    def pure(self) -> Fraction | None:
        return Fraction(float(np.abs(np.log(np.array(self.p) / np.array(self.q))).max()) * (1 + 1e-12))

    def curve(self):  # type: ignore[no-untyped-def]
        p, q = np.array(self.p), np.array(self.q)
        return lambda order: max(divergence(order, p, q), divergence(order, q, p))

    def side_delta(self) -> Fraction:
        return NONE


def best(law: Floats, stop: float, tail: int) -> Floats:
    """The law of the best answer, the last being the highest: f(worse or equal) − f(worse)."""
    worse = np.concatenate([[0.0], np.cumsum(law)])
    worse[-1] = 1.0
    if tail:
        whole = stop * worse / (1 - (1 - stop) * worse)
    else:
        whole = np.log1p(-(1 - stop) * worse) / math.log(stop)
    return np.diff(whole)


def laws() -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng(4)
    found = []
    for size in (2, 3, 6):
        for spread in (0.05, 0.5, 2.0):
            for _ in range(6):
                p = rng.dirichlet(np.ones(size))
                q = p * np.exp(rng.uniform(-spread, spread, size))
                found.append((p, q / q.sum()))
    rare = 1e-3
    found.append((np.array([1 - rare, rare]), np.array([1 - 2 * rare, 2 * rare])))
    return found


@pytest.mark.parametrize("tail", [0, 1])
@pytest.mark.parametrize("stop", [0.5, 0.1, 0.01])
def test_no_search_gives_more_away_than_it_costs(stop: float, tail: int) -> None:
    reached = 0.0
    for p, q in laws():
        event = BestOf(Known(tuple(p), tuple(q)), stop, tail)
        curve, pure = event.curve(), event.pure()
        assert pure is not None
        one, other = best(p, stop, tail), best(q, stop, tail)
        assert one.sum() == pytest.approx(1)
        for order in ORDERS:
            truth = max(divergence(order, one, other), divergence(order, other, one))
            assert truth <= curve(order) * (1 + 1e-9) + 1e-12
        largest = float(np.abs(np.log(one / other)).max())
        assert largest <= float(pure) * (1 + 1e-9)
        reached = max(reached, largest / float(pure))
    assert reached > 0.4


def test_a_search_priced_as_one_run_is_found() -> None:
    p, q = laws()[-1]
    one, other = best(p, 0.01, 1), best(q, 0.01, 1)
    known = Known(tuple(p), tuple(q))
    assert max(divergence(2.0, one, other), divergence(2.0, other, one)) > 2 * known.curve()(2.0)


def test_more_runs_cost_little_more() -> None:
    few, many = (BestOf(Gaussian(10), stop) for stop in (0.2, 0.001))
    assert few.mean == pytest.approx(4 / math.log(5))
    assert many.mean > 100
    assert few.renyi(8.0) < many.renyi(8.0) < 3 * few.renyi(8.0)


@pytest.mark.parametrize(
    "bad", [(Pure(1), 0, 0), (Pure(1), 1, 0), (Pure(1), 0.5, 2), (ApproxDP(1, 1e-9), 0.5, 0)]
)
def test_what_is_not_proven_has_no_price(bad: tuple[Event, float, int]) -> None:
    with pytest.raises(UsageError, match="no proven price"):
        BestOf(*bad)


@pytest.mark.parametrize("most", [1, 3, 20])
@pytest.mark.parametrize("stop", [0.5, 0.1, 0.01])
def test_a_search_that_is_cut_off_gives_no_more_away(stop: float, most: int) -> None:
    """The law of the best answer if K ∝ (1 − γ)^k/k up to `most`, at the price of the one without an end."""
    k = np.arange(1, most + 1)
    law = (1 - stop) ** k / k
    law /= law.sum()

    def cut(answers: Floats) -> Floats:
        worse = np.concatenate([[0.0], np.cumsum(answers)])
        worse[-1] = 1.0
        return np.diff((law * worse[:, None] ** k).sum(axis=1))

    for p, q in laws():
        event = BestOf(Known(tuple(p), tuple(q)), stop)
        curve, pure = event.curve(), event.pure()
        assert pure is not None
        one, other = cut(p), cut(q)
        for order in ORDERS:
            truth = max(divergence(order, one, other), divergence(order, other, one))
            assert truth <= curve(order) * (1 + 1e-9) + 1e-12
        assert float(np.abs(np.log(one / other)).max()) <= float(pure) * (1 + 1e-9)
