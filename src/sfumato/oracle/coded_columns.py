"""How the columns of a frame become features: numbers within bounds, and one feature for each listed value.

A coding follows from declarations alone and is the same on own frames and behind the curator. What a row
becomes depends on that row and the coding, so a coding costs nothing.

Because : docs/proofs/statistics.md#listed-features
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from sfumato.curator.catalog.columns import ListedColumn, NumberColumn
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number

INDICATOR = "indicator"
"""The rule by which a further feature says with 0 or 1 whether a value is missing."""


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One column as features: a number within bounds, or a feature of 0 or 1 for each of its categories.

    A missing number counts as `fill`, without one as the middle of the bounds; a missing category counts as
    `fill`, without one as none of them. What is no number, or not listed, is missing.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    categories: tuple[Any, ...] = ()
    fill: Any = None
    flagged: bool = False
    """Whether one more feature says that the value is missing."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of its features."""
        named = tuple(f"{self.name}_{each}" for each in self.categories) or (self.name,)
        return (*named, f"{self.name}_missing") if self.flagged else named

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each feature: of one group at most one feature is not 0. A number is in none."""
        size = len(self.feature_names)
        return (self.name,) * size if self.categories else ("", self.name)[:size]

    @property
    def is_plain(self) -> bool:
        """Whether it is a number and missing ones count as the middle, so that nothing has to be encoded."""
        return not self.categories and self.fill is None and not self.flagged

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The bounds of each feature; those of 0 or 1 are measured from 0, where most of them are."""
        return [(-1.0, 1.0) if group else (self.low, self.high) for group in self.groups]

    @property
    def fill_place(self) -> int:
        """The place of the category that missing values count as, −1 for none of them."""
        return -1 if self.fill is None else self.categories.index(self.fill)

    @property
    def fill_number(self) -> float:
        """The number that missing values count as."""
        return (self.low + self.high) / 2 if self.fill is None else float(self.fill)

    def with_rule(self, rule: Any) -> CodedColumn:
        """Return the column with a rule for missing values: "indicator", or the value that they count as."""
        if rule is None:
            return self
        if rule == INDICATOR and rule not in self.categories:
            return replace(self, flagged=True)
        known = rule in self.categories if self.categories else _is_inside(rule, self.low, self.high)
        if not known:
            raise UsageError(
                "SF-E101",
                f"Missing values of '{self.name}' cannot count as a value that is not declared.",
                declared=", ".join(map(str, self.categories[:8]))
                or f"from {format_number(self.low, 6)} to {format_number(self.high, 6)}",
                try_=f'missing={{"{self.name}": "indicator"}}, or one of the declared values',
            )
        return replace(self, fill=rule.item() if isinstance(rule, np.generic) else rule)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, as models store them."""
        return asdict(self)


def _is_inside(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


# ---- what was typed ----------------------------------------------------------------------------------------


def code_columns(names: Sequence[str], bounds: Any, missing: Any, ends: Any = None) -> list[CodedColumn]:
    """Return the coding of own columns: by a declaration for each, or by `ends` that all of them have."""
    declared = bounds if isinstance(bounds, Mapping) else {}
    if len(set(names)) < len(names):
        # Sensitivities count one indicator of each column, which its name stands for.
        raise UsageError(
            "SF-E110",
            "Two columns have the same name.",
            try_="columns with names of their own",
        )
    found = []
    for place, name in enumerate(names):
        if ends is not None:
            low, high = (float(side[place]) for side in ends)
            found.append(CodedColumn(name, low, high))
        else:
            # Columns of a frame have names; those of an array are declared by their places.
            key = name if name in declared else place
            if key not in declared:
                raise _not_declared(name)
            found.append(read_declaration(name, declared[key]))
    return apply_rules(found, missing)


def _not_declared(name: str) -> UsageError:
    return UsageError(
        "SF-E101",
        f"Column '{name}' has neither bounds nor categories.",
        why="bounds and categories that are read from rows would reveal some of them",
        try_='bounds={"age": (0, 110), "ward": ["A", "B"]}, with every column of the frame',
    )


def read_declaration(name: str, declared: Any) -> CodedColumn:
    """Return the coding of a column from bounds, a list of texts, `sf.between` or `sf.one_of`."""
    if isinstance(declared, NumberColumn):
        return CodedColumn(name, float(declared.low), float(declared.high)).with_rule(
            _plain(declared.missing)
        )
    if isinstance(declared, ListedColumn):
        listed = tuple(declared.domain.show_values())
        instead = None if declared.missing is None else listed[declared.values.index(declared.missing)]
        return CodedColumn(name, categories=listed).with_rule(instead)
    try:
        values = [each.item() if isinstance(each, np.generic) else each for each in declared]
    except TypeError:
        values = []
    if values and not isinstance(declared, str) and all(isinstance(each, str) for each in values):
        return CodedColumn(name, categories=tuple(dict.fromkeys(values)))
    if len(values) == 2 and all(isinstance(each, Real) and math.isfinite(float(each)) for each in values):
        low, high = map(float, values)
        if low < high:
            return CodedColumn(name, low, high)
    raise UsageError(
        "SF-C104",
        f"What is declared of '{name}' is neither bounds nor a list of texts.",
        try_='(0, 110), ["A", "B"], sf.between(0, 110), or sf.one_of(1, 2, 3) for numbers as categories',
    )


def _plain(number: Any) -> float | None:
    return None if number is None else float(number)


def apply_rules(columns: Sequence[CodedColumn], missing: Any) -> list[CodedColumn]:
    """Return the columns with the rules for missing values: one for all, or one for each that is named."""
    if missing is None:
        return list(columns)
    if missing == INDICATOR:
        return [each.with_rule(INDICATOR) for each in columns]
    names = {each.name for each in columns}
    if not isinstance(missing, Mapping) or not all(name in names for name in missing):
        raise UsageError(
            "SF-E101",
            "missing must be a rule for all columns, or name columns and a rule for each.",
            try_='missing="indicator", or missing={"age": 40, "ward": "A", "income": "indicator"}',
        )
    return [each.with_rule(missing.get(each.name)) for each in columns]
