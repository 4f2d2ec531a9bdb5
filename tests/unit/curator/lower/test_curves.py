"""Roots, logarithms and exponentials: near the true value, and within their bounds and errors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from conformance.reference import value as reading
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.functions import apply_function
from sfumato.curator.lower.lowered_value import LoweredValue, literal_number
from sfumato.engines.values import Column
from sfumato.errors import PolicyError

DOMAINS = [
    Numbers(20_000, 250_000),
    Numbers(0, 640_000, Fraction(1, 128)),
    Numbers(-60, 18, Fraction(1, 8)),
    Numbers(1, 2**50, Fraction(1, 2**45)),
    Numbers(-(2**30), 2**30, Fraction(1, 2**24)),
    Numbers(-3, -1),
    Numbers(0, 0),
]
CURVES: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
}


def numbers(domain: Numbers, seed: int) -> list[int]:
    rng = random.Random(seed)
    near = [domain.low, domain.high, -1, 0, 1, 2, 3]
    drawn = [rng.randint(domain.low, domain.high) >> rng.randrange(20) for _ in range(200)]
    return [each for each in near + drawn if domain.low <= each <= domain.high]


def true_value(function: Callable[[float], float], number: float) -> float | None:
    try:
        found = function(number)
    except (ValueError, ZeroDivisionError):
        return None
    return None if isinstance(found, complex) else found


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_a_curve_lies_within_its_bounds_and_near_the_true_value(name: str, domain: Numbers) -> None:
    function = CURVES[name]
    if name == "exp" and domain.high * domain.step > 200:
        with pytest.raises(PolicyError, match="SF-Q158"):
            apply_function(name, (LoweredValue(Column(0, "x"), domain),))
        return
    found = apply_function(name, (LoweredValue(Column(0, "x"), domain, present=True),))
    read = reading(found.value)
    for number in numbers(domain, 5):
        ours, true = read({(0, "x"): number}), true_value(function, float(number * domain.step))
        assert (ours is None) == (true is None)
        if ours is not None and true is not None and isinstance(found.domain, Numbers):
            assert found.domain.low <= ours <= found.domain.high
            assert abs(ours * float(found.domain.step) - true) <= found.error
        assert ours is not None or not found.present
    assert read({(0, "x"): None}) is None


@pytest.mark.parametrize("power", ["0", "0.5", "1.5", "3", "8", "-1", "-2", "0.1", "2.25"])
def test_a_power_lies_within_its_bounds_and_near_the_true_value(power: str) -> None:
    domain, exponent = Numbers(-40, 2_000, Fraction(1, 4)), float(power)
    found = apply_function(
        "power", (LoweredValue(Column(0, "x"), domain, present=True), literal_number(Fraction(power)))
    )
    assert isinstance(found.domain, Numbers)
    read, step = reading(found.value), float(found.domain.step)
    for number in numbers(domain, 6):
        ours, true = read({(0, "x"): number}), true_value(lambda x: x**exponent, number / 4)
        assert (ours is None) == (true is None)
        if ours is not None and true is not None:
            assert found.domain.low <= ours <= found.domain.high
            assert abs(ours * step - true) <= found.error + 1e-12 * abs(true)


@pytest.mark.parametrize("power", ["0.5", "0.3", "1.5", "7.5", "-0.5", "-1.5"])
def test_a_power_of_a_difference_is_off_by_little(power: str) -> None:
    """Next to 0 a difference of doubles has no relative error that is known."""
    x, y = (LoweredValue(Column(0, name), Numbers(1, 1000), present=True) for name in ("x", "y"))
    shift = literal_number(Fraction(0) if float(power) > 0 else Fraction(2000))
    apart = apply_function("subtract", (apply_function("divide", (x, y)), apply_function("divide", (y, x))))
    base = apply_function("add", (apart, shift))
    found = apply_function("power", (base, literal_number(Fraction(power))))
    assert found.real is not None
    assert 0 < found.real.error <= 1e-3 * found.real.bound
    read, exponent = reading(found.real.value), float(power)
    rng = random.Random(7)
    for _ in range(300):
        a, b = rng.randint(1, 1000), rng.randint(1, 1000)
        exact = Fraction(a, b) - Fraction(b, a) + (0 if exponent > 0 else 2000)
        if exact > 0:
            assert abs(read({(0, "x"): a, (0, "y"): b}) - float(exact) ** exponent) <= found.real.error


def test_a_power_needs_a_constant() -> None:
    part = LoweredValue(Column(0, "x"), Numbers(0, 9))
    for exponent in (part, literal_number(Fraction(9)), literal_number(Fraction(-100))):
        with pytest.raises(PolicyError, match="must be a constant"):
            apply_function("power", (part, exponent))


@pytest.mark.parametrize("name", ["floor", "ceil", "round"])
@pytest.mark.parametrize("domain", DOMAINS[:2], ids=str)
def test_a_rounded_curve_is_the_whole_number(name: str, domain: Numbers) -> None:
    """At the ends too, where a rounded number lies beyond the ends of the one that is rounded."""
    logarithm = apply_function("ln", (LoweredValue(Column(0, "x"), domain, present=True),))
    read = reading(apply_function(name, (logarithm,)).value)
    rounded = {"floor": math.floor, "ceil": math.ceil, "round": round}[name]
    for number in numbers(domain, 7):
        if number > 0:
            assert read({(0, "x"): number}) == rounded(math.log(number * float(domain.step)))
