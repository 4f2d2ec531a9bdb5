"""Questions without SQL: a table, narrowed and grouped step by step, gives the same question as its SELECT.

    s.table("visits").where("age >= 65").group_by("ward").agg(n=sf.count(), cost=sf.mean("cost"))

is SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.curator.measurement import Aggregate, Count, Key, Mean, Output, Question, Sum
from sfumato.curator.relation import AllOf, Relation
from sfumato.errors import UsageError
from sfumato.queries.questions import checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.relation import Condition

Asked = TypeVar("Asked")


def count(column: str | None = None) -> Count:
    """How many rows; with a column, how many where it is not missing."""
    return Count(None if column is None else named(column))


def sum(column: str) -> Sum:
    """The sum of a declared column."""
    return Sum(named(column))


def mean(column: str) -> Mean:
    """The average of a declared column over the rows where it is not missing."""
    return Mean(named(column))


@dataclass(frozen=True, slots=True, repr=False)
class Frame(Generic[Asked]):
    """Rows of one table, and the keys that split them into groups. Each step gives a new frame."""

    table: str
    ask: Callable[[Question, str], Asked]
    """Makes what `agg` gives from a question and its text."""
    conditions: tuple[Condition, ...] = ()
    keys: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def where(self, condition: str) -> Frame[Asked]:
        """Only rows for which the condition holds, written as after WHERE. Several must all hold."""
        from sfumato.queries.sql import condition as read  # sqlglot comes with the first condition

        read_condition = read(condition, self.table)
        return self._then(f"where({condition!r})", conditions=(*self.conditions, read_condition))

    def group_by(self, *columns: str) -> Frame[Asked]:
        """One group for each declared value of the columns."""
        keys = tuple(named(column) for column in columns)
        return self._then(f"group_by({', '.join(map(repr, keys))})", keys=(*self.keys, *keys))

    def agg(self, **aggregates: Aggregate) -> Asked:
        """The question for these numbers of each group, under these names, after the keys."""
        for name, aggregate in aggregates.items():
            _check_aggregate(name, aggregate)
        keys = tuple(Output(key, Key(key)) for key in self.keys)
        numbers = tuple(Output(name, aggregate) for name, aggregate in aggregates.items())
        asked = checked(Question(Relation(self.table, self._condition()), self.keys, keys + numbers))
        shown = ", ".join(f"{name}={_text(aggregate)}" for name, aggregate in aggregates.items())
        return self.ask(asked, f"{self!r}.agg({shown})")

    def count(self) -> Asked:
        """The question for the number of rows of each group."""
        return self.agg(count=Count())

    def __repr__(self) -> str:
        return ".".join((f"table({self.table!r})", *self.steps))

    def _then(self, step: str, **changes: Any) -> Frame[Asked]:
        return replace(self, steps=(*self.steps, step), **changes)

    def _condition(self) -> Condition:
        return self.conditions[0] if len(self.conditions) == 1 else AllOf(self.conditions)


def named(name: Any) -> str:
    """The name of a table or column, if it is a text."""
    if isinstance(name, str):
        return name
    raise UsageError("SF-Q124", "Tables and columns are named by texts.", try_='sf.mean("cost")')


def _check_aggregate(name: str, aggregate: Any) -> None:
    if not isinstance(aggregate, Aggregate):
        raise UsageError("SF-Q123", f"'{name}' is not given an aggregate.", try_=f"agg({name}=sf.count())")


def _text(aggregate: Aggregate) -> str:
    return f"{type(aggregate).__name__.lower()}({'' if aggregate.column is None else repr(aggregate.column)})"
