"""The leaves of a question: names, literals, and the refusal of whatever a node carries beyond them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.relation import Scalar

COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}  # each operator, and the one to use when the literal stands on the left


def sides(node: exp.Expression) -> tuple[exp.Expression, exp.Expression]:
    only(node, "this", "expression")
    return node.this, node.expression


def named(node: exp.Expression) -> str:
    if isinstance(node, exp.Column):
        return column(node)
    raise PolicyError("SF-Q105", "A comparison names one declared column.", got=shape(node), try_="age >= 65")


def column(node: exp.Column) -> str:
    only(node, "this")
    return identifier(node.this)


def identifier(node: Any) -> str:
    if not isinstance(node, exp.Identifier):
        raise PolicyError("SF-Q105", "A name is expected here.", got=shape(node))
    return str(node.this)


def position(node: exp.Literal, columns: int) -> int:
    """The place, from 0, of a column of the answer that is named by its number there."""
    text = str(node.this)
    if node.is_string or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= columns:
        raise PolicyError("SF-Q121", "There is no such column in the answer.", columns=f"1 to {columns}")
    return int(text) - 1


def literal(node: exp.Expression) -> Scalar:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -number(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else number(node)
    if isinstance(node, exp.Column):
        raise PolicyError(
            "SF-Q105",
            "A column is compared with a value, not with another column.",
            try_=f"single quotes, if it is a text: '{identifier(node.this)}'",
        )
    raise PolicyError(
        "SF-Q105",
        "A column is compared with a number, a text, TRUE or FALSE.",
        got=shape(node),
        try_="age >= 65",
    )


def number(node: exp.Literal) -> Fraction:
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
    "distinct": ("DISTINCT", "GROUP BY the column, if its values are listed"),
    "joins": ("A second table", "register the joined table"),
    "with_": ("WITH", "a question without a subquery"),
    "query": ("A subquery", "a list of values"),
    "db": ("A schema before the table's name", "the table's name alone"),
    "table": ("Another table's name before a column", "the column's name alone"),
    "sample": ("TABLESAMPLE", "the whole table: noise hides people, a sample need not"),
    "columns": ("New names for columns", "the columns' own names"),
    "expressions": ("More than one argument", "one aggregate for each column"),
}


def only(node: exp.Expression, *allowed: str) -> None:
    """Refuse a node that carries anything beyond the parts named."""
    extra = [name for name, part in node.args.items() if part and name not in allowed]
    if extra:
        plain = extra[0].strip("_").replace("_", " ").upper()
        what, instead = _CLAUSES.get(extra[0], (plain, "SELECT … FROM one_table WHERE … GROUP BY …"))
        raise PolicyError("SF-Q103", f"{what} cannot be asked here.", try_=instead)


def shape(node: Any) -> str:
    """What stands there, in the analyst's own words where it is a function."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}(…)"
    return node.key.upper() if isinstance(node, exp.Expression) else "nothing"
