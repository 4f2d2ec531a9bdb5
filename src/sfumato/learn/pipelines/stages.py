"""What a pipeline does to which columns, read for a table behind the curator.

Only steps of sf.learn that can be written as integers of a row take part, alone or as parts of a
`ColumnTransformer`, and categories that are declared. A function of one's own would have to be run on rows,
so it is refused, whatever it learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sklearn import pipeline as plain
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import OneHotEncoder

from sfumato.curator.catalog.columns import one_of
from sfumato.errors import PolicyError, UsageError
from sfumato.learn.pipelines.checked import suggest_instead
from sfumato.oracle.coded_columns import INDICATOR, CodedColumn, apply_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.curator.lower.computed import ColumnBuilder
    from sfumato.oracle.declared import Feature


@runtime_checkable
class LoweredTransformer(Protocol):
    """A transformer whose features an engine can compute once it is fitted."""

    def lower_features(
        self, features: Sequence[Feature], columns: ColumnBuilder, *, listed: bool
    ) -> list[Feature]:
        """Return its features as integers of a row; `listed` says that the next step learns from lists."""


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """Columns that go through some steps, side by side with other parts; through none, they stay numbers."""

    columns: tuple[str, ...]
    steps: tuple[Any, ...]
    encoder: OneHotEncoder | None = None
    """What makes categories of the columns, in the place of steps."""

    def rules(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield each column with what its part declares of it and the rule for its missing values."""
        if self.encoder is not None:
            for name, values in zip(self.columns, self.encoder.categories, strict=True):
                yield name, one_of(*values), None
            return
        first = self.steps[0] if self.steps else None
        bounds, missing = getattr(first, "bounds", None), getattr(first, "missing", None)
        if missing is None or missing == INDICATOR:
            missing = dict.fromkeys(self.columns, missing)
        apply_rules([CodedColumn(name, 0.0, 1.0) for name in self.columns], dict.fromkeys(missing))
        for name in self.columns:
            yield name, bounds.get(name) if isinstance(bounds, Mapping) else None, missing.get(name)


@dataclass(frozen=True, slots=True)
class PipelineStages:
    """The parts that columns go through first, the steps that follow, and the estimator at the end."""

    parts: tuple[PipelinePart, ...]
    later: tuple[Any, ...]
    model: Any

    @property
    def steps(self) -> list[Any]:
        """Every step that is fitted, in order."""
        return [*(step for part in self.parts for step in part.steps), *self.later, self.model]

    @property
    def columns(self) -> list[str]:
        """The columns that are used, each once."""
        return list(dict.fromkeys(name for part in self.parts for name in part.columns))

    @property
    def listed(self) -> bool:
        """Whether features are listed values and not numbers."""
        return bool(self.model.listed and not self.steps[:-1])

    @property
    def bounds(self) -> Mapping[str, Any]:
        """Closer bounds, and lists of categories, by column."""
        return {name: own for name, own, _ in self._rules() if own is not None}

    @property
    def missing(self) -> Mapping[str, Any]:
        """Rules for missing values, by column."""
        return {name: rule for name, _, rule in self._rules() if rule is not None}

    def _rules(self) -> Iterator[tuple[str, Any, Any]]:
        # Without a step before it, the estimator itself says how columns are read.
        alone = len(self.steps) == 1
        for part in self.parts:
            yield from PipelinePart(part.columns, (self.model,)).rules() if alone else part.rules()


def read_stages(pipeline: Any, names: Sequence[str], rebuild: Any) -> PipelineStages:
    """Return the stages of a pipeline over these columns. `rebuild` makes each step anew, or refuses it."""
    steps = list_steps(pipeline)
    model = rebuild(steps.pop())
    if model.reads_sets:
        raise _not_supported(model)
    first = steps[0] if steps else None
    if type(first) is ColumnTransformer:
        parts = tuple(_read_parts(first, names, rebuild))
        return PipelineStages(parts, tuple(map(rebuild, _lowered(steps[1:]))), model)
    made = tuple(map(rebuild, _lowered(steps)))
    return PipelineStages((PipelinePart(tuple(names), made[:1]),), made[1:], model)


def list_steps(pipeline: Any) -> list[Any]:
    """Return the steps of a pipeline and of pipelines in it, one after the other."""
    return list(_flatten(pipeline))


def _flatten(step: Any) -> Iterator[Any]:
    if isinstance(step, plain.Pipeline):
        for _, each in vars(step)["steps"]:
            yield from _flatten(each)
    elif isinstance(step, FrozenEstimator):
        yield from _flatten(step.estimator)
    elif step is not None and not (isinstance(step, str) and step == "passthrough"):
        yield step


def _lowered(steps: Sequence[Any]) -> list[Any]:
    for step in steps:
        if not isinstance(step, LoweredTransformer):
            raise _not_supported(step)
    return list(steps)


def _not_supported(step: Any) -> PolicyError:
    name = type(step).__name__
    return PolicyError(
        "SF-E157",
        f"{name} cannot be a step behind the curator.",
        why="engines compute what steps of sf.learn make of a row, and run no function of others",
        known="Scaler, StandardScaler, RobustScaler, Bins; ColumnTransformer of these as the first step, "
        "with OneHotEncoder and its categories",
        try_=suggest_instead(name) or 's.table("visits").select(age="age", cost="LN(cost)") as the table',
    )


def _read_parts(first: Any, names: Sequence[str], rebuild: Any) -> Iterator[PipelinePart]:
    """Yield the parts of a ColumnTransformer, and then the columns that are left."""
    given = vars(first)
    if given.get("transformer_weights") is not None:
        raise _not_supported(first)
    used: set[str] = set()
    # Where it was fitted, the fitted parts stand under the same names.
    fitted = first.named_transformers_ if "transformers_" in given else {}
    for name, step, columns in given["transformers"]:
        own = _read_columns(columns, names)
        used |= set(own)
        yield from _read_part(step if isinstance(step, str) else fitted.get(name, step), own, rebuild)
    left, rest = tuple(name for name in names if name not in used), given["remainder"]
    if left:
        yield from _read_part(rest if isinstance(rest, str) else fitted.get("remainder", rest), left, rebuild)


def _read_part(step: Any, columns: tuple[str, ...], rebuild: Any) -> Iterator[PipelinePart]:
    if isinstance(step, str) and step == "drop":
        return
    if type(step) is OneHotEncoder:
        yield PipelinePart(columns, (), _check_encoder(step, len(columns)))
        return
    yield PipelinePart(columns, tuple(map(rebuild, _lowered(list(_flatten(step))))))


def _check_encoder(step: Any, columns: int) -> Any:
    declared = not isinstance(step.categories, str) and len(step.categories) == columns
    if not declared or step.drop is not None or step.handle_unknown != "ignore":
        raise PolicyError(
            "SF-E157",
            "Behind the curator, OneHotEncoder needs its categories.",
            try_='OneHotEncoder(categories=[["A", "B"]], handle_unknown="ignore", sparse_output=False)',
        )
    return step


def _read_columns(columns: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns from a list of names or of places."""
    listed = columns if isinstance(columns, list | tuple) else []
    try:
        found = tuple(names[each] if isinstance(each, int) else str(each) for each in listed)
    except IndexError:
        found = ()
    if not found or len(set(found)) < len(found) or not set(found) <= set(names):
        raise UsageError(
            "SF-E157",
            "A part of a ColumnTransformer needs a list of different columns that are among the features.",
            features=", ".join(names),
            try_='ColumnTransformer([("scaled", sf.learn.Scaler(epsilon=0.2), ["age", "cost"])])',
        )
    return found
