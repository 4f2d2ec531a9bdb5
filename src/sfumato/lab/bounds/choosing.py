"""Bounds that are bought when a table is registered: charged, then counted with noise, then declared.

All bounds of one registration are one charge. Each follows from a histogram of units over public cells, in
which every unit is in one cell: docs/proofs/bounds.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.noisy_tail import NoisyTail
from sfumato.curator.catalog.candidates import list_row_candidates, list_value_candidates, widen_column
from sfumato.curator.catalog.chosen import ChosenBound
from sfumato.curator.catalog.columns import UnboundedColumn
from sfumato.curator.gate import decode_answer
from sfumato.curator.payer import Payer
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.steps import Sums
from sfumato.curator.question.cells import cut_around_zero, cut_below
from sfumato.curator.question.measurement import CountOf, GroupKey, Output, Question
from sfumato.curator.question.relation import BaseTable, Name, UnitRowCounts
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.analysts import GrantedLab
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.schema_file import Schema
    from sfumato.curator.payer import LabAccess
    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.noise.additive import Noise
    from sfumato.privacy.bound_choice import BoundChoice

    ChoicePlan = Plan[Sums, tuple[QuestionPlan, ...]]

MOST_UNITS = 10**9
"""More units than any table has. A choice whose noise is larger than that is refused before it is charged."""


# ---- what is to be chosen ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowsChoice:
    """The rows of a unit, to be chosen."""

    choice: BoundChoice

    @property
    def column(self) -> None:
        """No column: rows are chosen."""

    def make_question(self, table: str) -> Question:
        """Return how many units have how many rows, in cells."""
        cells = cut_below(Name("rows"), list_row_candidates(self.choice))
        return _count_units(UnitRowCounts(table), cells)

    def pick(self, counts: list[int], noise: Noise) -> tuple[tuple[Fraction, ...], str] | None:
        """Return the bound and how many units lie beyond it, in words; None where noise hides all units."""
        candidates = list_row_candidates(self.choice)
        tail, firsts = NoisyTail(tuple(counts), noise), range(1, len(candidates) + 1)
        at = tail.pick_candidate(firsts, self.choice.count_allowed(tail.units))
        if at is None:
            return None
        return (Fraction(candidates[at]),), f"{tail.describe_beyond(at + 1)} of {tail.units:,}"


@dataclass(frozen=True, slots=True)
class ValuesChoice:
    """The bounds of a column, to be chosen from one row of each unit."""

    column: str
    unbounded: UnboundedColumn

    @property
    def choice(self) -> BoundChoice:
        """What the choice may cost."""
        return self.unbounded.choice

    def make_question(self, table: str) -> Question:
        """Return how many units have which value, in cells."""
        return _count_units(
            BaseTable(table), cut_around_zero(Name(self.column), list_value_candidates(self.unbounded))
        )

    def pick(self, counts: list[int], noise: Noise) -> tuple[tuple[Fraction, ...], str] | None:
        """Return both bounds and how many units lie outside, in words; None where noise hides all units."""
        ends = list_value_candidates(self.unbounded)
        # A missing value is in the last cell, and is no value.
        found = pick_ends(ends, tuple(counts[: len(ends)]), noise, self._allow)
        if found is None:
            return None
        bound = self.unbounded.bounded_by(found.low, found.high)
        return (bound.low, bound.high), found.beyond

    def _allow(self, units: int) -> float:
        """Return how many units may lie beyond one end: never so many that the ends could cross."""
        both = self.choice.count_allowed(units)
        return min(both if self.choice.keep is None else both / 2, max(units, 0) / 4)


@dataclass(frozen=True, slots=True)
class PickedEnds:
    """Two candidates between which most units have their values."""

    low: Fraction
    high: Fraction
    beyond: str
    """The noisy number of units outside, as text."""


def pick_ends(
    ends: Sequence[Fraction], counts: tuple[int, ...], noise: Noise, allow: Callable[[int], float]
) -> PickedEnds | None:
    """Return the ends that noisy counts of units imply, or None if noise hides all units.

    `ends` are symmetric about zero, and `counts` are of their cells as `cut_around_zero` cuts them. `allow`
    says how many of all units may lie beyond one end.
    """
    middle = len(ends) // 2
    upward, downward = NoisyTail(counts, noise), NoisyTail(counts[::-1], noise)
    firsts = [at if at < middle else at + 1 for at in range(len(ends))]
    high, low = (tail.pick_candidate(firsts, allow(tail.units), middle) for tail in (upward, downward))
    if high is None or low is None:
        return None
    lowest, highest = sorted((len(ends) - 1 - low, high))
    if lowest == highest:  # all values are in one cell, such as zero
        highest, lowest = min(highest + 1, len(ends) - 1), lowest - (highest == len(ends) - 1)
    beyond = (
        f"below {downward.describe_beyond(firsts[low])}, "
        f"above {upward.describe_beyond(firsts[high])} of {upward.units:,}"
    )
    return PickedEnds(ends[lowest], ends[highest], beyond)


OpenChoice = RowsChoice | ValuesChoice


def list_choices(said: Schema) -> tuple[OpenChoice, ...]:
    """Return the bounds of a declaration that are to be chosen."""
    unit = said.unit if isinstance(said.unit, Unit) else None
    rows = () if unit is None or unit.choice is None else (RowsChoice(unit.choice),)
    return (
        *rows,
        *(
            ValuesChoice(name, each)
            for name, each in said.columns.items()
            if isinstance(each, UnboundedColumn)
        ),
    )


def require_no_choice(said: Schema, asked: str) -> None:
    """Refuse a bound that is to be chosen where nothing may be charged."""
    if list_choices(said):
        raise UsageError(
            "SF-U104",
            f"{asked} charges nothing, so it cannot choose bounds.",
            why="a bound that is chosen from rows costs a part of the budget",
            try_="numbers in place of sf.choose(…), or lab.register, which charges for them",
        )


def widen_schema(said: Schema) -> Schema:
    """Return the declaration under which rows are kept while bounds are chosen: one row of each unit."""
    unit = said.unit
    if isinstance(unit, Unit) and unit.column is not None:
        unit = Unit(unit.column, 1, unit.of)
    columns: dict[str, Any] = {
        name: widen_column(each) if isinstance(each, UnboundedColumn) else each
        for name, each in said.columns.items()
    }
    return replace(said, unit=unit, columns=columns)


# ---- buying ------------------------------------------------------------------------------------------------


def plan_choices(table: Table, choices: tuple[OpenChoice, ...]) -> ChoicePlan:
    """Return the priced counts that all bounds follow from, as one charge; from public facts alone."""
    if table.is_public:
        raise UsageError(
            "SF-Q144",
            f"'{table.name}' is public: no one pays for choosing its bounds.",
            try_="numbers that you read off the table itself",
        )
    plans = tuple(
        plan_question(lambda _: table, each.make_question(table.name), PureSpend(each.choice.epsilon))
        for each in choices
    )
    for plan, each in zip(plans, choices, strict=True):
        _require_servable(table, plan, each)
    steps = tuple(step for plan in plans for step in plan.steps if isinstance(step, Sums))
    total = PureSpend(sum((each.choice.epsilon for each in choices), Fraction(0)))
    return Plan(table, total, steps, plans, (), ("bounds",))


def buy_bounds(
    lab: LabAccess, table: Table, choices: tuple[OpenChoice, ...]
) -> tuple[Mapping[OpenChoice, tuple[Fraction, ...]], tuple[ChosenBound, ...]]:
    """Charge for the choices, count with noise, and return each bound; refuse what noise hides.

    `table` has a snapshot of the lab that no one else can ask about. What was charged stays charged.
    """
    plan = plan_choices(table, choices)
    payer = Payer(_OneTableLab(lab, "the steward", table), None)
    released = payer.pay(plan, f"choose {', '.join(map(_name_choice, choices))} of {table.name}")
    bounds, chosen = {}, []
    for answer, step, each in zip(decode_answer(released.answer), plan.steps, choices, strict=True):
        found = each.pick(answer[0], count_noise(step))
        if found is None:
            raise _hidden(table, each, answer[0])
        bounds[each] = found[0]
        chosen.append(ChosenBound(each.column, found[0], each.choice.epsilon, released.seq, found[1]))
    return bounds, tuple(chosen)


def apply_bounds(said: Schema, bounds: Mapping[OpenChoice, tuple[Fraction, ...]]) -> Schema:
    """Return the declaration with the bounds that were bought."""
    unit, columns = said.unit, dict[str, Any](said.columns)
    for each, bound in bounds.items():
        if isinstance(each, ValuesChoice):
            columns[each.column] = each.unbounded.bounded_by(*bound)
        elif isinstance(unit, Unit):
            named = unit.column or "", int(bound[0]), unit.of
            unit = Unit(*named)
    return replace(said, unit=unit, columns=columns)


@dataclass(frozen=True, slots=True)
class _OneTableLab(GrantedLab):
    """A lab in which one table can be asked about that its catalog does not have yet."""

    only: Table

    def table(self, name: str) -> Table:
        """Return the table."""
        return self.only

    def tables(self) -> tuple[Table, ...]:
        """Return the table."""
        return (self.only,)


def _count_units(relation: Any, cells: Any) -> Question:
    return Question(relation, (cells,), (Output("cell", GroupKey(0)), Output("units", CountOf())))


def count_noise(step: Sums) -> Noise:
    """Return the noise of a step that counts units, and nothing else."""
    [counted] = step.measured
    if not isinstance(counted, NoisySum) or counted.noise is None:
        raise AssertionError(step)
    return counted.noise


def _name_choice(each: OpenChoice) -> str:
    return "max_rows" if each.column is None else f"bounds of {each.column}"


def _require_servable(table: Table, plan: QuestionPlan, each: OpenChoice) -> None:
    """Refuse noise that would hide any table there could be: this follows from public facts."""
    units = MOST_UNITS if table.public_rows is None else table.public_rows
    noise = next(count_noise(step) for step in plan.steps if isinstance(step, Sums))
    radius = noise.half_width(0.95)
    if radius < units:
        return
    raise UsageError(
        "SF-Q218",
        f"No candidate for {_name_choice(each)} can be chosen at this ε; nothing was charged.",
        why=f"each count of units would be off by {radius:,}, and there are at most {units:,}",
        try_="a larger epsilon, or a number",
    )


def _hidden(table: Table, each: OpenChoice, counts: list[int]) -> PolicyError:
    """Return the refusal of a choice that the noise decided. It follows from released counts."""
    return PolicyError(
        "SF-Q211",
        f"The noise hides which {_name_choice(each)} would suit '{table.name}'; nothing was registered.",
        charged="yes: the counts were released, and what was charged stays charged",
        why=f"no count of units stands out of the noise: {', '.join(map(str, counts))}",
        try_="a larger epsilon, a smaller up_to, or a number",
    )
