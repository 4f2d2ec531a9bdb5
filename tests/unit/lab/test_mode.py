"""MODE: about the most frequent listed value of each group, chosen privately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.noise import ModeMechanism
from sfumato.noise.audit_hook import MechanismCall, recording

DRAW = np.random.default_rng(3)
ROWS = pa.table(
    {
        "who": np.arange(300) // 2,
        "ward": DRAW.choice(["A", "B", "C"], 300, p=[0.5, 0.3, 0.2]),
        # More rows have no sex than have any one.
        "sex": [None if part < 0.6 else "m" if part < 0.85 else "f" for part in DRAW.random(300)],
        "age": DRAW.integers(0, 5, 300),
        "note": ["pain"] * 300,
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C", missing="A"),
    "sex": sf.one_of("f", "m"),
    "age": sf.between(0, 4, step=1, missing=0),
    "note": sf.text(),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("mode") / "lab")
    budget = sf.Budget(epsilon=100_000, delta=1e-3)
    lab.register("t", ROWS, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=budget)
    return lab.session()


QUESTIONS = [
    "SELECT MODE(sex) AS m FROM t",
    "SELECT ward, MODE(sex) AS m, MODE(age) AS a FROM t WHERE age > 0 GROUP BY ward",
    "SELECT ward, MODE(sex) FILTER (WHERE age < 3) AS m, COUNT(*) AS n FROM t GROUP BY ward",
    "SELECT ward, age, MODE(sex) AS m, COUNT(*) AS n FROM t GROUP BY ROLLUP (ward, age)",
]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_most_frequent_value_is_that_of_plain_duckdb(session: Any, sql: str) -> None:
    t = ROWS  # noqa: F841  DuckDB finds it by its name
    answer = session.sql(sql).release(epsilon=800).to_arrow().to_pylist()
    plain = duckdb.sql(sql).to_arrow_table().to_pylist()
    counts = Counter(zip(*(ROWS.column(name).to_pylist() for name in ("ward", "age", "sex")), strict=True))
    assert [list(row) for row in answer] == [list(row) for row in plain]
    if "ROLLUP" not in sql:
        assert sorted(map(str, answer)) == sorted(map(str, plain))
    for row in answer if "ROLLUP" in sql else []:  # among equals plain DuckDB takes any
        kept = dict.fromkeys("fm", 0)
        for (ward, age, sex), number in counts.items():
            if row["ward"] in (None, ward) and row["age"] in (None, age) and sex is not None:
                kept[sex] += number
        assert kept[row["m"]] == max(kept.values())


def test_frames_ask_the_same(session: Any) -> None:
    asked = session.sql("SELECT ward, MODE(sex) AS m FROM t GROUP BY ward").release(epsilon=1)
    framed = session.table("t").group_by("ward").agg(m=sf.mode("sex")).release(epsilon=1)
    assert framed.receipt.replayed
    assert framed.to_arrow() == asked.to_arrow()


class Heard:
    def __init__(self) -> None:
        self.calls: list[MechanismCall] = []

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        self.calls.append(call)
        return draw()


def test_it_costs_what_is_spent_and_counts_no_null(session: Any) -> None:
    heard = Heard()
    with recording(heard):
        released = session.sql("SELECT MODE(sex) AS m FROM t WHERE age >= 0").release(epsilon=1.5)
    [call] = heard.calls
    # A unit has two rows, which share the ε.
    assert call.mechanism == ModeMechanism(Fraction(3, 4))
    known = Counter(ROWS.column("sex").to_pylist())
    assert call.exact.counts(0, 1).tolist() == [[known["f"], known["m"]]]
    assert "ε = 1.5" in str(released)
    assert "fewer than the most frequent value" in str(released)


def test_equal_counts_are_equally_likely() -> None:
    table = sf.noise.Histograms.from_triplets(
        np.repeat(np.arange(20_000), 2), np.tile([1, 3], 20_000), np.full(40_000, 7), groups=20_000, cells=4
    )
    chosen = np.bincount(ModeMechanism(Fraction(5)).release_groups(table), minlength=4)
    assert chosen[[0, 2]].sum() == 0
    assert abs(chosen[1] - 10_000) < 5 * 71  # five standard deviations, left once in a million


def test_refining_keeps_the_sharper_choice(session: Any) -> None:
    first = session.sql("SELECT ward, MODE(sex) AS m FROM t WHERE age < 4 GROUP BY ward").release(
        epsilon=0.01
    )
    assert first.refine(epsilon=800).to_arrow().column("m").to_pylist() == ["m", "m", "m"]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT MODE(note) AS m FROM t", "SF-Q109"),
        ("SELECT MODE(sex) + 1 AS m FROM t", "SF-Q161"),
        ("SELECT ward, age, MODE(age * 100000 % 999983) AS m FROM t GROUP BY ward, age", "SF-Q113"),
    ],
)
def test_what_it_cannot_choose_from_is_refused(session: Any, sql: str, code: str) -> None:
    spent = session.budget.to_dict()
    with pytest.raises(SfumatoError) as refusal:
        session.sql(sql)
    assert refusal.value.code == code
    assert session.budget.to_dict() == spent
