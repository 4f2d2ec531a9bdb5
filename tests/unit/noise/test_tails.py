"""Half-widths at risks that tables and draws do not tell."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.noise import LaplaceNoise, MatrixNoise, SimplicesNoise
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.noise.tails import continue_tail

TINY = [Fraction(1, 10**13), Fraction(1, 2**52), Fraction(1, 10**400)]
NOISES = [
    SimplicesNoise((1, 2), Fraction(9)),
    SimplicesNoise((2, 2), Fraction(50)),
    MatrixNoise(3, Fraction(1000)),
]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_half_widths_end_and_grow_at_every_risk(noise: JointNoise) -> None:
    halves = [noise.half_width(0, 1 - risk) for risk in (Fraction(1, 10**6), *TINY)]
    assert halves == sorted(set(halves))


@pytest.mark.parametrize("risk", [1e-9, 1e-15, 1e-300])
def test_a_continued_tail_holds_that_of_laplace_noise(risk: float) -> None:
    noise = LaplaceNoise(Fraction(40))
    halves = continue_tail(lambda each: noise.half_width(1 - Fraction(each)), risk, 1e-4, step=1)
    exact = noise.half_width(1 - Fraction(risk))
    assert exact <= halves <= 1.2 * exact


def test_a_line_lies_above_tails_that_fall_faster() -> None:
    def normal(risk: float) -> float:
        return math.sqrt(-2 * math.log(risk))

    assert continue_tail(normal, 1e-12, 1e-3) > normal(1e-12)


def test_what_has_no_end_has_none_at_a_smaller_risk() -> None:
    found = continue_tail(lambda risk: np.array([np.inf if risk < 0.01 else 3.0, 2.0]), 1e-6, 0.005)
    assert found.tolist() == [np.inf, 2.0]
