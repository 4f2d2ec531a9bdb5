"""Fitting a pipeline on a table behind the curator: step after step, each charged before it reads anything.

Before the first round the accounts are checked for all steps together. What a step learnt is public then, so
the engine computes its features row by row for the next one (`lowered.py`), which costs nothing.

Because : docs/proofs/learners.md#pipelines
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn import pipeline as plain
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator

from sfumato.curator.lower.computed import ComputedColumns
from sfumato.errors import UsageError
from sfumato.learn.base.estimator import quiet_arithmetic
from sfumato.learn.base.fit_table import hand_over, rebuild_estimator
from sfumato.learn.evaluation_kernel import require_same_features
from sfumato.learn.pipelines.lowered import narrow_features, read_bounds
from sfumato.learn.pipelines.stages import PipelinePart, PipelineStages, list_steps, read_stages
from sfumato.oracle.blocks import Column
from sfumato.oracle.guarantee import Guarantee, combine_guarantees
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
    from collections.abc import Callable, Sequence

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.learn.pipelines.checked import Pipeline
    from sfumato.oracle.declared import Declared, Feature

    Fit = Callable[[Any, Sequence[str], RowSource, Declared], None]


def fit_pipeline(
    payer: Payer,
    pipeline: Pipeline,
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> Pipeline:
    """Learn every step from a table and return the pipeline, fitted."""
    given: dict[int, Any] = {}

    def rebuild(step: Any) -> Any:
        made = rebuild_estimator(step)
        given[id(made)] = step
        return made

    rows = lower_private_table(payer, table, split)
    bounded, each = limit_rows(rows, parse_whole(rows_per_unit, "rows_per_unit"))
    names = check_column_names(features)
    stages = read_stages(pipeline, names, rebuild)
    source, declared = _declare_columns(stages, bounded, target)
    # Nothing was charged so far: what the catalog does not say is refused before the first round.
    stages.model.begin_fit(stages.columns, declared)
    budgets = tuple(step.fit_budget() for step in stages.steps)
    report = report_rounds("Pipeline", any(step.verbose for step in stages.steps))
    rounds = FitRounds(payer, "Pipeline", report=report, together=budgets)

    def fit(step: Any, columns: Sequence[str], held: RowSource, known: Declared) -> None:
        step.begin_fit(columns, known)
        budget = step.fit_budget()
        step._learn(TableOracle(rounds, held, known, budget))
        unit, neighbours = describe_unit(rows, each), rows.table.neighbours
        step.guarantee_ = Guarantee.of(budget, unit=unit, neighbours=neighbours, arithmetic=step.arithmetic)

    with quiet_arithmetic(), rounds.hold_rows():
        run_stages(stages, source, declared, fit)
    for step in stages.steps:
        hand_over(step, given[id(step)])
    pipeline.guarantee_ = _promise(stages)
    _finish_parts(pipeline, declared)
    return pipeline


def lower_pipeline(
    pipeline: Pipeline, rows: RowSource, target: str, rebuild: Callable[[Any], Any]
) -> tuple[Any, RowSource, Declared]:
    """Return the last step of a fitted pipeline, and the rows with the features that it takes."""
    names = getattr(list_steps(pipeline)[0], "feature_names_in_", None)
    if names is None:
        raise UsageError(
            "SF-E141",
            "Behind the curator, a model is evaluated on columns with the names it was fitted on.",
            try_="a pipeline from s.fit(…), or one fitted on a frame with the same columns",
        )
    stages = read_stages(pipeline, [str(name) for name in names], rebuild)
    rows, declared = _declare_columns(stages, rows, target)
    for part in stages.parts:
        for step in part.steps[:1]:
            require_same_features(step, _take_columns(declared, part.columns))
    return (stages.model, *run_stages(stages, rows, declared))


def _declare_columns(
    stages: PipelineStages, rows: RowSource, target: str | None
) -> tuple[RowSource, Declared]:
    """Return the columns as the first steps take them, and refuse what later steps could not take."""
    rows, declared = declare_features(rows, stages.columns, target, stages, hasattr(stages.model, "classes"))
    parts = [_take_columns(declared, part.columns) for part in stages.parts]
    for part, own in zip(stages.parts, parts, strict=True):
        _require_numbers(part, own, stages)
    later = [*stages.later, stages.model] if len(stages.steps) > 1 else []
    for step in later:
        if step.bounds is not None:
            # Every step makes one feature of each.
            read_bounds(step.bounds, sum(len(own.features) for own in parts))
    return rows, declared


def run_stages(
    stages: PipelineStages, rows: RowSource, declared: Declared, fit: Fit | None = None
) -> tuple[RowSource, Declared]:
    """Return the rows with the features that the last step learns from; `fit` teaches each step in turn."""
    parts: list[Feature] = []
    for at, part in enumerate(stages.parts):
        own = _take_columns(declared, part.columns)
        for step in part.steps:
            rows, own = _run_step(step, part.columns, rows, own, fit, stages)
        # Two parts may take one column: a row then moves an indicator in each, so that groups are their own.
        parts += [replace(each, group=each.group and f"{at} {each.group}") for each in own.features]
    # Rules for columns concern the first steps alone.
    alone = len(stages.steps) == 1
    known = replace(declared, features=tuple(parts), columns=declared.columns if alone else ())
    for step in stages.later:
        rows, known = _run_step(step, (), *_narrow(step, rows, known), fit, stages)
    if not alone:
        rows, known = _narrow(stages.model, rows, known)
    if fit is not None:
        fit(stages.model, stages.columns if alone else _places(known), rows, known)
        if not alone:
            _forget_names(stages.model)
    return rows, known


def _run_step(
    step: Any,
    columns: Sequence[str],
    rows: RowSource,
    known: Declared,
    fit: Fit | None,
    stages: PipelineStages,
) -> tuple[RowSource, Declared]:
    """Teach one step, and return what it makes of the rows."""
    if fit is not None:
        fit(step, columns or _places(known), rows, known)
        if not columns:
            _forget_names(step)
    layers = ComputedColumns(rows)
    listed = stages.model.listed and step is stages.steps[-2]
    features = step.lower_features(known.features, layers, listed=listed)
    return layers.source, _with_features(known, features)


def _require_numbers(part: PipelinePart, own: Declared, stages: PipelineStages) -> None:
    """Refuse texts that are passed through: the next step would be given them as they are."""
    passed = not part.steps and part.encoder is None and len(stages.steps) > 1
    if passed and any(each.categories for each in own.columns):
        raise UsageError(
            "SF-E157",
            "A text that no step makes numbers of cannot be passed on.",
            try_='("ward", OneHotEncoder(categories=[["A", "B"]], handle_unknown="ignore"), ["ward"])',
        )


def _take_columns(declared: Declared, columns: Sequence[str]) -> Declared:
    """Return what is declared of some columns, in their order."""
    features = tuple(
        feature
        for name in columns
        for feature in declared.features
        if (feature.group or feature.name) == name
    )
    coded = {column.name: column for column in declared.columns}
    own = tuple(coded[each] for each in columns if coded)
    plain_numbers = all(each.is_plain for each in own)
    return replace(declared, features=features, columns=() if plain_numbers else own)


def _narrow(step: Any, rows: RowSource, known: Declared) -> tuple[RowSource, Declared]:
    """Clip features to the bounds that a later step declares."""
    layers = ComputedColumns(rows)
    features = narrow_features(known.features, layers, step.bounds)
    return layers.source, _with_features(known, features)


def _with_features(known: Declared, features: Sequence[Feature]) -> Declared:
    ranges = {
        each.value: (0, each.bound) if each.categories else (-each.bound, each.bound)
        for each in features
        if isinstance(each.value, Column)
    }
    return replace(known, features=tuple(features), columns=(), ranges={**known.ranges, **ranges})


def _places(known: Declared) -> list[str]:
    return [f"x{at}" for at in range(len(known.features))]


def _forget_names(step: Any) -> None:
    """Later steps are given arrays, whose columns have no names."""
    vars(step).pop("feature_names_in_", None)


def _promise(stages: PipelineStages) -> Guarantee:
    found = combine_guarantees([step.guarantee_ for step in stages.steps])
    costs = [f"{type(step).__name__} {step.guarantee_.cost_in_words}" for step in stages.steps]
    return replace(found, others=f"each step is charged by itself: {', '.join(costs)}")


def _finish_parts(pipeline: Pipeline, declared: Declared) -> None:
    """Let a ColumnTransformer know its fitted parts, by one public row: none of them is fitted again."""
    for _, step in pipeline.steps:
        if isinstance(step, ColumnTransformer):
            parts = [(each, _freeze(part), columns) for each, part, columns in step.transformers]
            made = clone(step).set_params(transformers=parts, remainder=_freeze(step.remainder))
            hand_over(made.fit(_public_row(declared)), step)


def _freeze(step: Any) -> Any:
    """Return a step that is left as it was fitted; one that learns nothing stays as it is."""
    fitted = hasattr(step, "guarantee_") or isinstance(step, plain.Pipeline)
    return FrozenEstimator(step) if fitted else step


def _public_row(declared: Declared) -> Any:
    """Return a frame of one row that is made of declarations."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise UsageError(
            "SF-N113", "pandas is not installed.", try_="pip install pandas, for a ColumnTransformer"
        ) from None
    values = {each.group or each.name: each.middle for each in declared.features}
    values |= {each.name: each.categories[0] for each in declared.columns if each.categories}
    return pd.DataFrame({name: [value] for name, value in values.items()})
