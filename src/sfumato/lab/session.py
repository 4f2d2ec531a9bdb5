"""What an analyst holds: questions, their quotes and releases, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from sfumato.curator.catalog.description import TableListing, describe_table
from sfumato.curator.payer import Payer
from sfumato.lab.budget_view import BudgetView, view_budget
from sfumato.lab.combined import UnionQuery, find_declared_values, pivot_query
from sfumato.lab.nested import NestedQuery
from sfumato.lab.published import Published
from sfumato.lab.query import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.catalog.description import PublicFacts
    from sfumato.curator.hostile.reading import SlotReader
    from sfumato.curator.payer import LabAccess
    from sfumato.curator.question.relation import Relation
    from sfumato.lab.graph import Graph
    from sfumato.lab.partition import Partition
    from sfumato.lab.sq_oracle import QueryOracle
    from sfumato.learn.base.estimator import PaidEstimator
    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation
    from sfumato.privacy.exact import Number
    from sfumato.queries.frames import Frame

Fitted = TypeVar("Fitted", bound="PaidEstimator")


class Session:
    """An analyst's way into a lab. `lab.session("ada")` spends ada's quota and the budget, both."""

    def __init__(self, lab: LabAccess, analyst: str | None, slots: SlotReader | None = None) -> None:
        self._lab = lab
        self._analyst = analyst
        self._payer = Payer(lab, analyst, slots)

    @property
    def tables(self) -> TableListing:
        """The tables that can be asked about, and what is declared about each. This costs nothing."""
        return TableListing(tuple(map(describe_table, self._lab.tables())))

    def sql(self, text: str) -> Query:
        """Return a question in SQL. Nothing is read or spent until it is released.

        SHOW TABLES and DESCRIBE visits give public facts at once, for nothing.
        """
        # Facts can be quoted and released like a question, so callers need not tell them apart.
        return cast("Query", self._find_facts(text) or self.question(text))

    def question(self, text: str) -> Query:
        """Return a question in SQL; what only asks for public facts is refused."""
        from sfumato.queries.combined import find_pivot, find_union
        from sfumato.queries.nested import find_nested
        from sfumato.queries.sql import choose_question

        union, pivot = find_union(text), find_pivot(text)
        if union is not None:
            parts = [self.question(each) for each in union.texts]
            return cast("Query", UnionQuery(parts, union, text))
        if pivot is not None:
            return pivot_query(self.question(pivot.text), pivot, text)
        nested = find_nested(text)
        if nested is not None:
            numbers = [self.question(each) for each in nested.numbers]
            asked = NestedQuery(numbers, lambda found: self.question(nested.fill(found)), text)
            # It is quoted and released like one question.
            return cast("Query", asked)
        query = choose_question(text, lambda question: Query(self._payer, question, text))
        return cast("Query", find_declared_values(query) or query)

    def _find_facts(self, text: str) -> PublicFacts | None:
        """Return the public facts that a text asks for, or None if it asks something else."""
        from sfumato.queries.listings import find_described_table, lists_tables

        if lists_tables(text):
            return self.tables
        name = find_described_table(text)
        return None if name is None else describe_table(self._lab.table(name))

    def table(self, name: str) -> Frame[Query, Partition]:
        """Return a table to ask about step by step: where, group_by, then agg, top, distance and more."""
        from sfumato.lab.questions import FrameQuestions
        from sfumato.queries.aggregations import require_name
        from sfumato.queries.frames import Frame

        return Frame.from_table(self._lab.table(require_name(name)).name, FrameQuestions(self._payer))

    def graph(self, name: str) -> Graph:
        """Return a graph to ask about: its degrees, and the number of its edges."""
        from sfumato.lab.graph import Graph
        from sfumato.queries.aggregations import require_name

        return Graph(self._payer, require_name(name))

    def oracle(self, table: str, *, epsilon: Number, questions: int = 1) -> QueryOracle:
        """Return an oracle for one's own programs: so many noisy averages, each for an equal part of ε."""
        from sfumato.lab.sq_oracle import QueryOracle

        return QueryOracle(self.table(table), epsilon, questions)

    def fit(
        self,
        estimator: Fitted,
        *,
        table: str | Frame[Query, Partition],
        features: Sequence[str],
        target: str | None = None,
        rows_per_unit: int = 1,
        split: tuple[float, str] | None = None,
    ) -> Fitted:
        """Learn from a table, with bounds and classes from the catalog; charged first, round by round.

        The table is given by its name, or as a frame such as `s.table("visits").where("age >= 18")`.
        One row of each unit counts, or as many as `rows_per_unit` says, which is priced for so many. A
        `sf.learn.Search` is charged once, for all its runs. `split=(0.8, "train")` learns from four units in
        five, which a keyed hash chooses, and leaves the others for `split=(0.8, "test")`.
        """
        from sfumato.learn import Search
        from sfumato.learn.base.fit_table import fit_table
        from sfumato.learn.search_tables import search_table

        fits: Any = search_table if type(estimator) is Search else fit_table
        rows = _select_rows(table, "fit")
        fitted: Fitted = fits(self._payer, estimator, rows, features, target, rows_per_unit, split)
        return fitted

    def evaluate(
        self,
        model: Any,
        *,
        table: str | Frame[Query, Partition],
        target: str,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        rows_per_unit: int = 1,
        split: tuple[float, str] | None = None,
        confidence: float = 0.95,
        bins: int = 20,
    ) -> Evaluation | RegressionEvaluation:
        """Measure a model on a table, or on the rows of a frame; charged first.

        `split=(0.8, "test")` measures it on the units that a fit with `split=(0.8, "train")` left out.
        """
        from sfumato.learn.evaluate_tables import EvaluationRequest, evaluate_table

        rows, spend = _select_rows(table, "evaluate"), {"epsilon": epsilon, "delta": delta, "rho": rho}
        asked = EvaluationRequest(target, spend, rows_per_unit, split, confidence, bins)
        return evaluate_table(self._payer, model, rows, asked)

    @property
    def budget(self) -> BudgetView:
        """What is left, for every population this session may spend on."""
        return view_budget(self._lab, self._analyst)

    def published(self) -> tuple[Published, ...]:
        """Return what the steward published: every answer can be read again for nothing."""
        return tuple(Published(self._lab, each) for each in self._lab.publications())

    def __repr__(self) -> str:
        hostile = "" if self._payer.slots is None else ", hostile=True"
        return f"Session({self._analyst or 'steward'!r}{hostile})"


def _select_rows(table: str | Frame[Query, Partition], asked: str) -> str | Relation:
    """Return the name of a table, or which rows of tables a frame has."""
    from sfumato.queries.aggregations import require_name
    from sfumato.queries.frames import Frame

    return table.select_rows(asked) if isinstance(table, Frame) else require_name(table)
