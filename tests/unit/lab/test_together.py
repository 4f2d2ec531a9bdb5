"""Questions that are asked together: one charge, numbers that agree, intervals by the joint law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.curator.answers.expected_error import QuestionError
from sfumato.curator.answers.noise_law import covariance_of
from sfumato.curator.answers.together.answers import TogetherError, read_together
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.together.plan import plan_together, require_together
from sfumato.curator.plan.together.pool import name_block
from sfumato.curator.plan.together.strategy import StrategyPlanner
from sfumato.errors import SfumatoError
from sfumato.privacy.neighbours import Neighbours
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DRAW = np.random.default_rng(7)
ROWS = pa.table(
    {
        "who": np.arange(600) // 2,
        "ward": DRAW.choice(["A", "B", "C"], 600),
        "sex": DRAW.choice(["f", "m"], 600),
        "year": DRAW.integers(2020, 2024, 600),
        "cost": [None if x < 2 else float(x) for x in DRAW.integers(0, 10, 600)],
        "note": DRAW.choice(["pain", "fever"], 600),
        "age": DRAW.integers(0, 100, 600),
    }
)
COLUMNS = {
    "ward": sf.one_of("A", "B", "C"),
    "sex": sf.one_of("f", "m", missing="f"),
    "year": sf.between(2020, 2023, step=1, missing=2020),
    "cost": sf.between(0, 9, step=1),
    "note": sf.text(),
    "age": sf.between(0, 110, step=1),
}
TOTAL = "SELECT COUNT(*) AS n FROM t"
WARD = "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"
BOTH = "SELECT ward, sex, COUNT(*) AS n FROM t GROUP BY ward, sex"
YEAR = "SELECT year, sex, COUNT(*) AS n FROM t GROUP BY year, sex"
MEANS = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, SUM(cost) AS s FROM t GROUP BY ward"
TWO = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost, AVG(age) AS age FROM t GROUP BY ward"
AGES = "SELECT sex, AVG(age) AS age FROM t GROUP BY sex"
SPENDS = [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1}, {"share": 1e-6}]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("together") / "lab")
    unit = sf.Unit("who", max_rows=2)
    lab.register("t", ROWS, unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=1e6, delta=1e-3))
    lab.register("other", ROWS, unit=sf.Unit("who", max_rows=2), columns=COLUMNS)
    pure = sf.Unit("who", max_rows=2, of="pure")
    lab.register("pure", ROWS, unit=pure, columns=COLUMNS, budget=sf.Budget(epsilon=1e6))
    return lab


@pytest.fixture(scope="module")
def session(lab: Any) -> Any:
    return lab.session()


def _counts(release: Any, *names: str) -> dict[Any, int]:
    """Return the counts of a release by some of its keys."""
    found: dict[Any, int] = {}
    for row in release.all_groups().to_arrow().to_pylist():
        key = tuple(row[name] for name in names)
        found[key] = found.get(key, 0) + row["n"]
    return found


def _rounded(column: Any) -> list[Any]:
    return [round(each, 9) if isinstance(each, float) else each for each in column.to_pylist()]


@pytest.mark.parametrize("spend", SPENDS)
def test_numbers_agree(session: Any, spend: dict[str, Any]) -> None:
    asked = [TOTAL, WARD, BOTH, YEAR, MEANS, TWO]
    total, ward, both, year, means, two = session.ask_together(asked).release(**spend)
    assert _counts(both, "ward") == _counts(ward, "ward") == _counts(means, "ward") == _counts(two, "ward")
    assert _counts(both, "sex") == _counts(year, "sex")
    assert _counts(ward) == _counts(total) == _counts(year)


def test_a_large_spend_gives_what_each_question_gives_alone(session: Any) -> None:
    asked = [MEANS, BOTH, "SELECT MEDIAN(year) AS y, COUNT(DISTINCT who) AS p FROM t WHERE sex = 'f'"]
    asked += ["SELECT note, COUNT(*) AS n FROM t GROUP BY note", "SELECT COUNT(*) AS n FROM other"]
    spend = {"epsilon": 4000, "delta": 1e-5}
    for sql, release in zip(asked, session.ask_together(asked).release(**spend), strict=True):
        alone = session.sql(sql).release(epsilon=800, **({"delta": 1e-6} if "note" in sql else {})).to_arrow()
        together = release.to_arrow()
        assert together.schema == alone.schema
        for name in alone.column_names:
            assert _rounded(together.column(name)) == _rounded(alone.column(name)), name
        assert release.interval().num_rows == alone.num_rows
        assert release.plot() is not None
        assert release.receipt.table == ("other" if "other" in sql else "t")


def test_one_charge_and_free_replays(session: Any, lab: Any) -> None:
    before = session.budget.to_dict()
    first = session.ask_together([WARD, BOTH]).release(epsilon=3)
    assert len({each.receipt.entry for each in first}) == 1
    spent = session.budget.to_dict()
    assert spent != before
    again = session.ask_together([BOTH, session.sql(WARD)])
    assert again.quote(epsilon=3).free
    replayed = again.release(epsilon=3)
    assert all(each.receipt.replayed for each in replayed)
    assert replayed[0].to_arrow() == first[1].to_arrow()
    assert replayed[1].to_arrow() == first[0].to_arrow()
    assert session.budget.to_dict() == spent


def test_a_replay_on_tables_of_other_names_finds_nothing(tmp_path: Path) -> None:
    """What is measured in which order does not depend on the name or the identity of a table."""
    rows = pa.table({"who": list(range(40)), "ward": ["A", "B"] * 20, "sex": ["f", "f", "m", "m"] * 10})
    columns = {"ward": sf.one_of("A", "B"), "sex": sf.one_of("f", "m")}
    lab = sf.create(tmp_path / "names")
    for name in "abcdefgh":
        source = rows if name in "aceg" else rows.slice(1)
        more = {"budget": sf.Budget(1000, 1e-6)} if name == "a" else {}
        lab.register(name, source, unit=sf.Unit("who", 1, "people"), columns=columns, **more)
    texts = (
        "SELECT COUNT(*) FROM {}",
        "SELECT ward, COUNT(*) FROM {} GROUP BY ward",
        "SELECT COUNT(*) FROM {} WHERE sex = 'f'",
        "SELECT ward, COUNT(*) FROM {} WHERE sex = 'f' GROUP BY ward",
        "SELECT MODE(ward) FROM {}",
        "SELECT MODE(sex) FROM {}",
    )
    session = lab.session()

    def released(name: str) -> list[Any]:
        asked = session.ask_together([text.format(name) for text in texts])
        return [each.to_arrow().to_pydict() for each in asked.release(epsilon=2)]

    found = audit.replay(released, [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")], claim=2)
    assert not found.violates, found.sentence


def test_equal_questions_are_measured_once(session: Any) -> None:
    shown = "SELECT ward AS w, COUNT(*) AS m FROM t GROUP BY ward ORDER BY m DESC LIMIT 2"
    one, other = session.ask_together([WARD, shown]).release(epsilon=0.9)
    assert session.ask_together([WARD]).quote(epsilon=0.9).free
    best = sorted(one.to_arrow().to_pydict()["n"], reverse=True)[:2]
    assert other.to_arrow().to_pydict()["m"] == best


WORKLOADS = {
    "counts beside averages": [WARD, BOTH, YEAR, MEANS],
    "two columns": [TWO, BOTH],
    "averages alone": [AGES, "SELECT AVG(age) AS age FROM t", MEANS],
    "variances": ["SELECT ward, COUNT(*) AS n, VARIANCE(cost) AS v FROM t GROUP BY ward", BOTH, AGES],
    "levels": ["SELECT ward, sex, COUNT(*) AS n, AVG(cost) AS c FROM t GROUP BY ROLLUP (ward, sex)", TWO],
    "levels of averages": ["SELECT ward, sex, AVG(age) AS age FROM t GROUP BY CUBE (ward, sex)", MEANS],
}
ONE_PRICE = [("t", {"epsilon": 0.1}), ("t", {"rho": 0.001}), ("pure", {"epsilon": 0.1})]


def _plan_both(session: Any, table: str, asked: list[str], spend: dict[str, Any]) -> Iterator[Any]:
    """Yield what is expected of each question together and alone for an equal part, level by level."""
    asked = [sql.replace("FROM t", f"FROM {table}") for sql in asked]
    part = {name: amount / len(asked) for name, amount in spend.items()}
    together = TogetherError.of(session.ask_together(asked)._plan(spend), {"n": 10_000}).questions
    for sql, ours in zip(asked, together, strict=True):
        alone = QuestionError(session.sql(sql).plan(part), {"n": 10_000})
        levels = bool(alone.plan.question.levels)
        yield from zip(*(each.each_level() if levels else [each] for each in (ours, alone)), strict=True)


@pytest.mark.parametrize(("table", "spend"), ONE_PRICE)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_number_is_worse_than_alone(
    session: Any, table: str, spend: dict[str, Any], workload: str
) -> None:
    """Alone, sums that one row moves together have one noise, and so have they together."""
    gains = []
    for ours, alone in _plan_both(session, table, WORKLOADS[workload], spend):
        halves = ours.half_widths(0.95), alone.half_widths(0.95)
        gains += [halves[0][name] / halves[1][name] for name in halves[1]]
        assert _find_worst(*(covariance_of(each._laws)[..., 0] for each in (ours, alone))) < 1.02
    assert max(gains) < 1.03
    assert np.mean(gains) < 1.001


def _find_worst(ours: Any, alone: Any) -> float:
    """Return the largest variance over that alone, of all linear functions of a question's sums."""
    scales = 1 / np.sqrt(np.diagonal(alone))
    values, vectors = np.linalg.eigh(alone * np.outer(scales, scales))
    kept = values > 1e-9
    white = scales[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return float(np.linalg.eigvalsh(white.T @ ours @ white).max())


def test_each_answer_can_be_refined_by_itself(session: Any) -> None:
    """For a charge of its own, once: the others keep their numbers."""
    beside = "SELECT sex, COUNT(*) AS n FROM other GROUP BY sex"
    asked = [MEANS, "SELECT ward, sex, AVG(age) AS age FROM t GROUP BY ROLLUP (ward, sex)", beside]
    first = session.ask_together(asked).release(epsilon=0.7)
    for sql, release in zip(asked, first, strict=True):
        better = release.refine(epsilon=900)
        assert better.entries == (release.receipt.entry, better.receipt.entry)
        assert release.refine(epsilon=900).receipt.replayed
        exact = session.sql(sql).release(epsilon=900)
        assert better.receipt.entry != exact.receipt.entry
        for name in set(exact.to_arrow().column_names) - {"ward", "sex"}:
            pairs = zip(*(each.to_arrow()[name].to_pylist() for each in (better, exact)), strict=True)
            assert all(one == pytest.approx(other, rel=0.02, abs=1) for one, other in pairs if other)


def test_a_tuned_question_may_be_among_them(session: Any) -> None:
    """It has its part of the spend beside the others, and says what was picked."""
    tuned = session.sql(WARD).tune(epsilon=20)
    quote = session.ask_together([BOTH, tuned]).quote(epsilon=0.8)
    assert f"bounds (query 2)  {tuned.picked}" in str(quote)
    alone = tuned.quote(epsilon=0.4).error()
    assert quote.error()["n (question 2)"] == alone["n"]
    _, wards = session.ask_together([BOTH, tuned]).release(epsilon=0.8)
    assert any(tuned.picked.bias in each for each in wards.to_dict()["bias"])


def test_a_wished_error_is_met(session: Any) -> None:
    asked = session.ask_together([WARD, BOTH])
    quote = asked.quote(error={"n": 12})
    assert max(quote.error().values()) <= 12
    less = asked.quote(epsilon=float(quote.epsilon) * 0.8)
    assert max(less.error().values()) > 12


def _discovered(session: Any) -> list[Any]:
    asked = "SELECT note, MEDIAN(year) AS y, COUNT(*) AS n FROM t WHERE year >= {} GROUP BY note"
    return [session.sql(asked.format(year)) for year in (2021, 2022)]


def test_keys_are_discovered_for_each_question(session: Any) -> None:
    for release in session.ask_together(_discovered(session)).release(epsilon=1000, delta=1e-5):
        assert sorted(release.to_arrow().to_pydict()["note"]) == ["fever", "pain"]


REFUSED = [
    (lambda s: [], "SF-Q221"),
    (lambda s: TOTAL, "SF-Q221"),
    (lambda s: [TOTAL] * 101, "SF-Q158"),
    (lambda s: [TOTAL, TOTAL.replace("FROM t", "FROM pure")], "SF-Q221"),
    (lambda s: [TOTAL, s.table("t").top("ward", k=1)], "SF-Q221"),
    (lambda s: [f"{WARD} UNION ALL {WARD}"], "SF-Q161"),
    (lambda s: [TOTAL, 3], "SF-Q221"),
    (lambda s: ["SELECT DISTINCT ward FROM t"], "SF-Q221"),
]


@pytest.mark.parametrize(("questions", "code"), REFUSED)
def test_what_cannot_be_asked_together_is_refused_for_free(session: Any, questions: Any, code: str) -> None:
    before = session.budget.to_dict()
    with pytest.raises(SfumatoError) as refused:
        session.ask_together(questions(session))
    assert refused.value.code == code
    assert session.budget.to_dict() == before


def test_questions_of_another_session_are_refused(session: Any, lab: Any) -> None:
    lab.grant("ada", epsilon=1, delta=1e-8)
    with pytest.raises(SfumatoError) as refused:
        lab.session("ada").ask_together([session.sql(TOTAL)])
    assert refused.value.code == "SF-Q221"


def test_mixed_neighbours_are_refused() -> None:
    tables = [
        SimpleNamespace(table=SimpleNamespace(population="people", neighbours=each))
        for each in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)
    ]
    with pytest.raises(SfumatoError) as refused:
        require_together(tables)  # type: ignore[arg-type]
    assert refused.value.code == "SF-N303"


