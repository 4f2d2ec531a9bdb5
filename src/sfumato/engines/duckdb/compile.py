"""A program as one SQL text: our words, stored column names and integers, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.engines.program import (
    LARGEST_SQUARE,
    Among,
    AtLeast,
    AtMost,
    Every,
    Missing,
    Not,
    Predicate,
    Present,
    Rows,
    Some,
    Square,
    Term,
    Units,
    Value,
    Weight,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sfumato.engines.program import Key, Program

_LIMIT = 2**62
"""Stored integers lie within ±2^53: comparing with more than this changes nothing."""
_SHORT = 20
"""Longer lists are joined with: DuckDB parses one text far faster than as many integers."""


def compile_program(program: Program, columns: Mapping[str, str]) -> str:
    """SQL whose rows are the cells that have any: the cell's number, then the sum of each term as HUGEINT.

    `columns` leads from declared names to stored ones.
    """
    sums = [f"CAST({_sum(term, f'w{i}', columns)} AS HUGEINT)" for i, term in enumerate(program.terms)]
    where = _joined("AND", (_where(program.where, columns), *(_inside(key, columns) for key in program.keys)))
    group = ", ".join(columns[key.column] for key in program.keys) or "()"
    chosen = ", ".join([_cell(program.keys, columns), *sums])
    return f"SELECT {chosen} FROM {_relation(program.terms)} WHERE {where} GROUP BY {group}"  # noqa: S608


def _relation(terms: tuple[Term, ...]) -> str:
    """The stored rows beside one row that holds the weights of each weighted term as a list."""
    lists = [f"{_list(t.weights)} AS w{i}" for i, t in enumerate(terms) if isinstance(t, Weight)]
    return "snapshot.rows" + (f", (SELECT {', '.join(lists)}) AS lists" if lists else "")


def _where(predicate: Predicate, columns: Mapping[str, str]) -> str:
    match predicate:
        case AtLeast(column, value):
            return f"{columns[column]} >= {_clamped(value)}"
        case AtMost(column, value):
            return f"{columns[column]} <= {_clamped(value)}"
        case Among(column, codes):
            return _among(columns[column], codes)
        case Missing(column):
            return f"{columns[column]} IS NULL"
        case Not(part):
            return f"NOT ({_where(part, columns)})"
        case Every(parts):
            return _joined("AND", (_where(part, columns) for part in parts)) or "true"
        case Some(parts):
            return _joined("OR", (_where(part, columns) for part in parts)) or "false"


def _among(column: str, codes: tuple[int, ...]) -> str:
    if not codes:
        return f"{column} <> {column}"  # false, and unknown where missing, as a list with codes would be
    listed = [_clamped(code) for code in codes]
    if len(codes) <= _SHORT:
        return f"{column} IN ({', '.join(map(str, listed))})"
    return f"{column} IN (SELECT unnest({_list(listed)}))"


def _sum(term: Term, weights: str, columns: Mapping[str, str]) -> str:
    match term:
        case Rows():
            return "count(*)"
        case Units():
            return "count(DISTINCT unit)"
        case Present(column):
            return f"count({columns[column]})"
        case Value(column, centre):
            stored = columns[column]
            return f"COALESCE(sum({stored}), 0) - CAST({_bounded(centre)} AS HUGEINT) * count({stored})"
        case Square(column, centre, shift):
            return f"COALESCE(sum({_square(columns[column], _bounded(centre), _shift(shift))}), 0)"
        case Weight(column):
            return f"COALESCE(sum({weights}[CAST({columns[column]} AS BIGINT) + 1]), 0)"


def _square(stored: str, centre: int, shift: int) -> str:
    """Cut by CASE, which keeps a missing value missing; least would make it the bound."""
    deviation = f"(CAST({stored} AS HUGEINT) - CAST({centre} AS HUGEINT))"
    square = f"(({deviation} * {deviation}) >> {shift})"
    return f"CAST(CASE WHEN {square} > {LARGEST_SQUARE} THEN {LARGEST_SQUARE} ELSE {square} END AS BIGINT)"


def _list(integers: Iterable[int]) -> str:
    return f"CAST('[{', '.join(str(_bounded(integer)) for integer in integers)}]' AS BIGINT[])"


def _cell(keys: tuple[Key, ...], columns: Mapping[str, str]) -> str:
    """The position in the product of the keys, the last fastest."""
    cell = "CAST(0 AS BIGINT)"
    for key in keys:
        cell = f"({cell} * {key.size} + {columns[key.column]})"
    return cell


def _inside(key: Key, columns: Mapping[str, str]) -> str:
    """Not missing, and total: no stored code can make a cell that is not there."""
    return f"{columns[key.column]} BETWEEN 0 AND {key.size - 1}"


def _joined(word: str, parts: Iterable[str]) -> str:
    return f" {word} ".join(f"({part})" for part in parts)


def _clamped(value: int) -> int:
    return max(-_LIMIT, min(value, _LIMIT))


def _shift(bits: int) -> int:
    if not 0 <= bits < 127:
        raise OverflowError("a square is shifted by 0 to 126 bits")
    return bits


def _bounded(value: int) -> int:
    if _clamped(value) != value:
        raise OverflowError("a weight or a centre lies beyond 2^62")
    return value
