"""The histogram experiment: the errors of 64,909 noisy cells at four values of ε.

Dwork and McSherry's talk showed a map of points on a grid with Laplace noise in every cell. The grid here is
255 × 255 less the 116 cells farthest from the centre; the counts are asked of a lab like any other question.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sfumato as sf
from sfumato.viz.experiment import TALK, expected_error

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 255
LEFT_OUT = 116
CELLS = SIDE * SIDE - LEFT_OUT
EPSILONS = (1, 0.1, 0.01, 0.001)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of the noisy cells at one ε."""

    epsilon: float
    noisy: Ints
    average: float
    largest: int

    @property
    def expected(self) -> float:
        """Mean absolute value of the noise."""
        return expected_error(self.epsilon)

    @property
    def standard_error(self) -> float:
        """Standard error of the average over all cells."""
        r = math.exp(-self.epsilon)
        return math.sqrt((2 * r / (1 - r) ** 2 - self.expected**2) / CELLS)

    def row(self) -> dict[str, Any]:
        """Return these errors, with theory and the talk's figures, as one row of a table."""
        talk = TALK[self.epsilon]
        return {
            "epsilon": self.epsilon,
            "average": self.average,
            "maximum": self.largest,
            "theory": self.expected,
            "standard_error": self.standard_error,
            "talk_average": talk[0],
            "talk_maximum": talk[1],
        }


@dataclass(frozen=True, slots=True)
class Experiment:
    """The source of the points, the true counts, and the errors at every ε."""

    source: str
    truth: Ints
    errors: list[Errors]


def cell_places() -> tuple[Ints, Ints]:
    """Return the column and the row of every cell, in the order of the cells."""
    y, x = np.divmod(np.arange(SIDE * SIDE), SIDE)
    middle = SIDE // 2
    distance = (x - middle) ** 2 + (y - middle) ** 2
    nearest = np.argsort(distance, kind="stable")[:CELLS]
    kept = np.sort(nearest)
    return x[kept], y[kept]


def points() -> tuple[str, Ints]:
    """Return the source and the cell of every point: road nodes if that file exists, else generated."""
    roads = Path(os.environ.get("SFUMATO_DATA", "../shared/data")) / "roads" / "seattle_road_nodes.parquet"
    if roads.exists():
        import pyarrow.parquet as pq

        nodes = pq.read_table(roads, columns=["x", "y"])
        return "road nodes", _cells(nodes["x"].to_numpy(), nodes["y"].to_numpy())
    return "generated points", _cells(*_streets())


def run() -> Experiment:
    """Ask a lab for all cells at every ε, and compare the answers with the true counts."""
    import pyarrow as pa

    source, cells = points()
    truth = np.bincount(cells, minlength=CELLS)
    with TemporaryDirectory() as folder:
        lab = sf.create(Path(folder) / "map")
        lab.register(
            "points",
            pa.table({"cell": cells}),
            unit=sf.ROW,
            columns={"cell": sf.one_of(*range(CELLS), missing=0)},  # no point is without its cell
            budget=sf.Budget(epsilon=2),
        )
        return Experiment(source, truth, list(_errors(lab, truth)))


def _errors(lab: sf.Lab, truth: Ints) -> Iterator[Errors]:
    question = lab.session().sql("SELECT cell, COUNT(*) AS n FROM points GROUP BY cell")
    for epsilon in EPSILONS:
        noisy = question.release(epsilon=epsilon, include_empty=True).to_arrow()["n"].to_numpy()
        apart = np.abs(noisy - truth)
        yield Errors(epsilon, noisy, float(apart.mean()), int(apart.max()))


def _cells(x: NDArray[Any], y: NDArray[Any]) -> Ints:
    """Return the cell of each point, scaled to the grid; points outside all cells are dropped."""
    grid = np.full(SIDE * SIDE, -1, dtype=np.int64)
    column, row = cell_places()
    grid[row * SIDE + column] = np.arange(CELLS)
    cell: Ints = grid[_scaled(y) * SIDE + _scaled(x)]
    return cell[cell >= 0]


def _scaled(values: NDArray[Any]) -> Ints:
    low, high = values.min(), values.max()
    scaled: Ints = ((values - low) * SIDE // (high - low)).astype(np.int64)
    return np.minimum(scaled, SIDE - 1)


def _streets(points: int = 150_000, seed: int = 11) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coordinates of points along generated streets, denser towards the middle."""
    rng = np.random.default_rng(seed)
    streets = 400
    which = rng.integers(streets, size=points)
    start, angle = (
        rng.normal(0, 45, (streets, 2)),
        rng.choice([0.0, np.pi / 2], streets) + rng.normal(0, 0.2, streets),
    )
    along = rng.normal(0, 40, points)
    x = start[which, 0] + along * np.cos(angle[which]) + rng.normal(0, 0.4, points)
    y = start[which, 1] + along * np.sin(angle[which]) + rng.normal(0, 0.4, points)
    return x, y
