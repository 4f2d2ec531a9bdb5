"""The histogram experiment: 64,909 cells, four ε, and what noise does to each.

Dwork and McSherry's talk showed a map of points on a grid with Laplace noise in every cell. The cells here
are 255 × 255 less the 116 farthest from the centre; the answers come through the door like any other.
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

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 255
LEFT_OUT = 116
CELLS = SIDE * SIDE - LEFT_OUT
EPSILONS = (1, 0.1, 0.01, 0.001)
TALK = {1: (1.02, 13), 0.1: (9.12, 109), 0.01: (98.56, 1041), 0.001: (1003.23, 9663)}
"""Average and maximum cell error as the talk gives them; the averages do not all fit the theory."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Errors:
    """How far the noisy cells are from the true ones at one ε."""

    epsilon: float
    noisy: Ints
    average: float
    largest: int

    @property
    def expected(self) -> float:
        """2r / (1 − r²) with r = e^−ε: the mean absolute value of the integer noise."""
        r = math.exp(-self.epsilon)
        return 2 * r / (1 - r * r)

    @property
    def standard_error(self) -> float:
        """Of the average over all cells."""
        r = math.exp(-self.epsilon)
        return math.sqrt((2 * r / (1 - r) ** 2 - self.expected**2) / CELLS)

    def row(self) -> dict[str, Any]:
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
    """Where the points came from, the true counts, and the errors at every ε."""

    source: str
    truth: Ints
    errors: list[Errors]


def cell_places() -> tuple[Ints, Ints]:
    """Column and row of every cell kept, in the order of the cells."""
    y, x = np.divmod(np.arange(SIDE * SIDE), SIDE)
    middle = SIDE // 2
    distance = (x - middle) ** 2 + (y - middle) ** 2
    nearest = np.argsort(distance, kind="stable")[:CELLS]
    kept = np.sort(nearest)
    return x[kept], y[kept]


def points() -> tuple[str, Ints]:
    """The cell of every point: road nodes where the data is there, else generated streets."""
    roads = Path(os.environ.get("SFUMATO_DATA", "../shared/data")) / "roads" / "seattle_road_nodes.parquet"
    if roads.exists():
        import pyarrow.parquet as pq

        nodes = pq.read_table(roads, columns=["x", "y"])
        return "road nodes", _cells(nodes["x"].to_numpy(), nodes["y"].to_numpy())
    return "generated points", _cells(*_streets())


def run() -> Experiment:
    """Ask for all cells at every ε, through the door, and compare with the truth."""
    import pyarrow as pa

    source, cells = points()
    truth = np.bincount(cells, minlength=CELLS)
    with TemporaryDirectory() as folder:
        lab = sf.create(Path(folder) / "map")
        lab.register(
            "points",
            pa.table({"cell": cells}),
            unit=sf.ROW,
            columns={"cell": sf.one_of(*range(CELLS))},
            budget=sf.Budget(epsilon=2),
        )
        return Experiment(source, truth, list(_errors(lab, truth)))


def _errors(lab: sf.Lab, truth: Ints) -> Iterator[Errors]:
    question = lab.session().sql("SELECT cell, COUNT(*) AS n FROM points GROUP BY cell")
    for epsilon in EPSILONS:
        noisy = question.release(epsilon=epsilon).to_arrow()["n"].to_numpy()
        apart = np.abs(noisy - truth)
        yield Errors(epsilon, noisy, float(apart.mean()), int(apart.max()))


def _cells(x: NDArray[Any], y: NDArray[Any]) -> Ints:
    """The cell of each point, its picture scaled to the square; points in cells left out are left out."""
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
    """Crossings along winding streets, thicker towards the middle."""
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
