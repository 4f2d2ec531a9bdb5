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
from sequential import audit_in_stages
from sfumato import audit
from sfumato.learn import ConvexERM, LinearSVC, LogisticRegression
from sfumato.learn.convex import perturbation, solvers
from sfumato.learn.convex.convergence import (
    ROW_NORM,
    bound_convergence,
    bound_gradient_error,
    bound_gradient_norm,
    descend_to_bound,
    sum_gradient,
)
from sfumato.learn.convex.losses import LOGISTIC, Loss, huber
from sfumato.learn.convex.objective_release import STEP, ObjectiveRelease, _calibrate, bound_count_error
from sfumato.learn.convex.perturbation import (
    ObjectiveNoise,
    _integrate_delta,
    calibrate_gaussian_objective,
    calibrate_objective,
    gaussian_objective_delta,
    output_sensitivity,
    perturb_objective_gaussian,
)
from sfumato.learn.convex.problems import ConvexProblem, MarginLoss, SoftmaxLoss
from sfumato.oracle.blocks import SumBlock
from sfumato.oracle.gradients import GradientQuestion
from sfumato.privacy.events import Sequential
from sfumato.privacy.neighbours import ADD_REMOVE, REPLACE_ONE, Neighbours

BOUNDS = (-1.0, 1.0)
HUGE = 1e6
SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]
FEATURES = 4

Data = tuple[np.ndarray, np.ndarray]
Floats = np.ndarray


# ---- noisy descent -----------------------------------------------------------------------------------------


def reach_minimum(problem: ConvexProblem, perturbation: Any) -> tuple[Any, float]:
    return solvers.minimize(problem, perturbation, problem.gradient_tolerance)


def neighbours(classes: int, first: int = 0) -> Iterator[tuple[Data, Data]]:
    """A table with and without one row that reaches far, each way round in turn."""
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1.2, 1.2, (60, FEATURES)), rng.integers(0, classes, 60)
    signs = np.where(np.arange(FEATURES) % 2, -1.0, 1.0)
    far = (np.full(FEATURES, HUGE), signs * HUGE, np.eye(FEATURES)[0] * HUGE, np.full(FEATURES, np.nan))
    for place, row in enumerate(far):
        for other, label in enumerate((0, classes - 1, classes)):
            more = np.vstack([X, row]), np.append(y, label)
            yield (more, (X, y)) if (place + other + first) % 2 else ((X, y), more)


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

    # Each pair is tried both ways round, with one spend or another.
    pairs = neighbours(classes, first=SPENDS.index(spend) % 2)
    return audit.replay(program, pairs, claim=Sequential(made().fit_budget().events))


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", MAKERS)
def test_descent_keeps_its_price(make: Callable[..., Any], classes: int, spend: dict[str, float]) -> None:
    found = descended(make, classes, spend)
    assert found.finding is None
    assert found.reached > 0.5


