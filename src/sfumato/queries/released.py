"""Parsing of values of a released answer: functions, windows and totals of noisy numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.answers.windows import WINDOWS
from sfumato.curator.question.derived import (
    AnswerCall,
    AnswerCase,
    AnswerColumn,
    AnswerConstant,
    AnswerOrder,
    AnswerTotal,
    AnswerWindow,
)
from sfumato.errors import PolicyError
from sfumato.queries.aggregates import is_aggregate, parse_aggregate
from sfumato.queries.leaves import (
    describe_node,
    parse_column_name,
    parse_date,
    parse_literal,
    parse_sides,
    parse_text,
    refuse_other_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.curator.question.derived import Derived
    from sfumato.curator.question.measurement import Aggregate
    from sfumato.queries.answer_clauses import GroupByKeys

MOST_ROWS_IN_FRAME = 1000
"""The longest frame of a window that slides: what is computed for free must be short."""

_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "//",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
}
_UNARY: dict[type[exp.Expression], str] = {
    exp.Neg: "negate",
    exp.Not: "not",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Abs: "abs",
    exp.Sign: "sign",
    exp.Sqrt: "sqrt",
    exp.Ln: "ln",
    exp.Exp: "exp",
    exp.Upper: "upper",
    exp.Lower: "lower",
}
_LISTED: dict[type[exp.Expression], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Concat: "concat",
}
_TOTALS: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_WINDOWS: dict[type[exp.Expression], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    **_TOTALS,
}
_CASTS = {
    **dict.fromkeys(exp.DataType.INTEGER_TYPES, "to_whole"),
    **dict.fromkeys(exp.DataType.REAL_TYPES, "to_double"),
    **dict.fromkeys(exp.DataType.TEXT_TYPES, "to_text"),
    exp.DataType.Type.DATE: "to_date",
}


@dataclass(slots=True)
class ReleasedReader:
    """Reads values of a released answer. Over groups of rows, it collects the aggregates that are needed."""

    keys: GroupByKeys | None = None
    """The keys of the groups; None where the columns of another answer are read."""
    columns: Mapping[str, Derived] = field(default_factory=dict)
    """Columns by their names, in small letters."""
    aggregates: dict[Aggregate, None] = field(default_factory=dict)
    totals: bool = False
    """Whether an aggregate function is a total over rows of the answer."""
    levels: bool = False
    """Whether groups are of several levels, and GROUPING says of which."""

    def read(self, node: Any) -> Derived:
        """Return a value, or raise a coded refusal."""
        found = self._find(node)
        if found is not None:
            return found
        if type(node) in _BINARY:
            refuse_other_parts(node, "this", "expression", "typed", "safe")
            return AnswerCall(_BINARY[type(node)], (self.read(node.this), self.read(node.expression)))
        if type(node) in _UNARY:
            refuse_other_parts(node, "this")
            return AnswerCall(_UNARY[type(node)], (self.read(node.this),))
        if type(node) in _LISTED:
            first = [node.this] if node.this is not None else []
            return AnswerCall(_LISTED[type(node)], tuple(map(self.read, [*first, *node.expressions])))
        read = _OTHERS.get(type(node))
        if read is not None:
            return read(self, node)
        raise _not_supported(node)

    def read_order(self, node: exp.Expression) -> AnswerOrder:
        """Return what rows are sorted by."""
        refuse_other_parts(node, "this", "desc", "nulls_first")
        return AnswerOrder(
            self.read(node.this), bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        )

    def _find(self, node: Any) -> Derived | None:
        """Return a key, an aggregate, a named column or a constant."""
        if self.keys is not None and not isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            place = self.keys.find_place(node)
            if place is not None:
                return AnswerColumn(place)
            if is_aggregate(node):
                return self._aggregate(node)
        if isinstance(node, exp.Column):
            name = parse_column_name(node).column
            if name.casefold() in self.columns:
                return self.columns[name.casefold()]
            raise _unknown_column(name, self.columns)
        if isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return AnswerConstant(parse_literal(node))
        return None

    def _aggregate(self, node: exp.Expression) -> Derived:
        found = parse_aggregate(node)
        self.aggregates.setdefault(found)
        keys = 0 if self.keys is None else len(self.keys.expressions) * (2 if self.levels else 1)
        return AnswerColumn(keys + list(self.aggregates).index(found))

    def read_grouping(self, node: exp.Expression) -> Derived:
        """Return a number whose binary digits say which of the keys are not part of the row's level."""
        places = [None if self.keys is None else self.keys.find_place(each) for each in node.expressions]
        if not self.levels or self.keys is None or None in places:
            raise PolicyError(
                "SF-Q108", "GROUPING takes keys of ROLLUP, CUBE or GROUPING SETS.", try_="GROUPING(ward)"
            )
        found: Derived = AnswerConstant(Fraction(0))
        for place in places:
            mark = AnswerColumn(len(self.keys.expressions) + (place or 0))
            found = AnswerCall("+", (AnswerCall("*", (found, AnswerConstant(Fraction(2)))), mark))
        return found

    # ---- single functions ----

    def read_parenthesis(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this")
        return self.read(node.this)

    def read_round(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "decimals")
        digits = node.args.get("decimals")
        more = () if digits is None else (self._whole_constant(digits),)
        return AnswerCall("round", (self.read(node.this), *more))

    def _whole_constant(self, node: Any) -> Derived:
        found = self.read(node)
        value = found.value if isinstance(found, AnswerConstant) else None
        if (
            isinstance(found, AnswerCall)
            and found.function == "negate"
            and isinstance(found.arguments[0], AnswerConstant)
        ):
            inner = found.arguments[0].value
            value = -inner if isinstance(inner, Fraction) else None
        if isinstance(value, Fraction) and value.denominator == 1 and abs(value) <= 30:
            return AnswerConstant(value)
        raise PolicyError(
            "SF-Q105", "The digits of ROUND must be a whole number.", try_="ROUND(AVG(cost), 2)"
        )

    def read_power(self, node: exp.Expression) -> Derived:
        return AnswerCall("power", tuple(map(self.read, parse_sides(node))))

    def read_log(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "expression")
        if node.args.get("expression") is None:
            return AnswerCall("log10", (self.read(node.this),))
        base, number = self.read(node.this), self.read(node.expression)
        return AnswerCall("/", (AnswerCall("ln", (number,)), AnswerCall("ln", (base,))))

    def read_nullif(self, node: exp.Expression) -> Derived:
        return AnswerCall("nullif", tuple(map(self.read, parse_sides(node))))

    def read_is(self, node: exp.Expression) -> Derived:
        left, right = parse_sides(node)
        if not isinstance(right, exp.Null):
            raise _not_supported(node)
        return AnswerCall("is_null", (self.read(left),))

    def read_in(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "expressions")
        if not node.expressions:
            raise PolicyError("SF-Q111", "IN needs a list of values.", try_="n IN (1, 2, 3)")
        part = self.read(node.this)
        tests = tuple(AnswerCall("=", (part, self.read(each))) for each in node.expressions)
        return AnswerCall("or", tests)

    def read_between(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "low", "high")
        part, low, high = (self.read(node.args[each]) for each in ("this", "low", "high"))
        return AnswerCall("and", (AnswerCall(">=", (part, low)), AnswerCall("<=", (part, high))))

    def read_case(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "ifs", "default")
        of = None if node.this is None else self.read(node.this)
        branches = []
        for each in node.args["ifs"]:
            when = self.read(each.this)
            holds = when if of is None else AnswerCall("=", (of, when))
            branches.append((holds, self.read(each.args["true"])))
        default = node.args.get("default")
        return AnswerCase(tuple(branches), AnswerConstant(None) if default is None else self.read(default))

    def read_if(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "true", "false")
        default = node.args.get("false")
        otherwise = AnswerConstant(None) if default is None else self.read(default)
        return AnswerCase(((self.read(node.this), self.read(node.args["true"])),), otherwise)

    def read_cast(self, node: exp.Expression) -> Derived:
        kind = node.args["to"].this
        if isinstance(node.this, exp.Literal) and node.this.is_string and kind in _DATES:
            return AnswerConstant(parse_date(parse_text(node.this), kind))
        if kind not in _CASTS:
            raise _not_supported(node)
        return AnswerCall(_CASTS[kind], (self.read(node.this),))

    # ---- totals and windows ----

    def read_total(self, node: exp.Expression) -> Derived:
        """Return a total over rows of an answer."""
        if not self.totals:
            raise _not_supported(node)
        refuse_other_parts(node, "this", "big_int")
        star = node.this is None or isinstance(node.this, exp.Star)
        return AnswerTotal(_TOTALS[type(node)], None if star else self.read(node.this))

    def read_window(self, node: exp.Expression) -> Derived:
        refuse_other_parts(node, "this", "partition_by", "order", "spec", "over")
        name, arguments = self._window_call(node.this)
        order = node.args.get("order")
        if order is not None:
            refuse_other_parts(order, "expressions")
        return AnswerWindow(
            name,
            arguments,
            tuple(map(self.read, node.args.get("partition_by") or ())),
            tuple(map(self.read_order, [] if order is None else order.expressions)),
            _read_frame(node.args.get("spec")),
        )

    def _window_call(self, call: Any) -> tuple[str, tuple[Derived, ...]]:
        name = _WINDOWS.get(type(call))
        if name is None:
            raise _not_supported(call)
        refuse_other_parts(call, "this", "offset", "default", "big_int", "expressions")
        parts = [call.args.get(part) for part in ("this", "offset", "default")]
        given = [
            part for part in parts if part is not None and not isinstance(part, exp.Star) and part is not True
        ]
        least, most = WINDOWS[name][2:]
        if not least <= len(given) <= most or call.args.get("expressions"):
            raise PolicyError(
                "SF-Q105",
                f"{name.upper()} takes another number of arguments.",
                try_="LAG(n) OVER (ORDER BY month)",
            )
        return name, tuple(map(self.read, given))


_DATES = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)


