"""A hold-out of own arrays: which side a unit is on depends on the unit and a key, and on nothing else.

So neighbouring tables have neighbouring sides, and what is fitted on one side and measured on the other is
about different units: both together cost what the dearer of them does.

Because : docs/proofs/learners.md#hold-outs
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from sfumato.errors import UsageError

_BLOCKS = 2**16
"""Blocks that units are in, by 16 bits of a keyed hash: as behind the curator."""


def train_test_split(*arrays: Any, units: Any = None, train_size: float = 0.8, key: str | None = None) -> Any:
    """Return the training and the test rows of each array, as scikit-learn does.

    All rows with the same entry of `units` are on one side, by a keyed hash of it: the rule of `split=`
    behind the curator. Without a key it is drawn anew each time. Without `units` each row is a unit and its
    side is drawn by itself. The split costs nothing.
    """
    if not arrays or not _is_share(train_size):
        raise UsageError(
            "SF-U104",
            "A split takes arrays, and the share of units to train on, between 0 and 1.",
            try_="train_test_split(X, y, units=patient_ids, train_size=0.8)",
        )
    if units is None and key is not None:
        raise UsageError(
            "SF-U104",
            "A key needs units: rows without one are told apart by their place alone.",
            why="the place of a row changes when another is removed",
            try_="units=patient_ids, or no key",
        )
    check_consistent_length(*arrays, *([] if units is None else [units]))
    size = len(arrays[0]) if not hasattr(arrays[0], "shape") else arrays[0].shape[0]
    blocks = _draw_blocks(size) if units is None else _hash_units(units, key)
    first = blocks < round(float(train_size) * _BLOCKS)
    return [_take(array, side) for array in arrays for side in (first, ~first)]


def _is_share(train_size: Any) -> bool:
    try:
        return 0 < float(train_size) < 1
    except (TypeError, ValueError):
        return False


def _draw_blocks(rows: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return np.frombuffer(secrets.token_bytes(2 * rows), dtype=np.uint16)


def _hash_units(units: Any, key: str | None) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Return the block of each row's unit, by what the unit is written as."""
    own = secrets.token_bytes(32) if key is None else hashlib.sha256(key.encode()).digest()
    written = [str(each) for each in np.asarray(units).ravel().tolist()]
    found = {
        each: int.from_bytes(hashlib.blake2b(each.encode(), key=own, digest_size=2).digest(), "big")
        for each in set(written)
    }
    return np.array([found[each] for each in written], dtype=np.uint16)


def _take(array: Any, side: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    places = np.flatnonzero(side)
    if hasattr(array, "iloc"):
        return array.iloc[places]
    return array[places] if hasattr(array, "shape") else [array[at] for at in places]
