"""What a declaration does to a source, counted exactly, for the steward alone.

The counts are of protected rows. They are returned to whoever registers a table and shown on that screen; no
file of the lab holds them, and nothing that a session can reach does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.catalog.columns import ListedColumn
from sfumato.curator.catalog.description import align_cells, describe_missing, name_type
from sfumato.errors import StewardWarning, UsageError
from sfumato.errors.numbers import format_decimal, format_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.curator.catalog.catalog import Table
    from sfumato.engines.snapshot import ColumnSurvey, SourceSurvey

_VALUES_LOST = 0.01
"""Share of the values of a column that may be lost or clipped without a warning."""
VALUES_CONFIRMED = 0.05
"""Share of the values of a column that may become missing without `confirm_losses`.

A few odd values are usual in real files. A wrong format, list or type loses nearly all values. Privacy does
not depend on the threshold.
"""
_ROWS_LOST = 0.1
"""Share of the rows that may be left out, without an identifier or as too many of a unit, without one."""
_HEADER = ("column", "missing", "not in the list", "not readable", "too low", "too high")
_FOR_YOU = "These are exact counts of protected rows: for the steward alone, and kept nowhere."


def loses_much(lost: int, values: int) -> bool:
    """Return whether a column loses more of its values than is accepted without `confirm_losses`."""
    return lost > VALUES_CONFIRMED * values


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a declaration does to a source. It prints as text, and as a table in notebooks."""

    table: Table
    survey: SourceSurvey
    formats: tuple[str, ...] = ()
    """Formats that were found from the columns, one sentence each."""

    def sentences(self) -> list[str]:
        """Return how many rows were read, and how many of them are left out."""
        survey = self.survey
        of = "" if survey.units is None else f" of {_plural(survey.units, 'unit')} ({self._unit})"
        said = [f"{self.table.name}: {_plural(survey.rows, 'row')}{of} read."]
        if survey.units is not None:
            said += [self._without_unit()] if survey.without_unit else []
            said.append(self._crowding())
        said += [*survey.reading, *self.formats]
        return said + [self._varying(column) for column in survey.columns if column.varying]

    def losses(self) -> list[str]:
        """Return the losses that the steward must confirm before the table is registered."""
        return [loss for column in self.survey.columns for loss in self._find_losses(column)]

    def require_confirmed(self, confirmed: bool) -> None:
        """Refuse losses that the steward did not confirm."""
        if not confirmed and (losses := self.losses()):
            raise UsageError(
                "SF-C249",
                f"The declaration of '{self.table.name}' does not fit its source, so no snapshot was made.",
                losses="\n".join(losses),
                try_="correct the declaration, such as its list or format=, or accept the losses with "
                "confirm_losses=True (--confirm-losses)",
            )

    def warnings(self) -> list[str]:
        """Return what is probably not meant, one sentence each."""
        return list(self._find_warnings())

    def warn(self) -> SourceReport:
        """Warn of whatever is probably not meant, at the line that called the lab; return the report."""
        if found := self.warnings():
            text = "\n  ".join([f"The declaration of '{self.table.name}' may not fit its source.", *found])
            warnings.warn(text, StewardWarning, stacklevel=3)
        return self

    def __str__(self) -> str:
        grid = align_cells([_HEADER, *self._cells()]) if self.survey.columns else []
        return "\n".join([*self.sentences(), *grid, _FOR_YOU])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = viz.html_table(_HEADER, self._cells()) if self.survey.columns else ""
        return viz.paragraphs(self.sentences()) + table + viz.paragraphs([_FOR_YOU])

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, ready for JSON."""
        survey = self.survey
        return {
            "table": self.table.name,
            "rows": survey.rows,
            "rows_without_unit": survey.without_unit,
            "units": survey.units,
            "units_with_too_many_rows": survey.crowded,
            "rows_beyond_max_rows": survey.dropped,
            "reading": [*survey.reading, *self.formats],
            "columns": {column.name: self._to_dict(column) for column in survey.columns},
            "warnings": self.warnings(),
            "losses": self.losses(),
        }

    # ---- parts ----

    @property
    def _unit(self) -> str:
        return str(self.table.unit.column)

    @property
    def _kept(self) -> int:
        """Rows that name their unit."""
        return self.survey.rows - self.survey.without_unit

    def _without_unit(self) -> str:
        rows = _part(self.survey.without_unit, self.survey.rows, "row")
        return f"Left out because their {self._unit} is missing: {rows}."

    def _crowding(self) -> str:
        survey, most = self.survey, self.table.unit.max_rows
        if not survey.crowded:
            return f"No unit has more than {_plural(most, 'row')}, which is how many are used."
        units = _part(survey.crowded, survey.units or 0, "unit")
        rows = _part(survey.dropped, survey.rows, "row")
        return f"Left out because only {_plural(most, 'row')} a unit are used: {rows} of {units}."

    def _varying(self, column: ColumnSurvey) -> str:
        units = _part(column.varying, self.survey.units or 0, "unit")
        verb = "has" if column.varying == 1 else "have"
        return (
            f"'{column.name}' is declared constant, but {units} {verb} several values. The value of one row "
            "counts for all of them."
        )

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (column.name, *(_part(count, self._kept) for count in self._counts(column)))
            for column in self.survey.columns
        ]

    def _counts(self, column: ColumnSurvey) -> tuple[int, ...]:
        """Return the counts of one line, in the order of the header."""
        listed = self._is_listed(column)
        unlisted, unreadable = (column.unreadable, 0) if listed else (0, column.unreadable)
        return column.missing, unlisted, unreadable, column.below, column.above

    def _to_dict(self, column: ColumnSurvey) -> dict[str, int]:
        names = ("missing", "unlisted", "unreadable", "below", "above")
        varying = {"varying_units": column.varying} if self.table.columns[column.name].constant else {}
        return dict(zip(names, self._counts(column), strict=True)) | varying

    def _is_listed(self, column: ColumnSurvey) -> bool:
        return isinstance(self.table.columns[column.name], ListedColumn)

    def _find_warnings(self) -> Iterator[str]:
        survey = self.survey
        if not survey.rows:
            yield "The source has no rows."
        if survey.without_unit > _ROWS_LOST * survey.rows:
            yield self._without_unit()
        if survey.dropped > _ROWS_LOST * survey.rows:
            yield self._crowding()
        for column in survey.columns:
            yield from self._find_lost_values(column)

    def _find_losses(self, column: ColumnSurvey) -> Iterator[str]:
        """Yield what needs the steward's confirmation in one column."""
        if column.varying:
            yield self._varying(column)
        if self.table.columns[column.name].nullable is False and column.missing + column.unreadable:
            yield self._absent(column)
        elif loses_much(column.unreadable, self._kept - column.missing):
            yield self._unreadable(column)

    def _absent(self, column: ColumnSurvey) -> str:
        values = _part(column.missing + column.unreadable, self._kept, "value")
        verb = "is" if column.missing + column.unreadable == 1 else "are"
        instead = describe_missing(replace(self.table.columns[column.name], nullable=None))
        said = f"'{column.name}' is declared without missing values"
        return f"{said}, but {values} {verb} missing. Missing values {instead}."

    def _unreadable(self, column: ColumnSurvey) -> str:
        kind = name_type(self.table.columns[column.name])
        what = "not in its list" if self._is_listed(column) else f"not readable as a {kind}"
        values = _part(column.unreadable, self._kept - column.missing, "value")
        return f"'{column.name}': {values} {what}, counted as missing."

    def _find_lost_values(self, column: ColumnSurvey) -> Iterator[str]:
        name, said = f"'{column.name}'", self._kept - column.missing
        if column.varying:
            yield self._varying(column)
        if self.table.columns[column.name].nullable is False and column.missing + column.unreadable:
            yield self._absent(column)
            return
        if not said:
            if self._kept:
                yield f"{name} is missing in every row."
            return
        if column.unreadable > _VALUES_LOST * said:
            yield self._unreadable(column)
        for beyond, bound in ((column.below, "below the lower"), (column.above, "above the upper")):
            if beyond > _VALUES_LOST * said:
                yield f"{name}: {_part(beyond, said, 'value')} {bound} bound, counted as the bound."


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _part(count: int, of: int, noun: str = "") -> str:
    """Return a count and its share, which is 0 % or 100 % only if it is none or all."""
    said = _plural(count, noun) if noun else f"{count:,}"
    if not count:
        return said
    share = 100 * count / of
    if count < of and share > 99:
        return f"{said} (over 99 %)"
    return f"{said} ({format_decimal(share, 0)} %)" if share >= 1 else f"{said} ({format_number(share, 1)} %)"
