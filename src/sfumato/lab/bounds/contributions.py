"""What one unit adds to a question: counted by unit, and clipped.

Questions are rewritten here as an analyst could have written them, with a subquery that groups by the unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.lower.per_unit import rebuild_node
from sfumato.curator.question.measurement import ContributionLimits, Question, SumOf
from sfumato.curator.question.relation import FunctionCall, GroupByUnit, Literal, Name, UnitAggregate
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.relation import Expression, Relation

_UNIT, _TOTAL = "unit of protection", "total of one unit"
"""Names of columns that no analyst can have typed in the question by accident."""


@dataclass(frozen=True, slots=True)
class UnitTotals:
    """The rows of a question, grouped by unit and by the question's keys."""

    resolved: ResolvedQuestion

    def group_rows(self, total: Expression) -> GroupByUnit:
        """Return one row for each unit and group, with a total of the unit's rows there."""
        unit, keys = self._find_unit(), self.resolved.question.keys
        columns = ((_UNIT, unit), *zip(self._key_names(), keys, strict=True), (_TOTAL, total))
        return GroupByUnit(self.resolved.question.relation, (unit, *keys), columns)

    def list_units(self, total: Expression) -> Relation:
        """Return one row for each unit: in how many groups it is, and the largest total in one of them."""
        figures = (
            (_UNIT, Name(_UNIT)),
            ("groups", UnitAggregate("count")),
            ("amount", UnitAggregate("max", Name(_TOTAL))),
        )
        return GroupByUnit(self.group_rows(total), (Name(_UNIT),), figures)

    def clip_sum(self, summed: SumOf, limit: Fraction, groups: int) -> Question:
        """Return the question in which a unit adds at most `limit` to a sum, in each of so many groups."""
        total = UnitAggregate("sum", summed.of)
        ends = Literal(-limit), Literal(limit)
        clipped = FunctionCall("least", (FunctionCall("greatest", (total, ends[0])), ends[1]))

        def change(node: Any) -> Any:
            return SumOf(Name(_TOTAL)) if node == summed else rebuild_node(node, change)

        question = self.resolved.question
        shown = {name: change(getattr(question, name)) for name in ("outputs", "having", "order")}
        keys = tuple(map(Name, self._key_names()))
        # Where a unit can be in no more groups anyway, bounding it would only make the program longer.
        free = groups >= min(self.resolved.source.max_rows, self.resolved.cells)
        bounds = None if free else ContributionLimits(groups, 1)
        return replace(question, relation=self.group_rows(clipped), keys=keys, bounds=bounds, **shown)

    def _key_names(self) -> list[str]:
        return [f"key {place}" for place in range(len(self.resolved.question.keys))]

    def _find_unit(self) -> Name:
        """Return the name of the unit in the rows of the question."""
        scope = self.resolved.source.scope
        for field in scope.fields:
            name = Name(field.name, field.tables[0] if field.tables else None)
            if field.holds is None and scope.is_unit(name):
                return name
        raise PolicyError(
            "SF-Q210",
            "The rows of this question do not name the unit that they belong to.",
            why="a subquery left its column out",
            try_="SELECT *, or the column of the unit, in the subquery",
        )


def find_only_sum(question: Question) -> SumOf | None:
    """Return the sum that a question asks for, if it asks for one sum and for nothing else."""
    asked = question.aggregates
    return asked[0] if len(asked) == 1 and isinstance(asked[0], SumOf) else None


def require_only_sum(question: Question) -> SumOf:
    """Return the only sum that a question asks for; refuse other questions, which have no total to clip."""
    found = find_only_sum(question)
    if found is None or question.levels:
        raise PolicyError(
            "SF-Q210",
            "Only a question for one SUM, without ROLLUP, can be clipped by unit.",
            try_="bounded(groups=1, rows=5) for counts and averages",
        )
    return found
