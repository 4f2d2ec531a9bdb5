"""The leaves of a question: names, literals, and the refusal of whatever a node carries beyond them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

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
    refuse_other_parts(node, "this", "expression")
    return node.this, node.expression


def parse_column_name(node: exp.Column) -> Name:
    refuse_other_parts(node, "this", "table")
    table = node.args.get("table")
    return Name(parse_identifier(node.this), None if table is None else parse_identifier(table))


def parse_identifier(node: Any) -> str:
    if not isinstance(node, exp.Identifier) or not _printable(str(node.this)):
        raise PolicyError("SF-Q105", "A name is expected here.", got=describe_node(node))
    return str(node.this)


def _printable(text: str) -> bool:
    """Columns of our own making have names with a zero character, which no one may type."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def parse_position(node: exp.Literal, columns: int) -> int:
    """The place, from 0, of a column of the answer that is named by its number there."""
    text = str(node.this)
    if node.is_string or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= columns:
        raise PolicyError("SF-Q121", "There is no such column in the answer.", columns=f"1 to {columns}")
    return int(text) - 1


def parse_literal(node: exp.Expression) -> Scalar | None:
    """A value typed in."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return parse_text(node) if node.is_string else parse_number(node)
    raise PolicyError("SF-Q105", "A value is expected here.", got=describe_node(node), try_="65, 'A' or TRUE")


def parse_text(node: Any) -> str:
    """A text typed in, in single quotes."""
    if isinstance(node, exp.Literal) and node.is_string and _printable(str(node.this)):
        return str(node.this)
    raise PolicyError("SF-Q105", "A text is expected here.", got=describe_node(node), try_="'A'")


def parse_number(node: exp.Literal) -> Fraction:
    text = str(node.this)
    if len(text) <= 40 and _small_exponent(text):
        try:
            return Fraction(text)
        except ValueError:
            pass
    raise PolicyError("SF-Q111", "This is not a number that can be compared with.", try_="65 or 0.5")


def _small_exponent(text: str) -> bool:
    _, _, exponent = text.lower().partition("e")
    return not exponent or (exponent.lstrip("+-").isdecimal() and abs(int(exponent)) <= 30)


_CLAUSES = {
    "nulls_first": ("NULLS FIRST", "the order as it is: groups without a number come last"),
    "limit_options": ("A share of the groups", "LIMIT 10"),
    "distinct": ("DISTINCT", "GROUP BY the column"),
    "recursive": ("A recursive WITH", "a plain WITH"),
    "query": ("A subquery in a condition", "a list of values, or a JOIN"),
    "db": ("A schema before the table's name", "the table's name alone"),
    "sample": ("TABLESAMPLE", "the whole table: noise hides people, a sample need not"),
    "columns": ("New names for columns", "the columns' own names"),
    "expressions": ("More than one argument", "one aggregate for each column"),
    "method": ("A NATURAL or ASOF JOIN", "JOIN … USING (…)"),
    "all": ("GROUP BY ALL", "the names of the columns"),
    "limit": ("LIMIT in a subquery", "a condition in WHERE"),
    "order": ("ORDER BY in a subquery", "the same without it"),
    "qualify": ("QUALIFY", "q.bounded(groups=…, rows=…)"),
    "windows": ("A window", "a subquery by unit"),
}


def refuse_other_parts(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that carries anything beyond the parts named."""
    extra = [name for name, part in node.args.items() if part and name not in allowed]
    if extra:
        plain = extra[0].strip("_").replace("_", " ").upper()
        what, instead = _CLAUSES.get(extra[0], (plain, "SELECT … FROM one_table WHERE … GROUP BY …"))
        raise PolicyError("SF-Q103", f"{what} cannot be asked here.", try_=instead)


def describe_node(node: Any) -> str:
    """What stands there, in the analyst's own words where it is a function."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}(…)"
    return node.key.upper() if isinstance(node, exp.Expression) else "nothing"