def _read_frame(spec: Any) -> tuple[int | None, int | None] | None:
    """Return how many rows before and after a row its frame has."""
    if spec is None:
        return None
    refuse_other_parts(spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind") or "").upper()
    start, end = (
        _read_frame_end(spec.args.get(side), str(spec.args.get(f"{side}_side") or ""), side)
        for side in ("start", "end")
    )
    if kind == "RANGE" and (start, end) == (None, 0):
        return None
    if kind not in ("ROWS", "RANGE") or (kind == "RANGE" and (start, end) != (None, None)):
        raise PolicyError(
            "SF-Q103",
            f"{kind} is not supported in a window.",
            try_="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        )
    return start, end


def _read_frame_end(typed: Any, side: str, which: str) -> int | None:
    """Return a number of rows: before the row for the start of a frame, after it for the end."""
    text = str(typed.this if isinstance(typed, exp.Expression) else typed or "CURRENT ROW").upper()
    if text == "CURRENT ROW":
        return 0
    if text == "UNBOUNDED":
        return None
    outwards = side.upper() == ("PRECEDING" if which == "start" else "FOLLOWING")
    if text.isdecimal() and len(text) < 9 and int(text) <= MOST_ROWS_IN_FRAME:
        return int(text) if outwards else -int(text)
    raise PolicyError(
        "SF-Q103", f"A frame has at most {MOST_ROWS_IN_FRAME:,} rows on either side.", try_="ROWS 6 PRECEDING"
    )


def _unknown_column(name: str, known: Mapping[str, Derived]) -> PolicyError:
    return PolicyError(
        "SF-Q108",
        f"'{name[:80]}' is not a column of the answer.",
        why="single rows are never shown",
        columns=", ".join(known) or "none has a name here",
        try_=f"an aggregate of it, such as COUNT({name[:80]})",
    )


def _not_supported(node: Any) -> PolicyError:
    kind = "Function " if isinstance(node, exp.Func) else ""
    return PolicyError(
        "SF-Q104",
        f"{kind}{describe_node(node)} is not supported in an answer.",
        known="aggregates; of them + - * / || ROUND FLOOR CEIL ABS SQRT LN EXP POWER COALESCE CASE CAST; "
        "RANK, LAG, SUM and other windows over groups",
        try_="SELECT ward, COUNT(*) AS n … GROUP BY ward",
    )


_Reader = ReleasedReader
_OTHERS: dict[type[exp.Expression], Callable[[ReleasedReader, Any], Derived]] = {
    exp.Paren: _Reader.read_parenthesis,
    exp.Grouping: _Reader.read_grouping,
    exp.Round: _Reader.read_round,
    exp.Pow: _Reader.read_power,
    exp.Log: _Reader.read_log,
    exp.Nullif: _Reader.read_nullif,
    exp.Is: _Reader.read_is,
    exp.In: _Reader.read_in,
    exp.Between: _Reader.read_between,
    exp.Case: _Reader.read_case,
    exp.If: _Reader.read_if,
    exp.Cast: _Reader.read_cast,
    exp.TryCast: _Reader.read_cast,
    exp.Window: _Reader.read_window,
    **dict.fromkeys(_TOTALS, _Reader.read_total),
}
