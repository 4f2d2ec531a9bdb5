"""What the steward promises about a column, and what that makes of it: stored integers and their bounds.

The grid, the codes and every bound come from the declaration alone, never from the data or its types.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.engines.program import (
    Among,
    AtLeast,
    AtMost,
    Codes,
    Every,
    Grid,
    Predicate,
    Square,
    Term,
    Value,
    Weight,
)
from sfumato.errors import PolicyError, UsageError
from sfumato.privacy.exact import Number, exact, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.relation import Scalar

STEPS = 20
"""Without a declared step, the largest magnitude of a column is about 2^STEPS steps from zero."""


@dataclass(frozen=True, slots=True)
class Summand:
    """A term to sum: a row adds at most `bound` steps of size `step`, measured from `centre` steps."""

    term: Term
    bound: int
    step: Fraction
    centre: int = 0
    slack: int = 0
    """How many steps a row may lie above what it adds, where it was rounded down."""

    def squared(self) -> Summand:
        """The square of a deviation, rounded down to a step of which at most 2^STEPS are needed."""
        shift = max(0, (self.bound**2).bit_length() - STEPS)
        step = self.step**2 * 2**shift
        return Summand(_squared(self.term, shift), self.bound**2 >> shift, step, slack=min(shift, 1))


@dataclass(frozen=True, slots=True)
class Between:
    """A number within bounds, kept as a multiple of 2^exponent. Made by `sf.between`."""

    low: Fraction
    high: Fraction
    exponent: int
    declared_step: bool = False
    """Whether the steward named the step, which says that values are multiples of it."""

    @property
    def step(self) -> Fraction:
        return Fraction(2) ** self.exponent

    @property
    def ends(self) -> tuple[int, int]:
        return self.nearest(self.low), self.nearest(self.high)

    def nearest(self, value: Fraction) -> int:
        """The grid point a number is stored as."""
        return _nearest(value, self.step)

    def stored(self, name: str) -> Grid:
        low, high = self.ends
        return Grid(name, low, high, self.exponent)

    def compare(self, name: str, operator: str, literal: Scalar) -> Predicate:
        """Without a declared step a literal is stored like a value first, so that x ≥ c holds where x = c."""
        number = _number(name, literal)
        place = number / self.step if self.declared_step else Fraction(self.nearest(number))
        match operator:
            case ">=":
                return AtLeast(name, math.ceil(place))
            case ">":
                return AtLeast(name, math.floor(place) + 1)
            case "<=":
                return AtMost(name, math.floor(place))
            case "<":
                return AtMost(name, math.ceil(place) - 1)
            case _:
                return Every((AtLeast(name, math.ceil(place)), AtMost(name, math.floor(place))))

    def total(self, name: str) -> Summand:
        """For SUM: measured from zero."""
        return Summand(Value(name), max(map(abs, self.ends)), self.step)

    def deviation(self, name: str) -> Summand:
        """For AVG: measured from the middle of the bounds, where one row weighs least."""
        low, high = self.ends
        centre = (low + high) // 2
        return Summand(Value(name, centre), max(centre - low, high - centre), self.step, centre)

    def reach(self, name: str) -> Fraction:
        """Half the distance of the bounds: no standard deviation is larger."""
        low, high = self.ends
        return (high - low) * self.step / 2

    def to_dict(self) -> dict[str, Any]:
        ends = [str(self.low), str(self.high)]
        return {"between": ends, "exponent": self.exponent, "declared_step": self.declared_step}


@dataclass(frozen=True)
class OneOf:
    """One of a public list of texts, of numbers or of booleans. Made by `sf.one_of`."""

    values: tuple[Scalar, ...]

    @cached_property
    def numbers(self) -> tuple[Fraction, ...]:
        """The list as numbers; empty when it is one of texts or booleans."""
        return tuple(value for value in self.values if isinstance(value, Fraction))

    def shown(self) -> list[Any]:
        """The keys as people see them, all of one type that the declaration fixes."""
        if not self.numbers:
            return list(self.values)
        kind = int if all(number.denominator == 1 for number in self.numbers) else float
        return [kind(number) for number in self.numbers]

    def stored(self, name: str) -> Codes:
        values: tuple[Any, ...] = tuple(float(number) for number in self.numbers) or self.values
        return Codes(name, values)

    def compare(self, name: str, operator: str, literal: Scalar) -> Predicate:
        if operator == "=":
            return Among(name, (self._code(name, literal),))
        if not self.numbers:
            raise PolicyError(
                "SF-Q110",
                f"'{name}' has no order, so {operator} cannot be asked of it.",
                try_=f"{name} IN (…)",
            )
        bound = _number(name, literal)
        holds = {">=": bound.__le__, ">": bound.__lt__, "<=": bound.__ge__, "<": bound.__gt__}[operator]
        return Among(name, tuple(code for code, number in enumerate(self.numbers) if holds(number)))

    def total(self, name: str) -> Summand:
        weights, step = self._weights(name)
        return Summand(Weight(name, weights), max(1, *map(abs, weights)), step)

    def deviation(self, name: str) -> Summand:
        """In half steps, so that the middle of the list is a grid point too."""
        weights, step = self._weights(name)
        ends = min(weights), max(weights)
        centred = tuple(2 * weight - sum(ends) for weight in weights)
        return Summand(Weight(name, centred), max(1, ends[1] - ends[0]), step / 2, sum(ends))

    def reach(self, name: str) -> Fraction:
        weights, step = self._weights(name)
        return (max(weights) - min(weights)) * step / 2

    def _weights(self, name: str) -> tuple[tuple[int, ...], Fraction]:
        """The listed numbers on a grid: whole numbers as they are, others as in `between`."""
        if not self.numbers:
            raise PolicyError(
                "SF-Q114",
                f"'{name}' is not a number, so it has no sum and no average.",
                try_=f"COUNT(*) … GROUP BY {name}",
            )
        whole = all(number.denominator == 1 for number in self.numbers)
        step = Fraction(2) ** (0 if whole else _exponent(max(map(abs, self.numbers))))
        return tuple(_nearest(number, step) for number in self.numbers), step

    def to_dict(self) -> dict[str, Any]:
        return {
            "one_of": [str(v) if isinstance(v, Fraction) else v for v in self.values],
            "kind": _kind(self.values[0]),
        }

    @cached_property
    def _codes(self) -> dict[tuple[str, Scalar], int]:
        """By kind and value, since to Python True is 1."""
        return {(_kind(value), value): code for code, value in enumerate(self.values)}

    def _code(self, name: str, literal: Scalar) -> int:
        code = self._codes.get((_kind(literal), literal))
        if code is None:
            raise PolicyError(
                "SF-Q112",
                f"{literal} is not one of the declared values of '{name}'.",
                declared=_some(self.shown()),
            )
        return code


Promise = Between | OneOf


def between(low: Number, high: Number, step: Number | None = None) -> Between:
    """Promise that a column holds numbers from `low` to `high`. Values outside are moved to the nearer bound.

    Values are kept as multiples of `step`, a power of two. Without one, the step is chosen from the bounds
    so that rounding is far below any noise.
    """
    bottom, top = exact(low, "low"), exact(high, "high")
    if not bottom < top:
        raise UsageError(
            "SF-C104", "between needs a lower bound below its upper bound.", got=f"between({low}, {high})"
        )
    exponent = _exponent(max(abs(bottom), abs(top))) if step is None else _power_of_two(step)
    promise = Between(bottom, top, exponent, step is not None)
    ends = promise.ends
    if max(map(abs, ends)) > 2**52 or ends[0] == ends[1]:
        raise UsageError(
            "SF-C105",
            "This step does not suit these bounds.",
            why="a bound must be at most 2^52 steps from zero, and the bounds must differ by a step",
            try_=f"between({low}, {high})",
        )
    return promise


def one_of(*values: str | bool | Number) -> OneOf:
    """Promise the only values a column can have. Any other value counts as missing."""
    if not values:
        raise UsageError("SF-C106", "one_of needs at least one value.", try_='sf.one_of("A", "B")')
    scalars = tuple(_scalar(value) for value in values)
    if len({_kind(scalar) for scalar in scalars}) > 1:
        raise UsageError("SF-C107", "The values of one_of must all be texts, all numbers or all booleans.")
    if len(set(scalars)) < len(scalars):
        raise UsageError("SF-C108", "one_of lists a value twice.")
    return OneOf(scalars)


def promise_from_dict(fields: dict[str, Any]) -> Promise:
    if "between" in fields:
        low, high = fields["between"]
        return Between(Fraction(low), Fraction(high), fields["exponent"], fields["declared_step"])
    number = fields["kind"] == "number"
    return OneOf(tuple(Fraction(value) if number else value for value in fields["one_of"]))


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, Collection):
        raise UsageError(
            "SF-C122",
            "one_of takes the values themselves.",
            try_='sf.one_of("A", "B"), or sf.one_of(*values)',
        )
    number = exact(value, "a value of one_of")
    if abs(number) > 2**53 or exact(float(number), "a value of one_of") != number:
        raise UsageError(
            "SF-C109", "A number of one_of cannot be told apart from its neighbours.", got=str(value)
        )
    return number


def _some(values: Sequence[object]) -> str:
    listed = ", ".join(map(str, values[:8]))
    return listed if len(values) <= 8 else f"{listed}, … ({len(values)} values)"


def _kind(value: Scalar) -> str:
    return "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"


def _number(name: str, literal: Scalar) -> Fraction:
    if isinstance(literal, Fraction):
        return literal
    raise PolicyError(
        "SF-Q111",
        f"'{name}' is a number and is compared with a {_kind(literal)}.",
        try_=f"{name} >= 10",
    )


def _squared(deviation: Term, shift: int) -> Term:
    match deviation:
        case Value(column, centre):
            return Square(column, centre, shift)
        case Weight(column, weights):
            return Weight(column, tuple(weight**2 >> shift for weight in weights))
        case _:
            raise AssertionError(deviation)


def _nearest(value: Fraction, step: Fraction) -> int:
    return math.floor(value / step + Fraction(1, 2))


def _exponent(magnitude: Fraction) -> int:
    """The exponent of the smallest step that keeps this magnitude within 2^STEPS steps."""
    whole = max(magnitude.numerator, 1)
    exponent = whole.bit_length() - magnitude.denominator.bit_length() + 1
    while magnitude <= Fraction(2) ** (exponent - 1):
        exponent -= 1
    return exponent - STEPS


def _power_of_two(step: Number) -> int:
    size = positive(step, "step")
    one, other = min(size.numerator, size.denominator), max(size.numerator, size.denominator)
    if one != 1 or other & (other - 1):
        raise UsageError("SF-C105", "step must be a power of two.", got=str(step), try_="step=1 or step=0.25")
    exponent = other.bit_length() - 1
    return exponent if size >= 1 else -exponent
