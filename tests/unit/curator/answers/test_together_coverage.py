"""Intervals of numbers that are put together from several marginals hold as often as they say.

Noise is drawn by its exact samplers, many times at once, and put together and rounded as answers are. What is
whole is compared, cell by cell, with the smallest whole interval that reaches 95 % under the same draws: it
is at most one step wider.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.answer import NoisyAnswer
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.post_processing import compute_figure, compute_interval
from sfumato.curator.answers.together.estimates import PoolEstimates
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.steps import POOLED
from sfumato.curator.question.measurement import CountOf

LEAST, MORE = 0.94, 0.015
"""Intervals of 95 % hold at least so often; those of averages at most so much more often than 95 %."""
FEW, MANY = 3_000, 20_000
"""Draws of a pool: with the few the standard error of a total's coverage is 0.4 points, of 24 cells' 0.15."""
WORKLOADS = {
    "chain": ["", "a", "a, b"],
    "finest": ["", "a, b, c"],
    "overlap": ["a, b", "b, c"],
    "cycle": ["a, b", "b, c", "a, c"],
    "cube": ["CUBE (a, b)"],
}
SPENDS: dict[str, dict[str, Any]] = {
    **{f"ε = {each}": {"epsilon": each} for each in (0.5, 1, 3, 5, 8, 12)},
    **{f"ρ = {each}": {"rho": each} for each in (0.05, 2, 8)},
}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    rows = pa.table(
        {
            "a": draw.integers(0, 4, 4000),
            "b": draw.integers(0, 6, 4000),
            "c": draw.integers(0, 2, 4000),
            "x": [None if each > 10 else each for each in draw.integers(0, 13, 4000).tolist()],
            "y": draw.integers(0, 100, 4000),
        }
    )
    columns = {
        "a": sf.one_of(*range(4), missing=0),
        "b": sf.one_of(*range(6), missing=0),
        "c": sf.one_of(0, 1, missing=0),
        "x": sf.between(0, 10, step=1),
        "y": sf.between(0, 99, step=1),
    }
    found = {}
    for name, delta in (("both", 1e-4), ("pure", 0)):
        lab = sf.create(tmp_path_factory.mktemp("coverage") / name)
        lab.register("t", rows, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1e6, delta=delta))
        found[name] = lab.session()
    return found


def _ask(keys: str, numbers: str = "COUNT(*) AS n") -> str:
    shown = keys.replace("CUBE (", "").rstrip(")")
    return f"SELECT {shown + ', ' if keys else ''}{numbers} FROM t {f'GROUP BY {keys}' if keys else ''}"


class Draws:
    """Draws the noise of a plan many times; the rows are read once."""

    def __init__(self, session: Any, questions: list[str], spend: dict[str, Any]) -> None:
        self.plan = session.ask_together(questions)._plan(spend)
        exact = [session._lab.engine.run(step.program) for step in self.plan.steps]
        pairs = zip(self.plan.steps, exact, strict=True)
        self._measured = [pair for step, rows in pairs for pair in _bare(step, rows)]
        self.exact = self.estimate([rows for _, rows in self._measured])

    def draw(self, count: int) -> list[list[Any]]:
        """Return noisy rows of all that is measured, by item and coordinate: one column a draw."""
        rows = []
        for noise, table in self._measured:
            many = np.repeat(np.array(table, dtype=np.int64)[..., None], count, axis=-1)
            rows.append(list(np.asarray(many if noise is None else noise.release(many), dtype=np.float64)))
        return rows

    def estimate(self, rows: list[list[Any]]) -> PoolEstimates:
        """Return what an answer of these rows says."""
        subject, kept = self.plan.subject, [[POOLED, None, *(row for own in rows for row in own)]]
        return PoolEstimates(subject.pools[0], subject.strategies[0], self.plan.spend, kept)

    def sum_questions(self, rows: list[list[Any]]) -> list[Any]:
        """Return the sums of each question: one row a sum, one column a cell, one layer a draw."""
        whole = self.exact._make_whole(rows)
        return [self._sum(each.resolved, whole) for each in self.plan.subject.plans]

    def _sum(self, resolved: Any, whole: Any) -> Any:
        found = []
        for summand in resolved.summands:
            named = [(self.exact._name(summand, level), level) for level in resolved.levels]
            tables = [_arrange(self.exact, whole.find(*name), name[1], level) for name, level in named]
            found.append(np.concatenate([each.reshape(-1, each.shape[-1]) for each in tables]))
        return np.array(found)


def _arrange(estimates: PoolEstimates, table: Any, keys: Any, level: Any) -> Any:
    order = [keys.index(place) for place in estimates._pool.places(level)]
    return np.transpose(table, [*order, len(order)])


def _bare(step: Any, exact: Any) -> list[tuple[Any, Any]]:
    """Return the noise of all that a step measures, with what it is added to."""
    found, at = [], 0
    for each in step.measured:
        many = len(each.sums) if isinstance(each, ShapedSum) else 1
        part = exact[at : at + many]
        found.append((each.noise, each.shape.compute(part) if isinstance(each, ShapedSum) else part))
        at += many
    return found


def _compare(errors: Any, half: float) -> tuple[float, float]:
    """Return how often errors are within the half-width, and within one step more than reaches 95 %."""
    within = np.cumsum(np.bincount(np.abs(errors).astype(np.int64).reshape(-1))) / errors.size
    most = min(int(np.searchsorted(within, 0.95)) + 1, len(within) - 1)
    return float(within[min(int(half), len(within) - 1)]), float(within[most])


def _compare_counts(draws: Draws, count: int) -> list[tuple[str, float, float]]:
    """Return for each question and level how often intervals of counts hold, and the widest allowed."""
    found = []
    for place, (each, drawn) in enumerate(
        zip(draws.plan.subject.plans, draws.sum_questions(draws.draw(count)), strict=True)
    ):
        truth = draws.exact.sum_question(each.resolved)
        noisy = NoisyAnswer(truth, draws.exact.join_laws(each.resolved), (), None, truth.shape[1])
        low, high = compute_interval(each, each.question.figures["n"], noisy, 0.95)
        first = 0
        for level in each.resolved.levels:
            cells = slice(first, first + level.cells)
            first += level.cells
            half = (high[cells] - low[cells]) / 2
            assert np.ptp(half) == 0
            found.append((f"{place}/{first}", *_compare(drawn[0, cells] - truth[0, cells, None], half[0])))
    return found


def test_draws_are_put_together_as_one_answer_is(sessions: dict[str, Any]) -> None:
    draws = Draws(sessions["both"], [_ask(keys) for keys in WORKLOADS["cycle"]], {"epsilon": 1})
    rows = draws.draw(3)
    many = draws.sum_questions(rows)
    for place in range(3):
        one = draws.estimate([[row[:, place] for row in own] for own in rows])
        for each, sums in zip(draws.plan.subject.plans, many, strict=True):
            assert np.array_equal(one.sum_question(each.resolved), sums[..., place])


QUICK = [("chain", "ε = 5"), ("finest", "ρ = 2"), ("overlap", "ε = 8"), ("cycle", "ε = 3"), ("cube", "ε = 1")]
"""One spend for each workload, at which one step more or less matters; the others are slow tests."""


@pytest.mark.parametrize(("workload", "spend"), QUICK)
def test_counts_are_covered(sessions: dict[str, Any], workload: str, spend: str) -> None:
    draws = Draws(sessions["both"], [_ask(keys) for keys in WORKLOADS[workload]], SPENDS[spend])
    for name, share, most in _compare_counts(draws, FEW):
        print(f"{name:8} {share:.4f} {most:.4f}")
        assert LEAST <= share <= most


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["both", "pure"])
@pytest.mark.parametrize("spend", SPENDS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_counts_are_covered_everywhere(
    sessions: dict[str, Any], workload: str, spend: str, kind: str
) -> None:
    if kind == "pure" and "rho" in SPENDS[spend]:
        pytest.skip("Gaussian noise needs a delta")
    draws = Draws(sessions[kind], [_ask(keys) for keys in WORKLOADS[workload]], SPENDS[spend])
    for name, share, most in _compare_counts(draws, MANY):
        print(f"{name:8} {share:.4f} {most:.4f}")
        assert LEAST <= share <= most


AVERAGES = {
    "one column": [
        _ask("a", "COUNT(*) AS n, AVG(x) AS x"),
        _ask("a, b"),
        _ask("", "AVG(x) AS x, SUM(x) AS s"),
    ],
    "two columns": [_ask("a", "COUNT(*) AS n, AVG(x) AS x, AVG(y) AS y"), _ask("a, b")],
    "levels": [_ask("CUBE (a, c)", "COUNT(*) AS n, AVG(x) AS x")],
    "two columns summed": [_ask("b", "AVG(x) AS x, AVG(y) AS y"), _ask("b, c", "AVG(x) AS x, AVG(y) AS y")],
}


@pytest.mark.slow
@pytest.mark.parametrize("workload", AVERAGES)
@pytest.mark.parametrize(
    ("kind", "spend"), [("both", {"epsilon": 1}), ("pure", {"epsilon": 1}), ("both", {"rho": 0.05})]
)
def test_averages_are_covered(
    sessions: dict[str, Any], workload: str, kind: str, spend: dict[str, Any]
) -> None:
    """Averages beside counts by finer groups, most of them with noise in the shape of what rows add."""
    draws = Draws(sessions[kind], AVERAGES[workload], spend)
    has_shape = any(isinstance(each, ShapedSum) for step in draws.plan.steps for each in step.measured)
    assert has_shape or spend == {"epsilon": 1}
    many = draws.sum_questions(draws.draw(MANY))
    for each, drawn in zip(draws.plan.subject.plans, many, strict=True):
        truth, laws = draws.exact.sum_question(each.resolved), draws.exact.join_laws(each.resolved)
        silent = (NoiseLaw.of(None),) * len(laws)
        # All cells together are drawn so often; cells of one level have one law.
        cells, runs = truth.shape[1], MANY // truth.shape[1]
        sums = drawn[:, :, :runs].reshape(len(truth), -1)
        wide = tuple(law.at(np.repeat(np.arange(cells), runs)) for law in laws)
        for figure in each.question.figures.values():
            if isinstance(figure, CountOf):
                continue
            right = compute_figure(each, figure, NoisyAnswer(truth, silent, (), None, cells))[:, None]
            noisy = NoisyAnswer(sums, wide, (), None, sums.shape[1])
            low, high = (end.reshape(cells, -1) for end in compute_interval(each, figure, noisy, 0.95))
            close = 1e-9 * np.abs(right)
            held = ((low <= right + close) & (right - close <= high)).mean()
            print(f"{held:.4f} {figure}")
            assert LEAST <= held <= 0.95 + MORE, figure
