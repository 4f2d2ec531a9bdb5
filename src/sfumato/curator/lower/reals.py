"""Doubles of a row: between which ends they lie, how near to zero, and how far rounding takes them.

A number is a double from the first real quotient or function on. What is rounded is known when planning: the
ends follow by the same operations on the ends, since rounding keeps the order of numbers; so a value never
overflows, and where one could underflow what is below 2^-60 is made 0 first. A double that leaves a row, into
a sum, a key or another table, is clipped to its ends and put on a grid of integers.

Because : docs/proofs/rows.md
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.lowered_value import MISSING, LoweredValue, Real, require_number
from sfumato.engines.values import (
    Add,
    Choose,
    Constant,
    Double,
    Either,
    Greatest,
    Least,
    Less,
    Multiply,
    Power,
    Predicate,
    Quotient,
    RealConstant,
    RealFunction,
    Value,
    Whole,
)
from sfumato.errors import PolicyError

GRID = 28
"""A double that leaves a row is rounded to its range divided by 2^GRID. Privacy does not depend on it."""
_FARTHEST = 900
"""No double is larger than 2^900, and none but 0 smaller than 2^-900."""
_SMALL = -60
"""Doubles below 2^-60 become 0 where a product or a quotient of them could underflow."""
_ULP = 2.0**-53
"""What rounding to a double changes a number by, relative to it."""
_CURVED = 2.0**-51
"""The same for logarithms, exponentials and powers, of which engines differ in the last bit."""
_WIDER = 2.0**-45
"""What ends of those are moved outwards by, far more than any engine is off."""


# ---- from integers and back --------------------------------------------------------------------------------


def as_real(part: LoweredValue, what: str) -> Real:
    """Return a number as a double: the one that was computed, or an integer times its step, rounded once."""
    if part.real is not None:
        return part.real
    part, domain = require_number(part, what)
    if part is MISSING:
        return Real(Constant(None), 0.0, 0.0, 0)
    if isinstance(part.value, Constant):
        return constant_real(domain.low * domain.step)
    return _stretched(Double(part.value), domain, domain.step)


def constant_real(number: Fraction) -> Real:
    """Return a constant as the nearest double."""
    nearest = _nearest(number)
    error = 0.0 if Fraction(nearest) == number else abs(nearest) * _ULP
    relative = _ULP if error else 0.0
    whole = nearest.is_integer()
    quantum, unsigned = _exponent(nearest), nearest >= 0
    return Real(_constant(nearest), nearest, nearest, quantum, error, relative, whole, unsigned)


def _stretched(value: Value, domain: Numbers, factor: Fraction) -> Real:
    """Return an integer times a factor: times its numerator, and divided by its denominator.

    What a grid lost before is carried through sums and products of integers, and no further.
    """
    above, below = _nearest(Fraction(factor.numerator)), _nearest(Fraction(factor.denominator))
    ends = [float(end) * above / below for end in (domain.low, domain.high)]
    if above != 1:
        value = Multiply(value, _constant(above))
    if below != 1:
        value = Quotient(value, _constant(below), nonzero=True)
    rounded = max(domain.bound * factor.numerator, factor.denominator) > 2**53 or below != 1
    relative = 4 * _ULP if rounded else 0.0
    quantum = _exponent(_nearest(factor)) - 1
    found = Real(value, ends[0], ends[1], quantum, relative=relative, unsigned=domain.low >= 0)
    return _checked(replace(found, error=relative * found.bound))


def align_reals(left: LoweredValue, right: LoweredValue, what: str) -> tuple[Real, Real]:
    """Return dividend and divisor: two integers on their common step, so that a quotient is rounded once."""
    if left.real is None and right.real is None and MISSING not in (left, right):
        one, first = require_number(left, what)
        other, second = require_number(right, what)
        ratio = first.step / second.step
        if max(first.bound * ratio.numerator, second.bound * ratio.denominator) < 2**53:
            return (
                _stretched(Double(one.value), first, Fraction(ratio.numerator)),
                _stretched(Double(other.value), second, Fraction(ratio.denominator)),
            )
    return as_real(left, what), as_real(right, what)


def settle_real(found: Real, *parts: LoweredValue, total: bool = True) -> LoweredValue:
    """Return a double computed from these parts, with the integer that stands for it outside of the row."""
    constant, present = all(part.constant for part in parts), all(part.present for part in parts)
    # Not finer than a double far from zero.
    width = max(found.high - found.low, found.bound * 2.0**-20)
    return _on_grid(_checked(found), width, GRID, constant, total and present)


def coarsen_real(part: LoweredValue, found: Real, bits: int) -> LoweredValue:
    """Return a double as an integer of at most so many bits, with ends whose middle is an integer too.

    Deviations from a middle between two integers count half steps, which takes DuckDB a tenth longer.
    """
    return _on_grid(found, found.bound, bits, part.constant, part.present, centred=True)


def _on_grid(
    found: Real, width: float, bits: int, constant: bool, present: bool, *, centred: bool = False
) -> LoweredValue:
    exponent = math.frexp(max(width, 2.0**-_FARTHEST))[1] - bits
    if found.quantum - exponent < -1000:
        found = _flushed(found)
    step = 2.0**exponent
    low, high = math.floor(found.low / step), math.ceil(found.high / step)
    high += (low + high) % 2 if centred else 0
    whole = Whole(found.value, "even", exponent, low, high, not _is_bounded(found))
    domain, error = Numbers(low, high, Fraction(2) ** exponent), found.error + step / 2
    return LoweredValue(whole, domain, constant, present, found, error)


def settle_whole(found: Real, rule: str, step: Fraction, *parts: LoweredValue) -> LoweredValue:
    """Return a double rounded by a rule to integers of this step."""
    ends = _round_end(found.low, rule), _round_end(found.high, rule)
    value = Whole(found.value, rule, 0, *ends, not _is_bounded(found))
    domain = Numbers(*ends, step)
    return LoweredValue(
        value, domain, all(part.constant for part in parts), all(part.present for part in parts)
    )


def _round_end(end: float, rule: str) -> int:
    match rule:
        case "floor":
            return math.floor(end)
        case "zero":
            return math.trunc(end)
    return math.floor(abs(end) + 0.5) * (1 if end >= 0 else -1)


def _is_bounded(found: Real) -> bool:
    """Return whether LEAST and GREATEST of constants, which an analyst wrote, keep the ends already."""
    low, high = _written_ends(found.value)
    low = 0.0 if low is None and found.unsigned else low
    return low is not None and high is not None and found.low <= low and high <= found.high


def _written_ends(value: Value) -> tuple[float | None, float | None]:
    """Return the ends that extremes of constants keep, whatever else is in them, missing or not."""
    if isinstance(value, RealConstant):
        return float(value.digits), float(value.digits)
    if not isinstance(value, Least | Greatest):
        return None, None
    sides = value.left, value.right
    lows, highs = zip(*map(_written_ends, sides), strict=True)
    low = None if None in lows else min(lows)
    high = None if None in highs else max(highs)
    constants = [float(side.digits) for side in sides if isinstance(side, RealConstant)]
    if constants and isinstance(value, Least):
        high = min(constants)
    if constants and isinstance(value, Greatest):
        low = max(constants)
    return low, high


# ---- arithmetic --------------------------------------------------------------------------------------------


def add_reals(one: Real, other: Real) -> Real:
    """Return the sum of two doubles."""
    same_sign = min(one.low, other.low) >= 0 or max(one.high, other.high) <= 0
    # A double is a multiple of its last bit, so a difference is too.
    quantum = min(one.quantum, other.quantum) - (0 if same_sign else 53)
    if quantum < -_FARTHEST:
        return add_reals(_flushed(one), _flushed(other))
    low, high = one.low + other.low, one.high + other.high
    error = one.error + other.error
    relative = max(one.relative, other.relative) + _ULP if same_sign else math.inf
    return _rounded(Real(Add(one.value, other.value), low, high, quantum, error, relative))


def negate_real(one: Real) -> Real:
    """Return a double with its sign changed."""
    value = Multiply(one.value, _constant(-1.0))
    return replace(one, value=value, low=-one.high, high=-one.low, unsigned=False)


def multiply_reals(one: Real, other: Real) -> Real:
    """Return the product of two doubles."""
    if one.quantum + other.quantum < -_FARTHEST:
        one, other = _flushed(one), _flushed(other)
    corners = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    square = one.value == other.value
    low = max(0.0, min(corners)) if square else min(corners)
    error = one.bound * other.error + other.bound * one.error + one.error * other.error
    relative = one.relative + other.relative + 2 * _ULP
    quantum = one.quantum + other.quantum
    value = Multiply(one.value, other.value)
    return _rounded(Real(value, low, max(corners), quantum, error, relative))


def divide_reals(one: Real, other: Real) -> Real:
    """Return the quotient of two doubles, missing where the divisor is 0."""
    if max(map(abs, (other.low, other.high))) == 0:
        return Real(Quotient(one.value, other.value), 0.0, 0.0, 0)
    far = _exponent(other.bound) + 1
    if one.quantum - far < -_FARTHEST:
        one = _flushed(one)
    # The divisor lies between its ends and not nearer to 0 than it can be; a quotient is largest at corners.
    ends = [*([max(other.low, other.nearest), other.high] if other.high > 0 else [])]
    ends += [other.low, min(other.high, -other.nearest)] if other.low < 0 else []
    corners = [_divide(a, b) for a in (one.low, one.high) for b in ends]
    most = max(map(abs, corners))
    beside = other.relative if math.isfinite(other.relative) else other.error / other.nearest
    error = one.error / other.nearest + most * beside
    relative = one.relative + other.relative + 2 * _ULP
    value, unsigned = Quotient(one.value, other.value, other.nonzero), one.unsigned and other.unsigned
    quantum = one.quantum - far
    return _rounded(Real(value, min(corners), max(corners), quantum, error, relative, unsigned=unsigned))


def _divide(above: float, below: float) -> float:
    return above / below if abs(below) >= 1 or abs(above) <= 2.0**_FARTHEST * abs(below) else math.inf


def scale_real(one: Real, factor: Fraction) -> Real:
    """Return a double times a constant; by a divisor, if the constant is one over an integer."""
    if factor.numerator == 1 and factor != 1:
        return divide_reals(one, constant_real(1 / factor))
    return one if factor == 1 else multiply_reals(one, constant_real(factor))


def take_extreme(one: Real, other: Real, kind: type[Least | Greatest], ends: tuple[bool, bool]) -> Real:
    """Return LEAST or GREATEST of two doubles; `ends` says which of them are never missing."""
    known = [side for side, present in zip((one, other), ends, strict=True) if present]
    low, high = min(one.low, other.low), max(one.high, other.high)
    if kind is Least:
        high = min((side.high for side in known), default=high)
    else:
        low = max((side.low for side in known), default=low)
    joined = _joined(kind(one.value, other.value, skips=True), one, other, low, high)
    return replace(joined, whole=one.whole and other.whole, unsigned=one.unsigned and other.unsigned)


def choose_real(condition: Predicate, then: Real, otherwise: Real) -> Real:
    """Return one double where a condition is true, else the other."""
    return _either(Choose(condition, then.value, otherwise.value), then, otherwise)


def coalesce_reals(first: Real, second: Real) -> Real:
    """Return the first double, or the second where it is missing."""
    return _either(Either(first.value, second.value), first, second)


def _either(value: Value, one: Real, other: Real) -> Real:
    known = [side for side in (one, other) if side.value != Constant(None)] or [one]
    low, high = min(side.low for side in known), max(side.high for side in known)
    return _joined(value, known[0], known[-1], low, high)


def _joined(value: Value, one: Real, other: Real, low: float, high: float) -> Real:
    relative = max(one.relative, other.relative)
    error = max(one.error, other.error)
    bound = max(abs(low), abs(high))
    if math.isfinite(relative):
        error = min(error, relative * bound)
    return Real(value, low, high, min(one.quantum, other.quantum), min(error, high - low), relative)


# ---- functions ---------------------------------------------------------------------------------------------


def absolute_real(one: Real) -> Real:
    """Return ABS of a double."""
    low = 0.0 if one.low <= 0 <= one.high else min(abs(one.low), abs(one.high))
    return replace(one, value=RealFunction("abs", one.value), low=low, high=one.bound)


def round_real(one: Real, rule: str) -> Real:
    """Return a double rounded by a rule of `Whole`, as a double: no integer of 64 bits holds it."""
    ends = [float(_round_end(end, rule)) for end in (one.low, one.high)]
    name = {"away": "round", "zero": "trunc"}.get(rule, rule)
    return _checked(Real(RealFunction(name, one.value), ends[0], ends[1], 0, whole=True))


def root_real(one: Real) -> Real:
    """Return SQRT of a double, missing below 0."""
    low, high = (math.sqrt(max(end, 0.0)) for end in (one.low, one.high))
    relative = one.relative / 2 + 2 * _ULP
    value = RealFunction("sqrt", one.value, one.low >= 0)
    return _rounded(Real(value, low, high, one.quantum // 2 - 1, math.sqrt(one.error), relative))


def logarithm_real(one: Real, name: str) -> Real | None:
    """Return a logarithm of a double, missing at 0 and below; None where it is always missing."""
    if one.high <= 0:
        return None
    compute = {"ln": math.log, "log2": math.log2, "log10": math.log10}[name]
    lowest = max(one.low, one.nearest) if one.low >= 0 else 2.0**one.quantum
    low, high = compute(min(lowest, one.high)), compute(one.high)
    low, high = low - abs(low) * _WIDER - _ULP, high + abs(high) * _WIDER + _ULP
    spread = one.relative if math.isfinite(one.relative) else one.error / lowest
    error = 2 * spread + max(abs(low), abs(high)) * _CURVED
    # Next to 1 a double is half a last bit away from it, and LN as far from 0.
    value = RealFunction(name, one.value, one.low > 0)
    return _checked(Real(value, low, high, -55, min(error, high - low), math.inf))


def exponential_real(one: Real, *, present: bool) -> Real:
    """Return EXP of a double; arguments below -620 count as -620, where it is 2^-894."""
    least = -620.0
    if one.high > 623:
        raise too_far("EXP", "EXP(LEAST(x, 200))")
    if one.low < least:
        value = Greatest(one.value, _constant(least), skips=present)
        one = replace(one, value=value, low=least, high=max(one.high, least))
    low, high = math.exp(one.low) * (1 - _WIDER), math.exp(one.high) * (1 + _WIDER)
    relative = math.expm1(min(one.error, 600.0)) + _CURVED
    quantum = _exponent(low) - 1
    value_of = RealFunction("exp", one.value)
    return _rounded(Real(value_of, low, high, quantum, math.inf, relative))


def power_real(one: Real, power: Fraction) -> Real | None:
    """Return a positive double to a constant power; None where it is always missing. 0 stays 0."""
    if one.high < 0 or (one.high == 0 and power < 0):
        return None
    exponent = _nearest(power)
    if one.quantum * abs(exponent) > _FARTHEST or one.quantum * abs(exponent) < -_FARTHEST:
        one = _flushed(one)
    lowest = max(one.low, 0.0) if exponent > 0 else max(one.low, one.nearest)
    lowest = min(lowest, one.high)
    ends = sorted(_raise_to(end, exponent) for end in (lowest, one.high))
    low, high = ends[0] * (1 - _WIDER), ends[1] * (1 + _WIDER)
    near = [_raise_to(end, exponent) for end in (min(one.nearest, one.high), one.high) if end > 0]
    relative = abs(exponent) * one.relative * 2 + _CURVED
    value = Power(one.value, _constant(exponent), one.low > 0 or (exponent > 0 and one.low >= 0))
    quantum = _exponent(min(near)) - 1 if near else 0
    error = _error_of_power(one, lowest, exponent) + high * _CURVED
    return _rounded(Real(value, low, high, quantum, error, relative))


def _error_of_power(one: Real, lowest: float, exponent: float) -> float:
    """Return how far a power is off at most, by how steep it is: most at the far end, or next to 0."""
    if not one.error:
        return 0.0
    if 0 < exponent < 1:
        return float(one.error**exponent)
    steepest = one.bound + one.error if exponent > 0 else lowest - one.error
    return abs(exponent) * _raise_to(steepest, exponent - 1) * one.error if steepest > 0 else math.inf


def _raise_to(end: float, exponent: float) -> float:
    try:
        return float(end**exponent)
    except OverflowError:
        return math.inf


# ---- parts -------------------------------------------------------------------------------------------------


def too_far(what: str, instead: str) -> PolicyError:
    """Return the refusal of a number that could be too large for a double."""
    return PolicyError("SF-Q158", f"{what} could be larger than 2^{_FARTHEST}.", try_=instead)


def _rounded(found: Real) -> Real:
    """Add the rounding of the last operation to the errors of a double; the smaller of both counts."""
    bound = found.bound
    if not bound:
        return replace(found, error=0.0)
    error = min(found.relative * bound, found.error + bound * _ULP, found.high - found.low + bound * _ULP)
    return _checked(replace(found, error=error))


def _checked(found: Real) -> Real:
    if not found.bound <= 2.0**_FARTHEST:
        raise too_far("This number", "GREATEST(x, 0.001) where x is a divisor, or LEAST(x, 1000)")
    return found


def _flushed(one: Real) -> Real:
    """Return a double with what is below 2^-60 made 0."""
    if one.quantum >= _SMALL:
        return one
    below = Less(RealFunction("abs", one.value), _constant(2.0**_SMALL))
    return replace(
        one,
        value=Choose(below, _constant(0.0), one.value),
        low=min(one.low, 0.0),
        high=max(one.high, 0.0),
        quantum=_SMALL,
        error=one.error + 2.0**_SMALL,
        relative=math.inf,
    )


def _constant(number: float) -> RealConstant:
    return RealConstant(repr(number))


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        raise too_far("This number", "a smaller number") from None


def _exponent(number: float) -> int:
    """Return the largest power of two that a number is not below."""
    return math.frexp(number)[1] - 1 if number else 0
