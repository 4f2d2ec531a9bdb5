"""What the promise page says: bounds that hold, published guarantees, and every population ever opened."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.privacy import DEPLOYMENTS, bound_risk
from sfumato.server.facts.promise import PromisedRisk, describe_promise, draw_odds, parse_baseline

ROWS = pa.table({"person": [1, 2, 3], "x": [1, 2, 3]})


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 9, step=1)}
    budget = sf.Budget(epsilon=1, delta=1e-6)
    lab.register("visits", ROWS, unit=sf.Unit("person", max_rows=2), columns=columns, budget=budget)
    lab.register(
        "votes",
        ROWS,
        unit=sf.ROW,
        columns=columns,
        budget=sf.Budget(epsilon=8),
        neighbours=sf.REPLACE_ONE,
        rows=3,
    )
    return lab


def test_every_population_has_its_own_words(lab: sf.Lab) -> None:
    visits, votes = describe_promise(lab, 0.1).populations
    assert visits.sentence.startswith("Someone who is 50:50 unsure whether you are in these data")
    assert visits.sentence.endswith("is right at most 73.2 times in 100, whatever is ever asked.")
    assert visits.tables == (("visits", "all rows of one person, of which at most 2 are used"),)
    assert not visits.is_weak
    assert "what your rows say is" in votes.sentence
    assert "not if you stayed away" in votes.compared_with
    assert votes.is_weak


def test_a_dropped_table_leaves_its_promise(lab: sf.Lab) -> None:
    lab.drop("visits")
    assert [each.population for each in describe_promise(lab, 0.1).populations] == ["person", "votes"]


def test_blocks_of_time_come_on_top(lab: sf.Lab) -> None:
    days = pa.table({"person": [1, 2], "day": [date(2026, 1, 1), date(2026, 1, 2)]})
    columns = {"day": sf.between(date(2026, 1, 1), date(2026, 12, 31))}
    lab.register("calls", days, unit=sf.Unit("person", max_rows=1), columns=columns)
    lab.set_blocks(
        "calls", time="day", every="month", budget=sf.Budget(epsilon=0.5, delta=1e-8), since=date(2026, 1, 1)
    )
    lab.set_through("calls", day=date(2026, 1, 31))
    visits, votes = describe_promise(lab, 0.1).populations
    assert visits.lifetime.endswith("at most one block's budget, ε = 0.5, δ = 1e-08.")
    assert votes.lifetime == ""


def test_all_published_guarantees_stand_beside_the_lab_s_own(lab: sf.Lab) -> None:
    lines = describe_promise(lab, 0.1).comparison
    assert len(lines) == len(DEPLOYMENTS) + 2 == 10
    assert [line.what for line in lines if line.is_own] == ["person", "votes"]
    assert [float(line.epsilon) for line in lines] == sorted(float(line.epsilon) for line in lines)


def test_a_lab_without_tables_promises_nothing_and_still_compares(tmp_path: Path) -> None:
    told = describe_promise(sf.create(tmp_path / "empty"), 0.1)
    assert told.populations == ()
    assert len(told.comparison) == len(DEPLOYMENTS)


@pytest.mark.parametrize(("baseline", "people"), [(0.1, 100), (0.01, 100), (0.002, 1000)])
def test_the_picture_shows_the_bound(baseline: float, people: int) -> None:
    risk = PromisedRisk(sf.Budget(1), baseline)
    before, after = risk.counts
    assert risk.people == people
    assert before == round(baseline * people)
    assert after - 1 < bound_risk(1, 0, baseline) * people <= after
    drawn = risk.draw_icons("r")
    assert drawn.count('class="icon-full"') == before
    assert drawn.count('class="icon-ringed"') == after - before
    assert drawn.count("<g ") == people


def test_a_guarantee_that_promises_little_says_so() -> None:
    assert PromisedRisk(sf.Budget(14), 0.1).sentence.endswith("this ε promises little.")


def test_the_odds_picture_has_the_guesses_of_the_sentence() -> None:
    drawn = draw_odds(sf.Budget(1).epsilon, sf.Budget(1).delta)
    # 73.1059 of 100: people are drawn whole, and both figures are rounded up.
    assert drawn.count('class="icon-ringed"') == 24
    assert "at most 73.2 are right" in drawn


@pytest.mark.parametrize(
    ("typed", "read"),
    [("10", 0.1), ("0", 0.001), ("1e9", 0.999), ("-3", 0.001), ("nan", 0.1), ("inf", 0.1), ("ten", 0.1)],
)
def test_whatever_is_typed_as_a_baseline_is_a_chance(typed: str, read: float) -> None:
    assert parse_baseline(typed) == pytest.approx(read)
