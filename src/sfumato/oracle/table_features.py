"""Features and targets of a table behind the curator, as integers within bounds that the steward promised.

Rows are centred and clipped by integer operations that engines compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, is_countable
from sfumato.curator.lower.computed import ComputedColumns, clip_to_norm, grid_factor
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import coarsen_grid, require_number
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_number
from sfumato.oracle.arrays.integer_rows import ONE, RowTransform
from sfumato.oracle.blocks import (
    Add,
    Among,
    Choose,
    Column,
    Constant,
    Either,
    Greatest,
    Least,
    Lookup,
    Missing,
    Multiply,
)
from sfumato.oracle.coded_columns import CodedColumn, apply_rules, read_declaration
from sfumato.oracle.declared import Declared, Feature, Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.lower.lowered_value import LoweredValue
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.oracle.blocks import Value

_MOST_LISTED = 1000
"""The most values of one listed feature, since each has cells of its own. Privacy does not depend on it."""
_MOST_INDICATORS = 100
"""The most indicators of one column; a fit asks for products of any two. Privacy does not depend on it."""
_INDICATOR = 2 * ONE
"""The integer that an indicator has where it holds, near to the bounds of numbers, with which it shares one
noise. Privacy does not depend on it."""


class FeatureRules(Protocol):
    """What an estimator says of its features beyond the catalog."""

    @property
    def listed(self) -> bool:
        """Whether it learns from listed values, and not from numbers."""

    @property
    def bounds(self) -> Any:
        """Closer bounds, and lists of categories, by column."""

    @property
    def missing(self) -> Any:
        """Rules for missing values."""


def declare_features(
    rows: RowSource,
    features: Sequence[str],
    target: str | None,
    estimator: FeatureRules,
    classifies: bool | None = None,
) -> tuple[RowSource, Declared]:
    """Return these columns as features of an estimator, and the target as classes or a number.

    The rows come back with a column for every value that the question computes. Whether the target is a
    class is seen by the estimator, unless said otherwise.
    """
    names = (*features, *([target] if target else ()))
    lowered = {name: lower_expression(Name(name), rows.scope) for name in names}
    computed = [
        name
        for name, part in lowered.items()
        if not isinstance(part.value, Column) and not isinstance(part.domain, FreeTexts)
    ]
    if computed:
        layers = ComputedColumns(rows)
        columns = layers.add_columns([lowered[name].value for name in computed])
        rows = layers.source
        for name, column in zip(computed, columns, strict=True):
            lowered[name] = replace(lowered[name], value=column)
    return rows, CatalogFeatures(lowered).declare(
        features,
        target,
        estimator,
        classifies=hasattr(estimator, "classes") if classifies is None else classifies,
    )


@dataclass(frozen=True, slots=True)
class CatalogFeatures:
    """The columns of a table, as features and targets for learners."""

    lowered: Mapping[str, LoweredValue]

    def declare(
        self, features: Sequence[str], target: str | None, estimator: FeatureRules, *, classifies: bool
    ) -> Declared:
        """Return these columns as features of an estimator, and the target as classes or a number."""
        named = (*features, *([target] if target else ()))
        ranges = dict(map(self._range_of, named))
        goal = self._target(target, classifies)
        if estimator.listed:
            return Declared(tuple(map(self._listed, features)), goal, ranges)
        columns = self._code(features, estimator.bounds, estimator.missing)
        found = tuple(feature for column in columns for feature in self._features(column))
        plain = all(column.is_plain for column in columns)
        return Declared(found, goal, ranges, columns=() if plain else tuple(columns))

    # ---- columns that become features ----

    def _code(self, names: Sequence[str], bounds: Any, missing: Any) -> list[CodedColumn]:
        """Return how columns become features: as the catalog says, or closer where an analyst says so."""
        own = bounds if isinstance(bounds, Mapping) else {}
        return apply_rules([self._code_one(name, own.get(name)) for name in names], missing)

    def _code_one(self, name: str, own: Any) -> CodedColumn:
        part = self._column(name)
        if own is not None:
            return read_declaration(name, own)
        domain = part.domain
        if isinstance(domain, Listed) and domain.values and isinstance(domain.values[0], str):
            return CodedColumn(name, categories=tuple(domain.show_values()))
        _, numbers = require_number(part, f"'{name}'")
        return CodedColumn(name, float(numbers.low * numbers.step), float(numbers.high * numbers.step))

    def _features(self, column: CodedColumn) -> list[Feature]:
        if column.categories:
            return self._indicators(column)
        found = [self._feature(column.name, column)]
        if column.flagged:
            absent = Choose(Missing(self._column(column.name).value), Constant(_INDICATOR), Constant(0))
            found.append(_indicator(column.feature_names[1], absent, column.name))
        return found

    def _indicators(self, column: CodedColumn) -> list[Feature]:
        """Return a feature for each category, and one for missing values where that is the rule."""
        if len(column.categories) > _MOST_INDICATORS:
            raise PolicyError(
                "SF-E112",
                f"'{column.name}' has more than {_MOST_INDICATORS} values, each of which would be a feature.",
                try_=f'bounds={{"{column.name}": [those that matter]}}',
            )
        place = self._category(column)
        return [
            _indicator(name, Choose(Among(place, (at,)), Constant(_INDICATOR), Constant(0)), column.name)
            for at, name in enumerate(column.feature_names)
        ]

    def _category(self, column: CodedColumn) -> Value:
        """Return the place of a row's value among the categories, of which the catalog may list more."""
        part = self._column(column.name)
        domain = part.domain
        shown = domain.show_values() if isinstance(domain, Listed) else []
        if not set(column.categories) <= set(shown):
            raise PolicyError(
                "SF-E112",
                f"The catalog does not list these values of '{column.name}'.",
                listed=", ".join(map(str, shown[:8])) or "none",
                try_=f'features=["{column.name}"] alone, with the values that the catalog lists',
            )
        # What is not among the categories is missing, and so counts as the rule says.
        absent = len(column.categories) if column.flagged else column.fill_place
        places = {value: at for at, value in enumerate(column.categories)}
        entries = tuple(places.get(value, absent) for value in shown)
        value = part.value if entries == tuple(range(len(shown))) else Lookup(part.value, entries)
        return Either(value, Constant(absent))

    def _target(self, name: str | None, classifies: bool) -> Feature | Labels | None:
        if name is None:
            return None
        return self._labels(name) if classifies else self._feature(name)

    def _feature(self, name: str, rule: CodedColumn | None = None) -> Feature:
        """Return a number on a grid like that of own arrays, centred in half steps.

        Features share one noise, so the steps of those with few are counted as several. A missing number
        counts as the middle, and within closer bounds than those of the catalog numbers are clipped.
        """
        part, domain = require_number(self._column(name), f"'{name}'")
        # A grid finer than that of own arrays would only make sums wider: noise drowns the difference.
        bits = max(0, (domain.high - domain.low).bit_length() - ONE.bit_length() + 1)
        part, domain = require_number(coarsen_grid(part, domain, bits), f"'{name}'")
        if rule is not None:
            part, domain = _follow_rule(part, domain, rule)
        steps = max(1, domain.high - domain.low)
        times = max(1, 2 * ONE // steps)
        centred = _centred(part.value, domain, times)
        value = centred if part.present else Either(centred, Constant(0))
        lost = domain.step / 2 if bits else 0  # a coarser grid is rounded down, by half a step on average
        middle = domain.step * (domain.low + domain.high) / 2 + lost
        return Feature(name, value, times * steps, float(middle), float(domain.step * steps / 2))

    def _listed(self, name: str) -> Feature:
        """Return a value by its place in the list; rows where it is missing count nowhere for it."""
        part = self._column(name)
        domain = part.domain
        if isinstance(domain, FreeTexts) or not is_countable(domain) or domain.size > _MOST_LISTED:
            raise PolicyError(
                "SF-E112",
                f"The values of '{name}' are not declared as a list.",
                try_="sf.one_of(…) when the table is registered, or GaussianNB for numbers",
            )
        value = Add(part.value, Constant(-domain.low)) if domain.low else part.value
        return Feature(name, value, max(1, domain.size - 1), 0.0, 1.0, tuple(domain.show_values()))

    def _labels(self, name: str) -> Labels:
        part = self._column(name)
        domain = part.domain
        if not isinstance(domain, Listed) or domain.size < 2:
            raise PolicyError(
                "SF-E112",
                f"The classes in '{name}' are not declared as a list.",
                try_="sf.one_of(…) for the target when the table is registered",
            )
        return Labels(part.value, tuple(domain.show_values()))

    def _column(self, name: str) -> LoweredValue:
        return self.lowered[name]

    def _range_of(self, name: str) -> tuple[Column, tuple[int, int]]:
        part = self._column(name)
        if not isinstance(part.value, Column) or isinstance(part.domain, FreeTexts):
            raise PolicyError(
                "SF-E112",
                f"'{name}' has no declared bounds or values, so nothing can be learnt from it.",
                try_="a column declared by sf.between or sf.one_of",
            )
        return part.value, (part.domain.low, part.domain.high)


def _follow_rule(part: LoweredValue, domain: Numbers, rule: CodedColumn) -> tuple[LoweredValue, Numbers]:
    """Return a number with missing values filled and within closer bounds, where the rule asks for either."""
    ends = [round(end / domain.step) for end in (rule.low, rule.high)]
    low, high = max(domain.low, ends[0]), min(domain.high, ends[1])
    if low >= high:
        raise PolicyError(
            "SF-E112",
            f"The bounds of '{rule.name}' do not lie within those of the catalog.",
            catalog=(
                f"from {format_number(float(domain.low * domain.step), 6)} to "
                f"{format_number(float(domain.high * domain.step), 6)}"
            ),
            try_="closer bounds, or none",
        )
    if rule.fill is not None:
        at = min(high, max(low, round(rule.fill / domain.step)))
        part = replace(part, value=Either(part.value, Constant(at)), present=True)
    if (low, high) == (domain.low, domain.high):
        return part, domain
    clipped = Greatest(Least(part.value, Constant(high)), Constant(low))
    return replace(part, value=clipped), replace(domain, low=low, high=high)


def _indicator(name: str, value: Value, group: str) -> Feature:
    """Return a feature of 0 or 1, on a grid like that of numbers."""
    return Feature(name, value, _INDICATOR, 0.0, 1.0, group=group)


def _centred(value: Value, domain: Numbers, times: int) -> Value:
    # In half steps the middle of the bounds is an integer, whatever the bounds are.
    doubled = Multiply(value, Constant(2 * times))
    return Add(doubled, Constant(-times * (domain.low + domain.high)))


def centre_features(declared: Declared, transform: RowTransform) -> Declared:
    """Return the same columns, measured from a public point."""
    centre = transform.centre_of(len(declared.features)).tolist()
    features = tuple(map(_centre, declared.features, centre))
    target = declared.target
    if isinstance(target, Feature):
        target = _centre(target, transform.target_centre)
    return replace(
        declared, features=features, target=target, one=_one(transform.one) if transform.one else None
    )


def _one(length: float) -> Feature:
    """Return the constant feature."""
    value = round(length * ONE)
    bound = max(ONE, value)
    return Feature("one", Constant(value), bound, 0.0, bound / ONE)


def clip_source_rows(
    rows: RowSource, declared: Declared, length: float, reach: float
) -> tuple[RowSource, Declared]:
    """Return rows clipped to an l2 norm, in halves of the bounds; targets are scaled with them."""
    layers = ComputedColumns(rows)
    norm = max(1, math.floor(length * ONE))
    vector = [*([declared.one] if declared.one else []), *declared.features]
    target = [declared.target] if isinstance(declared.target, Feature) else []
    every = [*vector, *target]
    values, bounds = [each.value for each in every], [each.bound for each in every]
    # The target is multiplied by the same factor as its row and does not count in the norm.
    columns = clip_to_norm(layers, values, bounds, norm, ONE, beside=len(target))
    found = [_on_common_grid(*each, min(norm, ONE)) for each in zip(vector, columns, strict=False)]
    ranges = dict.fromkeys(columns, (-ONE, ONE))
    goal: Feature | Labels | None = declared.target
    if target:
        goal = _clip(_on_common_grid(target[0], columns[-1], ONE), reach)
    features, one = (found[1:], found[0]) if declared.one else (found, None)
    return layers.source, Declared(tuple(features), goal, {**declared.ranges, **ranges}, norm, one)


def _centre(feature: Feature, centre: float) -> Feature:
    shift = round(centre * feature.bound)
    # A row can now be further from the point than from the middle of the bounds.
    bound, unit = feature.bound + abs(shift), feature.half / feature.bound
    value = Add(feature.value, Constant(-shift)) if shift else feature.value
    # Indicators that are measured from elsewhere are no longer 0 where they do not hold.
    group = "" if shift else feature.group
    middle = feature.middle + unit * shift
    return replace(feature, value=value, bound=bound, middle=middle, half=unit * bound, group=group)


def _clip(feature: Feature, reach: float) -> Feature:
    """Return a feature clipped at a share of its bound."""
    bound = max(1, round(reach * feature.bound))
    value = Greatest(Least(feature.value, Constant(bound)), Constant(-bound))
    return replace(feature, value=value, bound=bound, half=feature.half * bound / feature.bound)


def _on_common_grid(feature: Feature, column: Column, bound: int = ONE) -> Feature:
    """Return a clipped feature: ONE steps stand for 2^16 / (grid factor · bound) of a half."""
    ratio = grid_factor(feature.bound) * feature.bound / 2**16
    return replace(feature, value=column, bound=bound, half=feature.half / ratio * bound / ONE)
