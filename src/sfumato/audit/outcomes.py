"""Outputs of a sampler as columns of comparable values.

Nothing is left out: NaN, infinities and exceptions are outcomes like any other. Every column is computed from
one output alone, so it is a post-processing, and any privacy bound on the outputs holds for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

Columns = dict[str, "NDArray[Any]"]

_WIDEST = 16  # number of coordinates that are examined one by one
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it is invertible


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as an outcome, by its type."""

    kind: str


def draw_outputs(sampler: Callable[[int], Any], count: int) -> NDArray[Any]:
    """Return `count` outputs; where the sampler raises, each is drawn alone and exceptions are outputs."""
    try:
        outputs = sampler(count)
    except Exception:
        return _objects([_one(sampler) for _ in range(count)])
    array = outputs if isinstance(outputs, np.ndarray) else _as_array(outputs)
    if array.ndim < 1 or len(array) != count:
        raise UsageError(
            "SF-A101",
            "A sampler must return as many outputs as it is asked for.",
            asked=str(count),
            got=str(array.shape),
        )
    return array.reshape(count, -1) if array.ndim > 2 else array


def require_outputs(outcomes: Iterable[Any]) -> None:
    """Refuse to call it no violation where every outcome is one and the same exception."""
    kinds = {each.kind if isinstance(each, Raised) else "" for each in outcomes}
    if len(kinds) == 1 and "" not in kinds:
        raise UsageError(
            "SF-A105",
            f"Every run raised {kinds.pop()}, so there is nothing to audit.",
            why="an audit of runs that all fail in the same way could find no violation, whatever they hide",
            try_="a program that answers on at least one of the inputs",
        )


def output_columns(first: NDArray[Any], second: NDArray[Any]) -> tuple[Columns, Columns]:
    """Return comparable columns of both samples."""
    if first.ndim != second.ndim or first.shape[1:] != second.shape[1:]:
        return {"text": _texts(first)}, {"text": _texts(second)}
    if not _numeric(first) or not _numeric(second):
        return {"text": _texts(first)}, {"text": _texts(second)}
    kind = np.int64 if _whole(first) and _whole(second) else np.float64
    return _columns(first.astype(kind)), _columns(second.astype(kind))


def _one(sampler: Callable[[int], Any]) -> Any:
    try:
        return _listed(sampler(1))[0]
    except Exception as error:
        return Raised(type(error).__name__)


def _listed(outputs: Any) -> list[Any]:
    return outputs.tolist() if isinstance(outputs, np.ndarray) else list(outputs)


def _as_array(outputs: Any) -> NDArray[Any]:
    """Return numbers as a numeric array, and anything else as objects."""
    # NumPy would turn a list of numbers and texts into texts.
    try:
        array = np.array(outputs)
    except (ValueError, OverflowError):
        return _objects(list(outputs))
    return array if array.dtype.kind in "biuf" or array.ndim < 1 else _objects(list(outputs))


def _objects(outputs: list[Any]) -> NDArray[Any]:
    array = np.empty(len(outputs), dtype=object)
    array[:] = outputs
    return array


def _numeric(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biuf" and (array.dtype != np.uint64 or not array.size or array.max() < 2**63)


def _whole(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biu"


def _texts(array: NDArray[Any]) -> NDArray[Any]:
    return np.array([text_of(output) for output in array.tolist()])


def text_of(output: Any) -> str:
    """Return one text for equal outputs, whether they came in bulk or one by one."""
    if isinstance(output, np.ndarray):
        return text_of(output.tolist())
    if isinstance(output, list | tuple):
        return f"[{', '.join(map(text_of, output))}]"
    if isinstance(output, float | np.floating) and np.isfinite(output) and output == output // 1:
        return repr(int(output))
    if isinstance(output, int | np.integer):
        return repr(int(output))
    return repr(output)


def _columns(array: NDArray[Any]) -> Columns:
    if array.ndim == 1:
        return value_columns("value", array)
    found = {"row": _mixed(array), "sum": array.sum(axis=1)}
    for place in range(min(array.shape[1], _WIDEST)):
        found |= value_columns(f"value {place + 1}", array[:, place])
    return found


def value_columns(name: str, values: NDArray[Any]) -> Columns:
    """Return the values; for floats also their kind and the exponent of their last bit."""
    # Careless floating-point noise reveals its input in the low bits.
    if values.dtype.kind != "f":
        return {name: values}
    kind = np.isnan(values) * 4 + np.isinf(values) * 2 + np.signbit(values)
    finite = np.where(np.isfinite(values), values, 0.0)
    ordered = np.where(np.isnan(values), -np.inf, values)
    return {name: ordered, f"kind of {name}": kind, f"last bit of {name}": _last_bit(finite)}


def _last_bit(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the exponent of the last bit that is set in each double."""
    fraction, exponent = np.frexp(values)
    digits = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1]
    return np.where(digits == 0, -(2**12), exponent.astype(np.int64) - 53 + lowest)


def _mixed(array: NDArray[Any]) -> NDArray[np.uint64]:
    """Return each row as one 64-bit hash."""
    # Rows that happen to share a hash count as one outcome, which invalidates no bound.
    words = np.zeros(len(array), dtype=np.uint64)
    for column in np.ascontiguousarray(array.T).view(np.uint64):
        words = (words ^ (words >> np.uint64(29)) ^ column) * _MIX
    return words
