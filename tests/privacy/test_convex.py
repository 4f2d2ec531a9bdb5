"""Linear classifiers on worst-case neighbours: descent is replayed, textbook forms are audited by densities.

With one weight, what a textbook form releases has a density that can be written down, so the largest ratio of
two neighbours' densities, and the δ between them, are integrals and no statistics. Rows are as long as 100.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.learn import ConvexERM, LinearSVC, LogisticRegression
from sfumato.learn.convex import perturbation, solvers
from sfumato.learn.convex.convergence import LONGEST, arrival, arrived, slope_of, slope_off, steepness
from sfumato.learn.convex.losses import LOGISTIC, Loss, huber
from sfumato.learn.convex.objective_release import STEP, ObjectiveRelease, _calibrated, beyond
from sfumato.learn.convex.perturbation import (
    ADD_REMOVE,
    Neighbouring,
    Tilted,
    _tilt_delta_of_several,
    gaussian,
    gaussian_tilt,
    objective_tilt,
    output_scale,
    tilt_delta,
)
from sfumato.learn.convex.problems import Chances, OfMargins, Problem
from sfumato.oracle.blocks import SumBlock
from sfumato.oracle.gradients import GradientQuestion
from sfumato.privacy.events import Sequential

BOUNDS = (-1.0, 1.0)
HUGE = 1e6
SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]
FEATURES = 4

Data = tuple[np.ndarray, np.ndarray]
Floats = np.ndarray


# ---- noisy descent -----------------------------------------------------------------------------------------


def neighbours(classes: int) -> Iterator[tuple[Data, Data]]:
    """A table with and without one row that reaches far, both ways round."""
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1.2, 1.2, (60, FEATURES)), rng.integers(0, classes, 60)
    signs = np.where(np.arange(FEATURES) % 2, -1.0, 1.0)
    for row in (np.full(FEATURES, HUGE), signs * HUGE, np.eye(FEATURES)[0] * HUGE, np.full(FEATURES, np.nan)):
        for label in (0, classes - 1, classes):
            more = np.vstack([X, row]), np.append(y, label)
            yield (X, y), more
            yield more, (X, y)


MAKERS: list[Callable[..., Any]] = [
    lambda **given: LogisticRegression(bounds=BOUNDS, **given),
    lambda **given: LogisticRegression(row_norm=1.0, **given),
    lambda **given: LinearSVC(bounds=BOUNDS, **given),
    lambda **given: ConvexERM(bounds=BOUNDS, loss=huber(0.1), penalty=1.0, **given),
]


def descended(make: Callable[..., Any], classes: int, spend: dict[str, float]) -> audit.Replayed:
    def made() -> Any:
        return make(classes=list(range(classes)), method="gradient", steps=4, **spend)

    def program(data: Data) -> list[Floats]:
        fitted = made().fit(*data)
        return [fitted.coef_, fitted.intercept_]

    return audit.replay(program, neighbours(classes), claim=Sequential(made().fit_budget().events))


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", MAKERS)
def test_descent_keeps_its_price(make: Callable[..., Any], classes: int, spend: dict[str, float]) -> None:
    found = descended(make, classes, spend)
    assert found.finding is None
    assert found.reached > 0.5


def test_slopes_priced_for_half_their_reach_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GradientQuestion.block

    def planted(self: GradientQuestion, *given: Any) -> SumBlock:
        block = honest(self, *given)
        return SumBlock(block.terms, block.l1 // 2, block.l2_squared // 4)

    monkeypatch.setattr(GradientQuestion, "block", planted)
    assert descended(MAKERS[0], 2, SPENDS[1]).violates


def person(rows: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """A table without and with a person of so many rows, all of them as far out as bounds allow."""
    rng = np.random.default_rng(3)
    names = [f"x{place}" for place in range(3)]
    data: dict[str, Any] = {name: rng.uniform(-1, 1, 30) for name in names}
    less = pa.table({**data, "kind": rng.choice(["a", "b"], 30), "who": np.arange(30) // rows})
    for label in ("a", "b", "unknown"):
        far = {name: np.full(rows, HUGE) for name in names}
        more = pa.table({**far, "kind": [label] * rows, "who": np.full(rows, 99)})
        yield less, pa.concat_tables([less, more])
        yield pa.concat_tables([less, more]), less


@pytest.mark.parametrize("rows", [1, 2])
def test_descent_behind_the_curator_keeps_its_price(tmp_path: Path, rows: int) -> None:
    """Every table has a lab of its own, so that no answer is one that was paid for before."""
    spend = {"epsilon": 1.0, "delta": 1e-6}
    features = [f"x{place}" for place in range(3)]
    labs = itertools.count()

    def program(table: pa.Table) -> list[Floats]:
        lab = sf.create(tmp_path / f"lab{next(labs)}")
        columns = {**{name: sf.between(-1, 1) for name in features}, "kind": sf.one_of("a", "b")}
        unit = sf.Unit("who", max_rows=rows, of="people")
        lab.register("points", table, unit=unit, columns=columns, budget=sf.Budget(epsilon=9, delta=1e-5))
        model = LogisticRegression(**spend, steps=2)
        fitted = lab.session().fit(
            model, table="points", features=features, target="kind", rows_per_unit=rows
        )
        return [fitted.coef_, fitted.intercept_]

    claim = Sequential(LogisticRegression(**spend).fit_budget().events)
    found = audit.replay(program, person(rows), claim=claim)
    assert found.finding is None
    assert found.reached > 0.5


# ---- textbook forms, with one weight -----------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """A problem of one weight without and with one more row."""

    without: Problem
    beside: Problem

    def __iter__(self) -> Iterator[Problem]:
        return iter((self.without, self.beside))


def pairs(longest: float, penalty: float, loss: Loss = LOGISTIC) -> Iterator[Pair]:
    joint = OfMargins(loss, 2)
    for rows in ([], [0.3 * longest, -longest], [longest] * 20):
        for row, label in ((longest, 1), (longest, 0), (0.5 * longest, 1)):
            X = np.array([*rows, row]).reshape(-1, 1)
            y = np.array([*([1, 0, 1] * 7)[: len(rows)], label])
            whole = Problem(joint, X, joint.marks(y), penalty, longest)
            yield Pair(replace(whole, rows=whole.rows[:-1], marks=whole.marks[:-1]), whole)


def tilt_of(problem: Problem, weights: Floats) -> tuple[Floats, Floats]:
    """Which tilt has its minimum at each of these weights, and how curved the problem is there."""
    scores, marks = weights[:, None] * problem.rows[:, 0], problem.marks[:, 0]
    pulls = problem.joint.pulls(scores, marks)
    step = 1e-6
    curve = (problem.joint.pulls(scores + step, marks) - problem.joint.pulls(scores - step, marks)) / (
        2 * step
    )
    tilt = -(pulls @ problem.rows[:, 0]) - problem.penalty * weights
    return tilt, curve @ problem.rows[:, 0] ** 2 + problem.penalty


def log_density(problem: Problem, tilt: Tilted, weights: Floats, shape: str) -> Floats:
    """Of the minimiser, where the tilt is Gaussian or, as spherical noise of one number is, Laplace's."""
    at, curve = tilt_of(replace(problem, penalty=tilt.penalty), weights)
    if shape == "laplace":
        return -np.abs(at) / tilt.scale - math.log(2 * tilt.scale) + np.log(curve)
    return -((at / tilt.scale) ** 2) / 2 - math.log(tilt.scale * math.sqrt(2 * math.pi)) + np.log(curve)


