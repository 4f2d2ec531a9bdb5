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
    Greatest,
    Least,
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


def _interpolate(entries: tuple[int, ...], place: Value, number: Value, start: int, bits: int) -> Value:
    """Return the entry at a place plus its slope times what is left of a number of so many more bits.

    The number is start + place in its upper bits. What is left of it is not computed by itself: its upper
    bits are taken off in the table, so that the number is named once.
    """
    slopes = _slopes(entries)
    bases = tuple(
        (entry << bits) - slope * ((start + at) << bits)
        for at, (entry, slope) in enumerate(zip(entries, slopes, strict=False))
    )
    return Divide(Add(Lookup(place, bases), Multiply(Lookup(place, slopes), number)), Constant(2**bits))


class _Octaves:
    """A positive integer as its octave, by its number of binary digits, and its place within that."""

    def __init__(self, high: int) -> None:
        self.top = max(high.bit_length(), _ENTRY + _REST + 1)
        if high.bit_length() + self.top > WIDEST.bit_length():
            raise grid_too_fine("This logarithm or power")

    def look_up(self, value: Value, each: Callable[[int], int]) -> Value:
        """Return the entry of a number's octave; `each` is given the octave, from 0."""
        return Lookup(Binary(value), tuple(each(size - 1) if size else None for size in range(self.top + 1)))

    def interpolate(self, value: Value, entries: tuple[int, ...]) -> Value:
        """Return a table's entry for a number within its octave, between two entries by its lower bits."""
        lifted = Multiply(value, self.look_up(value, lambda octave: 2 ** (self.top - 1 - octave)))
        # All have `top` binary digits then: the upper ones find the entry, the lower ones what is between.
        lower = self.top - 1 - _ENTRY - _REST
        shortened: Value = Divide(lifted, Constant(2**lower)) if lower else lifted
        # It is never outside; said here, the rest is computed in 64 bits. A missing number has no octave.
        most = Constant(2 ** (_ENTRY + _REST + 1) - 1)
        number = Greatest(Least(shortened, most, skips=True), Constant(0), skips=True)
        place = add_integer(Divide(number, Constant(2**_REST)), -_OCTAVE)
        return _interpolate(entries, place, number, _OCTAVE, _REST)

    def compute(self, number: int, entries: tuple[int, ...]) -> int:
        """Return what `interpolate` computes of a positive integer."""
        lifted = number << (self.top - number.bit_length()) >> (self.top - 1 - _ENTRY - _REST)
        entry, rest = divmod(lifted, 2**_REST)
        low, high = entries[entry - _OCTAVE], entries[entry - _OCTAVE + 1]
        found: int = low + ((high - low) * rest >> _REST)
        return found


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
    octaves, fewer = _Octaves(domain.high), _FINE - _SHOWN
    shift, table = _log_of_step(domain.step), _logarithms()

    def start(octave: int) -> int:
        return _fixed(_LN2 * octave, _FINE) + shift

    low, high = (
        octaves.compute(end, table) + start(end.bit_length() - 1) for end in (max(domain.low, 1), domain.high)
    )
    fine = Add(octaves.interpolate(part.value, table), octaves.look_up(part.value, start))
    value = divide_by_integer(fine, Numbers(low, high), 2**fewer)
    positive = domain.low >= 1
    return part.derive_value(
        value if positive else _unless_below(part.value, 1, value),
        Numbers(low >> fewer, high >> fewer, Fraction(1, 2**_SHOWN)),
        total=positive,
    )


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
        room = 61 - domain.bound.bit_length()
        # In 64 bits where 36 of them are left for the factor, which is far finer than the grid.
        bits = room if room >= 36 else 110 - domain.bound.bit_length()
        shift = min(80, bits - size - _FINE)
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
        inside = _interpolate(_exponentials(), Divide(left, Constant(2**bits)), left, 0, bits)
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


@cache
def _powers(power: Fraction) -> tuple[int, ...]:
    """Return (i / 2^11)^power, for i from 2^11 to 2^12, with 20 bits after the point."""
    exponent = _EXACT.divide(Decimal(power.numerator), Decimal(power.denominator))
    return tuple(
        _fixed(_EXACT.power(_EXACT.divide(Decimal(_OCTAVE + i), Decimal(_OCTAVE)), exponent), _REST)
        for i in range(_OCTAVE + 1)
    )


def _positive_power(part: LoweredValue, power: Fraction) -> LoweredValue:
    """Return a power that is no product: of the octave, times that of what is left. Of 0 it is 0."""
    part, domain = require_number(part, "The first argument of POWER")
    if part is MISSING or domain.high < 0:
        return MISSING
    octaves, table, more = _Octaves(max(domain.high, 1)), _powers(power), 12

    def scale(octave: int) -> Decimal:
        number = Fraction(2**octave) * domain.step
        exact = _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
        return _EXACT.power(exact, _EXACT.divide(Decimal(power.numerator), Decimal(power.denominator)))

    largest = Fraction(scale(max(domain.high, 1).bit_length()))
    step = Fraction(2) ** choose_exponent(max(largest, Fraction(1, 2**STEPS)))

    def factor(octave: int) -> int:
        found: int = math.floor(Fraction(scale(octave)) / step * 2**more)
        return found

    def compute(end: int) -> int:
        return octaves.compute(end, table) * factor(end.bit_length() - 1) >> (_REST + more) if end > 0 else 0

    product = Multiply(octaves.interpolate(part.value, table), octaves.look_up(part.value, factor))
    value: Value = Divide(product, Constant(2 ** (_REST + more)))
    if domain.low <= 0:
        value = Choose(Among(part.value, (0,)), Constant(0), _unless_below(part.value, 1, value))
    # Where two octaves meet rounding may go down by one.
    ends = max(0, compute(domain.low) - 1), compute(domain.high) + 1
    return part.derive_value(value, Numbers(*ends, step), total=domain.low >= 0)


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
