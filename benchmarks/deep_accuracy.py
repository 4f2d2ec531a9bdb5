"""Measure test accuracy of private networks: images, Adult, and a module that was trained on public images.

    python benchmarks/deep_accuracy.py [--seeds 0 1 2] [--study MNIST] [--only-missing] [--features FOLDER]
    python benchmarks/deep_accuracy.py --page docs/deep-measured.md --plot docs/images/deep-accuracy.svg

Ready networks are measured at their defaults, with δ = 1e-5 for adding or removing one row. MNIST and
Fashion-MNIST have their own test files; Adult is split 70/30 by seed, and boosting learns from the same rows.
Nothing was chosen on test files or on Adult: the constants come from validation rows, the last 10,000 of the
training files, and from development tables. Scores and processor seconds, features included, are written to
docs/measured/deep-accuracy.json as they come. With --features, features of images are kept in a folder and
computed once; every run still counts the seconds that they took. It ends with 1 if a median is below what is
required. With --page or --plot nothing is measured.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from parts import deep_page
from parts.deep_scores import ADAPTERS, BOOSTING, LAST_LAYER, NETWORK, SCRATCH, STUDIES, keep, read
from parts.learning import FOLDER, adult, adult_coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import nn

    from parts.deep_scores import Study

    Images = tuple[NDArray[np.uint8], NDArray[np.uint8]]

DELTA = 1e-5
RANK, STEPS, BATCH, RATE = 4, 100, 2_048, 1.0
"""Fine-tuning, as quick as a demonstration should be; nothing here was tuned."""
PUBLIC_EPOCHS = 2


@cache
def read_images(name: str, part: str) -> Images:
    """Return images and labels of a file in the format of MNIST."""
    found = []
    for kind in ("images-idx3", "labels-idx1"):
        with gzip.open(FOLDER / name / f"{part}-{kind}-ubyte.gz") as file:
            content = file.read()
        sides = [int.from_bytes(content[4 + 4 * at : 8 + 4 * at], "big") for at in range(content[3])]
        found.append(np.frombuffer(content, np.uint8, offset=4 + 4 * len(sides)).reshape(sides))
    return found[0], found[1]


class Features:
    """Features of images that were computed before: they have no noise, and are the same in every run."""

    def __init__(self, folder: Path) -> None:
        from sfumato.deep.ready import estimators

        self.folder, self.make, self.seconds = folder, estimators.make_features, 0.0
        estimators.make_features = self

    def __call__(self, network: str, images: Any) -> Any:
        import torch

        name = hashlib.sha256(images.numpy().tobytes()).hexdigest()[:16]
        file = self.folder / f"{network}-{name}.pt"
        if file.exists():
            found, seconds = torch.load(file, weights_only=True)
            self.seconds += seconds
            return found
        began = time.process_time()
        found = self.make(network, images)
        torch.save((found, time.process_time() - began), file)
        return found


def score_images(study: Study, seed: int) -> float:
    """Fit a ready network to the training file and score it on the test file."""
    import sfumato as sf

    model = sf.deep.Classifier(study.epsilon, DELTA, classes=range(10), bounds=(0, 255), rows=60_000)
    model.fit(*read_images(study.folder, "train"))
    return model.score(*read_images(study.folder, "t10k"))


# ---- Adult -------------------------------------------------------------------------------------------------


def score_adult(study: Study, seed: int) -> float:
    """Score a network, or boosting on zeros and ones as the network has them and on codes, the better one."""
    import sfumato as sf

    given = {"epsilon": study.epsilon, "delta": DELTA, "classes": [0, 1], "bounds": (-1, 1)}
    makers: list[tuple[Callable[..., Any], Any]] = [(sf.deep.Classifier, adult())]
    if study.system == BOOSTING:
        makers = [(sf.learn.GradientBoosting, adult()), (sf.learn.GradientBoosting, adult_coded())]
    scores = []
    for make, data in makers:
        rows, held, target, wanted = data.split(seed)
        scores.append(float(make(**given).fit(rows, target).score(held, wanted)))
    return max(scores)


# ---- a module that was trained on public images ------------------------------------------------------------


def build() -> nn.Sequential:
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1)),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def to_tensors(images: Images) -> Any:
    import torch

    return torch.from_numpy(images[0] / np.float32(255)).unsqueeze(1), torch.from_numpy(
        images[1].astype(np.int64)
    )


def train_in_public(seed: int) -> nn.Sequential:
    """Train without privacy on Fashion-MNIST, which is public."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    module, (x, y) = build(), to_tensors(read_images("fashion-mnist", "train"))
    optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
    for _ in range(PUBLIC_EPOCHS):
        for chosen in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x[chosen]), y[chosen]).backward()
            optimiser.step()
    return module


