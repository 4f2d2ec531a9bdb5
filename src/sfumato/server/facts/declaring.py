"""A steward's declaration as typed into a form: nothing comes from rows, and everything starts empty."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sfumato.curator.catalog.columns import between, one_of, text
from sfumato.curator.catalog.schema_file import Schema
from sfumato.curator.payer import population_account
from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
from sfumato.errors import UsageError
from sfumato.lab.budget_view import view_account
from sfumato.privacy.bound_choice import choose
from sfumato.privacy.budget import SIDE_SHARE, Budget
from sfumato.privacy.graph_units import Edge, Node
from sfumato.privacy.neighbours import ADD_REMOVE, REPLACE_ONE
from sfumato.privacy.units import PUBLIC, ROW, Unit
from sfumato.server.facts.typed import (
    read_optional_number,
    read_typed_number,
    read_typed_whole,
    split_names,
    wrong_field_error,
)
from sfumato.server.steward.tables import list_source_columns
from sfumato.synth import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.curator.catalog.columns import DeclaredColumn, UnboundedColumn
    from sfumato.lab.lab import Lab
    from sfumato.privacy.bound_choice import BoundChoice
    from sfumato.privacy.graph_units import Protected
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
    "row-replaced": "each row, and how many rows there are is public",
    "node": "each node of a graph, with all its edges",
    "edge": "each edge of a graph, and not how many a node has",
    "public": "nobody: the table is public",
}

_ROWS: Final = {"row": ROW, "row-replaced": ROW, "public": PUBLIC}
_GRAPHS: Final[dict[str, type[Node] | type[Edge]]] = {"node": Node, "edge": Edge}
TWINS: Final = {
    "": "no twin",
    "declared": "a twin of made-up rows as declared, for nothing",
    "bought": "a twin that resembles the table, charged to its budget once",
}
"""Whether a stand-in is published with the table, to rehearse questions on."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """One column of the form, as it was typed."""

    name: str
    type: str
    """What the source says about its values, in words; from its types and no row."""
    kind: str = ""
    low: str = ""
    high: str = ""
    step: str = ""
    values: str = ""
    missing: str = ""
    required: bool = False
    """Whether no value is missing."""
    format: str = ""
    """How texts write the numbers or dates; empty where it is to be found."""
    constant: bool = False
    choose: str = ""
    """The ε for having both bounds chosen privately; empty for bounds that are typed."""
    in_csv: bool = False

    def read(self) -> DeclaredColumn | UnboundedColumn:
        """Return the declared column, or refuse what cannot be read, by the name of the column."""
        rules: dict[str, Any] = {"constant": self.constant}
        match self.kind:
            case "number" if self.choose.strip():
                return self._read_chosen(rules)
            case "number":
                low, high = (read_typed_number(each, self.name) for each in (self.low, self.high))
                step = read_optional_number(self.step, self.name)
                missing = self._read_missing(read_typed_number)
                return between(low, high, step, missing=missing, format=self.format, **rules)
            case "date":
                days = [_read_moment(each, self.name) for each in (self.low, self.high)]
                missing = self._read_missing(_read_moment)
                return between(days[0], days[1], missing=missing, format=self.format, **rules)
            case "list":
                listed = split_names(self.values)
                read = read_typed_number if self._holds_numbers(listed) else _read_text
                missing = self._read_missing(read)
                return one_of(*(read(each, self.name) for each in listed), missing=missing, **rules)
        return text(**rules)

    def _read_chosen(self, rules: dict[str, Any]) -> UnboundedColumn:
        """Return the column with bounds that are chosen; refuse bounds that are typed as well."""
        if self.low.strip() or self.high.strip():
            raise wrong_field_error(self.name, "bounds, or an ε to have them chosen, and not both")
        chosen = choose(epsilon=read_typed_number(self.choose, f"ε for the bounds of {self.name}"))
        step = read_optional_number(self.step, self.name)
        missing = self._read_missing(read_typed_number)
        return between(chosen, None, step, missing=missing, format=self.format, **rules)

    def _holds_numbers(self, listed: list[str]) -> bool:
        """Say whether a list is one of numbers. In CSV files all is text, so there the list decides."""
        return self.type.endswith("numbers") or (
            self.in_csv and bool(listed) and all(map(_NUMERAL.fullmatch, listed))
        )

    def _read_missing(self, read: Any) -> Any:
        if not self.required:
            return read(self.missing, self.name) if self.missing.strip() else None
        if self.missing.strip():
            raise wrong_field_error(self.name, "a value for missing ones, or that none is missing, not both")
        return False


@dataclass(frozen=True, slots=True)
class TypedDeclaration:
    """A whole form, as it was typed. A new one has a source and its columns, and all else is empty."""

    source: str
    columns: tuple[TypedColumn, ...]
    table: str = ""
    protects: str = ""
    unit: str = ""
    max_rows: str = ""
    choose_rows: str = ""
    """The ε for having the rows of one unit chosen privately; empty for a number that is typed."""
    rows: str = ""
    """How many rows there are, where that is public."""
    left: str = ""
    right: str = ""
    """The columns of a graph's edges: from which node, and to which."""
    max_degree: str = ""
    population: str = ""
    """The population that shares its budget with this table; empty for one that is named by its column."""
    epsilon: str = ""
    delta: str = ""
    side_share: str = ""
    """The part of δ for what has a δ of its own; empty for one half."""
    seen_price: str = ""
    """The price of chosen bounds that stood on the page when the form was sent."""
    twin: str = ""
    """Whether a stand-in of made-up rows is published too: not, as declared, or with what ρ buys."""
    twin_rho: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """Populations that have a budget, each with its budget in words."""

    @property
    def budget(self) -> Budget | None:
        """The budget that was typed; None where it is empty, or cannot be one yet."""
        try:
            return self._read_budget()
        except UsageError:
            return None

    @property
    def choices(self) -> tuple[tuple[str, Decimal], ...]:
        """What is to be chosen privately, each with its ε; none where an ε cannot be read."""
        typed = [("rows of one person", self.choose_rows)] if self.protects == "column" else []
        if not self.is_graph:
            typed += [(each.name, each.choose) for each in self.columns if each.kind == "number"]
        try:
            return tuple((what, read_typed_number(each, "ε")) for what, each in typed if each.strip())
        except UsageError:
            return ()

    @property
    def choice_epsilon(self) -> Decimal:
        """What all bounds to be chosen cost together."""
        return sum((epsilon for _, epsilon in self.choices), Decimal(0))

    @property
    def choice_price(self) -> str:
        """What all bounds to be chosen cost together, in words; empty where there are none."""
        return f"ε = {self.choice_epsilon.normalize():f}" if self.choice_epsilon else ""

    def find_left(self, lab: Lab) -> float | None:
        """Return the ε that is left to those who would pay; of a new budget, all of it. None if unknown."""
        account = population_account(
            self.population or (self.unit if self.protects == "column" else self.table)
        )
        if account in lab.ledger.list_accounts():
            return view_account(lab.ledger, account).left_epsilon
        return None if self.budget is None else float(self.budget.epsilon)

    def read_schema(self) -> Schema:
        """Return what is declared, as a schema file would say it."""
        if not self.table.strip():
            raise wrong_field_error("name of the table", "visits")
        used = {} if self.is_graph else {each.name: each.read() for each in self.columns if each.kind}
        neighbours, rows = ADD_REMOVE, None
        if self.protects == "row-replaced":
            neighbours, rows = REPLACE_ONE, read_typed_whole(self.rows, "number of rows")
        return Schema(self._read_unit(), used, self._read_budget(), neighbours, rows)

    def read_twin(self) -> Twin | None:
        """Return the stand-in that is to be published too; None for none."""
        if not self.twin:
            return None
        if self.is_graph:
            raise wrong_field_error("twin", "a graph has none")
        if self.twin != "bought":
            return Twin()
        return Twin(rho=read_typed_number(self.twin_rho, "ρ of the twin"))

    @property
    def is_graph(self) -> bool:
        """Whether the rows are edges, so that no column of them is declared."""
        return self.protects in _GRAPHS

    def _read_unit(self) -> Protected:
        if self.protects in _ROWS:
            return _ROWS[self.protects]
        of = self.population or None
        if self.is_graph:
            degree = read_typed_whole(self.max_degree, "most edges of one node")
            return _GRAPHS[self.protects](self.left, self.right, degree, of)
        if self.protects != "column" or not self.unit:
            raise wrong_field_error("who is protected", "the column that names a person")
        return Unit(self.unit, self._read_max_rows(), of)

    def _read_max_rows(self) -> int | BoundChoice:
        if not self.choose_rows.strip():
            return read_typed_whole(self.max_rows, "most rows of one unit")
        if self.max_rows.strip():
            raise wrong_field_error(
                "most rows of one unit", "a number, or an ε to have it chosen, and not both"
            )
        return choose(epsilon=read_typed_number(self.choose_rows, "ε for the rows of one unit"))

    def _read_budget(self) -> Budget | None:
        if not self.epsilon.strip() and not self.delta.strip():
            return None
        epsilon = read_typed_number(self.epsilon, "ε")
        delta = read_optional_number(self.delta, "δ") or 0
        side = read_optional_number(self.side_share, "part of δ for discovered keys")
        return Budget.of(epsilon, delta, SIDE_SHARE if side is None else side)


