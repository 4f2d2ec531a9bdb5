"""Membership from models: a model that fits its rows too well tells which rows it was fitted to.

The likelihood-ratio attack (LiRA) of Carlini and others (*Membership inference attacks from first
principles*, 2022): shadow models, trained with and without a row, say how a model treats that row in either
case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attacks.ceilings import guess_ceiling, hit_ceiling
from sfumato.attacks.report import AttackReport, Outcome, share_text
from sfumato.errors.numbers import format_number, format_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.attacks.real_lab import Floats

    Ints = NDArray[np.int64]
    Training = Callable[[Floats, Ints], Callable[[Floats], Floats]]
    """Fits rows with labels 0 and 1, and returns a function from rows to log odds of label 1."""


FALSE_ALARMS = 0.05


def model_membership(
    *, rows: int = 200, features: int = 200, shadows: int = 48, epsilon: float = 1.0, seed: int = 0
) -> AttackReport:
    """Tell which rows a classifier was trained on, by LiRA with shadow models.

    Every row is in the training set by a coin, and its label is hard to learn from its features. Logistic
    regression without privacy separates its rows perfectly; `sf.learn.LogisticRegression` is fitted for ε.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (rng.random(rows) < 1 / (1 + np.exp(-5 * x[:, 0]))).astype(np.int64)

    plain, private = (
        infer_membership(x, y, train, shadows=shadows, rng=rng)
        for train in (_fit_plain, _PrivateTraining(epsilon))
    )
    return AttackReport(
        "membership-models",
        f"Which of {rows} rows a classifier was trained on, by {shadows} shadow models.",
        "rows told right",
        0.5,
        (
            Outcome("logistic regression", plain.hits, rows),
            Outcome(
                f"sf.learn.LogisticRegression, ε = {format_number(epsilon)}",
                private.hits,
                rows,
                guess_ceiling(epsilon),
            ),
        ),
        (
            (
                f"At {format_share(FALSE_ALARMS, 0)} false alarms "
                f"{format_share(plain.find_share(FALSE_ALARMS), 0)} of the rows are found."
            ),
            f"Of the private model's, {format_share(private.find_share(FALSE_ALARMS), 0)}.",
            f"The ceiling of that is {share_text(hit_ceiling(epsilon, FALSE_ALARMS))}.",
        ),
    )


@dataclass(frozen=True, slots=True)
class MembershipScores:
    """A log likelihood ratio for each row, above 0 where membership is likelier, and who was a member."""

    ratios: Floats
    members: NDArray[np.bool_]

    @property
    def hits(self) -> int:
        """How many rows are told right by the sign of their ratio."""
        return int(np.sum((self.ratios > 0) == self.members))

    def find_share(self, false_alarms: float) -> float:
        """Return the share of members above the ratio that this share of the others exceeds."""
        least = np.quantile(self.ratios[~self.members], 1 - false_alarms)
        return float(np.mean(self.ratios[self.members] > least))


def infer_membership(
    x: Floats, y: Ints, train: Training, *, shadows: int, rng: np.random.Generator
) -> MembershipScores:
    """Train one model on about half of the rows, and score every row by what shadow models say about it.

    `train` takes rows and labels 0 and 1, and returns a function from rows to log odds of label 1.
    """
    inside = rng.random((shadows + 1, len(x))) < 0.5
    sign = 2 * y - 1
    margins = np.array([sign * train(x[each], y[each])(x) for each in inside])
    attacked, seen = margins[-1], inside[:-1]
    ratios = np.zeros(len(x))
    for member, weight in ((True, 1), (False, -1)):
        known = np.ma.masked_array(margins[:-1], mask=seen != member)
        mean, deviation = known.mean(axis=0).data, known.std(axis=0).data
        # A deviation of nearly nothing would make one shadow model decide all.
        spread = np.maximum(deviation, 0.05 * deviation.mean() + 1e-9)
        ratios += weight * (-np.log(spread) - (attacked - mean) ** 2 / (2 * spread**2))
    return MembershipScores(ratios, inside[-1])


def _fit_plain(x: Floats, y: Ints) -> Callable[[Floats], Floats]:
    """Fit logistic regression by Newton's method, with next to no penalty."""
    weights, penalty = np.zeros(x.shape[1]), 1e-3 * np.eye(x.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (chance - y) + penalty @ weights
        weights -= np.linalg.solve((x.T * (chance * (1 - chance))) @ x + penalty, gradient)
    return lambda rows: np.asarray(rows @ weights)


@dataclass(frozen=True, slots=True)
class _PrivateTraining:
    """Fits sf.learn's logistic regression for ε; rows have norm 1."""

    epsilon: float

    def __call__(self, x: Floats, y: Ints) -> Callable[[Floats], Floats]:
        from sfumato.learn import LogisticRegression

        model = LogisticRegression(epsilon=self.epsilon, row_norm=1.0, classes=[0, 1]).fit(x, y)
        return lambda rows: np.asarray(model.decision_function(rows), dtype=float)
