"""Measuring a synthetic table on a table behind the curator: one charge, one scan, a few numbers.

Because : docs/proofs/synth.md#measured-quality
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.question.relation import Name
from sfumato.errors import UsageError
from sfumato.oracle.guarantee import Guarantee
from sfumato.oracle.over_tables import FitRounds, describe_unit, lower_private_table
from sfumato.oracle.row_groups import price_groups
from sfumato.oracle.table_blocks import limit_rows
from sfumato.privacy.exact import parse_confidence, parse_whole
from sfumato.privacy.neighbours import Neighbours
from sfumato.synth.marginals import Marginals
from sfumato.synth.quality.reporting import ROWS, read_check_budget
from sfumato.synth.quality.table_quality import TableQuality
from sfumato.synth.spending import Currency

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.payer import Payer
    from sfumato.curator.question.relation import Relation
    from sfumato.synth.column_cells import ColumnCells
    from sfumato.synth.quality.report import QualityReport


@dataclass(frozen=True, slots=True)
class QualityRequest:
    """What an analyst asks of a synthetic table."""

    target: str | None = None
    spend: Mapping[str, Any] = field(default_factory=dict)
    rows: int = ROWS
    seed: int = 0
    rows_per_unit: int = 1
    split: Any = None
    confidence: float = 0.95


def measure_quality(
    payer: Payer, fitted: Marginals, table: str | Relation, asked: QualityRequest
) -> QualityReport:
    """Charge, measure how far the rows of a table are from a synthetic one, and return the report with it."""
    if not isinstance(fitted, Marginals):
        raise UsageError(
            "SF-E231",
            "Only a synthetic table of sf.synth.Marginals is measured on a table.",
            try_="sf.synth.report_quality(g), which costs nothing",
        )
    budget = read_check_budget(asked.spend)
    parse_confidence(asked.confidence)
    quality = TableQuality(fitted, parse_whole(asked.rows, "rows"), asked.seed, asked.target)
    rows = lower_private_table(payer, table, asked.split)
    bounded, each = limit_rows(rows, parse_whole(asked.rows_per_unit, "rows_per_unit"))
    columns = fitted.marginals_.columns
    parts = [lower_expression(Name(column.name), bounded.scope) for column in columns]
    for column, part in zip(columns, parts, strict=True):
        _require_same(column, part.domain, not part.present)
    neighbours = rows.table.neighbours
    currency = Currency(True, bounded.max_rows, neighbours is Neighbours.REPLACE_ONE)
    kernel = quality.make_check(budget, currency)
    values = [column.lower(part.value) for column, part in zip(columns, parts, strict=True)]
    plan, free = price_groups(bounded, values, kernel, budget.main), quality.report()
    (written,) = FitRounds(payer, "Marginals", "measure").pay(plan, budget)
    promised = Guarantee.of(budget, unit=describe_unit(rows, each), neighbours=neighbours)
    return quality.add_check(free, kernel, written, asked.confidence, promised)


def _require_same(column: ColumnCells, domain: object, nullable: bool) -> None:
    if column.domain != domain or column.nullable != nullable:
        raise UsageError(
            "SF-E231",
            f"'{column.name}' is declared otherwise in this table than in the one that was synthesised.",
            try_="the table, or the part of it, that the synthesis was fitted on",
        )
