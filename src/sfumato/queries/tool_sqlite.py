"""SELECTs of tools, written anew for SQLite: of released tables, and of a catalog that is made up for tools.

Nothing of a tool's text goes through as it is. Where PostgreSQL has something that SQLite lacks, a function
takes its place, which `server/sql/desk_worker.py` defines. Parts of the catalog that are always empty are not
asked at all: what tools ask of them is what SQLite could least be made to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from sfumato.errors import PolicyError
from sfumato.queries.tool_selects import parameter_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sfumato.queries.tool_selects import NamedTable, ToolSelect

    Columns = Mapping[NamedTable, Mapping[str, str]]

KINDS = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "text": "TEXT",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
"""The kinds of columns, and what sqlglot calls them."""
_SHOWN = {
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT", "UBIGINT", "UINT", "HUGEINT"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "float"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NAME"), "text"),
    "BOOLEAN": "bool",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "DATETIME", "TIMESTAMPNTZ"), "timestamp"),
}
_CAST_CALLS = {
    "regclass": "regclass_of",
    "regtype": "regtype_of",
    "regnamespace": "regnamespace_of",
    "date": "date_of",
    "timestamp": "timestamp_of",
    "boolean": "boolean_of",
}
_CASTS = {
    **dict.fromkeys(
        ("oid", "xid", "int2", "int4", "int8", "smallint", "integer", "int", "bigint"), "INTEGER"
    ),
    **dict.fromkeys(
        ("float4", "float8", "real", "float", "double precision", "double", "numeric", "decimal"), "REAL"
    ),
}
_CONSTANTS: dict[type[exp.Expression], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "current_user",
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentVersion: "version",
}
_REGEX = {"~": "regex_like", "~*": "regex_ilike", "!~": "regex_like", "!~*": "regex_ilike"}


class DeskDialect(SQLite):
    """SQLite with names in backticks: what is in double quotes and no name, SQLite takes for a text."""

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]


@dataclass(frozen=True, slots=True)
class DeskSelect:
    """A SELECT in SQLite's words, with the names and kinds of its columns; None where a kind is not known."""

    sql: str
    names: tuple[str, ...]
    kinds: tuple[str | None, ...]
    parameters: tuple[str | None, ...]
    """The kinds of $1, $2 and so on, by what they are compared with."""
    used: int
    """How many of the values for them the SQL takes; those behind were only asked of what is empty."""


def write_for_desk(select: ToolSelect, columns: Columns, empty: Collection[str]) -> DeskSelect:
    """Return a SELECT for SQLite about tables with these columns; those in `empty` are known to be so."""
    node = select.node.copy()
    _refuse_others(node)
    node = _drop_empty(node, empty)
    names, kinds, _ = _find_outputs(node, columns)
    parameters = _find_outputs(select.node, columns)[2] if select.node.find(exp.Parameter) else ()
    used = max((parameter_place(each) for each in node.find_all(exp.Parameter)), default=0)
    try:
        text = str(_rewrite_all(node).sql(dialect=DeskDialect, comments=False, identify=True))
    except (SqlglotError, ValueError, AttributeError):
        raise not_supported("this SELECT") from None
    return DeskSelect(text, names, kinds or (None,) * len(names), parameters, used)


def not_supported(what: str) -> PolicyError:
    """Return the refusal of SQL that only PostgreSQL itself would answer."""
    return PolicyError(
        "SF-F133",
        f"The tables here cannot be asked {what}.",
        try_="a plain SELECT, and the rest in your own tool; sfumato mirror writes them to PostgreSQL",
    )


def _refuse_others(node: exp.Expression) -> None:
    for each in node.find_all(exp.With):
        if each.args.get("recursive"):
            raise not_supported("WITH RECURSIVE")
    if node.find(exp.Lateral, exp.Into, exp.Lock, exp.Command, exp.DML):
        raise not_supported("LATERAL, INTO or FOR UPDATE")


# ---- what is always empty ----------------------------------------------------------------------------------


def _drop_empty(root: exp.Expression, empty: Collection[str]) -> exp.Expression:
    """Return the statement with each SELECT from an empty table as one that says it has no rows."""
    known = set(empty)
    # Innermost first: a SELECT from one that is empty is empty too.
    for select in sorted(root.find_all(exp.Select), key=lambda each: -each.depth):
        if _is_empty(select, known):
            names = [each.alias_or_name or "column" for each in select.expressions]
            bare = exp.Select(expressions=[exp.alias_(exp.Null(), name, quoted=True) for name in names])
            bare = bare.where(exp.false())
            bare.set("with_", select.args.get("with_"))
            bare.meta["empty"] = True
            if isinstance(select.parent, exp.CTE):
                known.add(select.parent.alias.lower())
            if select is root:
                root = bare
            else:
                select.replace(bare)
    for array in list(root.find_all(exp.Array)):
        if array.expressions and isinstance(array.expressions[0], exp.Query):
            array.replace(exp.Null())
    return root


