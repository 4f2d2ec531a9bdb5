"""The small parts of a parsed question: names, literals, and the refusal of whatever else a node carries."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.relation import Scalar


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


def literal(node: exp.Expression) -> Scalar:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_figure(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _figure(node)
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


def _figure(node: exp.Literal) -> Fraction:
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
    "order": ("ORDER BY", "sort the answer: release.to_arrow().sort_by(…)"),
    "limit": ("LIMIT", "cut the answer: release.to_arrow().slice(0, 10)"),
    "having": ("HAVING", "filter the answer: release.to_arrow().filter(…)"),
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