def test_gradients_priced_for_half_their_norm_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GradientQuestion.build_block

    def planted(self: GradientQuestion, *given: Any) -> SumBlock:
        block = honest(self, *given)
        return SumBlock(block.terms, block.l1 // 2, block.l2_squared // 4)

    monkeypatch.setattr(GradientQuestion, "build_block", planted)
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

    without: ConvexProblem
    beside: ConvexProblem

    def __iter__(self) -> Iterator[ConvexProblem]:
        return iter((self.without, self.beside))


def pairs(longest: float, penalty: float, loss: Loss = LOGISTIC) -> Iterator[Pair]:
    score_loss = MarginLoss(loss, 2)
    for rows in ([], [0.3 * longest, -longest], [longest] * 20):
        for row, label in ((longest, 1), (longest, 0), (0.5 * longest, 1)):
            X = np.array([*rows, row]).reshape(-1, 1)
            y = np.array([*([1, 0, 1] * 7)[: len(rows)], label])
            whole = ConvexProblem(score_loss, X, score_loss.encode_labels(y), penalty, longest)
            yield Pair(replace(whole, rows=whole.rows[:-1], labels=whole.labels[:-1]), whole)


def perturbation_at(problem: ConvexProblem, weights: Floats) -> tuple[Floats, Floats]:
    """Return the perturbation with its minimum at each of these weights, and the second derivative there."""
    scores, labels = weights[:, None] * problem.rows[:, 0], problem.labels[:, 0]
    gradient = problem.loss.score_gradients
    step = 1e-6
    second = (gradient(scores + step, labels) - gradient(scores - step, labels)) / (2 * step)
    found = -(gradient(scores, labels) @ problem.rows[:, 0]) - problem.penalty * weights
    return found, second @ problem.rows[:, 0] ** 2 + problem.penalty


def log_density(problem: ConvexProblem, noise: ObjectiveNoise, weights: Floats, shape: str) -> Floats:
    """Of the minimiser, where the noise is Gaussian or, as spherical noise of one number is, Laplace's."""
    at, curve = perturbation_at(replace(problem, penalty=noise.penalty), weights)
    if shape == "laplace":
        return -np.abs(at) / noise.scale - math.log(2 * noise.scale) + np.log(curve)
    return -((at / noise.scale) ** 2) / 2 - math.log(noise.scale * math.sqrt(2 * math.pi)) + np.log(curve)


def grid(pair: Pair, noise: ObjectiveNoise) -> Floats:
    """Dense around 0, where gradients turn, even around the rest, and far enough for nearly all noise."""
    pull = pair.beside.row_norm * len(pair.beside.rows)
    near = np.geomspace(1e-7 / pair.beside.row_norm, 60 * (noise.scale + pull) / noise.penalty, 3000)
    even = np.linspace(-1, 1, 8001) * (12 * noise.scale + pull) / noise.penalty
    return np.unique(np.concatenate([-near, near, even]))


def largest_ratio(pair: Pair, noise: ObjectiveNoise) -> float:
    weights = grid(pair, noise)
    one, other = (log_density(each, noise, weights, "laplace") for each in pair)
    return float(np.abs(one - other).max())


def delta_between(pair: Pair, noise: ObjectiveNoise, epsilon: float) -> float:
    weights = grid(pair, noise)
    one, other = (np.exp(log_density(each, noise, weights, "gauss")) for each in pair)
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
        largest_ratio(pair, calibrate_objective(pair.beside, epsilon))
        for pair in pairs(longest, penalty, loss)
    ]
    assert max(ratios) <= epsilon * (1 + 1e-6)
    assert max(ratios) > 0.4 * epsilon


@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
def test_a_replaced_row_is_hidden_too(longest: float, penalty: float) -> None:
    ratios = []
    for pair in pairs(longest, penalty):
        noise = calibrate_objective(pair.beside, 1.0, REPLACE_ONE)
        turned = replace(pair.beside, rows=np.vstack([pair.without.rows, [[-longest]]]))
        ratios.append(largest_ratio(Pair(turned, pair.beside), noise))
    assert max(ratios) <= 1 + 1e-6
    assert max(ratios) > 0.4


def library_noise(
    problem: ConvexProblem, epsilon: float, neighbours_: Neighbours = ADD_REMOVE
) -> ObjectiveNoise:
    """What a library does: the determinant's part from c·R/Λ, where rows of length R need c·R²/Λ."""
    wrong = replace(problem, row_norm=math.sqrt(problem.row_norm))
    honest = calibrate_objective(wrong, epsilon, neighbours_)
    return ObjectiveNoise(honest.scale * problem.row_norm / wrong.row_norm, honest.penalty)


def old_noise(problem: ConvexProblem, epsilon: float, neighbours_: Neighbours = ADD_REMOVE) -> ObjectiveNoise:
    """The form of 2008: no determinant at all."""
    return ObjectiveNoise(problem.row_norm / epsilon, problem.penalty)


@pytest.mark.parametrize("planted", [library_noise, old_noise])
def test_a_determinant_forgotten_at_long_rows_is_found(planted: Callable[..., ObjectiveNoise]) -> None:
    assert max(largest_ratio(pair, planted(pair.beside, 1.0)) for pair in pairs(100.0, 100.0)) > 2.5