def test_too_many_keys_are_refused_when_priced(tmp_path: Any) -> None:
    lab = sf.create(tmp_path / "lab")
    names = [f"k{i}" for i in range(12)]
    rows = pa.table({name: [0, 1] for name in names})
    columns = {name: sf.one_of(0, 1, missing=0) for name in names}
    lab.register("t", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1))
    keys = ", ".join(names[:11])
    asked = [f"SELECT {keys}, COUNT(*) AS n FROM t GROUP BY {keys}", TOTAL]
    with pytest.raises(SfumatoError) as refused:
        lab.session().ask_together(asked).release(epsilon=1)
    assert refused.value.code == "SF-Q158"
    assert lab.session().ask_together([TOTAL]).quote(epsilon=1).admitted


@pytest.mark.parametrize("spend", [{"rho": 0.1}, {"epsilon": 1, "delta": 1e-6}])
def test_a_public_number_of_rows_is_met(tmp_path: Any, spend: dict[str, Any]) -> None:
    """Where units are replaced and the number of rows is public, groups add up to it."""
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=100, delta=1e-3)
    columns = {"ward": COLUMNS["ward"], "sex": COLUMNS["sex"]}
    lab.register("t", ROWS, unit=sf.ROW, columns=columns, budget=budget, neighbours=sf.REPLACE_ONE, rows=600)
    total, ward = lab.session().ask_together([TOTAL, WARD]).release(**spend)
    assert _counts(total) == _counts(ward) == {(): 600}


