"""A training run over the rows of a table: what is charged for it, and the weights that it releases.

Because : docs/proofs/dp-sgd.md#behind-the-curator
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.described import to_bytes
from sfumato.privacy.canonical import written_by

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from sfumato.deep.run import TrainingRun
    from sfumato.deep.tables.coding import TableCoding
    from sfumato.oracle.row_layout import RowLayout
    from sfumato.privacy.events import Event

_PASSES = 8
"""About how often a step goes over its rows: forwards, backwards, norms and sums."""


def _write_kernel(kernel: TrainingKernel) -> dict[str, Any]:
    asked = {"run": kernel.described, "layout": kernel.layout, "rows": kernel.rows_each}
    return {"": "Trained", **asked, "whole": kernel.whole}


@written_by(_write_kernel)
@dataclass(frozen=True, slots=True)
class TrainingKernel:
    """Trains a module on the rows of units, and releases its weights.

    Privacy
    -------
    Protects : one unit with all of its rows up to `rows_each`; added or removed with Poisson batches and
               with passes, replaced with batches of a fixed size.
    Costs    : the event of the run, whole.
    Because  : docs/proofs/dp-sgd.md#behind-the-curator
    Assumes  : what the trainer assumes.
    """

    described: str
    layout: RowLayout
    rows_each: int
    whole: Event
    run: TrainingRun
    """What trains: it holds a copy of the module, and is no part of what is hashed."""
    coding: TableCoding

    @property
    def passes(self) -> int:
        """About how often the rows are gone over."""
        rate = self.run.trainer.batch_size / self.run.declared
        return _PASSES * math.ceil(rate * self.run.steps)

    def event(self) -> Event:
        """Return the price of the run."""
        return self.whole

    def release(self, exact: NDArray[np.int64]) -> dict[str, Any]:
        """Train on rows, one row a figure and one column a unit, and return the weights."""
        self.run.rows = self.coding.read(np.asarray(exact, dtype=np.int64), self.rows_each)
        return self.finish()

    def finish(self) -> dict[str, Any]:
        """Take the steps that are left, and return the weights."""
        self.run.train()
        return {"weights": write_weights(self.run.trainer.module)}


def write_weights(module: nn.Module) -> list[str]:
    """Return all weights of a module as text: numbers as they lie in memory, in base 64."""
    return [base64.b64encode(to_bytes(each)).decode() for each in module.state_dict().values()]


def read_weights(module: nn.Module, written: list[str]) -> None:
    """Give a module the weights that were written."""
    state = module.state_dict()
    for (name, each), text in zip(state.items(), written, strict=True):
        raw = bytearray(base64.b64decode(text))
        known = torch.frombuffer(raw, dtype=each.dtype) if raw else torch.zeros(0, dtype=each.dtype)
        state[name] = known.reshape(each.shape)
    module.load_state_dict(state)
