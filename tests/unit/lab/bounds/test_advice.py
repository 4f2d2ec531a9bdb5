"""What a quote says beside errors: bounds that nobody chose, and answers that say nothing at a price."""

from __future__ import annotations

import re
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.lab.bounds.derived_bounds import propose_ends

SIZE = 20_000
START, END = date(2023, 1, 1), date(2023, 12, 31)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Stays of two weeks on average; `known` has the same rows, and their number is public."""
    rng = np.random.default_rng(0)
    came = [START + timedelta(days=int(each)) for each in rng.integers(0, 250, SIZE)]
    left = [day + timedelta(days=int(each)) for day, each in zip(came, rng.gamma(2, 7, SIZE), strict=True)]
    columns = {"came": pa.array(came), "left_on": pa.array(left), "amount": rng.gamma(2, 300, SIZE),
               "ward": rng.choice(["A", "B"], SIZE)}  # fmt: skip
    declared = {
        "came": sf.between(START, END, missing=START),
        "left_on": sf.between(START, END),
        "amount": sf.between(0, 5000),
        "ward": sf.one_of("A", "B"),
    }
    lab = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    table = pa.table({"who": np.arange(SIZE), **columns})
    lab.register("t", table, unit=sf.Unit("who", max_rows=5), columns=declared, budget=sf.Budget(10**4, 1e-5))
    public = {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "rows": SIZE}
    lab.register("known", pa.table(columns), columns=declared, budget=sf.Budget(10**4, 1e-5), **public)
    return lab.session()


def notes(quote: Any) -> str:
    return "\n".join(quote.to_dict()["notes"])


# ---- derived bounds ----------------------------------------------------------------------------------------

DERIVED = {
    "AVG(DATE_DIFF('day', came, left_on))": "−364 to 364",
    "SUM(left_on - came)": "−364 to 364",
    "STDDEV(left_on - came)": "−364 to 364",
    "AVG(amount * amount)": "0 to 25,000,000",
    "AVG(GREATEST(left_on - came, 0))": "0 to 364",
}
CHOSEN = (
    "AVG(amount)",
    "SUM(amount * 2 + 1)",
    "AVG(LEAST(GREATEST(left_on - came, 0), 30))",
    "COUNT(*)",
    "MEDIAN(amount)",
    "AVG(CASE WHEN ward = 'A' THEN amount END)",
    "AVG(CASE WHEN amount > 1 THEN LEAST(GREATEST(amount / amount, 0), 2) END)",
    "MAX(left_on - came)",
    "AVG(YEAR(came))",
    "SUM(CASE WHEN amount > 3 THEN 1 ELSE 0 END)",
)


@pytest.mark.parametrize("measure", DERIVED)
def test_derived_bounds_are_named(session: Any, measure: str) -> None:
    said = notes(session.sql(f"SELECT {measure} AS x FROM t").quote(epsilon=1))
    assert said.startswith(f"bounds of x: {DERIVED[measure]}, derived from the expression and not declared")


@pytest.mark.parametrize("measure", CHOSEN)
def test_bounds_that_were_declared_or_clipped_are_not(session: Any, measure: str) -> None:
    assert "bounds" not in notes(session.sql(f"SELECT {measure} AS x FROM t").quote(epsilon=1))


def test_bounds_are_followed_into_subqueries(session: Any) -> None:
    inner = "SELECT who, {} AS x FROM t{}"
    for of, by, derived in (
        ("left_on - came", "", True),
        ("LEAST(GREATEST(left_on - came, 0), 9)", "", False),
        ("amount", "", False),
        ("SUM(amount)", " GROUP BY who", True),
        ("MAX(amount)", " GROUP BY who", False),
    ):
        said = notes(session.sql(f"SELECT AVG(x) AS x FROM ({inner.format(of, by)})").quote(epsilon=1))
        assert ("derived" in said) is derived, of


@pytest.mark.parametrize(
    ("spend", "measure"),
    [
        ({"epsilon": 1}, "AVG(DATE_DIFF('day', came, left_on))"),
        ({"epsilon": 1, "delta": 1e-7}, "SUM(left_on - came)"),
        ({"rho": 0.1}, "STDDEV(left_on - came)"),
    ],
    ids=["average", "sum", "deviation"],
)
def test_the_clip_that_is_proposed_has_the_error_that_is_said(
    session: Any, spend: dict[str, float], measure: str
) -> None:
    """It is pasted as it stands. With the same spend its error is less by the share that the quote said."""
    given = {"n": SIZE}
    sql = "SELECT {} AS x FROM t WHERE ward = 'A'"
    wide = session.sql(sql.format(measure)).quote(**spend, given=given)
    found = re.search(
        r"If values lie from −50 to 50, (\d+) % of the error goes with (.+)$", notes(wide), re.MULTILINE
    )
    assert found is not None
    assert "IS NOT NULL THEN LEAST(GREATEST(" in found[2]
    narrow = session.sql(sql.format(found[2])).quote(**spend, given=given)
    assert "bounds" not in notes(narrow)
    assert round(100 * (1 - narrow.error()["x"] / wide.error()["x"])) == int(found[1]) > 50


def test_missing_values_stay_missing_under_the_proposed_clip(tmp_path: Path) -> None:
    """LEAST and GREATEST alone would count them as the nearer end."""
    lab = sf.create(tmp_path / "lab")
    table = pa.table({"who": range(400), "a": [10.0] * 400, "b": [14.0, None] * 200})
    declared = {"a": sf.between(0, 1000), "b": sf.between(0, 1000)}
    lab.register("t", table, unit=sf.Unit("who", max_rows=1), columns=declared, budget=sf.Budget(10**6))
    wide = lab.session().sql("SELECT AVG(b - a) AS x FROM t")
    clip = notes(wide.quote(epsilon=1)).split(" goes with ")[1]
    narrow = lab.session().sql(f"SELECT {clip} AS x FROM t").release(epsilon=50)
    assert narrow.to_arrow()["x"][0].as_py() == pytest.approx(4, abs=1)
    naive = lab.session().sql("SELECT AVG(LEAST(GREATEST(b - a, -100), 100)) AS x FROM t").release(epsilon=50)
    assert naive.to_arrow()["x"][0].as_py() < 0  # what a clip without CASE comes to


def test_the_stay_that_was_off_by_hundreds_is_found_with_its_clip(session: Any) -> None:
    wide = session.sql("SELECT AVG(DATE_DIFF('day', came, left_on)) AS x FROM t").quote(epsilon=0.5)
    clip = notes(wide).split(" goes with ")[1]
    answer = session.sql(f"SELECT {clip} AS x FROM t").release(epsilon=0.5)
    assert answer.to_arrow()["x"][0].as_py() == pytest.approx(13.5, abs=1.5)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (-71, 329, (-50, 50)),
        (-1, 329, (-1, 50)),
        (0, 5000, (0, 500)),
        (1000, 5000, (1000, 1500)),
        (-30, -10, (-12, -10)),
        (0, Fraction(1, 3), (0, Fraction(1, 20))),
        (-365, 365, (-50, 50)),
    ],
)
def test_proposed_ends_are_round_and_within_the_bounds(low: Any, high: Any, ends: tuple[Any, Any]) -> None:
    assert propose_ends(Fraction(low), Fraction(high)) == ends


# ---- answers that say nothing ------------------------------------------------------------------------------

USELESS = {
    "the highest": ("SELECT MAX(amount) AS x FROM known", {"epsilon": 0.001}, {}),
    "a median": ("SELECT MEDIAN(amount) AS x FROM known", {"epsilon": 0.0005}, {}),
    "a count": ("SELECT COUNT(*) AS x FROM known WHERE ward = 'A'", {"epsilon": 0.0001}, {}),
    "a sum": ("SELECT SUM(amount) AS x FROM t", {"epsilon": 0.01}, {"n": 50}),
    "an average": ("SELECT AVG(amount) AS x FROM t", {"epsilon": 0.01}, {"n": 50}),
    "groups": (
        "SELECT ward, AVG(amount) AS x, COUNT(*) AS n FROM t GROUP BY ward",
        {"epsilon": 0.001},
        {"n": 500},
    ),
    "few values": ("SELECT COUNT(DISTINCT ward) AS x FROM t", {"epsilon": 0.1}, {}),
    "by rho": ("SELECT MAX(amount) AS x, COUNT(*) AS n FROM t", {"rho": 1e-5}, {"n": 500}),
    "with a delta": ("SELECT STDDEV(amount) AS x FROM t", {"epsilon": 0.001, "delta": 1e-8}, {"n": 500}),
    "by share": ("SELECT COUNT(*) AS x FROM t", {"share": 1e-9}, {"n": 50}),
    "by risk": ("SELECT COUNT(*) AS x FROM t", {"risk": 0.5001}, {"n": 50}),
    "for an error": ("SELECT COUNT(*) AS x FROM t", {"error": {"x": 9000}}, {"n": 50}),
}


@pytest.mark.parametrize("name", USELESS)
def test_the_price_that_is_named_is_the_least_that_informs(session: Any, name: str) -> None:
    """At it the warning is gone; at nine tenths of it, it is still there (two digits, rounded up)."""
    sql, spend, given = USELESS[name]
    asked = session.sql(sql)
    said = notes(asked.quote(**spend, given=given))
    found = re.search(
        r"^warning: uninformative at this price: .*; needs (ε|ρ|share) ≥ ([\d.e-]+)$", said, re.MULTILINE
    )
    assert found is not None, said
    kind = {"ε": "epsilon", "ρ": "rho", "share": "share"}[found[1]]
    more = {name: value for name, value in spend.items() if name == "delta"}
    needed = Fraction(found[2])
    assert "uninformative" not in notes(asked.quote(**{kind: needed}, **more, given=given))
    assert "uninformative" in notes(asked.quote(**{kind: needed * Fraction(4, 5)}, **more, given=given))


def test_nothing_is_said_where_the_number_of_rows_is_secret(session: Any) -> None:
    for sql in (
        "SELECT MAX(amount) AS x FROM t",
        "SELECT COUNT(*) AS x FROM t",
        "SELECT AVG(amount) AS x FROM t",
    ):
        assert notes(session.sql(sql).quote(epsilon=1e-3)) == ""
    assert "says nothing about a group of fewer rows" in str(
        session.sql("SELECT MAX(amount) AS x FROM t").quote(epsilon=1)
    )


def test_no_price_helps_where_none_can_be_asked_for(session: Any) -> None:
    said = notes(session.sql("SELECT COUNT(DISTINCT ward) AS x FROM t").quote(share=1e-9))
    assert "needs share ≥" in said
    said = notes(session.sql("SELECT MAX(amount) AS x FROM t").quote(share=1e-9, given={"n": 1}))
    assert "uninformative at this price" in said


def test_quotes_of_quantiles_are_in_ranks(session: Any) -> None:
    quote = session.sql("SELECT MEDIAN(amount) AS mid, MAX(amount) AS most, MODE(ward) AS ward FROM t").quote(
        epsilon=1
    )
    rows = {name: error for name, error, _ in quote.to_dict()["errors"]}
    assert re.fullmatch(r"about [\d,]+ rows in rank", rows["mid"])
    assert re.fullmatch(r"at most [\d,]+ rows beyond it", rows["most"])
    assert "rows fewer than the most frequent value" in rows["ward"]
    planned = session.plan(["SELECT MAX(amount) AS most FROM t"], epsilon=1)
    assert "most at most" in str(planned)
    assert "±" not in str(planned)


def test_a_quote_is_what_is_charged(session: Any) -> None:
    """To the last digit, with and without a warning, a derived bound or a clip."""
    for sql, spend in (
        ("SELECT AVG(left_on - came) AS x FROM t", {"epsilon": 0.37}),
        ("SELECT MAX(amount) AS x FROM known", {"epsilon": 0.001}),
        ("SELECT SUM(LEAST(GREATEST(left_on - came, 0), 31)) AS x FROM t", {"epsilon": 0.21, "delta": 1e-7}),
        ("SELECT MEDIAN(amount) AS x, COUNT(*) AS n FROM t", {"rho": 0.013}),
        ("SELECT COUNT(*) AS x FROM t WHERE amount > 1e9", {"epsilon": 1}),
    ):
        ledger, account = session._lab.ledger, "population:known" if "known" in sql else "population:who"
        before = ledger.read_spent(account)
        quote = session.sql(sql).quote(**spend)
        session.sql(sql).release(**spend)
        assert ledger.read_spent(account) == before + quote.plan.cost, sql


def test_questions_that_are_asked_together_are_advised_too(session: Any) -> None:
    asked = ["SELECT AVG(left_on - came) AS x FROM t", "SELECT COUNT(DISTINCT ward) AS n FROM t"]
    said = notes(session.ask_together(asked).quote(epsilon=0.1))
    assert "bounds of x (query 1): −364 to 364" in said
    assert "warning (query 2): uninformative at this price: n" in said


def test_the_public_number_of_rows_is_quoted_as_free(session: Any) -> None:
    asked = session.sql("SELECT COUNT(*) AS n FROM known")
    quote = asked.quote(epsilon=1)
    assert (quote.free, quote.epsilon, quote.to_dict()["price"]) == (True, 0, "nothing")
    assert str(quote).startswith("Quote: free, because the number of rows is public")
    assert asked.release(epsilon=1).receipt.charged == "nothing"