TWO_PAYERS = [
    ["SELECT AVG(f) AS f FROM t", "SELECT ward, COUNT(*) AS n, AVG(b) AS b FROM t GROUP BY ward"],
    ["SELECT AVG(c) AS c FROM t", "SELECT ward, COUNT(*) AS n, AVG(b) AS b FROM t GROUP BY ward"],
]


@pytest.mark.parametrize("asked", TWO_PAYERS)
@pytest.mark.parametrize("order", [("approximate", "pure"), ("pure", "approximate")])
def test_a_kept_answer_is_read_alike_by_all_who_may_ask(
    tmp_path: Any, asked: list[str], order: tuple[str, str]
) -> None:
    """Quotas with and without δ prefer different shapes of noise; what was measured is read as it was."""
    lab = _create_lab_of_two(tmp_path)
    _assert_read_alike(*(lab.session(who).ask_together(asked).release(epsilon=1) for who in order))


def _create_lab_of_two(tmp_path: Any) -> Any:
    draw = np.random.default_rng(7)
    rows = {name: draw.integers(low, high, 600) for name, low, high in [("c", 100, 201), ("b", 0, 10)]}
    table = pa.table({"who": np.arange(600), "ward": ROWS["ward"], "f": rows["b"], **rows})
    columns = {
        "ward": sf.one_of("A", "B", "C", missing="A"),
        "c": sf.between(100, 200, step=1),
        "b": sf.between(0, 9, step=1),
        "f": sf.between(0, 10, step=1, missing=0),
    }
    lab = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=1)
    lab.register("t", table, unit=unit, columns=columns, budget=sf.Budget(epsilon=100, delta=1e-3))
    lab.grant("pure", epsilon=50)
    lab.grant("approximate", epsilon=50, delta=1e-6)
    return lab


