"""Ceilings are those of the textbook, and the best attacker on the least private mechanism reaches them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.attacks.ceilings import excess_chance, guess_ceiling, hit_ceiling, value_ceiling


@pytest.mark.parametrize(("epsilon", "in_100"), [(0.5, 62), (1, 73), (2, 88), (4, 98)])
def test_the_ceiling_of_a_coin_is_the_one_that_the_docs_state(epsilon: float, in_100: int) -> None:
    assert round(100 * guess_ceiling(epsilon)) == in_100
    assert guess_ceiling(epsilon, delta=1) == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("false_alarms", [0.0, 0.01, 0.2, 0.6, 1.0])
def test_hits_and_false_alarms_bound_guesses(epsilon: float, false_alarms: float) -> None:
    """At the best false positive rate the two ceilings are the same number."""
    hits = hit_ceiling(epsilon, false_alarms)
    assert false_alarms <= hits <= 1
    assert (hits + 1 - false_alarms) / 2 <= guess_ceiling(epsilon) + 1e-12
    best = 1 / (1 + math.exp(epsilon))
    assert (hit_ceiling(epsilon, best) + 1 - best) / 2 == pytest.approx(guess_ceiling(epsilon))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("values", [2, 3, 10])
def test_no_table_of_chances_beats_the_ceiling_of_a_value(epsilon: float, values: int) -> None:
    """Random laws within e^ε of the law without the unit, and their exact best guess."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        absent = rng.dirichlet(np.ones(12))
        laws = []
        for _ in range(values):
            law = absent * np.exp(rng.choice([-epsilon, epsilon], 12))
            # Mass that is lacking or too much is spread within the bounds.
            for _ in range(40):
                law = np.clip(law / law.sum(), absent * math.exp(-epsilon), absent * math.exp(epsilon))
            if abs(law.sum() - 1) < 1e-9:
                laws.append(law)
        if len(laws) == values:
            assert np.max(laws, axis=0).sum() / values <= value_ceiling(epsilon, values) + 1e-9


def test_a_very_large_epsilon_promises_nothing() -> None:
    assert guess_ceiling(500) == value_ceiling(500, 10) == hit_ceiling(500, 0.1) == 1


def test_the_chance_of_an_excess_is_the_exact_tail() -> None:
    exact = sum(binom.pmf(k, 20, 0.7) for k in range(18, 21))
    assert excess_chance(18, 20, 0.7) == pytest.approx(exact)
    assert excess_chance(0, 20, 0.7) == 1
