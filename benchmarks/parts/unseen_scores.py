"""The file of scores on unseen tables: one line for each table, system, guarantee and ε, with every seed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "measured"
OURS, PEERS = _FOLDER / "learners-unseen.csv", _FOLDER / "learners-unseen-peers.csv"
CURATOR = _FOLDER / "learners-unseen-curator.csv"
"""Each is written by one script, so that two can run at once."""
EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
PURE, APPROXIMATE = "pure ε", "δ = 1e-6"
SEEDS = 5
_FIELDS = ("table", "system", "guarantee", "epsilon", "seconds", "scores")
Cell = tuple[str, str, str, float]


@dataclass(frozen=True, slots=True)
class SeedScores:
    """Test scores of one cell, by seed, and the processor seconds of a fit."""

    table: str
    system: str
    guarantee: str
    epsilon: float
    seconds: float
    scores: tuple[float, ...]

    @property
    def cell(self) -> Cell:
        return self.table, self.system, self.guarantee, self.epsilon

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else 0.0


def read_scores(path: Path) -> dict[Cell, SeedScores]:
    """Return all lines of a file, by cell."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        found = [
            SeedScores(
                line["table"],
                line["system"],
                line["guarantee"],
                float(line["epsilon"]),
                float(line["seconds"]),
                tuple(map(float, line["scores"].split())),
            )
            for line in csv.DictReader(lines)
        ]
    return {each.cell: each for each in found}


def keep_scores(found: Sequence[SeedScores], path: Path) -> None:
    """Put lines into the file, in the place of those there were for the same cells."""
    lines = read_scores(path) | {each.cell: each for each in found}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_FIELDS)
        for each in lines.values():
            shown = " ".join(f"{score:.4f}" for score in each.scores)
            writer.writerow([*each.cell, f"{each.seconds:.3g}", shown])