def test_a_library_that_forgets_is_caught_from_outside() -> None:
    """By samples alone, as anyone could: ours passes at the same row, at one false alarm in a million."""
    pair = next(iter(pairs(100.0, 100.0)))
    assert audit.run(
        minimisers(pair, library_noise(pair.beside, 1.0)), 1.0, samples=60_000, alpha=1e-6
    ).violates
    assert not audit.run(
        minimisers(pair, calibrate_objective(pair.beside, 1.0)), 1.0, samples=60_000, alpha=1e-6
    ).violates


def minimisers(pair: Pair, noise: ObjectiveNoise) -> tuple[Any, Any]:
    """Many at once, by halving: the gradient of a convex objective grows with the weight."""

    def sampler(problem: ConvexProblem) -> Callable[[int], Floats]:
        convex = replace(problem, penalty=noise.penalty)

        def drawn(count: int) -> Floats:
            perturbations = np.random.default_rng().laplace(0, noise.scale, count)
            low, high = np.full(count, -1e4), np.full(count, 1e4)
            for _ in range(60):
                middle = (low + high) / 2
                above = perturbation_at(convex, middle)[0] < perturbations
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            return (low + high) / 2

        return drawn

    return sampler(pair.without), sampler(pair.beside)


def test_halving_finds_what_the_solver_finds() -> None:
    for pair in pairs(3.0, 0.5):
        for noise in (-4.0, 0.01, 7.0):
            found, norm = reach_minimum(pair.beside, np.array([[noise]]))
            assert norm < 1e-9
            assert perturbation_at(pair.beside, found[0])[0][0] == pytest.approx(noise, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_gaussian_perturbations_keep_their_price(
    loss: Loss, longest: float, penalty: float, epsilon: float
) -> None:
    delta = 1e-3  # large enough for an integral to see it
    for pair in pairs(longest, penalty, loss):
        assert (
            delta_between(pair, calibrate_gaussian_objective(pair.beside, epsilon, delta), epsilon)
            <= delta * 1.02
        )


def test_a_gaussian_perturbation_without_its_determinant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarginLoss, "log_det_increase", lambda self, ratio: 0.0)
    found = [
        delta_between(p, calibrate_gaussian_objective(p.beside, 1.0, 1e-3), 1.0) for p in pairs(100.0, 100.0)
    ]
    assert max(found) > 0.01


@pytest.mark.parametrize(("longest", "penalty"), SETTINGS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_row_moves_a_minimiser_further_than_output_noise_covers(
    loss: Loss, longest: float, penalty: float
) -> None:
    zero = np.zeros((1, 1))
    moved = [
        (
            float(abs(reach_minimum(pair.without, zero)[0] - reach_minimum(pair.beside, zero)[0]).item()),
            pair,
        )
        for pair in pairs(longest, penalty, loss)
    ]
    assert all(distance <= output_sensitivity(pair.beside) * (1 + 1e-9) for distance, pair in moved)


def test_a_minimum_of_several_scores_moves_no_further() -> None:
    rng = np.random.default_rng(1)
    for score_loss in (SoftmaxLoss(4), MarginLoss(huber(), 4)):
        X = rng.normal(size=(30, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(-1, 4, 30)
        whole = ConvexProblem(score_loss, X, score_loss.encode_labels(y), 0.5, 1.0)
        less = replace(whole, rows=X[1:], labels=whole.labels[1:])
        zero = np.zeros((4, 3))
        (one, norm), (other, _) = reach_minimum(whole, zero), reach_minimum(less, zero)
        assert norm < 1e-9
        assert np.linalg.norm(one - other) <= output_sensitivity(whole)


@pytest.mark.parametrize(
    ("classes", "longest", "penalty", "epsilon"), [(3, 1.0, 1.0, 0.3), (3, 8.0, 2.0, 1.0), (4, 1.0, 0.2, 1.0)]
)
def test_gaussian_perturbations_of_several_scores_keep_their_price(
    classes: int, longest: float, penalty: float, epsilon: float
) -> None:
    """With no row and with one: an integral by a million draws of a fixed seed, which see δ to a sixth."""
    score_loss, delta, rng = SoftmaxLoss(classes), 1e-3, np.random.default_rng(4)
    labels = score_loss.encode_labels(np.array([0]))
    problem = ConvexProblem(score_loss, np.array([[longest]]), labels, penalty, longest)
    noise = calibrate_gaussian_objective(problem, epsilon, delta)
    perturbations = rng.normal(0, noise.scale, (10**6, classes))
    scores = -perturbations / noise.penalty * longest
    gradients = score_loss.score_gradients(scores, np.repeat(labels, len(perturbations), axis=0)) * longest
    hessians = score_loss.score_hessians(scores, np.repeat(labels, len(perturbations), axis=0)) * longest**2
    raised = np.linalg.slogdet(np.eye(classes) + hessians / noise.penalty)[1]
    loss = (((perturbations - gradients) ** 2).sum(axis=1) - (perturbations**2).sum(axis=1)) / (
        2 * noise.scale**2
    ) - raised
    without = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - loss)))
    beside = np.maximum(0.0, np.exp(-loss) - math.exp(epsilon))
    assert max(without.mean(), beside.mean()) <= delta * 1.17
    assert max(without.mean(), beside.mean()) > 0


