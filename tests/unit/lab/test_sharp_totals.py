"""Where totals are sharper: on budgets without δ alone, at the same price, and never at a new one."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.expected_error import find_cheapest_spend
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.noise import LaplaceNoise, SharpTotalNoise

if TYPE_CHECKING:
    from pathlib import Path

ASKED = "SELECT COUNT(*) AS n, AVG(x) AS x FROM {}"
ROWS = pa.table({"who": np.arange(400), "x": pa.array([None if i % 7 == 0 else i % 50 for i in range(400)])})


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    for name, budget in (
        ("pure", sf.Budget(epsilon=1000)),
        ("both", sf.Budget(epsilon=1000, delta=1e-6)),
    ):
        unit = sf.Unit("who", max_rows=1, of=name)
        lab.register(name, ROWS, unit=unit, columns={"x": sf.between(0, 50, step=1)}, budget=budget)
    return lab


def find_noise(session: Any, table: str, **spend: Any) -> Any:
    return session.sql(ASKED.format(table)).plan(spend).measured[0].noise


def test_accounts_without_delta_have_sharper_totals(lab: sf.Lab) -> None:
    session = lab.session()
    assert isinstance(find_noise(session, "pure", epsilon=1), SharpTotalNoise)
    assert isinstance(find_noise(session, "pure", share=0.01), SharpTotalNoise)
    assert isinstance(find_noise(session, "both", epsilon=1), LaplaceNoise)
    for spend in ({"epsilon": 1}, {"share": 0.01}):
        plan = session.sql(ASKED.format("both")).plan(spend)
        assert not any(isinstance(each.noise, SharpTotalNoise) for each in plan.measured)


def test_a_quota_without_delta_does_not_make_a_population_dearer(lab: sf.Lab) -> None:
    """All accounts that pay must be without a δ: Rényi divergences of this noise may be higher."""
    lab.grant("ada", epsilon=5, tables=["both"])
    assert isinstance(find_noise(lab.session("ada"), "both", epsilon=1), LaplaceNoise)


def test_pure_prices_are_as_they_were(lab: sf.Lab) -> None:
    plan = lab.session().sql(ASKED.format("pure")).plan({"epsilon": 1})
    assert plan.event.pure() == plan.with_shape(True).event.pure() == 1


def test_answers_are_kept_with_their_noise_and_refined(lab: sf.Lab) -> None:
    query = lab.session().sql(ASKED.format("pure"))
    first, again = query.release(epsilon=1), query.release(epsilon=1)
    assert again.receipt.replayed
    assert first.to_arrow() == again.to_arrow()
    assert first.interval() == again.interval()
    # Of 400 rows, 57 have no value: noise has a deviation of 2.3 rows.
    low, high = (first.interval().to_pydict()[name][0] for name in ("n_low", "n_high"))
    assert 380 < low < high < 420
    assert high - low <= 10
    assert first.refine(epsilon=3).interval().num_rows == 1


def test_an_answer_kept_with_plain_noise_is_found_and_free(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier version kept it: by its request, with the coordinates A, B and C."""
    with monkeypatch.context() as before:
        before.setattr("sfumato.curator.payer.Payer.adds_pure", lambda *_: False)
        kept = lab.session().sql(ASKED.format("pure")).release(epsilon=1)
        assert isinstance(find_noise(lab.session(), "pure", epsilon=1), LaplaceNoise)
    query = lab.session().sql(ASKED.format("pure"))
    assert query.quote(epsilon=1).free
    found = query.release(epsilon=1)
    assert found.to_arrow() == kept.to_arrow()
    assert found.interval() == kept.interval()


def test_wished_errors_never_cost_more(lab: sf.Lab) -> None:
    session = lab.session()
    for error in ({"n": 10}, {"x": 1}):
        query = session.sql(ASKED.format("pure"))
        resolved = query.plan({"epsilon": 1}).resolved
        plain = find_cheapest_spend(resolved, error, {"n": 400}, PureSpend(Fraction(1), shaped=True))
        ours = query.plan({"error": error, "given": {"n": 400}})
        assert ours.spend.epsilon <= plain.epsilon
        assert (ours.spend.epsilon < plain.epsilon) is ("n" in error)


def test_a_wished_error_that_was_paid_for_is_found(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr("sfumato.curator.payer.Payer.adds_pure", lambda *_: False)
        kept = lab.session().sql(ASKED.format("pure")).release(error={"n": 10})
    found = lab.session().sql(ASKED.format("pure")).release(error={"n": 10})
    assert found.receipt.replayed
    assert found.to_arrow() == kept.to_arrow()


def test_questions_together_have_the_noise_that_they_have_alone(lab: sf.Lab) -> None:
    for table, kind in (("pure", SharpTotalNoise), ("both", LaplaceNoise)):
        asked = lab.session().ask_together([ASKED.format(table), f"SELECT COUNT(*) AS n FROM {table}"])
        noises = [each.noise for step in asked._plan({"epsilon": 2}).steps for each in step.measured]
        assert any(isinstance(each, kind) for each in noises)
        assert not any(isinstance(each, SharpTotalNoise) for each in noises if kind is LaplaceNoise)
        one, other = asked.release(epsilon=2)
        assert one.to_arrow()["n"] == other.to_arrow()["n"]
        again = asked.release(epsilon=2)
        assert [each.to_arrow() for each in again] == [one.to_arrow(), other.to_arrow()]


def test_the_price_of_a_plan_is_its_noises(lab: sf.Lab) -> None:
    """Priced where Rényi divergences add up, a plan for accounts without δ says what it would cost there."""
    resolved = lab.session().sql(ASKED.format("both")).plan({"epsilon": 1}).resolved
    plain, sharp = (
        price_question(resolved, PureSpend(Fraction(1), shaped=True, sharp_totals=sharp))
        for sharp in (False, True)
    )
    assert sharp.request == plain.request
    assert sharp.event.renyi(2.0) >= plain.event.renyi(2.0)
