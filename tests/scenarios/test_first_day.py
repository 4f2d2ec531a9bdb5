"""The sixty questions of the first day, asked through a session and compared with plain DuckDB.

Every mechanism gives its exact input instead of a noisy answer, by the hook for auditors, so that what is
compared went the whole way of a release: SQL in, priced, charged, read, computed after the noise, shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

import sfumato as sf
from scenarios.first_day.questions import Question, read_questions
from scenarios.first_day.tables import FACTS, LOOKUPS, build_tables
from sfumato.errors import SfumatoError
from sfumato.noise import ExtremeMechanism, GaussianNoise, LaplaceNoise, ModeMechanism
from sfumato.noise.audit_hook import MechanismCall, recording
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.noise.ordered.quantiles import QuantilesMechanism

QUESTIONS = read_questions()
ANSWERED = [question for question in QUESTIONS if question.answerable]
REFUSED = [question for question in QUESTIONS if not question.answerable]


# ---- the exact path ----------------------------------------------------------------------------------------


class Exact:
    """Gives what a mechanism was given: sums as they are, quantiles as plain SQL defines them, every key."""

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        match call.mechanism:
            case LaplaceNoise() | GaussianNoise() | JointNoise():
                return np.asarray(call.exact)
            case QuantilesMechanism(shares=shares):
                return np.array([_choose(call.exact, float(share)) for share in shares])
            case ExtremeMechanism(highest=highest):
                return _choose(call.exact, 1.0 if highest else 0.0)
            case ModeMechanism():
                return call.exact.counts(0, call.exact.groups).argmax(axis=1)
        return draw()


def _choose(table: Any, share: float) -> np.ndarray:
    """The cell of every group at this share of its rows, between two as plain SQL; 0 in empty groups."""
    counts = np.ones(len(table.places)) if table.before is None else np.diff(table.before)
    rows = np.repeat(table.places.astype(np.int64), counts.astype(np.int64))
    groups = [rows[rows // table.cells == group] % table.cells for group in range(table.groups)]
    return np.array([int(np.quantile(each, share)) if len(each) else 0 for each in groups])


# ---- the lab -----------------------------------------------------------------------------------------------


def _declare(facts: dict[str, Any]) -> Any:
    """What a steward declares about a column; one that is never missing has no group for that."""
    if "values" in facts:
        return sf.one_of(*facts["values"], missing=None if facts["nullable"] else facts["values"][0])
    if facts["type"] == "BOOLEAN":
        return sf.one_of(False, True, missing=None if facts["nullable"] else False)
    if "low" not in facts:
        return sf.text()
    ends = [float(end) if isinstance(end, Decimal) else end for end in (facts["low"], facts["high"])]
    step = 1 if facts["type"] in ("INTEGER", "BIGINT") else None
    return sf.between(*ends, step=step, missing=None if facts["nullable"] else ends[0])


def _declare_public(values: list[Any]) -> Any:
    if isinstance(values[0], str):
        return sf.one_of(*dict.fromkeys(values))
    numbers = [float(value) for value in values]
    whole = all(isinstance(value, int) for value in values)
    return sf.between(min(numbers), max(numbers), step=1 if whole else None)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.Session:
    lab, tables = sf.create(tmp_path_factory.mktemp("first") / "day"), build_tables()
    for name, columns in LOOKUPS.items():
        declared = {column: _declare_public(values) for column, values in columns.items()}
        lab.register(name, tables[name], unit=sf.PUBLIC, columns=declared)
    for name, facts in FACTS.items():
        unit = sf.Unit(facts["unit"], max_rows=facts["max_rows"], of=f"{facts['unit']}s")
        declared = {
            column: _declare(of) for column, of in facts["columns"].items() if column != facts["unit"]
        }
        budget = sf.Budget(epsilon=1_000_000, delta=1e-3)
        lab.register(name, tables[name], unit=unit, columns=declared, budget=budget)
    return lab.session()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, table in build_tables().items():
        connection.register("generated", table)
        connection.execute(f"CREATE TABLE {name} AS FROM generated")
        connection.unregister("generated")
    return connection


def _ask(session: sf.Session, sql: str) -> pa.Table:
    """The answer without noise, at an ε with which hardly any is expected: averages are then plain ones."""
    with recording(Exact()):
        answer: pa.Table = session.sql(sql).release(epsilon=1000).to_arrow()
        return answer


# ---- comparison --------------------------------------------------------------------------------------------

Row = tuple[Any, ...]
BOUNDARY = {"admissions-09": 1}
"""Rows on the very boundary of a condition, which the grid of the column puts on its other side."""


@dataclass(frozen=True)
class Near:
    """How near two rows must be: keys equal, numbers up to their grid, or to the last digit of ROUND."""

    digits: tuple[float, ...]
    rows: int

    def are(self, one: Row, other: Row) -> bool:
        return len(one) == len(other) and all(map(self._is, one, other, self.digits))

    def _is(self, one: Any, other: Any, digit: float) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            within = math.isclose(one, other, rel_tol=1e-5, abs_tol=max(digit, 1e-6))
            return within or abs(one - other) <= self.rows * max(1.0, abs(other) / 1000)
        return bool(one == other)


def _plainly(value: Any) -> Any:
    """A value of either side in one type: numbers as doubles, dates as timestamps."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, datetime | date):
        return datetime(*value.timetuple()[:6])
    return None if math.isnan(value) else float(value)


