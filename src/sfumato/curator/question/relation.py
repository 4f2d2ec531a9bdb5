"""Relations, expressions and conditions: which rows a question is about, in the analyst's own names.

All are frozen values. Those that are hashed carry tags, which never change: see privacy/canonical.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.curator.catalog.domains import Scalar
from sfumato.errors.checked import checked, require_field
from sfumato.privacy.canonical import tagged

# ---- expressions of a row ----------------------------------------------------------------------------------


@tagged("Name", "column", "table")
@dataclass(frozen=True, slots=True)
@checked
class Name:
    """A column, with the name of its table where two tables could be meant."""

    column: str
    table: str | None = None

    def __str__(self) -> str:
        return self.column if self.table is None else f"{self.table}.{self.column}"


@tagged("Literal", "value")
@dataclass(frozen=True, slots=True)
@checked
class Literal:
    """A constant; None is NULL."""

    value: Scalar | None


@tagged("Call", "function", "arguments")
@dataclass(frozen=True, slots=True)
@checked
class FunctionCall:
    """A call of a function on the closed list in curator/lower/functions.py, by its name there."""

    function: str
    arguments: tuple[Expression, ...]


@tagged("Case", "branches", "otherwise")
@dataclass(frozen=True, slots=True)
@checked
class Case:
    """The value of the first branch whose condition is true; without one, `otherwise`."""

    branches: tuple[tuple[Condition, Expression], ...]
    otherwise: Expression = Literal(None)


@tagged("Truth", "condition")
@dataclass(frozen=True, slots=True)
@checked
class Truth:
    """A condition as a value: true, false, or missing where it is unknown."""

    condition: Condition


@dataclass(frozen=True, slots=True)
@checked
class UnitAggregate:
    """An aggregate of the rows of one unit: count, sum, min, max or avg. Only in `GroupByUnit`.

    arg_min and arg_max are the value in the row where `by` is least or greatest, first and last likewise with
    missing values counted in. Of rows that tie, arg_min and first take the least value, the others the
    greatest.
    """

    figure: str
    of: Expression | None = None
    by: Expression | None = None

    def __post_init__(self) -> None:
        plain, ordered = ("count", "sum", "min", "max", "avg"), ("arg_min", "arg_max", "first", "last")
        listed = plain if self.by is None else ordered
        require_field(self.figure in listed, self, "figure", ", ".join(listed))


@dataclass(frozen=True, slots=True)
@checked
class UnitWindow:
    """What a row has among the rows of its unit, in an order: its number, or the value of another row.

    Only in `Projection` and `Extension`. `unit` names the unit, which the rows are split by.
    """

    function: str
    of: Expression | None
    unit: tuple[Expression, ...]
    order: tuple[tuple[Expression, bool], ...]
    """Expressions to sort by, each with whether it descends; missing values come last."""
    offset: int = 1

    def __post_init__(self) -> None:
        listed = ("row_number", "rank", "dense_rank", "lag", "lead", "first_value")
        require_field(self.function in listed, self, "function", ", ".join(listed))
        require_field(1 <= self.offset <= 1000, self, "offset", "1 to 1000")


Expression = Name | Literal | FunctionCall | Case | Truth | UnitAggregate | UnitWindow


# ---- conditions on a row -----------------------------------------------------------------------------------


@tagged("Comparison", "left", "operator", "right")
@dataclass(frozen=True, slots=True)
@checked
class Comparison:
    """left operator right, with an operator out of = < <= > >="""

    left: Expression
    operator: str
    right: Expression

    def __post_init__(self) -> None:
        listed = ("=", "<", "<=", ">", ">=")
        require_field(self.operator in listed, self, "operator", ", ".join(listed))


@tagged("Like", "text", "pattern")
@dataclass(frozen=True, slots=True)
@checked
class Like:
    """A text matches a pattern, in which % is any run of characters and _ is one."""

    text: Expression
    pattern: str


@tagged("IsMissing", "part")
@dataclass(frozen=True, slots=True)
@checked
class IsNull:
    """The expression is missing."""

    part: Expression


@tagged("Holds", "part")
@dataclass(frozen=True, slots=True)
@checked
class IsTrue:
    """The expression, a boolean, is true."""

    part: Expression


@tagged("Negation", "part")
@dataclass(frozen=True, slots=True)
@checked
class Negation:
    """The condition is false."""

    part: Condition


@tagged("AllOf", "parts")
@dataclass(frozen=True, slots=True)
@checked
class Conjunction:
    """Every part holds; no part means every row."""

    parts: tuple[Condition, ...] = ()


@tagged("AnyOf", "parts")
@dataclass(frozen=True, slots=True)
@checked
class Disjunction:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
@checked
class Exists:
    """Another relation has a row for which a condition on both rows holds. Only in `Filter`.

    `equals` pairs a value of this row with one of the other, as IN does: unknown where the first is missing.
    """

    of: Relation
    where: Condition
    equals: tuple[tuple[Expression, Expression], ...] = ()


Condition = Comparison | Like | IsNull | IsTrue | Negation | Conjunction | Disjunction | Exists


# ---- rows --------------------------------------------------------------------------------------------------


# Relations carry no tags: they are hashed as the programs that they are lowered to, so that two ways to write
# one relation are one request.


@dataclass(frozen=True, slots=True)
@checked
class BaseTable:
    """All rows of a registered table."""

    name: str


@dataclass(frozen=True, slots=True)
@checked
class UnitRowCounts:
    """One row for each unit of a table, whose column `rows` is how many rows the source had of it."""

    table: str


@dataclass(frozen=True, slots=True)
@checked
class Filter:
    """The rows for which a condition holds."""

    of: Relation
    where: Condition


@dataclass(frozen=True, slots=True)
@checked
class Projection:
    """The rows with only these columns, each computed from the row."""

    of: Relation
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
@checked
class Extension:
    """The rows with all their columns and these, each computed from the row."""

    of: Relation
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
@checked
class Join:
    """Pairs of rows of two relations that satisfy a condition and agree in the columns of `using`.

    Two relations over people are joined on their unit. A public table is joined on equal values.
    """

    left: Relation
    right: Relation
    on: Condition
    using: tuple[str, ...] = ()
    optional: bool = False
    """Whether a left row without a partner is kept, with the right columns missing."""


@dataclass(frozen=True, slots=True)
@checked
class GroupByUnit:
    """One row for each unit and each combination of keys, with aggregates of the unit's rows there.

    The unit itself is one of the keys. `having` says which of these rows are kept.
    """

    of: Relation
    keys: tuple[Expression, ...]
    columns: tuple[tuple[str, Expression], ...]
    having: Condition | None = None


@dataclass(frozen=True, slots=True)
@checked
class Alias:
    """A relation under a name of its own, which may stand before its columns."""

    of: Relation
    name: str


Relation = BaseTable | UnitRowCounts | Filter | Projection | Extension | Join | GroupByUnit | Alias


def measure_relation(relation: Relation) -> tuple[int, int]:
    """Return how many tables a relation reads, each as often as it stands there, and its levels."""
    # By identity: WITH shares relations, so that a short text can stand for very many tables.
    known: dict[int, tuple[int, int]] = {}
    stack: list[Relation] = [relation]
    while stack:
        node = stack[-1]
        inner = _inner_relations(node)
        missing = [each for each in inner if id(each) not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        sizes = [known[id(each)] for each in inner]
        levels = 1 + max((deep for _, deep in sizes), default=0)
        known[id(node)] = sum(tables for tables, _ in sizes) if sizes else 1, levels
    return known[id(relation)]


def _inner_relations(relation: Relation) -> tuple[Relation, ...]:
    match relation:
        case Join(left, right):
            return left, right
        case Filter(of, where):
            return (of, *(each.of for each in list_exists(where)))
        case Projection(of) | Extension(of) | GroupByUnit(of) | Alias(of):
            return (of,)
        case BaseTable() | UnitRowCounts():
            return ()


def list_exists(condition: Condition) -> list[Exists]:
    """Return the tests for rows of other relations in a condition, from left to right."""
    match condition:
        case Exists():
            return [condition]
        case Negation(part):
            return list_exists(part)
        case Conjunction(parts) | Disjunction(parts):
            return [each for part in parts for each in list_exists(part)]
    return []
