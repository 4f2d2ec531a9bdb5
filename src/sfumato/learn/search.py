"""Private hyper-parameter search: a random number of runs, each with a random setting, and the best of them.

Because : docs/proofs/search.md
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.errors import SealedError, UsageError
from sfumato.learn.base.estimator import PaidEstimator, quiet_arithmetic
from sfumato.learn.search_scores import draw_test_rows, release_score, score_own_rows
from sfumato.noise.audit_hook import unobserved
from sfumato.noise.sampling.bits import OS, draw_below
from sfumato.oracle.fit_budget import FitBudget, to_event
from sfumato.privacy.conversion import renyi_epsilon
from sfumato.privacy.events import BestOf, Parallel, Sequential
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.sensitivity import root_up
from sfumato.viz import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.privacy.events import Event

Setting = TypeVar("Setting")
Found = TypeVar("Found")

_HALVINGS = 40
"""Steps of the bisection for the price of a run, which ends on the side that costs less."""
_TRIES = 10_000
"""Attempts to draw a number of runs below a limit; each succeeds more often than not."""


def _of_best(name: str) -> Callable[[Any], bool]:
    """Return a function that says whether the best estimator of a search has a method."""
    return lambda search: hasattr(getattr(search, "best_estimator_", None), name)


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What each run may cost, so that the best of all costs what was typed."""

    amounts: dict[str, Any]
    """The price of a fit, as parameters of the estimator."""
    score: Spend
    """The price of scoring a run."""
    event: BestOf
    """The price of the whole search."""


