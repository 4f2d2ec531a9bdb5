"""What a frame asks for once it is complete: each kind of question, for one analyst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from sfumato.curator.answers.rank_error import rank_error
from sfumato.curator.answers.release import Release
from sfumato.curator.answers.results import Chosen, Figure, Range, Receipt
from sfumato.curator.gate import decode, encode
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.payer import Measure, Payer, Price, Spending
from sfumato.curator.plan import distances, selections
from sfumato.curator.plan.plan import ResolvedQuestion, priced
from sfumato.curator.plan.priced import Together
from sfumato.curator.plan.spend import Needs
from sfumato.curator.question.measurement import MeanOf, SumOf
from sfumato.curator.question.relation import Comparison, Filter, Literal
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.query import Query
from sfumato.privacy.exact import positive, whole
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.domains import Numbers, Periods
    from sfumato.curator.plan.plan import Plan
    from sfumato.curator.plan.priced import Priced
    from sfumato.curator.question.measurement import Question
    from sfumato.curator.question.relation import Expression, Relation
    from sfumato.ledger import Released
    from sfumato.privacy.exact import Number
    from sfumato.queries.frames import Frame

    Tables = Callable[[str], Table]
    Copies = Callable[[Tables], int]

_ONE_CHOICE = Needs((), choices=1)


@dataclass(frozen=True, slots=True)
class FrameQuestions:
    """Makes what a frame's last step gives."""

    payer: Payer

    def question(self, question: Question, text: str) -> Query:
        return Query(self.payer, question, text)

    def top(
        self, relation: Relation, column: Expression, k: int, by_units: bool, text: str
    ) -> Measure[Chosen]:
        places = whole(k, "k")
        selections.listed(lower_relation(relation, self.payer.lab.table), column)

        def plan(spend: Any) -> Priced:
            rows = lower_relation(relation, self.payer.lab.table)
            return selections.top(rows, column, places, by_units, spend(rows.table, _ONE_CHOICE))

        def read(paid: Priced, released: Released) -> Chosen:
            shown = _domain(paid).show_values()
            values = tuple(shown[place] for place in decode(released.answer)[0])
            return Chosen(values, Receipt.of(paid, released))

        return Measure(self.payer, text, plan, read, lambda paid: _shortfall(paid, _domain(paid).size))

    def distance(self, relation: Relation, wanted: distances.Property, text: str) -> Measure[Figure]:
        def plan(spend: Any) -> Priced:
            rows = lower_relation(relation, self.payer.lab.table)
            return distances.distance(rows, wanted, spend(rows.table, _ONE_CHOICE))

        def read(paid: Priced, released: Released) -> Figure:
            value, half = decode(released.answer)[0], _half_width(paid)
            return Figure(value, max(0, value - half), max(0, value + half), Receipt.of(paid, released))

        return Measure(self.payer, text, plan, read, lambda paid: f"± {_half_width(paid)} units at 95 %")

    def subsample(self, relation: Relation, aggregate: Any, blocks: int, text: str) -> Measure[Figure]:
        parts = whole(blocks, "blocks")

        def plan(spend: Any) -> Priced:
            rows = lower_relation(relation, self.payer.lab.table)
            return selections.subsample(rows, aggregate, parts, spend(rows.table, _ONE_CHOICE))

        def read(paid: Priced, released: Released) -> Figure:
            domain = _domain(paid)
            value = domain.show_value(decode(released.answer)[0] + domain.low)
            return Figure(value, None, None, Receipt.of(paid, released))

        return Measure(self.payer, text, plan, read, _blocks_off)

    def bounds(self, question: Question, text: str) -> Measure[Range]:
        def plan(spend: Any) -> Plan:
            resolved = ResolvedQuestion(self.payer.lab.table, question)
            return priced(resolved, spend(resolved.table, resolved.needs))

        def read(paid: Plan, released: Released) -> Range:
            domain: Any = paid.resolved.quantiles[0][0].domain
            (low,), (high,) = decode(released.answer)[0]
            return Range(*_stretch(domain, low + domain.low, high + domain.low), Receipt.of(paid, released))

        return Measure(self.payer, text, plan, read, _ranks_off)

    def partition(self, frame: Frame[Any], name: str, column: Expression) -> Partition:
        rows = lower_relation(frame.relation, self.payer.lab.table)
        domain = selections.listed(rows, column)[1]
        literals = [domain.value_at(place) for place in range(domain.low, domain.high + 1)]
        parts = {
            shown: replace(frame, relation=Filter(frame.relation, Comparison(column, "=", Literal(literal))))
            for shown, literal in zip(domain.show_values(), literals, strict=True)
        }
        return Partition(self.payer, name, parts, partial(_copies, frame.relation, column))


