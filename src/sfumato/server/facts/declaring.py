"""A steward's declaration as typed into a form: nothing comes from rows, and everything starts empty."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from sfumato.curator.catalog.columns import between, one_of, text
from sfumato.curator.catalog.schema_file import Schema
from sfumato.curator.payer import population_account
from sfumato.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.neighbours import ADD_REMOVE
from sfumato.privacy.units import PUBLIC, ROW, Unit
from sfumato.server.facts.typed import read_typed_number, split_names, wrong_field_error
from sfumato.server.steward.tables import list_source_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.lab.lab import Lab
    from sfumato.server.context import ServerContext

KINDS: Final = {
    "": "not used",
    "number": "numbers within bounds",
    "date": "dates within bounds",
    "list": "one of a list",
    "text": "any text",
}
"""What a column can be declared as. It starts as not used."""
_NUMERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
"""A number as it is usually written. A code with zeros in front, such as 01234, is a text."""
PROTECTS: Final = {
    "": "choose who is protected …",
    "column": "everyone named in a column, with all their rows",
    "row": "each row: one row is one person, and nobody has two",
    "public": "nobody: the table is public",
}


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """One column of the form, as it was typed."""

    name: str
    type: str
    """What the source says about its values, in words; from its types and no row."""
    kind: str = ""
    low: str = ""
    high: str = ""
    values: str = ""
    missing: str = ""
    constant: bool = False
    in_csv: bool = False

    def read(self) -> DeclaredColumn:
        """Return the declared column, or refuse what cannot be read, by the name of the column."""
        rules = {"constant": self.constant}
        match self.kind:
            case "number":
                bounds = [read_typed_number(each, self.name) for each in (self.low, self.high)]
                return between(*bounds, missing=self._read_missing(read_typed_number), **rules)
            case "date":
                days = [_read_moment(each, self.name) for each in (self.low, self.high)]
                return between(days[0], days[1], missing=self._read_missing(_read_moment), **rules)
            case "list":
                listed = split_names(self.values)
                read = read_typed_number if self._holds_numbers(listed) else _read_text
                missing = self._read_missing(read)
                return one_of(*(read(each, self.name) for each in listed), missing=missing, **rules)
        return text(**rules)

    def _holds_numbers(self, listed: list[str]) -> bool:
        """Say whether a list is one of numbers. In CSV files all is text, so there the list decides."""
        return self.type.endswith("numbers") or (
            self.in_csv and bool(listed) and all(map(_NUMERAL.fullmatch, listed))
        )

    def _read_missing(self, read: Any) -> Any:
        return read(self.missing, self.name) if self.missing.strip() else None


@dataclass(frozen=True, slots=True)
class TypedDeclaration:
    """A whole form, as it was typed. A new one has a source and its columns, and all else is empty."""

    source: str
    columns: tuple[TypedColumn, ...]
    table: str = ""
    protects: str = ""
    unit: str = ""
    max_rows: str = ""
    population: str = ""
    """The population that shares its budget with this table; empty for one that is named by its column."""
    epsilon: str = ""
    delta: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """Populations that have a budget, each with its budget in words."""

    @property
    def budget(self) -> Budget | None:
        """The budget that was typed; None where it is empty, or cannot be one yet."""
        try:
            return self._read_budget()
        except UsageError:
            return None

    def read_schema(self) -> Schema:
        """Return what is declared, as a schema file would say it."""
        if not self.table.strip():
            raise wrong_field_error("name of the table", "visits")
        used = {each.name: each.read() for each in self.columns if each.kind}
        return Schema(self._read_unit(), used, self._read_budget(), ADD_REMOVE, None)

    def _read_unit(self) -> Unit:
        if self.protects == "row":
            return ROW
        if self.protects == "public":
            return PUBLIC
        if self.protects != "column" or not self.unit:
            raise wrong_field_error("who is protected", "the column that names a person")
        rows = self.max_rows.strip()
        if not (rows.isascii() and rows.isdigit() and len(rows) < 10):
            raise wrong_field_error("most rows of one unit", "20")
        return Unit(self.unit, int(rows), self.population or None)

    def _read_budget(self) -> Budget | None:
        if not self.epsilon.strip() and not self.delta.strip():
            return None
        epsilon = read_typed_number(self.epsilon, "ε")
        return Budget(epsilon, read_typed_number(self.delta, "δ") if self.delta.strip() else 0)


def begin_declaration(context: ServerContext, source: str) -> TypedDeclaration:
    """Return an empty form for a source. Its types are looked at, and no row."""
    kinds = list_source_columns(context, read_source(source))
    csv = source.lower().endswith(".csv")
    columns = tuple(TypedColumn(name, kind, in_csv=csv) for name, kind in kinds.items())
    return TypedDeclaration(source, columns, known=list_budgets(context.lab))


def read_declaration(context: ServerContext, fields: Mapping[str, str]) -> TypedDeclaration:
    """Return the form as it was typed. Columns are those of the source, whatever was sent."""
    empty = begin_declaration(context, fields.get("source", ""))
    columns = tuple(_read_column(each, at, fields) for at, each in enumerate(empty.columns))
    names = ("table", "protects", "unit", "max_rows", "population", "epsilon", "delta")
    said: dict[str, Any] = {name: fields.get(name, "")[:200] for name in names}
    return replace(empty, columns=columns, **said)


def read_source(source: str) -> dict[str, str]:
    """Return the source that a form names, such as "upload:…", in the form that registering takes."""
    kind, _, name = source.partition(":")
    return {"upload": name} if kind == "upload" else {"path": name}


def list_budgets(lab: Lab) -> dict[str, str]:
    """Return the populations that have a budget, each with its budget in words."""
    accounts = lab.ledger.list_accounts()
    return {
        name: repr(lab.ledger.read_budget(population_account(name))).removeprefix("Budget")
        for name in lab.contents.relations
        if population_account(name) in accounts
    }


def _read_column(empty: TypedColumn, at: int, fields: Mapping[str, str]) -> TypedColumn:
    said: dict[str, Any] = {
        name: fields.get(f"{name}-{at}", "")[:20_000] for name in ("low", "high", "values", "missing")
    }
    kind = fields.get(f"kind-{at}", "")
    constant = bool(fields.get(f"constant-{at}"))
    return replace(empty, kind=kind if kind in KINDS else "", constant=constant, **said)


def _read_text(typed: str, _: str) -> str:
    said = typed.strip()
    return said[1:-1] if len(said) > 1 and said[0] == said[-1] == '"' else said


def _read_moment(typed: str, name: str) -> date:
    try:
        said = typed.strip()
        return datetime.fromisoformat(said) if "T" in said else date.fromisoformat(said)
    except ValueError:
        raise wrong_field_error(name, "2026-01-31") from None
