"""Queries over the groups of an answer: refused here, with the calls that do the same.

The first call releases numbers of groups of rows, and the last computes from them at no charge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from sfumato.curator.catalog.domains import Listed
from sfumato.errors import PolicyError, SfumatoError
from sfumato.queries.aggregates import is_aggregate
from sfumato.queries.leaves import COMPARISONS, parse_position
from sfumato.queries.sql import parse_any_statement, parse_question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.curator.plan.resolved import ResolvedQuestion
    from sfumato.curator.question.measurement import Question

    Resolve = Callable[[Question], ResolvedQuestion]
    from sfumato.queries.relations import ListNames

    Calls = tuple[str, ...]

Accepted = TypeVar("Accepted")

_OTHER = frozenset({"SF-Q113", "SF-Q116", "SF-Q133", "SF-Q159"})
"""Refusals that have nothing to do with where a number comes from."""
_COMPUTING = (*COMPARISONS, exp.NEQ, exp.Between, exp.Add, exp.Sub, exp.Mul, exp.Div)
_MOST_ANSWERS = 16
"""The most SELECTs of a UNION for which calls are written."""


def read_question(
    text: str,
    accept: Callable[[Question], Accepted],
    resolve: Resolve,
    list_names: ListNames | None = None,
) -> Accepted:
    """Return what `accept` makes of the question of a SELECT, in which columns come before aliases.

    If the text is refused, and a part of it is a question whose answer gives the rest, the refusal names the
    calls. `resolve` looks the names of a question up, and reads and charges nothing.
    """
    try:
        return accept(parse_question(text, list_names))
    except PolicyError as refusal:
        calls = None if refusal.code in _OTHER else find_calls(text, resolve)
        if calls is None:
            raise
        raise PolicyError(
            "SF-Q161",
            "This is computed from the answer to another query, which is released first.",
            why="a query adds noise to numbers of groups of rows; what is computed from them is free",
            try_="; ".join(calls),
        ) from None


def find_calls(text: str, resolve: Resolve) -> Calls | None:
    """Return calls that answer a text, ready to be pasted, if it computes with answers; else None."""
    try:
        statement = parse_any_statement(text)
        if isinstance(statement, exp.Union):
            return _combine(statement, resolve)
        if isinstance(statement, exp.Pivot):
            return _pivot(statement, resolve)
        if isinstance(statement, exp.Select):
            ways = (_select_from_answer, _compare_with_answer, _compute_from_answer)
            return next(filter(None, (way(statement, resolve) for way in ways)), None)
    except SfumatoError:  # the first refusal says what is wrong
        pass
    return None


def _write_sql(node: exp.Expression) -> str:
    return str(node.sql(dialect="duckdb"))


def _quote(text: str) -> str:
    """Return a text as Python writes it."""
    return f'"{text}"' if '"' not in text and "\\" not in text else repr(text)


def _release(node: exp.Expression, name: str = "r") -> str:
    return f"{name} = s.sql({_quote(_write_sql(node))}).release(epsilon=0.1)"


def _is_question(node: exp.Expression, resolve: Resolve) -> bool:
    try:
        resolve(parse_question(_write_sql(node)))
    except PolicyError:
        return False
    return True


# ---- SELECT from an answer ---------------------------------------------------------------------------------


def _select_from_answer(select: exp.Select, resolve: Resolve) -> Calls | None:
    """Return the calls for a SELECT from another one: the outermost that is a question is released."""
    for place, each in enumerate(_list_inner(select)):
        alone = _with_named(each, select)
        rest = select.copy()
        inner = _list_inner(rest)[place]
        if _is_question(alone, resolve):
            _put_answer(inner, rest)
        else:
            # What it computes from its groups is computed from the answer, too.
            parts = _split(alone, resolve)
            if parts is None:
                continue
            alone, own = parts
            inner.replace(own)
        known = {"answer", *(each.alias for each in _list_named(rest))}
        if all(each.name in known for each in rest.find_all(exp.Table)):
            return _release(alone), f"r.sql({_quote(_write_sql(rest))})"
    return None


def _list_inner(select: exp.Select) -> list[exp.Select]:
    return [each for each in select.find_all(exp.Select) if _is_source(each)]


def _is_source(node: exp.Select) -> bool:
    """Return whether a SELECT stands after FROM, JOIN or in WITH."""
    above = node.parent
    return isinstance(above, exp.CTE) or (
        isinstance(above, exp.Subquery) and isinstance(above.parent, exp.From | exp.Join)
    )


def _list_named(select: exp.Select) -> list[exp.CTE]:
    return [] if select.args.get("with_") is None else list(select.args["with_"].expressions)


def _with_named(inner: exp.Select, select: exp.Select) -> exp.Select:
    """Return an inner SELECT by itself, with what WITH named before it."""
    named = _list_named(select)
    if isinstance(inner.parent, exp.CTE) and inner.parent in named:
        named = named[: next(at for at, each in enumerate(named) if each is inner.parent)]
    alone = inner.copy()
    used = _keep_used(alone, named)
    if used:
        alone.set("with_", exp.With(expressions=[*used, *(each.copy() for each in _list_named(alone))]))
    return alone


def _keep_used(node: exp.Expression, named: Sequence[exp.CTE]) -> list[exp.CTE]:
    """Return copies of those names that a statement reads from, directly or by others of them."""
    kept: list[exp.CTE] = []
    for each in reversed(named):
        if any(table.name == each.alias for part in (node, *kept) for table in part.find_all(exp.Table)):
            kept.insert(0, each.copy())
    return kept


def _put_answer(inner: exp.Select, rest: exp.Select) -> None:
    """Put the table `answer` in the place of a SELECT."""
    holder = inner.parent
    if isinstance(holder, exp.CTE):
        for table in list(rest.find_all(exp.Table)):
            if table.name == holder.alias:
                table.replace(_name_answer(table.alias or table.name))
        holder.pop()
    elif holder is not None:
        holder.replace(_name_answer(holder.alias))
    used = _keep_used(_without_with(rest), _list_named(rest))
    rest.set("with_", exp.With(expressions=used) if used else None)


def _without_with(select: exp.Select) -> exp.Select:
    bare = select.copy()
    bare.set("with_", None)
    return bare


def _name_answer(alias: str) -> Any:
    table: Any = exp.to_table("answer")
    return exp.alias_(table, alias, table=True) if alias else table


# ---- numbers of other queries ------------------------------------------------------------------------------


def _compare_with_answer(select: exp.Select, resolve: Resolve) -> Calls | None:
    """Return the calls for a SELECT that compares or computes with the number of another query."""
    found = list(_find_numbers(select))
    alone = [_with_named(node.this, select) for node in found]
    if not found or not all(_is_question(each, resolve) for each in alone):
        return None
    names = ["r"] if len(found) == 1 else [f"r{place}" for place in range(1, len(found) + 1)]
    rest, tried = select.copy(), select.copy()
    for place, (node, other) in enumerate(zip(_find_numbers(rest), _find_numbers(tried), strict=True)):
        node.replace(exp.var(f"number_{place}_of_an_answer"))
        other.replace(exp.Literal.number(place + 1))
    if not _is_question(tried, resolve):
        return None
    text = _write_sql(rest).replace("{", "{{").replace("}", "}}")
    for place, name in enumerate(names):
        text = text.replace(f"number_{place}_of_an_answer", f"{{{name}.item()}}")
    first = [_release(each, name) for each, name in zip(alone, names, strict=True)]
    return *first, f"s.sql(f{_quote(text)}).release(epsilon=0.1)"


def _find_numbers(select: exp.Select) -> list[exp.Subquery]:
    """Return the subqueries with one column that are compared with something, or part of arithmetic."""
    return [
        node
        for node in select.find_all(exp.Subquery, bfs=False)
        if isinstance(node.parent, _COMPUTING)
        and isinstance(node.this, exp.Select)
        and len(node.this.expressions) == 1
    ]


# ---- what one SELECT computes from its groups --------------------------------------------------------------


def _compute_from_answer(select: exp.Select, resolve: Resolve) -> Calls | None:
    """Return the calls for windows over groups, and for functions of keys and aggregates."""
    parts = _split(select, resolve)
    return None if parts is None else (_release(parts[0]), f"r.sql({_quote(_write_sql(parts[1]))})")


def _split(select: exp.Select, resolve: Resolve) -> tuple[exp.Select, exp.Select] | None:
    """Return a question for the groups of a SELECT, and what is computed from its answer."""
    keys = _list_keys(select)
    having = select.args.get("having")
    windowed = having is not None and having.find(exp.Window)
    # Only `answer` is there to be read, and no table of another SELECT.
    nested = len(list(_list_rest(select).find_all(exp.Select))) > 1
    if keys is None or windowed or nested or any(isinstance(each, exp.Star) for each in select.expressions):
        return None
    taken = {each.alias for each in select.expressions if isinstance(each, exp.Alias)}
    named: dict[Any, str] = {}
    released: dict[int, exp.Column] = {}
    for key in keys:
        named[key] = _choose_name(key, select, named, taken)

    def put_column(node: exp.Expression) -> exp.Expression:
        windowed = isinstance(node.parent, exp.Window) and node.arg_key == "this"
        if node not in named:
            if windowed or not is_aggregate(node):
                return node
            named[node.copy()] = _choose_name(node, select, named, taken)
        column = exp.column(named[node])
        released[id(column)] = column
        return column

    rest: Any = _list_rest(select).transform(put_column)
    rest.set("from_", exp.From(this=exp.to_table("answer")))
    columns = [each for each in rest.find_all(exp.Column) if id(each) not in released]
    if len(named) == len(keys) or any(each.table or each.name not in taken for each in columns):
        return None
    inner = _copy_parts(select, "with_", "from_", "joins", "where")
    inner.set("expressions", [_show(node, name) for node, name in named.items()])
    if keys:
        inner.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    for each in rest.expressions:
        if isinstance(each, exp.Alias) and isinstance(each.this, exp.Column) and each.this.name == each.alias:
            each.replace(each.this)
    return (inner, rest) if _is_question(inner, resolve) else None


def _list_rest(select: exp.Select) -> exp.Select:
    """Return the parts of a SELECT that are about its groups; groups that HAVING keeps are rows then."""
    rest = _copy_parts(select, "expressions", "distinct", "qualify", "order", "limit", "offset")
    if select.args.get("having") is not None:
        rest.set("where", exp.Where(this=select.args["having"].this.copy()))
    return rest


def _copy_parts(select: exp.Select, *names: str) -> exp.Select:
    whole, found = select.copy(), exp.Select()
    for name in names:
        if whole.args.get(name):
            found.set(name, whole.args[name])
    return found


def _list_keys(select: exp.Select) -> list[exp.Expression] | None:
    """Return what the groups are of; None where there are several levels."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [each.unalias() for each in select.expressions if not each.find(exp.AggFunc, exp.Window)]
    aliased = {each.alias: each.this for each in select.expressions if isinstance(each, exp.Alias)}
    found: list[exp.Expression] = []
    for each in group.expressions:
        if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
            return None
        if isinstance(each, exp.Literal):
            found.append(select.expressions[parse_position(each, len(select.expressions))].unalias())
        else:
            found.append(aliased.get(each.name, each) if isinstance(each, exp.Column) else each)
    return found


