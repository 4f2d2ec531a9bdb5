"""A question that no row can be in by declaration is answered at no charge, and no row is read for it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import find_loader
from conformance.generate import ask
from conformance.parts import VISITS, condition
from conformance.worlds import World, make
from sfumato.curator.hostile.reading import SlotReader
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.engines.program import CellHistogram, CellSums, KeyedSums
from sfumato.engines.router import EngineRouter
from sfumato.engines.support import ENGINES
from sfumato.errors import PolicyError
from sfumato.queries.sql import parse_question

# ---- what is called empty ----------------------------------------------------------------------------------

FAR = (
    "cost > 5000", "cost >= 5000", "gain < -7.5", "gain > 2.2", "stay IN (61, 70)", "stay = 2.5",
    "tip IS NULL", "tip * 2 > 100", "tip * 2 >= 100", "stay > 5 AND stay < 5", "stay >= 5 AND stay <= 5",
    "ward = 'A' AND ward = 'B'", "day > DATE '2021-03-02'", "day < DATE '2019-12-29'", "born > 2020",
    "LEAST(stay, 3) > 3", "flag IS NULL", "stay IS NULL AND stay > 0", "stay + gain > 62.25",
    "stay + gain >= 62.25", "cost < gain - 10", "ABS(gain) > 7.5", "COALESCE(stay, 99) > 60",
    "COALESCE(stay, 99) > 98", "seen > TIMESTAMP '1970-01-03 05:06:07'", "YEAR(day) > 2022",
    "SQRT(cost) > 71", "LENGTH(note) < 0", "CASE WHEN stay > 70 THEN 1 ELSE 0 END = 1", "score > 3",
    "EXP(stay) > 1e20",    "EXP(stay) * EXP(stay) > EXP(gain + 85)", "stay / 7 > 100",
    "NOT ok AND ok",
)  # fmt: skip
"""Conditions at the very ends of what is declared, on both sides of them."""
_NUMBERED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS i FROM visits"
_FOUND = "SELECT 1 FROM visits AS w WHERE w.who = v.who"
SHAPES = (
    "SELECT ward, COUNT(*) AS n, SUM(gain) AS g, MEDIAN(stay) AS m FROM visits WHERE {} GROUP BY ward",
    "SELECT COUNT(*) AS n, SUM(t) AS t FROM (SELECT who, SUM(tip) AS t FROM visits WHERE {} GROUP BY who)",
    f"SELECT COUNT(*) AS n FROM ({_NUMBERED}) WHERE {{}}",
    "SELECT COUNT(*) AS n, SUM(nights) AS s FROM stays JOIN visits USING (who) WHERE {}",
    "SELECT COUNT(*) AS n FROM stays LEFT JOIN (SELECT who, stay FROM visits WHERE {}) USING (who)",
    f"SELECT COUNT(*) AS n FROM visits AS v WHERE EXISTS ({_FOUND} AND {{}})",
)


def _rows_of(world: World, program: Any) -> int:
    """How many rows the engine finds for a program."""
    found = world.engine.run(program)
    match program:
        case CellSums():
            return int(np.abs(found).sum())
        case CellHistogram():
            return int(found.triplets()[2].sum())
        case KeyedSums():
            return len(found.keys)
    raise TypeError(type(program).__name__)


def _check(world: World, sql: str, question: Any, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Whether a question is called empty; then no program of it has a row."""
    try:
        empty = world.plan(question).is_empty
    except PolicyError:
        return None
    if empty:
        with monkeypatch.context() as patch:
            patch.setattr(ResolvedQuestion, "is_empty", False)
            steps = world.plan(question).steps
        assert sum(_rows_of(world, step.program) for step in steps) == 0, sql
    return empty


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_no_row_is_in_what_is_called_empty(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units of the tables lie at the corners of their bounds, so a bound that is off by one is noticed."""
    world, draw = make(tmp_path, seed, neighbours=False), random.Random(seed)
    tried: Counter[bool | None] = Counter()
    for _ in range(300):
        parts = [draw.choice(FAR)] + [condition(draw, VISITS, 1).sql] * draw.randrange(2)
        where = f" {draw.choice(['AND', 'AND', 'OR'])} ".join(f"({each})" for each in parts)
        where = f"NOT ({where})" if draw.random() < 0.2 else where
        sql = draw.choice(SHAPES).format(where)
        tried[_check(world, sql, parse_question(sql), monkeypatch)] += 1
    for _ in range(100):
        case = ask(draw)
        tried[_check(world, case.sql, case.question, monkeypatch)] += 1
    assert tried[True] >= 40
    assert tried[False] >= 100


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("world"), 3, neighbours=False)


@pytest.mark.parametrize("where", FAR)
def test_which_conditions_are_seen_to_be_empty(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides of every end: what a row at the end satisfies is not called empty."""
    question = parse_question(f"SELECT COUNT(*) AS n FROM visits WHERE {where}")
    holds = {
        "cost >= 5000", "gain > 2.2", "tip * 2 >= 100", "stay >= 5 AND stay <= 5", "day < DATE '2019-12-29'",
        "stay + gain >= 62.25", "COALESCE(stay, 99) > 60", "COALESCE(stay, 99) > 98",
    "EXP(stay) > 1e20", "EXP(stay) * EXP(stay) > EXP(gain + 85)",
    }  # fmt: skip
    # Ranges of a value do not say that two parts of it exclude each other.
    unseen = {"YEAR(day) > 2022", "SQRT(cost) > 71", "LENGTH(note) < 0", "NOT ok AND ok"}
    assert _check(world, where, question, monkeypatch) is (where not in holds | unseen)


# ---- what is not read --------------------------------------------------------------------------------------

SIZE = 40
TABLE = pa.table(
    {
        "who": list(range(SIZE)),
        "amount": [1.0 * i for i in range(SIZE)],
        "ward": ["A", "B"] * (SIZE // 2),
        "note": ["x"] * SIZE,
    }
)
COLUMNS = {"amount": sf.between(0, 100), "ward": sf.one_of("A", "B"), "note": sf.text()}
APART = {"Spark": pytest.mark.with_spark}
SUMMED = "COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS a"
FIGURES = f"{SUMMED}, MEDIAN(amount) AS m, MAX(amount) AS x, MODE(ward) AS w"
NOTHING = {"n": 0, "s": 0.0, "a": None, "m": None, "x": None, "w": None}


def _refuse(*_: object, **__: object) -> Any:
    raise AssertionError("nothing may be read")


@pytest.mark.parametrize("engine", [pytest.param(each, marks=APART.get(each, ())) for each in ENGINES])
def test_an_empty_question_is_free_and_reads_nothing(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = sf.create(tmp_path / "lab")
    source = find_loader(engine, request)(TABLE)
    lab.register("t", source, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=sf.Budget(1, 1e-6))
    lab.grant("ada", epsilon=0.5)
    for name in ("run", "check"):
        monkeypatch.setattr(EngineRouter, name, _refuse)
    monkeypatch.setattr(duckdb, "connect", _refuse)
    session, spent = lab.session("ada"), lab.ledger.read_spent("population:who")

    alone = session.sql(f"SELECT {FIGURES} FROM t WHERE amount > 1e9")
    quote, release = alone.quote(epsilon=100), alone.release(epsilon=100)  # far more than there is
    assert (quote.free, quote.admitted, quote.epsilon, quote.share) == (True, True, 0, 0)
    assert quote.to_dict()["price"] == "nothing"
    assert "free, because by the declared bounds no row" in str(quote)
    assert release.to_arrow().to_pylist() == [NOTHING]
    assert release.receipt.charged == "nothing"
    assert "Free: the answer follows from what is declared (ledger entry" in str(release)
    assert "No data was read" in release.caveats[0]
    ends = release.to_arrow(intervals=True).to_pylist()[0]
    assert [ends[name] for name in ("n_low", "n_high", "s_low", "s_high")] == [0, 0, 0, 0]

    grouped = session.sql(f"SELECT ward, {FIGURES} FROM t WHERE amount < 0 GROUP BY ward").release(
        epsilon=100
    )
    rows = [each for each in grouped.to_arrow().to_pylist() if each["ward"] is not None]
    assert rows == [{"ward": each} | NOTHING for each in ("A", "B")]
    found = session.sql("SELECT note, COUNT(*) AS n FROM t WHERE amount < 0 GROUP BY note")
    assert found.release(epsilon=100, delta=1e-8).to_arrow().num_rows == 0
    levels = session.sql("SELECT ward, COUNT(*) AS n FROM t WHERE amount < 0 GROUP BY ROLLUP(ward)")
    assert levels.release(epsilon=100).to_arrow().column("n").to_pylist() in ([0] * 3, [0] * 4)
    parts = session.table("t").where("amount < 0").partition("ward").agg(n=sf.count()).release(epsilon=100)
    assert [each.to_arrow().to_pylist() for each in parts.values()] == [[{"n": 0}]] * 2
    both = session.ask_together(
        ["SELECT COUNT(*) AS n FROM t WHERE amount < 0", "SELECT SUM(amount) AS s FROM t WHERE amount > 1e9"]
    )
    assert [each.to_arrow().to_pylist() for each in both.release(epsilon=100)] == [[{"n": 0}], [{"s": 0.0}]]

    again = alone.release(epsilon=100)
    assert again.receipt.replayed
    assert again.to_arrow().equals(release.to_arrow())
    assert release.refine(epsilon=100).to_arrow().to_pylist() == [NOTHING]
    assert lab.publish(
        "SELECT COUNT(*) AS n FROM t WHERE amount > 1e9", epsilon=1
    ).to_arrow().to_pylist() == [{"n": 0}]
    assert lab.session().published()[0].read().to_arrow().to_pylist() == [{"n": 0}]
    assert lab.ledger.read_spent("population:who") == spent
    assert lab.ledger.read_spent("quota:who:ada") == spent
    with pytest.raises(
        AssertionError, match="nothing may be read"
    ):  # the same patches stop a question that has rows
        session.sql("SELECT COUNT(*) AS n FROM t WHERE amount > 1").release(epsilon=0.1)


def test_no_worker_starts_for_an_empty_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reply leaves at once: that it is empty is public."""
    lab = sf.create(tmp_path / "lab")
    lab.register("t", TABLE, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=sf.Budget(1))
    monkeypatch.setattr(SlotReader, "begin", _refuse)
    asked = lab.session(hostile=True).sql("SELECT COUNT(*) AS n FROM t WHERE amount > 1e9")
    assert asked.quote(epsilon=5).slot is None
    assert asked.release(epsilon=5).to_arrow().to_pylist() == [{"n": 0}]
    with pytest.raises(AssertionError, match="nothing may be read"):
        lab.session(hostile=True).sql("SELECT COUNT(*) AS n FROM t").release(epsilon=0.1)


def test_the_others_share_what_an_empty_question_does_not_need(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register("t", TABLE, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=sf.Budget(10))
    asked = ["SELECT COUNT(*) AS n FROM t", "SELECT COUNT(*) AS n FROM t WHERE amount > 1e9"]
    quote = lab.session().ask_together(asked).quote(epsilon=1)
    alone = lab.session().sql(asked[0]).quote(epsilon=1)
    assert quote.error() == {"n (question 1)": alone.error()["n"], "n (question 2)": 0.0}
    assert quote.plan.cost == alone.plan.cost


def test_who_has_no_quota_is_refused_an_empty_question_too(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register("t", TABLE, unit=sf.Unit("who", max_rows=2), columns=COLUMNS, budget=sf.Budget(10))
    with pytest.raises(sf.errors.SfumatoError):
        lab.session("eve").sql("SELECT COUNT(*) AS n FROM t WHERE amount > 1e9").release(epsilon=1)