def grid(pair: Pair, tilt: Tilted) -> Floats:
    """Dense around nothing, where slopes turn, even around the rest, and far enough for nearly all tilts."""
    pull = pair.beside.longest * len(pair.beside.rows)
    near = np.geomspace(1e-7 / pair.beside.longest, 60 * (tilt.scale + pull) / tilt.penalty, 3000)
    even = np.linspace(-1, 1, 8001) * (12 * tilt.scale + pull) / tilt.penalty
    return np.unique(np.concatenate([-near, near, even]))


def largest_ratio(pair: Pair, tilt: Tilted) -> float:
    weights = grid(pair, tilt)
    one, other = (log_density(each, tilt, weights, "laplace") for each in pair)
    return float(np.abs(one - other).max())


def delta_between(pair: Pair, tilt: Tilted, epsilon: float) -> float:
    weights = grid(pair, tilt)
    one, other = (np.exp(log_density(each, tilt, weights, "gauss")) for each in pair)
    assert np.trapezoid(one, weights) == pytest.approx(1, abs=2e-3)
    factor = math.exp(epsilon)
    ways = (np.maximum(one - factor * other, 0), np.maximum(other - factor * one, 0))
    return max(float(np.trapezoid(way, weights)) for way in ways)


SETTINGS = [(1.0, 1.0), (1.0, 0.01), (100.0, 100.0), (100.0, 1.0), (0.1, 1.0)]
LOSSES = [LOGISTIC, huber(0.5), huber(0.05)]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_objective_perturbation_keeps_its_price(
    loss: Loss, longest: float, penalty: float, epsilon: float
) -> None:
    ratios = [
        largest_ratio(pair, objective_tilt(pair.beside, epsilon)) for pair in pairs(longest, penalty, loss)
    ]
    assert max(ratios) <= epsilon * (1 + 1e-6)
    assert max(ratios) > 0.4 * epsilon


