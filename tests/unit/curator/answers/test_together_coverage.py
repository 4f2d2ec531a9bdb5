"""Intervals of numbers that are put together from several marginals hold as often as they say."""

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

WORKLOADS = {
    "chain": ["", "a", "a, b"],
    "finest": ["", "a, b, c"],
    "overlap": ["a, b", "b, c"],
    "cycle": ["a, b", "b, c", "a, c"],
    "cube": ["CUBE (a, b)"],
}
SPENDS = {"pure": {"epsilon": 1}, "small noise": {"epsilon": 8}, "gaussian": {"epsilon": 1, "delta": 1e-6}}


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
    """Draws the noise of a plan again and again; the rows are read once."""

    def __init__(self, session: Any, questions: list[str], spend: dict[str, Any]) -> None:
        self.plan = session.ask_together(questions)._plan(spend)
        self._exact = [session._lab.engine.run(step.program) for step in self.plan.steps]
        without = [
            [POOLED, None, *(row for rows in _bare(step, exact) for row in rows)]
            for step, exact in zip(self.plan.steps, self._exact, strict=True)
        ]
        self.exact = self._estimate(without)

    def _estimate(self, answers: list[Any]) -> PoolEstimates:
        subject = self.plan.subject
        return PoolEstimates(subject.pools[0], subject.strategies[0], self.plan.spend, answers)

    def draw(self) -> PoolEstimates:
        pairs = zip(self.plan.steps, self._exact, strict=True)
        return self._estimate([step.release(exact) for step, exact in pairs])


def _bare(step: Any, exact: Any) -> list[Any]:
    """Return what a step measures, without noise."""
    found, at = [], 0
    for each in step.measured:
        many = len(each.sums) if isinstance(each, ShapedSum) else 1
        part = exact[at : at + many]
        found.append(each.shape.compute(part) if isinstance(each, ShapedSum) else part)
        at += many
    return found


def _cover_counts(draws: Draws, rounds: int) -> list[float]:
    """Return how often the intervals of each question's counts hold the exact ones."""
    plans = draws.plan.subject.plans
    halves, truths = [], []
    for each in plans:
        truth = draws.exact.sum_question(each.resolved)
        noisy = NoisyAnswer(truth, draws.exact.join_laws(each.resolved), (), None, truth.shape[1])
        low, high = compute_interval(each, each.question.figures["n"], noisy, 0.95)
        halves.append((high - low) / 2)
        truths.append(truth[0])
    held = np.zeros(len(plans))
    for _ in range(rounds):
        found = draws.draw()
        for at, each in enumerate(plans):
            off = np.abs(found.sum_question(each.resolved)[0] - truths[at])
            held[at] += float((off <= halves[at]).mean())
    return (held / rounds).tolist()


@pytest.mark.parametrize("workload", ["chain", "cycle"])
def test_counts_are_covered(sessions: dict[str, Any], workload: str) -> None:
    """From 94 to 96.5 %, give or take what 400 draws of the coarsest group may."""
    draws = Draws(sessions["both"], [_ask(keys) for keys in WORKLOADS[workload]], {"epsilon": 0.5})
    for share in _cover_counts(draws, 400):
        assert 0.92 <= share <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["both", "pure"])
@pytest.mark.parametrize("spend", SPENDS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_counts_are_covered_everywhere(
    sessions: dict[str, Any], workload: str, spend: str, kind: str
) -> None:
    """Whole numbers of little noise are covered more often than said, others as often as said."""
    draws = Draws(sessions[kind], [_ask(keys) for keys in WORKLOADS[workload]], SPENDS[spend])
    for share in _cover_counts(draws, 4000):
        assert 0.94 <= share <= (1.0 if spend == "small noise" else 0.975)


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
    for each in draws.plan.subject.plans:
        laws = draws.exact.join_laws(each.resolved)
        for figure in each.question.figures.values():
            truth = draws.exact.sum_question(each.resolved)
            silent = (NoiseLaw.of(None),) * len(laws)
            right = compute_figure(each, figure, NoisyAnswer(truth, silent, (), None, truth.shape[1]))
            held = []
            for _ in range(300):
                sums = draws.draw().sum_question(each.resolved)
                noisy = NoisyAnswer(sums, laws, (), None, sums.shape[1])
                low, high = compute_interval(each, figure, noisy, 0.95)
                held.append(float(((low <= right + 1e-9) & (right - 1e-9 <= high)).mean()))
            assert 0.91 <= np.mean(held) <= 0.99, figure