def score_tuned(study: Study, seed: int) -> float:
    """Fine-tune the public module on MNIST, privately, and score it on the test file."""
    import torch
    from torch import nn

    import sfumato as sf
    from parts.adapters import adapt

    torch.manual_seed(seed)
    module = build() if study.system == SCRATCH else train_in_public(seed)
    module[-1] = nn.Linear(64, 10)
    if study.system == LAST_LAYER:
        module[:-1].requires_grad_(False)
    if study.system == ADAPTERS:
        adapt(module, RANK)
    trainer = sf.deep.Trainer(
        module,
        nn.CrossEntropyLoss(),
        study.epsilon,
        DELTA,
        steps=STEPS,
        batch_size=BATCH,
        rows=60_000,
        learning_rate=RATE,
        optimiser=partial(torch.optim.SGD, momentum=0.9),
        average=1 - 10 / STEPS,
    )
    trainer.fit(to_tensors(read_images("mnist", "train")))
    x, y = to_tensors(read_images("mnist", "t10k"))
    with torch.no_grad():
        return float((module(x).argmax(1) == y).float().mean())


# ---- all of it ---------------------------------------------------------------------------------------------

SCORERS: dict[str, Callable[[Study, int], float]] = {
    NETWORK: score_images,
    **dict.fromkeys((SCRATCH, LAST_LAYER, ADAPTERS), score_tuned),
}


def score(study: Study, seed: int) -> float:
    if study.folder == "adult":
        return score_adult(study, seed)
    return SCORERS[study.system](study, seed)


def measure(options: argparse.Namespace) -> None:
    kept = Features(options.features) if options.features else None
    for study in STUDIES:
        if not study.name.startswith(options.study):
            continue
        if not study.is_there(FOLDER):
            print(
                f"{study.name}: NOT MEASURED: there is no folder {study.folder} under SFUMATO_DATA",
                flush=True,
            )
            continue
        for seed in options.seeds:
            if options.only_missing and str(seed) in read().get(study.name, {}):
                continue
            before, began = 0.0 if kept is None else kept.seconds, time.process_time()
            found = score(study, seed)
            seconds = time.process_time() - began + (0.0 if kept is None else kept.seconds - before)
            keep(study, seed, found, seconds)
            print(
                f"{study.name:<58} seed {seed}  {found:.4f}  {seconds:5.0f} s of processor time", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--study", default="", help="studies whose names begin with this")
    parser.add_argument("--only-missing", action="store_true", help="leave out what the file holds already")
    parser.add_argument("--features", type=Path, help="a folder to keep features of images in")
    parser.add_argument("--page", type=Path, help="write what the file holds as Markdown")
    parser.add_argument("--plot", type=Path, help="draw what the file holds")
    options = parser.parse_args()
    if not (options.page or options.plot):
        import torch

        torch.set_num_threads(1)
        measure(options)
    if options.page:
        options.page.write_text(deep_page.page(), encoding="utf-8")
    if options.plot:
        deep_page.picture().save(options.plot)
    short = deep_page.list_short()
    print("\n".join(short) or "Every median that was measured is what is required, or above.")
    sys.exit(bool(short))


if __name__ == "__main__":
    main()
