"""Which method and penalty suit pure ε on own arrays; written by a benchmark.

`python benchmarks/learners_unseen.py --choose` measures every entry on its development tables and writes this
file. Privacy does not depend on it.
"""

from __future__ import annotations

_TABLE = {
    # (more than one score, more weights than 64): method, penalty over the mean length of the noise
    (False, False): ("objective", 0.03),
    (False, True): ("objective", 0.3),
    (True, False): ("objective", 0.03),
    (True, True): ("objective", 0.03),
}


def choose_method(classes: int, features: int) -> str:
    """Return the perturbation method for so many classes and features."""
    outputs = 1 if classes == 2 else classes
    return _TABLE[outputs > 1, outputs * (features + 1) > 64][0]


def choose_strength(outputs: int, weights: int) -> float:
    """Return the penalty of objective perturbation, over the mean length of its noise."""
    return _TABLE[outputs > 1, weights > 64][1]