def test_an_answer_with_unknown_sums_is_not_read(session: Any) -> None:
    """Rather than read wrongly: what is kept names what was measured."""
    plan = session.ask_together([WARD, TOTAL])._plan({"epsilon": 1})
    pool, (item, *_) = plan.subject.pools[0], plan.subject.strategies[0]
    assert pool.measure(item, plan.spend).noise is not None
    with pytest.raises(SfumatoError) as refused:
        pool.measure(replace(item, block="another"), plan.spend)
    assert refused.value.code == "SF-C112"


def test_answers_from_before_gaussian_noise_had_shapes_are_found(session: Any) -> None:
    asked = session.ask_together([MEANS, BOTH])
    plan = asked._plan({"rho": 0.031})
    before = plan_together([each.resolved for each in plan.subject.plans], replace(plan.spend, shaped=False))
    assert not any(each.weights for each in before.subject.strategies[0])
    assert any(each.weights for each in plan.subject.strategies[0])
    assert before.request == plan.request
    released = session._payer.pay(before, "before")
    assert '"pool-2"' in released.answer
    first, again = read_together(before, released), asked.release(rho=0.031)
    _assert_read_alike(first, again)


def test_an_answer_is_read_with_the_weights_it_was_measured_with(session: Any) -> None:
    """Whichever weights are found now: another machine may find others."""
    asked = session.ask_together([MEANS, BOTH])
    plan = asked._plan({"rho": 0.032})
    resolved = [each.resolved for each in plan.subject.plans]
    moves, (items,) = resolved[0].row_moves, plan.subject.strategies
    (weights,) = {each.weights for each in items if each.weights}
    others = tuple(tuple(2 * w + (w > 0) for w in row) for row in weights)
    named = {"block": name_block(moves.shape(others).shape), "weights": others}
    known = {0: tuple(replace(each, **named) if each.weights else each for each in items)}
    other = plan_together(resolved, plan.spend, known)
    assert other.request == plan.request
    released = session._payer.pay(other, "another machine")
    assert '"pool-3"' in released.answer
    _assert_read_alike(read_together(other, released), asked.release(rho=0.032))


