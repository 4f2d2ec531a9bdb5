"""Labelled rows of arrays and frames as numbers from −1 to 1: listed values become one number each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.oracle.arrays.integer_rows import ONE
from sfumato.synth.images.labelled_rows import LabelledRows, find_class
from sfumato.synth.images.mixed_rows import MixedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.synth.images.labelled_rows import SampleForm
    from sfumato.synth.images.mixed_rows import TableForm

    Ints = NDArray[np.int64]

_BLOCK = 2**12
"""Rows that are coded at a time, so that memory stays small."""


def code_rows(
    rows: int,
    numbers: int,
    read: Callable[[slice], NDArray[np.float64]],
    places: Sequence[Ints],
    sizes: Sequence[int],
) -> NDArray[np.float32]:
    """Return rows as numbers from −1 to 1; what is none of the listed values is −1 at all of them.

    `read` returns the numbers of some rows as whole numbers within ±ONE.
    """
    coded = np.full((rows, numbers + sum(sizes)), -1, dtype=np.float32)
    for start in range(0, rows, _BLOCK):
        at = slice(start, start + _BLOCK)
        coded[at, :numbers] = read(at) / ONE
    begins = np.cumsum([numbers, *sizes])[: len(sizes)]
    for begin, column in zip(begins, places, strict=True):
        known = np.flatnonzero(column >= 0)
        coded[known, begin + column[known]] = 1
    return coded


@dataclass(frozen=True, slots=True)
class CodedForm:
    """How samples of coded rows look: numbers first, then a number for each value of each listed column."""

    form: SampleForm | TableForm
    numbers: int
    sizes: tuple[int, ...]

    def find_label(self, label: Any, rows: int) -> Ints:
        """Return the place of one class, so many times."""
        return np.full(rows, find_class(label, self.form.classes))

    def write(self, coded: NDArray[Any], labels: Ints) -> tuple[Any, NDArray[Any]]:
        """Return drawn rows as they were declared; of a listed column the value with the largest number."""
        ends = np.cumsum([self.numbers, *self.sizes])
        places = [coded[:, start:end].argmax(axis=1) for start, end in pairwise(ends)]
        return self.form.write_drawn(coded[:, : self.numbers], places, labels)


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Rows of numbers from −1 to 1, with the place of each label among the classes."""

    rows: NDArray[np.float32]
    labels: Ints
    shape: tuple[int, ...]
    classes: tuple[Any, ...]
    form: CodedForm

    @classmethod
    def of(cls, X: Any, y: Any, bounds: Any, classes: Any) -> CodedRows:  # noqa: N803
        """Read rows and labels as they were declared, or refuse what cannot be learnt from."""
        given: MixedRows | LabelledRows = (
            MixedRows.of(X, y, bounds, classes)
            if isinstance(bounds, Mapping)
            else LabelledRows.of(X, y, bounds, classes)
        )
        places, sizes = (given.places, given.sizes) if isinstance(given, MixedRows) else ((), ())
        coded = code_rows(len(given.labels), given.numbers, given.read_integers, places, sizes)
        shape = given.shape if not sizes else (coded.shape[1],)
        return cls(
            coded, given.labels, shape, given.classes, CodedForm(given.sample_form(), given.numbers, sizes)
        )

    @property
    def numbers(self) -> int:
        """The numbers of a coded row."""
        return int(self.rows.shape[1])