def test_one_direction_and_several_have_one_law() -> None:
    for mu, epsilon in [(0.2, 0.5), (0.5, 1.0), (1.0, 0.3)]:
        closed = gaussian_objective_delta(mu, 0.1, epsilon)
        assert closed <= _integrate_delta(mu, epsilon - 0.1, 1) <= closed * 1.01


# ---- approximate minima ----


def _fitted(rows: int, features: int, classes: int, loss: Loss | None = None) -> ConvexProblem:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, features)) / math.sqrt(features)
    score_loss: Any = SoftmaxLoss(classes) if loss is None else MarginLoss(loss, classes)
    return ConvexProblem(score_loss, X, score_loss.encode_labels(rng.integers(0, classes, rows)), 1.0, 2.0)


@pytest.mark.parametrize(("features", "classes"), [(5, 2), (30, 3), (140, 3)])
@pytest.mark.parametrize("loss", [None, huber(), huber(0.01)], ids=["chances", "huber", "sharp"])
def test_a_solver_comes_as_near_as_its_price_says(features: int, classes: int, loss: Loss | None) -> None:
    problem = _fitted(500, features, classes, loss)
    shape = problem.loss.outputs, features
    perturbation = np.random.default_rng(3).normal(size=shape) * 5
    found = solvers.solve(problem, perturbation)
    assert np.linalg.norm(problem.gradient(found, perturbation)) <= problem.gradient_tolerance
    assert not np.array_equal(found, -perturbation / problem.penalty)


def test_the_proven_descent_arrives_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "_minimize_newton", lambda problem, perturbation, weights, floor: weights)
    for problem in (_fitted(300, 4, 3), _fitted(300, 4, 2, huber(0.05))):
        perturbation = np.ones((problem.loss.outputs, 4))
        found, norm = reach_minimum(problem, perturbation)
        assert norm <= problem.gradient_tolerance
        assert np.linalg.norm(found + perturbation) > 0.1


