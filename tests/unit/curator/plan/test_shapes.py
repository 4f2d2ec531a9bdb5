"""Shapes of sums: what their coordinates are, that sums follow from them, and when they are used."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.answer import match_kept_form, read_answer
from sfumato.curator.answers.shaped_answer import read_shape
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.gate import encode_answer
from sfumato.curator.plan.plan import QuestionPlan, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.shaped.shapes import Coordinate, Shape
from sfumato.curator.plan.spend import PureSpend, parse_spend
from sfumato.curator.plan.steps import SHAPED
from sfumato.errors import UsageError
from sfumato.noise import LaplaceNoise, SimplicesNoise
from sfumato.privacy.account import Allowance
from sfumato.queries.sql import parse_question

TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=2),
    {
        "x": sf.between(-10, 30),
        "y": sf.between(0, 7, step=1),
        "full": sf.between(3, 8, step=1, missing=3),
        "flag": sf.one_of(0, 1),
        "ward": sf.one_of("A", "B"),
    },
)
ONE = PureSpend(Fraction(1), shaped=True)
QUESTIONS = [
    "COUNT(*), AVG(x)",
    "AVG(x)",
    "AVG(y), COUNT(y)",
    "COUNT(*), AVG(full)",
    "COUNT(*), COUNT(x)",
    "COUNT(*), SUM(x)",
    "COUNT(full), SUM(full)",
    "COUNT(x), SUM(x)",
    "COUNT(*), COUNT(x), SUM(x), AVG(x)",
    "AVG(x), AVG(y)",
    "COUNT(*), AVG(x), AVG(full), SUM(y), COUNT(flag)",
    "VARIANCE(x), AVG(x)",
    "COUNT(*), STDDEV(full)",
    "CORR(x, y), COUNT(*)",
    "COVAR_POP(full, flag), SUM(full), AVG(x)",
    "COUNT(*), COUNT(y), COUNT(x), COUNT(flag)",
    "AVG(flag), COUNT(DISTINCT who), COUNT(*)",
    "CORR(x, x), SUM(x)",
    "SUM(y), COVAR_POP(y, y), AVG(y), COUNT(*)",
]
Exact = Callable[[QuestionPlan, list[dict[str, int | None]]], list[int]]


def _resolved(sql: str) -> ResolvedQuestion:
    return ResolvedQuestion(lambda _: TABLE, parse_question(sql))


def _plan(columns: str, spend: PureSpend = ONE) -> QuestionPlan:
    return price_question(_resolved(f"SELECT {columns} FROM t"), spend)


def _shape(plan: QuestionPlan) -> ShapedSum:
    assert isinstance(plan.measured[0], ShapedSum)
    return plan.measured[0]


def _rows(count: int) -> list[dict[str, int | None]]:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-10 * 2**15, 30 * 2**15, count), rng.integers(0, 8, count)
    rows = zip(x.tolist(), y.tolist(), rng.integers(3, 9, count), rng.integers(0, 2, count), strict=True)
    return [
        {"x": _maybe(a, at % 5), "y": _maybe(b, at % 3), "full": int(c), "flag": _maybe(int(d), at % 7)}
        for at, (a, b, c, d) in enumerate(rows)
    ]


def _maybe(value: int, there: int) -> int | None:
    return value if there else None


# ---- coordinates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", QUESTIONS)
def test_sums_follow_from_coordinates(columns: str, exact_sums: Exact, exact_coordinates: Exact) -> None:
    plan, rows = _plan(columns), _rows(50)
    shaped, sums = _shape(plan), exact_sums(plan, rows)
    exact = shaped.shape.compute(np.array(exact_coordinates(plan, rows), dtype=object)[:, None])
    apart = [[sums[plan.summands.index(each)]] for each in plan.resolved.list_apart(plan.shaped)]
    found = read_shape(plan, [SHAPED, *exact.tolist(), *apart], 1)
    assert found[:, 0].tolist() == pytest.approx(sums, rel=1e-12)


@pytest.mark.parametrize("columns", QUESTIONS)
def test_no_row_adds_more_than_the_width(columns: str, exact_coordinates: Exact) -> None:
    plan, most = _plan(columns), 0
    shape = _shape(plan).shape
    for row in _rows(50):
        exact = np.array(exact_coordinates(plan, [row]), dtype=object)[:, None]
        added = shape.compute(exact)[:, 0].tolist()
        assert min(added) >= 0
        noise = SimplicesNoise(shape.columns, Fraction(1)) if shape.columns else None
        moved = sum(added) if noise is None else int(noise.norms(np.array(added)[:, None])[0])
        assert moved <= shape.width
        most = max(most, moved)
        for each in shape.coordinates:
            assert sum(w * int(s) for w, s in zip(each.weights, exact[:, 0], strict=True)) % each.divisor == 0
    assert most == shape.width


@pytest.mark.parametrize(
    ("columns", "size", "width", "parts"),
    [
        ("COUNT(*), AVG(y)", 3, 7, ()),
        ("AVG(y)", 2, 7, ()),
        ("AVG(full), COUNT(*)", 2, 5, ()),
        ("COUNT(*), COUNT(y)", 2, 1, ()),
        ("COUNT(*), SUM(full)", 2, 5, ()),
        ("COUNT(*), AVG(full), AVG(flag)", 4, 5, (1, 2)),
        ("VARIANCE(full)", 3, 25, (1, 1)),
    ],
)
def test_coordinates(columns: str, size: int, width: int, parts: tuple[int, ...]) -> None:
    plan = _plan(columns)
    shape = _shape(plan).shape
    assert (len(shape.coordinates), shape.width, shape.columns) == (size, width, parts)
    assert isinstance(_shape(plan).noise, SimplicesNoise if parts else LaplaceNoise)
    assert plan.event.pure() == 1


@pytest.mark.parametrize(
    "columns", ["SUM(x)", "COUNT(*)", "COUNT(DISTINCT who), COUNT(*)", "MEDIAN(y), SUM(y)"]
)
def test_one_sum_has_no_shape(columns: str) -> None:
    assert _plan(columns).shaped is None


def test_levels_and_replaced_units_have_no_shape() -> None:
    assert _resolved("SELECT ward, COUNT(*), AVG(x) FROM t GROUP BY ROLLUP (ward)").shaped is None


def test_a_shape_that_cannot_be_is_refused() -> None:
    plain = _shape(_plan("AVG(y)"))
    with pytest.raises(UsageError, match="SF-N118"):
        Shape(plain.sums, (Coordinate((1,)),), 1)
    with pytest.raises(UsageError, match="SF-N118"):
        ShapedSum(plain.shape, plain.sensitivity, SimplicesNoise((1,), Fraction(1)))


# ---- which noise -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", QUESTIONS)
def test_noise_of_pure_epsilon_is_shaped_without_a_look_at_the_budget(columns: str) -> None:
    def refuse() -> Allowance:
        raise AssertionError

    needs = _resolved(f"SELECT {columns} FROM t").needs
    assert parse_spend({"epsilon": 1}, needs, refuse) == ONE


def test_noise_that_could_not_be_drawn_is_not_shaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A common width can be larger than any column's, and then sums have noise of their own as before."""
    monkeypatch.setattr("sfumato.curator.plan.plan.LARGEST", Fraction(2**20))
    assert _plan("COUNT(*), AVG(full)").shaped is not None
    found = _plan("COUNT(*), AVG(x)")
    assert found.shaped is None
    assert found.steps == _plan("COUNT(*), AVG(x)", PureSpend(Fraction(1))).steps


