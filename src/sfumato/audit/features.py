"""Columns of outputs that a program gave one by one: whatever an observer could look at.

An output may be a number, a text, an array, a list, a dictionary, or an exception. Its type, its length, the
order of its keys and of its numbers, missing numbers and the last bits are columns next to its values. Each
column is computed from one output alone, by a rule that the first outputs may choose, so every privacy
bound on outputs holds for those that are measured later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.outcomes import Raised, text_of, value_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sfumato.audit.outcomes import Columns

_MOST_VALUES = 16
"""Numbers of an output that are examined one by one."""
_MOST_STEPS = 6
"""Numbers of an output whose order and differences are examined."""
_PROBED = 400
"""Outputs by which it is decided whether texts repeat often enough to be compared."""


def program_columns(first: Sequence[Any], second: Sequence[Any], chosen: int) -> tuple[Columns, Columns]:
    """Return comparable columns of both samples; only outputs before `chosen` choose what is looked at."""
    outputs = [*first, *second]
    training = np.arange(len(outputs)) % len(first) < chosen
    flat = [list(flatten_output(output)) for output in outputs]
    lengths = np.array([len(each) for each in flat])
    columns: Columns = {
        "type": np.array([_type_name(each) for each in outputs]),
        "number of values": lengths,
    }
    if any(isinstance(each, Mapping) for each in outputs):
        columns["order of keys"] = np.array([_key_order(each) for each in outputs])
    columns |= _number_columns(flat, int(lengths[training].max(initial=0)), training)
    if not columns.keys() & {"value", "value 1"} or _texts_repeat([*first[:_PROBED], *second[:_PROBED]]):
        columns["output"] = np.array([text_of(each) for each in outputs])
    size = len(first)
    return (
        {name: values[:size] for name, values in columns.items()},
        {name: values[size:] for name, values in columns.items()},
    )


def flatten_output(output: Any) -> Iterator[float]:
    """Yield every number in an output: of arrays and lists in order, of dictionaries by sorted key."""
    if isinstance(output, bool | int | float | np.number | np.bool_):
        yield _as_float(output)
    elif isinstance(output, np.ndarray) and output.dtype.kind in "biuf":
        yield from output.ravel().astype(float).tolist()
    elif isinstance(output, Mapping):
        for key in sorted(output, key=repr):
            yield from flatten_output(output[key])
    elif isinstance(output, list | tuple | np.ndarray):
        for each in output:
            yield from flatten_output(each)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _type_name(output: Any) -> str:
    return f"raised {output.kind}" if isinstance(output, Raised) else type(output).__name__


def _key_order(output: Any) -> str:
    return text_of(list(output)) if isinstance(output, Mapping) else ""


def _texts_repeat(outputs: Sequence[Any]) -> bool:
    return len({text_of(each) for each in outputs}) <= len(outputs) // 2


def _number_columns(flat: list[list[float]], width: int, training: NDArray[np.bool_]) -> Columns:
    if not width:
        return {}
    table = np.full((len(flat), width), np.nan)
    for place, row in enumerate(flat):
        table[place, : min(len(row), width)] = row[:width]
    if width == 1:
        return value_columns("value", table[:, 0])
    columns: Columns = {}
    for place in range(min(width, _MOST_VALUES)):
        columns |= value_columns(f"value {place + 1}", table[:, place])
    finite = np.where(np.isfinite(table), table, 0.0)
    near = finite[:, :_MOST_STEPS]
    for place in range(near.shape[1] - 1):
        # Noise that two numbers share cancels here; rounding joins what floating point tore apart.
        steps = near[:, place + 1] - near[:, place]
        columns[f"value {place + 2} less value {place + 1}"] = np.round(steps, 9)
    columns["order of values"] = np.array(["".join(map(str, row)) for row in np.argsort(near, kind="stable")])
    columns["sum"] = finite.sum(axis=1)
    columns["direction"] = finite @ _direction(finite, training)
    return columns


def _direction(table: NDArray[np.float64], training: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return weights by which both samples differ most, number by number, among outputs that choose."""
    half = len(table) // 2
    first, second = table[:half][training[:half]], table[half:][training[half:]]
    scale = np.maximum(first.var(axis=0) + second.var(axis=0), 1e-300)
    moved = (second.mean(axis=0) - first.mean(axis=0)) / scale
    return np.asarray(moved / max(float(np.abs(moved).max(initial=0.0)), 1e-300))
