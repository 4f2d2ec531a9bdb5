"""Radii: a polynomial times a geometric law, term by term, and draws that few bits do not decide."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.noise.bodies import radius
from sfumato.noise.bodies.radius import RadiusSampler, TermChoice, expand_binomials
from sfumato.noise.sampling.bits import OS


def objects(values: Any) -> Any:
    return np.array(values, dtype=object)


def test_terms_are_the_polynomial_again_at_every_radius() -> None:
    terms = expand_binomials(objects([(2 * r + 1) ** 3 * (6 * r + 1) for r in range(5)]))
    for r in range(40):
        assert (2 * r + 1) ** 3 * (6 * r + 1) == sum(c * math.comb(r, i) for (i,), c in terms.items())


def test_terms_of_two_radii_are_the_polynomial_again() -> None:
    p, q = objects(range(5))[:, None], objects(range(5))[None, :]
    terms = expand_binomials((p + q + 1) ** 2 * ((p + q + 1) * (p + q + 2) // 2 + p * q))
    for p in range(12):
        for q in range(12):
            value = (p + q + 1) ** 2 * ((p + q + 1) * (p + q + 2) // 2 + p * q)
            assert value == sum(c * math.comb(p, i) * math.comb(q, j) for (i, j), c in terms.items())


@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1, 2), Fraction(3), Fraction(2**40)])
def test_terms_and_their_geometric_numbers_have_the_law_of_the_radius(scale: Fraction) -> None:
    """Σ P(term)·P(its numbers add up to r) is the polynomial times u^r over its sum, to a hundred bits."""
    polynomial = [(2 * r + 1) * (10 * r + 1) for r in range(3)]
    sampler = RadiusSampler.build(scale, objects(polynomial))
    assert sampler.table is not None
    bits = 3000
    ends = [0, *sampler.table.law.bracket_cdf(range(1, 3), bits), 2**bits]
    with mp.workprec(4000):
        u = mp.e ** (-mpf(scale.denominator) / scale.numerator)
        # Σ F(r)·u^r in closed form, with F = 1 + 32·C(r, 1) + 40·C(r, 2).
        whole = 1 / (1 - u) + 32 * u / (1 - u) ** 2 + 40 * u**2 / (1 - u) ** 3
        for r in (0, 1, 2, 7, int(scale)):
            found = mpf(0)
            for i, low, high in zip(sampler.orders[0].tolist(), ends, ends[1:], strict=False):
                sums = mp.binomial(r, i) * (1 - u) ** (i + 1) * u ** (r - i) if r >= i else mpf(0)
                found += mpf(high - low) / 2**bits * sums
            expected = (2 * r + 1) * (10 * r + 1) * u**r / whole
            assert abs(found / expected - 1) < mpf(2) ** -100


def test_a_term_that_64_bits_do_not_decide_takes_more(script: Any) -> None:
    """A number equal to a threshold is decided by the next bits, to either side."""
    choice = TermChoice(Fraction(1, 3), (1, 32, 40), (0, 1, 2))
    sampler = RadiusSampler.build(Fraction(3), objects([1, 33, 105]))
    assert sampler.table is not None
    [threshold] = choice.bracket_cdf(range(2, 3), 64)
    [exact] = choice.bracket_cdf(range(2, 3), 128)
    below, above = exact - 2**20, exact + 2**20
    assert {below >> 64, above >> 64} <= {threshold, threshold + 1}
    assert sampler.table.draw(1, script.of(below, 128)).tolist() == [1]
    assert sampler.table.draw(1, script.of(above, 128)).tolist() == [2]


def test_a_negative_coefficient_is_refused() -> None:
    with pytest.raises(AssertionError, match="negative"):
        RadiusSampler.build(Fraction(1), objects([4, 1, 0]))


def test_radii_beyond_64_bits_are_python_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A geometric number outside its table turns all into Python integers, and none wraps around."""
    far = 2**70
    monkeypatch.setattr(
        radius, "draw_geometric", lambda scale, count, source: np.array([far] * count, object)
    )
    sampler = RadiusSampler.build(Fraction(5), objects([1, 4]))
    drawn = sampler.draw(6, OS)
    assert drawn.dtype == object
    assert {int(each) for each in drawn.ravel()} <= {far, 2 * far + 1}
