"""Linear classifiers: logistic regression, support vectors with a smoothed hinge, any convex loss of margins.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import PolicyError, UsageError
from sfumato.learn.convex import perturbed_fits
from sfumato.learn.convex.descent import NoisyDescent
from sfumato.learn.convex.losses import LOGISTIC, find_loss, huber
from sfumato.learn.convex.problems import MarginLoss, SoftmaxLoss
from sfumato.learn.convex.score_gradients import MarginGradient, ScoreGrid, SoftmaxGradient
from sfumato.learn.first_look import (
    linear_scores,
    look_first,
    measure_score_lead,
    wants_look,
)
from sfumato.learn.linear.scores import LinearClassifier, choose_row_norm
from sfumato.oracle.guarantee import COVERED, EXACT, IDEALISED
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.privacy.exact import parse_exact, parse_positive, parse_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.learn.convex.descent import LearnedWeights
    from sfumato.learn.convex.losses import Loss
    from sfumato.learn.convex.problems import ScoreLoss
    from sfumato.learn.first_look import FirstLook
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import ScoreGradient
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_CLIP_NORM = 0.32
"""Norm that the score gradient of a row is clipped to, in Lipschitz constants of the loss, for two classes;
√2 times that for more. Chosen with benchmarks/learners.py; privacy holds for any value, since noise is for
the norm after clipping."""
_METHODS = ("auto", "gradient", "output", "objective", "gaussian")


class ConvexClassifier(LinearClassifier):
    """A linear classifier that minimises a convex loss.

    `method` says how. "gradient", noisy gradient descent over exact sums, runs everywhere. "output" and
    "objective" perturbation, both for pure ε, run on own arrays, as does "gaussian" objective perturbation,
    for (ε, δ), which has an exact form behind the curator. "auto" takes objective perturbation for two
    classes and pure ε on own arrays, else descent.
    """

    method_: str
    delta: Any
    rho: Any
    method: Any
    penalty: Any
    rows: Any
    steps: Any
    scaling: Any

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss of margins."""

    def _score_gradient(self, one: int) -> ScoreGradient:
        """Return what noisy descent asks for; `one` whole numbers stand for a score of 1."""
        classes, loss = len(self.classes_), self._loss()
        return MarginGradient(loss, ScoreGrid(one), _clip_norm(classes) * loss.lipschitz, classes)

    def _score_loss(self) -> ScoreLoss:
        """Return what perturbation on own arrays minimises."""
        return MarginLoss(self._loss(), len(self.classes_))

    def _loss_name(self) -> tuple[str, Any]:
        """Return the name of the loss and the width of a hinge: what the curator may be told of it."""
        return "logistic", 1

    # ---- which method ----

    def _choose_method(self) -> str:
        """Choose by what is public: how the spend was typed."""
        if self.method not in _METHODS:
            raise UsageError("SF-E187", "This method is not known.", try_=", ".join(map(repr, _METHODS)))
        if self.method != "auto":
            return str(self.method)
        # Descent learns more with a δ; with pure ε objective perturbation does, on own arrays.
        if self.delta is not None or self.rho is not None or self.classes is None:
            return "gradient"
        return "objective"

    def fit_budget(self) -> FitBudget:
        budget, method = super().fit_budget(), self._choose_method()
        return budget if method == "gradient" else perturbed_fits.price_method(budget, method)

    @property
    def arithmetic(self) -> str:  # type: ignore[override]
        """The kind of arithmetic that `guarantee_` names."""
        return {"gradient": EXACT, "minima": COVERED}.get(self.method_, IDEALISED)

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Any]:  # noqa: N803
        self._choose_method()  # refuses a method that is not known before rows are looked at
        found = super()._checked(X, y)
        self.method_ = self._choose_method()
        return found

    def begin_fit(self, features: Any, declared: Declared) -> None:
        """Choose the method behind the curator: descent, or the exact form of Gaussian perturbation."""
        super().begin_fit(features, declared)
        # "minima" is what saved models and guarantees call the exact form, so the word stays.
        self.method_ = "minima" if self.method == "gaussian" else "gradient"
        if self.method not in ("auto", "gradient", "gaussian"):
            raise PolicyError(
                "SF-E132",
                "Output and objective perturbation run on own arrays only.",
                why="what a solver does to their noise in floating point is not proven to hide a row",
                try_='method="gradient", or method="gaussian" with a delta',
            )

    # ---- learning ----

    def _learn(self, oracle: Oracle) -> None:
        # What is refused is refused before the first charge.
        self._penalty(), self._rows_declared(), self._steps()
        priced = self.method_ != "gradient" and not isinstance(oracle.budget.main, PureSpend)
        if wants_look(oracle, self.scaling) and not priced:
            self.learn_after(oracle, look_first(oracle))
        else:
            clipped = oracle.clip_rows(choose_row_norm(oracle.declared))
            found = self._learn_weights(clipped, 0.0, Fraction(1), self._rows_declared())
            self._keep(found, oracle.declared, clipped.declared, oracle.declared.middles)

    def learn_after(self, oracle: Oracle, look: FirstLook) -> float:
        """Learn with what a first look left; return, with noise, how many rows it leads by.

        Noise of many weights can make a fit worse than none: then the commonest class takes its place.
        """
        declared = look.oracle.declared
        clipped = look.oracle.clip_rows(choose_row_norm(declared))
        offset, rows = self._prior_scores(look.counts), self._rows_declared()
        found = self._learn_weights(clipped, offset, look.for_fit, look.rows if rows is None else rows)
        scores = linear_scores(clipped, found.weights, found.constant * found.norm)
        lead = measure_score_lead(clipped, scores, look)
        if lead <= 0:
            weights = np.zeros_like(found.weights)
            weights[:, -1] = offset / found.constant
            found = replace(found, weights=weights)
        self._keep(found, declared, clipped.declared, oracle.declared.middles)
        return lead

    def _learn_weights(
        self, clipped: Oracle, offset: Floats | float, left: Fraction, rows: float | None
    ) -> LearnedWeights:
        """Learn weights by the chosen method, for this share of the spend."""
        if isinstance(clipped, ArrayOracle) and self.method_ != "gradient":
            return perturbed_fits.fit_own_rows(
                clipped, self._score_loss(), self.method_, self._penalty() or None, offset, left
            )
        if self.method_ == "minima":
            return self._release_objective(clipped)
        return self._descend(clipped, rows, offset, left)

    def _prior_scores(self, counts: Floats) -> Floats:
        """Return scores by which every row is of the commonest class, from noisy counts of classes."""
        odds = np.log(counts / (counts.sum() - counts))
        # Margins beyond 1 gain nothing.
        found: Floats = (odds[1:] if len(counts) == 2 else odds) / max(1.0, float(np.abs(odds).max()))
        return found

    def _release_objective(self, clipped: Oracle) -> LearnedWeights:
        """Perturb the objective where convergence is proven for so many rows; else descend."""
        asked = perturbed_fits.plan_release(clipped, *self._loss_name(), self._penalty() or None)
        # The count is charged on its own; whatever is chosen by it is post-processing.
        asked, rows = perturbed_fits.count_rows(clipped, asked)
        if asked.converges:
            return perturbed_fits.fit_release(clipped, asked)
        self.method_ = "gradient"
        return self._descend(clipped, rows, 0.0, Fraction(1))

    def _descend(
        self, clipped: Oracle, rows: float | None, offset: Floats | float, left: Fraction
    ) -> LearnedWeights:
        descent = NoisyDescent(self._score_gradient, self._penalty(), rows, self._steps(), offset, left)
        return descent.learn_weights(clipped)

    def _penalty(self) -> float:
        found = 0.0 if self.penalty is None else float(parse_exact(self.penalty, "penalty"))
        if found < 0:
            raise UsageError("SF-N101", "The penalty must not be negative.", try_="penalty=1.0")
        return found

    def _rows_declared(self) -> float | None:
        return None if self.rows is None else float(parse_positive(self.rows, "rows"))

    def _steps(self) -> int | None:
        return None if self.steps is None else parse_whole(self.steps, "steps")