def _is_empty(select: exp.Select, empty: Collection[str]) -> bool:
    aggregates = any(each.find_ancestor(exp.Select) is select for each in select.find_all(exp.AggFunc))
    if aggregates and not select.args.get("group"):
        return False  # it has one row, whatever it counts
    first = select.args.get("from_")
    parts = [] if first is None else [first.this]
    parts += [each.this for each in select.args.get("joins") or () if each.side not in ("LEFT", "FULL")]
    if any(each.side in ("RIGHT", "FULL") for each in select.args.get("joins") or ()):
        return False
    return any(_has_no_rows(part, empty) for part in parts)


def _has_no_rows(part: Any, empty: Collection[str]) -> bool:
    if isinstance(part, exp.Table):
        schema = part.db.lower()
        return schema in ("", "pg_catalog") and part.name.lower() in empty
    return isinstance(part, exp.Subquery) and bool(part.this.meta.get("empty"))


# ---- names and kinds of columns ----------------------------------------------------------------------------


def _find_outputs(
    node: Any, columns: Columns
) -> tuple[tuple[str, ...], tuple[str | None, ...], tuple[str | None, ...]]:
    """Return names and kinds of the columns, and kinds of parameters, as far as they can be told."""
    described: dict[str, Any] = {}
    for table, known in columns.items():
        named = {name: KINDS[kind] for name, kind in known.items()}
        described.setdefault(table.schema or "desk", {})[table.name] = named
        # SQLite finds a table by its name alone, whichever schema it is in.
        described.setdefault("desk", {}).setdefault(table.name, named)
    try:
        schema = MappingSchema(described, dialect="postgres")
        whole = qualify(
            node.copy(),
            schema=schema,
            db="desk",
            dialect="postgres",
            validate_qualify_columns=False,
            allow_partial_qualification=True,
            quote_identifiers=False,
        )
        typed = annotate_types(whole, schema=schema, dialect="postgres")
        outputs: list[exp.Expression] = typed.selects  # type: ignore[attr-defined,unused-ignore]
        # Aliases that the optimizer made up are none of the tool's; stars it has to spell out.
        shown = outputs if any(each.is_star for each in node.selects) else node.selects
        return tuple(map(_name_output, shown)), tuple(map(_find_kind, outputs)), _find_parameters(typed)
    except Exception:  # the optimizer fails in ways of its own; then rows tell what kinds there are
        return tuple(map(_name_output, node.selects)), (), _find_parameters(node)


def _find_parameters(node: exp.Expression) -> tuple[str | None, ...]:
    """Return the kind of each parameter: that of a cast around it, or of what it is compared with."""
    found: dict[int, str | None] = {}
    for each in node.find_all(exp.Parameter):
        parent, kind = each.parent, None
        if isinstance(parent, exp.Cast):
            kind = _find_kind(parent)
        elif isinstance(parent, exp.Binary | exp.In):
            other = parent.this if parent.this is not each else parent.expression
            kind = _find_kind(other)
        elif isinstance(parent, exp.Limit | exp.Offset):
            kind = "int"
        place = parameter_place(each)
        found[place] = found.get(place) or kind
    return tuple(found.get(place) for place in range(1, max(found, default=0) + 1))


def _name_output(output: exp.Expression) -> str:
    """Return what PostgreSQL calls a column: its alias, or the function that computes it."""
    if isinstance(output, exp.Alias | exp.Column) and not output.alias_or_name.startswith("_col_"):
        return output.alias_or_name
    inner = output.this if isinstance(output, exp.Alias) else output
    while isinstance(inner, exp.Paren | exp.Window):
        inner = inner.this
    if isinstance(inner, exp.Dot):
        inner = inner.expression
    if isinstance(inner, exp.Cast):
        return inner.this.name or inner.to.sql(dialect="postgres").lower()
    if isinstance(inner, exp.Case):
        return "case"
    if isinstance(inner, exp.Anonymous):
        return str(inner.this).lower()
    return inner.sql_name().lower() if isinstance(inner, exp.Func) else "?column?"


def _find_kind(output: exp.Expression) -> str | None:
    kind = output.type
    return (
        None
        if kind is None
        else _SHOWN.get(kind.this.value if hasattr(kind.this, "value") else str(kind.this))
    )


# ---- one node after the other ------------------------------------------------------------------------------


