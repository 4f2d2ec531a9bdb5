"""A classifier that chooses its family and settings by public facts, and says why.

Because : docs/proofs/learners.md#automatic-choice
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import UsageError
from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.learn.convex.method_table import choose_method
from sfumato.learn.first_look import can_pay_for_look, has_own_arrays
from sfumato.learn.linear.classifiers import LogisticRegression
from sfumato.learn.target_range import tighten_bounds
from sfumato.learn.trees.boosting import GradientBoosting
from sfumato.oracle.blocks import COUNT, SumBlock, share_of
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.guarantee import EXACT, IDEALISED
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners_unseen.py, on its development tables; privacy depends on none of these, as
# long as the family that is chosen gets no more than what the count leaves.
_COUNT_SHARE = Fraction(1, 100)
"""Share of the spend for the number of rows, where it is not declared."""
_FOR_TREES, _FOR_TREES_PURE = 160.0, 2800.0
"""Rows in deviations of a noisy count, for each feature and score, from which on trees learn more than a
line; with pure ε noise grows faster with the number of trees."""
_LOOK_SHARE = Fraction(4, 100)
"""Share of the spend for each look at where features lie, for trees; logistic regression has its own."""
_FAMILIES = {"LogisticRegression": LogisticRegression, "GradientBoosting": GradientBoosting}


class AutoClassifier(PrivateClassifier):
    """Logistic regression, or boosted trees where there are rows enough; `why_` says which, and why.

    The choice is by the number of features and classes, ε, and the number of rows: as declared by `rows`, or
    a noisy one.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#automatic-choice
    Assumes  : the bounds and the classes are public, and the number of rows where it is declared.
    """

    family_: str

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        classes: Any = None,
        rows: Any = None,
        random_state: Any = 0,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.classes = classes
        self.rows = rows
        self.random_state = random_state
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    @property
    def arithmetic(self) -> str:  # type: ignore[override]
        """The kind of arithmetic that `guarantee_` names: perturbation on own arrays is idealised."""
        return IDEALISED if self.delta is None and self.rho is None and self.bounds is not None else EXACT

    def _learn(self, oracle: Oracle) -> None:
        if not can_pay_for_look(oracle):
            raise UsageError(
                "SF-E158", "The spend is too small to choose an estimator by.", try_="epsilon=0.1 or more"
            )
        if self.rows is None:
            (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], share=_COUNT_SHARE)
            rows, left = max(1.0, float(answer.values[0, 0])), 1 - _COUNT_SHARE
        else:
            rows, left = float(parse_positive(self.rows, "rows")), Fraction(1)
        self.family_, self.why_ = self._choose(oracle, rows)
        chosen = _FAMILIES[self.family_](bounds=self.bounds, classes=self.classes)
        if isinstance(chosen, GradientBoosting):
            oracle, spent = tighten_bounds(oracle, rows, _LOOK_SHARE)
            left -= spent
        budget, features = self._rest(oracle, left), len(oracle.declared.features)
        chosen.classes_ = self.classes_
        if isinstance(chosen, LogisticRegression):
            # Behind the curator the first look has no answers to find again: this estimator is new.
            chosen.set_params(scaling="private")
            # Perturbation of an objective is proven for real numbers, so it runs on own arrays alone.
            own = has_own_arrays(oracle) and isinstance(budget.main, PureSpend)
            chosen.method_ = choose_method(len(self.classes_), features) if own else "gradient"
        else:
            chosen.set_params(random_state=self.random_state)
        chosen._learn(oracle.with_budget(budget))
        self.learned_ = {name: value for name, value in vars(chosen).items() if name.endswith("_")}

    def _rest(self, oracle: Oracle, left: Fraction) -> FitBudget:
        """Return what is left of the budget, as the chosen family reads it."""
        spend = share_of(oracle.budget.main, left)
        if isinstance(spend, PureSpend):
            return FitBudget.of({"epsilon": spend.epsilon}, Fraction(0))
        return replace(oracle.budget, main=spend)

    def _choose(self, oracle: Oracle, rows: float) -> tuple[str, str]:
        """Choose a family by public facts; return its name, and the reason."""
        pure = isinstance(oracle.budget.main, PureSpend)
        (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], oracle.budget.main)
        features, classes = len(oracle.declared.features), len(self.classes_)
        scores = 1 if classes == 2 else classes
        # Noise of one count in the place of ε, so that the same rule reads δ and ρ.
        signal = rows / noise.deviation / (features * scores)
        needed = _FOR_TREES_PURE if pure else _FOR_TREES
        name = "GradientBoosting" if signal >= needed else "LogisticRegression"
        enough = "are enough" if name == "GradientBoosting" else "are too few"
        return name, (
            f"{name}: about {rows:,.0f} rows, where a count has noise of ±{noise.deviation:.1f}, "
            f"for {features} features and {classes} classes {enough} for trees."
        )

    @property
    def estimator_(self) -> Any:
        """The fitted estimator that was chosen."""
        found = _FAMILIES[self.family_](bounds=self.bounds, classes=self.classes)
        found.__dict__.update(self.learned_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(found, name, getattr(self, name))
        return found

    def _log_scores(self, rows: Floats) -> Floats:
        found: Floats = self.estimator_._log_scores(rows)
        return found