@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
def test_a_replaced_row_is_hidden_too(longest: float, penalty: float) -> None:
    ratios = []
    for pair in pairs(longest, penalty):
        tilt = objective_tilt(pair.beside, 1.0, Neighbouring(replaced=True))
        turned = replace(pair.beside, rows=np.vstack([pair.without.rows, [[-longest]]]))
        ratios.append(largest_ratio(Pair(turned, pair.beside), tilt))
    assert max(ratios) <= 1 + 1e-6
    assert max(ratios) > 0.4


def library_tilt(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Tilted:
    """What a library does: the determinant's part from c·R/Λ, where rows of length R need c·R²/Λ."""
    wrong = replace(problem, longest=math.sqrt(problem.longest))
    honest = objective_tilt(wrong, epsilon, neighbouring)
    return Tilted(honest.scale * problem.longest / wrong.longest, honest.penalty)


def old_tilt(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Tilted:
    """The form of 2008: no determinant at all."""
    return Tilted(problem.longest / epsilon, problem.penalty)


@pytest.mark.parametrize("planted", [library_tilt, old_tilt])
def test_a_determinant_forgotten_at_long_rows_is_found(planted: Callable[..., Tilted]) -> None:
    assert max(largest_ratio(pair, planted(pair.beside, 1.0)) for pair in pairs(100.0, 100.0)) > 2.5


def test_a_library_that_forgets_is_caught_from_outside() -> None:
    """By samples alone, as anyone could: ours passes at the same row, at one false alarm in a million."""
    pair = next(iter(pairs(100.0, 100.0)))
    assert audit.run(
        minimisers(pair, library_tilt(pair.beside, 1.0)), 1.0, samples=60_000, alpha=1e-6
    ).violates
    assert not audit.run(
        minimisers(pair, objective_tilt(pair.beside, 1.0)), 1.0, samples=60_000, alpha=1e-6
    ).violates


def minimisers(pair: Pair, tilt: Tilted) -> tuple[Any, Any]:
    """Many at once, by halving: the slope of a tilted problem grows with the weight."""

    def sampler(problem: Problem) -> Callable[[int], Floats]:
        convex = replace(problem, penalty=tilt.penalty)

        def drawn(count: int) -> Floats:
            tilts = np.random.default_rng().laplace(0, tilt.scale, count)
            low, high = np.full(count, -1e4), np.full(count, 1e4)
            for _ in range(60):
                middle = (low + high) / 2
                above = tilt_of(convex, middle)[0] < tilts
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            return (low + high) / 2

        return drawn

    return sampler(pair.without), sampler(pair.beside)


def test_halving_finds_what_the_solver_finds() -> None:
    for pair in pairs(3.0, 0.5):
        for tilt in (-4.0, 0.01, 7.0):
            found, steep = pair.beside.minimum(np.array([[tilt]]))
            assert steep < 1e-9
            assert tilt_of(pair.beside, found[0])[0][0] == pytest.approx(tilt, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_gaussian_tilts_keep_their_price(loss: Loss, longest: float, penalty: float, epsilon: float) -> None:
    delta = 1e-3  # large enough for an integral to see it
    for pair in pairs(longest, penalty, loss):
        assert delta_between(pair, gaussian_tilt(pair.beside, epsilon, delta), epsilon) <= delta * 1.02


def test_a_gaussian_tilt_without_its_determinant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfMargins, "log_det", lambda self, ratio: 0.0)
    found = [delta_between(p, gaussian_tilt(p.beside, 1.0, 1e-3), 1.0) for p in pairs(100.0, 100.0)]
    assert max(found) > 0.01


@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_row_moves_a_minimiser_further_than_output_noise_covers(
    loss: Loss, longest: float, penalty: float
) -> None:
    level = np.zeros((1, 1))
    moved = [
        (float(abs(pair.without.minimum(level)[0] - pair.beside.minimum(level)[0]).item()), pair)
        for pair in pairs(longest, penalty, loss)
    ]
    assert all(distance <= output_scale(pair.beside) * (1 + 1e-9) for distance, pair in moved)


def test_a_minimum_of_several_scores_moves_no_further() -> None:
    rng = np.random.default_rng(1)
    for joint in (Chances(4), OfMargins(huber(), 4)):
        X = rng.normal(size=(30, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(-1, 4, 30)
        whole = Problem(joint, X, joint.marks(y), 0.5, 1.0)
        less = replace(whole, rows=X[1:], marks=whole.marks[1:])
        level = np.zeros((4, 3))
        (one, steep), (other, _) = whole.minimum(level), less.minimum(level)
        assert steep < 1e-9
        assert np.linalg.norm(one - other) <= output_scale(whole)


@pytest.mark.parametrize(
    ("classes", "longest", "penalty", "epsilon"), [(3, 1.0, 1.0, 0.3), (3, 8.0, 2.0, 1.0), (4, 1.0, 0.2, 1.0)]
)
def test_gaussian_tilts_of_several_scores_keep_their_price(
    classes: int, longest: float, penalty: float, epsilon: float
) -> None:
    """With no row and with one, by a million draws: δ is seen to within a sixth, but for one in a million."""
    joint, delta, rng = Chances(classes), 1e-3, np.random.default_rng()
    marks = joint.marks(np.array([0]))
    problem = Problem(joint, np.array([[longest]]), marks, penalty, longest)
    tilt = gaussian_tilt(problem, epsilon, delta)
    tilts = rng.normal(0, tilt.scale, (10**6, classes))
    scores = -tilts / tilt.penalty * longest
    pulls = joint.pulls(scores, np.repeat(marks, len(tilts), axis=0)) * longest
    curves = joint.curve(scores, np.repeat(marks, len(tilts), axis=0)) * longest**2
    raised = np.linalg.slogdet(np.eye(classes) + curves / tilt.penalty)[1]
    loss = (((tilts - pulls) ** 2).sum(axis=1) - (tilts**2).sum(axis=1)) / (2 * tilt.scale**2) - raised
    without = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - loss)))
    beside = np.maximum(0.0, np.exp(-loss) - math.exp(epsilon))
    assert max(without.mean(), beside.mean()) <= delta * 1.17
    assert max(without.mean(), beside.mean()) > 0


def test_one_direction_and_several_have_one_law() -> None:
    for mu, epsilon in [(0.2, 0.5), (0.5, 1.0), (1.0, 0.3)]:
        closed = tilt_delta(mu, 0.1, epsilon)
        assert closed <= _tilt_delta_of_several(mu, epsilon - 0.1, 1) <= closed * 1.01


# ---- approximate minima ----


def _fitted(rows: int, features: int, classes: int, loss: Loss | None = None) -> Problem:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, features)) / math.sqrt(features)
    joint: Any = Chances(classes) if loss is None else OfMargins(loss, classes)
    return Problem(joint, X, joint.marks(rng.integers(0, classes, rows)), 1.0, 2.0)


