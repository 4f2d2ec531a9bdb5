"""Fitting an estimator on a table behind the curator: the way of one fit, from top to bottom.

`session.fit` calls `fit_table`, which takes bounds and classes from the catalog and hands the estimator an
oracle; the estimator's `_learn` asks it for sums; every round is charged at the gate before anything is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.curator.lower.transactions import build_transactions
from sfumato.errors import UsageError
from sfumato.learn.base.estimator import quiet_arithmetic
from sfumato.oracle.declared import declare_items
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import (
    FitRounds,
    TableOracle,
    check_column_names,
    describe_unit,
    lower_private_table,
)
from sfumato.oracle.table_blocks import limit_rows
from sfumato.oracle.table_features import declare_features
from sfumato.privacy.exact import parse_whole
from sfumato.viz.progress import report_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.payer import Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.learn.base.estimator import PrivateEstimator


Fitted = TypeVar("Fitted")


def fit_table(
    payer: Payer,
    estimator: PrivateEstimator,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> PrivateEstimator:
    """Learn from a table and return the estimator, fitted."""
    given, estimator = estimator, rebuild_estimator(estimator)
    rows = lower_private_table(payer, table, split)
    bounded, each = limit_rows(rows, parse_whole(rows_per_unit, "rows_per_unit"))
    names: Sequence[Any] = check_column_names(features)
    if estimator.reads_sets:
        # One set for each unit, from all its rows: it counts once whatever `rows_per_unit` is.
        bounded, names, columns = build_transactions(rows, names)
        declared, each = declare_items(names, columns), rows.max_rows
    else:
        bounded, declared = declare_features(bounded, names, target, estimator)
    name = type(estimator).__name__
    rounds = FitRounds(payer, name, report=report_rounds(name, estimator.verbose))
    oracle = TableOracle(rounds, bounded, declared, estimator.fit_budget())
    # Nothing was charged so far: what the catalog does not say is refused before the first round.
    estimator.begin_fit(names, declared)
    with quiet_arithmetic(), rounds.hold_rows():
        estimator._learn(oracle)
    estimator.guarantee_ = Guarantee.of(
        oracle.budget,
        unit=describe_unit(rows, each),
        neighbours=rows.table.neighbours,
        arithmetic=estimator.arithmetic,
    )
    return hand_over(estimator, given)


def rebuild_estimator(estimator: Any) -> PrivateEstimator:
    """Return a new estimator with the same parameters, or refuse one that was not reviewed.

    Behind the curator, what an estimator says of its sums is believed. So it is one of the closed list and no
    subclass, and nothing else that was set on the object takes part, not even what stands for a method.
    """
    from sfumato import learn

    if type(estimator) not in {getattr(learn, name) for name in learn.ESTIMATORS}:
        raise UsageError(
            "SF-E117",
            "Only the estimators of sf.learn can be fitted behind the curator.",
            try_="sf.learn.LogisticRegression(epsilon=0.5), or s.oracle(…) for a program of one's own",
        )
    made: PrivateEstimator = type(estimator)(**read_parameters(estimator))
    return made


def read_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, by the method of its class and no other of that name."""
    found: dict[str, Any] = type(estimator).get_params(estimator, deep=False)
    return found


def hand_over(fitted: Any, given: Fitted) -> Fitted:
    """Give what a rebuilt estimator has learnt to the one that was handed in, and return that."""
    known = read_parameters(fitted)
    vars(given).update({name: value for name, value in vars(fitted).items() if name not in known})
    return given
