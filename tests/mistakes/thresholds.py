"""Wrong sparse vectors and choices, each drawn many at a time (Lyu, Su and Li, 2017, list the first four)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Answers = Callable[["NDArray[np.float64]", int], Any]

_UP, _DOWN = np.array([0.0, 0, 0, 0, 1, 1, 1]), np.array([1.0, 1, 1, 1, 0, 0, 0])

_STAIRS = np.repeat(np.arange(-10.0, 11.0), 2)[1:-1]
"""Pairs of answers one apart, at every height: wherever the threshold is, it parts one of them."""


def _both(answers: Answers, one: Any, other: Any) -> tuple[Any, Any]:
    return lambda n: answers(np.asarray(one, float), n), lambda n: answers(np.asarray(other, float), n)


def _draw(scale: float, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng().laplace(0.0, scale, shape)


def _coded(yes: NDArray[np.bool_], most: int | None = None) -> NDArray[np.int64]:
    """Return the pattern of answers as one number; after `most` yes nothing more is answered."""
    if most is None:
        return yes @ (1 << np.arange(yes.shape[1]))
    before: NDArray[np.int64] = np.cumsum(yes, axis=1) - yes
    return np.where(before < most, 1 + yes, 0) @ (3 ** np.arange(yes.shape[1]))


def roth(answers: NDArray[np.float64], n: int) -> Any:
    """Returns the noisy answer that was compared, which tells the threshold's noise too."""
    noisy = answers + _draw(2.0, n, len(answers))
    above = noisy >= _draw(2.0, n, 1)
    first = np.where(above.any(axis=1), above.argmax(axis=1), -1)
    value = np.where(first >= 0, np.round(noisy[np.arange(n), first]), 0)
    return (first * 1000 + value).astype(np.int64)


def lee_clifton(answers: NDArray[np.float64], n: int) -> Any:
    """Noise that does not grow with the number of yes, c = 3."""
    return _coded(answers + _draw(4 / 3, n, len(answers)) >= _draw(4.0, n, 1), 3)


def stoddard(answers: NDArray[np.float64], n: int) -> Any:
    """No noise on the answers."""
    return _coded(np.broadcast_to(answers, (n, len(answers))) >= _draw(2.0, n, 1))


def chen(answers: NDArray[np.float64], n: int) -> Any:
    """No end after c times yes; the number of yes in either half tells all, since questions are alike."""
    yes = answers + _draw(2.0, n, len(answers)) >= _draw(2.0, n, 1)
    middle = len(answers) // 2
    return yes[:, :middle].sum(axis=1) * 1000 + yes[:, middle:].sum(axis=1)


def max_and_value(answers: NDArray[np.float64], n: int) -> Any:
    """The noisy maximum with its value, at the price of its place alone."""
    noisy = answers + _draw(2.0, n, len(answers))
    return np.round(noisy.max(axis=1)).astype(np.int64) * 100 + noisy.argmax(axis=1)


def full_exponent(answers: NDArray[np.float64], n: int) -> Any:
    """The exponential mechanism with ε·u in place of ε·u/2."""
    weights = np.exp(answers)
    return np.searchsorted(np.cumsum(weights / weights.sum()), np.random.default_rng().random(n))


def two_bits(answers: NDArray[np.float64], n: int) -> Any:
    """Randomized response on two bits of one person, each at the whole ε."""
    flips = np.random.default_rng().random((n, len(answers))) < 1 / (1 + np.e)
    return _coded((answers > 0) ^ flips)


THRESHOLD_MISTAKES = (
    Mistake(
        "sparse vector, Roth",
        "lecture notes, 2011",
        "answers what was compared",
        _both(roth, [0] * 3 + [1], [1] * 3 + [0]),
        samples=1_000_000,
    ),
    Mistake(
        "sparse vector, Lee–Clifton",
        "Lee and Clifton, 2014",
        "c is not paid for",
        _both(lee_clifton, _UP, _DOWN),
        samples=400_000,
    ),
    Mistake(
        "sparse vector, Stoddard",
        "Stoddard et al., 2014",
        "answers without noise",
        _both(stoddard, _STAIRS, _STAIRS.reshape(-1, 2)[:, ::-1].ravel()),
        samples=400_000,
    ),
    Mistake(
        "sparse vector, Chen",
        "Chen et al., 2015",
        "any number of yes",
        _both(chen, [0] * 10 + [1] * 10, [1] * 10 + [0] * 10),
        samples=400_000,
    ),
    Mistake(
        "maximum with its value",
        "Ding et al., 2018",
        "the value is not paid for",
        _both(max_and_value, [0] * 5, [1] * 5),
        samples=100_000,
    ),
    Mistake(
        "exponent not halved",
        "McSherry and Talwar, 2007, misread",
        "scores move both ways",
        _both(full_exponent, [1] + [0] * 11, [0] + [1] * 11),
        samples=40_000,
    ),
    Mistake(
        "ε for every bit",
        "Ding et al., 2017, on repeated collection",
        "bits of one person",
        _both(two_bits, [0, 0], [1, 1]),
        samples=40_000,
    ),
)
