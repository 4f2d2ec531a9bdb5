"""Audit PrivBayes of synthcity in an environment of its own; the last line printed is JSON.

SFUMATO_SYNTHCITY=path/to/python python benchmarks/audit.py peers

Neighbours replace one row by another with values that both tables have, which is the weakest reading of what
synthcity claims. The checks are those that fail in the harness of Cebere and others, *Privacy in Theory, Bugs
in Practice*, 2026: an exact mutual information decides on the network, and noise is far too small or none.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from importlib.metadata import version
from typing import Any

warnings.simplefilter("ignore")
os.environ["TQDM_DISABLE"] = "1"

import pandas as pd  # noqa: E402
import synthcity.logger  # noqa: E402
from sklearn.metrics import normalized_mutual_info_score  # noqa: E402
from synthcity.plugins.privacy.plugin_privbayes import PrivBayes  # noqa: E402

from sfumato import audit  # noqa: E402

ROWS, SAMPLES, THRESHOLD = 200, 1000, 0.01
Row = list[Any]


def table(both: int) -> pd.DataFrame:
    """Return two columns of zeros and ones, each half and half, that agree in twice so many rows."""
    half = ROWS // 2
    first = [0] * half + [1] * half
    return pd.DataFrame(
        {"a": first, "b": [0] * both + [1] * (half - both) + [1] * both + [0] * (half - both)}
    )


def one_changed(frame: pd.DataFrame) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[0, "b"] = 1 - changed.loc[0, "b"]
    return changed


def at_the_threshold() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return neighbours whose mutual information lies on either side of the public threshold."""
    for both in range(ROWS // 2, ROWS // 4, -1):
        pair = table(both), one_changed(table(both))
        above, below = (normalized_mutual_info_score(each["a"], each["b"]) for each in pair)
        if above > THRESHOLD >= below:
            return pair
    raise RuntimeError("no table lies at the threshold")


def structure(frame: pd.DataFrame) -> int:
    """Return how many edges the network has."""
    return sum(len(edge.parents) for edge in PrivBayes(epsilon=1.0, K=1).fit(frame).dag)


def marginal(most: int) -> Any:
    """Return a program that gives the released distribution of the second column where that is the root."""

    def program(frame: pd.DataFrame) -> float:
        fitted = PrivBayes(epsilon=1.0, K=most, mi_thresh=2.0).fit(frame)
        return float(fitted.network.get_cpds("b").get_values()[0, 0])

    return program


def main() -> int:
    synthcity.logger.remove()
    near, apart = at_the_threshold(), (table(60), one_changed(table(60)))
    tried = [
        ("PrivBayes, edges of the network at the threshold of mutual information", structure, near),
        ("PrivBayes, a released marginal", marginal(1), apart),
        ("PrivBayes, a released marginal with as many parents as columns", marginal(2), apart),
    ]
    rows: list[Row] = []
    for name, program, pair in tried:
        found = audit.run(program, 1.0, neighbours=[pair], samples=SAMPLES, last_bits=False)
        library = f"synthcity {version('synthcity')}"
        rows.append(
            [library, "ε = 1", name, f"{found.sentence}, ε is above {found.lower_bound:.2f}: {found.event}"]
        )
        print(rows[-1], flush=True)
    print(json.dumps(rows, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