def _last_digit(shown: exp.Expression) -> float:
    """One unit of the last digit of a rounded number: on our grid rounding may go the other way."""
    if not isinstance(shown.unalias(), exp.Round):
        return 0.0
    digits = shown.unalias().args.get("decimals")
    return 1.01 * 10.0 ** -int(0 if digits is None else digits.this)


def _match(ours: list[Row], theirs: list[Row], near: Near) -> tuple[list[Row], list[Row]]:
    """Rows of either side that have no partner on the other."""
    left, extra = list(theirs), []
    for row in ours:
        found = next((i for i, other in enumerate(left) if near.are(row, other)), None)
        if found is None:
            extra.append(row)
        else:
            left.pop(found)
    return extra, left


def _is_empty(row: Row, shown: list[exp.Expression]) -> bool:
    """Whether a row of the answer is a declared group that nobody is in, whatever its place among others."""
    pairs = [pair for pair in zip(row, shown, strict=True) if not pair[1].find(exp.Window)]
    numbers = [value for value, each in pairs if each.find(exp.AggFunc)]
    numbers = numbers or [value for value, _ in pairs if isinstance(value, float)]
    return bool(numbers) and all(value in (None, 0) or isinstance(value, str) for value in numbers)


def _ordered_by(select: Any, names: list[str]) -> list[int]:
    """The shown columns of a final ORDER BY, up to the first that is not shown."""
    order, places = select.args.get("order"), []
    for each in [] if order is None else order.expressions:
        term = each.this.sql()
        place = int(term) - 1 if term.isdigit() else names.index(term) if term in names else None
        if place is None:
            break
        places.append(place)
    return places


def _compare(question: Question, answer: pa.Table, plain: duckdb.DuckDBPyConnection) -> None:
    cursor, select = plain.execute(question.sql), parse_one(question.sql, dialect="duckdb")
    names = [column[0] for column in cursor.description or ()]
    theirs = [tuple(map(_plainly, row)) for row in cursor.fetchall()]
    ours = [tuple(map(_plainly, row.values())) for row in answer.to_pylist()]
    columns = getattr(select, "selects", [])  # PIVOT has none
    shown = columns if len(columns) == len(names) else [exp.Literal.number(0)] * len(names)
    near = Near(tuple(map(_last_digit, shown)), BOUNDARY.get(str(question), 0))
    assert answer.column_names == names or len(names) == 1
    extra, missing = _match(ours, theirs, near)
    assert missing == []
    assert [row for row in extra if not _is_empty(row, shown)] == []
    places = _ordered_by(select, names)
    in_order = replace(near, digits=tuple(near.digits[place] for place in places))
    both = zip([row for row in ours if row not in extra], theirs, strict=True)
    for one, other in both:
        assert in_order.are(tuple(one[at] for at in places), tuple(other[at] for at in places))


def _compare_names(question: Question, facts: Any, plain: duckdb.DuckDBPyConnection) -> None:
    """What there is: its names. The unit, which is never shown, is named above the columns."""
    told = {row[0] for row in plain.execute(question.sql).fetchall()}
    units = {FACTS[question.table]["unit"]} & told
    assert all(unit in str(facts) for unit in units)
    assert told == set(facts.to_arrow().column(0).to_pylist()) | units


@pytest.mark.parametrize("question", ANSWERED, ids=str)
def test_the_answer_is_that_of_plain_duckdb(
    session: sf.Session, plain: duckdb.DuckDBPyConnection, question: Question
) -> None:
    if question.sql.startswith(("SHOW", "DESCRIBE")):
        _compare_names(question, session.sql(question.sql), plain)
    else:
        _compare(question, _ask(session, question.sql), plain)


@pytest.mark.parametrize("question", REFUSED, ids=str)
def test_what_is_not_answered_is_refused_with_an_alternative(session: sf.Session, question: Question) -> None:
    spent = session.budget.to_dict()
    with pytest.raises(SfumatoError) as refusal:
        session.sql(question.sql)
    assert "hint" in str(refusal.value)
    assert session.budget.to_dict() == spent


def test_so_many_are_answered() -> None:
    assert len(ANSWERED) >= 55