class LogisticRegression(ConvexClassifier):
    """Logistic regression: the sigmoid of one score for two classes, softmax for more.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared.
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
        method: Any = "auto",
        penalty: Any = None,
        rows: Any = None,
        steps: Any = None,
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
        self.method = method
        self.penalty = penalty
        self.rows = rows
        self.steps = steps
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _loss(self) -> Loss:
        return LOGISTIC

    def _score_gradient(self, one: int) -> ScoreGradient:
        if len(self.classes_) == 2:
            return super()._score_gradient(one)
        return SoftmaxGradient(ScoreGrid(one), _clip_norm(len(self.classes_)), len(self.classes_))

    def _score_loss(self) -> ScoreLoss:
        return super()._score_loss() if len(self.classes_) == 2 else SoftmaxLoss(len(self.classes_))

    def _prior_scores(self, counts: Floats) -> Floats:
        logs = np.log(counts)
        found: Floats = logs[1:] - logs[0] if len(counts) == 2 else logs - logs.mean()
        return found

    def _loss_name(self) -> tuple[str, Any]:
        return ("logistic" if len(self.classes_) == 2 else "chances"), 1


class _MarginClassifier(ConvexClassifier):
    """A classifier whose scores are no probabilities."""

    @property
    def predict_proba(self) -> Callable[[Any], Floats]:
        """Not offered: scikit-learn finds that out by asking for the attribute."""
        raise AttributeError("scores of margins are no probabilities: decision_function gives them")


class LinearSVC(_MarginClassifier):
    """Support vector classifier with a hinge loss that is smoothed within `width` of its corner.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared.
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
        width: Any = 0.5,
        method: Any = "auto",
        penalty: Any = None,
        rows: Any = None,
        steps: Any = None,
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
        self.width = width
        self.method = method
        self.penalty = penalty
        self.rows = rows
        self.steps = steps
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _loss(self) -> Loss:
        return huber(self.width)

    def _loss_name(self) -> tuple[str, Any]:
        return "huber", self.width


class ConvexERM(_MarginClassifier):
    """Any convex loss of margins whose Lipschitz and smoothness constants are declared (`sf.learn.Loss`).

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared;
               the constants of the loss are what it says.
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
        loss: Any = "logistic",
        method: Any = "auto",
        penalty: Any = None,
        rows: Any = None,
        steps: Any = None,
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
        self.loss = loss
        self.method = method
        self.penalty = penalty
        self.rows = rows
        self.steps = steps
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _loss(self) -> Loss:
        return find_loss(self.loss)

    def _loss_name(self) -> tuple[str, Any]:
        if self.loss not in ("logistic", "huber"):
            raise PolicyError(
                "SF-E117",
                "Behind the curator, Gaussian objective perturbation takes only losses that have a name.",
                why="what a function computes is not known before it is called with rows",
                try_='loss="huber", or method="gradient"',
            )
        return self.loss, Fraction(1, 2)


def _clip_norm(classes: int) -> float:
    return _CLIP_NORM if classes == 2 else _CLIP_NORM * math.sqrt(2)
