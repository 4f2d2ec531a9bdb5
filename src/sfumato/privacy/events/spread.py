"""One mechanism on many cells: the price of a unit that is in several of them (docs/proofs/spread.md)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.errors import UsageError
from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import Event
from sfumato.privacy.events.simple import DiscreteLaplace, Exponential
from sfumato.privacy.exact import parse_noise_scale, parse_nonnegative, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from fractions import Fraction

    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.exact import Number

Moves = tuple[tuple[int, int], ...]
"""How far one unit moves the cells at worst: pairs of a distance and the number of cells that move so far."""

_MOST_SIZES = 16
"""Most different distances in a list of moves, so that a price is quick. More would lower it a little, and
any number is valid."""
_PAD = 2.0**-45
"""Of the pure ε, above what the rounding of doubles can lose in the sum over many cells."""


def list_moves(distances: Iterable[int], most: int | None = None) -> Moves:
    """Return the largest moves whose distances are at most these and add up to at most `most`.

    Every vector within these limits is majorised by what is returned.
    """
    ordered = sorted(distances, reverse=True)
    rest, found = sum(ordered) if most is None else most, Counter[int]()
    # Many different distances are rounded up to few, and the last ones are left out for that.
    for distance in ordered if len(set(ordered)) <= _MOST_SIZES else _round_up(ordered):
        moved = min(distance, rest)
        found[moved] += 1
        rest -= moved
    return tuple((distance, found[distance]) for distance in sorted(found, reverse=True) if distance)


def _round_up(ordered: list[int]) -> list[int]:
    """Return distances rounded up to one of a few, each about a fifth longer than the next."""
    few = sorted({ordered[0], *(math.ceil(ordered[0] * 2 ** (-step / 4)) for step in range(1, _MOST_SIZES))})
    return [few[bisect_left(few, distance)] for distance in ordered]


def pack_moves(most: int, each: int) -> Moves:
    """Return the largest moves of cells that move by at most `each`, and by at most `most` together."""
    full, rest = divmod(most, each)
    return (((each, full),) if full else ()) + (((rest, 1),) if rest else ())


def scale_moves(moves: Moves, times: int) -> Moves:
    """Return the moves of so many units together: each cell moves so many times as far."""
    return tuple((distance * times, cells) for distance, cells in moves)


def sum_moves(moves: Moves) -> int:
    """Return how far all cells move together."""
    return sum(distance * cells for distance, cells in moves)


def sum_squares(moves: Moves) -> int:
    """Return the square of the l2 norm of the moves of all cells."""
    return sum(cells * distance**2 for distance, cells in moves)


@tagged("SpreadLaplace", "scale", "moves", "l2_squared")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class SpreadLaplace(Event):
    """Integer Laplace noise of one `scale` on many cells, of which one unit moves several.

    Sorted by size, the moves of one unit's cells add up to at most as much as the largest of `moves` do. The
    squares of its moves add up to at most `l2_squared`: as much as those of `moves`, or less.

    Because : docs/proofs/spread.md
    """

    tag: ClassVar[str] = "spread-laplace"
    scale: Fraction
    moves: Moves
    l2_squared: int

    def __init__(self, scale: Number, moves: Moves, l2_squared: int | None = None) -> None:
        object.__setattr__(self, "scale", parse_noise_scale(scale, "scale"))
        object.__setattr__(self, "moves", _parse_moves(moves))
        most = sum_squares(self.moves)
        known = most if l2_squared is None else min(most, parse_whole(l2_squared, "l2_squared"))
        object.__setattr__(self, "l2_squared", known)

    def pure(self) -> Fraction:
        return sum_moves(self.moves) / self.scale

    def curve(self) -> Curve:
        rate = float(1 / self.scale)
        cells = _sum_cells(
            self.moves, lambda steps: divergences.discrete_laplace(rate, steps), _PAD * float(self.pure())
        )
        if self.l2_squared == sum_squares(self.moves):
            return cells
        by_norm = divergences.gaussian(float(self.scale**2 / self.l2_squared))
        return lambda order: min(cells(order), by_norm(order))

    def list_cells(self) -> Counter[Event]:
        """Return the events of the single cells, and how often each occurs."""
        return Counter({DiscreteLaplace(self.scale, steps): cells for steps, cells in self.moves})


@tagged("SpreadExponential", "epsilon", "moves")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class SpreadExponential(Event):
    """Choices of bounded range in many cells: one unit's rows move the choice of a cell by ε for each row.

    Sorted by size, the rows of one unit in the cells add up to at most as much as the largest of `moves` do.

    Because : docs/proofs/spread.md#choices
    """

    tag: ClassVar[str] = "spread-exponential"
    epsilon: Fraction
    moves: Moves

    def __init__(self, epsilon: Number, moves: Moves) -> None:
        object.__setattr__(self, "epsilon", parse_nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "moves", _parse_moves(moves))

    def pure(self) -> Fraction:
        return self.epsilon * sum_moves(self.moves)

    def curve(self) -> Curve:
        return _sum_cells(self.moves, lambda rows: divergences.bounded_range(float(self.epsilon * rows)), 0.0)

    def list_cells(self) -> Counter[Event]:
        """Return the events of the single cells, and how often each occurs."""
        return Counter({Exponential(self.epsilon * rows): cells for rows, cells in self.moves})


def price_laplace(
    scale: Fraction, moves: Moves, l2_squared: int | None = None
) -> DiscreteLaplace | SpreadLaplace:
    """Return the event of integer Laplace noise on cells that one unit moves so far."""
    spread = SpreadLaplace(scale, moves, l2_squared)
    alone = spread.moves == ((spread.moves[0][0], 1),) and spread.l2_squared == spread.moves[0][0] ** 2
    return DiscreteLaplace(scale, spread.moves[0][0]) if alone else spread


def price_choices(epsilon: Fraction, moves: Moves) -> Exponential | SpreadExponential:
    """Return the event of choices in cells of which one unit has so many rows."""
    if len(moves) == 1 and moves[0][1] == 1:
        return Exponential(epsilon * moves[0][0])
    return SpreadExponential(epsilon, moves)


def _sum_cells(moves: Moves, once: Callable[[int], Curve], pad: float) -> Curve:
    """Return the sum of all cells' curves, or the curve of one cell that moves as far as all of them."""
    # Both are bounds. Equal cells are multiplied, so that a million of them take no longer than one.
    alone, parts = once(sum_moves(moves)), [(cells, once(distance)) for distance, cells in moves]
    return lambda order: min(alone(order), math.fsum(cells * curve(order) for cells, curve in parts) + pad)


def _parse_moves(moves: Any) -> Moves:
    """Return moves as whole numbers, the farthest first and equal ones together."""
    found: Counter[int] = Counter()
    try:
        for distance, cells in moves:
            found[parse_whole(distance, "moves")] += parse_whole(cells, "moves")
    except (TypeError, ValueError):
        found.clear()
    if not found:
        raise UsageError(
            "SF-N308",
            "Moves must be pairs of a distance and a number of cells.",
            try_="sf.privacy.SpreadLaplace(10, ((1, 20),)), where one unit is in 20 cells",
        )
    return tuple((distance, found[distance]) for distance in sorted(found, reverse=True))
