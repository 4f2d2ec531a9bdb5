"""The rows of a table by the value of a column, and questions of the parts that are charged together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.expected_error import SentenceError
from sfumato.curator.answers.measure import Measure
from sfumato.curator.answers.release import Release
from sfumato.curator.answers.results import Receipt
from sfumato.curator.catalog.unbounded import HasNoBounds
from sfumato.curator.gate import decode_answer, encode_answer
from sfumato.curator.plan.plan import plan_parts, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.query import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import Payer, Spending
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.plan.steps import QuestionStep
    from sfumato.curator.question.measurement import Aggregate
    from sfumato.ledger import Released
    from sfumato.queries.frames import Frame

    Tables = Callable[[str], Table]
    Copies = Callable[[Tables], int]
    PartsPlan = Plan[QuestionStep, tuple[QuestionPlan, ...]]
    Part = Frame[Query, "Partition"]


class Partition(Mapping[Any, "Part"]):
    """The rows of a table by the value of a column: a frame for each.

    Where the column is constant per unit, questions of different parts are about different people, and the
    dearest part is all that is charged.
    """

    def __init__(self, payer: Payer, name: str, parts: dict[Any, Part], copies: Copies) -> None:
        self._payer, self._name, self._parts, self._copies = payer, name, parts, copies

    def __getitem__(self, key: Any) -> Part:
        return self._parts[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def agg(self, **aggregates: Aggregate) -> PartQueries:
        """Return one question for every part, to be charged together."""
        return self.ask({key: frame.agg(**aggregates) for key, frame in self._parts.items()})

    def ask(self, questions: Mapping[Any, Query]) -> PartQueries:
        """Return questions for some of the parts, each its own, such as {"A": parts["A"].count()}."""
        unknown = [key for key in questions if key not in self._parts]
        if unknown or not questions or not all(isinstance(each, Query) for each in questions.values()):
            raise UsageError(
                "SF-Q127",
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
        # A part may be narrowed further, joined or grouped, but it must be what the question starts from.
        while inner != wanted:
            inner = getattr(inner, "of", None)
            if inner is None:
                raise PolicyError(
                    "SF-Q127",
                    f"The question for part '{key}' is not about that part.",
                    try_=f"parts[{key!r}].count()",
                )

    def __repr__(self) -> str:
        return f"partition({self._name!r}) into {', '.join(map(str, self._parts))}"


class PartQueries(HasNoBounds, Measure[dict[Any, Release]]):
    """One question for each part, charged together; `release` gives one answer for each."""

    def __init__(self, payer: Payer, queries: dict[Any, Query], copies: Copies, text: str) -> None:
        super().__init__(payer, text, self._plan, self._answers, _expected_error)
        self._queries, self._copies = queries, copies

    def _plan(self, spending: Spending) -> PartsPlan:
        """Price all parts in one state of the catalog: in another snapshot a unit may be in another part."""
        tables = cache(self._payer.lab.table)
        resolved = [ResolvedQuestion(tables, query.question) for query in self._queries.values()]
        plans = tuple(
            price_question(each, self._payer.spend(each.table, each.needs, spending)) for each in resolved
        )
        return plan_parts(plans, self._copies(tables))

    def _answers(self, plan: PartsPlan, released: Released) -> dict[Any, Release]:
        """Return the answer of each part, all with the one receipt."""
        answers, found, start = decode_answer(released.answer), {}, 0
        # All parts were paid for together, so no part has a charge of its own.
        receipt = Receipt.of(plan, released)
        for part, each in zip(self._queries, plan.subject, strict=True):
            own = encode_answer(answers[start : start + len(each.steps)])
            start += len(each.steps)
            found[part] = Release(each, replace(released, answer=own), receipt=receipt)
        return found


def _expected_error(plan: PartsPlan, spending: Spending) -> SentenceError:
    return SentenceError(
        f"each part as if it were asked alone; neighbours can differ in {plan.times} of them"
    )
