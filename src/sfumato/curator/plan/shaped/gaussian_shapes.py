"""Sums that one row moves together, in coordinates that Gaussian noise hides all of equally well.

What a row can do to the sums of a question is the convex hull of a few moves. Coordinates are sums of sums
with whole weights. Whatever the row is, all coordinates together move by at most one width, in the l2 norm,
and independent Gaussian noise of one σ on each of them is priced by that width. Weights are found in
floating-point numbers, then rounded; the width is computed from the whole weights, exactly.

Because : docs/proofs/shaped-noise.md#gaussian-noise
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.row_columns import DerivedTotal
from sfumato.curator.plan.shaped.shapes import Coordinate, GaussianShape, LinearForm, ShapedSums
from sfumato.curator.plan.summands import ROWS, Summand
from sfumato.errors.checked import checked, require_field
from sfumato.noise.bodies.ellipsoid import fit_ellipsoid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.row_columns import GroupedColumns, SummedColumn

Weights = tuple[tuple[int, ...], ...]
"""The weights of all sums in each coordinate."""

_MOST_MOVES = 1024
"""Most moves that an ellipsoid is fitted around, so that it takes no time worth naming."""
_FINE, _ROUGH, _WIDEST = 2**8, 2**4, 2**31
"""The sum of the widest range has a weight of about so many steps: fine ones, unless a row then moved further
than the widest. Privacy does not depend on any of these numbers."""


@dataclass(frozen=True, slots=True)
@checked
class RowMoves:
    """What one row can add to sums: the convex hull of these moves."""

    sums: tuple[Summand, ...]
    moves: tuple[tuple[int, ...], ...]
    alone: tuple[bool, ...]
    """Whether a row can add the same to a sum with the opposite sign, whatever it adds to the others."""
    derived: tuple[tuple[Summand, DerivedTotal], ...] = ()

    def __post_init__(self) -> None:
        fits = all(len(move) == len(self.sums) for move in self.moves) and len(self.alone) == len(self.sums)
        require_field(fits and bool(self.moves), self, "moves", "a number for each of the sums")

    def fits(self, weights: Weights) -> bool:
        """Return whether these can be the weights of coordinates of these sums."""
        size = len(self.sums)
        square = len(weights) == size and all(len(row) == size for row in weights)
        # Moves are listed with one sign for sums that can have either: no coordinate mixes those with others.
        return square and not any(_mixes(row, self.alone) for row in weights)

    def shape(self, weights: Weights) -> ShapedSums:
        """Return the shape of these coordinates, and how sums follow from them."""
        return _shape(self, weights)

    def find_weights(self, harms: Mapping[Summand, Fraction]) -> Weights:
        """Return the coordinates for which noise does about the least harm; each is that of a sum alone."""
        asked = (*self.sums, *(total for total, _ in self.derived))
        return _find_weights(self, tuple(harms[each] for each in asked))


def list_moves_of_rows(columns: GroupedColumns) -> RowMoves | None:
    """Return what a row can add to the sums of a question.

    None where they are too many to list, or where noise that is independent between sums is as good.
    """
    sums = tuple(each for each in columns.asked if each not in columns.derived)
    used = {each.deviations for each in columns.derived.values()}
    values = {rows: [_list_ends(each, used) for each in own] for rows, own in columns.groups.items()}
    alone = {each.summand for own in columns.groups.values() for each in own if _is_alone(each, used)}
    counts = [_count_moves(rows, ends) for rows, ends in values.items()]
    if len(sums) - len(alone) < 2 or math.prod(counts) > _MOST_MOVES:
        return None
    found = [list(_list_group(rows, own, values[rows])) for rows, own in columns.groups.items()]
    joined = (
        dict(itertools.chain.from_iterable(map(dict.items, each))) for each in itertools.product(*found)
    )
    moves = dict.fromkeys(tuple(move.get(each, 0) for each in sums) for move in joined)
    kept = tuple(move for move in moves if any(move))
    return RowMoves(sums, kept, tuple(each in alone for each in sums), tuple(columns.derived.items()))


def _is_alone(column: SummedColumn, used: set[Summand]) -> bool:
    """Return whether a row may add as much as it may take away, and no other sum is computed from it."""
    return 2 * column.shift == column.span and column.summand not in used


def _list_ends(column: SummedColumn, used: set[Summand]) -> list[int]:
    ends = [-column.shift, column.span - column.shift]
    # The length of a coordinate of its own is the same for either sign.
    return ends[1:] if _is_alone(column, used) else ends


def _count_moves(rows: Summand, ends: Sequence[Sequence[int]]) -> int:
    return math.prod(map(len, ends)) + (rows != ROWS)


def _list_group(
    rows: Summand, columns: Sequence[SummedColumn], ends: Sequence[Sequence[int]]
) -> Iterator[dict[Summand, int]]:
    """Yield what a row can add to a group of sums: nothing, or one for the row and an end of each column."""
    if rows != ROWS:
        yield {}
    names = [each.summand for each in columns]
    for values in itertools.product(*ends):
        yield {rows: 1, **dict(zip(names, values, strict=True))}


# ---- weights -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _find_weights(rows: RowMoves, harms: tuple[Fraction, ...]) -> Weights:
    bounds = np.array([max(abs(move[at]) for move in rows.moves) or 1 for at in range(len(rows.sums))])
    alone = np.array(rows.alone)
    scale = bounds.astype(np.float64)
    moves = np.array(rows.moves, dtype=np.float64) / scale
    harm = _weigh_sums(rows, harms) * np.outer(scale, scale)
    own = np.diagonal(harm)[alone]
    found = fit_ellipsoid(moves[:, ~alone], moves[:, alone], harm[np.ix_(~alone, ~alone)], own)
    fine = max(_ROUGH, min(_FINE, _WIDEST // int(bounds.max()))) * float(bounds.max())
    factor = np.zeros((len(scale), len(scale)))
    factor[np.ix_(np.flatnonzero(~alone), ~alone)] = found.factor
    factor[alone, alone] = found.alone
    # A sum without any weight could not be read from the coordinates.
    steps = np.rint(factor * fine / scale)
    np.fill_diagonal(steps, np.maximum(np.diagonal(steps), 1))
    return tuple(tuple(map(int, row)) for row in steps.tolist())


def _weigh_sums(rows: RowMoves, harms: tuple[Fraction, ...]) -> NDArray[np.float64]:
    """Return the weight of the covariance of the noise, from that of each sum in its own range."""
    asked = (*rows.sums, *(total for total, _ in rows.derived))
    forms = np.array(_list_forms(rows, np.eye(len(rows.sums)).astype(int).tolist()), dtype=np.float64)
    weights = np.array([float(w) / each.bound**2 for w, each in zip(harms, asked, strict=True)])
    return np.asarray((forms.T * weights) @ forms)


def _list_forms(rows: RowMoves, forms: Sequence[Sequence[Fraction | int]]) -> list[LinearForm]:
    """Return the form of every sum, those that are derived last, from the forms of the others."""
    known = dict(zip(rows.sums, forms, strict=True))
    found = [tuple(map(Fraction, each)) for each in forms]
    for _, how in rows.derived:
        pairs = zip(known[how.deviations], known[how.rows], strict=True)
        found.append(tuple(how.times * one + how.centre * other for one, other in pairs))
    return found


# ---- shapes, exactly ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _shape(rows: RowMoves, weights: Weights) -> ShapedSums:
    require_field(rows.fits(weights), rows, "moves", "moves that these coordinates are for")
    squares = (sum(_dot(row, move) ** 2 for row in weights) for move in rows.moves)
    shape = GaussianShape(rows.sums, tuple(map(Coordinate, weights)), _root_up(max(squares)))
    asked = (*rows.sums, *(total for total, _ in rows.derived))
    return ShapedSums(shape, asked, tuple(_list_forms(rows, _invert(weights))))


def _mixes(row: Sequence[int], alone: Sequence[bool]) -> bool:
    return any(w and own for w, own in zip(row, alone, strict=True)) and sum(map(bool, row)) > 1


def _dot(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _root_up(square: int) -> int:
    root = math.isqrt(square)
    return root + (root * root < square)


def _invert(weights: Weights) -> list[list[Fraction]]:
    """Return the inverse of an upper triangular matrix, exactly."""
    size = len(weights)
    found = [[Fraction(0)] * size for _ in weights]
    for row in reversed(range(size)):
        own = weights[row]
        if any(own[:row]) or not own[row]:
            raise AssertionError("weights are upper triangular, with a weight for each sum")
        for at in range(size):
            rest = sum((own[k] * found[k][at] for k in range(row + 1, size)), start=Fraction(0))
            found[row][at] = (Fraction(at == row) - rest) / own[row]
    return found
