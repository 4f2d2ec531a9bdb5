"""Labelled rows of frames with numbers and listed values, as they are declared, checked before a charge."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.arrays.features import check_classes, encode_labels, to_numbers
from sfumato.oracle.arrays.integer_rows import ArrayBounds
from sfumato.oracle.coded_columns import code_columns
from sfumato.synth.images.labelled_rows import check_numbers, find_class, read_classes
from sfumato.synth.own_frames import list_own_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.oracle.coded_columns import CodedColumn

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MixedRows:
    """Rows whose columns are numbers or listed values, with the place of each label among the classes."""

    columns: tuple[CodedColumn, ...]
    values: Floats
    """The columns that are numbers."""
    bounds: ArrayBounds
    places: tuple[Ints, ...]
    """The place of each value among those of its column, −1 for none, for columns that are listed."""
    labels: Ints
    classes: tuple[Any, ...]

    @classmethod
    def of(cls, frame: Any, y: Any, bounds: Mapping[str, Any], classes: Any) -> MixedRows:
        """Read a frame as it was declared, or refuse what cannot be learnt from."""
        listed = check_classes(classes)
        given = list_own_columns(frame, None)
        columns = tuple(code_columns(list(given), bounds, None))
        rows = len(next(iter(given.values())))
        plain = [each for each in columns if not each.categories]
        values = np.zeros((rows, len(plain)))
        for at, each in enumerate(plain):
            values[:, at] = to_numbers(given[each.name])
        check_numbers(values, rows)
        places = tuple(
            encode_labels(given[each.name], each.categories) for each in columns if each.categories
        )
        ends = np.array([[each.low, each.high] for each in plain]).reshape(-1, 2)
        limits = ArrayBounds(ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2, None)
        return cls(columns, values, limits, places, read_classes(y, rows, listed), listed)

    @property
    def numbers(self) -> int:
        """The number of columns that are numbers."""
        return int(self.values.shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column that is listed."""
        return tuple(len(each.categories) for each in self.columns if each.categories)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a row."""
        return (self.numbers,)

    def read_integers(self, at: slice) -> Floats:
        """Return the numbers of some rows as whole numbers within ±ONE."""
        return self.bounds.to_integers(self.values[at])

    def sample_form(self) -> TableForm:
        """Return how samples look."""
        return TableForm(self.columns, self.bounds.middles, self.bounds.halves, np.array(self.classes))


@dataclass(frozen=True, slots=True)
class TableForm:
    """How samples of a frame look: its columns in their order, numbers within bounds, and listed values."""

    columns: tuple[CodedColumn, ...]
    middles: Floats
    halves: Floats
    classes: NDArray[Any]
    steps: tuple[Fraction, ...] = ()
    """The grid of each number, where the catalog declares one: samples lie on it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a row."""
        return (len(self.middles),)

    def find_label(self, label: Any, rows: int) -> Ints:
        """Return the place of one class, so many times."""
        return np.full(rows, find_class(label, self.classes))

    def write_drawn(
        self, numbers: Floats, places: Sequence[Ints], labels: Ints
    ) -> tuple[pa.Table, NDArray[Any]]:
        """Return a table of rows, and the classes of labels."""
        import pyarrow as pa

        values = iter((numbers * self.halves + self.middles).T)
        steps: Iterator[Fraction | None] = iter(self.steps) if self.steps else repeat(None)
        drawn = iter(places)
        found = {
            each.name: _choose_values(each.categories, next(drawn))
            if each.categories
            else _place_numbers(next(values), each, next(steps))
            for each in self.columns
        }
        return pa.table(found), self.classes[labels]


def _choose_values(categories: tuple[Any, ...], places: Ints) -> list[Any]:
    return [categories[place] for place in places.tolist()]


def _place_numbers(values: Floats, column: CodedColumn, step: Fraction | None) -> NDArray[Any]:
    """Return numbers within their bounds, on their grid where there is one: integers if it is one of them."""
    if step is None:
        return np.clip(values, column.low, column.high)
    places = np.rint(np.clip(values, column.low, column.high) / float(step)).astype(np.int64)
    least, most = round(column.low / step), round(column.high / step)
    places = np.clip(places, least, most)
    return places * int(step) if step.denominator == 1 else places * float(step)
