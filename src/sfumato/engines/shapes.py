"""The shapes of answers, for engines that hand over columns of Python's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellSums,
    HistogramCounts,
    KeyedSums,
    SumsByKey,
    UnitFigures,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.engines.program import EngineProgram, Integers

_SMALL = 2**63


def shape_answer(
    program: EngineProgram[Any], columns: Sequence[Sequence[Any]]
) -> Integers | HistogramCounts | SumsByKey:
    """Return what the program's SQL selected, column by column, as the program's answer."""
    match program:
        case CellSums():
            return _fill_cells(columns[0], columns[1:], program.cells)
        case CellHistogram() | CellHistograms():
            found = sorted(zip(*columns, strict=True))
            places, counts = np.array(found, dtype=np.int64).reshape(-1, 2).T
            return HistogramCounts(places, counts, program.size)
        case KeyedSums(keys=keys):
            units, *sums = columns[len(keys) :]
            listed = list(zip(*(map(_key, column) for column in columns[: len(keys)]), strict=True))
            every = range(len(units))
            whole = _fill_cells(every, [units], len(every))[0]
            return SumsByKey(listed, whole, _fill_cells(every, sums, len(every)))
        case UnitFigures():
            return _fill_cells(range(len(columns[0])), columns, len(columns[0]))
    raise TypeError(type(program).__name__)


def _key(key: Any) -> int | str | None:
    return key if key is None or isinstance(key, str) else int(key)


def _fill_cells(cells: Sequence[int], sums: Sequence[Sequence[Any]], size: int) -> Integers:
    """Decimals without digits after the point are integers, whichever way they were cast."""
    whole = [[int(number) for number in each] for each in sums]
    # Sums may need more than 64 bits; then every number is Python's own, and none is rounded.
    small = all(-_SMALL <= number < _SMALL for each in whole for number in each)
    filled: Integers = np.zeros((len(whole), size), dtype=np.int64 if small else object)
    for row, numbers in zip(filled, whole, strict=True):
        row[list(cells)] = numbers
    return filled
