"""Where the columns of SQL over an answer come from: which hold noise, and which can have an interval.

A column without noise names the rows. A column with noise has an interval if it is computed by sums,
averages, arithmetic and smooth functions, over rows that noise did not choose. Other functions of noisy
numbers can be biased: the largest of several noisy numbers is too large.

Because : docs/proofs/post-processing.md#sql-over-an-answer
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CHOSEN = "noise decides which rows it is computed from"
_ORDERED = "it depends on the order of noisy numbers"
_COMPARED = "it depends on comparisons of noisy numbers"
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Origin:
    """Whether noise is in a column; `reason` says why no interval of it is known, if so."""

    noisy: bool
    reason: str | None = None
    counts: bool = False
    """Whether it depends on how many groups there are, as averages do and sums do not."""


KNOWN, NOISY = Origin(False), Origin(True)


@dataclass(frozen=True, slots=True)
class TracedSelect:
    """Columns of a SELECT, by their places, and the same SELECT without what noise chooses rows by."""

    names: tuple[str, ...]
    origins: tuple[Origin, ...]
    chosen: bool
    """Whether noise decides which rows are shown."""
    text: str
    """The SELECT with all rows, for draws of the noise."""


class _UntracedError(Exception):
    """A form of SQL that is not followed."""


def trace_select(text: str, columns: Mapping[str, Origin], *, chosen: bool = False) -> TracedSelect | None:
    """Return where the columns of a SELECT from `answer` come from; None for forms that are not followed.

    `chosen` says that noise decided which rows `answer` has.
    """
    try:
        statements = DuckDB().parse(text) if len(text) <= _LONGEST else []
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            return None
        tables = {"answer": _Rows(dict(columns), chosen)}
        found = _trace_query(statements[0], tables)
        whole = _show_all(statements[0], tables)
        return TracedSelect(
            tuple(found.columns), tuple(found.columns.values()), found.chosen, whole.sql(dialect="duckdb")
        )
    except (_UntracedError, SqlglotError, RecursionError):
        return None


@dataclass(slots=True)
class _Rows:
    """Columns of a table, by name, and whether noise decided which rows it has."""

    columns: dict[str, Origin]
    chosen: bool = False


def _worst(parts: Iterable[Origin]) -> Origin:
    noisy, reason, counts = False, None, False
    for each in parts:
        noisy |= each.noisy
        reason = reason or each.reason
        counts |= each.counts
    return Origin(noisy, reason, counts)


def _refuse(found: Origin, reason: str) -> Origin:
    """Return a noisy origin without an interval, for its own reason if it has one."""
    return replace(found, noisy=True, reason=found.reason or reason)


# ---- queries -----------------------------------------------------------------------------------------------


def _trace_query(node: Any, tables: dict[str, _Rows]) -> _Rows:
    tables = _add_named(node, tables)
    if isinstance(node, exp.Subquery):
        return _trace_query(node.this, tables)
    if isinstance(node, exp.Union):
        one, other = _trace_query(node.this, tables), _trace_query(node.expression, tables)
        if len(one.columns) != len(other.columns):
            raise _UntracedError
        pairs = zip(one.columns.items(), other.columns.values(), strict=True)
        columns = {name: _worst((left, right)) for (name, left), right in pairs}
        chosen = one.chosen or other.chosen or any(node.args.get(name) for name in ("limit", "offset"))
        return _Rows(columns, chosen or (bool(node.args.get("distinct")) and _any_noisy(columns)))
    if isinstance(node, exp.Select):
        return _Select(node, tables).trace()
    raise _UntracedError


def _any_noisy(columns: Mapping[str, Origin]) -> bool:
    return any(each.noisy for each in columns.values())


def _add_named(node: Any, tables: dict[str, _Rows]) -> dict[str, _Rows]:
    with_ = node.args.get("with_")
    if with_ is None:
        return tables
    if with_.args.get("recursive"):
        raise _UntracedError
    found = dict(tables)
    for each in with_.expressions:
        if each.args["alias"].args.get("columns"):
            raise _UntracedError
        found[each.alias.casefold()] = _trace_query(each.this, found)
    return found


class _Select:
    """Follows the columns of one SELECT."""

    def __init__(self, node: exp.Select, tables: dict[str, _Rows]) -> None:
        self._node, self._tables = node, tables
        self._sources = list(self._list_sources())
        self._columns: dict[str, Origin] = {}
        for _, rows in self._sources:
            for name, origin in rows.columns.items():
                known = self._columns.get(name.casefold())
                self._columns[name.casefold()] = origin if known is None else _worst((known, origin))
        self._aliases = {
            each.alias.casefold(): each.this for each in node.expressions if isinstance(each, exp.Alias)
        }
        self._opened: set[str] = set()
        self.chosen = any(rows.chosen for _, rows in self._sources)

    def _list_sources(self) -> Iterator[tuple[str, _Rows]]:
        node = self._node
        if any(node.args.get(name) for name in ("laterals", "pivots", "sample", "windows", "match", "kind")):
            raise _UntracedError
        first = node.args.get("from_")
        for each in [first, *(node.args.get("joins") or ())]:
            if each is not None:
                yield self._read_source(each.this)

    def _read_source(self, node: Any) -> tuple[str, _Rows]:
        if node.args.get("pivots") or node.args.get("sample") or node.args.get("joins"):
            raise _UntracedError
        if isinstance(node, exp.Table) and not node.args.get("db"):
            rows = self._tables.get(node.name.casefold())
            alias = node.args.get("alias")
            if rows is None or (alias is not None and alias.args.get("columns")):
                raise _UntracedError
            return node.alias or node.name, rows
        if isinstance(node, exp.Subquery):
            alias = node.args.get("alias")
            if alias is not None and alias.args.get("columns"):
                raise _UntracedError
            return node.alias, _trace_query(node.this, self._tables)
        raise _UntracedError

    def trace(self) -> _Rows:
        self._filter_rows()
        columns: dict[str, Origin] = {}
        for item in self._node.expressions:
            for name, origin in self._trace_item(item):
                if name in columns:
                    raise _UntracedError
                columns[name] = origin
        return _Rows(columns, self.chosen or self.chooses_shown(columns))

    def _filter_rows(self) -> None:
        """Note whether noise decides which rows there are before groups are made."""
        where, group = self._node.args.get("where"), self._node.args.get("group")
        joined = [each.args.get("on") for each in self._node.args.get("joins") or ()]
        used = [
            column for each in self._node.args.get("joins") or () for column in each.args.get("using") or ()
        ]
        conditions = [each for each in (*joined, *used) if each is not None]
        keys = [] if group is None else self._list_keys(group)
        if where is not None:
            conditions.append(where.this)
        self.chosen |= any(self.origin(each).noisy for each in (*conditions, *keys))

    def _list_keys(self, group: exp.Group) -> list[Any]:
        if group.args.get("all"):
            return [each for each in self._node.expressions if not each.find(exp.AggFunc)]
        if {name for name, part in group.args.items() if part} - {"expressions"}:
            raise _UntracedError
        items = self._node.expressions
        return [
            items[int(each.this) - 1] if isinstance(each, exp.Literal) and not each.is_string else each
            for each in group.expressions
        ]

    def chooses_shown(self, columns: Mapping[str, Origin]) -> bool:
        """Return whether noise decides which of its rows are shown."""
        node = self._node
        conditions = [node.args[name].this for name in ("having", "qualify") if node.args.get(name)]
        order = node.args.get("order")
        if node.args.get("limit") or node.args.get("offset"):
            conditions += [] if order is None else [each.this for each in order.expressions]
        distinct = node.args.get("distinct")
        if distinct is not None and (distinct.args.get("on") or _any_noisy(columns)):
            return True
        places = list(columns.values())
        return any(
            places[int(each.this) - 1].noisy
            if isinstance(each, exp.Literal) and not each.is_string and int(each.this) <= len(places)
            else self.origin(each).noisy
            for each in conditions
        )

    def _trace_item(self, item: Any) -> Iterator[tuple[str, Origin]]:
        if isinstance(item, exp.Star):
            if any(item.args.get(name) for name in ("except_", "replace", "rename")):
                raise _UntracedError
            for _, rows in self._sources:
                yield from rows.columns.items()
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            wanted = item.table.casefold()
            for name, rows in self._sources:
                if name.casefold() == wanted:
                    yield from rows.columns.items()
        else:
            yield item.alias_or_name or item.sql(dialect="duckdb"), self.origin(item.unalias())

    # ---- values ----

    def origin(self, node: Any) -> Origin:
        """Return where a value comes from."""
        read = _READ.get(type(node))
        if read is not None:
            traced: Origin = read(self, node)
            return traced
        parts = [self.origin(each) for each in node.iter_expressions()]
        found = _worst(parts)
        if isinstance(node, exp.AggFunc):
            return self._of_several(node, found)
        if not found.noisy or type(node) in _SMOOTH:
            return found
        return _refuse(found, f"{_describe(node)} of noisy numbers may be biased")

    def _of_several(self, node: Any, found: Origin) -> Origin:
        """Return where an aggregate comes from."""
        if self.chosen:
            return _refuse(found, CHOSEN)
        # Which groups are significant is noisy as well, so that no aggregate names rows.
        plain = isinstance(node, exp.Sum | exp.Avg | exp.Count) and not isinstance(node.this, exp.Distinct)
        if found.noisy and not plain:
            return _refuse(found, f"{_describe(node)} of noisy numbers is biased")
        counts = found.counts or not (found.noisy and isinstance(node, exp.Sum))
        return replace(found, noisy=True, counts=counts)

    def column(self, node: exp.Column) -> Origin:
        name = node.name.casefold()
        if name in self._columns:
            return self._columns[name]
        if name in self._aliases and name not in self._opened:
            self._opened.add(name)
            try:
                return self.origin(self._aliases[name])
            finally:
                self._opened.discard(name)
        raise _UntracedError

    def case(self, node: Any) -> Origin:
        branches = node.args.get("ifs") or [node]
        tests = [each.this for each in branches]
        if node.args.get("ifs") and node.this is not None:
            tests.append(node.this)
        shown = [each.args["true"] for each in branches]
        shown += [node.args[name] for name in ("default", "false") if node.args.get(name)]
        found = _worst(map(self.origin, shown))
        if any(self.origin(each).noisy for each in tests):
            return _refuse(found, _COMPARED)
        return found

    def filtered(self, node: exp.Filter) -> Origin:
        found = self.origin(node.this)
        if self.origin(node.expression.this).noisy:
            return _refuse(found, _COMPARED)
        return found

    def window(self, node: exp.Window) -> Origin:
        order = node.args.get("order")
        by = [each.this for each in (order.expressions if order is not None else ())]
        sorted_by = _worst(map(self.origin, (*(node.args.get("partition_by") or ()), *by)))
        call = node.this
        if isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            raise _UntracedError
        found = _worst(map(self.origin, call.iter_expressions()))
        if self.chosen:
            return _refuse(found, CHOSEN)
        if sorted_by.noisy:
            return _refuse(found, _ORDERED)
        if found.noisy and type(call) not in _WINDOWS:
            return _refuse(found, f"{_describe(call)} of noisy numbers is biased")
        counts = found.counts or not (found.noisy and isinstance(call, exp.Sum))
        return replace(found, noisy=True, counts=counts)

    def subquery(self, node: Any) -> Origin:
        inner = _trace_query(node.this, self._tables)
        found = _worst(inner.columns.values())
        return _refuse(found, CHOSEN) if inner.chosen else found

    def refuse(self, node: Any) -> Origin:
        raise _UntracedError


def _describe(node: Any) -> str:
    name, bracket, _ = str(node.sql(dialect="duckdb")).partition("(")
    return name if bracket and name.isidentifier() else str(node.key).upper()


_SMOOTH = frozenset(
    {
        *(exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Round, exp.Coalesce, exp.Alias),
        *(exp.Ln, exp.Log, exp.Exp, exp.Sqrt, exp.Pow, exp.Ordered, exp.Nullif),
        *(exp.Cast, exp.TryCast),
    }
)
"""Functions whose bias shows in draws, as it does not for maxima."""
_WINDOWS = frozenset({exp.Sum, exp.Avg, exp.Count, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue})
_READ: dict[Any, Any] = {
    exp.Column: _Select.column,
    exp.Case: _Select.case,
    exp.If: _Select.case,
    exp.Filter: _Select.filtered,
    exp.Window: _Select.window,
    exp.Subquery: _Select.subquery,
    exp.Exists: _Select.refuse,
    exp.Lambda: _Select.refuse,
    exp.Columns: _Select.refuse,
}


# ---- all rows ----------------------------------------------------------------------------------------------


def _show_all(node: Any, tables: dict[str, _Rows]) -> Any:
    """Return a SELECT without the clauses by which noise chooses which of its rows are shown.

    A quotient is null where its divisor is not above zero: a noisy divisor near zero may be anything.
    """
    if not isinstance(node, exp.Select):
        return node.transform(_require_divisor)
    whole, traced = node.copy(), _Select(node, _add_named(node, tables))
    where = node.args.get("where")
    several = any(each.find(exp.AggFunc, exp.Window) for each in node.expressions) or node.args.get("group")
    if where is not None and not several and traced.origin(where.this).noisy:
        whole.set("where", None)
    if node.args.get("order") is not None and (node.args.get("limit") or node.args.get("offset")):
        columns = traced.trace().columns
        if traced.chooses_shown(columns):
            whole.set("limit", None)
            whole.set("offset", None)
    for name in ("having", "qualify"):
        if node.args.get(name) and traced.origin(node.args[name].this).noisy:
            whole.set(name, None)
    return whole.transform(_require_divisor)


def _require_divisor(node: Any) -> Any:
    above = node.parent
    if isinstance(above, exp.Div) and node.arg_key == "expression" and not isinstance(node, exp.Literal):
        return exp.Case(
            ifs=[exp.If(this=exp.GT(this=node.copy(), expression=exp.Literal.number(0)), true=node.copy())]
        )
    return node
