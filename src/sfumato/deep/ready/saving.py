"""Saving ready networks without pickle: one .npz file with the weights, and JSON for the rest."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.promises import TrainingGuarantee
from sfumato.deep.ready.inputs import DeclaredInputs
from sfumato.deep.ready.networks import build_network, make_features
from sfumato.errors import UsageError
from sfumato.files.durable import replace_file
from sfumato.oracle.coded_columns import CodedColumn
from sfumato.oracle.guarantee import Guarantee
from sfumato.privacy.events import from_dict

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import nn

_VERSION = 1
_MODEL = "model"
_LEFT_OUT = ("bounds", "missing", "budget")
"""Parameters that are not saved: the coding of columns says the same, and an account is a file of its own."""


def save(estimator: Any, path: str | Path) -> None:
    """Write what was declared and what was learnt to a file. Private data is in neither."""
    given = estimator.get_params()
    inputs: DeclaredInputs = estimator.inputs_
    promised: Any = estimator.guarantee_
    body = {
        "version": _VERSION,
        "kind": type(estimator).__name__,
        "given": {name: _to_plain(value) for name, value in given.items() if name not in _LEFT_OUT},
        "shape": inputs.shape,
        "columns": [each.to_dict() for each in inputs.columns],
        "network": estimator.network_,
        "classes": _to_plain(getattr(estimator, "classes_", None)),
        "guarantee": {name: getattr(promised, name) for name in Guarantee.__dataclass_fields__},
        "event": promised.event.to_dict(),
    }
    try:
        text = np.frombuffer(json.dumps(body, allow_nan=False).encode(), dtype=np.uint8)
    except (TypeError, ValueError):
        raise UsageError("SF-E108", "This model holds a value that cannot be saved.") from None
    weights = {f"weight:{name}": each.numpy() for name, each in estimator.module_.state_dict().items()}
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{_MODEL: text}, **weights)
    replace_file(Path(path).resolve(), file.getvalue())


def read_file(path: str | Path, kinds: Collection[str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the kind of estimator in a file, its parameters, and what it learnt."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        body = json.loads(arrays.pop(_MODEL).tobytes())
        if body["version"] != _VERSION or body["kind"] not in kinds:
            raise ValueError("another kind of model")
        return body["kind"], body["given"], _read_learned(body, arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as problem:
        raise UsageError("SF-E108", "This file contains no network.", path=Path(path).name) from problem


def _read_learned(body: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    columns = tuple(
        CodedColumn(**{**each, "categories": tuple(each["categories"])}) for each in body["columns"]
    )
    inputs = DeclaredInputs(tuple(body["shape"]), columns)
    classes = body["classes"]
    found = {
        "inputs_": inputs,
        "n_features_in_": inputs.shape[0],
        "network_": body["network"],
        "module_": _read_module(body["network"], inputs, 1 if classes is None else len(classes), arrays),
        "guarantee_": TrainingGuarantee(**body["guarantee"], event=from_dict(body["event"])),
    }
    return found if classes is None else {**found, "classes_": np.array(classes)}


def _read_module(network: str, inputs: DeclaredInputs, outputs: int, arrays: dict[str, Any]) -> nn.Module:
    row = torch.zeros(1, *inputs.shape) if inputs.is_image else torch.zeros(1, inputs.width)
    module = build_network(network, make_features(network, row), outputs)
    module.load_state_dict(
        {name.removeprefix("weight:"): torch.from_numpy(each) for name, each in arrays.items()}
    )
    return module.eval()


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, range | tuple | list):
        return [_to_plain(each) for each in value]
    return float(value) if hasattr(value, "denominator") and not isinstance(value, int) else value
