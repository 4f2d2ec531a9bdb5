"""Questions without SQL: a table that is filtered and grouped step by step asks what its SELECT would ask.

    s.table("visits").where("age >= 65").group_by("ward").agg(n=sf.count(), cost=sf.mean("cost"))

is SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sfumato.curator.question.description import describe_aggregate
from sfumato.curator.question.measurement import (
    MINIMUM_SHARE,
    Aggregate,
    ContributionLimits,
    CountOf,
    GroupKey,
    MeanOf,
    Output,
    QuantileOf,
    Question,
    SumOf,
)
from sfumato.curator.question.relation import (
    Alias,
    BaseTable,
    Conjunction,
    Expression,
    Filter,
    GroupByUnit,
    Join,
    Name,
    Projection,
    Relation,
    UnitAggregate,
    UnitRowCounts,
)
from sfumato.errors import UsageError
from sfumato.errors.checked import checked
from sfumato.privacy.exact import parse_exact, parse_whole
from sfumato.queries.aggregations import bins as cut_bins
from sfumato.queries.aggregations import parse_column, quantile, require_name
from sfumato.viz import paragraphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.answers.measure import Measure
    from sfumato.curator.answers.ordered.cumulative_curve import CumulativeCurve
    from sfumato.curator.answers.results import ChosenRange, ChosenValues, NoisyFigure
    from sfumato.curator.catalog.description import TableDescription
    from sfumato.curator.plan.distances import Property
    from sfumato.privacy.exact import Number

AskedQuestion = TypeVar("AskedQuestion")
Parts = TypeVar("Parts")

# ---- frames ------------------------------------------------------------------------------------------------


class QuestionMaker(Protocol[AskedQuestion, Parts]):
    """Makes the questions that the last step of a frame asks."""

    def question(self, question: Question, text: str) -> AskedQuestion: ...

    def top(
        self, relation: Relation, column: Expression, k: int, by_units: bool, text: str
    ) -> Measure[ChosenValues]: ...

    def declared_ends(self, relation: Relation, column: Expression) -> tuple[Fraction, Fraction] | None: ...

    def distance(self, relation: Relation, wanted: Property, text: str) -> Measure[NoisyFigure]: ...

    def subsample(
        self, relation: Relation, aggregate: Aggregate, blocks: int, text: str
    ) -> Measure[NoisyFigure]: ...

    def bounds(self, question: Question, text: str) -> Measure[ChosenRange]: ...

    def curve(
        self, relation: Relation, column: Expression, points: int, text: str
    ) -> Measure[CumulativeCurve]: ...

    def partition(self, frame: Frame[AskedQuestion, Parts], name: str, column: Expression) -> Parts: ...

    def describe(self, relation: Relation) -> TableDescription: ...


@dataclass(frozen=True, slots=True, repr=False)
@checked
class Frame(Generic[AskedQuestion, Parts]):
    """Rows, and the keys that split them into groups. Each step returns a new frame."""

    relation: Relation
    asks: QuestionMaker[AskedQuestion, Parts]
    keys: tuple[tuple[str, Expression], ...] = ()
    limits: ContributionLimits | None = None
    steps: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, table: str, asks: QuestionMaker[AskedQuestion, Parts]) -> Frame[AskedQuestion, Parts]:
        """Return a frame of all rows of a table."""
        return cls(Alias(BaseTable(table), table), asks, steps=(f"table({table!r})",))

    def units(self) -> Frame[AskedQuestion, Parts]:
        """Return one row for each unit, whose column `rows` says how many rows the source had of it."""
        table = self.relation.of if isinstance(self.relation, Alias) else None
        if not isinstance(table, BaseTable):
            raise UsageError(
                "SF-Q127", "units() must directly follow table().", try_='s.table("visits").units()'
            )
        return self._then("units()", relation=UnitRowCounts(table.name))

    def where(self, condition: str) -> Frame[AskedQuestion, Parts]:
        """Keep the rows for which a condition holds, written as after WHERE. Several must all hold."""
        from sfumato.queries.sql import (
            parse_condition_text as read_condition,
        )  # sqlglot comes with the first condition

        narrowed = Filter(self.relation, read_condition(condition))
        return self._then(f"where({condition!r})", relation=narrowed)

    def select(self, **columns: str) -> Frame[AskedQuestion, Parts]:
        """Replace the columns by these, each computed from the row."""
        chosen = tuple((name, parse_column(text)) for name, text in columns.items())
        shown = ", ".join(f"{name}={text!r}" for name, text in columns.items())
        return self._then(f"select({shown})", relation=Projection(self.relation, chosen))

    def join(
        self,
        table: str | Frame[AskedQuestion, Parts],
        *,
        using: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
        optional: bool = False,
    ) -> Frame[AskedQuestion, Parts]:
        """Join each row with the rows of another table, or of another frame, that agree in these columns.

        The columns are named by `on`, or by `using` as in SQL.
        """
        using = on if using is None else using
        if using is None or (on is not None and on != using):
            raise UsageError("SF-Q124", "Say which columns to join by, once.", try_='on="patient_id"')
        names = (using,) if isinstance(using, str) else tuple(using)
        if isinstance(table, Frame):
            table._require_plain("join")
            other = table.relation
        else:
            other = Alias(BaseTable(require_name(table)), require_name(table))
        joined = Join(self.relation, other, Conjunction(), tuple(map(require_name, names)), bool(optional))
        return self._then(f"join({table!r}, using={using!r})", relation=joined)

    def per_unit(self, unit: str, **figures: Aggregate | str) -> Frame[AskedQuestion, Parts]:
        """Return one row for each unit, with sf.count, sf.sum, sf.mean, sf.min or sf.max of its rows.

        A figure may also be written as in SQL: "ARG_MAX(salary, hired)", or "LAST(ward ORDER BY day)".
        """
        columns = tuple(
            (name, parse_column(figure) if isinstance(figure, str) else _unit_aggregate(name, figure))
            for name, figure in figures.items()
        )
        key = Name(require_name(unit))
        relation = GroupByUnit(self.relation, (key,), ((unit, key), *columns))
        shown = ", ".join(
            f"{name}={figure!r}" if isinstance(figure, str) else f"{name}={describe_aggregate(figure)}"
            for name, figure in figures.items()
        )
        return self._then(f"per_unit({unit!r}, {shown})", relation=relation)

    def bounded(self, *, groups: int = 1, rows: int = 1) -> Frame[AskedQuestion, Parts]:
        """Bound the contribution of one unit: at most so many groups, and so many rows in each."""
        bounds = ContributionLimits(parse_whole(groups, "groups"), parse_whole(rows, "rows"))
        return self._then(f"bounded(groups={groups}, rows={rows})", limits=bounds)

    def group_by(
        self, *columns: str | Sequence[str], **computed: str | Expression
    ) -> Frame[AskedQuestion, Parts]:
        """Group by columns, one by one or in a list, and by expressions under names of their own."""
        named = [
            require_name(name)
            for each in columns
            for name in (each if isinstance(each, list | tuple) else [each])
        ]
        plain = tuple((each, parse_column(each)) for each in named)
        others = tuple((name, _key_expression(each)) for name, each in computed.items())
        shown = ", ".join([*map(repr, named), *(f"{name}=…" for name in computed)])
        return self._then(f"group_by({shown})", keys=self.keys + plain + others)

    def agg(self, **aggregates: Aggregate) -> AskedQuestion:
        """Ask for these aggregates of each group, under these names, after the keys."""
        for name, aggregate in aggregates.items():
            _check_aggregate(name, aggregate, f"agg({name}=sf.count())")
        shown = ", ".join(f"{name}={describe_aggregate(aggregate)}" for name, aggregate in aggregates.items())
        return self.asks.question(self.question(aggregates), f"{self.text}.agg({shown})")

    def question(self, aggregates: dict[str, Aggregate]) -> Question:
        """Return the question for these aggregates of each group."""
        keys = tuple(Output(name, GroupKey(place)) for place, (name, _) in enumerate(self.keys))
        numbers = tuple(Output(name, aggregate) for name, aggregate in aggregates.items())
        expressions = tuple(key for _, key in self.keys)
        return Question(self.relation, expressions, keys + numbers, bounds=self.limits)

    def count(self) -> AskedQuestion:
        """Ask for the number of rows of each group."""
        return self.agg(count=CountOf())

    def histogram(
        self, column: str, edges: Sequence[Number] | None = None, *, bins: int | None = None
    ) -> AskedQuestion:
        """Ask how many rows lie between each two edges, or in so many bins between the declared bounds.

        Of a column whose values are listed, ask how many rows have each.
        """
        if edges is not None:
            return self.group_by(**{column: cut_bins(column, edges)}).agg(count=CountOf())
        ends = self.asks.declared_ends(self.relation, parse_column(column))
        if ends is None:
            return self.group_by(column).agg(count=CountOf())
        number = parse_whole(10 if bins is None else bins, "bins")
        step = (ends[1] - ends[0]) / number
        cuts = [ends[0] + step * place for place in range(number + 1)]
        return self.group_by(**{column: cut_bins(column, cuts)}).agg(count=CountOf())

    def top(self, column: str, k: int = 1, *, by: str = "rows") -> Measure[ChosenValues]:
        """Ask for the k most frequent values of a column, counted by rows or by units.

        Values that are not listed, as of a text, are discovered with a δ and shown with their noisy counts.
        """
        if by not in ("rows", "units"):
            raise UsageError("SF-E187", 'by must be "rows" or "units".', try_='by="units"')
        self._require_plain("top")
        return self.asks.top(
            self.relation, parse_column(column), k, by == "units", f"{self.text}.top({column!r}, {k})"
        )

    def distance(self, wanted: str) -> Measure[NoisyFigure]:
        """Ask how few units must change until a property holds, such as "COUNT(*) >= 100"."""
        from sfumato.queries.properties import parse_property as read_property

        self._require_plain("distance")
        return self.asks.distance(self.relation, read_property(wanted), f"{self.text}.distance({wanted!r})")

    def subsample(self, aggregate: Aggregate, *, blocks: int) -> Measure[NoisyFigure]:
        """Ask for the private median of a statistic over so many random blocks of units."""
        self._require_plain("subsample")
        _check_aggregate("aggregate", aggregate, 'subsample(sf.median("cost"), blocks=50)')
        text = f"{self.text}.subsample({describe_aggregate(aggregate)}, blocks={blocks})"
        return self.asks.subsample(self.relation, aggregate, blocks, text)

    def bounds(self, column: str, *, keep: Number = Fraction(99, 100)) -> Measure[ChosenRange]:
        """Ask for bounds that hold about this share of the rows, to declare in place of wide ones."""
        self._require_plain("bounds")
        kept = parse_exact(keep, "keep")  # what is cut off is shared by both ends
        if not 0 < kept < 1:
            raise UsageError("SF-Q105", "keep must lie between 0 and 1.", try_="keep=0.99")
        outside = (1 - kept) / 2
        ends = {"low": quantile(column, outside), "high": quantile(column, 1 - outside)}
        return self.asks.bounds(self.question({**ends}), f"{self.text}.bounds({column!r}, keep={keep})")

    def curve(self, column: str, *, points: int = 256) -> Measure[CumulativeCurve]:
        """Ask how many rows lie up to each of so many values; all quantiles follow from the one answer."""
        self._require_plain("curve")
        text = f"{self.text}.curve({column!r}, points={points})"
        return self.asks.curve(self.relation, parse_column(column), points, text)

    def partition(self, column: str) -> Parts:
        """Split the rows by a listed column into one frame for each value; all are charged together."""
        return self.asks.partition(self, require_name(column), parse_column(column))

    @property
    def text(self) -> str:
        """The steps that led here, as they were typed."""
        return ".".join(self.steps)

    def select_rows(self, asked: str) -> Relation:
        """Return which rows these are, for what takes rows and no groups."""
        self._require_plain(asked)
        return self.relation

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be used in the next step."""
        return [column.name for column in self.describe().columns]

    def describe(self) -> TableDescription:
        """Return what is declared about the rows: who is protected, and each column's type, values and NULLs.

        This is public, and costs nothing.
        """
        return self.asks.describe(self.relation)

    def __repr__(self) -> str:
        return f"{self.text}\n{self.describe()}"

    def _repr_html_(self) -> str:
        return paragraphs([self.text]) + self.describe()._repr_html_()

    def _require_plain(self, asked: str) -> None:
        """Refuse keys and contribution bounds before a question that would ignore them."""
        if self.keys or self.limits is not None:
            raise UsageError(
                "SF-Q127",
                f"{asked}() cannot follow group_by() or bounded().",
                try_=f'where(…).{asked}(…) for one group at a time, or partition("ward")',
            )

    def _then(self, step: str, **changes: Any) -> Frame[AskedQuestion, Parts]:
        return replace(self, steps=(*self.steps, step), **changes)


def _key_expression(given: str | Expression) -> Expression:
    return parse_column(given) if isinstance(given, str) else given


_OF_UNIT: dict[type[Any], str] = {CountOf: "count", SumOf: "sum", MeanOf: "avg"}


def _unit_aggregate(name: str, figure: Any) -> UnitAggregate:
    if isinstance(figure, QuantileOf) and figure.share in (MINIMUM_SHARE, 1 - MINIMUM_SHARE):
        return UnitAggregate("min" if figure.share == MINIMUM_SHARE else "max", figure.of)
    if type(figure) in _OF_UNIT:
        return UnitAggregate(_OF_UNIT[type(figure)], figure.of)
    raise UsageError(
        "SF-Q124",
        f"'{name}' must be a count, sum, mean, min or max of one unit's rows.",
        try_=f'per_unit("patient_id", {name}=sf.sum("cost"))',
    )


def _check_aggregate(name: str, aggregate: Any, example: str) -> None:
    if not isinstance(aggregate, Aggregate):
        raise UsageError("SF-Q124", f"'{name}' must be an aggregate.", try_=example)