def _domain(paid: Priced) -> Any:
    """As it was when the price was made: the steward may have declared another since."""
    if paid.domain is None:
        raise AssertionError(paid)
    return paid.domain


def _copies(relation: Relation, column: Expression, tables: Tables) -> int:
    """How many parts neighbours can differ in: those of one unit, or of one that goes and one that comes."""
    rows = lower_relation(relation, tables)
    part, domain = selections.listed(rows, column)
    units = 1 if rows.table.neighbours is Neighbours.ADD_REMOVE else 2
    return min(units * (1 if part.constant else rows.max_rows), domain.size)


def _half_width(paid: Priced) -> int:
    step: Any = paid.steps[0]
    return int(step.noise.half_width(Fraction(95, 100)))


def _shortfall(paid: Priced, values: int) -> str:
    step: Any = paid.steps[0]
    lost = step.mechanism.shortfall(values, Fraction(95, 100))
    return f"each choice has at most {lost:,} fewer than the best left, at 95 %"


def _blocks_off(paid: Priced) -> str:
    step: Any = paid.steps[0]
    off = float(step.mechanism.rank_error(Fraction(95, 100)))
    return f"at most {off:,.3g} blocks from the middle one, at 95 %; how much blocks differ is not in it"


def _ranks_off(paid: Plan) -> str:
    step: Any = paid.steps[0]
    low = paid.resolved.quantiles[0][1][0]
    off = rank_error(step.mechanism, low, step.program.size, 0.95)
    return f"about {off:,.0f} rows more or fewer beyond each end, at 95 %"


def _stretch(domain: Numbers | Periods, low: int, high: int) -> tuple[Any, Any]:
    """From where the first place begins to where the last ends, within the old bounds; never empty."""
    end = min(high + 1, domain.high)
    return domain.show_value(min(low, end - 1)), domain.show_value(end)


# ---- parts of a table --------------------------------------------------------------------------------------


