"""A number of a subquery is a question of its own: asked first, paid for, and named where the answer is."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.plan.caveats import noisy_threshold
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.lab.nested import NestedQuery
from sfumato.noise.audit_hook import MechanismCall, recording

INNER = "(SELECT AVG(cost) AS a FROM visits)"
ASKED = f"SELECT ward, COUNT(*) AS n FROM visits WHERE cost > {INNER} GROUP BY ward"
CORRELATED = "(SELECT AVG(w.cost) AS a FROM visits AS w WHERE w.ward = v.ward)"


class Exact:
    def answer(self, call: MechanismCall, draw: Any) -> Any:
        return np.asarray(call.exact)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    rows = {"who": range(6), "cost": [1, 2, 3, 4, 5, 9], "ward": list("ABABAB")}
    columns = {"cost": sf.between(0, 16, step=1), "ward": sf.one_of("A", "B", missing="A")}
    lab.register(
        "visits", pa.table(rows), unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(4)
    )
    return lab


def spent(lab: sf.Lab) -> Fraction:
    return Fraction(4) - lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=1).left


def test_rows_are_compared_with_the_released_number(lab: sf.Lab) -> None:
    with recording(Exact()):
        answer = lab.session().sql(ASKED).release(epsilon=2)
    assert answer.to_arrow().to_pydict() == {"ward": ["A", "B"], "n": [1, 1]}
    assert noisy_threshold() in answer.caveats
    below = ASKED.replace(">", "<=").replace("AVG(cost)", "AVG(-cost)")
    with recording(Exact()):
        assert lab.session().sql(below).release(epsilon=1).to_arrow()["n"].to_pylist() == [0, 0]


def test_both_are_charged_once(lab: sf.Lab) -> None:
    asked = lab.session().sql(ASKED)
    assert isinstance(asked, NestedQuery)
    quote = asked.quote(epsilon=1)
    assert quote.epsilon == 1
    assert quote.admitted
    assert "a number to compare with" in str(quote)
    assert quote.share == pytest.approx(2 * quote.numbers[0].share)
    with recording(Exact()):  # noise on six rows often leaves no average to compare with
        first = asked.release(epsilon=1, key="mine")
    assert spent(lab) == pytest.approx(1, rel=1e-6)
    assert lab.session().sql(ASKED).release(epsilon=1).to_arrow() == first.to_arrow()
    assert spent(lab) == pytest.approx(1, rel=1e-6)


def test_nothing_is_charged_where_not_all_can_be(lab: sf.Lab) -> None:
    with pytest.raises(BudgetError):
        lab.session().sql(ASKED).release(epsilon=6)
    assert spent(lab) == 0
    with pytest.raises(UsageError, match="several questions"):
        lab.session().sql(ASKED).quote(error={"n": 3})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT cost FROM visits)",
        "SELECT COUNT(*) AS n FROM visits WHERE ward = (SELECT AVG(cost) AS a FROM visits)",
        f"SELECT COUNT(*) AS n FROM visits AS v WHERE cost > {CORRELATED}",
    ],
)
def test_what_is_no_number_is_refused(lab: sf.Lab, text: str) -> None:
    with pytest.raises(PolicyError):
        lab.session().sql(text)
    assert spent(lab) == 0


def test_a_with_is_known_inside(lab: sf.Lab) -> None:
    text = (
        "WITH a AS (SELECT * FROM visits WHERE ward = 'A') "
        "SELECT COUNT(*) AS n FROM a WHERE cost >= (SELECT AVG(cost) AS m FROM a)"
    )
    with recording(Exact()):
        assert lab.session().sql(text).release(epsilon=1).to_arrow()["n"].to_pylist() == [2]
