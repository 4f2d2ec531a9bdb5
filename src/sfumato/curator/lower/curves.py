"""SQRT, LN, EXP and powers, in integers: the same value on every engine, to the last bit.

Engines' own functions of doubles may differ in the last bit, and then on which side of a step a value falls.
So a logarithm and an exponential are read from a public table of 2,048 steps an octave and interpolated with
integers. A square root is taken of an integer that doubles hold, where every engine rounds in one way.
What has no value, as the logarithm of zero, is missing.

Because : docs/proofs/relations.md#curves
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import STEPS, choose_exponent
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.arithmetic import divide_numbers, multiply_numbers, scale_number
from sfumato.curator.lower.lowered_value import (
    MISSING,
    LoweredValue,
    add_integer,
    divide_by_integer,
    grid_too_fine,
    literal_number,
    multiply_by_integer,
    number_domain,
    require_number,
)
from sfumato.engines.values import (
    WIDEST,
    Add,
    Among,
    AtLeast,
    AtMost,
    Binary,
    Choose,
    Constant,
    Divide,
    Lookup,
    Missing,
    Multiply,
    Root,
    Value,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

_ENTRY, _REST = 11, 20
"""Bits that find an entry of a table, and bits between two entries."""
_OCTAVE = 2**_ENTRY
"""Entries of the table for numbers from 1 to 2: interpolation is then off by less than 2^-24."""
_FINE = 30
"""Bits after the point while a logarithm or an exponential is computed."""
_SHOWN = 20
"""Bits after the point of a logarithm."""
_HIGHEST = 200
"""The largest argument of EXP."""
MOST_POWER = 8
# Decimals are rounded correctly wherever Python runs, unlike doubles.
_EXACT = Context(prec=60)
_LN2 = _EXACT.ln(Decimal(2))


def _fixed(number: Decimal, bits: int) -> int:
    """Return a number rounded down to so many bits after the point."""
    found: int = math.floor(Fraction(number) * 2**bits)
    return found


@cache
def _logarithms() -> tuple[int, ...]:
    """Return ln(i / 2^11), for i from 2^11 to 2^12."""
    return tuple(
        _fixed(_EXACT.ln(_EXACT.divide(Decimal(_OCTAVE + i), Decimal(_OCTAVE))), _FINE)
        for i in range(_OCTAVE + 1)
    )


@cache
def _exponentials() -> tuple[int, ...]:
    """Return 2^(i / 2^11), for i from 0 to 2^11."""
    return tuple(
        _fixed(_EXACT.exp(_EXACT.multiply(_LN2, _EXACT.divide(Decimal(i), Decimal(_OCTAVE)))), _FINE)
        for i in range(_OCTAVE + 1)
    )


def _slopes(entries: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(after - before for before, after in pairwise(entries))


def _interpolate(entries: tuple[int, ...], place: Value, rest: Value, bits: int) -> Value:
    """Return the entry at a place plus its slope times what is left over, of so many bits."""
    more = Divide(Multiply(Lookup(place, _slopes(entries)), rest), Constant(2**bits))
    return Add(Lookup(place, entries[:-1]), more)


# ---- square roots ------------------------------------------------------------------------------------------


def take_root(part: LoweredValue) -> LoweredValue:
    """Return SQRT of a number, rounded down on a grid chosen from its bounds; missing below 0."""
    part, domain = require_number(part, "The argument of SQRT")
    if part is MISSING:
        return MISSING
    highest = max(domain.high, 1) * domain.step
    # The step is even in its exponent, so that its square is a power of two too.
    step = Fraction(2) ** choose_exponent(Fraction(math.isqrt(math.ceil(highest * 4**STEPS)) + 1, 2**STEPS))
    ratio = domain.step / step**2
    if max(domain.bound, 1) * ratio.numerator > WIDEST or ratio.denominator > WIDEST:
        raise grid_too_fine("A square root")
    scaled = divide_by_integer(
        multiply_by_integer(part.value, ratio.numerator),
        Numbers(domain.low * ratio.numerator, domain.high * ratio.numerator),
        ratio.denominator,
    )
    ends = [math.isqrt(math.floor(max(end, 0) * ratio)) for end in (domain.low, domain.high)]
    value = Root(scaled) if domain.low >= 0 else _unless_below(part.value, 0, Root(scaled))
    return part.derive_value(value, Numbers(ends[0], ends[1], step), total=domain.low >= 0)


def _unless_below(part: Value, least: int, value: Value) -> Value:
    return Choose(AtLeast(part, least), value, Constant(None))


# ---- logarithms --------------------------------------------------------------------------------------------


def take_logarithm(part: LoweredValue) -> LoweredValue:
    """Return LN of a number in steps of 2^-20, rounded down; missing at 0 and below."""
    part, domain = require_number(part, "The argument of LN")
    if part is MISSING or domain.high < 1:
        return MISSING
    shift, top = _log_of_step(domain.step), max(domain.high.bit_length(), _ENTRY + _REST + 1)
    if domain.high.bit_length() + top > WIDEST.bit_length():
        raise grid_too_fine("A logarithm")
    low, high = (_logarithm_of(max(end, 1), top) + shift for end in (domain.low, domain.high))
    fewer = _FINE - _SHOWN
    value = divide_by_integer(
        add_integer(_fine_logarithm(part.value, top), shift), Numbers(low, high), 2**fewer
    )
    positive = domain.low >= 1
    return part.derive_value(
        value if positive else _unless_below(part.value, 1, value),
        Numbers(low >> fewer, high >> fewer, Fraction(1, 2**_SHOWN)),
        total=positive,
    )


def _fine_logarithm(value: Value, top: int) -> Value:
    """Return ln of a positive integer with 30 bits after the point: of its octave, and of what is left."""
    digits = Binary(value)
    lifts = tuple(2 ** (top - size) if size else None for size in range(top + 1))
    # All have `top` binary digits then: the upper ones find the entry, the lower ones what is left over.
    lifted = Divide(Multiply(value, Lookup(digits, lifts)), Constant(2 ** (top - 1 - _ENTRY - _REST)))
    entry = Divide(lifted, Constant(2**_REST))
    rest = Add(lifted, Multiply(entry, Constant(-(2**_REST))))
    inside = _interpolate(_logarithms(), Add(entry, Constant(-_OCTAVE)), rest, _REST)
    octaves = tuple(_fixed(_LN2 * (size - 1), _FINE) if size else None for size in range(top + 1))
    return Add(inside, Lookup(digits, octaves))


def _logarithm_of(number: int, top: int) -> int:
    """Return what `_fine_logarithm` computes of a positive integer."""
    size = number.bit_length()
    lifted = number << (top - size) >> (top - 1 - _ENTRY - _REST)
    entry, rest = divmod(lifted, 2**_REST)
    table, place = _logarithms(), entry - _OCTAVE
    inside = table[place] + (((table[place + 1] - table[place]) * rest) >> _REST)
    found: int = inside + _fixed(_LN2 * (size - 1), _FINE)
    return found


def _log_of_step(step: Fraction) -> int:
    logarithm = _EXACT.subtract(_EXACT.ln(Decimal(step.numerator)), _EXACT.ln(Decimal(step.denominator)))
    return _fixed(logarithm, _FINE)


def make_logarithm(base: int) -> Callable[[LoweredValue], LoweredValue]:
    """Return the function LOG2 or LOG10."""
    # The base changes only the step, so that no further rounding comes in.
    factor = Fraction(_EXACT.divide(Decimal(1), _EXACT.ln(Decimal(base)))).limit_denominator(2**40)

    def logarithm(part: LoweredValue) -> LoweredValue:
        found = take_logarithm(part)
        return found if found is MISSING else scale_number(found, number_domain(found), factor)

    return logarithm


# ---- exponentials ------------------------------------------------------------------------------------------


def take_exponential(part: LoweredValue) -> LoweredValue:
    """Return EXP of a number, rounded down on a grid chosen from its bounds."""
    part, domain = require_number(part, "The argument of EXP")
    if part is MISSING:
        return MISSING
    if domain.high * domain.step > _HIGHEST:
        raise PolicyError(
            "SF-Q132", f"The argument of EXP may exceed {_HIGHEST}.", try_=f"EXP(LEAST(x, {_HIGHEST}))"
        )
    exponent = _exponent_of_grid(domain.high * domain.step)
    twos = _Twos.choose(domain, exponent)
    ends = [twos.compute(end) for end in (domain.low, domain.high)]
    return part.derive_value(
        twos.write(part.value, domain), Numbers(ends[0], ends[1], Fraction(2) ** exponent)
    )


def _exponent_of_grid(highest: Fraction) -> int:
    largest = Fraction(_EXACT.exp(_EXACT.divide(Decimal(highest.numerator), Decimal(highest.denominator))))
    return choose_exponent(max(largest, Fraction(1, 2**STEPS)))


class _Twos:
    """Two to the power of x · factor / 2^(30 + shift) − exponent, for integers x."""

    def __init__(self, factor: int, shift: int, exponent: int) -> None:
        self.factor, self.shift, self.exponent = factor, shift, exponent

    @classmethod
    def choose(cls, domain: Numbers, exponent: int) -> _Twos:
        """Take as many bits of step / ln 2 as leave every product below 2^120."""
        each = _EXACT.divide(
            _EXACT.divide(Decimal(domain.step.numerator), Decimal(domain.step.denominator)), _LN2
        )
        exact = Fraction(each)
        size = exact.numerator.bit_length() - exact.denominator.bit_length() + 1
        shift = min(80, 110 - domain.bound.bit_length() - size - _FINE)
        if shift < 0:
            raise grid_too_fine("An exponential")
        return cls(_fixed(each, _FINE + shift), shift, exponent)

    def write(self, value: Value, domain: Numbers) -> Value:
        ends = Numbers(domain.low * self.factor, max(domain.high * self.factor, domain.low * self.factor))
        power = divide_by_integer(multiply_by_integer(value, self.factor), ends, 2**self.shift)
        power = add_integer(power, -self.exponent << _FINE)
        whole = Divide(power, Constant(2**_FINE))
        left = Add(power, Multiply(whole, Constant(-(2**_FINE))))
        bits = _FINE - _ENTRY
        entry = Divide(left, Constant(2**bits))
        rest = Add(left, Multiply(entry, Constant(-(2**bits))))
        inside = _interpolate(_exponentials(), entry, rest, bits)
        doubled = Multiply(inside, Lookup(whole, tuple(2**size for size in range(STEPS + 2))))
        found = Divide(doubled, Constant(2**_FINE))
        # Far below a step, and nothing negative is divided.
        small = domain.low * self.factor >> self.shift < self.exponent << _FINE
        return Choose(AtMost(power, -1), Constant(0), found) if small else found

    def compute(self, number: int) -> int:
        """Return what `write` computes of an integer."""
        power = (number * self.factor >> self.shift) - (self.exponent << _FINE)
        if power < 0:
            return 0
        whole, left = divmod(power, 2**_FINE)
        bits, table = _FINE - _ENTRY, _exponentials()
        entry, rest = divmod(left, 2**bits)
        inside = table[entry] + (((table[entry + 1] - table[entry]) * rest) >> bits)
        found: int = inside * 2**whole >> _FINE
        return found


# ---- powers ------------------------------------------------------------------------------------------------


def take_power(part: LoweredValue, exponent: LoweredValue) -> LoweredValue:
    """Return a number to a constant power; missing where it has none.

    Small whole powers are products. Other powers are EXP(y · LN(x)), of which 0 is 0.
    """
    power = _constant_power(exponent)
    if power == Fraction(1, 2):
        return take_root(part)
    if power < 0:
        return divide_numbers(literal_number(Fraction(1)), take_power(part, literal_number(-power)))
    if power == 0:
        return part.derive_value(Choose(Missing(part.value), Constant(None), Constant(1)), Numbers(1, 1))
    if power.denominator == 1 and power <= MOST_POWER:
        product = part
        for _ in range(int(power) - 1):
            product = multiply_numbers(product, part)
        return product
    return _positive_power(part, power)


def _positive_power(part: LoweredValue, power: Fraction) -> LoweredValue:
    part, domain = require_number(part, "The first argument of POWER")
    if power.denominator == 1:
        raise _unsupported_power()
    logarithm = take_logarithm(part)
    if logarithm is MISSING:
        return MISSING
    found = take_exponential(scale_number(logarithm, number_domain(logarithm), power))
    if domain.low > 0:
        return found
    value = Choose(Among(part.value, (0,)), Constant(0), found.value)
    high = number_domain(found)
    return part.derive_value(value, Numbers(0, high.high, high.step), total=domain.low >= 0)


def _constant_power(exponent: LoweredValue) -> Fraction:
    domain = exponent.domain
    if isinstance(exponent.value, Constant) and isinstance(domain, Numbers):
        power = domain.low * domain.step
        if abs(power) <= MOST_POWER:
            return power
    raise _unsupported_power()


def _unsupported_power() -> PolicyError:
    return PolicyError(
        "SF-Q135",
        "The second argument of POWER must be a constant.",
        allowed=f"-{MOST_POWER} to {MOST_POWER}",
        try_="POWER(x, 2), or EXP(y * LN(x))",
    )