@pytest.mark.parametrize(("features", "classes"), [(5, 2), (30, 3), (140, 3)])
@pytest.mark.parametrize("loss", [None, huber(), huber(0.01)], ids=["chances", "huber", "sharp"])
def test_a_solver_comes_as_near_as_its_price_says(features: int, classes: int, loss: Loss | None) -> None:
    problem = _fitted(500, features, classes, loss)
    shape = problem.joint.outputs, features
    tilt = np.random.default_rng(3).normal(size=shape) * 5
    found = problem.near(tilt)
    assert np.linalg.norm(problem.slope(found, tilt)) <= problem.remainder
    assert not np.array_equal(found, -tilt / problem.penalty)


def test_the_proven_descent_arrives_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "_newton", lambda problem, tilt, weights, floor: weights)
    for problem in (_fitted(300, 4, 3), _fitted(300, 4, 2, huber(0.05))):
        tilt = np.ones((problem.joint.outputs, 4))
        found, steep = problem.minimum(tilt)
        assert steep <= problem.remainder
        assert np.linalg.norm(found + tilt) > 0.1


def test_rows_count_nowhere_where_no_solver_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an error: whether one is raised would depend on rows."""
    monkeypatch.setattr(solvers, "_newton", lambda problem, tilt, weights, floor: weights)
    monkeypatch.setattr(solvers, "_MOST", 0)
    problem, tilt = _fitted(300, 4, 3), np.ones((3, 4))
    assert np.array_equal(problem.near(tilt), -tilt / problem.penalty)
    assert gaussian(problem, 1.0, 1e-6).shape == (3, 4)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_determinants_grow_no_further_than_is_said(classes: int) -> None:
    from sfumato.learn.convex.problems import Joint

    rng = np.random.default_rng(2)
    joints: list[Joint] = [Chances(classes), OfMargins(LOGISTIC, classes), OfMargins(huber(0.1), classes)]
    for joint in joints:
        most = 0.0
        for _ in range(300):
            penalty, length = float(rng.choice([0.01, 1.0, 30.0])), float(rng.choice([0.1, 1.0, 50.0]))
            X = rng.normal(size=(3, 2))
            X *= length / np.linalg.norm(X, axis=1, keepdims=True)
            marks = joint.marks(rng.integers(0, classes, 3))
            whole = Problem(joint, X, marks, penalty, length)
            less = replace(whole, rows=X[1:], marks=marks[1:])
            weights = rng.normal(size=(joint.outputs, 2)) * rng.choice([0.0, 0.1, 1.0]) / length
            grown = np.linalg.slogdet(whole.curve(weights))[1] - np.linalg.slogdet(less.curve(weights))[1]
            allowed = joint.log_det(length**2 / penalty)
            assert -1e-9 <= grown <= allowed * (1 + 1e-6) + 1e-9
            most = max(most, float(grown / allowed))
        assert most > 0.3


def test_noise_has_the_length_and_the_directions_it_is_said_to_have() -> None:
    """Γ(p, scale) has the mean p·scale and the variance p·scale²; five deviations are one in a million."""
    drawn = np.array([perturbation.spherical((2, 3), 0.5) for _ in range(4000)])
    lengths = np.linalg.norm(drawn.reshape(4000, -1), axis=1)
    assert abs(lengths.mean() - 3.0) < 5 * math.sqrt(6 * 0.25 / 4000)
    assert abs(lengths.var() - 1.5) < 5 * 1.5 * math.sqrt((2 + 6 / 6) / 4000)
    middle = drawn.reshape(4000, -1).mean(axis=0)
    assert (np.abs(middle) < 5 * math.sqrt((1.5 + 9) / 6 / 4000)).all()


# ---- behind the curator ----


JOINTS = pytest.mark.parametrize(
    "joint",
    [Chances(4), OfMargins(LOGISTIC, 2), OfMargins(huber(0.2), 3), OfMargins(huber(0.001), 2)],
    ids=["softmax", "logistic", "huber", "sharp"],
)


@JOINTS
def test_a_slope_is_no_steeper_than_its_bound_says(joint: Any) -> None:
    """Against the same in 64 binary digits, at weights short and long."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 6))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    marks = joint.marks(rng.integers(-1, joint.classes, 3000))
    problem = Problem(joint, X, marks, 0.3, 1.0)
    precise = Problem(joint, X.astype(np.longdouble), marks.astype(np.longdouble), 0.3, 1.0)
    for size in (1e-3, 1.0, 300.0):
        weights, tilt = rng.normal(size=(2, joint.outputs, 6)) * size
        exact = precise.slope(weights.astype(np.longdouble), tilt.astype(np.longdouble))
        length = np.linalg.norm(exact.ravel())
        off = slope_off(joint, (3000, 6, 1.0), 10 * length, float(np.linalg.norm(weights)))
        assert np.linalg.norm((exact - slope_of(problem, weights, tilt)).ravel()) <= off < 1e-5
        assert length <= steepness(problem, weights, tilt) <= length * (1 + 2.0**-39) + off