class Partition(Mapping[Any, Any]):
    """The rows of a table by the value of a column: a frame for each.

    Where the column is constant per unit, questions of different parts are about different people, and the
    dearest part is all that is charged.
    """

    def __init__(self, payer: Payer, name: str, parts: dict[Any, Frame[Any]], copies: Copies) -> None:
        self._payer, self._name, self._parts, self._copies = payer, name, parts, copies

    def __getitem__(self, key: Any) -> Any:
        return self._parts[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def agg(self, **aggregates: Any) -> PartQueries:
        """The same question of every part."""
        return self.ask({key: frame.agg(**aggregates) for key, frame in self._parts.items()})

    def ask(self, questions: Mapping[Any, Query]) -> PartQueries:
        """A question of its own for each of these parts, such as {"A": parts["A"].count()}."""
        unknown = [key for key in questions if key not in self._parts]
        if unknown or not questions or not all(isinstance(each, Query) for each in questions.values()):
            raise UsageError(
                "SF-Q126",
                "Each part is given a question.",
                parts=", ".join(map(str, self._parts)),
                try_="parts.agg(n=sf.count())",
            )
        for key, query in questions.items():
            self._require_of_part(key, query)
        return PartQueries(self._payer, dict(questions), self._copies, f"partition({self._name!r})")

    def _require_of_part(self, key: Any, query: Query) -> None:
        """A question about other rows than its part's would not be about other people than the next one's."""
        inner: Any = query.question.relation
        wanted: Any = self._parts[key].relation
        while inner != wanted:
            inner = getattr(inner, "of", None)
            if inner is None:
                raise PolicyError(
                    "SF-Q156",
                    f"The question for part '{key}' is not about that part.",
                    try_=f"parts[{key!r}].count()",
                )

    def __repr__(self) -> str:
        return f"partition({self._name!r}) into {', '.join(map(str, self._parts))}"


class PartQueries:
    """One question for each part, charged together."""

    def __init__(self, payer: Payer, queries: dict[Any, Query], copies: Copies, text: str) -> None:
        self._payer, self._queries, self._copies, self._text = payer, queries, copies, text

    def quote(self, **spending: Unpack[Spending]) -> Price:
        plan = self._plan(spending)
        sentence = f"each part as if it were asked alone; neighbours can differ in {plan.copies} of them"
        return Price(plan, self._payer.standing(plan), sentence)

    def release(self, *, key: str | None = None, **spending: Unpack[Spending]) -> dict[Any, Release]:
        """One answer for each part."""
        plan = self._plan(spending)
        released = self._payer.pay(plan, self._text, key)
        answers, found, start = decode(released.answer), {}, 0
        for part, each in zip(self._queries, plan.plans, strict=True):
            own = answers[start : start + len(each.steps)]
            start += len(each.steps)
            found[part] = Release(each, replace(released, answer=encode(own)))
            found[part].receipt = Receipt.of(plan, released)  # all parts were paid for together
        return found

    def _plan(self, spending: Spending) -> Together:
        """Of one state of the catalog: in another snapshot a unit may be in another part."""
        tables = cache(self._payer.lab.table)
        resolved = [ResolvedQuestion(tables, query.question) for query in self._queries.values()]
        plans = tuple(priced(each, self._payer.spend(each.table, each.needs, spending)) for each in resolved)
        return Together(plans, self._copies(tables))


# ---- the statistical-query oracle --------------------------------------------------------------------------


class QueryOracle:
    """Noisy averages and counts for one's own programs, out of an ε set aside for them.

    Each of `questions` answers costs an equal part of it; more are refused. A program that learns about a
    table through this alone is as private as the ε says, whatever it does.
    """

    def __init__(self, frame: Frame[Query], epsilon: Number, questions: int) -> None:
        self._frame = frame
        self._each = positive(epsilon, "epsilon") / whole(questions, "questions")
        self._left = whole(questions, "questions")

    def mean(self, of: str) -> Figure:
        """The share of rows for which a condition holds, or the average of a number."""
        return self._answer(MeanOf(_read(of)))

    def sum(self, of: str) -> Figure:
        """The sum of a number, or how many rows satisfy a condition."""
        return self._answer(SumOf(_read(of)))

    @property
    def left(self) -> int:
        """How many questions it still answers."""
        return self._left

    def __repr__(self) -> str:
        return f"Oracle on {self._frame!r}: {self._left} questions left"

    def _answer(self, aggregate: MeanOf | SumOf) -> Figure:
        if self._left < 1:
            raise PolicyError(
                "SF-B104", "This oracle has answered all its questions.", try_="s.oracle(…) anew"
            )
        query = self._frame.agg(value=aggregate)
        self._left -= 1
        release = query.release(epsilon=self._each)
        span = release.interval(0.95).to_pydict()
        value = release.to_arrow().to_pydict()["value"][0]
        return Figure(value, span["value_low"][0], span["value_high"][0], release.receipt)


def _read(text: str) -> Expression:
    from sfumato.queries.aggregations import parse_column

    return parse_column(text)
