"""Bounds that are picked for one question, and sums clipped by unit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import EngineError, SfumatoError
from sfumato.lab.bounds.tuning import PickedBounds
from sfumato.lab.query import Query, TunedQuery
from sfumato.lab.session import Session

RNG = np.random.default_rng(1)
WHO = np.repeat(np.arange(900), np.minimum(RNG.geometric(0.3, 900), 12))
VISITS = pa.table(
    {
        "who": WHO,
        "cost": RNG.uniform(-10, 40, len(WHO)),
        "ward": RNG.choice(["A", "B", "C"], len(WHO)),
        "sex": np.array(["F", "M"])[WHO % 2],
        "note": RNG.choice(["pain", "cough"], len(WHO)),
    }
)
COLUMNS = {
    "cost": sf.between(-1000, 1000),
    "ward": sf.one_of("A", "B", "C"),
    "sex": sf.one_of("F", "M", constant=True),
    "note": sf.text(),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    made = make_lab(tmp_path_factory.mktemp("tuning") / "lab")
    one = sf.Unit("who", max_rows=1, of="people")
    made.register("people", VISITS.slice(0, 3), unit=one, columns={"cost": sf.between(0, 9)})
    return made


def make_lab(folder: Path) -> sf.Lab:
    lab = sf.create(folder)
    unit, budget = sf.Unit("who", max_rows=100, of="people"), sf.Budget(epsilon=1000, delta=1e-6)
    lab.register("visits", VISITS, unit=unit, columns=COLUMNS, budget=budget)
    return lab


@pytest.fixture
def session(lab: sf.Lab) -> Session:
    return lab.session()


def refuse(call: Callable[[], Any]) -> SfumatoError:
    with pytest.raises(SfumatoError) as refused:
        call()
    return refused.value


def test_rows_are_picked_for_counts(session: Session) -> None:
    query = session.sql("SELECT COUNT(*) AS n FROM visits")
    tuned = query.tune(epsilon=0.2)
    rows = tuned.picked.rows
    assert rows is not None
    assert 5 <= rows <= 55  # nobody has more than 12
    assert tuned.quote(epsilon=1).error()["n"] == query.bounded(rows=rows).quote(epsilon=1).error()["n"]
    assert tuned.quote(epsilon=1).error()["n"] < query.quote(epsilon=1).error()["n"]  # type: ignore[operator]
    said = str(tuned.quote(epsilon=1))
    assert "\n  bias    about" in said
    assert str(tuned.picked) in said
    assert "picked" not in str(query.quote(epsilon=1))
    assert session.sql("SELECT COUNT(*) AS n FROM visits").tune(epsilon=0.2).picked.receipt.replayed


def test_one_charge_before_anything_is_read(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "lab")  # what a charge takes from a budget with δ depends on the earlier ones
    session = lab.session()
    query = session.sql("SELECT ward, COUNT(*) AS n FROM visits WHERE cost > 0 GROUP BY ward")
    before = query.quote(epsilon=1).left
    picked = query.tune(epsilon=0.25).picked
    assert before - query.quote(epsilon=1).left == pytest.approx(0.25)
    assert picked.receipt.charged == "ε = 0.25"
    assert 1 <= picked.groups <= 4
    entries = {entry.seq: entry for entry in lab.ledger.read_entries()}
    assert entries[picked.receipt.entry].kind in ("charge", "release")


def test_a_sum_is_clipped_by_unit(session: Session) -> None:
    query = session.sql("SELECT SUM(cost) AS s FROM visits")
    tuned = query.tune(epsilon=0.2)
    assert isinstance(tuned, TunedQuery)
    clip = tuned.picked.clip
    assert clip is not None
    assert 100 <= clip <= 2000  # the largest total is below 480
    error = tuned.quote(epsilon=1).error()["s"]
    assert error is not None
    assert error * 20 < query.quote(epsilon=1).error()["s"]  # type: ignore[operator]
    answer = tuned.release(epsilon=1)
    exact = float(np.sum(VISITS["cost"].to_numpy()))
    assert abs(answer.to_arrow()["s"][0].as_py() - exact) < 8 * error
    assert "clipped" in str(answer.caveats)


def exact_sums(query: Query) -> list[list[int]]:
    """The integers that the question's program gives, without noise."""
    plan = query.plan({"epsilon": 1})
    engine: Any = query.payer.lab.engine
    return [np.asarray(engine.run(step.program)).tolist() for step in plan.steps]


