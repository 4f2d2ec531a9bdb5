"""Fitting a synthesis on a table behind the curator: one charge, one scan, noisy marginals.

The engine groups rows by their cells and counts those that are alike. The counts go to the kernel behind the
gate, and only noisy marginals come back.

Because : docs/proofs/synth.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.question.relation import Name
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, check_column_names, describe_unit, lower_private_table
from sfumato.oracle.row_groups import price_groups
from sfumato.oracle.table_blocks import limit_rows
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours
from sfumato.synth.marginals import Marginals, PlannedSynthesis
from sfumato.synth.quote import quote_kernel
from sfumato.synth.spending import Currency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.payer import Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.synth.quote import SynthesisQuote


def fit_marginals(
    payer: Payer,
    given: Marginals,
    table: str | Relation,
    columns: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> Marginals:
    """Charge, measure the marginals of a table, and return the synthesis, fitted. It has no target."""
    planned = plan_marginals(payer, given, table, columns, rows_per_unit, split)
    (written,) = FitRounds(payer, "Marginals").pay(planned.plan, planned.budget)
    given.keep_release(planned.kernel, written, planned.promised)
    given.planned = planned
    return given


def quote_marginals(
    payer: Payer, given: Marginals, table: str | Relation, columns: Sequence[str], rows_per_unit: int
) -> SynthesisQuote:
    """Return how a fit on a table will spend its budget. Nothing is charged or read."""
    planned = plan_marginals(payer, given, table, columns, rows_per_unit)
    return quote_kernel(planned.kernel, planned.promised.cost_in_words)


def plan_marginals(
    payer: Payer,
    given: Marginals,
    table: str | Relation,
    columns: Sequence[str],
    rows_per_unit: int,
    split: Any = None,
) -> PlannedSynthesis:
    """Return what will be charged; what the catalog does not declare is refused here."""
    # Of the object its parameters take part alone, and no method that was set on it.
    made = Marginals(**{name: getattr(given, name) for name in Marginals.PARAMETERS})
    rows = lower_private_table(payer, table, split)
    bounded, each = limit_rows(rows, parse_whole(rows_per_unit, "rows_per_unit"))
    names = check_column_names(columns)
    parts = [lower_expression(Name(name), bounded.scope) for name in names]
    pairs = list(zip(names, parts, strict=True))
    cells = tuple(made.cells_of(name, part.domain, not part.present) for name, part in pairs)
    neighbours = rows.table.neighbours
    currency = Currency(True, bounded.max_rows, neighbours is Neighbours.REPLACE_ONE)
    kernel, budget = made.make_kernel(cells, currency), made.fit_budget()
    values = [cell.lower(part.value) for cell, part in zip(cells, parts, strict=True)]
    plan = price_groups(bounded, values, kernel, budget.main)
    # What was answered before there were limits is still given again.
    if not payer.was_answered(plan):
        made.require_bounded(kernel)
    promised = Guarantee.of(budget, unit=describe_unit(rows, each), neighbours=neighbours)
    return PlannedSynthesis(kernel, plan, budget, promised)
