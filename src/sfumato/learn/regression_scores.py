"""Evaluating a regressor: noisy sums of targets and squared residuals, and private quantiles of residuals.

Because : docs/proofs/evaluation.md#evaluation
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors.numbers import format_decimal, format_number, format_share
from sfumato.oracle.arrays.features import to_numbers
from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import COUNT, Add, Column, Constant, Multiply, SumBlock
from sfumato.oracle.declared import Declared
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.oracle.row_by_row import compute_row_by_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.guarantee import Guarantee

    Ints = NDArray[np.int64]

_TARGET, _RESIDUAL = Column(1, "target"), Column(1, "residual")
_RANKS = (Fraction(1, 20), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(19, 20))
"""Shares of rows whose residuals lie below the quantiles that are released."""
_QUANTILES = Fraction(1, 4)
"""Share of the spend for the quantiles of residuals, as pure ε; sums have the rest."""
_SHARES = (Fraction(1, 10), Fraction(2, 10), Fraction(2, 10), Fraction(5, 10))
"""Shares of the rest for the count, targets, squared targets and squared residuals. Privacy needs them to add
up to at most 1."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with its confidence interval, which covers the noise."""

    value: float
    low: float
    high: float

    @classmethod
    def within(cls, value: float, deviation: float, z: float) -> Measured:
        """Return a share and its interval, both clipped to 0 and 1; z deviations reach to either side."""
        low, middle, high = (min(1.0, max(0.0, value + side * z * deviation)) for side in (-1, 0, 1))
        return cls(middle, low, high)

    def __str__(self) -> str:
        return (
            f"{format_decimal(self.value, 3)} ({format_decimal(self.low, 3)} "
            f"to {format_decimal(self.high, 3)})"
        )


def make_oracle(
    columns: dict[Column, Any], ranges: dict[Column, tuple[int, int]], cost: FitBudget
) -> ArrayOracle:
    """Return an oracle over what a model says of rows, which were paid for before."""
    arrays = ArrayTable({name: each.astype(np.float64) for name, each in columns.items()}, ranges)
    return ArrayOracle(Declared((), None, ranges), cost, arrays, lambda event: None)


@dataclass(frozen=True, slots=True)
class RegressionEvaluation:
    """What noisy sums say about a regressor. Intervals cover the noise, not the choice of rows."""

    r2: Measured
    """The share of the target's variance that predictions explain."""
    rmse: Measured
    """The root of the mean squared residual, in units of the target."""
    residuals: tuple[tuple[float, float], ...]
    """Shares of rows, and the private quantiles of their residuals: targets less predictions."""
    rows: float
    """The noisy number of rows."""
    guarantee: Guarantee

    def __str__(self) -> str:
        quantiles = ", ".join(
            f"{format_share(share, 0)}: {format_number(value)}" for share, value in self.residuals
        )
        error = (
            f"{format_number(self.rmse.value)} ({format_number(self.rmse.low)} "
            f"to {format_number(self.rmse.high)})"
        )
        return f"R2         {self.r2}\nRMSE       {error}\nresiduals  {quantiles}\n{self.guarantee}"


@dataclass(frozen=True, slots=True)
class RegressionPlan:
    """What is measured of a regressor whose target lies between two ends; all of it is public."""

    low: float
    high: float
    z: float
    """Standard deviations that an interval reaches to either side."""

    @staticmethod
    def read_budget(named: Mapping[str, Any]) -> FitBudget:
        """Return what an evaluation may cost, from what was typed."""
        return FitBudget.of({name: value for name, value in named.items() if value is not None}, _QUANTILES)

    def encode_targets(self, targets: Any) -> Ints:
        """Return targets in whole steps from the middle; a missing one counts as the middle, as in fits."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        steps = np.nan_to_num((to_numbers(targets) - middle) / half * ONE, nan=0.0, posinf=ONE, neginf=-ONE)
        return np.rint(np.clip(steps, -ONE, ONE)).astype(np.int64)

    def measure_rows(self, model: Any, rows: Any, true: Ints) -> dict[Column, Ints]:
        """Return the target and the residual of each row, in steps of half and of whole bounds.

        What is said of a row must not depend on the others. Predictions are clipped to the bounds.
        """
        guessed = self.encode_targets(compute_row_by_row(model.predict, rows))
        # Halved towards zero, so that a residual has at most as many steps as a target.
        return {_TARGET: true, _RESIDUAL: np.fix((true - guessed) / 2).astype(np.int64)}

    def release(self, columns: dict[Column, Ints], cost: FitBudget) -> dict[str, Any]:
        """Return noisy sums and private quantiles, in whole steps."""
        ranges = dict.fromkeys(columns, (-ONE, ONE))
        oracle, half = make_oracle(columns, ranges, cost), Constant(-(ONE**2) // 2)
        terms: tuple[Value, ...] = (COUNT, _TARGET, *(Add(Multiply(each, each), half) for each in columns))
        blocks = [SumBlock.within((term,), ranges, share) for term, share in zip(terms, _SHARES, strict=True)]
        sums = [[float(each.values[0, 0]), each.deviation] for each in oracle.sums(blocks)]
        (ranks,) = oracle.quantiles([_RESIDUAL], _RANKS, out_of=cost.aside)
        return {"sums": sums, "ranks": ranks[:, 0].tolist()}

    def summarize(
        self, released: dict[str, Any], guarantee: Guarantee, cost: FitBudget
    ) -> RegressionEvaluation:
        """Return what follows from the sums; noise is carried over by first derivatives."""
        (count, _), (total, off), (squares, off_squares), (errors, off_errors) = released["sums"]
        rows, width = max(1.0, count), self.high - self.low
        mean = min(1.0, max(-1.0, total / rows / ONE))
        # In half bounds for targets, in whole bounds for residuals.
        second, error = (min(1.0, max(0.0, each / rows / ONE**2 + 0.5)) for each in (squares, errors))
        noise, noise_error = off_squares / rows / ONE**2, off_errors / rows / ONE**2
        noise = math.hypot(noise, 2 * mean * off / rows / ONE)
        # A variance below its own noise may be 0 in truth.
        variance = max(second - mean**2, noise, 1e-6) / 4
        unexplained = error / variance
        spread = math.hypot(noise_error, unexplained * noise / 4) / variance
        ends = [1 - unexplained + side * self.z * spread for side in (-1, 0, 1)]
        bars = [width * math.sqrt(max(0.0, error + side * self.z * noise_error)) for side in (-1, 0, 1)]
        residuals = [
            (float(share), place / ONE * width)
            for share, place in zip(_RANKS, released["ranks"], strict=True)
        ]
        low, r2, high = (min(1.0, each) for each in ends)
        return RegressionEvaluation(
            Measured(r2, low, high), Measured(bars[1], bars[0], bars[2]), tuple(residuals), rows, guarantee
        )