@pytest.mark.parametrize("limit", [5, 60, 10**5])
def test_clipping_means_what_it_says(session: Session, limit: int) -> None:
    """By hand: totals by unit and ward, clipped, added up by ward. The grid is finer than the tolerance."""
    query = session.sql("SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward").clipped(limit, groups=3)
    plan = query.plan({"epsilon": 1})
    step = float(plan.measured[0].of.step)
    found = [value * step for value in exact_sums(query)[0][0][:3]]
    totals: dict[tuple[int, str], float] = {}
    for who, cost, ward in zip(WHO, VISITS["cost"].to_pylist(), VISITS["ward"].to_pylist(), strict=True):
        totals[who, ward] = totals.get((who, ward), 0.0) + cost
    wanted = [
        sum(max(-limit, min(limit, total)) for (_, at), total in totals.items() if at == ward)
        for ward in ("A", "B", "C")
    ]
    assert found == pytest.approx(wanted, abs=10)
    assert plan.measured[0].sensitivity.l1 * step == pytest.approx(3 * limit, rel=0.01)


def test_people_are_tuned_by_groups_alone(session: Session) -> None:
    picked = (
        session.sql("SELECT ward, COUNT(DISTINCT who) AS n FROM visits GROUP BY ward").tune(epsilon=1).picked
    )
    assert picked.rows == 1


def test_keys_that_are_constant_need_no_groups(session: Session) -> None:
    tuned = session.sql("SELECT sex, AVG(cost) AS c, COUNT(*) AS n FROM visits GROUP BY sex").tune(
        epsilon=0.5
    )
    assert tuned.picked.groups == 1
    assert tuned.picked.to_dict()["rows"] == tuned.picked.rows


def test_conditions_on_the_answer_follow_the_clipped_sum(session: Session) -> None:
    text = (
        "SELECT ward, SUM(cost) / 10 AS s FROM visits GROUP BY ward HAVING SUM(cost) > 0 ORDER BY SUM(cost)"
    )
    tuned = session.sql(text).tune(epsilon=1)
    assert tuned.picked.clip is not None
    assert tuned.release(epsilon=10).to_arrow().num_rows >= 3


def test_frames_are_tuned_too(session: Session) -> None:
    frame = session.table("visits").group_by("ward")
    assert frame.agg(s=sf.sum("cost")).tune(epsilon=1).picked.clip
    assert frame.count().tune(epsilon=1).picked.rows


def test_what_tuning_refuses_for_nothing(lab: sf.Lab, session: Session) -> None:
    before = len(list(lab.ledger.read_entries()))
    wrong = {
        "SELECT COUNT(*) AS n FROM people": "SF-Q210",
        "SELECT COUNT(DISTINCT who) AS n FROM visits": "SF-Q210",
        "SELECT note, COUNT(*) AS n FROM visits GROUP BY note": "SF-Q210",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)": "SF-Q210",
        "SELECT COUNT(*) AS n FROM (SELECT cost FROM visits)": "SF-Q210",
    }
    for text, code in wrong.items():
        assert refuse(partial(session.sql(text).tune, epsilon=1)).code == code
    average = session.sql("SELECT AVG(cost) AS c FROM visits")
    assert refuse(lambda: average.clipped(10)).code == "SF-Q210"
    assert refuse(lambda: average.tune(epsilon=0)).code == "SF-N101"
    assert len(list(lab.ledger.read_entries())) == before


def test_noise_that_hides_all_units_is_refused_after_the_charge(lab: sf.Lab, session: Session) -> None:
    before = sum(entry.kind == "charge" for entry in lab.ledger.read_entries())
    problem = refuse(lambda: session.sql("SELECT COUNT(*) AS n FROM visits").tune(epsilon=0.001))
    assert problem.code == "SF-Q211"
    assert sum(entry.kind == "charge" for entry in lab.ledger.read_entries()) == before + 1


def test_analysts_pay_from_their_quota(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=1)
    session = lab.session("ada")
    query = session.sql("SELECT COUNT(*) AS n FROM visits WHERE cost > 5")
    query.tune(epsilon=0.5)
    assert query.quote(epsilon=0.1).left == 0.5
    assert refuse(lambda: query.tune(epsilon=0.75)).code == "SF-B102"


def test_a_quantile_of_rows_is_never_absurd(session: Session) -> None:
    units = session.table("visits").units()
    assert refuse(lambda: units.agg(rows=sf.quantile("rows", 0.95)).quote(epsilon=1)).code == "SF-Q210"
    assert units.agg(rows=sf.quantile("LEAST(rows, 50)", 0.95)).quote(epsilon=1).admitted
    assert refuse(lambda: units.bounds("rows", keep=0.95)).code == "SF-Q210"


