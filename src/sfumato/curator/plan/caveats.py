"""What the interval of the noise does not cover: only what applies to the question at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.curator.catalog.columns import DateColumn, NumberColumn
from sfumato.curator.plan.priced import describe_truncation
from sfumato.engines.program import CountedUnits
from sfumato.engines.rows import Scan, UnitSizes, list_scans
from sfumato.engines.used_columns import find_used
from sfumato.engines.values import Every

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.plan.steps import QuestionStep
    from sfumato.curator.question.measurement import ContributionLimits


def list_caveats(resolved: ResolvedQuestion, steps: Iterable[QuestionStep]) -> Iterator[str]:
    """Yield what intervals do not cover, in the words of the table whose units are protected."""
    question, unit = resolved.question, resolved.table.unit
    used = list(_used_columns(resolved, steps))
    left_out = describe_truncation(resolved.table)
    yield from left_out if _may_be_truncated(resolved) else left_out[1:]
    if question.bounds is not None and resolved.source.max_rows > 1:
        yield f"Of each {unit.column} at most {describe_limits(question.bounds)} used"
    if any(isinstance(each, NumberColumn | DateColumn) for each in used):
        what = "Numbers" if any(isinstance(each, NumberColumn) for each in used) else "Dates"
        yield f"{what} outside their declared bounds count as the nearer bound"
    if any(each.step != 1 for each in resolved.summands) and any(map(_is_rounded, used)):
        yield "Numbers count in steps: about a million between their bounds, unless a step was declared"
    if any(key.leaves_out for key in resolved.keys):
        yield "Rows whose key is missing are in none of the groups"
    if resolved.discovers_keys:
        yield "Groups with few units are not shown"
    if question.chooses_groups:
        yield "Groups were chosen by noisy numbers, so luck may have favoured those that are shown"


def _may_be_truncated(resolved: ResolvedQuestion) -> bool:
    """Return whether rows that were not kept could matter: the number of all units has them all."""
    whole = resolved.source.where == Every() and isinstance(resolved.source.rows, Scan)
    units = all(each.term == CountedUnits() for each in resolved.summands) and not resolved.choices
    everyone = whole and units and not resolved.keys
    return not everyone and not isinstance(resolved.source.rows, UnitSizes)


def _is_rounded(column: DeclaredColumn) -> bool:
    return isinstance(column, NumberColumn) and not column.declared_step


def _used_columns(resolved: ResolvedQuestion, steps: Iterable[QuestionStep]) -> Iterator[DeclaredColumn]:
    """Yield the declared columns that the question looks at."""
    tables = {table.snapshot_name: table for table in resolved.source.tables}
    for program in (step.program for step in steps):
        found = find_used(program, lambda _: False).columns
        for scan in list_scans(program.rows):
            columns = tables[scan.snapshot].columns if isinstance(scan, Scan) else {}
            yield from (columns[name] for name in found.get(scan.at, ()) if name in columns)


def describe_limits(bounds: ContributionLimits) -> str:
    """Return how often a unit counts, in words and with the verb that they need."""
    rows = f"{bounds.rows} row{'' if bounds.rows == 1 else 's'}"
    if bounds.groups == 1:
        return f"{rows} {'is' if bounds.rows == 1 else 'are'}"
    return f"{bounds.groups} groups and {rows} in each are"
