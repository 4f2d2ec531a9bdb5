"""The certain arithmetic against mpmath, which shares none of it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus, geometric_sequence


def truth(x: Fraction) -> mpf:
    with mp.workprec(4000):
        return mp.exp(-mpf(x.numerator) / x.denominator)


def holds(bounds: Enclosure, x: mpf) -> bool:
    with mp.workprec(4000):
        return bounds.low <= x * mpf(2) ** bounds.bits <= bounds.high


rationals = st.fractions(min_value=0, max_value=2000, max_denominator=2**60)


@settings(max_examples=150)
@given(rationals, st.integers(8, 700))
def test_the_exponential_is_caught_closely(x: Fraction, bits: int) -> None:
    found = exp_minus(x, bits)
    assert holds(found, truth(x))
    assert found.high - found.low <= 2


def test_the_exponential_of_nothing_is_one() -> None:
    assert exp_minus(Fraction(0), 128) == Enclosure.enclose(1, 128)


@settings(max_examples=150)
@given(rationals, rationals, st.integers(8, 300))
def test_operations_keep_the_number_inside(x: Fraction, y: Fraction, bits: int) -> None:
    a, b = Enclosure.enclose(x, bits), Enclosure.enclose(y + 1, bits)
    for found, expected in [
        (a + b, x + y + 1),
        (b - a, y + 1 - x),
        (a * b, x * (y + 1)),
        (a / b, x / (y + 1)),
    ]:
        assert found.low <= expected * 2**bits <= found.high


def test_a_decay_is_the_powers_of_its_ratio() -> None:
    ratio = exp_minus(Fraction(1, 7), 192)
    found = geometric_sequence(Enclosure.enclose(1, 192), ratio, 50)
    assert all(holds(power, truth(Fraction(k, 7))) for k, power in enumerate(found))
    assert geometric_sequence(ratio, ratio, 0) == []


def test_a_root_keeps_the_number_inside() -> None:
    with mp.workprec(4000):
        assert holds(Enclosure.enclose(2, 200).sqrt(), mp.sqrt(2))
        assert holds(exp_minus(Fraction(900), 200).sqrt(), truth(Fraction(450)))


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(900), Fraction(1, 2**60), Fraction(1, 2**200)])
def test_brackets_hold_the_number(x: Fraction) -> None:
    with mp.workprec(4000):
        [t] = bracket(lambda precision: [exp_minus(x, precision)], 40)
        assert t <= truth(x) * 2**40 <= t + 2


def test_brackets_ask_for_more_until_they_are_close() -> None:
    """An approximation with half the bits it was asked for."""
    tried = []

    def loose(precision: int) -> list[Enclosure]:
        tried.append(precision)
        found = exp_minus(Fraction(1), precision)
        return [Enclosure(found.low, found.high + 2 ** (precision // 2), precision)]

    with mp.workprec(4000):
        [t] = bracket(loose, 128)
        assert t <= truth(Fraction(1)) * 2**128 <= t + 2
    assert tried == [192, 384]
