"""Measure the scores of diffprivlib and DP-EBM on the studies of `benchmarks/learners.py`, by ε.

    python benchmarks/peers/learners.py [--seeds 20] [--study Adult] [--system diffprivlib] [--limit 120]

`make bench` runs it in the environment of the other libraries. diffprivlib promises pure ε, DP-EBM ε with δ =
1e-6; both get the same public bounds as ours. Each cell runs in a process of its own, for --limit seconds of
processor time. If a cell is not finished by then, the seeds that are done count, and a note says so. Scores
are written to docs/measured/learners-peers.csv as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from parts.learning import DELTA, EPSILONS, STUDIES, Timed, chosen
from parts.scores import APPROXIMATE, PEERS, PURE, Score, keep, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.learning import Data

    Make = Callable[[Data, float, int], Any]

BOX = (-1, 1)


def theirs(name: str, **more: Any) -> Make:
    """A model of diffprivlib, which is told the bounds under one name or another."""

    def make(data: Data, epsilon: float, seed: int) -> Any:
        from diffprivlib import models

        given = {key: value(data) if callable(value) else value for key, value in more.items()}
        return getattr(models, name)(epsilon=epsilon, random_state=seed, **given)

    return make


def additive(data: Data, epsilon: float, seed: int) -> Any:
    """DP-EBM with its better accounting; it is told which columns hold codes, and all bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier

    places = range(data.rows.shape[1])
    return DPExplainableBoostingClassifier(
        feature_types=["nominal" if at in data.listed else "continuous" for at in places],
        epsilon=epsilon,
        delta=DELTA,
        privacy_bounds=np.array([BOX for _ in places], dtype=float),
        n_jobs=1,
        random_state=seed,
    )


def longest(data: Data) -> float:
    return data.longest


_LR = theirs("LogisticRegression", data_norm=longest, max_iter=1000)
_NB = theirs("GaussianNB", bounds=BOX)
_LINEAR = theirs("LinearRegression", bounds_X=BOX, bounds_y=BOX)
_PCA = theirs("PCA", n_components=5, bounds=BOX, data_norm=longest)
_KMEANS = theirs("KMeans", n_clusters=8, bounds=BOX)
_FOREST = theirs("RandomForestClassifier", bounds=BOX, classes=lambda data: data.classes)
_TREE = theirs("DecisionTreeClassifier", bounds=BOX, classes=lambda data: data.classes)
BY_MODEL: dict[str, dict[str, Make]] = {
    "logistic regression": {"diffprivlib": _LR},
    "naive Bayes": {"diffprivlib": _NB},
    "linear regression": {"diffprivlib": _LINEAR},
    "PCA of 5": {"diffprivlib": _PCA},
    "k-means": {"diffprivlib": _KMEANS},
    "boosting": {"DP-EBM": additive, "diffprivlib": _FOREST},
    "additive boosting": {"DP-EBM": additive},
    "decision tree": {"diffprivlib": _TREE},
}
GUARANTEES = {"diffprivlib": PURE, "DP-EBM": APPROXIMATE}


# ---- one cell, in a process of its own ---------------------------------------------------------------------


def measure(request: dict[str, Any]) -> None:
    """Print a score and its seconds for each seed, as soon as there is one."""
    warnings.simplefilter("ignore")
    study = next(each for each in STUDIES if each.name == request["study"])
    make = BY_MODEL[study.name.partition(",")[0]][request["system"]]
    data = study.data()
    for seed in range(request["seeds"]):
        model = Timed(make(data, request["epsilon"], seed))
        score = study.measure(model, data, seed)
        print(json.dumps([score, model.seconds]), flush=True)


def measured(request: dict[str, Any], limit: int) -> Score:
    """By a child that the kernel ends when it has used its seconds; the clock may take four times as long."""
    command = [sys.executable, "-W", "ignore", __file__, "--cell", json.dumps(request)]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
    )
    try:
        out, complaint = child.communicate(timeout=4 * limit)
    except subprocess.TimeoutExpired:
        child.kill()
        out, complaint = child.communicate()
    done = [json.loads(line) for line in out.splitlines() if line.endswith("]")]
    cell = (request["study"], request["system"], GUARANTEES[request["system"]], request["epsilon"])
    scores, seconds = zip(*done, strict=True) if done else ((), ())
    return Score.of(cell, scores, seconds, note(child.returncode, len(done), request, limit, complaint))


def note(code: int, done: int, request: dict[str, Any], limit: int, complaint: str) -> str:
    if code < 0:
        return f"{done} of {request['seeds']} seeds done after {limit} s of processor"
    return "refused: " + (complaint.strip().splitlines() or [f"exit code {code}"])[-1][:120] if code else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--study", default="", help="studies whose names hold this")
    parser.add_argument("--system", choices=sorted(GUARANTEES))
    parser.add_argument("--limit", type=int, default=120, help="seconds of processor for one cell")
    parser.add_argument("--only-missing", action="store_true", help="leave out what the file holds already")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        measure(json.loads(options.cell))
        return
    known = {each.cell for each in read(PEERS)} if options.only_missing else set()
    for study in chosen(options.study):
        for system in BY_MODEL[study.name.partition(",")[0]]:
            for epsilon in EPSILONS if options.system in (None, system) else ():
                if (study.name, system, GUARANTEES[system], epsilon) in known:
                    continue
                about = {"study": study.name, "system": system, "epsilon": epsilon, "seeds": options.seeds}
                found = measured(about, options.limit)
                keep(found, PEERS)
                print(f"{study.name:<30} {system:<12} ε = {epsilon:<4} {found}", flush=True)


if __name__ == "__main__":
    main()
