"""Bounds for one question that make its noise and what it loses together least, chosen privately.

The counts of units that they follow from are charged to whoever asks, before anything is read:
docs/proofs/bounds.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.noisy_tail import FURTHER, NoisyTail
from sfumato.curator.answers.results import Receipt
from sfumato.curator.catalog.candidates import list_counts, list_sizes
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.gate import decode_answer
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import Sums
from sfumato.curator.question.cells import cut_below
from sfumato.curator.question.measurement import (
    CountOf,
    DistinctUnits,
    GroupKey,
    Output,
    Question,
)
from sfumato.curator.question.relation import FunctionCall, Literal, Name, UnitAggregate
from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_number
from sfumato.lab.bounds.choosing import count_noise
from sfumato.lab.bounds.contributions import UnitTotals, find_only_sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.curator.plan.resolved import ResolvedQuestion, Tables
    from sfumato.curator.question.relation import Expression
    from sfumato.ledger import Released

    Floats = NDArray[np.float64]

_DECADES = 10**4
"""Ratio of the largest to the smallest candidate for what one unit adds to a sum."""


@dataclass(frozen=True, slots=True)
class PickedBounds:
    """What was picked for a question, and what that is expected to lose."""

    groups: int
    rows: int | None
    """Rows of a unit in one group; None where what it adds to a sum is clipped."""
    clip: Fraction | None
    """What a unit adds to a sum in one group, at most."""
    lost: float
    total: float
    """Rows, or what is summed: left out, and in all; both estimated from noisy counts."""
    receipt: Receipt

    @property
    def bias(self) -> str:
        """What is lost, in words."""
        what = "rows" if self.clip is None else "the sum"
        if not self.total:
            return "unknown: no unit was seen"
        return (
            f"about {format_number(min(100 * self.lost / self.total, 100), 2)} "
            f"% of {what} left out, by noisy counts"
        )

    def __str__(self) -> str:
        groups = "" if self.groups == 1 else f" in each of at most {self.groups} groups"
        if self.clip is None:
            return f"At most {self.rows} row{'' if self.rows == 1 else 's'} of a unit{groups}"
        return f"A unit adds at most {format_number(self.clip, 12)}{groups}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        clip = None if self.clip is None else str(self.clip)
        said = {"groups": self.groups, "rows": self.rows, "clip": clip, "picked": str(self)}
        lost = {"bias": self.bias, "lost": self.lost, "total": self.total}
        return said | lost | {"receipt": self.receipt.to_dict()}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any], receipt: Receipt) -> PickedBounds:
        """Return the bounds that `to_dict` wrote."""
        clip = None if said["clip"] is None else Fraction(said["clip"])
        return cls(said["groups"], said["rows"], clip, said["lost"], said["total"], receipt)


# ---- what is counted ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Axis:
    """One number of a unit, and the candidates for a bound on it."""

    value: Expression
    candidates: tuple[Fraction, ...]

    def make_question(self, totals: UnitTotals, total: Expression) -> Question:
        cell = cut_below(self.value, self.candidates, beyond=False)
        shown = (Output("cell", GroupKey(0)), Output("units", CountOf()))
        return Question(totals.list_units(total), (cell,), shown)


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How the bounds of a question are chosen: what is counted, and what noise a bound would bring."""

    tables: Tables
    resolved: ResolvedQuestion
    total: Expression
    """What a unit has in one group: rows, or the size of a sum."""
    amounts: _Axis
    groups: _Axis | None
    """In how many groups a unit is, where it can be in several."""
    clips: bool

    @classmethod
    def of(cls, tables: Tables, resolved: ResolvedQuestion) -> TuningPlan:
        """Return the plan for a question, from public facts; refuse one that no bound would make better."""
        question, most = resolved.question, resolved.source.max_rows
        if question.bounds is not None:
            raise PolicyError(
                "SF-Q210",
                "This question has bounds already, so none are picked for it.",
                try_="tune(epsilon=…) without bounded(…)",
            )
        if question.levels or resolved.discovers_keys:
            raise PolicyError(
                "SF-Q210",
                "A question is tuned if its groups are listed, on one level.",
                try_="a column declared by sf.one_of, without ROLLUP",
            )
        cells = 1 if all(key.part.constant for key in resolved.keys) else min(most, resolved.cells)
        groups = None if cells == 1 else _Axis(Name("groups"), _as_fractions(list_counts(cells)))
        summed = find_only_sum(question)
        people = all(isinstance(each, DistinctUnits) for each in question.aggregates)
        if resolved.is_empty or most == 1 or (people and groups is None):
            raise PolicyError(
                "SF-Q210",
                "There is nothing to tune: no unit counts more than once in this question.",
                try_="release(epsilon=…)",
            )
        if summed is None:
            counted: Expression = Literal(Fraction(1)) if people else UnitAggregate("count")
            rows = list_counts(1 if people else most)
            amounts = _Axis(Name("amount"), _as_fractions(rows))
            return cls(tables, resolved, counted, amounts, groups, clips=False)
        size = FunctionCall("abs", (UnitAggregate("sum", summed.of),))
        largest = _find_largest(tables, resolved, size)
        sizes = list_sizes(largest, largest / _DECADES)
        return cls(tables, resolved, size, _Axis(Name("amount"), sizes), groups, clips=True)

    @property
    def axes(self) -> tuple[_Axis, ...]:
        """What is counted: the largest amounts of units, and how many groups they are in."""
        return (self.amounts,) if self.groups is None else (self.amounts, self.groups)

    def price(self, epsilon: Fraction) -> Plan[Sums, TuningPlan]:
        """Return the counts of units with their noise, as one charge."""
        totals, part = UnitTotals(self.resolved), epsilon / len(self.axes)
        plans = tuple(
            plan_question(self.tables, axis.make_question(totals, self.total), PureSpend(part))
            for axis in self.axes
        )
        steps = tuple(step for plan in plans for step in plan.steps if isinstance(step, Sums))
        reads = self.resolved.source.tables
        return Plan(self.resolved.table, PureSpend(epsilon), steps, self, (), ("tuning",), reads=reads)

    def pick(self, plan: Plan[Sums, TuningPlan], released: Released, for_epsilon: Fraction) -> PickedBounds:
        """Return the bounds with the least expected error; refuse where noise hides all units."""
        found = []
        for axis, answer, step in zip(self.axes, decode_answer(released.answer), plan.steps, strict=True):
            counts = tuple(answer[0][: len(axis.candidates)])
            found.append(_Seen.of(axis, NoisyTail(counts, count_noise(step))))
        amounts, groups = found[0], found[1] if self.groups is not None else _ONE_GROUP
        moved = np.outer(groups.bounds, amounts.bounds)
        if not self.clips:  # a unit has no more rows than are used of it, in however many groups
            moved = np.minimum(moved, self.resolved.source.max_rows)
        noisy = self._noise_each(for_epsilon) * moved
        kept = np.outer(groups.kept, amounts.kept)  # as if units in many groups had no more in each
        whole = groups.whole * amounts.whole
        lost = amounts.units * (whole - kept)
        best = np.unravel_index(np.argmin(noisy + lost), noisy.shape)
        at_group, at_amount = int(best[0]), int(best[1])
        bound = amounts.exact[at_amount]
        return PickedBounds(
            int(groups.exact[at_group]),
            None if self.clips else int(bound),
            bound if self.clips else None,
            float(lost[at_group, at_amount]),
            amounts.units * whole,
            Receipt.of(plan, released),
        )

    def _noise_each(self, for_epsilon: Fraction) -> float:
        """Return the expected noise of all numbers together, for each step of a unit's contribution."""
        return self.resolved.needs.items * self.resolved.cells / float(for_epsilon)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Candidates for a bound, and what units keep and lose under each, by noisy counts."""

    exact: tuple[Fraction, ...]
    bounds: Floats
    kept: Floats
    """What a unit keeps on average, and below, what it has."""
    whole: float
    units: float

    @classmethod
    def of(cls, axis: _Axis, tail: NoisyTail) -> _Seen:
        if tail.seen is None:
            raise PolicyError(
                "SF-Q211",
                "The noise hides what one unit adds to this question; no bounds were picked.",
                charged="yes: the counts were released, and what was charged stays charged",
                why=f"no count of units stands out of the noise: {', '.join(map(str, tail.counts))}",
                try_="a larger epsilon, or bounded(groups=1, rows=5)",
            )
        ends = np.array([float(end) for end in axis.candidates])
        # A unit of a cell is taken to have what lies halfway between its ends, on the scale of candidates.
        before = np.concatenate([ends[:1] / 2, ends[:-1]])
        typical = np.where(ends - before <= 1, ends, np.sqrt(before * ends))
        counts = tail.expected
        last = min(tail.seen + FURTHER, len(ends) - 1) + 1
        units = max(float(counts.sum()), 1.0)
        kept = np.array([(counts * np.minimum(typical, end)).sum() / units for end in ends[:last]])
        return cls(axis.candidates[:last], ends[:last], kept, float((counts * typical).sum()) / units, units)


_ONE_GROUP = _Seen((Fraction(1),), np.ones(1), np.ones(1), 1.0, 1.0)


def _as_fractions(numbers: tuple[int, ...]) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, numbers))


def _find_largest(tables: Tables, resolved: ResolvedQuestion, size: Expression) -> Fraction:
    """Return the largest size of one unit's sum, by declaration."""
    rows = lower_relation(UnitTotals(resolved).list_units(size), tables)
    amount = rows.scope.find_column(Name("amount"))
    if not isinstance(amount.domain, Numbers):
        raise AssertionError(amount.domain)
    return amount.domain.value_at(amount.domain.bound)
