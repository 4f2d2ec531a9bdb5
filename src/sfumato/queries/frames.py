"""Questions without SQL: a table, narrowed and grouped step by step, gives the same question as its SELECT.

    s.table("visits").where("age >= 65").group_by("ward").agg(n=sf.count(), cost=sf.mean("cost"))

is SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.curator.measurement import (
    LEAST,
    Aggregate,
    Bounds,
    Count,
    Covariance,
    Key,
    Mean,
    Output,
    Quantile,
    Question,
    Sum,
    Units,
    Variance,
)
from sfumato.curator.relation import (
    Aliased,
    AllOf,
    Case,
    Comparison,
    Expression,
    Filtered,
    Joined,
    Literal,
    Name,
    OfUnit,
    PerUnit,
    Selected,
    Table,
)
from sfumato.errors import UsageError
from sfumato.privacy.exact import exact, whole
from sfumato.queries.questions import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.curator.relation import Relation
    from sfumato.privacy.exact import Number

Asked = TypeVar("Asked")

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


# ---- aggregates --------------------------------------------------------------------------------------------


def count(column: str | None = None) -> Count:
    """How many rows; with a column or an expression, how many where it is not missing."""
    return Count(None if column is None else read(column))


def units(column: str) -> Units:
    """How many different units of protection have a row; `column` says whose row it is."""
    return Units(Name(named(column)))


def sum(column: str) -> Sum:
    """The sum of a declared column or an expression of them."""
    return Sum(read(column))


def mean(column: str) -> Mean:
    """The average over the rows where it is not missing."""
    return Mean(read(column))


def variance(column: str) -> Variance:
    """The sample variance."""
    return Variance(read(column))


def stddev(column: str) -> Variance:
    """The sample standard deviation."""
    return Variance(read(column), root=True)


def covariance(column: str, other: str) -> Covariance:
    """The sample covariance of two columns."""
    return Covariance(read(column), read(other))


def correlation(column: str, other: str) -> Covariance:
    """The correlation of two columns, between −1 and 1."""
    return Covariance(read(column), read(other), scaled=True)


def quantile(column: str, share: Number) -> Quantile:
    """A value that about this share of the rows lies below."""
    wanted = exact(share, "share")
    if not 0 <= wanted <= 1 or wanted.denominator > 2**20:
        raise UsageError("SF-Q150", "A quantile is of a share from 0 to 1.", try_='sf.quantile("cost", 0.9)')
    return Quantile(read(column), min(max(wanted, LEAST), 1 - LEAST))


def median(column: str) -> Quantile:
    """A value that about half of the rows lie below."""
    return quantile(column, Fraction(1, 2))


def min_(column: str) -> Quantile:
    """About the least value: the lowest quantile."""
    return quantile(column, 0)


def max_(column: str) -> Quantile:
    """About the largest value: the highest quantile."""
    return quantile(column, 1)


def bins(column: str, edges: Sequence[Number]) -> Case:
    """For group_by: the stretch between two edges that a number lies in. The last one holds its upper edge."""
    cuts = [exact(edge, "edge") for edge in edges]
    if len(cuts) < 2 or any(one >= other for one, other in zip(cuts, cuts[1:], strict=False)):
        raise UsageError("SF-Q125", "Edges ascend, and there are at least two.", try_="[0, 18, 65, 110]")
    part, last = read(column), len(cuts) - 2
    return Case(
        tuple(
            (
                AllOf(
                    (
                        Comparison(part, ">=", Literal(low)),
                        Comparison(part, "<=" if place == last else "<", Literal(high)),
                    )
                ),
                Literal(f"[{_shown(low)}, {_shown(high)}{']' if place == last else ')'}"),
            )
            for place, (low, high) in enumerate(zip(cuts, cuts[1:], strict=False))
        )
    )


def _shown(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


# ---- frames ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Frame(Generic[Asked]):
    """Rows, and the keys that split them into groups. Each step gives a new frame."""

    relation: Relation
    ask: Callable[[Question, str], Asked]
    """Makes what `agg` gives from a question and its text."""
    keys: tuple[tuple[str, Expression], ...] = ()
    bounds: Bounds | None = None
    steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: str, ask: Callable[[Question, str], Asked]) -> Frame[Asked]:
        return cls(Aliased(Table(table), table), ask, steps=(f"table({table!r})",))

    def where(self, condition: str) -> Frame[Asked]:
        """Only rows for which the condition holds, written as after WHERE. Several must all hold."""
        from sfumato.queries.sql import condition as read_condition  # sqlglot comes with the first condition

        where = read_condition(condition)
        inner = self.relation
        if isinstance(inner, Filtered):
            inner, where = inner.of, AllOf((inner.where, where))
        return self._then(f"where({condition!r})", relation=Filtered(inner, where))

    def select(self, **columns: str) -> Frame[Asked]:
        """The rows again, with only these columns, each computed from the row."""
        chosen = tuple((name, read(text)) for name, text in columns.items())
        shown = ", ".join(f"{name}={text!r}" for name, text in columns.items())
        return self._then(f"select({shown})", relation=Selected(self.relation, chosen))

    def join(self, table: str, *, using: str | Sequence[str], optional: bool = False) -> Frame[Asked]:
        """Each row beside those of another table that agree in these columns."""
        names = (using,) if isinstance(using, str) else tuple(using)
        other = Aliased(Table(named(table)), named(table))
        joined = Joined(self.relation, other, AllOf(), tuple(map(named, names)), bool(optional))
        return self._then(f"join({table!r}, using={using!r})", relation=joined)

    def per_unit(self, unit: str, **figures: Aggregate) -> Frame[Asked]:
        """One row for each unit, with figures of its rows: sf.count, sf.sum, sf.mean, sf.min, sf.max."""
        columns = tuple((name, _of_unit(name, figure)) for name, figure in figures.items())
        key = Name(named(unit))
        relation = PerUnit(self.relation, (key,), ((unit, key), *columns))
        shown = ", ".join(f"{name}={_text(figure)}" for name, figure in figures.items())
        return self._then(f"per_unit({unit!r}, {shown})", relation=relation)

    def bounded(self, *, groups: int = 1, rows: int = 1) -> Frame[Asked]:
        """One unit counts in at most so many groups, with so many rows in each."""
        bounds = Bounds(whole(groups, "groups"), whole(rows, "rows"))
        return self._then(f"bounded(groups={groups}, rows={rows})", bounds=bounds)

    def group_by(self, *columns: str, **computed: str | Expression) -> Frame[Asked]:
        """One group for each value of the columns; computed ones under a name of their own."""
        plain = tuple((named(each), read(each)) for each in columns)
        others = tuple((name, _expression(each)) for name, each in computed.items())
        shown = ", ".join([*map(repr, columns), *(f"{name}=…" for name in computed)])
        return self._then(f"group_by({shown})", keys=self.keys + plain + others)

    def agg(self, **aggregates: Aggregate) -> Asked:
        """The question for these numbers of each group, under these names, after the keys."""
        for name, aggregate in aggregates.items():
            _check_aggregate(name, aggregate)
        shown = ", ".join(f"{name}={_text(aggregate)}" for name, aggregate in aggregates.items())
        return self.ask(self.question(aggregates), f"{self!r}.agg({shown})")

    def question(self, aggregates: dict[str, Aggregate]) -> Question:
        keys = tuple(Output(name, Key(place)) for place, (name, _) in enumerate(self.keys))
        numbers = tuple(Output(name, aggregate) for name, aggregate in aggregates.items())
        expressions = tuple(key for _, key in self.keys)
        return checked(Question(self.relation, expressions, keys + numbers, bounds=self.bounds))

    def count(self) -> Asked:
        """The question for the number of rows of each group."""
        return self.agg(count=Count())

    def histogram(self, column: str, edges: Sequence[Number]) -> Asked:
        """The question for how many rows lie between each two edges."""
        return self.group_by(**{column: bins(column, edges)}).agg(count=Count())

    def __repr__(self) -> str:
        return ".".join(self.steps)

    def _then(self, step: str, **changes: Any) -> Frame[Asked]:
        return replace(self, steps=(*self.steps, step), **changes)


def named(name: Any) -> str:
    """The name of a table or column, if it is a text."""
    if isinstance(name, str):
        return name
    raise UsageError("SF-Q124", "Tables and columns are named by texts.", try_='sf.mean("cost")')


def read(text: str) -> Expression:
    """A column's name, or an expression as SQL writes it."""
    if _PLAIN.match(named(text)):
        return Name(text)
    from sfumato.queries.sql import expression  # sqlglot comes with the first expression

    return expression(text)


def _expression(given: str | Expression) -> Expression:
    return read(given) if isinstance(given, str) else given


_OF_UNIT: dict[type[Any], str] = {Count: "count", Sum: "sum", Mean: "avg"}


def _of_unit(name: str, figure: Any) -> OfUnit:
    if isinstance(figure, Quantile) and figure.share in (LEAST, 1 - LEAST):
        return OfUnit("min" if figure.share == LEAST else "max", figure.of)
    if type(figure) in _OF_UNIT:
        return OfUnit(_OF_UNIT[type(figure)], figure.of)
    raise UsageError(
        "SF-Q123", f"'{name}' is not a figure of one unit's rows.", try_=f'per_unit("patient_id", {name}=sf.sum("cost"))'
    )


def _check_aggregate(name: str, aggregate: Any) -> None:
    if not isinstance(aggregate, Aggregate):
        raise UsageError("SF-Q123", f"'{name}' is not given an aggregate.", try_=f"agg({name}=sf.count())")


def _text(aggregate: Any) -> str:
    of = "" if aggregate.of is None else str(aggregate.of)
    return f"{type(aggregate).__name__.lower()}({of})"
