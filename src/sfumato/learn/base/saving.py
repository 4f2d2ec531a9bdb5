"""Saving models without pickle: one .npz file with plain arrays, and JSON for the rest."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.columns import ListedColumn, NumberColumn, column_from_dict
from sfumato.errors import UsageError
from sfumato.files.durable import replace_file
from sfumato.oracle.guarantee import Guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.base import BaseEstimator

VERSION = 1
_MODEL = "model"
_UNSAVED = ("budget",)
"""Parameters that are left out: a model is what was learnt, whoever paid for it."""


def save(estimator: Any, path: str | Path) -> None:
    """Write the parameters and what was learnt to a file. Private data is in neither."""
    arrays: dict[str, NDArray[Any]] = {}
    body = {"version": VERSION, **_write_estimator(estimator, arrays)}
    text = np.frombuffer(json.dumps(body, allow_nan=False).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{_MODEL: text}, **arrays)
    # What a link leads to is replaced, not the link; what is no file, such as a pipe, is written to.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(file.getvalue())
    else:
        replace_file(target, file.getvalue())


def load(path: str | Path) -> BaseEstimator:
    """Return an estimator as it was saved. Nothing in the file is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        body = json.loads(arrays.pop(_MODEL).tobytes())
        kind, version = body["kind"], body["version"]
    except (OSError, ValueError, KeyError) as problem:
        raise UsageError("SF-E108", "This file contains no model.", path=Path(path).name) from problem
    if version != VERSION:
        raise _unknown(kind)
    return _read_estimator(body, arrays)


def _unknown(kind: Any) -> UsageError:
    return UsageError(
        "SF-E108", "This file contains no model that this version can load.", kind=str(kind)[:40]
    )


def _write_estimator(estimator: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    given = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _UNSAVED}
    return {
        "kind": type(estimator).__name__,
        "given": {name: _plain(value, arrays) for name, value in given.items()},
        "learned": {name: _plain(value, arrays) for name, value in list_learned(estimator).items()},
    }


def _read_estimator(body: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> BaseEstimator:
    # Imported by name, because `sfumato.learn` imports this module.
    room = import_module("sfumato.learn")
    kind = body["kind"]
    if kind not in room.ESTIMATORS:
        raise _unknown(kind)
    given = {name: _read(value, arrays) for name, value in body["given"].items()}
    estimator: BaseEstimator = getattr(room, kind)(**given)
    for name, value in body["learned"].items():
        # A file that was tampered with sets no other attributes.
        if _is_learned(name):
            setattr(estimator, name, _read(value, arrays))
    # How often the estimator that was saved was fitted is not known here.
    estimator.__dict__["_travelled"] = True
    return estimator


def list_learned(estimator: Any) -> dict[str, Any]:
    """Return what a fit left behind, by name."""
    return {name: value for name, value in vars(estimator).items() if _is_learned(name)}


def to_json(value: Any) -> dict[str, Any]:
    """Return a value as JSON alone, arrays too. `from_json` reads it."""
    arrays: dict[str, NDArray[Any]] = {}
    plain = _plain(value, arrays)
    return {"value": plain, "arrays": {name: _listed(each) for name, each in arrays.items()}}


def from_json(text: dict[str, Any]) -> Any:
    """Return a value that `to_json` wrote."""
    return _read(text["value"], {name: _array(each) for name, each in text["arrays"].items()})


def _listed(array: NDArray[Any]) -> dict[str, Any]:
    values = [_plain(each, {}) for each in array.ravel().tolist()]
    return {"type": array.dtype.str, "shape": list(array.shape), "values": values}


def _array(text: dict[str, Any]) -> NDArray[Any]:
    kind = np.dtype(text["type"])
    values = [_read(each, {}) for each in text["values"]]
    return np.array(values, dtype=kind).reshape(text["shape"])


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _plain(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    match value:
        case np.ndarray():
            name = f"a{len(arrays)}"
            # Arrays of objects would need pickle; those of estimators hold names.
            arrays[name] = value if value.dtype != object else value.astype(str)
            return {"array": name}
        case Guarantee():
            return {"guarantee": {name: _plain(each, arrays) for name, each in value.to_dict().items()}}
        case NumberColumn() | ListedColumn():
            return {"column": value.to_dict()}
        case tuple():
            return {"tuple": [_plain(each, arrays) for each in value]}
        case list():
            return [_plain(each, arrays) for each in value]
        case dict():
            # Keys of JSON are texts, and those of a dictionary need not be.
            return {"pairs": [[_plain(key, arrays), _plain(each, arrays)] for key, each in value.items()]}
    if hasattr(value, "get_params") and type(value).__module__.startswith("sfumato.learn."):
        return {"estimator": _write_estimator(value, arrays)}
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    match value:
        case np.generic():
            return _plain_scalar(value.item())
        # JSON has neither infinities nor NaN.
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case Fraction():
            return {"fraction": str(value)}
        case None | bool() | int() | float() | str():
            return value
    raise UsageError("SF-E108", "This model holds a value that cannot be saved.", type=type(value).__name__)


def _read(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    match value:
        case {"array": name}:
            return arrays[name]
        case {"guarantee": fields}:
            return Guarantee(**{name: _read(each, arrays) for name, each in fields.items()})
        case {"estimator": body}:
            return _read_estimator(body, arrays)
        case {"column": fields}:
            return column_from_dict(fields)
        case {"tuple": parts}:
            return tuple(_read(each, arrays) for each in parts)
        case {"pairs": pairs}:
            return {_read(key, arrays): _read(each, arrays) for key, each in pairs}
        case {"float": text}:
            return float(text)
        case {"fraction": text}:
            return Fraction(text)
        case list():
            return [_read(each, arrays) for each in value]
    return value
