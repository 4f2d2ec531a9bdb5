"""What a trained module says of rows of a table, in the manner of scikit-learn's models."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.deep.described import describe_module
from sfumato.deep.tables.coding import TableCoding
from sfumato.deep.tables.fit import declare_rows, refuse_hostile
from sfumato.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.deep.trainer import Trainer
    from sfumato.oracle.declared import Declared

    Floats = NDArray[np.float64]

_TRIED = 256
"""Made-up rows on which it is checked that a module says of each what follows from that row."""


class TrainedModule:
    """A module that was trained behind the curator, as a classifier or regressor."""

    def __init__(self, trainer: Trainer, coding: TableCoding) -> None:
        self._module, self._coding = copy.deepcopy(trainer.module).eval(), coding
        self.classes_ = np.array(coding.classes, dtype=object)
        self.described = describe_module(trainer.module)
        """What the module is recognised by; random for code of one's own."""
        self._require_apart()

    def number_classes(self) -> None:
        """Name classes by their places."""
        self.classes_ = np.arange(len(self.classes_))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest class of each row, or the number that it is given."""
        if not len(self.classes_):
            middle, half = self._coding.target
            return middle + half * self._run(rows).double().numpy().reshape(len(rows))
        found: NDArray[Any] = self.classes_[self.predict_proba(rows).argmax(1)]
        return found

    def predict_proba(self, rows: Any) -> Floats:
        """Return the probability of each class; a single number counts as that of the second class."""
        came = self._run(rows).double().reshape(len(rows), -1)
        if came.shape[1] == 1:
            came = torch.cat([torch.zeros_like(came), came], 1)
        found: Floats = torch.softmax(came, 1).numpy()
        return found

    def _run(self, rows: Any) -> Tensor:
        scaled = (np.asarray(rows, dtype=np.float64) - self._coding.middles) / np.array(self._coding.halves)
        given = torch.from_numpy(scaled).to(self._coding.dtype)
        with torch.no_grad():
            try:
                came: Tensor = self._module(given)
            except Exception:  # whatever functions of one's own raise, by the values of some row
                return torch.cat([self._run_alone(each) for each in given.split(1)])
        return came

    def _run_alone(self, row: Tensor) -> Tensor:
        """Return what the module says of a row, or zeros: that it raises would tell of the row."""
        try:
            found: Tensor = self._module(row)
        except Exception:  # as above
            found = torch.zeros_like(self._module(torch.zeros_like(row)))
        return found

    def _require_apart(self) -> None:
        """Refuse a module that says something else of a row when other rows change."""
        made = 2 * torch.rand(2, _TRIED, len(self._coding.middles), dtype=self._coding.dtype) - 1
        mixed, half = made[0].clone(), _TRIED // 2
        mixed[half:] = made[1, half:]
        with torch.no_grad():
            first, other = self._module(made[0])[:half], self._module(mixed)[:half]
        if not torch.equal(first, other):
            raise UsageError(
                "SF-E174",
                "What the module says of a row depends on other rows.",
                why="a row counts once, whatever the others are",
                try_="layers that treat each row on its own, without random numbers in eval mode",
            )


def read_trained(
    payer: Payer, trainer: Trainer, rows: RowSource, target: str
) -> tuple[TrainedModule, RowSource, Declared]:
    """Return a trained module, and rows with the features that it takes."""
    refuse_hostile(payer)
    coding = trainer.coding_
    names = () if coding is None else tuple(each.name for each in coding.columns)
    bounded, declared = declare_rows(trainer, rows, names, target) if names else (rows, None)
    if coding is None or declared is None or TableCoding.of(declared, coding.shape, coding.dtype) != coding:
        raise PolicyError(
            "SF-E112",
            "A module is evaluated on columns like those it was trained on behind the curator.",
            try_="s.fit(trainer, …) before, and a table with the same declarations",
        )
    return TrainedModule(trainer, coding), bounded, declared
