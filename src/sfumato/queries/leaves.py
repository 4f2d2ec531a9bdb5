"""The leaves of a parsed question: names and literals, and the refusal of whatever else a node carries."""

from __future__ import annotations

from datetime import date, datetime, time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.catalog.calendar import parse_moment
from sfumato.curator.question.relation import Name
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Scalar

COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}


def parse_sides(node: exp.Expression) -> tuple[exp.Expression, exp.Expression]:
    """Return the two operands of a binary node."""
    refuse_other_parts(node, "this", "expression")
    return node.this, node.expression


def parse_column_name(node: exp.Column) -> Name:
    """Return the name of a column, with its table's name if that was typed."""
    refuse_other_parts(node, "this", "table")
    table = node.args.get("table")
    return Name(parse_identifier(node.this), None if table is None else parse_identifier(table))


def parse_identifier(node: Any) -> str:
    """Return the text of a plain name."""
    if not isinstance(node, exp.Identifier) or not _is_printable(str(node.this)):
        raise PolicyError(
            "SF-Q105", "The name of a table or column is expected here.", got=describe_node(node)
        )
    return str(node.this)


def _is_printable(text: str) -> bool:
    """Return whether a text may be typed: the zero character is kept for columns that lowering makes."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def parse_position(node: exp.Literal, columns: int) -> int:
    """Return the index, from 0, of a column of the answer that was typed by its position, from 1."""
    text = str(node.this)
    # isdecimal alone would let a number through that is too long to convert quickly.
    if node.is_string or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= columns:
        raise PolicyError("SF-Q120", "The answer has no column at this position.", columns=f"1 to {columns}")
    return int(text) - 1


def parse_literal(node: exp.Expression) -> Scalar | None:
    """Return a constant that was typed; None for NULL."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return parse_text(node) if node.is_string else parse_number(node)
    raise PolicyError(
        "SF-Q105", "A constant is expected here.", got=describe_node(node), try_="65, 'A' or TRUE"
    )


def parse_text(node: Any) -> str:
    """Return a text that was typed in single quotes."""
    if isinstance(node, exp.Literal) and node.is_string and _is_printable(str(node.this)):
        return str(node.this)
    raise PolicyError(
        "SF-Q105", "A text in single quotes is expected here.", got=describe_node(node), try_="'A'"
    )


def parse_number(node: exp.Literal) -> Fraction:
    """Return a typed number exactly; one with a huge exponent is refused before it fills the memory."""
    text = str(node.this)
    if len(text) <= 40 and _small_exponent(text):
        # Fraction reads decimals exactly, where float would move a bound.
        try:
            return Fraction(text)
        except ValueError:
            pass
    raise PolicyError("SF-Q110", "This number is too large, too small or too long.", try_="65 or 0.5")


def _small_exponent(text: str) -> bool:
    _, _, exponent = text.lower().partition("e")
    return not exponent or (exponent.lstrip("+-").isdecimal() and abs(int(exponent)) <= 30)


# ---- dates -------------------------------------------------------------------------------------------------

_TIMESTAMPS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)


def parse_date(typed: str, to: Any) -> date:
    """Return the date or timestamp that a text casts to."""
    moment = parse_moment(typed)
    if moment is None or to not in (exp.DataType.Type.DATE, *_TIMESTAMPS):
        raise PolicyError("SF-Q110", "This text is not a date.", try_="DATE '2024-01-31'")
    if to is exp.DataType.Type.DATE:
        return date(moment.year, moment.month, moment.day)
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time.min)


def parse_interval(node: exp.Expression) -> Fraction:
    """Return the number of days of an INTERVAL of days or weeks."""
    refuse_other_parts(node, "this", "unit")
    unit = node.args.get("unit")
    days = _DAYS.get(str(unit.this).lower()) if isinstance(unit, exp.Var | exp.Literal) else None
    typed = str(node.this.this) if isinstance(node.this, exp.Literal) else ""
    if days is None or not typed.isdecimal() or len(typed) > 7:
        raise PolicyError(
            "SF-Q110", "An INTERVAL must be a whole number of days or weeks.", try_="INTERVAL 7 DAY"
        )
    return Fraction(int(typed) * days)


_DAYS = {"day": 1, "days": 1, "week": 7, "weeks": 7}

# ---- refusals ----------------------------------------------------------------------------------------------

_CLAUSES = {
    "nulls_first": ("NULLS FIRST", "ORDER BY without it: groups without a number come last"),
    "limit_options": ("A percentage in LIMIT", "LIMIT 10"),
    "distinct": ("DISTINCT", "GROUP BY the column"),
    "recursive": ("A recursive WITH", "WITH without RECURSIVE"),
    "query": ("A subquery in a condition", "a list of values, or a JOIN"),
    "db": ("A schema before the table's name", "the table's name alone"),
    "sample": ("TABLESAMPLE", "the whole table"),
    "columns": ("Renaming columns after an alias", "AS in the SELECT list"),
    "expressions": ("More than one argument", "one aggregate for each column"),
    "method": ("A NATURAL or ASOF JOIN", "JOIN … USING (…)"),
    "all": ("GROUP BY ALL", "the names of the columns"),
    "limit": ("LIMIT in a subquery", "WHERE in the subquery"),
    "order": ("ORDER BY in a subquery", "the subquery without it"),
    "qualify": ("QUALIFY", "q.bounded(groups=…, rows=…)"),
    "locks": ("FOR UPDATE", "the question without it"),
    "except_": ("EXCLUDE", "the columns by their names"),
    "windows": ("WINDOW", "a subquery grouped by the unit"),
}


def refuse_other_parts(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that carries anything beyond the parts named."""
    # sqlglot puts whatever it parsed into `args`; a clause that is not read would silently mean nothing.
    extra = [name for name, part in node.args.items() if part and name not in allowed]
    if extra:
        plain = extra[0].strip("_").replace("_", " ").upper()
        what, instead = _CLAUSES.get(extra[0], (plain, "SELECT … FROM … WHERE … GROUP BY …"))
        raise PolicyError("SF-Q103", f"{what} is not supported.", try_=instead)


_SIGNS: dict[type[exp.Expression], str] = {
    exp.Star: "*",
    exp.DPipe: "||",
    exp.Mod: "%",
    exp.IntDiv: "//",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.SimilarTo: "SIMILAR TO",
    exp.Window: "OVER (…)",
    exp.Rollup: "ROLLUP",
    exp.Boolean: "TRUE or FALSE",
    exp.Literal: "A constant",
    exp.Column: "A column",
    exp.Subquery: "A subquery",
}


def spell_name(node: exp.Expression) -> str:
    """Return the name of a computed column that was given none: what was typed, as DuckDB names it."""
    return node.sql(dialect="duckdb", normalize_functions="lower")[:80]


def describe_node(node: Any) -> str:
    """Return what stands there as SQL writes it: a sign, a function's name or a keyword."""
    if isinstance(node, exp.Anonymous | exp.Var):
        return str(node.this)[:40].upper()
    if type(node) in _SIGNS:
        return _SIGNS[type(node)]
    if isinstance(node, exp.Func):
        return _typed_name(node)
    return node.key.upper() if isinstance(node, exp.Expression) else "nothing"


def _typed_name(node: exp.Func) -> str:
    """Return a function's name as DuckDB spells it: sqlglot calls STRFTIME by a name of its own."""
    name, bracket, _ = node.sql(dialect="duckdb").partition("(")
    return name if bracket and name.isidentifier() else node.sql_name()
