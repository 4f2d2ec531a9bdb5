"""How rows of a table become inputs and targets of a module. It follows from the catalog alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.rows import Rows
from sfumato.errors import UsageError
from sfumato.oracle.arrays.coded_rows import encode_columns
from sfumato.oracle.coded_columns import CodedColumn
from sfumato.oracle.declared import Labels

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.oracle.declared import Declared


@dataclass(frozen=True, slots=True)
class TableCoding:
    """Inputs are numbers from −1 to 1 between their declared bounds, and 0 or 1 for each category.

    A missing number is 0, the middle of its bounds, unless a rule says otherwise. A target is the place of
    its class, and a row of no declared class has no loss; or it is a number from −1 to 1.
    """

    columns: tuple[CodedColumn, ...]
    middles: tuple[float, ...]
    halves: tuple[float, ...]
    bounds: tuple[int, ...]
    """The integer of each input, and last of a target that is a number, that stands for 1."""
    classes: tuple[Any, ...]
    """The declared classes; none for a target that is a number."""
    target: tuple[float, float]
    """The middle and half the width of the bounds of a target that is a number."""
    shape: tuple[int, ...]
    """The shape of one target."""
    dtype: torch.dtype

    @classmethod
    def of(cls, declared: Declared, shape: tuple[int, ...], dtype: torch.dtype) -> TableCoding:
        """Return the coding of declared features and a target."""
        goal = declared.target
        if goal is None:
            raise AssertionError("a run has a target")
        features = declared.features
        columns = declared.columns or tuple(
            CodedColumn(each.name, each.middle - each.half, each.middle + each.half) for each in features
        )
        labels = isinstance(goal, Labels)
        return cls(
            tuple(columns),
            tuple(each.middle for each in features),
            tuple(each.half for each in features),
            (*(each.bound for each in features), 1 if isinstance(goal, Labels) else goal.bound),
            goal.classes if isinstance(goal, Labels) else (),
            (0.0, 1.0) if isinstance(goal, Labels) else (goal.middle, goal.half),
            () if labels else shape,
            dtype,
        )

    def encode(self, frame: Any) -> Tensor:
        """Return the inputs of rows of one's own: a frame, or arrays by name."""
        try:
            values = [np.asarray(frame[each.name]) for each in self.columns]
        except (KeyError, TypeError, ValueError, IndexError):
            raise UsageError(
                "SF-E176",
                "The columns that the module was trained on are not all there.",
                columns=", ".join(each.name for each in self.columns),
                try_="a frame with these columns",
            ) from None
        found = (encode_columns(self.columns, values) - self.middles) / np.array(self.halves)
        return torch.from_numpy(np.clip(np.nan_to_num(found), -1, 1)).to(self.dtype)

    def make_examples(self, rows_each: int) -> Rows:
        """Return rows that anyone could make up: one for each class, or for targets at both ends."""
        targets = torch.arange(len(self.classes)) if self.classes else self._to_targets(np.array([-1.0, 1.0]))
        places = None
        if rows_each > 1:
            places = np.full((len(targets), rows_each), -1)
            places[:, 0] = np.arange(len(targets))
        return Rows(torch.zeros(len(targets), len(self.middles), dtype=self.dtype), targets, places)

    def read(self, exact: NDArray[np.int64], rows_each: int) -> Rows:
        """Return the rows of units from their figures: one row a figure and one column a unit."""
        if rows_each == 1:
            return self._read_columns(exact, None)
        # One block for each row of a unit, of which the first figure says whether there is one.
        blocks = exact.reshape(rows_each, len(exact) // rows_each, exact.shape[1])
        there = (blocks[:, 0] > 0).T
        rows = blocks[:, 1:].transpose(2, 0, 1)[there].T
        places = np.where(there, np.cumsum(there.reshape(-1)).reshape(there.shape) - 1, -1)
        return self._read_columns(rows, places.astype(np.int64))

    def _read_columns(self, rows: NDArray[np.int64], places: NDArray[np.int64] | None) -> Rows:
        scaled = (rows[:-1] / np.array(self.bounds[:-1])[:, None]).T
        inputs = torch.from_numpy(np.ascontiguousarray(scaled)).to(self.dtype)
        if not self.classes:
            return Rows(inputs, self._to_targets(rows[-1] / self.bounds[-1]), places)
        places_of = torch.from_numpy(rows[-1].astype(np.int64))
        return Rows(inputs, places_of.clamp(min=0), places, places_of >= 0)

    def _to_targets(self, numbers: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(numbers).to(self.dtype).reshape(-1, *self.shape)
