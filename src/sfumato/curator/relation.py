"""Which rows a question is about: plain frozen values in the analyst's own names."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Scalar = str | bool | Fraction
"""A literal, numbers exact."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """column operator value, with an operator out of = < <= > >="""

    column: str
    operator: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class IsMissing:
    column: str


@dataclass(frozen=True, slots=True)
class Negation:
    part: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; no part means every row."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Condition, ...]


Condition = Comparison | IsMissing | Negation | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of one table that satisfy a condition. A row's unit stays the table's."""

    table: str
    where: Condition = AllOf()