def test_rows_count_nowhere_where_no_solver_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an error: whether one is raised would depend on rows."""
    monkeypatch.setattr(solvers, "_minimize_newton", lambda problem, perturbation, weights, floor: weights)
    monkeypatch.setattr(solvers, "_NESTEROV_STEPS", 0)
    problem, perturbation = _fitted(300, 4, 3), np.ones((3, 4))
    assert np.array_equal(solvers.solve(problem, perturbation), -perturbation / problem.penalty)
    assert perturb_objective_gaussian(problem, 1.0, 1e-6).shape == (3, 4)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_determinants_grow_no_further_than_is_said(classes: int) -> None:
    from sfumato.learn.convex.problems import ScoreLoss

    rng = np.random.default_rng(2)
    losses: list[ScoreLoss] = [
        SoftmaxLoss(classes),
        MarginLoss(LOGISTIC, classes),
        MarginLoss(huber(0.1), classes),
    ]
    for score_loss in losses:
        most = 0.0
        for _ in range(300):
            penalty, length = float(rng.choice([0.01, 1.0, 30.0])), float(rng.choice([0.1, 1.0, 50.0]))
            X = rng.normal(size=(3, 2))
            X *= length / np.linalg.norm(X, axis=1, keepdims=True)
            labels = score_loss.encode_labels(rng.integers(0, classes, 3))
            whole = ConvexProblem(score_loss, X, labels, penalty, length)
            less = replace(whole, rows=X[1:], labels=labels[1:])
            weights = rng.normal(size=(score_loss.outputs, 2)) * rng.choice([0.0, 0.1, 1.0]) / length
            grown = np.linalg.slogdet(whole.hessian(weights))[1] - np.linalg.slogdet(less.hessian(weights))[1]
            allowed = score_loss.log_det_increase(length**2 / penalty)
            assert -1e-9 <= grown <= allowed * (1 + 1e-6) + 1e-9
            most = max(most, float(grown / allowed))
        assert most > 0.3


def test_noise_has_the_length_and_the_directions_it_is_said_to_have() -> None:
    """Γ(p, scale) has the mean p·scale and the variance p·scale²; seven deviations are one in 1e11."""
    drawn = np.array([perturbation.draw_spherical((2, 3), 0.5) for _ in range(4000)])
    lengths = np.linalg.norm(drawn.reshape(4000, -1), axis=1)
    assert abs(lengths.mean() - 3.0) < 7 * math.sqrt(6 * 0.25 / 4000)
    assert abs(lengths.var() - 1.5) < 8 * 1.5 * math.sqrt((2 + 6 / 6) / 4000)
    middle = drawn.reshape(4000, -1).mean(axis=0)
    assert (np.abs(middle) < 7 * math.sqrt((1.5 + 9) / 6 / 4000)).all()


# ---- behind the curator ----


SCORE_LOSSES = pytest.mark.parametrize(
    "score_loss",
    [SoftmaxLoss(4), MarginLoss(LOGISTIC, 2), MarginLoss(huber(0.2), 3), MarginLoss(huber(0.001), 2)],
    ids=["softmax", "logistic", "huber", "sharp"],
)


@SCORE_LOSSES
def test_a_gradient_is_no_longer_than_its_bound_says(score_loss: Any) -> None:
    """Against the same in 64 binary digits, at weights short and long."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 6))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    labels = score_loss.encode_labels(rng.integers(-1, score_loss.classes, 3000))
    problem = ConvexProblem(score_loss, X, labels, 0.3, 1.0)
    precise = ConvexProblem(score_loss, X.astype(np.longdouble), labels.astype(np.longdouble), 0.3, 1.0)
    for size in (1e-3, 1.0, 300.0):
        weights, perturbation = rng.normal(size=(2, score_loss.outputs, 6)) * size
        exact = precise.gradient(weights.astype(np.longdouble), perturbation.astype(np.longdouble))
        length = np.linalg.norm(exact.ravel())
        off = bound_gradient_error(score_loss, (3000, 6, 1.0), 10 * length, float(np.linalg.norm(weights)))
        assert np.linalg.norm((exact - sum_gradient(problem, weights, perturbation)).ravel()) <= off < 1e-5
        assert length <= bound_gradient_norm(problem, weights, perturbation) <= length * (1 + 2.0**-39) + off


