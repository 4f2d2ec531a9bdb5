"""The noise of all groups of an answer, drawn once more from its public law. Nothing here protects anyone.

Draws come from a seed that follows from the question, so that the same answer has the same intervals.

Because : docs/proofs/post-processing.md#numbers-of-several-groups
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.laws.drawn_noise import BodyCoordinate, draw_body

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.noise_law import Draw, Floats
    from sfumato.curator.plan.plan import QuestionPlan

_BODY_POINTS = 2**16
"""Draws of a body that others are taken from."""


def simulate_noise(plan: QuestionPlan, noisy: NoisyAnswer, count: int) -> list[Floats] | None:
    """Return draws of the noise of each sum, one row a group and one column a draw.

    The second half of the draws are the first half with the opposite sign, which is as likely: so the mean of
    all draws of a linear number is exact. None where groups have noise in common, as levels that agree do.
    """
    if noisy.dependent:
        return None
    rng = np.random.default_rng(_find_seed(plan, noisy))
    found = _simulate_apart(noisy, (count + 1) // 2, rng)
    return [np.concatenate([each, -each], axis=1)[:, :count] for each in found]


def _find_seed(plan: QuestionPlan, noisy: NoisyAnswer) -> int:
    named = f"{plan.request} {noisy.rounds}".encode()
    return int.from_bytes(hashlib.sha256(named).digest()[:8], "big")


def _simulate_apart(noisy: NoisyAnswer, count: int, rng: np.random.Generator) -> list[Floats]:
    """Return noise that is drawn for each group by itself; sums of one group may have draws in common."""
    shape = noisy.cells, count
    together: dict[Hashable, Any] = {}
    drawn: dict[Draw, Floats] = {}
    found = []
    for law in noisy.laws:
        noise = np.zeros(shape)
        for draw, weights in zip(law.draws, law.weights, strict=True):
            if draw not in drawn:
                drawn[draw] = _draw(draw, shape, together, rng)
            noise += weights[:, None] * drawn[draw]
        found.append(noise)
    return found


def _draw(
    draw: Draw, shape: tuple[int, int], together: dict[Hashable, Any], rng: np.random.Generator
) -> Floats:
    if isinstance(draw.noise, BodyCoordinate):
        if draw.joint not in together:
            together[draw.joint] = rng.integers(0, _BODY_POINTS, shape)
        points = draw_body(draw.noise.body, _BODY_POINTS)[draw.noise.place]
        return np.asarray(points[together[draw.joint]], dtype=np.float64)
    return np.asarray(draw.noise.quantiles(_draw_chances(rng, shape)), dtype=np.float64)


def _draw_chances(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return uniform numbers, none of them 0 or 1."""
    return (rng.integers(0, 2**40, shape) + 0.5) / 2**40
