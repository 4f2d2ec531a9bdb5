"""Studies of private networks, what is required of them, and the file of their scores."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "deep-accuracy.json"
NETWORK, BOOSTING = "ready network", "boosted trees"
SCRATCH, LAST_LAYER, ADAPTERS = "from scratch", "new last layer", "adapters of rank 4"
MARGIN = 0.01
"""By so much a network may be worse than boosting on Adult."""
MOST_SECONDS = 15 * 60


@dataclass(frozen=True, slots=True)
class Study:
    """A data set, a system and an ε; the least accuracy that is required, where one is."""

    title: str
    folder: str
    system: str
    epsilon: float
    required: float | None = None

    @property
    def name(self) -> str:
        return f"{self.title}, {self.system}, ε = {self.epsilon:g}"

    def is_there(self, data: Path) -> bool:
        needed = [self.folder] + ["fashion-mnist"] * (self.system in (LAST_LAYER, ADAPTERS))
        return all((data / each).is_dir() for each in needed)


STUDIES = (
    Study("MNIST", "mnist", NETWORK, 1.2, 0.970),
    Study("MNIST", "mnist", NETWORK, 3, 0.982),
    Study("Fashion-MNIST", "fashion-mnist", NETWORK, 3, 0.885),
    *(Study("Adult", "adult", system, epsilon) for epsilon in (1, 3) for system in (NETWORK, BOOSTING)),
    *(Study("Fashion → MNIST", "mnist", system, 1.2) for system in (SCRATCH, LAST_LAYER, ADAPTERS)),
)


def read() -> dict[str, Any]:
    """Return scores and seconds of every seed, by the name of the study."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def keep(study: Study, seed: int, score: float, seconds: float) -> None:
    found = read()
    found.setdefault(study.name, {})[str(seed)] = [round(score, 4), round(seconds, 1)]
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def find_scores(study: Study) -> list[float]:
    return [score for score, _ in read().get(study.name, {}).values()]


def find_required(study: Study) -> float | None:
    """Return what is required of a study: of a network on Adult, nearly what boosting reaches."""
    if study.folder == "adult" and study.system == NETWORK:
        rival = find_scores(Study(study.title, study.folder, BOOSTING, study.epsilon))
        return median(rival) - MARGIN if rival else None
    return study.required
