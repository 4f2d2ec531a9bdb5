"""A classifier that chooses its family and settings by public facts, and says why.

Because : docs/proofs/learners.md#automatic-choice
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.spend import PureSpend
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_decimal, format_share
from sfumato.learn.base.supervised import PrivateClassifier
from sfumato.learn.first_look import can_pay_for_look, has_own_arrays, look_first
from sfumato.learn.linear.classifiers import LogisticRegression
from sfumato.learn.naive_bayes import GaussianNB
from sfumato.learn.trees.boosting import GradientBoosting
from sfumato.learn.trees.boosting_rounds import SPREAD_SHARE
from sfumato.oracle.blocks import COUNT, SumBlock, share_of
from sfumato.oracle.feature_spread import can_measure_spread
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.guarantee import EXACT, IDEALISED
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.learn.first_look import FirstLook
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners_unseen.py, on its development tables; privacy depends on none of these, as
# long as the shares of trials and of the last fit add up to at most what the first look leaves.
_TRIAL, _LEAD = Fraction(5, 100), Fraction(1, 4)
"""Share of the spend for the trial of a family, and of that for how many rows it leads by."""
_FOR_TRIALS = 15.0
"""Rows in deviations of a trial's noise, for each weight, from which on trials tell families apart."""
_FAMILIES = {
    "LogisticRegression": LogisticRegression,
    "GaussianNB": GaussianNB,
    "GradientBoosting": GradientBoosting,
}


class AutoClassifier(PrivateClassifier):
    """Logistic regression, naive Bayes or boosted trees; `why_` says which, and why.

    Logistic regression learns most from few rows; behind the curator, with pure ε and more than two classes,
    naive Bayes does. Where there are enough of them, by the number of features
    and classes, the spend, and the number of rows as declared or counted, each family is tried for a small
    share of the spend first, and the one that meets most rows has the rest.

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
                "SF-Q218", "The spend is too small to choose an estimator by.", try_="epsilon=0.1 or more"
            )
        declared = None if self.rows is None else float(parse_positive(self.rows, "rows"))
        look = look_first(oracle)
        look = look if declared is None else replace(look, rows=declared)
        self.family_, self.why_, spent = self._choose(oracle, look)
        chosen = self._make(self.family_, oracle)
        chosen.learn_after(*_part_of(oracle, look, look.left - spent))
        self.learned_ = {name: value for name, value in vars(chosen).items() if name.endswith("_")}

    def _choose(self, oracle: Oracle, look: FirstLook) -> tuple[str, str, Fraction]:
        """Choose a family by public facts and trials; return its name, the reason, and what trials cost."""
        (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], share_of(oracle.budget.main, _TRIAL))
        features, classes = len(oracle.declared.features), len(self.classes_)
        weights = features * (1 if classes == 2 else classes)
        facts = f"about {format_decimal(look.rows, 0)} rows for {features} features and {classes} classes"
        # Noise of one count in the place of ε, so that the same rule reads δ and ρ.
        pure = isinstance(oracle.budget.main, PureSpend)
        needed = _FOR_TRIALS * noise.deviation * (weights if pure else math.sqrt(weights))
        part, trial = _part_of(oracle, look, _TRIAL)
        # Of all that trials ask, the spread of features needs the widest noise.
        if look.rows < needed or not can_measure_spread(part, SPREAD_SHARE):
            # A descent with Laplace noise learns less of several classes than their means tell.
            several = pure and classes > 2 and not has_own_arrays(oracle)
            name = "GaussianNB" if several else "LogisticRegression"
            return name, f"{name}: {facts} are too few to try families on.", Fraction(0)
        trial = replace(trial, check=_LEAD)
        leads = {name: self._make(name, oracle).learn_after(part, trial) for name in _FAMILIES}
        shares = {name: lead / look.rows for name, lead in leads.items()}
        name = max(shares, key=lambda each: shares[each])
        shown = ", ".join(
            f"{each} {'+' if share > 0 else ''}{format_share(share)}" for each, share in shares.items()
        )
        why = f"{name}: {facts}; trials met more of them than the commonest class, with noise, by {shown}."
        return name, why, len(_FAMILIES) * _TRIAL

    def _make(self, name: str, oracle: Oracle) -> Any:
        """Return a new estimator of a family that can learn after a first look."""
        found = _FAMILIES[name](bounds=self.bounds, classes=self.classes)
        found.classes_ = self.classes_
        if isinstance(found, LogisticRegression):
            # Perturbation of an objective is proven for real numbers, so it runs on own arrays alone.
            own = has_own_arrays(oracle) and isinstance(oracle.budget.main, PureSpend)
            found.method_ = "objective" if own else "gradient"
        if isinstance(found, GradientBoosting):
            found.set_params(random_state=self.random_state)
        return found

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


def _part_of(oracle: Oracle, look: FirstLook, share: Fraction) -> tuple[Oracle, FirstLook]:
    """Return the rows and what is known of them, for a fit that has this share of the spend."""
    spend = share_of(oracle.budget.main, share)
    if isinstance(spend, PureSpend):
        budget = FitBudget.of({"epsilon": spend.epsilon}, Fraction(0))
    else:
        budget = replace(oracle.budget, main=spend)
    found = replace(look, oracle=look.oracle.with_budget(budget), left=Fraction(1))
    return oracle.with_budget(budget), found
