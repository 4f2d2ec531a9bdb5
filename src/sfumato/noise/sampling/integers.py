"""Integer arrays in and out: nothing but integers is accepted, and sums never wrap around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

IntArray = NDArray[np.int64] | NDArray[np.object_]
"""64-bit integers, or Python integers where those may not be wide enough."""

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def parse_integers(values: Any) -> IntArray:
    """Return the given integers as an array of their shape; refuse anything else before a bit is drawn."""
    array = np.asarray(values) if hasattr(values, "dtype") else _as_objects(values)
    if not array.size:
        raise UsageError("SF-N203", "There are no values to add noise to.", got=f"shape {array.shape}")
    if array.dtype == np.int64:
        return array
    if array.dtype == object:
        return _from_objects(array)
    if array.dtype.kind not in "iu":
        raise _not_whole(array.dtype.name)
    return _narrowed(array)


def as_integers(values: list[int]) -> IntArray:
    """Return integers as an array of 64 bits, or of Python integers where one does not fit."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


def add_noise(exact: IntArray, noise: IntArray) -> IntArray:
    """Return exact + noise, as 64-bit integers if all of them fit. The noise array may be overwritten."""
    if exact.size == 1:
        return as_integers([int(exact.item()) + int(noise.item())]).reshape(exact.shape)
    # Adding in place saves an allocation; a sum that might wrap around is made in Python integers instead.
    if exact.dtype == np.int64 and noise.dtype == np.int64 and _fits(exact, noise):
        return np.add(exact, noise, out=noise)
    return np.asarray(exact.astype(object) + noise.astype(object), dtype=object)


def _fits(exact: IntArray, noise: IntArray) -> bool:
    if not exact.size:
        return True
    lowest, highest = int(exact.min()) + int(noise.min()), int(exact.max()) + int(noise.max())
    return lowest >= _SMALLEST and highest <= _LARGEST


def _as_objects(values: Any) -> NDArray[np.object_]:
    # By way of objects, because NumPy turns a list that mixes small and large integers into floats.
    try:
        return np.array(values, dtype=object)
    except ValueError:
        raise _not_whole("rows of unequal length") from None


def _from_objects(array: NDArray[Any]) -> IntArray:
    whole = np.array([_whole(value) for value in array.flat], dtype=object)
    return _narrowed(whole.reshape(array.shape))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _not_whole(type(value).__name__)
    return int(value)


def _narrowed(array: NDArray[Any]) -> IntArray:
    if int(array.min()) >= _SMALLEST and int(array.max()) <= _LARGEST:
        return array.astype(np.int64)
    return array.astype(object)


def _not_whole(got: str) -> UsageError:
    return UsageError(
        "SF-N202",
        "Noise can only be added to whole numbers.",
        got=got,
        try_="numpy.floor(values / step).astype(int), to put them on a grid first",
    )
