"""The learning curves of private logistic regression: error against rows, and against ε.

    python benchmarks/convex.py [--restarts 200] [--plot folder]

Points on the unit sphere in ten dimensions, λ = 0.01, replace-one neighbours and a public number of rows, as
in the talk. "uniform" keeps points with a margin of 0.03; "unseparable" turns the labels of one in five that
lie within 0.1 of the plane. Three methods, five folds, each with so many draws of noise: output perturbation,
objective perturbation with its determinant, and no noise. Beside them output perturbation once more, of the
same guarantee, with the λ that `learn.choose_output_regularization` returns for so many rows, dimensions and
ε, all of them public here. Beside the reference: a rerun at 14,000 rows, of which no standard errors are
known. Ours have two parts, drawn noise and the rows tested on; those of another rerun are no smaller than the
second.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato import learn
from sfumato.learn.convex.losses import LOGISTIC
from sfumato.learn.convex.perturbation import calibrate_objective, draw_spherical, output_sensitivity
from sfumato.learn.convex.problems import ConvexProblem, MarginLoss
from sfumato.learn.convex.solvers import solve
from sfumato.privacy.neighbours import REPLACE_ONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DIMENSIONS, FOLDS, REGULARIZATION = 10, 5, 0.01
ROWS = (1000, 2000, 4000, 6000, 8000, 10_000, 12_000, 14_000)
EPSILONS = (0.02, 0.05, 0.1, 0.15, 0.2)
EPSILON, FIXED = 0.1, 10_000
METHODS = ("output", "output, own λ", "objective", "no noise")
REFERENCE = {
    "uniform": {"output": 0.059, "output, own λ": 0.059, "objective": 0.011, "no noise": 0.0},
    "unseparable": {"output": 0.128, "output, own λ": 0.128, "objective": 0.066, "no noise": 0.051},
}


@dataclass(frozen=True)
class Point:
    data: str
    rows: int
    epsilon: float
    errors: dict[str, tuple[float, float, float]]
    """Mean, deviation and standard error over folds and draws."""


def drawn(name: str, count: int, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """The first coordinate decides; that it does is of no use to a method that turns with the data."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(3 * count, DIMENSIONS))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    side = found[:, 0]
    if name == "uniform":
        found = found[np.abs(side) >= 0.03]
        labels = (found[:, 0] > 0).astype(np.int64)
    else:
        turned = (np.abs(side) < 0.1) & (rng.random(len(side)) < 0.2)
        labels = ((side > 0) ^ turned).astype(np.int64)
    return found[:count], labels[:count]


def posed(points: Floats, y: NDArray[np.int64], regularization: float = REGULARIZATION) -> ConvexProblem:
    loss = MarginLoss(LOGISTIC, 2)
    return ConvexProblem(loss, points, loss.encode_labels(y), regularization * len(points), 1.0)


def own_regularization(rows: int, epsilon: float) -> float:
    """Not less than in the talk."""
    return max(
        REGULARIZATION, learn.choose_output_regularization(rows=rows, dimensions=DIMENSIONS, epsilon=epsilon)
    )


def level_of(problem: ConvexProblem) -> Floats:
    found: Floats = solve(problem, np.zeros((1, DIMENSIONS)))[0]
    return found


def perturbed(problem: ConvexProblem, start: Floats, perturbations: Floats) -> Floats:
    """Minimise many perturbed objectives at once, by Newton's steps with the Hessian at the common start."""
    inverse = np.linalg.inv(problem.hessian(start[None, :]))
    found = np.repeat(start[None, :], len(perturbations), axis=0)
    signs = problem.labels[:, 0]
    rows = problem.rows * signs[:, None]
    for _ in range(60):
        margins = rows @ found.T
        np.exp(np.clip(margins, -30, 30, out=margins), out=margins)
        margins += 1
        np.reciprocal(margins, out=margins)
        gradients = problem.penalty * found + perturbations - (rows.T @ margins).T
        if np.abs(gradients).max() <= 1e-7 * problem.penalty:
            return found
        found -= gradients @ inverse.T
    return np.vstack([solve(problem, each[None, :]) for each in perturbations])