# ---- one request -------------------------------------------------------------------------------------------


def _kept(plan: QuestionPlan, exact_coordinates: Exact) -> str:
    rows = [dict(each, who=1) for each in _rows(20)]
    exact = [np.array([n]) for n in exact_coordinates(plan, rows)]
    step: Any = plan.steps[0]
    return encode_answer([step.release(np.array(exact))])


@pytest.mark.parametrize("columns", ["COUNT(*), AVG(x)", "AVG(full), AVG(y)", "CORR(x, y), SUM(full)"])
def test_shaped_noise_is_the_same_request(columns: str, exact_coordinates: Exact) -> None:
    plain, shaped = _plan(columns, PureSpend(Fraction(1))), _plan(columns)
    assert plain.request == shaped.request
    assert plain.shaped is None
    text = _kept(shaped, exact_coordinates)
    # What is kept says its form, whichever noise would be planned now.
    assert match_kept_form(plain, text).shaped is not None
    found = [read_answer(match_kept_form(each, text), text) for each in (plain, shaped)]
    assert np.array_equal(found[0].sums, found[1].sums)


def test_the_order_of_numbers_makes_no_other_coordinates() -> None:
    one, other = _plan("AVG(x), AVG(full), COUNT(*)"), _plan("COUNT(*), AVG(full), AVG(x)")
    assert one.request == other.request
    assert _shape(one).shape == _shape(other).shape


def test_an_answer_kept_with_independent_noise_is_read_as_such() -> None:
    plain, shaped = _plan("COUNT(*), AVG(x)", PureSpend(Fraction(1))), _plan("COUNT(*), AVG(x)")
    text = encode_answer([[[3], [4], [5]]])
    assert match_kept_form(shaped, text).shaped is None
    assert read_answer(match_kept_form(shaped, text), text).sums.tolist() == [[3], [4], [5]]
    assert plain.with_shape(False) is plain


def test_a_covariance_of_a_quotient_is_priced(tmp_path: Path) -> None:
    """Beside another number, its deviations are on a coarser grid than its plain sum."""
    lab = sf.create(tmp_path / "lab")
    source = pa.table({"who": [1, 2], "stay": [3, 4], "gain": [1.5, 2.0]})
    columns = {"stay": sf.between(-1, 60, step=1), "gain": sf.between(-7.5, 2.25, step=0.125)}
    lab.register("t", source, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(10))
    asked = lab.session().sql("SELECT COVAR_POP(stay / gain, stay) AS c FROM t")
    assert asked.quote(epsilon=1).plan.shaped is not None
