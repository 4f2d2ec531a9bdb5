"""One mistake of the gallery: a wrong program, what it claims, where it was seen, and how it is caught."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.entry import run

if TYPE_CHECKING:
    from sfumato.audit.verdict import Verdict

Pairs = tuple[tuple[Any, Any], ...]

EMPTY_AND_ONE: Pairs = ((np.array([]), np.array([1.0])),)
"""The smallest neighbours: a table without rows and one with a single row."""
FEW: Pairs = (*EMPTY_AND_ONE, (np.array([0.0]), np.array([0.0, 1.0])), (np.full(9, 1.0), np.full(10, 1.0)))
"""Neighbours of few rows between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong program with its claim. `target` is what `sf.audit.run` takes."""

    name: str
    source: str
    """Paper, issue or code in which the mistake was seen."""
    wrong: str
    """What is wrong, in a few words."""
    target: Any
    neighbours: Pairs | None = FEW
    epsilon: float = 1.0
    delta: float = 0.0
    samples: int = 4000
    last_bits: bool = False

    def audit(self, alpha: float = 1e-4) -> Verdict:
        """Return the auditor's verdict on this mistake."""
        options: dict[str, Any] = {"delta": self.delta, "samples": self.samples, "alpha": alpha}
        if not isinstance(self.target, tuple):
            options |= {"neighbours": self.neighbours, "last_bits": self.last_bits}
        found: Verdict = run(self.target, self.epsilon, **options)
        return found


def laplace(scale: float, size: int | tuple[int, ...] | None = None) -> Any:
    """Return Laplace noise of NumPy, from a generator of the operating system's entropy."""
    return np.random.default_rng().laplace(0.0, scale, size)


def clip_to_one(rows: Any) -> Any:
    """Return rows made numbers between 0 and 1."""
    return np.clip(np.nan_to_num(np.asarray(rows, dtype=float)), 0, 1)
