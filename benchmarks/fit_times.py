"""What a fit on own arrays costs beside scikit-learn's same model: 50,000 rows, in turns.

    python benchmarks/fit_times.py [--turns 15]

Each model is fitted at ε = 1, with δ = 1e-6 and by pure ε, beside scikit-learn's on the same rows: one after
the other, so that all have the same machine, and the least seconds of several turns count. Once with one
thread for linear algebra and once with as many as the machine has. At most three times is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

from parts.measuring import BENCHMARKS, best_of_turns
from parts.scores import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.learning import Data
    from parts.measuring import Work

MOST = 3.0
BOX = (-1, 1)
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def models() -> dict[str, tuple[Callable[..., Any], Callable[[], Any], Data, bool]]:
    """Ours, scikit-learn's, the rows, and whether there is a target."""
    from sklearn import decomposition, linear_model, naive_bayes

    from parts.learning import blobs, regression, synthetic
    from sfumato import learn

    rows, classes = synthetic(), {"bounds": BOX, "classes": [0, 1]}
    return {
        "naive Bayes": (lambda **s: learn.GaussianNB(**classes, **s), naive_bayes.GaussianNB, rows, True),
        "linear regression": (
            lambda **s: learn.LinearRegression(bounds=BOX, target_bounds=BOX, **s),
            linear_model.LinearRegression,
            regression(),
            True,
        ),
        "PCA of 5": (lambda **s: learn.PCA(5, bounds=BOX, **s), lambda: decomposition.PCA(5), rows, False),
        "PCA of 5, blobs": (
            lambda **s: learn.PCA(5, bounds=BOX, **s),
            lambda: decomposition.PCA(5),
            blobs(),
            False,
        ),
        "k-means": (lambda **s: learn.KMeans(8, bounds=BOX, **s), _clustered, rows, False),
        "k-means, blobs": (lambda **s: learn.KMeans(8, bounds=BOX, **s), _clustered, blobs(), False),
        "logistic regression": (
            lambda **s: learn.LogisticRegression(**classes, **s),
            lambda: linear_model.LogisticRegression(max_iter=1000),
            rows,
            True,
        ),
    }


def _clustered() -> Any:
    from sklearn import cluster

    return cluster.KMeans(8, n_init=1, random_state=0)


def measured(turns: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of processor and of the clock, by model and by what it promises."""
    warnings.simplefilter("ignore")
    found = {}
    for name, (ours, plain, data, has_target) in models().items():
        given = (data.rows, data.target) if has_target else (data.rows,)

        def fitting(make: Callable[[], Any], given: Any = given) -> Callable[[], Work]:
            def ready() -> Work:
                model = make()
                return lambda: model.fit(*given)

            return ready

        costs = best_of_turns(
            {
                "scikit-learn": fitting(plain),
                "δ = 1e-6": fitting(lambda ours=ours: ours(epsilon=1.0, delta=1e-6)),  # type: ignore[misc]
                "pure ε": fitting(lambda ours=ours: ours(epsilon=1.0)),  # type: ignore[misc]
            },
            turns,
        )
        found[name] = {system: [cost.cpu, cost.wall] for system, cost in costs.items()}
    return found


def told(name: str, costs: dict[str, list[float]]) -> str:
    cpu, wall = costs["scikit-learn"]
    cells = [f"{name:<20} scikit-learn {cpu * 1e3:7.1f} ms"]
    for system, (ours, clock) in costs.items():
        if system != "scikit-learn":
            late = "" if ours / cpu <= MOST else " MISSED"
            cells.append(
                f"{system}: {ours * 1e3:7.1f} ms, CPU × {ours / cpu:.2f}, clock × {clock / wall:.2f}{late}"
            )
    return "   ".join(cells)


def of_threads(threads: str, turns: int) -> dict[str, dict[str, list[float]]]:
    """In a process of its own, since threads are counted once."""
    more = dict.fromkeys(THREADS, threads) if threads != "all" else {}
    asked = [sys.executable, str(BENCHMARKS / "fit_times.py"), "--turns", str(turns), "--child"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=True, env={**os.environ, **more})
    found: dict[str, dict[str, list[float]]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.turns)))
        return
    kept = {}
    for threads in ("1", "all"):
        kept[threads] = of_threads(threads, options.turns)
        print(f"threads for linear algebra: {threads}")
        print("\n".join(told(name, costs) for name, costs in kept[threads].items()), flush=True)
    TIMES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
