"""SELECTs of tools that speak PostgreSQL: which tables they name, and what is put in for their parameters.

What they ask of released tables and of the catalog is written anew for SQLite in `tool_sqlite`. What they ask
of registered tables becomes a question like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_safely

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOTS = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as a tool names it; an empty schema where it names none."""

    schema: str
    name: str


@dataclass(frozen=True)
class ToolSelect:
    """A SELECT that was parsed as PostgreSQL would, of which nothing has been checked but its size."""

    node: exp.Expression
    text: str
    """What was sent."""

    @property
    def tables(self) -> tuple[NamedTable, ...]:
        """The tables that it reads from, each once; names of WITH are none."""
        named = {each.alias_or_name.casefold() for each in self.node.find_all(exp.CTE)}
        found = [
            NamedTable(_fold(each.args.get("db")), _fold(each.this))
            for each in self.node.find_all(exp.Table)
            if isinstance(each.this, exp.Identifier)
        ]
        return tuple(
            dict.fromkeys(each for each in found if each.schema or each.name.casefold() not in named)
        )

    def fill_parameters(self, values: Sequence[Any]) -> ToolSelect:
        """Return the SELECT with values in the places of $1, $2 and so on."""

        def fill(node: Any) -> Any:
            if not isinstance(node, exp.Parameter):
                return node
            place = parameter_place(node)
            if place > len(values):
                raise PolicyError("SF-F132", f"There is no value for ${place}.")
            return _write_literal(values[place - 1])

        return ToolSelect(self.node.copy().transform(fill), self.text)

    def write_question(self, schema: str) -> str:
        """Return it as a question in SQL, without the schema in which tools see registered tables."""
        if self.node.find(exp.RegexpLike, exp.RegexpILike):
            raise PolicyError("SF-Q159", "The operator ~ is not supported.", try_="LIKE")
        node = self.node.copy()
        node.comments = None
        for table in node.find_all(exp.Table):
            if _fold(table.args.get("db")) == schema:
                table.set("db", None)
        for column in node.find_all(exp.Column):
            if _fold(column.args.get("db")) == schema:
                column.set("db", None)
        return str(node.sql(dialect="duckdb"))


@lru_cache(maxsize=256)  # tools send the same texts again
def parse_tool_select(text: str) -> ToolSelect:
    """Return the SELECT that a tool sent, or raise a coded refusal."""
    statements = parse_safely(text, lambda: Postgres().parse(text), refuse_tilde=False)
    if len(statements) != 1 or not isinstance(statements[0], _ROOTS):
        raise PolicyError(
            "SF-F130",
            "Only SELECT is answered here: tables cannot be changed.",
            try_="SELECT * FROM published.NAME, or \\dt *.* to see what there is",
        )
    return ToolSelect(statements[0], text)


def parameter_place(node: exp.Parameter) -> int:
    """Return the number of a parameter, such as 1 of $1."""
    text = str(node.this.this if isinstance(node.this, exp.Literal) else node.this)
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise PolicyError("SF-F132", "Parameters are written as $1, $2 and so on.")
    return int(text)


def _write_literal(value: Any) -> exp.Expression:
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | float):
        size = exp.Literal.number(repr(abs(value)))
        return exp.Neg(this=size) if value < 0 else size
    return exp.Literal.string(str(value))


def _fold(name: Any) -> str:
    """Return a name as PostgreSQL reads it: in small letters unless it is quoted."""
    if not isinstance(name, exp.Identifier):
        return ""
    return str(name.this) if name.args.get("quoted") else str(name.this).lower()
