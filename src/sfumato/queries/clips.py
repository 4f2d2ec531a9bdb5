"""A measure of a SELECT with its values clipped, as SQL to paste."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_statement

_ARGUMENT = "argument_to_be_clipped"


def spell_clipped(text: str, name: str, low: str, high: str, *, present: bool) -> str | None:
    """Return the aggregate of a column of a SELECT, over values between two ends.

    None where the text is no SELECT, or the column has not one such aggregate. Where values may be missing
    they stay so: LEAST and GREATEST alone would make the nearer end of them.
    """
    try:
        columns = parse_statement(text).expressions
    except PolicyError:
        return None
    found = [
        each
        for column in columns
        if column.alias_or_name == name
        for each in column.find_all(exp.AggFunc)
        if not isinstance(each, exp.Count) and not each.expressions
    ]
    if len(found) != 1 or found[0].args.get("expression") is not None:
        return None
    aggregate = found[0].copy()
    argument = aggregate.this
    value = argument.sql(dialect=DuckDB)
    clipped = f"LEAST(GREATEST({value}, {low}), {high})"
    spelled = clipped if present else f"CASE WHEN {value} IS NOT NULL THEN {clipped} END"
    argument.replace(exp.column(_ARGUMENT))
    written: str = aggregate.sql(dialect=DuckDB)
    return written.replace(_ARGUMENT, spelled)