def test_an_answer_that_was_kept_before_is_still_found(
    lab: sf.Lab, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = session.table("visits").units().agg(rows=sf.quantile("rows", 0.9))
    with monkeypatch.context() as older:
        older.setattr("sfumato.lab.query.ranks_all_rows", lambda question: False)
        given = query.release(epsilon=3)
    assert query.release(epsilon=3).to_arrow() == given.to_arrow()


def test_tuning_is_quoted_and_what_no_epsilon_serves_is_free(session: Session) -> None:
    query = session.question("SELECT ward, COUNT(*) AS n FROM visits WHERE cost > 1 GROUP BY ward")
    before = query.quote(epsilon=1).left
    quote = query.tuning().quote(epsilon=0.5)
    assert (quote.epsilon, quote.free) == (Fraction(1, 2), False)
    assert "each count of units is off by" in str(quote)
    assert refuse(lambda: query.tuning().quote(share=0.1)).code == "SF-N316"
    assert refuse(lambda: query.tune(epsilon=1e-11)).code == "SF-Q218"
    assert refuse(lambda: query.bounded(rows=2).tune(epsilon=1)).code == "SF-Q210"
    assert query.quote(epsilon=1).left == before
    tuned = query.tune(epsilon=0.5)
    assert query.tuning().quote(epsilon=0.5).free
    assert f"Estimated bias: {tuned.picked.bias}" in str(tuned.release(epsilon=1))
    same = PickedBounds.from_dict(tuned.picked.to_dict(), tuned.picked.receipt)
    assert same == tuned.picked


def test_rows_in_many_groups_are_no_more_than_are_used(session: Session) -> None:
    """Bounds that allow more rows than the table uses of a unit cost nothing, so they are not avoided."""
    tuned = session.question("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").tune(
        epsilon=5, for_epsilon=800
    )
    assert tuned.picked.groups * (tuned.picked.rows or 0) >= 12


def test_tuning_that_would_leave_too_little_is_refused_for_nothing(tmp_path: Any) -> None:
    lab = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=20)
    lab.register("visits", VISITS, unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=1))
    query = lab.session().question("SELECT COUNT(*) AS n FROM visits")
    charges = lab.verify().charges
    refused = refuse(partial(query.tune, epsilon=0.25, for_epsilon=0.8))
    assert (refused.code, refused.facts["left"]) == ("SF-B105", "ε = 1 now, ε = 0.75 after tuning")
    assert refused.facts["try"] == "epsilon=0.75 or less for the question"
    assert refuse(lambda: query.tuning(then={"share": 0.9}).release(epsilon=0.25)).code == "SF-B105"
    quoted = query.tuning(0.8).quote(epsilon=0.25)
    assert (quoted.admitted, quoted.to_dict()["unpaid"]) == (False, "ε = 0.8")
    assert "too little would remain for the query at ε = 0.8" in str(quoted)
    # Tuning that alone is too dear is refused as any question is.
    assert refuse(partial(query.tune, epsilon=2, for_epsilon=0.1)).code == "SF-B101"
    assert lab.verify().charges == charges
    # Just enough is enough, an error that is wished for has no price before the bounds are known, and what
    # was tuned is free, however little is left.
    assert query.tuning(then={"error": {"n": 1}}).quote(epsilon=0.25).admitted
    tuned = query.tune(epsilon=0.25, for_epsilon=0.75)
    tuned.release(epsilon=0.75)
    assert query.tune(epsilon=0.25, for_epsilon=0.75).picked.receipt.replayed
    assert query.tuning(0.75).find_answer(epsilon=0.25) is not None
    assert query.tuning(0.75).find_answer(epsilon=0.125) is None


def test_without_a_spend_for_the_question_only_tuning_must_be_affordable(tmp_path: Any) -> None:
    lab = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=20)
    lab.register("visits", VISITS, unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=1, delta=1e-6))
    assert lab.session().question("SELECT COUNT(*) AS n FROM visits").tune(epsilon=0.5).picked.rows


def test_tuning_that_was_charged_and_never_read_is_begun_again(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was charged already, so that what is left has to pay for the question alone."""
    lab = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=20)
    lab.register("visits", VISITS, unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=1))
    query = lab.session().question("SELECT COUNT(*) AS n FROM visits")
    with monkeypatch.context() as broken:
        broken.setattr(lab.engine, "run", fail)
        assert refuse(partial(query.tune, epsilon=0.25, for_epsilon=0.75)).code == "SF-X901"
    assert lab.session().question("SELECT SUM(cost) AS s FROM visits").quote(epsilon=0.1).left == 0.75
    assert query.tune(epsilon=0.25, for_epsilon=0.75).release(epsilon=0.75)


def fail(*_: Any) -> Any:
    raise EngineError("SF-C112", "The database cannot be reached.")
