"""Is this version slower than another? Questions and fits of both, interleaved in one run, best of several.

    python tools/before_after.py ../other/src

The argument is the `src` folder of the other version. Each round is a fresh process with one version on its
path; the rounds alternate, so that other load on the machine meets both. Only what people type is used, so
that any version can be measured. The best processor and clock seconds of each are printed, with ratios.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parents[1] / "src"
ROUNDS = 5
ROWS = 200_000

Times = dict[str, tuple[float, float]]


def measure() -> Times:
    """Return processor and clock seconds of each task with the version that is on this process's path."""
    import numpy as np
    import pyarrow as pa

    import sfumato as sf

    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (ROWS, 4))
    columns = {f"x{i}": x[:, i] for i in range(4)}
    kinds = np.array(["no", "yes"])[(x.sum(axis=1) > 0).astype(int)]
    table = pa.table({"who": np.arange(ROWS) // 2, **columns, "kind": kinds, "cost": 100 * np.abs(x[:, 0])})
    declared = {name: sf.between(-1, 1) for name in columns}
    lab = sf.create(tempfile.mkdtemp() + "/lab")
    names, both = list(columns), {"epsilon": 1, "delta": 1e-7}

    def register() -> None:
        lab.register(
            "t",
            table,
            unit=sf.Unit("who", max_rows=2),
            columns={**declared, "kind": sf.one_of("no", "yes"), "cost": sf.between(0, 100)},
            budget=sf.Budget(epsilon=10_000, delta=1e-3),
        )

    def ask() -> None:
        s = lab.session()
        for at in range(20):
            sql = f"SELECT kind, COUNT(*) AS n, AVG(cost) AS c FROM t WHERE x0 > {at / 30} GROUP BY kind"
            str(s.sql(sql).release(epsilon=1))

    def quote() -> None:
        s = lab.session()
        for at in range(40):
            str(s.sql(f"SELECT MEDIAN(cost) AS m, SUM(x1) AS s FROM t WHERE x0 > {at / 50}").quote(epsilon=1))

    def fit(estimator: object, target: str | None) -> Callable[[], None]:
        return lambda: lab.session().fit(estimator, table="t", features=names, target=target)

    tasks: dict[str, Callable[[], None]] = {
        "registration": register,
        "20 questions": ask,
        "40 quotes": quote,
        "logistic regression": fit(sf.learn.LogisticRegression(steps=20, **both), "kind"),
        "linear regression": fit(sf.learn.LinearRegression(**both), "cost"),
        "naive Bayes": fit(sf.learn.GaussianNB(**both), "kind"),
        "k-means": fit(sf.learn.KMeans(3, **both), None),
        "boosting": fit(sf.learn.GradientBoosting(trees=10, depth=2, **both), "kind"),
    }
    found: Times = {}
    for name, task in tasks.items():
        cpu, clock = time.process_time(), time.perf_counter()
        task()
        found[name] = (time.process_time() - cpu, time.perf_counter() - clock)
    return found


def run(source: Path) -> Times:
    """Measure a version in a process of its own."""
    command = [sys.executable, __file__, "--measure"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {name: (times[0], times[1]) for name, times in json.loads(done.stdout).items()}


def main(other: Path) -> None:
    runs: dict[Path, list[Times]] = {other: [], HERE: []}
    for round_ in range(ROUNDS):
        for source in (other, HERE) if round_ % 2 == 0 else (HERE, other):
            runs[source].append(run(source))
    print(f"{'':22}{'other':>16}{'this':>16}{'ratio':>14}   seconds of processor, of clock")
    for name in runs[HERE][0]:
        old, new = (
            [min(each[name][kind] for each in runs[source]) for kind in (0, 1)] for source in (other, HERE)
        )
        ratios = [f"{b / a:.2f}" for a, b in zip(old, new, strict=True)]
        shown = [f"{pair[0]:7.2f}, {pair[1]:6.2f}" for pair in (old, new)]
        print(f"{name:22}{shown[0]:>16}{shown[1]:>16}{', '.join(ratios):>14}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
    elif len(sys.argv) == 2:
        main(Path(sys.argv[1]).resolve())
    else:
        sys.exit(__doc__)
