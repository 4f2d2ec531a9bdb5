"""Rows of own arrays as whole numbers: brought within what was declared, seen from a point, and shortened.

A few rows at a time, so that they stay near: what is never asked for feature by feature is never laid out so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.threads import use_one_thread
from sfumato.privacy.exact import positive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Column, Value

    Floats = NDArray[np.float64]

ONE = 2**12
"""The grid has about so many steps from the middle of a feature's bounds to either end: fine beside any
noise, and so coarse that the noise of squares stays within what is drawn exactly."""
_NEAR = 2**12
"""So many rows are at hand at a time."""
_SOME = 0.25
"""Where fewer rows are too long, they are gathered."""


# ---- what was declared -------------------------------------------------------------------------------------


def box(bounds: Any, features: int) -> tuple[Floats, Floats]:
    """The lows and highs of all features, from a pair of numbers or of lists."""
    try:
        low, high = bounds
        lows, highs = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in (low, high))
    except (TypeError, ValueError):
        raise _bad_bounds() from None
    if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows < highs).all()):
        raise _bad_bounds()
    return lows, highs


def _bad_bounds() -> UsageError:
    return UsageError(
        "SF-E102",
        "bounds are two finite numbers, low below high, or two lists with one for each feature.",
        try_="bounds=(-1, 1), or bounds=([0, 0], [110, 5000])",
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """How the rows of own arrays are brought within what was declared."""

    middles: Floats
    halves: Floats
    clip: float | None
    """The longest row, in halves; longer ones are shortened."""

    @classmethod
    def of(cls, features: int, bounds: Any, row_norm: Any = None) -> Frame:
        if bounds is None and row_norm is None:
            raise UsageError(
                "SF-E101",
                "Say what rows can be before they are read.",
                why="bounds that are measured on the data would give it away",
                try_="bounds=(-1, 1), or row_norm=1.0",
            )
        if bounds is None:
            norm = float(positive(row_norm, "row_norm"))
            return cls(np.zeros(features), np.full(features, norm), 1.0)
        lows, highs = box(bounds, features)
        halves = (highs - lows) / 2
        return cls((lows + highs) / 2, halves, None)

    def integers(self, X: Floats) -> Floats:  # noqa: N803
        found = np.empty(X.shape)
        self.write(X, found)
        return found

    def write(self, X: Floats, out: Floats) -> None:  # noqa: N803
        """Rows rounded to the nearest step, which makes none longer than it may be.

        Missing counts as the middle, and what is outside as the nearer bound.
        """
        shifts = ONE * self.middles / self.halves
        with np.errstate(over="ignore"):
            np.multiply(X, ONE / self.halves, out=out)
        if shifts.any():
            out -= shifts
        np.clip(out, -ONE, ONE, out=out)
        if np.isnan(out.sum()):
            out[np.isnan(out)] = 0.0
        if self.norm is not None:
            rounded(out, self.norm)
        else:
            np.rint(out, out=out)

    @property
    def norm(self) -> int | None:
        return None if self.clip is None else math.floor(self.clip * ONE)


def rounded(rows: Floats, norm: int, whole: bool = False) -> Floats:
    """Rows in steps made whole numbers no longer than the norm, where they lie; by what each was multiplied.

    Where they are `whole` already, those that are short enough stay. Room is left for rounding, by half a
    step in each entry, and for what doubles do before that: of d entries a computed length is off by less
    than (d + 4)·2⁻⁵² of itself, far below the 2⁻²⁰ that is left for it.
    """
    longest = max(0.0, norm * (1 - 2.0**-20) - math.sqrt(rows.shape[1]) / 2)
    squares = np.einsum("ij,ij->i", rows, rows) if whole else _squares(rows)
    scale: Floats = np.minimum(1.0, longest / np.maximum(np.sqrt(squares), 1e-300))
    long = np.flatnonzero(scale < 1) if whole else range(len(rows))
    if len(long) < _SOME * len(rows):
        rows[long] = np.rint(rows[long] * scale[long, None])
    else:
        rows *= scale[:, None]
        np.rint(rows, out=rows)
    return scale


def _squares(rows: Floats) -> Floats:
    """Added up column by column. Sums along rows may be rounded as a row's place among others has it."""
    found = np.zeros(len(rows))
    for column in rows.T:
        found += column * column
    return found


