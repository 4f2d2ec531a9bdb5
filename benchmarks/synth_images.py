"""Measure classifiers that learn from synthetic images and tables alone, on real test rows.

    python benchmarks/synth_images.py [--study "Moments, MNIST"] [--seeds 0] [--only-missing]
    python benchmarks/synth_images.py --page docs/synth-images-measured.md

Generators run at their defaults with δ = 1e-5 for adding or removing one row, and learn from training
files. Classifiers see synthetic rows only and are tested on the test files, or on a fifth of the rows
where there is one file. Constants are not chosen on test rows: the constants of generators follow from
the noise, or were chosen with the last 10,000 images of the training files held out. Scores and processor
seconds of fit and sample are written to docs/measured/synth-images.json as they come, and pictures to
docs/images. With --page nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")


import sfumato as sf
from parts import synth_scores
from parts.synth_images import IMAGE_SETS, TABLES, draw_grid, read_images
from parts.synth_scores import SCORES, STUDIES, Study, page

if TYPE_CHECKING:
    from collections.abc import Mapping

DELTA, SAMPLES = 1e-5, 60_000
DOCS = Path(__file__).resolve().parents[1] / "docs"


def measure_images(study: Study, seed: int) -> dict[str, float]:
    """Return test accuracies of classifiers that saw synthetic images alone."""
    (images, labels), (test, truth) = (read_images(study.data, part) for part in ("train", "t10k"))
    began = time.process_time()
    made = _generator(study, seed)(epsilon=study.epsilon, delta=DELTA, bounds=(0, 255), classes=range(10))
    rows, drawn = made.fit(images, labels).sample(SAMPLES, seed=seed)
    seconds = time.process_time() - began
    if study.epsilon == 1 and seed == 0:
        name = f"synth-{study.system.lower()}-{study.data}.png"
        draw_grid(DOCS / "images" / name, [made.sample(400, seed=1)], range(10))
    return {
        "LR": synth_scores.score_linear(rows, drawn, test, truth),
        "CNN": synth_scores.score_network(rows, drawn, test, truth, seed),
        "seconds": seconds,
    }


def measure_table(study: Study, seed: int) -> dict[str, float]:
    """Return test scores of classifiers that saw synthetic rows alone."""
    table = TABLES[study.data]
    frame, labels, test, truth = table.split(seed)
    began = time.process_time()
    made = _generator(study, seed)(
        epsilon=study.epsilon,
        delta=DELTA,
        bounds=table.bounds,
        classes=table.classes,
    )
    rows, drawn = made.fit(frame, labels).sample(SAMPLES, seed=seed)
    seconds = time.process_time() - began
    found = {name: rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names}
    return {**table.score(found, drawn, test, truth), "seconds": seconds}


def _generator(study: Study, seed: int) -> Any:
    kind = getattr(sf.synth, study.system)
    return kind if study.system == "Moments" else lambda **given: kind(**given, seed=seed)


def _keep(study: Study, seed: int, found: Mapping[str, float]) -> None:
    scores = json.loads(SCORES.read_text()) if SCORES.exists() else {}
    scores.setdefault(study.name, {})[str(seed)] = {name: round(value, 4) for name, value in found.items()}
    SCORES.write_text(json.dumps(scores, indent=1, sort_keys=True) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default="")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only-missing", action="store_true")
    parser.add_argument("--page", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure, or write the page of what was measured."""
    asked = _arguments()
    if asked.page:
        asked.page.write_text(page(), encoding="utf-8")
        return
    import torch

    torch.set_num_threads(1)
    for study in STUDIES:
        if asked.study not in study.name:
            continue
        if study.missing:
            print(f"{study.name}: NOT MEASURED: {study.missing}", flush=True)
            continue
        for seed in asked.seeds:
            if asked.only_missing and str(seed) in synth_scores.read(study):
                continue
            found = (measure_images if study.data in IMAGE_SETS else measure_table)(study, seed)
            _keep(study, seed, found)
            shown = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            print(f"{study.name}, seed {seed}: {shown}", flush=True)


if __name__ == "__main__":
    main()