@JOINTS
@pytest.mark.parametrize("penalty", [1.0, 30.0])
def test_a_descent_in_doubles_arrives_as_near_as_is_proven(joint: Any, penalty: float) -> None:
    """With rows on one side, on both and nowhere; and with fewer rows than there might be."""
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(60, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for rows in (np.ones((60, 3)) / math.sqrt(3), directions, np.zeros((0, 3))):
        marks = joint.marks(rng.integers(0, joint.classes, len(rows)))
        problem, tilt = Problem(joint, rows, marks, penalty, LONGEST), rng.normal(size=(joint.outputs, 3))
        public = arrival(joint, 3, penalty, 80, float(np.linalg.norm(tilt)))
        assert public is not None
        found = arrived(problem, tilt, public)
        assert steepness(problem, found, tilt) <= public.within * penalty * _steeper(joint, penalty)
        near, _ = solvers.minimum(problem, tilt, 1e-3 * public.within * penalty)
        left = steepness(problem, near, tilt) / penalty
        assert left <= public.within / 2
        assert np.linalg.norm(found - near) <= public.within + left


def _steeper(joint: Any, penalty: float) -> float:
    """How much steeper a problem can be so far from its minimum, in penalties."""
    found: float = (80 * joint.curvature * LONGEST**2 + penalty) / penalty
    return found


def test_what_doubles_cannot_solve_is_not_promised() -> None:
    joint = OfMargins(LOGISTIC, 2)
    assert arrival(joint, 21, 1.0, 2**20, 100.0) is not None
    assert arrival(joint, 21, 1e-9, 2**20, 100.0) is None
    assert arrival(joint, 2000, 1.0, 2**20, 100.0) is None
    assert arrival(Chances(100), 3, 1.0, 2**20, 100.0) is None  # second derivatives of each row


@pytest.mark.parametrize(("epsilon", "delta"), [(1, Fraction(1, 10**6)), (30, Fraction(1, 10**4))])
def test_more_rows_than_is_said_pass_as_seldom_as_is_said(epsilon: int, delta: Fraction) -> None:
    """By the law of the test's noise, at one row more than there may be."""
    far = beyond(Fraction(epsilon), delta)
    ratio = math.exp(-epsilon / 50)
    seldom = ratio ** (far + 1) / (1 + ratio)
    assert seldom * (1 + math.exp(epsilon)) <= float(delta) / 200
    assert seldom * (1 + math.exp(epsilon)) > float(delta) / 4000


def test_too_many_rows_count_nowhere() -> None:
    exact = np.array([[4096, -4096] * 400, [1, 0] * 400])
    few, many = replace(_minima(50.0), rows=20), replace(_minima(50.0), rows=2000)
    assert abs(few.release(exact)[0][0] * STEP) < 2
    assert many.release(exact)[0][0] * STEP > 4


@pytest.fixture(autouse=True)
def calibrated_anew() -> Iterator[None]:
    yield
    _calibrated.cache_clear()


def _minima(epsilon: float, norm: int = 4096) -> ObjectiveRelease:
    return ObjectiveRelease(
        "logistic", Fraction(1), 2, 2, norm, Fraction(1), 2000, Fraction(epsilon), Fraction(1, 1000)
    )


def _releases(minima: ObjectiveRelease, table: list[list[int]]) -> Any:
    exact = np.array(table, dtype=np.int64).reshape(-1, 2).T
    return lambda count: np.array([minima.release(exact)[0] for _ in range(count)], dtype=float) * STEP


def test_minima_on_a_grid_keep_their_price_and_planted_mistakes_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    minima, table = _minima(1.0), [[4096, 1], [-4096, 0]]
    target = _releases(minima, table), _releases(minima, [*table, [4096, 0]])
    assert not audit.run(target, claim=minima.event(), samples=1000, alpha=1e-6).violates
    honest = gaussian_tilt

    def planted(*given: Any) -> Tilted:
        found = honest(*given)
        return Tilted(found.scale / 20, found.penalty)

    monkeypatch.setattr("sfumato.learn.convex.objective_release.gaussian_tilt", planted)
    _calibrated.cache_clear()
    assert audit.run(target, claim=minima.event(), samples=1000, alpha=1e-6).violates


@pytest.mark.parametrize("failing", ["steepness", "minimum"])
def test_no_rows_and_solvers_that_fail_are_no_errors(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven takes over, and learns the same."""
    minima, exact = _minima(20.0), np.array([[4096, -4096] * 40, [1, 0] * 40])
    assert np.shape(minima.release(np.zeros((2, 0), dtype=np.int64))) == (1, 2)
    usual = minima.release(exact)[0][0] * STEP

    def fails(*given: Any) -> float:
        if failing == "minimum":
            raise np.linalg.LinAlgError
        return math.nan

    monkeypatch.setattr(f"sfumato.learn.convex.objective_release.{failing}", fails)
    assert abs(minima.release(exact)[0][0] * STEP - usual) < 0.5 * usual
