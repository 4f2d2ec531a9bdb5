"""Statements around one or several SELECTs: UNION of answers, PIVOT, and SELECT DISTINCT of keys alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.derived import (
    AnswerCall,
    AnswerCase,
    AnswerColumn,
    AnswerConstant,
    AnswerOrder,
    AnswerStage,
    AnswerTotal,
)
from sfumato.errors import PolicyError
from sfumato.queries.answer_clauses import parse_limit
from sfumato.queries.leaves import parse_position, refuse_other_parts
from sfumato.queries.released import ReleasedReader
from sfumato.queries.sql import parse_any_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.catalog.domains import Scalar

MOST_SELECTS = 16
"""The most SELECTs of one UNION."""


# ---- UNION -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnionSelect:
    """SELECTs whose answers are put below each other."""

    union: exp.Union

    @property
    def texts(self) -> list[str]:
        """The SELECTs, from first to last, each by itself."""
        with_ = self.union.args.get("with_")
        return [_write_alone(select, with_) for select in _list_selects(self.union)]

    def read_stage(self, names: Sequence[str]) -> AnswerStage:
        """Return what is done with all rows together, for columns of these names."""
        refuse_other_parts(self.union, "this", "expression", "distinct", "order", "limit", "offset", "with_")
        columns = {name.casefold(): AnswerColumn(place) for place, name in enumerate(names)}
        reader, shown = ReleasedReader(columns=columns), list(columns.values())
        order = self.union.args.get("order")
        limits: dict[str, Any] = {
            name: parse_limit(self.union.args[name])
            for name in ("limit", "offset")
            if self.union.args.get(name)
        }
        return AnswerStage(
            tuple(zip(names, shown, strict=True)),
            distinct=bool(self.union.args.get("distinct")),
            order=tuple(_read_order(reader, item, shown) for item in (order.expressions if order else ())),
            **limits,
        )


def find_union(text: str) -> UnionSelect | None:
    """Return the UNION that a text is, or None."""
    if not isinstance(text, str) or "union" not in text.lower():
        return None
    node = parse_any_statement(text)
    return UnionSelect(node) if isinstance(node, exp.Union) else None


def _list_selects(node: exp.Expression) -> list[exp.Select]:
    """Return the SELECTs of a UNION, from first to last. All of them are joined in one way."""
    if isinstance(node, exp.Subquery):
        return _list_selects(node.this)
    if isinstance(node, exp.Union):
        inner = node.this
        if isinstance(inner, exp.Union) and bool(inner.args.get("distinct")) != bool(
            node.args.get("distinct")
        ):
            raise PolicyError(
                "SF-Q103", "UNION beside UNION ALL is not supported.", try_="UNION ALL throughout"
            )
        found = [*_list_selects(inner), *_list_selects(node.expression)]
        if len(found) <= MOST_SELECTS:
            return found
    elif isinstance(node, exp.Select):
        return [node]
    raise PolicyError(
        "SF-Q102", f"UNION takes at most {MOST_SELECTS} SELECTs.", try_="SELECT … UNION ALL SELECT …"
    )


def _write_alone(select: exp.Select, with_: Any) -> str:
    alone = select.copy()
    if with_ is not None and alone.args.get("with_") is None:
        alone.set("with_", with_.copy())
    return str(alone.sql(dialect="duckdb"))


def _read_order(reader: ReleasedReader, item: exp.Expression, shown: Sequence[AnswerColumn]) -> AnswerOrder:
    if not isinstance(item.this, exp.Literal):
        return reader.read_order(item)
    by = shown[parse_position(item.this, len(shown))]
    return AnswerOrder(by, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


# ---- PIVOT -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PivotSelect:
    """Groups by some keys as rows, and by one more as columns."""

    pivot: exp.Pivot

    @property
    def text(self) -> str:
        """The SELECT that all numbers come from: keys, that of the columns last, then aggregates."""
        refuse_other_parts(self.pivot, "this", "expressions", "using", "group")
        on, group = self.pivot.expressions, self.pivot.args.get("group")
        used = self.pivot.args.get("using") or []
        if len(on) != 1 or group is None or not used or isinstance(on[0], exp.In):
            raise PolicyError(
                "SF-Q103",
                "PIVOT takes one column after ON, an aggregate after USING, and GROUP BY.",
                try_="PIVOT visits ON sex USING COUNT(*) GROUP BY ward",
            )
        keys = [*group.expressions, on[0]]
        numbers = [
            each if isinstance(each, exp.Alias) else exp.alias_(each, f"n{i}") for i, each in enumerate(used)
        ]
        select = exp.Select(expressions=[*(key.copy() for key in keys), *(each.copy() for each in numbers)])
        select.set("from_", exp.From(this=self.pivot.this.copy()))
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return str(select.sql(dialect="duckdb"))

    def make_stage(self, names: Sequence[str], values: Sequence[tuple[Scalar, Any]]) -> AnswerStage:
        """Return the stage that makes a column of each value; `values` are exact, and as people see them."""
        used = self.pivot.args["using"]
        keys = len(names) - len(used) - 1
        outputs: list[Any] = [(name, AnswerColumn(place)) for place, name in enumerate(names[:keys])]
        for exact, shown in values:
            for place, each in enumerate(used):
                holds = AnswerCall("=", (AnswerColumn(keys), AnswerConstant(exact)))
                number = AnswerCase(((holds, AnswerColumn(keys + 1 + place)),), AnswerConstant(None))
                alias = each.alias if isinstance(each, exp.Alias) else None
                suffix = f"_{alias or each.key}" if len(used) > 1 or alias else ""
                outputs.append((f"{shown}{suffix}", AnswerTotal("max", number)))
        return AnswerStage(tuple(outputs), totals=True, keys=tuple(map(AnswerColumn, range(keys))))


def find_pivot(text: str) -> PivotSelect | None:
    """Return the PIVOT that a text is, or None."""
    if not isinstance(text, str) or not text.lstrip().lower().startswith("pivot"):
        return None
    node = parse_any_statement(text)
    return PivotSelect(node) if isinstance(node, exp.Pivot) else None