def _assert_read_alike(first: Any, again: Any) -> None:
    assert all(each.receipt.replayed for each in again)
    for one, other in zip(first, again, strict=True):
        assert other.to_arrow() == one.to_arrow()
        assert other.interval() == one.interval()


SHARED_SUMS = [
    [
        "SELECT AVG(x) AS a, SUM(x) AS s FROM t",
        "SELECT ward, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY ward",
    ],
    ["SELECT AVG(x) AS a, SUM(x) AS s FROM t", "SELECT ward, SUM(x) AS s, SUM(y) AS y FROM t GROUP BY ward"],
]


@pytest.mark.parametrize("asked", SHARED_SUMS)
def test_a_sum_may_be_part_of_one_shape_and_follow_from_another(asked: list[str]) -> None:
    """No number has more noise than alone then, either."""
    columns = {
        "ward": sf.one_of("A", "B", "C", missing="A"),
        "x": sf.between(-10, 31, step=1),
        "y": sf.between(3, 8, step=1, missing=3),
    }
    table = declare_table("t", sf.Unit("who", max_rows=1), columns)
    resolved = [ResolvedQuestion({"t": table}.__getitem__, parse_question(sql)) for sql in asked]
    spend = PureSpend(Fraction(1))
    (pool,) = plan_together(resolved, spend).subject.pools
    planner = StrategyPlanner(pool, spend)
    own = planner.own
    design = planner.make_design(sorted(own))
    shares = np.array([float(own[each] / sum(own.values())) for each in sorted(own)])
    found = design.variances(shares**2)
    assert all(one <= each.alone * 1.001 for one, each in zip(found, design.asked, strict=True))