class Search(PaidEstimator):
    """The best setting of an estimator, for the price of a few fits however many are tried.

    `grid` lists values for each parameter. A run takes one of all combinations at random, learns from three
    rows in four and is scored on the rest. There are `runs` of them on average; how many there are is drawn
    at random, and not told. `best_score_` is the noisy score of the best: the accuracy of a classifier; of a
    regressor one minus the mean squared error, where the bounds of the target are 1 apart.

    Privacy
    -------
    Protects : one row (own arrays) or one unit with one row (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), for all runs and the choice.
    Because  : docs/proofs/search.md
    Assumes  : the estimator keeps its own price, the settings in the grid are public, and how long the search
               takes is not observed.
    """

    best_estimator_: Any

    def __init__(
        self,
        estimator: Any,
        grid: Any,
        *,
        epsilon: Any = None,
        delta: Any = None,
        runs: Any = 10,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.epsilon = epsilon
        self.delta = delta
        self.runs = runs
        self.verbose = verbose
        self.budget = budget

    # ---- what it costs ----

    def fit_budget(self) -> FitBudget:
        """Return what the whole search costs."""
        return replace(super().fit_budget(), whole=self.plan().event)

    def plan(self) -> SearchPlan:
        """Return the price of each run, from public facts."""
        stop, budget = _stopping_chance(parse_whole(self.runs, "runs")), super().fit_budget()
        if budget.epsilon is None:
            raise UsageError(
                "SF-E136", "A search needs epsilon, or epsilon and delta.", try_="epsilon=2.0, delta=1e-6"
            )
        if not budget.delta:
            # With pure ε, and numbers of runs drawn as here, the best of all costs at most twice one run.
            return self._plan_runs({"epsilon": budget.epsilon / 2}, stop)
        low, high = Fraction(0), budget.epsilon**2
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            plan = self._plan_runs({"rho": middle}, stop)
            within = renyi_epsilon(plan.event, budget.delta) <= budget.epsilon
            low, high = (middle, high) if within else (low, middle)
        return self._plan_runs({"rho": low}, stop)

    def _plan_runs(self, amounts: dict[str, Any], stop: Fraction) -> SearchPlan:
        """Return the price of a search whose runs cost these amounts."""
        # A row is either learnt from or scored on, by a coin of its own, so the dearer of the two counts.
        fit: Event = Sequential(self._make_estimator({}, amounts).fit_budget().events)
        score: Spend
        if "rho" in amounts:
            score = GaussianSpend(
                root_up(1 / (2 * amounts["rho"])) if amounts["rho"] else Fraction(2**30), ""
            )
        else:
            score = PureSpend(amounts["epsilon"])
        return SearchPlan(amounts, score, BestOf(Parallel([fit, to_event(score)]), stop))

    def _make_estimator(self, setting: dict[str, Any], amounts: dict[str, Any]) -> Any:
        """Return a new estimator with this setting and price, which counts its fits for itself."""
        params = {**self.estimator.get_params(deep=False), **setting}
        unpaid = {name: None for name in ("epsilon", "delta", "rho", "budget") if name in params}
        unknown = [name for name in amounts if name not in params]
        if unknown:
            raise UsageError(
                "SF-E136",
                "This estimator takes no delta, so a search over it cannot have one.",
                try_="epsilon=2.0 alone",
            )
        return type(self.estimator)(**{**params, **unpaid, **amounts})

    # ---- searching ----

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Charge for all runs, then make them and keep the best."""
        settings = list_settings(self.grid)
        plan = self.plan()
        rows, targets = self._make_estimator({}, plan.amounts).check_arrays(X, y)

        def run(setting: dict[str, Any], tested: NDArray[np.bool_]) -> tuple[Any, float]:
            fitted, known = self._make_estimator(setting, plan.amounts), slice(len(tested))
            # Sets the names of features and classes, as a fit on its own would.
            fitted.check_arrays(X, y)
            # No bar and no warning is shown: runs that are not the best must leave no trace.
            with progress.hide_bars(), quiet_arithmetic():
                fitted.fit_checked(rows[known][~tested], targets[known][~tested])
                qualities = score_own_rows(fitted, rows[known][tested], targets[known][tested])
                return fitted, release_score(qualities, plan.score)

        # A failed run counts as the worst, so a wrong setting must raise its error before, on no rows.
        for setting in settings:
            unobserved(lambda: run(setting, np.zeros(0, dtype=bool)))  # noqa: B023  called at once
        with self._paying() as (budget, pay):
            # One charge for all runs, before any row is read.
            for event in budget.events:
                pay(event)
            tested = draw_test_rows(len(rows))
            best = run_best_of(plan.event.stop, settings, lambda setting: run(setting, tested))
        self.keep_best(*best)
        self.guarantee_ = replace(self.guarantee_, arithmetic=self.best_estimator_.guarantee_.arithmetic)
        return self

    def keep_best(self, setting: dict[str, Any], best: Any, score: float) -> None:
        """Keep the best run: its setting, its estimator and its noisy score."""
        if best is None:
            raise SealedError(
                "SF-E147",
                "Every run of this search failed, so it found nothing.",
                why="no run gave finite numbers; which of them failed, and how, is not told",
                try_="settings that are less extreme",
            )
        self.best_params_, self.best_estimator_, self.best_score_ = setting, best, score
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))

    def __sklearn_tags__(self) -> Any:
        # A search is of the kind that its estimator is.
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags = inner.input_tags
        return tags

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return what the best estimator predicts."""
        check_is_fitted(self)
        found: NDArray[Any] = self.best_estimator_.predict(X)
        return found

    @available_if(_of_best("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the probabilities of the best estimator."""
        found: NDArray[Any] = self.best_estimator_.predict_proba(X)
        return found

    @available_if(_of_best("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the scores of the best estimator."""
        found: NDArray[Any] = self.best_estimator_.decision_function(X)
        return found

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the score of the best estimator on rows that are not protected."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))


def list_settings(grid: Any) -> list[dict[str, Any]]:
    """Return all combinations of the listed values."""
    listed = isinstance(grid, dict) and all(isinstance(each, list | tuple) and each for each in grid.values())
    if not listed or not grid:
        raise UsageError(
            "SF-E137", "grid must list values for each parameter.", try_='{"penalty": [0, 1, 10]}'
        )
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _stopping_chance(runs: int) -> Fraction:
    """Return the chance to stop with which there are about so many runs on average, and never more."""
    from sfumato.privacy.events import Gaussian

    low, high = Fraction(1, 2**20), Fraction(1, 2)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if BestOf(Gaussian(1), middle).mean < runs else (middle, high)
    return high


def draw_runs(stop: Fraction) -> int:
    """Draw a number of runs k with a chance that is exactly proportional to (1 − stop)^k / k.

    A geometric number is drawn and kept with the chance 1/k.
    """
    runs = 1
    # So many coins are never all needed: the chance is below e^−200.
    for _ in range(200 * (stop.denominator // stop.numerator + 1) ** 2):
        if draw_below(stop.denominator, OS) >= stop.numerator:
            runs += 1
        elif draw_below(runs, OS) == 0:
            return runs
        else:
            runs = 1
    raise AssertionError("coins that never fall")


def draw_runs_within(stop: Fraction, most: int) -> int:
    """Draw a number of runs, given that it is at most `most`; the price covers that too."""
    for _ in range(_TRIES):
        runs = draw_runs(stop)
        if runs <= most:
            return runs
    raise AssertionError("coins that never fall")


def run_best_of(
    stop: Fraction,
    settings: Sequence[Setting],
    run: Callable[[Setting], tuple[Found, float]],
    always: int | None = None,
) -> tuple[Setting, Found | None, float]:
    """Return the best of a random number of runs, each with a random setting: its setting, result and score.

    How many runs there were must stay secret. With `always`, so many are made each time, and those beyond the
    drawn number count nowhere, so that the time it takes says nothing about that number.

    A run that fails is an outcome like any other: the same one whatever failed, and worse than every score.
    So the best run alone decides what is returned, as is paid for. If all runs that count have failed, the
    first setting is returned with nothing found.
    """
    counted = draw_runs(stop) if always is None else draw_runs_within(stop, always)
    best: tuple[Setting, Found | None, float] = settings[0], None, -math.inf
    for turn in range(always or counted):
        setting = settings[draw_below(len(settings), OS)]
        with suppress(Exception):  # that a run failed, and how, depends on noise and rows
            found, score = run(setting)
            if turn < counted and score > best[2]:
                best = setting, found, score
    return best
