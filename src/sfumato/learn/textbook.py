"""Textbook forms as estimators use them: what they cost, and what they learn from own arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.spend import Rounded
from sfumato.errors import UsageError
from sfumato.learn import perturbation
from sfumato.learn.descent import CONSTANT, Found
from sfumato.learn.problems import Problem
from sfumato.privacy.events import ApproxDP, Pure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.oracle import ArrayOracle
    from sfumato.learn.problems import Joint
    from sfumato.learn.purse import Purse

    Floats = NDArray[np.float64]

_PENALTY = 1.0


def priced(purse: Purse, form: str) -> Purse:
    """The same purse, priced as the form is proven."""
    if form == "gaussian":
        if purse.epsilon is None or not purse.delta:
            raise UsageError(
                "SF-E134", "This form has a delta.", try_='epsilon=1.0, delta=1e-6, or method="objective"'
            )
        return replace(purse, whole=ApproxDP(purse.epsilon, purse.delta))
    if form == "objective" and purse.delta:
        raise UsageError(
            "SF-E134", "Objective perturbation is of pure ε.", try_='no delta, or method="gaussian" with one'
        )
    if isinstance(purse.main, Rounded) and form == "output":
        return purse
    return replace(purse, whole=Pure(purse.alone.epsilon))


def learned(oracle: ArrayOracle, joint: Joint, form: str, penalty: float | None) -> Found:
    """From rows that are shortened already, and from the constant beside them."""
    norm = oracle.declared.norm
    if norm is None:
        raise AssertionError("rows are shortened before")
    (event,) = oracle.purse.events
    features, codes = oracle.plain(event)
    rows = np.hstack([features / norm, np.full((len(features), 1), CONSTANT)])
    problem = Problem(
        joint,
        rows,
        joint.marks(codes),
        penalty or _penalty(oracle.purse, joint, form, rows.shape[1]),
        _LONGEST,
    )
    return Found(_weights(problem, oracle.purse, form), CONSTANT, norm, math.nan, 1)


_LONGEST = math.hypot(1.0, CONSTANT) * (1 + 2.0**-40)
"""Of a row with its constant; doubles add less than that."""


def _weights(problem: Problem, purse: Purse, form: str) -> Floats:
    epsilon = float(purse.alone.epsilon)
    if form == "objective":
        return perturbation.objective(problem, epsilon)
    if form == "gaussian":
        return perturbation.gaussian(problem, epsilon, float(purse.delta))
    if isinstance(purse.main, Rounded):
        return perturbation.gaussian_output(problem, float(purse.main.multiplier))
    return perturbation.output(problem, epsilon)


def _penalty(purse: Purse, joint: Joint, form: str, size: int) -> float:
    """Noise on the minimiser wants one that makes it about 1 long; noise on the problem needs less."""
    if form != "output":
        return _PENALTY
    numbers = joint.outputs * size
    if isinstance(purse.main, Rounded):
        return max(_PENALTY, math.sqrt(numbers) * float(purse.main.multiplier))
    return max(_PENALTY, numbers / float(purse.alone.epsilon))