def _choose_name(
    node: exp.Expression, select: exp.Select, named: Mapping[exp.Expression, str], taken: set[str]
) -> str:
    """Return the name of a key or aggregate: the one it is shown under, its own, or a short one."""
    shown = (each.alias for each in select.expressions if isinstance(each, exp.Alias) and each.this == node)
    own = next(shown, node.name if isinstance(node, exp.Column) else None)
    if own is not None:
        return own
    short = ["n"] if isinstance(node, exp.Count) and isinstance(node.this, exp.Star) else []
    used = {*named.values(), *taken}
    return next(name for name in (*short, *(f"x{at}" for at in range(1, 1000))) if name not in used)


def _show(node: exp.Expression, name: str) -> Any:
    plain = isinstance(node, exp.Column) and node.name == name
    return node.copy() if plain else exp.alias_(node.copy(), name)


# ---- UNION and PIVOT ---------------------------------------------------------------------------------------


def _combine(union: exp.Union, resolve: Resolve) -> Calls | None:
    """Return the calls for answers below each other."""
    selects = list(_list_selects(union))
    if len(selects) > _MOST_ANSWERS or any(map(_is_changed, _list_inner_unions(union))):
        return None
    first, tables = [], []
    columns = [each.alias_or_name for each in selects[0].expressions]
    for place, each in enumerate(selects, start=1):
        parts = (each, None) if _is_question(each, resolve) else _split(each, resolve)
        if parts is None:
            return None
        asked, rest = parts
        first.append(_release(asked, f"r{place}"))
        over = "" if rest is None else f".sql({_quote(_write_sql(rest))})"
        tables.append(f"r{place}{over}.to_arrow()")
        if [part.alias_or_name for part in each.expressions] != columns:
            tables[-1] += f".rename_columns({columns!r})"
    joined = f"pa.concat_tables([{', '.join(tables)}])"
    if not _is_changed(union):
        return *first, joined
    rest = exp.Select(expressions=[exp.Star()])
    rest.set("from_", exp.From(this=exp.to_table("answer")))
    rest.set("distinct", exp.Distinct() if union.args.get("distinct") else None)
    for name in _SORTED:
        rest.set(name, union.args[name].copy() if union.args.get(name) else None)
    return *first, f"answer = {joined}", f"duckdb.sql({_quote(_write_sql(rest))}).to_arrow_table()"