def _rewrite_all(root: exp.Expression) -> exp.Expression:
    """Return the statement with every node in SQLite's words, from the leaves up."""
    for node in sorted(root.walk(), key=lambda each: -each.depth):
        new = _rewrite(node)
        if new is not node:
            if node is root:
                root = new
            else:
                node.replace(new)
    return root


def _rewrite(node: Any) -> Any:
    """Return what stands for a node in SQLite; most nodes stand for themselves."""
    if type(node) in _CONSTANTS:
        return exp.Anonymous(this=_CONSTANTS[type(node)])
    rule = _RULES.get(type(node))
    return node if rule is None else rule(node)


def _unqualify_call(node: exp.Dot) -> Any:
    return node.expression if isinstance(node.expression, exp.Func) else node


def _unqualify_table(node: exp.Table) -> exp.Expression:
    node.set("catalog", None)
    return node


def _unqualify_column(node: exp.Column) -> exp.Expression:
    """Drop catalog and schema: SQLite takes a table's own name, which is enough within one SELECT."""
    node.set("catalog", None)
    node.set("db", None)
    if isinstance(node.this, exp.Identifier) and node.this.name.lower() == "tableoid":
        return exp.Literal.number(0)
    return node


def _rewrite_operator(node: exp.Operator) -> exp.Expression:
    sign = str(node.args.get("operator", "")).rpartition(".")[2]
    if sign not in _REGEX:
        raise not_supported(f"the operator {sign[:10]}")
    call = exp.Anonymous(this=_REGEX[sign], expressions=[node.this, node.expression])
    return exp.Not(this=call) if sign.startswith("!") else call


def _rewrite_regex(node: exp.RegexpLike | exp.RegexpILike) -> exp.Expression:
    name = "regex_like" if isinstance(node, exp.RegexpLike) else "regex_ilike"
    return exp.Anonymous(this=name, expressions=[node.this, node.expression])


def _rewrite_cast(node: exp.Cast) -> Any:
    kind = node.to.sql(dialect="postgres").lower().replace('"', "").removeprefix("pg_catalog.")
    plain = kind.partition("(")[0].strip()
    if plain in _CAST_CALLS:
        return exp.Anonymous(this=_CAST_CALLS[plain], expressions=[node.this])
    if plain in _CASTS:
        return exp.Cast(this=node.this, to=exp.DataType.build(_CASTS[plain], dialect="sqlite"))
    if plain.endswith("[]"):
        return node.this
    if plain.startswith("timestamp"):
        return exp.Anonymous(this="timestamp_of", expressions=[node.this])
    return exp.Cast(this=node.this, to=exp.DataType.build("TEXT", dialect="sqlite"))


def _rewrite_equal(node: exp.EQ) -> exp.Expression:
    """Write x = ANY(…) as a test whether x is in a list."""
    if not isinstance(node.expression, exp.Any):
        return node
    inner = node.expression.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Array):
        return exp.In(this=node.this, expressions=list(inner.expressions))
    return exp.Anonymous(this="in_array", expressions=[node.this, inner])


def _rewrite_parameter(node: exp.Parameter) -> exp.Expression:
    return exp.Var(this=f"?{parameter_place(node)}")


def _rewrite_extract(node: exp.Extract) -> exp.Expression:
    unit = exp.Literal.string(str(node.this).lower())
    return exp.Anonymous(this="date_part", expressions=[unit, node.expression])


def _rewrite_trunc(node: exp.TimestampTrunc | exp.DateTrunc) -> exp.Expression:
    unit = exp.Literal.string(str(node.args.get("unit")).strip("'").lower())
    return exp.Anonymous(this="date_trunc", expressions=[unit, node.this])


def _rewrite_fetch(node: exp.Fetch) -> exp.Expression:
    return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))


_RULES: dict[type[exp.Expression], Callable[[Any], Any]] = {
    exp.Dot: _unqualify_call,
    exp.Table: _unqualify_table,
    exp.Column: _unqualify_column,
    exp.Operator: _rewrite_operator,
    exp.RegexpLike: _rewrite_regex,
    exp.RegexpILike: _rewrite_regex,
    exp.Collate: lambda node: node.this,
    exp.Cast: _rewrite_cast,
    exp.TryCast: _rewrite_cast,
    exp.EQ: _rewrite_equal,
    exp.Parameter: _rewrite_parameter,
    exp.Extract: _rewrite_extract,
    exp.TimestampTrunc: _rewrite_trunc,
    exp.DateTrunc: _rewrite_trunc,
    exp.Fetch: _rewrite_fetch,
    exp.ByteString: lambda node: exp.Literal.string(node.name),
}
