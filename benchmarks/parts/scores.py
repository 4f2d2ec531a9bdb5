"""The file of measured scores: one line for each study, each system, each guarantee and each ε."""

from __future__ import annotations

import csv
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "measured"
MINE, PEERS, FITS = _FOLDER / "learners.csv", _FOLDER / "learners-peers.csv", _FOLDER / "fits.json"
TIMES = _FOLDER / "fit-times.json"
"""Each is written by one script."""
OURS, PLAIN = "sfumato", "scikit-learn"
PURE, APPROXIMATE, OPEN = "pure ε", "δ = 1e-6", "none"
"""What a system guarantees."""


@dataclass(frozen=True, slots=True)
class Score:
    """The mean over seeds, its standard error, and the median processor seconds of one fit."""

    study: str
    system: str
    guarantee: str
    epsilon: float
    seeds: int
    mean: float
    error: float
    seconds: float
    note: str = ""

    @classmethod
    def of(
        cls,
        cell: tuple[str, str, str, float],
        scores: Sequence[float],
        seconds: Sequence[float],
        note: str = "",
    ) -> Score:
        if not scores:
            return cls(*cell, 0, math.nan, math.nan, math.nan, note)
        error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
        return cls(*cell, len(scores), float(np.mean(scores)), error, float(np.median(seconds)), note)

    @property
    def cell(self) -> tuple[str, str, str, float]:
        return self.study, self.system, self.guarantee, self.epsilon

    def __str__(self) -> str:
        if not self.seeds:
            return f"NOT MEASURED: {self.note}"
        shown = f"{self.mean:7.3f} ± {self.error:.3f}  {self.seconds:6.2f} s a fit"
        return f"{shown}  {self.note}".rstrip()

    def short_of(self, asked: float, lower: bool) -> bool:
        """By more than two standard errors."""
        missing = self.mean - asked if lower else asked - self.mean
        return missing > 2 * self.error

    def worse_than(self, other: Score, lower: bool) -> bool:
        """By more than two standard errors of the difference."""
        missing = self.mean - other.mean if lower else other.mean - self.mean
        return missing > 2 * math.hypot(self.error, other.error)


def read(path: Path) -> list[Score]:
    if not path.exists():
        return []
    numbers = {"epsilon": float, "seeds": int, "mean": float, "error": float, "seconds": float}
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Score(**{name: numbers.get(name, str)(text) for name, text in line.items()})
            for line in csv.DictReader(lines)
        ]


def keep(score: Score, path: Path) -> None:
    """Put one line into the file, in place of the one there was for the same cell."""
    lines = {each.cell: each for each in read(path)} | {score.cell: score}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, [each.name for each in fields(Score)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rounded(each) for each in lines.values())


def _rounded(score: Score) -> dict[str, object]:
    found = asdict(score)
    return found | {name: f"{found[name]:.6g}" for name in ("mean", "error", "seconds")}