_SORTED = ("order", "limit", "offset")


def _list_inner_unions(union: exp.Union) -> Iterator[Any]:
    """Yield the unions inside another and their brackets, but those that leave out what it leaves out too."""
    for node in union.find_all(exp.Union, exp.Subquery):
        if node is not union and (isinstance(node, exp.Union) or isinstance(node.this, exp.Union)):
            whole = union.args.get("distinct") and not any(node.args.get(name) for name in _SORTED)
            if not whole:
                yield node


def _is_changed(node: exp.Expression) -> bool:
    """Return whether the rows of several SELECTs are sorted, cut off or made different from each other."""
    return any(node.args.get(name) for name in (*_SORTED, "distinct"))


def _list_selects(node: Any) -> Iterator[Any]:
    if isinstance(node, exp.Subquery):
        yield from _list_selects(node.this)
    elif isinstance(node, exp.Union):
        yield from _list_selects(node.this)
        yield from _list_selects(node.expression)
    else:
        yield node


def _pivot(pivot: exp.Pivot, resolve: Resolve) -> Calls | None:
    """Return the calls for groups by some keys as rows, and by one more as columns."""
    on, group, used = pivot.expressions, pivot.args.get("group"), pivot.args.get("using") or []
    if len(on) != 1 or group is None or not used or isinstance(on[0], exp.In):
        return None
    keys = [*group.expressions, on[0]]
    named = [
        each if isinstance(each, exp.Alias) else exp.alias_(each, f"n{i}") for i, each in enumerate(used)
    ]
    inner = exp.Select(expressions=[*(key.copy() for key in keys), *(each.copy() for each in named)])
    inner.set("from_", exp.From(this=pivot.this.copy()))
    inner.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    domain = resolve(parse_question(_write_sql(inner))).keys[-1].domain
    if not isinstance(domain, Listed):
        return None
    rest = exp.Select(expressions=[key.copy() for key in group.expressions])
    for value in sorted(domain.show_values(), key=str):
        for each in named:
            number = exp.Filter(
                this=exp.Sum(this=exp.column(each.alias)),
                expression=exp.Where(this=exp.EQ(this=on[0].copy(), expression=exp.convert(value))),
            )
            name = f"{value}_{each.alias}" if len(used) > 1 or each in used else str(value)
            plain = name.isidentifier()
            rest.append("expressions", exp.alias_(number, exp.to_identifier(name, quoted=not plain)))
    rest.set("from_", exp.From(this=exp.to_table("answer")))
    rest.set("group", exp.Group(expressions=[key.copy() for key in group.expressions]))
    return _release(inner), f"r.sql({_quote(_write_sql(rest))})"
