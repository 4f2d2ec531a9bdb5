"""Frames of a lab on another machine: their steps are noted, sent as JSON, and replayed by the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.question.measurement import Aggregate
from sfumato.curator.question.relation import Case, Expression
from sfumato.errors import UsageError
from sfumato.lab.remote.expressions import encode_form
from sfumato.lab.remote.questions import RemoteQuery
from sfumato.queries.aggregations import require_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.curator.catalog.description import TableDescription
    from sfumato.lab.remote.questions import Asks
    from sfumato.privacy.exact import Number

FRAME_STEPS = ("bounded", "group_by", "join", "per_unit", "select", "units", "where")
"""Steps that make a frame of a frame."""
LAST_STEPS = ("agg", "bounds", "count", "curve", "distance", "histogram", "subsample", "top")
"""Steps that make a question of a frame."""
GRAPH_STEPS = ("degrees", "edges")
"""What can be asked of a graph."""


@dataclass(frozen=True, slots=True, repr=False)
class RemoteFrame:
    """Rows of a table on another machine. Each step returns a new frame, as in `s.table(…)` of a lab.

    Steps are noted here and checked by the server, so what is wrong with one is said when it is quoted.
    """

    asks: Asks
    table: str
    steps: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = ()

    # ---- frames ----

    def units(self) -> RemoteFrame:
        """Return one row for each unit, whose column `rows` says how many rows the source had of it."""
        return self._then("units")

    def where(self, condition: str) -> RemoteFrame:
        """Keep the rows for which a condition holds, written as after WHERE. Several must all hold."""
        return self._then("where", condition)

    def select(self, **columns: str) -> RemoteFrame:
        """Replace the columns by these, each computed from the row."""
        return self._then("select", **columns)

    def join(
        self,
        table: str | RemoteFrame,
        *,
        using: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
        optional: bool = False,
    ) -> RemoteFrame:
        """Join each row with the rows of another table, or of another frame, that agree in these columns."""
        given = {"using": using, "on": on, "optional": optional}
        return self._then("join", table, **{name: each for name, each in given.items() if each is not None})

    def per_unit(self, unit: str, **figures: Aggregate | str) -> RemoteFrame:
        """Return one row for each unit, with sf.count, sf.sum, sf.mean, sf.min or sf.max of its rows."""
        return self._then("per_unit", unit, **figures)

    def bounded(self, *, groups: int = 1, rows: int = 1) -> RemoteFrame:
        """Bound the contribution of one unit: at most so many groups, and so many rows in each."""
        return self._then("bounded", groups=groups, rows=rows)

    def group_by(self, *columns: str | Sequence[str], **computed: str | Expression) -> RemoteFrame:
        """Group by columns, one by one or in a list, and by expressions under names of their own."""
        return self._then("group_by", *columns, **computed)

    def partition(self, column: str) -> RemoteParts:
        """Split the rows by a listed column into one frame for each value; all are charged together."""
        return RemoteParts(self._then("partition", column), column)

    # ---- questions ----

    def agg(self, **aggregates: Aggregate) -> RemoteQuery:
        """Ask for these aggregates of each group, under these names, after the keys."""
        return self._ask("agg", **aggregates)

    def count(self) -> RemoteQuery:
        """Ask for the number of rows of each group."""
        return self._ask("count")

    def histogram(
        self, column: str, edges: Sequence[Number] | None = None, *, bins: int | None = None
    ) -> RemoteQuery:
        """Ask how many rows lie between each two edges, or in so many bins between the declared bounds."""
        typed = {} if bins is None else {"bins": bins}
        return self._ask("histogram", column, *(() if edges is None else (list(edges),)), **typed)

    def top(self, column: str, k: int = 1, *, by: str = "rows") -> RemoteQuery:
        """Ask for the k most frequent values of a column, counted by rows or by units."""
        return self._ask("top", column, k, by=by)

    def distance(self, wanted: str) -> RemoteQuery:
        """Ask how few units must change until a property holds, such as "COUNT(*) >= 100"."""
        return self._ask("distance", wanted)

    def subsample(self, aggregate: Aggregate, *, blocks: int) -> RemoteQuery:
        """Ask for the private median of a statistic over so many random blocks of units."""
        return self._ask("subsample", aggregate, blocks=blocks)

    def bounds(self, column: str, *, keep: Number = Fraction(99, 100)) -> RemoteQuery:
        """Ask for bounds that hold about this share of the rows, to declare in place of wide ones."""
        return self._ask("bounds", column, keep=keep)

    def curve(self, column: str, *, points: int = 256) -> RemoteQuery:
        """Ask how many rows lie up to each of so many values; all quantiles follow from the one answer."""
        return self._ask("curve", column, points=points)

    # ---- what is declared ----

    @property
    def columns(self) -> list[str]:
        """The names of the columns that can be used in the next step."""
        return [column.name for column in self.describe().columns]

    def describe(self) -> TableDescription:
        """Return what is declared about the rows. This is public, and costs nothing."""
        return self.asks.describe(self.to_question())

    @property
    def text(self) -> str:
        """The steps that led here, as they were typed."""
        return ".".join([f"table({self.table!r})", *(_show_step(*each) for each in self.steps)])

    def to_question(self) -> dict[str, Any]:
        """Return the table and the steps, ready for JSON."""
        return {"table": self.table, "steps": [_encode_step(*each) for each in self.steps]}

    def __repr__(self) -> str:
        return f"{self.text}; .describe() says what is declared"

    def _then(self, step: str, *arguments: Any, **named: Any) -> RemoteFrame:
        return replace(self, steps=(*self.steps, (step, arguments, named)))

    def _ask(self, step: str, *arguments: Any, **named: Any) -> RemoteQuery:
        frame = self._then(step, *arguments, **named)
        return RemoteQuery(self.asks, frame.to_question(), frame.text)


@dataclass(frozen=True, slots=True, repr=False)
class RemoteParts:
    """The rows of a frame by the value of a listed column; all parts are charged together."""

    frame: RemoteFrame
    column: str

    def agg(self, **aggregates: Aggregate) -> RemoteQuery:
        """Return one question for every part, to be charged together."""
        return self.frame._ask("agg", **aggregates)

    def ask(self, questions: Mapping[Any, RemoteQuery]) -> RemoteQuery:
        """Return questions for some of the parts, each its own, such as {"A": parts["A"].count()}."""
        if not questions or not all(isinstance(each, RemoteQuery) for each in questions.values()):
            raise UsageError(
                "SF-Q127", "Each part is given a question.", try_='parts.ask({"A": parts["A"].count()})'
            )
        return self.frame._ask("ask", [[part, asked] for part, asked in questions.items()])

    def __getitem__(self, value: Any) -> RemoteFrame:
        return self.frame._then("part", value)

    def __repr__(self) -> str:
        return f"{self.frame.text}; .agg(…) asks all parts, [value] is one of them"


@dataclass(frozen=True, slots=True, repr=False)
class RemoteGraph:
    """A graph on another machine: its degrees and the number of its edges can be asked."""

    asks: Asks
    name: str

    def degrees(self) -> RemoteQuery:
        """Return the question for how many nodes have each degree, and how many at least that."""
        return self._ask("degrees")

    def edges(self) -> RemoteQuery:
        """Return the question for how many edges there are."""
        return self._ask("edges")

    def __repr__(self) -> str:
        return f"graph({self.name!r}); .degrees() and .edges() can be asked"

    def _ask(self, step: str) -> RemoteQuery:
        question = {"graph": self.name, "steps": [[step, [], {}]]}
        return RemoteQuery(self.asks, question, f"graph({self.name!r}).{step}()")


def encode_rows(table: object, asked: str) -> str | dict[str, Any]:
    """Return which rows a fit is about, ready for JSON: the name of a table, or the steps of a frame."""
    if isinstance(table, RemoteFrame):
        return table.to_question() if table.steps else table.table
    if isinstance(table, str):
        return require_name(table)
    raise UsageError(
        "SF-W104",
        f"{asked}() takes a table of this session: its name, or a frame of it.",
        got=type(table).__name__,
        try_='s.table("visits").where("age >= 18")',
    )


# ---- steps as JSON and as text -----------------------------------------------------------------------------


def _encode_step(step: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    return [
        step,
        [_encode_argument(each) for each in arguments],
        {name: _encode_argument(each) for name, each in named.items()},
    ]


def _encode_argument(value: Any) -> Any:
    match value:
        case RemoteFrame():
            return {"frame": value.to_question()}
        case RemoteQuery():
            return {"question": dict(value.question)}
        case Fraction() | Decimal():
            return {"number": str(Fraction(value))}
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_encode_argument(each) for each in value]
    if hasattr(value, "item"):
        return value.item()
    return encode_form(value)


def _show_step(step: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    shown = [_show(each) for each in arguments] + [f"{name}={_show(each)}" for name, each in named.items()]
    return f"{step}({', '.join(shown)})"


def _show(value: Any) -> str:
    if isinstance(value, RemoteFrame | RemoteQuery):
        return value.text
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    if isinstance(value, Case):
        return "…"
    if isinstance(value, Aggregate):
        from sfumato.curator.question.description import describe_aggregate

        return describe_aggregate(value)
    return repr(value)
