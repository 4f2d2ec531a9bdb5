"""The perceptron from noisy sums of the rows it gets wrong.

Blum, Dwork, McSherry and Nissim, Practical Privacy: The SuLQ Framework, 2005: weights move by the sum of all
rows that are on the wrong side, and that sum is a noisy answer. No row is ever seen.

Because : docs/proofs/perceptron.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.convex.descent import LearnedWeights
from sfumato.learn.first_look import (
    find_winner,
    linear_scores,
    look_first,
    measure_score_lead,
    wants_look,
)
from sfumato.learn.linear.scores import LinearClassifier, choose_row_norm
from sfumato.oracle.blocks import Among, AtMost, Choose, Constant, Every, Multiply
from sfumato.oracle.gradients import GradientQuestion
from sfumato.privacy.exact import parse_whole
from sfumato.viz import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.gradients import AddColumns
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

_WEIGHT_STEPS = 2**12
"""Weights, of norm 1, are asked about in whole numbers of one over this: only their direction decides."""
_CONSTANT = 0.5
"""The constant beside features of norm at most 1, whose weight is the intercept."""
_ROUNDS, _ROUNDS_PURE = 20, 4
"""Fewer for pure ε, as Laplace noise grows faster with the number of rounds. Privacy depends on neither."""


@dataclass(frozen=True, slots=True)
class PerceptronGradient:
    """Score gradient of the perceptron: a misclassified row lowers the winning score and raises its own.

    Rows on the right side have none. Two classes share one score; for more the gradient is (1, −1), times 70
    so that its norm 70·√2 is just below a whole number, 99.
    """

    classes: int

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def unit(self) -> int:
        return 1 if self.classes == 2 else 70

    @property
    def norm_bound(self) -> int:
        return 1 if self.classes == 2 else 99

    def encode_labels(self, codes: Codes) -> Floats:
        """Return 1 for a row's own class, −1 for the other where two share a score; NaN for no class."""
        own = np.arange(1, 2) if self.outputs == 1 else np.arange(self.classes)
        found: Floats = (codes[:, None] == own).astype(np.float64)
        if self.outputs == 1:
            found = 2 * found - 1
        found[(codes < 0) | (codes >= self.classes)] = np.nan
        return found

    def compute_gradients(self, scores: Floats, labels: Floats) -> Floats:
        if self.outputs == 1:
            gradients: Floats = np.where(scores * labels <= 0, -labels, 0.0)
        else:
            won = np.arange(self.classes) == scores.argmax(axis=1)[:, None]
            gradients = np.nan_to_num(won - labels) * self.unit
        return gradients

    def lower_gradients(self, scores: Sequence[Value], label: Value, add_columns: AddColumns) -> list[Value]:
        if self.outputs == 1:
            return [self._lower_two(scores[0], label)]
        (won,) = add_columns([find_winner(scores)])
        return [self._lower_many(won, label, place) for place in range(self.classes)]

    def _lower_two(self, score: Value, label: Value) -> Value:
        """Return the gradient of the one score: the second class is to have it above 0, the first below."""
        second = Every((Among(label, (1,)), AtMost(score, 0)))
        first = Every((Among(label, (0,)), AtMost(Multiply(score, Constant(-1)), 0)))
        return Choose(second, Constant(-1), Choose(first, Constant(1), Constant(0)))

    def _lower_many(self, won: Value, label: Value, place: int) -> Value:
        """Return the gradient of one of several scores; rows of no class have 0."""
        others = tuple(each for each in range(self.classes) if each != place)
        wrongly = Every((Among(won, (place,)), Among(label, others)))
        lacking = Every((Among(label, (place,)), Among(won, others)))
        return Choose(wrongly, Constant(self.unit), Choose(lacking, Constant(-self.unit), Constant(0)))


class Perceptron(LinearClassifier):
    """Weights that move by the noisy sum of all rows they get wrong, round by round, and are averaged.

    For teaching, and as a baseline: `LogisticRegression` and `LinearSVC` learn more from the same budget.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit; each round has the same share.
    Because  : docs/proofs/perceptron.md
    Assumes  : the bounds and the classes are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        classes: Any = None,
        rounds: Any = None,
        scaling: Any = "auto",
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.classes = classes
        self.rounds = rounds
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    @property
    def predict_proba(self) -> Callable[[Any], Floats]:
        """Not offered: scikit-learn finds that out by asking for the attribute."""
        raise AttributeError("a perceptron's scores are no probabilities: decision_function gives them")

    def _learn(self, oracle: Oracle) -> None:
        usual = _ROUNDS_PURE if isinstance(oracle.budget.main, PureSpend) else _ROUNDS
        rounds = usual if self.rounds is None else parse_whole(self.rounds, "rounds")
        look = look_first(oracle) if wants_look(oracle, self.scaling) else None
        missing = oracle.declared.middles
        oracle = oracle if look is None else look.oracle
        declared = oracle.declared
        clipped = oracle.clip_rows(choose_row_norm(declared))
        norm = clipped.declared.norm or 1
        constant = max(1, round(_CONSTANT * norm))
        left = Fraction(1) if look is None else look.for_fit
        weights = _run_rounds(clipped, PerceptronGradient(len(self.classes_)), constant, rounds, left)
        scores = linear_scores(clipped, weights, constant)
        if look is not None and measure_score_lead(clipped, scores, look) <= 0:
            weights = np.zeros_like(weights)
            weights[:, -1] = look.log_shares if len(weights) > 1 else look.log_shares[1]
        learned = LearnedWeights(weights, constant / norm, norm, 0.0, rounds)
        self._keep(learned, declared, clipped.declared, missing)


def _run_rounds(
    oracle: Oracle, gradient: PerceptronGradient, constant: int, rounds: int, left: Fraction
) -> Floats:
    """Return the average of the weights of all rounds, each scaled to norm 1.

    Steps grow shorter, so that the many rows that are wrong at first do not throw weights from side to side.
    """
    shape = gradient.outputs, len(oracle.declared.features) + 1
    weights, average = np.zeros(shape), np.zeros(shape)
    for done in progress.show_rounds(rounds, "perceptron"):
        # Only the direction decides which rows are wrong, so weights are scaled to norm 1 before rounding.
        integers = np.rint(_direction(weights) * _WEIGHT_STEPS).astype(np.int64)
        answer = oracle.gradients(GradientQuestion(integers, gradient, constant), left / rounds)
        weights = weights - answer.values / (done + 1)
        average += _direction(weights)
    return _direction(average)


def _direction(weights: Floats) -> Floats:
    """Return the weights scaled to norm 1."""
    found: Floats = weights / max(float(np.linalg.norm(weights)), 1e-300)
    return found
