"""The perceptron and nearest neighbours, replayed on worst-case neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sfumato import audit
from sfumato.learn import NearestNeighbors, Perceptron
from sfumato.learn.neighbors import FourierFeatures
from sfumato.oracle.blocks import SumBlock
from sfumato.privacy.events import Sequential

HUGE = 1e6
SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]
Data = tuple[np.ndarray, np.ndarray]


def neighbours(
    classes: int, rows: int = 50, features: int = 3, first: int = 0
) -> Iterator[tuple[Data, Data]]:
    """A table with and without one extreme row of each class and of none, each way round in turn."""
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1.2, 1.2, (rows, features)), rng.integers(0, classes, rows)
    alone = np.zeros(features)
    alone[0] = HUGE
    far = (np.full(features, HUGE), np.full(features, -HUGE), alone, np.full(features, np.nan))
    for place, row in enumerate(far):
        for other, label in enumerate((*range(classes), 77)):
            more = np.vstack([X, row]), np.append(y, label)
            yield (more, (X, y)) if (place + other + first) % 2 else ((X, y), more)


def learned(estimator: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and name != "guarantee_" and isinstance(value, np.ndarray | float | int)
    }


def perceptron(classes: int, **given: Any) -> Any:
    return lambda **spend: Perceptron(classes=list(range(classes)), rounds=3, **given, **spend)


def voting(classes: int, **given: Any) -> Any:
    return lambda **spend: NearestNeighbors(classes=list(range(classes)), waves=6, **given, **spend)


CASES = [
    (perceptron(2, bounds=(-1, 1)), 2),
    (perceptron(2, row_norm=100.0), 2),
    (perceptron(3, bounds=(-1, 1)), 3),
    (voting(2, bounds=(-1, 1)), 2),
    (voting(3, row_norm=100.0, width=0.5), 3),
]


def audited(make: Any, spend: dict[str, float], classes: int) -> Any:
    claim = Sequential(make(**spend).fit_budget().events)
    first = SPENDS.index(spend) % 2  # so that each pair is tried both ways round, with one spend or another
    pairs = neighbours(classes, first=first)
    return audit.replay(lambda data: learned(make(**spend).fit(*data)), pairs, claim=claim)


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize(("make", "classes"), CASES)
def test_a_learner_keeps_its_price(make: Any, classes: int, spend: dict[str, float]) -> None:
    found = audited(make, spend, classes)
    assert found.finding is None
    assert found.reached > 0.5


def test_votes_priced_for_half_their_reach_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = FourierFeatures.build_block

    def planted(self: FourierFeatures, terms: tuple[Any, ...] = ()) -> SumBlock:
        block = honest(self, terms)
        return SumBlock(block.terms, block.l1 // 2, block.l2_squared // 4, block.share)

    monkeypatch.setattr(FourierFeatures, "build_block", planted)
    assert audited(voting(2, bounds=(-1, 1), width=0.5), SPENDS[1], 2).violates


def test_a_lookup_that_is_not_charged_is_found() -> None:
    """What textbook nearest neighbours do: the nearest row's label, as it is."""

    def program(data: Data) -> dict[str, Any]:
        X, y = data
        model = NearestNeighbors(classes=[0, 1], bounds=(-1, 1), epsilon=1.0, waves=6, width=0.5).fit(X, y)
        nearest = np.nan_to_num(abs(X - 1.0).sum(axis=1), nan=np.inf).argmin()
        return learned(model) | {"label": int(y[nearest])}

    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 0, (20, 3)), np.zeros(20, dtype=int)
    more = np.vstack([X, np.ones(3)]), np.append(y, 1)
    assert audit.replay(program, [((X, y), more)], claim=1.0).violates
