"""Groups of units on Poisson samples: the exact pair, its ends, and an integral of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.privacy import composition, gaussian
from sfumato.privacy.events import Gaussian, Pure, Repeated, Sampled
from sfumato.privacy.losses.sampled_groups import group_epsilon

DELTA = 1e-5


def run(sigma: float, rate: float, steps: int) -> Repeated:
    return Repeated(Sampled(Gaussian(sigma), rate), steps)


def test_one_unit_is_a_group_of_one() -> None:
    event = run(1.2, 0.1, 100)
    assert group_epsilon(event, 1, DELTA) == pytest.approx(
        composition.epsilon(event, DELTA, step=1e-3), rel=1e-3
    )


def test_a_group_that_is_always_there_moves_k_times_as_far() -> None:
    expected = gaussian.epsilon_of(math.sqrt(10) * 3 / 20, DELTA)
    assert group_epsilon(run(20, 1, 10), 3, DELTA) == pytest.approx(expected)
    assert group_epsilon(Gaussian(20 / math.sqrt(10)), 3, DELTA) == pytest.approx(expected)
    assert group_epsilon(run(20, 1 - 1e-9, 10), 3, DELTA) == pytest.approx(expected, rel=1e-3)


def test_the_figure_is_an_upper_bound_and_near_the_truth() -> None:
    """The hockey stick of one step, integrated on the line: at the ε that is told, δ is within the given."""
    sigma, rate, k = 1.5, 0.3, 4
    epsilon = group_epsilon(Sampled(Gaussian(sigma), rate), k, DELTA)
    at = np.linspace(-20, 30, 400_001)
    normal = [
        np.exp(-((at - j) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)) for j in range(k + 1)
    ]
    mixed = sum(math.comb(k, j) * rate**j * (1 - rate) ** (k - j) * normal[j] for j in range(k + 1))

    def delta(e: float) -> float:
        ways = ((mixed, normal[0]), (normal[0], mixed))
        return max(float(np.trapezoid(np.maximum(p - math.exp(e) * q, 0), at)) for p, q in ways)

    assert delta(epsilon) <= DELTA * (1 + 1e-6)
    assert delta(epsilon - 0.01) > DELTA


def test_larger_groups_are_promised_less_and_more_than_by_the_general_rule() -> None:
    event = run(2.0, 0.02, 50)
    found = [group_epsilon(event, k, DELTA) for k in (1, 2, 4)]
    assert found[0] < found[1] < found[2]
    # The general rule multiplies ε by k and δ by nearly k·e^(kε).
    general = 4 * composition.epsilon(event, DELTA / (4 * math.exp(4 * found[0])), step=1e-3)
    assert 4 * found[0] < found[2] < general
    assert group_epsilon(run(0.3, 0.5, 5), 40, DELTA) == math.inf


@pytest.mark.parametrize("event", [Pure(1), Sampled.fixed(Gaussian(1), 5, 50), Repeated(Pure(1), 3)])
def test_what_is_not_proven_is_refused(event: Pure) -> None:
    with pytest.raises(UsageError, match="SF-N309"):
        group_epsilon(event, 2, DELTA)