def folded(count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    places = np.arange(count)
    for fold in range(FOLDS):
        yield places[places % FOLDS != fold], places[places % FOLDS == fold]


def measured(name: str, rows: int, epsilons: tuple[float, ...], restarts: int) -> list[Point]:
    """With so many rows to learn from, four fifths of all."""
    points, y = drawn(name, rows * FOLDS // (FOLDS - 1), seed=rows)
    errors: dict[tuple[float, str], list[Floats]] = {}
    for learn_from, test in folded(len(points)):
        problem = posed(points[learn_from], y[learn_from])
        level = level_of(problem)

        def wrong(weights: Floats, test: NDArray[np.int64] = test) -> Floats:
            guessed = points[test] @ np.atleast_2d(weights).T > 0
            return np.asarray((guessed != (y[test] == 1)[:, None]).mean(axis=0), dtype=np.float64)

        for epsilon in epsilons:
            shape = (restarts, DIMENSIONS)
            moved = np.array([draw_spherical((DIMENSIONS,), 1.0) for _ in range(restarts)]).reshape(shape)
            noise = calibrate_objective(problem, epsilon, REPLACE_ONE)
            perturbations = np.array([draw_spherical((DIMENSIONS,), noise.scale) for _ in range(restarts)])
            convex = replace(problem, penalty=noise.penalty)
            own = posed(points[learn_from], y[learn_from], own_regularization(len(learn_from), epsilon))
            for method, weights in (
                ("output", level + moved * (output_sensitivity(problem, REPLACE_ONE) / epsilon)),
                ("output, own λ", level_of(own) + moved * (output_sensitivity(own, REPLACE_ONE) / epsilon)),
                ("objective", perturbed(convex, level, perturbations)),
                ("no noise", level),
            ):
                errors.setdefault((epsilon, method), []).append(wrong(weights))
    return [Point(name, rows, epsilon, _summed(errors, epsilon, len(points))) for epsilon in epsilons]


def _summed(
    errors: dict[tuple[float, str], list[Floats]], epsilon: float, tested: int
) -> dict[str, tuple[float, float, float]]:
    return {method: _cell(errors[epsilon, method], tested) for method in METHODS}


def _cell(folds: list[Floats], tested: int) -> tuple[float, float, float]:
    """Draws say how far noise leads, and every row is tested on once whatever their number."""
    every = np.concatenate(folds)
    mean, spread = float(every.mean()), float(every.std())
    return mean, spread, math.sqrt(spread**2 / len(every) + mean * (1 - mean) / tested)


def told(point: Point) -> str:
    cells = (f"{mean:.4f} ± {spread:.4f} ({error:.4f})" for mean, spread, error in point.errors.values())
    return f"{point.data:<12} {point.rows:>6}  {point.epsilon:>5}  " + "  ".join(cells)


def against_reference(point: Point) -> str:
    """Beyond what a reference of three digits is rounded by; and whether by more than two standard errors."""
    found = []
    for method, most in REFERENCE[point.data].items():
        mean, _, error = point.errors[method]
        larger = " LARGER" if mean > most + 0.0005 else ""
        far = f" by {(mean - most) / error:.1f} standard errors of ours" if larger and error else ""
        found.append(f"  {method}: {mean:.4f} ± {error:.4f} of {most:.3f}{larger}{far}")
    return "\n".join(found)


def drawing(points: list[Point], path: Path, across: str) -> None:
    from sfumato.viz import learning_curves

    cells = [
        (p.data, m, p.rows if across == "rows" else p.epsilon, *p.errors[m][:2])
        for p in points
        for m in METHODS
    ]
    panels, methods, x, error, spread = zip(*cells, strict=True)
    title = f"Private logistic regression, ε = {EPSILON}" if across == "rows" else f"{FIXED:,} rows"
    learning_curves(panels, methods, x, error, spread, title=title, across=across).save(path)
    print(f"drawn: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--restarts", type=int, default=200)
    parser.add_argument("--plot", type=Path, help="a folder for two pictures")
    options = parser.parse_args()
    began = time.process_time()
    heads = "  ".join(f"{method:<24}" for method in METHODS)
    print(f"{'data':<12} {'rows':>6}  {'ε':>5}  {heads}\n{'':<27}mean ± deviation (standard error)")
    by_rows = [p for name in REFERENCE for n in ROWS for p in measured(name, n, (EPSILON,), options.restarts)]
    by_epsilon = [p for name in REFERENCE for p in measured(name, FIXED, EPSILONS, options.restarts)]
    print("\n".join(map(told, by_rows + by_epsilon)))
    lost = [p for p in by_rows if p.rows >= 2000 and p.errors["objective"][0] >= p.errors["output"][0]]
    print(f"objective is no better than output at {len(lost)} of the points with 2,000 rows or more")
    for point in by_rows:
        if point.rows == max(ROWS):
            print(f"{point.data}, {point.rows:,} rows, own λ = {own_regularization(point.rows, EPSILON):.4f}")
            print(against_reference(point))
    print(f"{time.process_time() - began:.0f} s of CPU time")
    if options.plot:
        drawing(by_rows, options.plot / "convex-rows.png", "rows")
        drawing(by_epsilon, options.plot / "convex-epsilon.png", "epsilon")


if __name__ == "__main__":
    main()
