"""What people see of an answer that was computed, chosen and sorted after the noise."""

import json
from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.catalog import declared
from sfumato.curator.plan import plan
from sfumato.curator.quote import Quote
from sfumato.curator.release import Release
from sfumato.curator.spend import Pure
from sfumato.engines.program import Present, Rows, Value
from sfumato.ledger import Released
from sfumato.queries.sql import question

TABLE = declared(
    "t",
    sf.Unit("who", max_rows=1),
    {"x": sf.between(0, 8, step=1), "ward": sf.one_of("C", "A", "B"), "age": sf.between(0, 9)},
)
CELLS = {Rows: [4000, 900, -3], Value: [8000, 3600, 5], Present: [4000, 900, -3]}


def _release(sql: str) -> Release:
    priced = plan(TABLE, question(sql), Pure(Fraction(1)))
    noisy = [CELLS[type(term)] for term in priced.program.terms]
    return Release(
        priced, Released(seq=1, head="", cost=priced.cost, answer=json.dumps(noisy), replayed=False)
    )


PER = "SELECT ward, COUNT(*) AS n, SUM(x) / COUNT(*) AS per FROM t GROUP BY ward"


def test_tables_and_intervals_follow_the_order_and_say_null() -> None:
    release = _release(f"{PER} ORDER BY per DESC")
    assert release.to_arrow().to_pydict() == {
        "ward": ["A", "C", "B"],
        "n": [900, 4000, -3],
        "per": [4.0, 2.0, None],
    }
    ends = release.interval().to_pydict()
    assert ends["ward"] == ["A", "C", "B"]
    assert ends["per_low"][0] < 4 < ends["per_high"][0]
    assert (ends["per_low"][2], ends["per_high"][2]) == (None, None)
    json.dumps(release.to_dict(), allow_nan=False)


def test_an_answer_without_groups_keeps_its_types() -> None:
    full, empty = _release(PER), _release(f"{PER} HAVING n > 9999")
    assert empty.to_arrow().num_rows == 0
    assert empty.to_arrow().schema == full.to_arrow().schema
    assert empty.interval().schema == full.interval().schema
    assert full.to_arrow().schema.field("n").type == pa.int64()
    assert "ward" in str(empty)
    assert empty.plot().to_json()


def test_the_text_names_nulls_and_the_width_of_computed_intervals() -> None:
    text = str(_release(f"{PER} LIMIT 3"))
    assert "null" in text
    assert "not known" in text
    assert "at least as often" in text
    assert "at least as often" not in str(_release("SELECT COUNT(*) AS n FROM t"))


def test_charts_leave_out_what_is_not_known() -> None:
    chart = _release(f"{PER} ORDER BY n").plot("per").to_json()
    assert '"A"' in chart
    assert '"B"' not in chart


@pytest.mark.parametrize(
    ("shown", "expected"),
    [("COUNT(*) / 2 AS a", 0.5), ("COUNT(*) AS a", 1.0), ("3 * COUNT(*) + 7 AS a", 3.0)],
)
def test_quotes_know_the_error_of_linear_numbers(shown: str, expected: float) -> None:
    one = _quote("SELECT COUNT(*) AS a FROM t").error()["a"]
    got = _quote(f"SELECT {shown} FROM t").error()["a"]
    assert one is not None
    assert got == pytest.approx(expected * one)


def test_quotes_say_which_errors_come_with_the_answer() -> None:
    quote = _quote("SELECT SUM(x) / COUNT(*) AS per, AVG(x) AS mean FROM t")
    assert quote.error() == {"per": None, "mean": None}
    assert "known only with the answer" in str(quote)
    assert "rows of the group" in str(quote)


def _quote(sql: str) -> Quote:
    return Quote(plan(TABLE, question(sql), Pure(Fraction(1))), 0.1, Fraction(1), Fraction(1), False, {})
