"""Parsing of SQL into a question: sqlglot parses, a closed list of nodes is read, all else is refused.

Nothing of the analyst's text goes further than the names and literals picked here: the curator looks the
names up in the catalog and puts the literals on the catalog's grids.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sqlglot import exp

# DuckDB's dialect whatever the engine: analysts write one SQL, and engines are given programs. It is imported
# here because sqlglot imports dialects under a lock, which a fork in another thread would leave closed.
from sqlglot.dialects.duckdb import DuckDB

from sfumato.errors import PolicyError
from sfumato.queries.expressions import parse_expression
from sfumato.queries.relations import parse_where
from sfumato.queries.selects import parse_select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sfumato.curator.question.measurement import Question
    from sfumato.curator.question.relation import Condition, Expression
    from sfumato.queries.relations import ListNames

# Limits on what one analyst's text may cost to parse; no promise of privacy rests on them.
LONGEST = 20_000
DEEPEST = 60


def parse_question(text: str, list_names: ListNames | None = None) -> Question:
    """Return the question that a SELECT asks of rows, or raise a coded refusal.

    `list_names` says which names are columns of a relation, which come before aliases of the same name.
    Without it no name is known to be one.
    """
    return parse_select(parse_statement(text), list_names)


def parse_condition_text(text: str) -> Condition:
    """Return the condition that a text after WHERE states, or raise a coded refusal."""
    return parse_where(parse_condition_node(text), {})


def parse_condition_node(text: str) -> exp.Expression:
    """Return sqlglot's node of a condition, of which nothing has been checked yet."""
    return _parse_one(text, "a valid condition", "age >= 65")


def parse_expression_text(text: str) -> Expression:
    """Return the value that a text in a SELECT computes, or raise a coded refusal."""
    return parse_expression(_parse_one(text, "a valid expression", "cost * 2"))


def _parse_one(text: str, what: str, example: str) -> exp.Expression:
    parsed = parse_safely(text, lambda: DuckDB().parse_into(exp.Condition, text))
    if len(parsed) != 1 or parsed[0] is None:
        raise PolicyError("SF-Q101", f"This text is not {what}.", try_=f'"{example}"')
    node: exp.Expression = parsed[0]
    return node


# ---- the statement -----------------------------------------------------------------------------------------


def parse_statement(text: str) -> exp.Select:
    """Return sqlglot's node of a SELECT, of which nothing but its size has been checked yet."""
    statement = parse_any_statement(text)
    if not isinstance(statement, exp.Select):
        raise PolicyError(
            "SF-Q103", "A question must be a single SELECT statement.", try_="SELECT COUNT(*) FROM …"
        )
    return statement


def parse_any_statement(text: str) -> exp.Expression | None:
    """Return sqlglot's node of one statement, of which only the size has been checked; else None."""
    statements = parse_safely(text, lambda: DuckDB().parse(text))
    return statements[0] if len(statements) == 1 else None


def parse_safely(text: str, parse: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Return what a parser makes of a text of limited size, or raise a coded refusal whatever fails."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise PolicyError("SF-Q113", f"A question must be a text of at most {LONGEST:,} characters.")
    try:
        with _quiet_parser():
            statements = parse()
        deep = any(statement and _measure_depth(statement) > DEEPEST for statement in statements)
    except Exception as problem:  # some texts, such as {:1}, make sqlglot fail in ways of its own
        raise PolicyError("SF-Q101", "This text is not valid SQL.", **_error_place(problem)) from None
    _refuse_tilde(text, statements)
    if deep:
        raise PolicyError("SF-Q113", f"A question may be nested at most {DEEPEST} levels deep.")
    return statements


def _refuse_tilde(text: str, statements: Sequence[Any]) -> None:
    """Refuse the operator ~, which sqlglot makes the same node of as regexp_matches."""
    found = any(each and each.find(exp.RegexpLike, exp.RegexpILike) for each in statements)
    if found and any(token.text.startswith(("~", "!~")) for token in DuckDB().tokenize(text)):
        raise PolicyError(
            "SF-Q159",
            "The operator ~ is not supported.",
            why="engines disagree whether it matches the whole text or a part of it",
            try_="REGEXP_MATCHES(note, 'late|broken'), or REGEXP_FULL_MATCH(note, '…')",
        )


class _OthersOnly(logging.Filter):
    """Drops what sqlglot says while it parses for us, and nothing that it says to others."""

    parsing: ContextVar[bool] = ContextVar("sfumato.parsing", default=False)

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.parsing.get()


logging.getLogger("sqlglot").addFilter(_OthersOnly())


@contextmanager
def _quiet_parser() -> Iterator[None]:
    """Keep sqlglot's warnings off the screen: we say ourselves what is refused, and why."""
    before = _OthersOnly.parsing.set(True)
    try:
        yield
    finally:
        _OthersOnly.parsing.reset(before)


def _error_place(problem: Exception) -> dict[str, str]:
    details = getattr(problem, "errors", None) or [{}]
    line, place = details[0].get("line"), details[0].get("col")
    return {"where": f"line {line}, column {place}"} if line else {}


def _measure_depth(root: exp.Expr) -> int:
    # A loop instead of recursion: the text may be nested deeper than Python's stack.
    deepest, stack = 0, [(root, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((child, depth + 1) for child in node.iter_expressions())
    return deepest
