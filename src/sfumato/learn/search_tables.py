"""Hyper-parameter search on a table behind the curator: one charge, one scan; only the best run is released.

Because : docs/proofs/search.md#behind-the-curator
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import learn
from sfumato.curator.gate import decode_answer
from sfumato.errors import PolicyError, UsageError
from sfumato.learn.base.estimator import PaidEstimator, quiet_arithmetic
from sfumato.learn.base.fit_table import hand_over, read_parameters
from sfumato.learn.base.saving import from_json, list_learned, to_json
from sfumato.learn.base.supervised import PrivateClassifier, PrivateRegressor
from sfumato.learn.search import list_settings, run_best_of
from sfumato.learn.search_scores import ScoredRows, draw_test_rows, release_score
from sfumato.noise.audit_hook import observed, unobserved
from sfumato.oracle.guarantee import EXACT, Guarantee
from sfumato.oracle.over_held_rows import HeldRowsOracle, RowLayout, list_figures
from sfumato.oracle.over_tables import check_column_names, describe_unit, lower_private_table
from sfumato.oracle.row_kernels import AuditedUnits, price_kernel
from sfumato.oracle.table_blocks import limit_rows
from sfumato.oracle.table_features import declare_features
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import group
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours
from sfumato.viz import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.spend import Spend
    from sfumato.curator.question.relation import Relation
    from sfumato.learn.base.estimator import PrivateEstimator
    from sfumato.learn.search import Search, SearchPlan
    from sfumato.privacy.events import BestOf, Event

_DECLARED = ("bounds", "row_norm", "classes", "target_bounds", "categories", "missing", "verbose")
"""Parameters that say what rows can be; behind the curator the catalog says it."""
_SCALING = ("scaling", "auto")
"""A parameter that was added later counts only where it is used: a search that was made before is found."""
_PRICES = ("epsilon", "delta", "rho", "budget")
_ALWAYS = 5
"""Runs that are always made, for each run that was asked for on average. The drawn number is secret, so the
time a search takes must not depend on it; fewer runs would cut off more of the drawn numbers."""
_EXACT = "gradient"
"""The form of linear classifiers whose noise is drawn exactly."""


def search_table(
    payer: Payer,
    asked: Search,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> Search:
    """Find the best setting on a table and return the search, fitted."""
    given, asked = asked, type(asked)(**read_parameters(asked))
    estimator = _require_searchable(asked.estimator, target)
    rows = lower_private_table(payer, table, split)
    require_one_each(rows, parse_whole(rows_per_unit, "rows_per_unit"), "a search")
    bounded, each = limit_rows(rows, 1)
    names = check_column_names(features)
    bounded, declared = declare_features(bounded, names, target, estimator)
    plan, settings = _plan_search(asked, estimator)
    always = _ALWAYS * parse_whole(asked.runs, "runs")
    best = BestRunKernel.of(estimator, settings, RowLayout.of(declared), plan, always)
    budget = replace(PaidEstimator.fit_budget(asked), whole=plan.event)
    priced = price_kernel(bounded, list_figures(declared), best, budget.main)
    # An answer that is kept already needs no rehearsal.
    if not payer.was_answered(priced):
        unobserved(best.rehearse)
    (answer,) = decode_answer(payer.pay(priced, f"search {best.kind}").answer)
    winner = best.make_estimator(answer["setting"])
    # What is declared is no part of the charge, and the winner follows the same rules as the runs did.
    winner.set_params(
        **{name: each for name, each in read_parameters(estimator).items() if name in _DECLARED}
    )
    winner.begin_fit(names, declared)
    learned = answer["learned"]
    winner.__dict__.update({} if learned is None else from_json(learned))
    # Answers of earlier versions have the number of rows that were met, and not their share.
    score = answer.get("share", answer.get("score"))
    asked.keep_best(settings[answer["setting"]], None if learned is None else winner, score)
    asked.guarantee_ = winner.guarantee_ = Guarantee.of(
        budget, unit=describe_unit(rows, each), neighbours=rows.table.neighbours
    )
    return hand_over(asked, given)


# ---- what may be searched ----------------------------------------------------------------------------------


def _require_searchable(estimator: Any, target: str | None) -> Any:
    """Return a reviewed classifier or regressor, in its exact form."""
    reviewed = type(estimator) in {getattr(learn, name) for name in learn.ESTIMATORS}
    if not reviewed or not isinstance(estimator, PrivateClassifier | PrivateRegressor) or target is None:
        raise UsageError(
            "SF-E145",
            "Behind the curator, a search needs a classifier or regressor of sf.learn and a target.",
            try_='s.fit(sf.learn.Search(sf.learn.LogisticRegression(), …), …, target="ill")',
        )
    return type(estimator)(**_in_exact_form(read_parameters(estimator)))


def _in_exact_form(params: dict[str, Any]) -> dict[str, Any]:
    if params.get("method", "auto") not in ("auto", _EXACT):
        raise PolicyError(
            "SF-E132",
            "Behind the curator, a search fits linear classifiers by gradient descent only.",
            why="other methods are proven for real numbers only, or have a δ of their own in every run",
            try_='method="gradient"',
        )
    return {**params, "method": _EXACT} if "method" in params else params


def require_one_each(rows: RowSource, rows_per_unit: int, asked: str) -> None:
    """Refuse units of several rows, and those that are replaced: what sees rows is proven for neither."""
    if rows_per_unit > 1 or rows.table.neighbours is Neighbours.REPLACE_ONE:
        raise PolicyError(
            "SF-E144",
            f"Behind the curator, {asked} protects units of one row that are added or removed.",
            try_="rows_per_unit=1, or s.fit for each setting, which are charged one by one",
        )


def _plan_search(asked: Search, estimator: Any) -> tuple[SearchPlan, list[dict[str, Any]]]:
    """Return what each run may cost, and the settings in one order, whatever the order in the grid.

    A grid that is written in another order is the same question, which is answered again for nothing.
    """
    listed = list_settings(asked.grid)
    settings = sorted((dict(sorted(_in_exact_form(each).items())) for each in listed), key=repr)
    params = {**asked.get_params(deep=False), "estimator": estimator}
    return type(asked)(**params).plan(), settings


def _write_parameters(parameters: dict[str, Any]) -> str:
    """Return parameters as JSON, which is part of what is charged for."""
    try:
        return json.dumps(to_json(parameters), allow_nan=False)
    except UsageError as problem:
        raise UsageError(
            "SF-E146",
            "Behind the curator, parameters of a search must be numbers, texts or lists.",
            why="the charge records them, so that the same search is recognised and free",
            try_='loss="huber" instead of a function',
        ) from problem


# ---- what is charged ---------------------------------------------------------------------------------------


def _is_asked(name: str, value: Any) -> bool:
    """Say whether a parameter is a part of what is asked."""
    return name not in _DECLARED + _PRICES and (name, value) != _SCALING


@tagged("Best", "kind", "given", "settings", "layout", "amounts", "score", "whole", "always")
@dataclass(frozen=True, slots=True)
class BestRunKernel:
    """Releases the best of a random number of runs: its setting, what it learnt, and its noisy score.

    Privacy
    -------
    Protects : one unit with one row, add/remove.
    Costs    : BestOf(Parallel(fit, score)).
    Because  : docs/proofs/search.md#behind-the-curator
    Assumes  : rows are integers within their bounds; what NumPy computes of one row in a block of fixed size
               depends on that row, its place and the model; how long its runs take is not observed.
    """

    kind: str
    given: str
    settings: tuple[str, ...]
    layout: RowLayout
    amounts: tuple[tuple[str, Fraction], ...]
    score: Spend
    whole: BestOf
    always: int
    """The number of runs that are made each time, of which a random number count."""

    @classmethod
    def of(
        cls,
        estimator: Any,
        settings: Sequence[dict[str, Any]],
        layout: RowLayout,
        plan: SearchPlan,
        always: int,
    ) -> BestRunKernel:
        """Return the kernel of a search, with all parameters written down."""
        params = estimator.get_params(deep=False)
        given = _write_parameters(
            {name: params[name] for name in sorted(params) if _is_asked(name, params[name])}
        )
        texts = tuple(map(_write_parameters, settings))
        amounts = tuple(plan.amounts.items())
        return cls(type(estimator).__name__, given, texts, layout, amounts, plan.score, plan.event, always)

    @property
    def passes(self) -> int:
        """About how often it goes over the rows, in all its runs."""
        return 100 * self.always

    def event(self, units: int = 1) -> Event:
        """Return the price for units that change together."""
        return group(self.whole, units)

    def make_estimator(self, setting: int) -> PrivateEstimator:
        """Return the estimator with this setting, at the price of a run."""
        kind = getattr(learn, self.kind)
        params = {**from_json(json.loads(self.given)), **from_json(json.loads(self.settings[setting]))}
        unpaid = dict.fromkeys(name for name in params if name in _PRICES)
        made: PrivateEstimator = kind(**{**params, **unpaid, **dict(self.amounts)})
        return made

    def release(self, exact: NDArray[np.int64]) -> dict[str, Any]:
        """Return the best run over rows that are given as one row a figure and one column a unit."""
        found: dict[str, Any] = observed(self, AuditedUnits(exact), None, lambda: self._drawn(exact))
        return found

    def rehearse(self) -> None:
        """Run every setting on a table of no rows, so that a wrong one raises before anything is charged."""
        nothing = np.zeros((len(self.layout.features) + 1, 0), dtype=np.int64)
        for setting in range(len(self.settings)):
            self._run(setting, nothing, ScoredRows.of(self.layout, nothing))

    def _drawn(self, exact: NDArray[np.int64]) -> dict[str, Any]:
        tested = draw_test_rows(exact.shape[1])
        rows, aside = exact[:, ~tested], ScoredRows.of(self.layout, exact[:, tested])
        setting, model, score = run_best_of(
            self.whole.stop,
            range(len(self.settings)),
            lambda setting: self._run(setting, rows, aside),
            self.always,
        )
        # JSON has no infinity, which is the score of a failed run.
        return {"setting": setting, "share": None if model is None else score, "learned": model}

    def _run(self, setting: int, rows: NDArray[np.int64], aside: ScoredRows) -> tuple[dict[str, Any], float]:
        """Return what a run learns, as JSON, and its noisy score.

        No progress bar and no warning is shown: runs that are not the best must leave no trace.
        """
        model, declared = self.make_estimator(setting), self.layout.declare()
        with progress.hide_bars(), quiet_arithmetic():
            model.begin_fit([each.name for each in declared.features], declared)
            # Rows held in memory have no names of features to compare with.
            del model.feature_names_in_
            if model.arithmetic != EXACT:
                raise AssertionError("only exact forms run here")
            # What the catalog says is public and is not part of the answer.
            public = vars(model).keys() | {"feature_names_in_"}
            model._learn(HeldRowsOracle.over(declared, model.fit_budget(), rows))
            found = {name: value for name, value in list_learned(model).items() if name not in public}
            return to_json(found), release_score(aside.qualities(model), self.score)
