"""Questions are lowered, priced and looked up as often as they must be, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.payer import Payer
from sfumato.curator.plan import plan, resolved, summands
from sfumato.lab import query

SQL = """
SELECT ward, COUNT(*) AS n, AVG(age) AS mean, STDDEV(age) AS spread, MEDIAN(age) AS mid,
    SUM(age) / COUNT(*) AS per
FROM t GROUP BY ward HAVING COUNT(*) > -1000 ORDER BY SUM(age) DESC
"""


@pytest.fixture
def session(tmp_path: Path) -> Any:
    lab = sf.create(tmp_path / "lab")
    source = pa.table({"age": [30.0, 40.0, 50.0], "ward": ["A", "B", "A"]})
    columns = {"age": sf.between(0, 110), "ward": sf.one_of("A", "B")}
    lab.register("t", source, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=100))
    return lab.session()


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("not to be called")


def test_an_answer_is_printed_without_lowering_its_question_again(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = session.sql(SQL).release(epsilon=10)
    for module in (resolved, summands):
        monkeypatch.setattr(module, "lower_expression", _refuse)
    monkeypatch.setattr(resolved, "lower_relation", _refuse)
    assert "see r.caveats" in str(release)
    assert list(release.caveats) == release.to_dict()["bias"] != []
    assert release.all_groups().interval().num_rows == 3
    assert release.plot("mean") is not None


def test_a_question_is_checked_without_a_price(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (query, plan):
        monkeypatch.setattr(module, "price_question", _refuse)
    session.sql(SQL)
    with pytest.raises(sf.errors.PolicyError, match="SF-Q134"):
        session.sql("SELECT AVG(NULL) AS a FROM t")


def test_budgets_are_read_for_a_share_alone(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise depends on the question and the spend, and not on who pays."""
    asked, shaped = (
        session.sql("SELECT ward, COUNT(*) AS n, MEDIAN(age) AS m FROM t GROUP BY ward"),
        session.sql(SQL),
    )
    monkeypatch.setattr(type(session._lab.ledger), "read_allowance", _refuse)
    assert asked.plan({"epsilon": 1}).cost
    assert asked.plan({"error": {"n": 5}}).cost
    assert shaped.plan({"epsilon": 1}).cost
    assert shaped.plan({"error": {"n": 5}}).cost
    with pytest.raises(AssertionError, match="not to be called"):
        asked.plan({"share": 0.1})


def test_a_plan_is_priced_once(session: Any) -> None:
    found = session.sql(SQL).plan({"epsilon": 1})
    assert found.event is found.event
    assert found.cost is found.cost
    assert found.request is found.request


def test_parts_have_the_receipt_of_what_was_charged_together(session: Any) -> None:
    released = session.table("t").partition("ward").agg(n=sf.count()).release(epsilon=1)
    receipts = {id(each.receipt): each.receipt for each in released.values()}
    assert len(receipts) == 1
    assert "ε = 1" in next(iter(receipts.values())).charged


def test_whoever_has_no_quota_learns_nothing_of_what_others_asked(tmp_path: Path) -> None:
    """Not even by how long a refusal takes: accounts are looked up before earlier answers are."""
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=9)
    for name in ("one", "two"):
        table = pa.table({"who": [1, 2], "x": [0.5, 0.6]})
        own = sf.Unit("who", max_rows=1, of=name)
        lab.register(name, table, unit=own, columns={"x": sf.between(0, 1)}, budget=budget)
        if name == "one":
            lab.grant("ada", epsilon=1)
    plan = lab.session().sql("SELECT COUNT(*) AS n FROM two").quote(epsilon=1).plan
    with pytest.raises(sf.errors.SfumatoError, match="SF-B103"):
        Payer(lab, "ada").was_answered(plan)
