"""Fitting `Moments` and `MERF` on a table behind the curator: one charge, one scan, noisy sums.

Because : docs/proofs/synth-images.md#behind-the-curator
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from sfumato.curator.catalog.domains import Listed
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import require_number
from sfumato.curator.question.relation import Name
from sfumato.errors import UsageError
from sfumato.oracle.blocks import Constant, Either
from sfumato.oracle.coded_columns import CodedColumn
from sfumato.oracle.declared import require_labels
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, check_column_names, describe_unit, lower_private_table
from sfumato.oracle.row_kernels import price_kernel
from sfumato.oracle.table_blocks import limit_rows
from sfumato.oracle.table_features import declare_features
from sfumato.privacy.neighbours import Neighbours
from sfumato.synth.images.labelled_generator import Kernel, LabelledGenerator
from sfumato.synth.images.labelled_rows import SampleForm
from sfumato.synth.images.mixed_rows import TableForm
from sfumato.synth.quote import SynthesisQuote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.catalog.domains import Numbers
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.payer import Payer
    from sfumato.curator.plan.priced import Plan
    from sfumato.curator.question.relation import Relation
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Feature
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.row_kernels import KernelStep

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _FeatureRules:
    """Features are numbers or lists as the catalog declares them; a missing number counts as the middle."""

    listed: bool
    bounds: None = None
    missing: None = None


@dataclass(frozen=True, slots=True)
class TargetedTable:
    """Rows of a table with their features, numbers apart from listed ones, and the classes of a target."""

    rows: RowSource
    unit: str
    """Who is protected, in words."""
    numbers: tuple[Feature, ...]
    listed: tuple[Feature, ...]
    names: tuple[str, ...]
    grids: tuple[Numbers, ...]
    """The bounds and the grid of each number in the catalog."""
    classes: tuple[Any, ...]
    label: Value

    def promise(self, budget: FitBudget) -> Guarantee:
        """Return what is promised for a budget."""
        return Guarantee.of(budget, unit=self.unit, neighbours=self.rows.table.neighbours)

    @property
    def figures(self) -> list[Value]:
        """What an engine computes of each row; what is missing in a list is −1."""
        places = [Either(each.value, Constant(-1)) for each in self.listed]
        return [*(each.value for each in self.numbers), *places, Either(self.label, Constant(-1))]

    @property
    def bounds(self) -> tuple[int, ...]:
        """The largest integer of each number."""
        return tuple(each.bound for each in self.numbers)

    @property
    def _ends(self) -> tuple[Floats, Floats]:
        """The middles and half widths of the bounds of numbers."""
        ends = np.array([(each.middle, each.half) for each in self.numbers]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def array_form(self) -> SampleForm:
        """Return how samples look that have no listed columns."""
        middles, halves = self._ends
        shape, kind = (len(self.numbers),), np.dtype(np.float64)
        return SampleForm(shape, middles, halves, np.array(self.classes), kind, self.grids)

    def table_form(self) -> TableForm:
        """Return how samples look as a table."""
        known = {
            each.name: CodedColumn(each.name, float(grid.low * grid.step), float(grid.high * grid.step))
            for each, grid in zip(self.numbers, self.grids, strict=True)
        }
        known |= {each.name: CodedColumn(each.name, categories=each.categories) for each in self.listed}
        middles, halves = self._ends
        columns, steps = tuple(known[name] for name in self.names), tuple(grid.step for grid in self.grids)
        return TableForm(columns, middles, halves, np.array(self.classes), steps)


@dataclass(frozen=True, slots=True)
class PlannedGenerator(Generic[Kernel]):
    """A fit as it will be charged, from public facts alone."""

    declared: TargetedTable
    kernel: Kernel
    plan: Plan[KernelStep, None]
    budget: FitBudget
    promised: Guarantee

    def quote(self) -> SynthesisQuote:
        """Return how the fit will spend its budget."""
        return SynthesisQuote.of(self.promised.cost_in_words, self.kernel.list_parts())


def fit_generator(
    payer: Payer,
    given: LabelledGenerator[Kernel],
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> LabelledGenerator[Kernel]:
    """Charge, measure a table once, and return the generator, fitted."""
    planned = plan_generator(payer, given, table, features, target, rows_per_unit, split)
    (written,) = FitRounds(payer, type(given).__name__).pay(planned.plan, planned.budget)
    declared = planned.declared
    form = declared.table_form() if given.takes_lists else declared.array_form()
    given.keep_release(planned.kernel, written, form, planned.promised)
    return given


def plan_generator(
    payer: Payer,
    given: LabelledGenerator[Kernel],
    table: str | Relation,
    features: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> PlannedGenerator[Kernel]:
    """Return what will be charged; what the catalog does not declare is refused here. Nothing is read."""
    # Of the object its parameters take part alone, and no method that was set on it.
    made = given.copy_parameters()
    rows = lower_private_table(payer, table, split)
    if rows_per_unit != 1 or target is None:
        raise refuse_rows(f"{type(made).__name__} takes one row of each unit, and a target.")
    declared = declare_targeted(rows, check_column_names(features), target, mixed=made.takes_lists)
    sizes = tuple(len(each.categories) for each in declared.listed)
    replaced = rows.table.neighbours is Neighbours.REPLACE_ONE
    kernel = made.make_table_kernel(declared.bounds, sizes, len(declared.classes), replaced)
    budget = made.fit_budget()
    plan = price_kernel(declared.rows, declared.figures, kernel, budget.main)
    return PlannedGenerator(declared, kernel, plan, budget, declared.promise(budget))


def declare_targeted(rows: RowSource, names: tuple[str, ...], target: str, mixed: bool) -> TargetedTable:
    """Return what the catalog says of these columns; with `mixed` they may be listed."""
    bounded, each = limit_rows(rows, 1)
    parts = {name: lower_expression(Name(name), bounded.scope) for name in names}
    listed = tuple(name for name, part in parts.items() if mixed and isinstance(part.domain, Listed))
    numbers = tuple(name for name in names if name not in listed)
    grids = tuple(require_number(parts[name], f"'{name}'")[1] for name in numbers)
    bounded, told = declare_features(bounded, numbers, target, _FeatureRules(listed=False), classifies=True)
    bounded, lists = declare_features(bounded, listed, None, _FeatureRules(listed=True))
    labels, unit = require_labels(told), describe_unit(rows, each)
    return TargetedTable(
        bounded, unit, told.features, lists.features, names, grids, labels.classes, labels.value
    )


def refuse_rows(sentence: str) -> UsageError:
    """Return the error for a fit that does not take one row of each unit and a target."""
    return UsageError("SF-E112", sentence, try_='features=["age", "cost"], target="ward", rows_per_unit=1')