def begin_declaration(context: ServerContext, source: str) -> TypedDeclaration:
    """Return an empty form for a source. Its types are looked at, and no row."""
    kinds = list_source_columns(context, read_source(source))
    csv = source.startswith(("upload:", "path:")) and source.lower().endswith(".csv")
    columns = tuple(TypedColumn(name, kind, in_csv=csv) for name, kind in kinds.items())
    return TypedDeclaration(source, columns, known=list_budgets(context.lab))


def read_declaration(context: ServerContext, fields: Mapping[str, str]) -> TypedDeclaration:
    """Return the form as it was typed. Columns are those of the source, whatever was sent."""
    empty = begin_declaration(context, fields.get("source", ""))
    columns = tuple(_read_column(each, at, fields) for at, each in enumerate(empty.columns))
    names = (
        "table",
        "protects",
        "unit",
        "max_rows",
        "choose_rows",
        "rows",
        "left",
        "right",
        "max_degree",
        "population",
        "epsilon",
        "delta",
        "side_share",
        "seen_price",
        "twin",
        "twin_rho",
    )
    said: dict[str, Any] = {name: fields.get(name, "")[:200] for name in names}
    return replace(empty, columns=columns, **said)


def read_source(source: str) -> dict[str, str]:
    """Return the source that a form names, such as "upload:…", in the form that registering takes."""
    kind, _, name = source.partition(":")
    if kind == "database":
        database, _, table = name.rpartition("#")
        return {"database": database, "table": table}
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
        name: fields.get(f"{name}-{at}", "")[:20_000]
        for name in ("low", "high", "step", "values", "missing", "choose")
    }
    kind = fields.get(f"kind-{at}", "")
    said |= {name: bool(fields.get(f"{name}-{at}")) for name in ("constant", "required")}
    written = fields.get(f"format-{at}", "")
    formats = {"number": NUMBER_FORMATS, "date": DATE_FORMATS}.get(kind, ())
    said["format"] = written if written in formats else ""
    return replace(empty, kind=kind if kind in KINDS else "", **said)


def _read_text(typed: str, _: str) -> str:
    said = typed.strip()
    return said[1:-1] if len(said) > 1 and said[0] == said[-1] == '"' else said


def _read_moment(typed: str, name: str) -> date:
    try:
        said = typed.strip()
        return datetime.fromisoformat(said) if "T" in said else date.fromisoformat(said)
    except ValueError:
        raise wrong_field_error(name, "2026-01-31") from None