# ---- rows, a few at a time ---------------------------------------------------------------------------------


class Matrix:
    """Features of all rows, within ±2·ONE. `write` computes a few rows into what it is given."""

    def __init__(self, names: Sequence[Column], rows: int, write: Callable[[slice, Floats], None]) -> None:
        self.places: dict[Value, int] = {name: place for place, name in enumerate(names)}
        self.rows = rows
        self._write = write
        self._laid: Floats | None = None
        self._kept: NDArray[np.int16] | None = None

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """All rows, a few at a time and always in the same place: memory that is new costs more than sums."""
        place = np.empty((min(self.rows, _NEAR), len(self.places)))
        for at in range(0, self.rows, _NEAR):
            rows = slice(at, min(self.rows, at + _NEAR))
            block = place[: rows.stop - rows.start]
            self.write(rows, block)
            yield rows, block

    def write(self, rows: slice, out: Floats) -> None:
        if self._laid is not None:
            out[...] = self._laid[:, rows].T
        elif self._kept is not None:
            out[...] = self._kept[rows]
        else:
            self._write(rows, out)

    @property
    def is_laid(self) -> bool:
        return self._laid is not None

    def lay(self) -> Floats:
        """One row a feature: from the first time on, kept."""
        if self._laid is None:
            found = np.empty((len(self.places), self.rows))
            for rows, block in self.blocks():
                found[:, rows] = block.T
            self._laid = found
        return self._laid

    def column(self, name: Column) -> Floats:
        found: Floats = self.lay()[self.places[name]]
        return found

    def sums(self) -> Floats:
        """As products with ones, which are faster than sums down columns and as exact.

        Who asks for sums asks for more next: what was computed is kept, in few bits.
        """
        found, kept = np.zeros(len(self.places)), np.empty((self.rows, len(self.places)), dtype=np.int16)
        for rows, block in self.blocks():
            found += np.ones(len(block)) @ block
            kept[rows] = block
        self._kept = kept
        return found

    def products(self) -> Floats:
        """Of every feature by every other, summed."""
        found = np.zeros((len(self.places), len(self.places)))
        with use_one_thread():
            for _, block in self.blocks():
                found += block.T @ block
        return found


# ---- seen from a point -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """Rows measured from a public point, and shortened. Everything is in bounds, from −1 to 1.

    `one` stands for what is the same in all rows. A row (one, features) that is longer than `length` is
    multiplied by what makes it as long, and its target with it, which changes the row's weight in a
    regression and not what it says. Targets beyond `target_reach` are cut off there.
    """

    length: float
    centre: tuple[float, ...] | None = None
    one: float = 0.0
    target_centre: float = 0.0
    target_reach: float = 1.0

    @property
    def norm(self) -> int:
        return max(1, math.floor(self.length * ONE))

    def point(self, features: int) -> Floats:
        """Where it is seen from, on the grid of own arrays: whole numbers stay whole."""
        if self.centre is None:
            return np.zeros(features)
        found: Floats = np.rint(np.clip(np.array(self.centre), -1.0, 1.0) * ONE) / ONE
        return found

    def away(self, features: int) -> Floats:
        """The point in steps, once for each of a few rows: numbers that lie alike are subtracted faster."""
        return np.tile(self.point(features) * ONE, (_NEAR, 1))

    def see(self, rows: Floats, bounds: Floats, away: Floats) -> Floats:
        """Make rows of whole numbers what they look like from there; by what each was multiplied.

        Where there is `one`, their first place is for it.
        """
        features, whole = rows[:, bool(self.one) :], bool((bounds == ONE).all())
        if self.one:
            rows[:, 0] = self.one * ONE
        if not whole:
            features *= ONE / bounds
        if self.centre is not None:
            features -= away[: len(rows)]
        return rounded(rows, self.norm, whole and not self.one)