@SCORE_LOSSES
@pytest.mark.parametrize("penalty", [1.0, 30.0])
def test_a_descent_in_doubles_arrives_as_near_as_is_proven(score_loss: Any, penalty: float) -> None:
    """With rows on one side, on both and nowhere; and with fewer rows than there might be."""
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(60, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for rows in (np.ones((60, 3)) / math.sqrt(3), directions, np.zeros((0, 3))):
        labels = score_loss.encode_labels(rng.integers(0, score_loss.classes, len(rows)))
        problem, perturbation = (
            ConvexProblem(score_loss, rows, labels, penalty, ROW_NORM),
            rng.normal(size=(score_loss.outputs, 3)),
        )
        public = bound_convergence(score_loss, 3, penalty, 80, float(np.linalg.norm(perturbation)))
        assert public is not None
        found = descend_to_bound(problem, perturbation, public)
        assert bound_gradient_norm(problem, found, perturbation) <= public.distance * penalty * _condition(
            score_loss, penalty
        )
        near, _ = solvers.minimize(problem, perturbation, 1e-3 * public.distance * penalty)
        left = bound_gradient_norm(problem, near, perturbation) / penalty
        assert left <= public.distance / 2
        assert np.linalg.norm(found - near) <= public.distance + left


def _condition(score_loss: Any, penalty: float) -> float:
    """How much steeper a problem can be so far from its minimum, in penalties."""
    found: float = (80 * score_loss.smoothness * ROW_NORM**2 + penalty) / penalty
    return found


def test_what_doubles_cannot_solve_is_not_promised() -> None:
    score_loss = MarginLoss(LOGISTIC, 2)
    assert bound_convergence(score_loss, 21, 1.0, 2**20, 100.0) is not None
    assert bound_convergence(score_loss, 21, 1e-9, 2**20, 100.0) is None
    assert bound_convergence(score_loss, 2000, 1.0, 2**20, 100.0) is None
    assert bound_convergence(SoftmaxLoss(100), 3, 1.0, 2**20, 100.0) is None  # second derivatives of each row


@pytest.mark.parametrize(("epsilon", "delta"), [(1, Fraction(1, 10**6)), (30, Fraction(1, 10**4))])
def test_more_rows_than_is_said_pass_as_seldom_as_is_said(epsilon: int, delta: Fraction) -> None:
    """By the law of the test's noise, at one row more than there may be."""
    far = bound_count_error(Fraction(epsilon), delta)
    ratio = math.exp(-epsilon / 50)
    seldom = ratio ** (far + 1) / (1 + ratio)
    assert seldom * (1 + math.exp(epsilon)) <= float(delta) / 200
    assert seldom * (1 + math.exp(epsilon)) > float(delta) / 4000


def test_too_many_rows_count_nowhere() -> None:
    exact = np.array([[4096, -4096] * 400, [1, 0] * 400])
    few, many = replace(_release(50.0), rows=20), replace(_release(50.0), rows=2000)
    assert abs(few.release(exact)[0][0] * STEP) < 2
    assert many.release(exact)[0][0] * STEP > 4


@pytest.fixture(autouse=True)
def calibrated_anew() -> Iterator[None]:
    yield
    _calibrate.cache_clear()


def _release(epsilon: float, norm: int = 4096) -> ObjectiveRelease:
    return ObjectiveRelease(
        "logistic", Fraction(1), 2, 2, norm, Fraction(1), 2000, Fraction(epsilon), Fraction(1, 1000)
    )


def _releases(asked: ObjectiveRelease, table: list[list[int]]) -> Any:
    exact = np.array(table, dtype=np.int64).reshape(-1, 2).T
    return lambda count: np.array([asked.release(exact)[0] for _ in range(count)], dtype=float) * STEP


def test_releases_on_a_grid_keep_their_price_and_planted_mistakes_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, table = _release(1.0), [[4096, 1], [-4096, 0]]
    target = _releases(asked, table), _releases(asked, [*table, [4096, 0]])
    assert not audit.run(target, claim=asked.event(), samples=1000, alpha=1e-6).violates
    honest = calibrate_gaussian_objective

    def planted(*given: Any) -> ObjectiveNoise:
        found = honest(*given)
        return ObjectiveNoise(found.scale / 20, found.penalty)

    monkeypatch.setattr("sfumato.learn.convex.objective_release.calibrate_gaussian_objective", planted)
    _calibrate.cache_clear()
    assert audit_in_stages(target, asked.event(), samples=1000, alpha=1e-6).violates


@pytest.mark.parametrize("failing", ["bound_gradient_norm", "minimize"])
def test_no_rows_and_solvers_that_fail_are_no_errors(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven takes over, and learns the same."""
    asked, exact = _release(20.0), np.array([[4096, -4096] * 40, [1, 0] * 40])
    assert np.shape(asked.release(np.zeros((2, 0), dtype=np.int64))) == (1, 2)
    usual = asked.release(exact)[0][0] * STEP

    def fails(*given: Any) -> float:
        if failing == "minimize":
            raise np.linalg.LinAlgError
        return math.nan

    monkeypatch.setattr(f"sfumato.learn.convex.objective_release.{failing}", fails)
    assert abs(asked.release(exact)[0][0] * STEP - usual) < 0.5 * usual
