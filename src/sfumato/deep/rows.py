"""Rows to learn from: arrays or tensors of inputs and targets, checked before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

MADE_UP = 3
"""Rows on which a plan is compared with a loop before training."""
_CHECKED = 1 << 18
"""Values that are looked at together."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Inputs and targets, one row each, and the rows of every unit of protection."""

    inputs: Tensor
    targets: Tensor
    places: NDArray[np.int64] | None = None
    """Rows of each unit, −1 where it has fewer than `rows_per_unit`; None where every row is a unit."""
    counted: Tensor | None = None
    """Which rows have a target; None where all do. The others are there and have no loss."""

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.inputs) if self.places is None else len(self.places)

    @property
    def rows_per_unit(self) -> int:
        """Rows that every unit takes in a batch."""
        return 1 if self.places is None else self.places.shape[1]

    def take(self, units: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return inputs, targets, and which rows are there, None for all.

        Others are copies of a unit's own first row.
        """
        there = None
        if self.places is None:
            index = torch.from_numpy(units)
        else:
            places = self.places[units]
            index = torch.from_numpy(np.where(places >= 0, places, places[:, :1]).reshape(-1))
            there = torch.from_numpy(places.reshape(-1) >= 0)
        if self.counted is not None:
            counted = self.counted[index]
            there = counted if there is None else there & counted
        return self.inputs[index], self.targets[index], there

    def make_up(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return rows of the same shapes and types that say nothing about these."""
        inputs, targets = (_make_up(each, rows) for each in (self.inputs, self.targets))
        # Declared inputs lie between −1 and 1, and targets may be probabilities.
        return (inputs.mul_(2).sub_(1) if inputs.is_floating_point() else inputs), targets


def read_rows(data: Any, groups: Any = None, rows_per_unit: int = 1) -> Rows:
    """Return rows from a pair (inputs, targets), refusing what no module could learn from."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        tensors = getattr(data, "tensors", None)
        if tensors is None or len(tensors) != 2:
            raise UsageError("SF-E176", "Rows are a pair: inputs and targets.", try_="trainer.fit((X, y))")
        data = tensors
    inputs, targets = (_to_tensor(each) for each in data)
    if len(inputs) != len(targets):
        raise UsageError(
            "SF-E176",
            "There are not as many targets as inputs.",
            inputs=f"{len(inputs):,}",
            targets=f"{len(targets):,}",
            try_="one target for each row",
        )
    return Rows(inputs, targets, None if groups is None else _place_units(groups, len(inputs), rows_per_unit))


def _to_tensor(values: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(
            "SF-E176", "Rows must be arrays or tensors of numbers.", try_="X.to_numpy()"
        ) from None
    if tensor.dim() == 0 or len(tensor) == 0:
        raise UsageError("SF-E176", "There are no rows to learn from.", try_="arrays with at least one row")
    if tensor.is_floating_point() and not _is_finite(tensor):
        raise UsageError(
            "SF-N105",
            "Some values are missing or infinite.",
            try_="X = np.nan_to_num(X), or leave the rows out",
        )
    return tensor


def _is_finite(tensor: Tensor) -> bool:
    """Return whether all values are numbers, looking at some at a time: the check makes copies of them."""
    at_once = max(_CHECKED // max(tensor[0].numel(), 1), 1)
    return all(bool(torch.isfinite(some).all()) for some in tensor.split(at_once))


def number_units(groups: Any) -> NDArray[np.int64]:
    """Return the number of each row's unit: equal names are one unit, and none may be missing.

    Names are not sorted: among objects a NaN has no order, and would tear a unit apart.
    """
    named = [each.item() if isinstance(each, np.generic) else each for each in np.asarray(groups).reshape(-1)]
    numbers: dict[Any, int] = {}
    try:
        # What is missing is not equal to itself; None and pandas' NA are not equal to anything that counts.
        if any(each is None or (each == each) is not True for each in named):
            raise UsageError(
                "SF-E176",
                "Some rows have no group.",
                why="rows of one unit are bounded together, and nobody knows whose these are",
                try_="groups without missing values: leave such rows out",
            )
        return np.array([numbers.setdefault(each, len(numbers)) for each in named], dtype=np.int64)
    except TypeError:
        raise UsageError(
            "SF-E176", "Names of groups are numbers or texts.", try_="groups=frame['patient_id']"
        ) from None


def _place_units(groups: Any, rows: int, most: int) -> NDArray[np.int64]:
    """Return the first rows of each unit, at most so many."""
    owner = number_units(groups)
    if owner.shape != (rows,):
        raise UsageError("SF-E176", "There is not one group for each row.", try_="groups=frame['patient_id']")
    count = int(owner.max()) + 1
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(count))
    rank = np.arange(rows) - starts[owner[order]]
    places = np.full((count, most), -1, dtype=np.int64)
    kept = rank < most
    places[owner[order][kept], rank[kept]] = order[kept]
    return places


def _make_up(like: Tensor, rows: int) -> Tensor:
    """Return random numbers between 0 and 1, or whole ones; the first two rows always differ."""
    shape = (rows, *like.shape[1:])
    if like.is_floating_point():
        return torch.rand(shape, dtype=like.dtype)
    made = torch.randint(0, 2, shape)
    if rows > 1:
        made[1] = 1 - made[0]
    return made.to(like.dtype)
