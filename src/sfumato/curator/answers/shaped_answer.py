"""Noisy coordinates of a shape, read back as the sums of a question: docs/proofs/shaped-noise.md."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import BodyCoordinate
from sfumato.curator.answers.noise_law import Draw, NoiseLaw
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.steps import GAUSSIAN, SHAPED
from sfumato.noise import SimplicesNoise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.shaped.shapes import LinearForm, ShapedSums
    from sfumato.noise import GaussianNoise, LaplaceNoise


def match_shape(plan: QuestionPlan, answers: Sequence[Any]) -> QuestionPlan:
    """Return the plan with the noise that a kept answer says it has: shaped, in which coordinates, or not."""
    # Keys that were discovered stand before the sums.
    for answer in answers:
        if SHAPED in answer:
            return plan.with_shape(True)
        if GAUSSIAN in answer:
            weights = answer[answer.index(GAUSSIAN) + 1]
            return plan.with_shape(True, tuple(map(tuple, weights)))
    return plan.with_shape(False)


def read_shape(plan: QuestionPlan, released: Sequence[Any], cells: int) -> NDArray[Any]:
    """Return the sums of the answer, one row each and one column a cell, from what was kept of them."""
    shaped, _ = _require_shape(plan)
    # A mark stands first, and after that of Gaussian noise the weights of its coordinates.
    numbers = released[2 if released[0] == GAUSSIAN else 1 :]
    size = len(shaped.shape.coordinates)
    coordinates = [np.array(row, dtype=object) for row in numbers[:size]]
    apart = plan.resolved.list_apart(shaped)
    found: dict[Any, Any] = dict(zip(apart, numbers[size:], strict=True))
    found |= {summand: _combine(form, coordinates) for summand, form in shaped.estimates.items()}
    rows = [np.array(found[each], dtype=np.float64) for each in plan.summands]
    return np.array(rows, dtype=np.float64).reshape(len(rows), cells)


def shaped_laws(plan: QuestionPlan) -> tuple[NoiseLaw, ...]:
    """Return the law of the noise in each sum of the answer: those of a shape have draws in common."""
    shaped, noise = _require_shape(plan)
    draws = list_draws(noise, len(shaped.shape.coordinates))
    found = {summand: _law(draws, form) for summand, form in shaped.estimates.items()}
    for summand, each in zip(plan.resolved.list_apart(shaped), plan.measured_alone, strict=True):
        found[summand] = NoiseLaw.of(each.noise, ("apart", summand))
    return tuple(found[each] for each in plan.summands)


def list_draws(noise: LaplaceNoise | SimplicesNoise | GaussianNoise, coordinates: int) -> tuple[Draw, ...]:
    """Return the draw of each coordinate of a shape: of its own, or one part of a draw of all of them."""
    if isinstance(noise, SimplicesNoise):
        return tuple(Draw(BodyCoordinate(noise, at), "shape") for at in range(coordinates))
    return tuple(Draw(noise, ("shape", at)) for at in range(coordinates))


def _law(draws: tuple[Draw, ...], form: LinearForm) -> NoiseLaw:
    used = [(draw, float(weight)) for draw, weight in zip(draws, form, strict=True) if weight]
    return NoiseLaw(tuple(draw for draw, _ in used), np.array([[weight] for _, weight in used]))


def _combine(form: LinearForm, coordinates: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return a sum of coordinates; in integers up to one division, so that nothing cancels."""
    common = math.lcm(*(part.denominator for part in form))
    total = sum(int(part * common) * row for part, row in zip(form, coordinates, strict=True) if part)
    return np.asarray(total / common, dtype=np.float64)


def _require_shape(
    plan: QuestionPlan,
) -> tuple[ShapedSums, LaplaceNoise | SimplicesNoise | GaussianNoise]:
    first = plan.measured[0]
    if plan.shaped is None or not isinstance(first, ShapedSum):
        raise AssertionError(plan.measured)
    return plan.shaped, first.noise
