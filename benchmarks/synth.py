"""How near synthetic tables are to real ones, and how long they take: AIM and MST at several ε.

    python benchmarks/synth.py            all tables, about five minutes
    python benchmarks/synth.py adult mst  these alone
    python benchmarks/synth.py adult nltcs epsilons docs/images/synth.svg   and a picture of them
    python benchmarks/synth.py adult wide residuals      and marginals put together from residuals
    python benchmarks/synth.py adult mst seeds           the same eleven times, with the median

Errors are total variation between marginals of the real table and of one synthetic table of as many rows: the
mean over all marginals of so many columns, or over 364 of them that a fixed seed chooses. Times are CPU
seconds of one thread for the fit and the table together.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import sfumato as sf
from parts.residuals import ResidualReconstruction
from sfumato.oracle.row_groups import RowGroups
from sfumato.synth.kernel import read_release, write_release
from sfumato.synth.measuring import Measurer
from sfumato.synth.selection import measure_columns
from sfumato.synth.spending import Purse
from sfumato.synth.synthesizer import Synthesizer

HERE = Path(__file__).parents[1]
DATA = Path(os.environ.get("SFUMATO_DATA", HERE.parent / "shared" / "data"))
DELTA = 1e-9
MOST = 364
WAYS = (1, 2, 3)
FOUND: list[tuple[str, str, float, float]] = []
"""What was reported: table, method, ε, and the error of marginals of three columns."""


# ---- tables ------------------------------------------------------------------------------------------------


def read_coded(table: str, domain: str) -> tuple[Any, dict[str, int]]:
    """Return a table of codes and the number of codes of each column, which is declared beside it."""
    sizes = json.loads((DATA / domain).read_text())
    if table.endswith(".parquet"):
        import pyarrow.parquet as pq

        frame = pq.read_table(DATA / table)
        return np.stack([np.asarray(frame[name]) for name in sizes], axis=1).astype(int), sizes
    with gzip.open(DATA / table, "rt") as file:
        names = file.readline().strip().split(",")
        rows = np.loadtxt(file, delimiter=",", dtype=int)
    return rows[:, [names.index(name) for name in sizes]], sizes


def read_acs() -> tuple[Any, dict[str, int]]:
    """Return persons of the American Community Survey, by columns that the data dictionary lists codes of."""
    bins = {"AGEP": 100, "SEX": 3, "MSP": 7, "HISP": 5, "RAC1P": 10, "NOC": 10, "NPF": 21, "HOUSING_TYPE": 4}
    bins |= {"OWN_RENT": 3, "INDP_CAT": 20, "EDU": 13, "PINCP_DECILE": 11, "DVET": 8, "DREM": 3, "DPHY": 3}
    bins |= {"DEYE": 3, "DEAR": 3}
    with gzip.open(DATA / "nist_acs" / "national2019.csv.gz", "rt") as file:
        names = file.readline().strip().split(",")
        rows = [line.strip().split(",") for line in file]
    places = [names.index(name) for name in bins]
    # "N" is not applicable, which is the last code of each column.
    coded = [
        [
            min(int(float(row[at])), size - 1) if row[at] != "N" else size
            for at, size in zip(places, bins.values(), strict=True)
        ]
        for row in rows
    ]
    return np.array(coded), {name: size + 1 for name, size in bins.items()}


def make_wide() -> tuple[Any, dict[str, int]]:
    """Return 20,000 rows of 120 columns: chains of columns that follow each other, with codes of 2 to 8."""
    random = np.random.default_rng(120)
    sizes = random.integers(2, 9, 120)
    columns: list[Any] = []
    for at, size in enumerate(sizes):
        own = random.integers(0, size, 20_000) if at < 6 else columns[at - 6] % size
        columns.append(np.where(random.random(20_000) < 0.3, random.integers(0, size, 20_000), own))
    return np.stack(columns, axis=1), {f"x{at}": int(size) for at, size in enumerate(sizes)}


TABLES: dict[str, Any] = {
    "adult": lambda: read_coded(
        "adult/adult_discretised_mbi.csv.gz", "adult/adult_discretised_mbi-domain.json"
    ),
    "nltcs": lambda: read_coded("hd/nltcs.csv.gz", "hd/nltcs-domain.json"),
    "taxi": lambda: read_coded("hd/nist-taxi.parquet", "hd/nist-taxi-domain.json"),
    "nist_acs": read_acs,
    "wide": make_wide,
}


# ---- errors ------------------------------------------------------------------------------------------------


def count_cells(rows: Any, sizes: list[int], columns: tuple[int, ...]) -> Any:
    """Return the shares of rows in the cells of a marginal."""
    cells = np.ravel_multi_index(tuple(rows[:, at] for at in columns), [sizes[at] for at in columns])
    return np.bincount(cells, minlength=int(np.prod([sizes[at] for at in columns]))) / len(rows)


def choose_parts(columns: int, ways: int) -> list[tuple[int, ...]]:
    """Return the marginals of so many columns that errors are the mean of."""
    parts = list(combinations(range(columns), ways))
    if len(parts) > MOST:
        chosen = np.random.default_rng(0).choice(len(parts), MOST, replace=False)
        parts = [parts[at] for at in chosen]
    return parts


def mean_variation(real: Any, drawn: Any, sizes: list[int], ways: int) -> float:
    """Return the mean total variation over marginals of so many columns."""
    parts = choose_parts(len(sizes), ways)
    pairs = ((count_cells(real, sizes, each), count_cells(drawn, sizes, each)) for each in parts)
    return float(np.mean([np.abs(one - other).sum() / 2 for one, other in pairs]))


def synthesise(rows: Any, sizes: dict[str, int], **asked: Any) -> tuple[Any, Any, float]:
    """Return a table of codes, what made it, and its CPU seconds; missing values have the last code."""
    begun = time.process_time()
    bounds = {name: sf.one_of(*range(size)) for name, size in sizes.items()}
    made = sf.synth.Marginals(delta=DELTA, bounds=bounds, **asked)
    made.fit({name: rows[:, at] for at, name in enumerate(sizes)})
    table = made.sample(len(rows), seed=0)
    took = time.process_time() - begun
    codes = [np.asarray(table[name].fill_null(size)) for name, size in sizes.items()]
    return np.stack(codes, axis=1), made, took


def compare_residuals(name: str, rows: Any, sizes: dict[str, int], **asked: Any) -> None:
    """Print the errors of the model, and of marginals put together from residuals of the same release.

    Neither is rounded to the rows of a small table. Residuals of pairs that were not measured count as 0, so
    the last line spends the same budget on all pairs alike, as residuals are meant to be measured.
    """
    _, made, _ = synthesise(rows, sizes, **asked)
    with_missing, method = [size + 1 for size in sizes.values()], asked.get("method", "aim")
    drawer = made.require_fitted()
    del drawer.__dict__["model"]
    begun = time.process_time()
    model = drawer.model
    took = time.process_time() - begun
    table = drawer.draw_cells(min(2_000_000, 40 * len(rows)), np.random.default_rng(0))
    show_errors(
        f"{name} {method} model", [mean_variation(rows, table, with_missing, ways) for ways in WAYS], took
    )
    print(f"          {len(model.tree.cliques)} cliques of {model.tree.cells:,} cells", flush=True)
    released = {f"{name} {method} residuals": drawer}
    if method == "aim":
        released[f"{name} all pairs, residuals"] = measure_pairs(made, rows, sizes)
    for what, each in released.items():
        begun = time.process_time()
        residuals = ResidualReconstruction(each.released, each._bin_weights)
        errors = [vary_from_residuals(residuals, rows, with_missing, ways) for ways in WAYS]
        show_errors(what, errors, time.process_time() - begun)


def show_errors(what: str, errors: list[float], took: float) -> None:
    """Print errors of marginals of one, two and three columns."""
    shown = " ".join(f"{each:.4f}" for each in errors)
    print(f"{what:28} 1/2/3-way {shown}  {took:5.1f} CPU s", flush=True)


def vary_from_residuals(residuals: ResidualReconstruction, rows: Any, sizes: list[int], ways: int) -> float:
    """Return the mean total variation of marginals that are put together."""
    parts = choose_parts(len(sizes), ways)
    pairs = ((count_cells(rows, sizes, each), residuals.marginal(each)) for each in parts)
    return float(np.mean([np.abs(one - other).sum() / 2 for one, other in pairs]))


def measure_pairs(made: Any, rows: Any, sizes: dict[str, int]) -> Synthesizer:
    """Return a release of all columns for an eighth of the same budget, and of all pairs for the rest."""
    kernel = made._declare(list(sizes))
    groups = RowGroups(tuple(rows.T), np.ones(len(rows), dtype=np.int64))
    measurer = Measurer(Purse(kernel.currency, kernel.amount), groups, kernel.sizes)
    measure_columns(measurer, kernel.amount / 8)
    pairs = list(combinations(range(len(sizes)), 2))
    amount = measurer.purse.left / len(pairs)
    for pair in pairs:
        measurer.measure(pair, amount)
    return Synthesizer(kernel.columns, read_release(write_release(measurer), kernel.currency))


def report_seeds(name: str, rows: Any, sizes: dict[str, int], runs: int = 11, **asked: Any) -> None:
    """Print the median of the errors of several runs, and the least and greatest."""
    begun, before, method = time.process_time(), len(FOUND), asked["method"]
    for _ in range(runs):
        report(name, rows, sizes, **asked)
    errors = sorted(each[3] for each in FOUND[before:])
    print(
        f"{name:9} {method:4} 3-way over {runs} runs: median {errors[runs // 2]:.4f}, "
        f"{errors[0]:.4f} to {errors[-1]:.4f}  ({time.process_time() - begun:.0f} CPU s in all)",
        flush=True,
    )
    del FOUND[before:]


def report(name: str, rows: Any, sizes: dict[str, int], **asked: Any) -> Any:
    """Print the errors of one synthetic table, and return it."""
    drawn, made, took = synthesise(rows, sizes, **asked)
    with_missing = [size + 1 for size in sizes.values()]
    errors = [mean_variation(rows, drawn, with_missing, ways) for ways in WAYS]
    measured = len(made.released.measured) - len(sizes)
    method, epsilon = asked.get("method", "aim"), asked["epsilon"]
    FOUND.append((name, method, epsilon, errors[2]))
    print(
        f"{name:9} {method:4} ε = {epsilon:<4g} 1/2/3-way {errors[0]:.4f} {errors[1]:.4f} {errors[2]:.4f}  "
        f"{measured:3} marginals  {took:5.1f} CPU s",
        flush=True,
    )
    return drawn


# ---- what is learnt from it --------------------------------------------------------------------------------

NUMBERS = {"age": (17, 91), "education-num": (1, 17), "hours-per-week": (1, 100)}
MONEY = {"capital-gain": (0, 100_000), "capital-loss": (0, 5_000)}
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]


def read_adult(file: str) -> dict[str, Any]:
    """Return a file of the census as columns; income is whether it is above 50K."""
    with gzip.open(DATA / "adult" / file, "rt") as lines:
        rows = [line.strip().rstrip(".").split(", ") for line in lines]
    columns = list(zip(*(row for row in rows if len(row) == len(ADULT)), strict=True))
    found = {name: np.array(column) for name, column in zip(ADULT, columns, strict=True)}
    for name in (*NUMBERS, *MONEY):
        found[name] = found[name].astype(float)
    del found["fnlwgt"], found["education"]
    return found


def score_boosted() -> None:
    """Print the AUC on the test file of trees that were boosted on the real and on a synthetic train file."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    train, test = read_adult("adult.data.gz"), read_adult("adult.test.gz")
    # The values of texts are those of the census form, which is public; both files have the same.
    listed = {
        name: sorted({*map(str, train[name]), *map(str, test[name])})
        for name in train
        if train[name].dtype.kind == "U"
    }
    bounds: dict[str, Any] = {name: sf.one_of(*values) for name, values in listed.items()}
    bounds |= {name: sf.between(low, high, step=1) for name, (low, high) in (NUMBERS | MONEY).items()}
    bins = {"capital-gain": [1, *range(2500, 20_000, 2500)], "capital-loss": [1, *range(1000, 3000, 250)]}
    begun = time.process_time()
    made = sf.synth.Marginals(epsilon=1, delta=DELTA, bounds=bounds, bins=bins).fit(train)
    drawn = made.sample(len(train["age"]), seed=0).to_pydict()
    took = time.process_time() - begun

    def encode(rows: Any) -> tuple[Any, Any]:
        columns = [
            [listed[name].index(each) if each in listed[name] else -1 for each in rows[name]]
            if name in listed
            else [np.nan if each is None else each for each in rows[name]]
            for name in train
            if name != "income"
        ]
        return np.array(columns, dtype=float).T, np.array([each == ">50K" for each in rows["income"]])

    features, labels = encode(test)
    for name, rows in (("real", train), ("synthetic", drawn)):
        model = HistGradientBoostingClassifier(random_state=0).fit(*encode(rows))
        area = roc_auc_score(labels, model.predict_proba(features)[:, 1])
        print(f"adult     AUC on the test file, boosted trees of the {name} train file: {area:.4f}")
    print(f"          fit and table in {took:.1f} CPU s")
    show_numbers(train, drawn)


