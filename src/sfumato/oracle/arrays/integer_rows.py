"""Rows of one's own arrays as whole numbers: clipped to what was declared, centred, and clipped in norm.

Noise is exact because sums are of integers. Every feature is put on a public grid with about `ONE` steps from
the middle of its bounds to either end, and no operation here makes a row longer than its norm bound.

Because : docs/proofs/statistics.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.coded_columns import CodedColumn

    Floats = NDArray[np.float64]

ONE = 2**12
"""Steps from the middle of a feature's bounds to either end: fine beside any noise, and so coarse that the
noise of squares stays within what is drawn exactly. Privacy holds for any number of steps."""
ROWS_AT_HAND = 2**12
"""Rows that are computed at a time, so that they stay in the processor's cache. For speed alone."""
_FEW = 0.25
"""Where a smaller share of rows is too long, only those are copied and shortened. For speed alone."""


# ---- what was declared -------------------------------------------------------------------------------------


def check_bounds(bounds: Any, features: int) -> tuple[Floats, Floats]:
    """Return the lows and highs of all features, from a pair of numbers or of lists."""
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
        "SF-C104",
        "bounds must be two finite numbers, low below high, or two lists with one number for each feature.",
        try_="bounds=(-1, 1), or bounds=([0, 0], [110, 5000])",
    )


@dataclass(frozen=True, slots=True)
class ArrayBounds:
    """The declared bounds of own arrays, and how rows are brought within them."""

    middles: Floats
    halves: Floats
    """Half the width of each feature's bounds, which is the unit that features are measured in."""
    clip: float | None
    """The largest l2 norm of a row, in halves, where one was declared."""
    groups: tuple[str, ...] = ()
    """The group of each feature that is an indicator, where there are any."""

    @classmethod
    def of_columns(cls, columns: Sequence[CodedColumn]) -> ArrayBounds:
        """Return the bounds of all features that these columns become."""
        ends = np.array([each for column in columns for each in column.bounds])
        groups = tuple(group for column in columns for group in column.groups)
        return cls(ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2, None, groups)

    @classmethod
    def of(cls, features: int, bounds: Any, row_norm: Any = None) -> ArrayBounds:
        """Read what was typed: bounds of features, or else the largest norm of a row."""
        if bounds is None and row_norm is None:
            raise UsageError(
                "SF-E101",
                "Declare the bounds of features, or the norm of rows, before rows are read.",
                why="bounds measured on the data would reveal some of it",
                try_="bounds=(-1, 1), or row_norm=1.0",
            )
        if bounds is None:
            norm = float(parse_positive(row_norm, "row_norm"))
            return cls(np.zeros(features), np.full(features, norm), 1.0)
        lows, highs = check_bounds(bounds, features)
        halves = (highs - lows) / 2
        # A box has no norm bound of its own: learners choose one that suits their noise.
        return cls((lows + highs) / 2, halves, None)

    def to_integers(self, X: Floats) -> Floats:  # noqa: N803
        """Return rows of doubles as whole numbers, still held in doubles."""
        found = np.empty(X.shape)
        self.write_integers(X, found)
        return found

    def write_integers(self, X: Floats, out: Floats) -> None:  # noqa: N803
        """Round rows to the nearest step, into `out`.

        A missing number counts as the middle of its bounds, and one outside of them as the nearer bound: an
        error would say that such a row is there.
        """
        shifts = ONE * self.middles / self.halves
        with np.errstate(over="ignore"):
            np.multiply(X, ONE / self.halves, out=out)
        if shifts.any():
            out -= shifts
        np.clip(out, -ONE, ONE, out=out)
        # One sum is much faster than a search through all entries, most of which are present.
        if np.isnan(out.sum()):
            out[np.isnan(out)] = 0.0
        if self.norm is not None:
            clip_integer_rows(out, self.norm)
        else:
            np.rint(out, out=out)

    @property
    def norm(self) -> int | None:
        """The largest l2 norm of a row in steps, where one was declared."""
        return None if self.clip is None else math.floor(self.clip * ONE)


def clip_integer_rows(rows: Floats, norm: int, whole: bool = False) -> Floats:
    """Make rows, in place, whole numbers of at most this l2 norm; return by what each was multiplied.

    Where rows are `whole` already, those that are short enough stay. Room is left for rounding, by half a
    step in each entry, and for what doubles do before that: of d entries a computed length is off by less
    than (d + 4)·2⁻⁵² of itself, far below the 2⁻²⁰ that is left for it.
    """
    # See above for the two margins; privacy depends on both.
    longest = max(0.0, norm * (1 - 2.0**-20) - math.sqrt(rows.shape[1]) / 2)
    squares = np.einsum("ij,ij->i", rows, rows) if whole else _squared_norms(rows)
    scale: Floats = np.minimum(1.0, longest / np.maximum(np.sqrt(squares), 1e-300))
    long = np.flatnonzero(scale < 1) if whole else range(len(rows))
    if len(long) < _FEW * len(rows):
        rows[long] = np.rint(rows[long] * scale[long, None])
    else:
        rows *= scale[:, None]
        np.rint(rows, out=rows)
    return scale


def _squared_norms(rows: Floats) -> Floats:
    """Return the squared norm of each row, added up column by column.

    Sums along rows may be rounded differently depending on a row's place, so that one row more would change
    what others become; sums of whole numbers, as in `clip_integer_rows`, are exact either way.
    """
    found = np.zeros(len(rows))
    for column in rows.T:
        found += column * column
    return found


# ---- centring and clipping ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowTransform:
    """Centring at a public point and clipping in norm. Everything is in halves of the bounds, from −1 to 1.

    `one` stands for a constant feature. A row (one, features) that is longer than `length` is multiplied by
    what makes it as long, and its target with it: in a regression this changes the row's weight and not the
    line it speaks for. Targets beyond `target_reach` are clipped there.
    """

    length: float
    centre: tuple[float, ...] | None = None
    one: float = 0.0
    target_centre: float = 0.0
    target_reach: float = 1.0

    @property
    def norm(self) -> int:
        """The largest l2 norm of a row, in steps."""
        return max(1, math.floor(self.length * ONE))

    def centre_of(self, features: int) -> Floats:
        """Return the centre, rounded to the grid of own arrays: whole numbers stay whole."""
        if self.centre is None:
            return np.zeros(features)
        found: Floats = np.rint(np.clip(np.array(self.centre), -1.0, 1.0) * ONE) / ONE
        return found

    def repeat_centre(self, features: int) -> Floats:
        """Return the centre in steps, repeated for a few rows: arrays of one layout are subtracted faster."""
        return np.tile(self.centre_of(features) * ONE, (ROWS_AT_HAND, 1))

    def apply(self, rows: Floats, bounds: Floats, centres: Floats) -> Floats:
        """Transform rows of whole numbers in place; return by what each was multiplied.

        `bounds` are the rows' own numbers of steps, `centres` what `repeat_centre` returned. Where there is
        `one`, the first column of the rows is for it.
        """
        features, whole = rows[:, bool(self.one) :], bool((bounds == ONE).all())
        if self.one:
            # The constant is clipped with the features, so it counts in the norm.
            rows[:, 0] = self.one * ONE
        if not whole:
            features *= ONE / bounds
        if self.centre is not None:
            features -= centres[: len(rows)]
        return clip_integer_rows(rows, self.norm, whole and not self.one)
