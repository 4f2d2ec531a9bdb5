"""Linear classifiers: logistic regression, support vectors with a rounded hinge, any convex loss of margins.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.learn.convex import textbook
from sfumato.learn.convex.descent import Descent
from sfumato.learn.convex.losses import LOGISTIC, huber, named
from sfumato.learn.convex.problems import Chances, OfMargins
from sfumato.learn.convex.score_gradients import Grid, Margins, Softmax
from sfumato.learn.linear.scores import LinearClassifier, length_of
from sfumato.oracle.guarantee import COVERED, EXACT, IDEALISED
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.privacy.exact import exact, positive, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.learn.convex.descent import Found
    from sfumato.learn.convex.losses import Loss
    from sfumato.learn.convex.problems import Joint
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.gradients import ScoreGradient
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_PULL = 0.32
"""A row pulls at most so much where there are two classes; √2 times as much in all where there are more."""
_METHODS = ("auto", "gradient", "output", "objective", "gaussian")


class ConvexClassifier(LinearClassifier):
    """A linear classifier that makes a convex loss small.

    `method` is how it is learnt. "gradient", noisy descent over exact sums, runs everywhere. Textbook forms
    run on own arrays: "output" and "objective" perturbation, both of pure ε, and "gaussian" objective
    perturbation, of (ε, δ). "auto" takes objective perturbation for two classes and pure ε on own
    arrays, else descent.
    """

    method_: str
    delta: Any
    rho: Any
    method: Any
    penalty: Any
    rows: Any
    steps: Any

    @abstractmethod
    def _loss(self) -> Loss: ...

    def _residual(self, one: int) -> ScoreGradient:
        classes = len(self.classes_)
        return Margins(self._loss(), Grid(one), _pull(classes) * self._loss().steepness, classes)

    def _joint(self) -> Joint:
        return OfMargins(self._loss(), len(self.classes_))

    def _named(self) -> tuple[str, Any]:
        """The loss by its name, and the width of a hinge: what the curator may be told of it."""
        return "logistic", 1

    # ---- which form ----

    def _form(self) -> str:
        """By what is public: how the spend was typed, and how many classes there are."""
        if self.method not in _METHODS:
            raise UsageError("SF-E131", "This method is not known.", try_=", ".join(map(repr, _METHODS)))
        if self.method != "auto":
            return str(self.method)
        pure = self.delta is None and self.rho is None
        two = self.classes is not None and len(self.classes) == 2
        return "objective" if pure and two else "gradient"

    def fit_budget(self) -> FitBudget:
        budget, form = super().fit_budget(), self._form()
        return budget if form == "gradient" else textbook.priced(budget, form)

    @property
    def arithmetic(self) -> str:  # type: ignore[override]
        """What `guarantee_` says of it."""
        return {"gradient": EXACT, "minima": COVERED}.get(self.method_, IDEALISED)

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Any]:  # noqa: N803
        self.method_ = self._form()
        return super()._checked(X, y)

    def begin(self, features: Any, declared: Declared) -> None:
        """Behind the curator there is descent, and the Gaussian form with noise on its output."""
        super().begin(features, declared)
        self.method_ = "minima" if self.method == "gaussian" else "gradient"
        if self.method not in ("auto", "gradient", "gaussian"):
            raise PolicyError(
                "SF-E132",
                "Textbook forms of perturbation run on own arrays only.",
                why="what a solver does to their noise in floating point is not proven to hide a row",
                try_='method="gradient", or method="gaussian" with a delta',
            )

    # ---- learning ----

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        short = oracle.short(length_of(declared))
        if isinstance(short, ArrayOracle) and self.method_ != "gradient":
            found = textbook.learned(short, self._joint(), self.method_, self._penalty() or None)
        elif self.method_ == "minima":
            found = self._near_minimum(short)
        else:
            found = self._descended(short, self._rows_declared())
        self._keep(found, declared, short.declared)

    def _near_minimum(self, short: Oracle) -> Found:
        """Of as many rows as doubles are proven for; descent takes over from there."""
        asked, rows = textbook.counted(short, textbook.minima(short, *self._named(), self._penalty() or None))
        if asked.arrives:
            return textbook.released(short, asked)
        self.method_ = "gradient"
        return self._descended(short, rows)

    def _descended(self, short: Oracle, rows: float | None) -> Found:
        return Descent(self._residual, self._penalty(), rows, self._steps()).run(short)

    def _penalty(self) -> float:
        found = 0.0 if self.penalty is None else float(exact(self.penalty, "penalty"))
        if found < 0:
            raise UsageError("SF-E133", "penalty is not negative.", try_="penalty=1.0")
        return found

    def _rows_declared(self) -> float | None:
        return None if self.rows is None else float(positive(self.rows, "rows"))

    def _steps(self) -> int | None:
        return None if self.steps is None else whole(self.steps, "steps")


class LogisticRegression(ConvexClassifier):
    """Logistic regression of two classes, and of more by their joint chances.

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
        self.budget = budget

    def _loss(self) -> Loss:
        return LOGISTIC

    def _residual(self, one: int) -> ScoreGradient:
        if len(self.classes_) == 2:
            return super()._residual(one)
        return Softmax(Grid(one), _pull(len(self.classes_)), len(self.classes_))

    def _joint(self) -> Joint:
        return super()._joint() if len(self.classes_) == 2 else Chances(len(self.classes_))

    def _named(self) -> tuple[str, Any]:
        return ("logistic" if len(self.classes_) == 2 else "chances"), 1


class _Unlikely(ConvexClassifier):
    """Scores that are no chances."""

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("scores of margins are no chances: decision_function gives them")


class LinearSVC(_Unlikely):
    """Support vectors with a hinge that is rounded off within `width` of its corner.

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
        self.budget = budget

    def _loss(self) -> Loss:
        return huber(self.width)

    def _named(self) -> tuple[str, Any]:
        return "huber", self.width


class ConvexERM(_Unlikely):
    """Any convex loss of margins whose steepness and curvature are declared (`sf.learn.Loss`).

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/convex.md
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared;
               the loss is as steep and as curved as it says.
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
        self.budget = budget

    def _loss(self) -> Loss:
        return named(self.loss)

    def _named(self) -> tuple[str, Any]:
        if self.loss not in ("logistic", "huber"):
            raise PolicyError(
                "SF-E143",
                "Behind the curator this form takes losses that are known by their name.",
                why="what a function computes is not known before it is called with rows",
                try_='loss="huber", or method="gradient"',
            )
        return self.loss, Fraction(1, 2)


def _pull(classes: int) -> float:
    return _PULL if classes == 2 else _PULL * math.sqrt(2)