def show_numbers(real: dict[str, Any], drawn: dict[str, Any]) -> None:
    """Print means, quartiles and correlations of numbers, real and synthetic."""
    columns = {}
    for name in (*NUMBERS, *MONEY):
        pair = [
            np.array([np.nan if each is None else each for each in rows[name]], dtype=float)
            for rows in (real, drawn)
        ]
        columns[name] = pair
        shown = [f"{np.nanmean(each):9.1f} {np.nanquantile(each, [0.25, 0.5, 0.75])}" for each in pair]
        print(f"          {name:15} mean and quartiles: real {shown[0]}, synthetic {shown[1]}")
    for one, other in combinations(columns, 2):
        found = []
        for side in (0, 1):
            pair = np.stack([columns[one][side], columns[other][side]])
            found.append(np.corrcoef(pair[:, ~np.isnan(pair).any(axis=0)])[0, 1])
        print(f"          correlation of {one} and {other}: real {found[0]:.3f}, synthetic {found[1]:.3f}")


def draw_errors(path: str) -> None:
    """Draw the errors that were reported against ε."""
    found = sorted(FOUND, key=lambda each: each[2])
    names, methods = [each[0] for each in found], [each[1] for each in found]
    epsilons, errors = [np.log10(each[2]) for each in found], [each[3] for each in found]
    title = "Mean total variation of marginals of three columns"
    sf.viz.learning_curves(
        names,
        methods,
        epsilons,
        errors,
        [0.0] * len(found),
        title=title,
        across="log₁₀ ε",
        up="total variation",
    ).save(path)


def main(chosen: list[str]) -> None:
    """Print everything, or what was asked for: tables, mst, auc, epsilons, residuals, seeds; pictures."""
    pictures = [each for each in chosen if "." in each]
    chosen = [each for each in chosen if each not in pictures]
    methods = [each for each in ("aim", "mst") if not {"aim", "mst"} & {*chosen} or each in chosen]
    for name, read in TABLES.items():
        if chosen and name not in chosen:
            continue
        rows, sizes = read()
        for method in methods:
            show = (
                compare_residuals if "residuals" in chosen else report_seeds if "seeds" in chosen else report
            )
            show(name, rows, sizes, epsilon=1.0, method=method)
        if not chosen or "epsilons" in chosen:
            for epsilon in (0.1, 0.3, 3.0, 10.0):
                report(name, rows, sizes, epsilon=epsilon)
    if not chosen or "auc" in chosen:
        score_boosted()
    for path in pictures:
        draw_errors(path)


if __name__ == "__main__":
    main(sys.argv[1:])
