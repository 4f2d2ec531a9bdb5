"""Rows of own arrays, frames and images as inputs of a network: scaled by what was declared of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.errors import UsageError
from sfumato.oracle.arrays.coded_rows import encode_columns, list_columns
from sfumato.oracle.arrays.features import encode_labels, to_numbers
from sfumato.oracle.arrays.integer_rows import ArrayBounds
from sfumato.oracle.coded_columns import CodedColumn, code_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DeclaredInputs:
    """What was declared of rows before they were read: their shape, and bounds or categories of columns."""

    shape: tuple[int, ...]
    """The shape of one row: its columns, or (height, width), or (channels, height, width)."""
    columns: tuple[CodedColumn, ...]
    """How each column becomes features; for images one that all pixels share."""

    @classmethod
    def of(cls, X: Any, bounds: Any, missing: Any) -> DeclaredInputs:  # noqa: N803
        """Read declarations; of the rows only their shape and the names of columns are looked at."""
        shape = _shape_of(X)
        if len(shape) > 1:
            low, high = _find_ends(1, bounds)
            return cls(shape, (CodedColumn("pixel", low[0], high[0]),))
        names = [str(each) for each in getattr(X, "columns", [f"x{at}" for at in range(shape[0])])]
        ends = None if isinstance(bounds, Mapping) else _find_ends(shape[0], bounds)
        return cls(shape, tuple(code_columns(names, bounds, missing, ends)))

    @property
    def is_image(self) -> bool:
        """Whether a row is an image."""
        return len(self.shape) > 1

    @property
    def width(self) -> int:
        """The number of features that the columns of a table become."""
        return sum(len(each.feature_names) for each in self.columns)

    def read(self, X: Any) -> Tensor:  # noqa: N803
        """Return rows scaled by their bounds: images to between 0 and 1, other features to between −1 and 1.

        A value outside its bounds counts as the nearer bound. Every row is scaled on its own.
        """
        if _shape_of(X) != self.shape:
            raise UsageError(
                "SF-E176",
                "These rows have another shape than those of the fit.",
                fitted=str(self.shape),
                got=str(_shape_of(X)),
                try_="rows with the same columns, or images of the same size",
            )
        return self._read_images(X) if self.is_image else self._read_table(X)

    def _read_images(self, images: Any) -> Tensor:
        pixels = _to_tensor(images)
        column = self.columns[0]
        _require_finite(torch.isfinite(pixels).all())
        return ((pixels - column.low) / (column.high - column.low)).clamp_(0, 1)

    def _read_table(self, X: Any) -> Tensor:  # noqa: N803
        columns = list_columns(X)
        for column, values in zip(self.columns, columns, strict=True):
            if column.is_plain:
                _require_finite(np.isfinite(to_numbers(values)).all())
        features = encode_columns(self.columns, columns)
        declared = ArrayBounds.of_columns(self.columns)
        scaled = np.clip((features - declared.middles) / declared.halves, -1, 1)
        return torch.from_numpy(scaled.astype(np.float32))


def _find_ends(features: int, bounds: Any) -> tuple[Floats, Floats]:
    if isinstance(bounds, Mapping):
        raise UsageError("SF-C104", "All pixels of images share two bounds.", try_="bounds=(0, 255)")
    declared = ArrayBounds.of(features, bounds)
    return declared.middles - declared.halves, declared.middles + declared.halves


def _shape_of(X: Any) -> tuple[int, ...]:  # noqa: N803
    """Return the shape of one row."""
    shape = tuple(X.shape) if hasattr(X, "shape") else np.shape(X)
    if len(shape) not in (2, 3, 4):
        raise UsageError(
            "SF-E176",
            "Rows are a table of features, or images.",
            got=str(shape),
            try_="the shape (rows, features), (rows, height, width) or (rows, channels, height, width)",
        )
    if 0 in shape:
        raise UsageError("SF-E176", "There are no rows to learn from.", try_="arrays with at least one row")
    return shape[1:]


def _to_tensor(values: Any) -> Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach().to("cpu", torch.float32)
    return torch.from_numpy(to_numbers(values).astype(np.float32))


def _require_finite(holds: Any) -> None:
    if not holds:
        raise UsageError(
            "SF-N105",
            "Some values are missing or infinite, and no rule says what they count as.",
            try_='missing="indicator", or missing={"age": 40}',
        )


# ---- targets -----------------------------------------------------------------------------------------------


def _read_target(y: Any, rows: int) -> NDArray[Any]:
    """Return one target for each row."""
    found = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
    if y is None or found.shape not in ((rows,), (rows, 1)):
        raise UsageError(
            "SF-E176",
            "There is not one target for each row.",
            rows=f"{rows:,}",
            targets=str(found.shape),
            try_="fit(X, y) with as many targets as rows",
        )
    return found.reshape(rows)


def read_labels(y: Any, rows: int, classes: Sequence[Any]) -> Tensor:
    """Return the place of each label among the declared classes, refusing any other label."""
    places = encode_labels(_read_target(y, rows), classes)
    if (places < 0).any():
        raise UsageError(
            "SF-E213",
            "Some labels are none of the declared classes.",
            try_="classes with every label that occurs, or rows without the others",
        )
    return torch.from_numpy(places)


def read_numbers(y: Any, rows: int, bounds: Any) -> Tensor:
    """Return targets scaled by their bounds to between −1 and 1; one outside counts as the nearer bound."""
    numbers = to_numbers(_read_target(y, rows))
    _require_finite(np.isfinite(numbers).all())
    low, high = find_target_bounds(bounds)
    scaled = np.clip(2 * (numbers - low) / (high - low) - 1, -1, 1)
    return torch.from_numpy(scaled.astype(np.float32)).unsqueeze(1)


def find_target_bounds(bounds: Any) -> tuple[float, float]:
    """Return the two declared bounds of a target."""
    if bounds is None:
        raise UsageError(
            "SF-E101",
            "Declare the bounds of the target.",
            why="bounds measured on the data would reveal some of it",
            try_="target_bounds=(0, 100)",
        )
    low, high = _find_ends(1, bounds)
    return float(low[0]), float(high[0])
