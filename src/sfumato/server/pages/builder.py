"""The builder of the Ask page: choices into a question in SQL, which the visitor sees and may change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.server.pages.tables import quote_name

if TYPE_CHECKING:
    from sfumato.curator.catalog.description import ColumnDescription, TableDescription

FUNCTIONS = {"sum": "SUM", "mean": "AVG", "median": "MEDIAN"}
COMPARISONS = {"=": "=", "≠": "<>", "<": "<", "≤": "<=", ">": ">", "≥": ">="}
_LONGEST = 500
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?\Z")


@dataclass(frozen=True, slots=True)
class BuiltQuestion:
    """What was chosen in the builder."""

    table: str = ""
    by: tuple[str, ...] = ()
    function: str = ""
    """What is computed beside the count: a sum, a mean or a median; empty for nothing."""
    column: str = ""
    """The column that it is computed of."""
    where: str = ""
    """The column of the condition; empty for none."""
    comparison: str = "="
    value: str = ""

    def write_sql(self, table: TableDescription) -> str:
        """Return the question in SQL. Whatever is not in the table or on a list is refused."""
        known = {each.name: each for each in table.columns}
        keys = [quote_name(_require(name, known)) for name in self.by]
        shown = [*keys, "COUNT(*) AS n"]
        if self.function:
            column = _require(self.column, known)
            if self.function not in FUNCTIONS:
                raise _choice_error("function", self.function)
            alias = quote_name(f"{self.function}_{column}")
            shown.append(f"{FUNCTIONS[self.function]}({quote_name(column)}) AS {alias}")
        parts = [f"SELECT {', '.join(shown)}", f"FROM {quote_name(table.name)}"]
        if self.where:
            parts.append(f"WHERE {self._write_condition(known)}")
        if keys:
            parts.append(f"GROUP BY {', '.join(keys)}")
        return "\n".join(parts)

    def _write_condition(self, known: dict[str, ColumnDescription]) -> str:
        column = known[_require(self.where, known)]
        if self.comparison not in COMPARISONS:
            raise _choice_error("comparison", self.comparison)
        sign, value = COMPARISONS[self.comparison], _write_value(self.value, column.type)
        return f"{quote_name(column.name)} {sign} {value}"


def _write_value(typed: str, kind: str) -> str:
    """Return a typed value as SQL has it: a number, a truth value, or a text in quotes."""
    text = typed.strip()
    if kind == "number":
        if not _NUMBER.match(text):
            raise UsageError(
                "SF-W183", "A number is needed here.", field="value of the condition", got=text[:40]
            )
        return text
    if kind == "boolean":
        return "TRUE" if text.lower() in ("true", "yes", "1") else "FALSE"
    if len(text) > _LONGEST:
        raise UsageError("SF-W183", "The text of the condition is too long.", most=f"{_LONGEST} characters")
    literal = "'" + text.replace("'", "''") + "'"
    return {"date": f"DATE {literal}", "timestamp": f"TIMESTAMP {literal}"}.get(kind, literal)


def _require(name: str, known: dict[str, ColumnDescription]) -> str:
    if name not in known:
        raise UsageError("SF-W183", "The table has no such column.", got=name[:80], known=", ".join(known))
    return name


def _choice_error(field: str, got: str) -> UsageError:
    return UsageError("SF-W183", "This is not one of the choices.", field=field, got=got[:80])
