"""The error of private answers on real tables, beside OpenDP and Tumult Analytics at the same guarantee.

    python benchmarks/usefulness.py [--draws 20000] [--study Adult] [--kept-peers]
                                    [--page docs/usefulness.md] [--plot docs/images/usefulness.svg]

Counts, averages, several averages at once, averages of a nullable column with a count beside them,
variances, medians and quartiles, of all rows and by key; per patient (diabetes130), per user
(MovieTweetings) and per row (Adult); at ε = 0.1 and 1, and with δ = 1e-6. Everyone gets the same rows, cut
to the same number a unit, the same bounds, neighbours (add or remove a unit) and guarantee, and its best
documented way of asking: see `parts/opendp_draws.py` and `parts/tumult_draws.py`.

With a δ everyone adds Gaussian noise to sums, whose price adds up by squares; OpenDP and Tumult at the
largest ρ that is (ε, δ)-private. A single small question at (ε, δ) is answered more sharply by pure ε, by
everyone: those are the cells without δ. Quantiles have whichever is sharper, with everyone.

An error is the mean distance from the exact answer on those rows. That of an average or a quantile is in
parts of the declared range and that of a variance in parts of the largest there can be, averaged over
columns and groups; that of a count in rows. Answers are moved into the declared bounds, which costs nothing;
where ours says that there may be no rows, what a uniform law over the bounds has stands in its place.
Ours are drawn by our own plans, samplers and estimators, as they are and as they were before noise had the
shape of a question; those of others by NumPy from the laws of noise that they state. `SFUMATO_PEERS` names
the environment of the other libraries, else it is .venv-peers. Where one is missing its figures are taken
from docs/measured, if they were measured before, and the output says so.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from parts import our_draws, peer_laws
from parts.measured_errors import Error, Measured, divide, read_kept, write_kept
from parts.measuring import from_child
from parts.studies import DATA, EPSILONS, ROOT, SEED, STUDIES, Cell, Study, cut, exact, ranges, split_groups
from parts.usefulness_page import draw_chart, summarize, write_page
from sfumato.privacy.calibration import rho_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from parts.studies import Group

    Floats = NDArray[np.float64]

PARTS = Path(__file__).parent / "parts"
PEERS = Path(os.environ.get("SFUMATO_PEERS", ROOT / ".venv-peers"))
LIBRARIES = {
    "OpenDP": (PEERS / "bin" / "python", PARTS / "opendp_draws.py"),
    "Tumult": (PEERS / "tumult" / "bin" / "python", PARTS / "tumult_draws.py"),
}
FEWEST = 500
OFTENER = 3
"""Times as many answers with sums: their half-widths beside those before are then known to half a percent."""


def ask_peers(request: dict[str, Any]) -> dict[str, Any]:
    """Return for each library its laws of noise for every cell, or why there are none."""
    found: dict[str, Any] = {}
    for name, (python, script) in LIBRARIES.items():
        if not python.exists():
            found[name] = "it is not installed; `make bench` installs it"
            continue
        began = time.perf_counter()
        answered: Any = from_child(script, request, str(python))
        found[name] = answered["refused"] if isinstance(answered, dict) else answered
        print(f"  asked {name} in {time.perf_counter() - began:.0f} s", flush=True)
    return {name: each for name, each in found.items() if not _is_missing(name, each)}


def _is_missing(name: str, answered: Any) -> bool:
    if isinstance(answered, str):
        print(f"  {name}: NOT MEASURED: {answered}", flush=True)
    return isinstance(answered, str)


Laws = dict[str, list[dict[str, Any]]]
"""The ways in which each library can answer a question, each with the law of its noise."""


def find_laws(study: Study, cells: list[Cell], path: Path) -> dict[Cell, Laws]:
    """Return how each library answers each cell.

    They are asked at the largest ε: scales are in inverse proportion to ε, and with a δ to the root of ρ.
    Sums by key have the noise of sums without, which is checked for the average.
    """
    asked = [
        cell
        for cell in cells
        if cell.epsilon == max(EPSILONS) and (cell.key is None or cell.shares or cell.kind == "average")
    ]
    request = {
        "path": str(path),
        "unit": study.unit,
        "max_rows": study.max_rows,
        "numbers": [asdict(number) for number in study.columns],
        "cells": [cell.request(_rho(cell)) for cell in asked],
    }
    peers = ask_peers(request)
    found = [{name: laws[at] for name, laws in peers.items()} for at in range(len(asked))]
    check_keys(asked, found)
    places = {_alike(cell): at for at, cell in reversed(list(enumerate(asked)))}
    return {cell: _rescale(found[places[_alike(cell)]], asked[places[_alike(cell)]], cell) for cell in cells}


def check_keys(asked: list[Cell], found: list[Laws]) -> None:
    """Raise where sums by key have another noise than sums without."""
    averages = [(cell.delta, laws) for cell, laws in zip(asked, found, strict=True) if cell.kind == "average"]
    for delta, laws in averages:
        if any(laws != other for other_delta, other in averages if other_delta == delta):
            raise AssertionError(f"by key and without: {averages}")


def _alike(cell: Cell) -> Cell:
    """Return the cell as it is asked: without its ε, and sums without a key."""
    return replace(cell, epsilon=0.0) if cell.shares else replace(cell, epsilon=0.0, key=None, keys=())


def _rescale(laws: Laws, asked: Cell, cell: Cell) -> Laws:
    factors = {"epsilon": asked.epsilon / cell.epsilon}
    one, other = _rho(asked), _rho(cell)
    if one and other:
        factors["rho"] = (one / other) ** 0.5
    return {name: [peer_laws.rescale(law, factors[law["by"]]) for law in ways] for name, ways in laws.items()}


def _rho(cell: Cell) -> float | None:
    return float(rho_for(cell.epsilon, cell.delta)) if cell.delta else None


def measure_study(folder: Path, study: Study, draws: int, asks_peers: bool) -> list[Measured]:
    """Measure every cell of one table."""
    whole = study.read()
    rows = cut(whole, study)
    keys = sorted({str(key) for key in whole[study.key].to_pylist()})
    path, cells = folder / "rows.parquet", study.cells(keys)
    pq.write_table(rows, path)
    print(f"\n{study.name}: {rows.num_rows:,} of {whole.num_rows:,} rows, at most {study.max_rows} a unit")
    laws = find_laws(study, cells, path) if asks_peers else {}
    budgets = {False: our_draws.LARGE, True: our_draws.LARGE_WITH_DELTA}
    labs = {
        with_delta: our_draws.register(folder / f"lab-{with_delta}", study, path, keys, budget)
        for with_delta, budget in budgets.items()
    }
    found = []
    for cell in cells:
        groups = split_groups(rows, cell)
        found += measure_cell(labs[bool(cell.delta)], cell, groups, laws.get(cell, {}), draws)
    return found


def measure_cell(lab: Any, cell: Cell, groups: list[Group], laws: Laws, draws: int) -> list[Measured]:
    """Measure every figure of one question."""
    times = max(FEWEST, draws * (1 if cell.shares else OFTENER) // len(groups))
    query, plan = our_draws.ask(lab, cell)
    bare = plan.with_shape(False)
    engine = query.payer.lab.engine
    ours = our_draws.draw_answers(plan, engine, cell, times)
    before = our_draws.draw_answers(bare, engine, cell, times) if bare is not plan else None
    rng = np.random.default_rng(SEED)
    drawn = {
        name: [peer_laws.draw_answers(law, cell, groups, times, rng) for law in ways]
        for name, ways in laws.items()
    }
    errors = {
        figure: partial(
            Error.of,
            truth=exact(groups, cell, figure),
            bounds=ranges(cell, figure),
            is_variance=figure.endswith("variance"),
        )
        for figure in cell.figures
    }
    peers = {name: choose_way(ways, errors) for name, ways in drawn.items()}
    found = [
        Measured(
            cell.name(figure),
            figure,
            cell.study,
            cell.key is not None,
            cell.epsilon,
            cell.delta,
            error(ours[figure]),
            None if before is None else error(before[figure]),
            {name: best[figure] for name, best in peers.items()},
        )
        for figure, error in errors.items()
    ]
    print("\n".join(f"  {describe(each)}" for each in found), flush=True)
    return found


def choose_way(
    ways: list[dict[str, Floats]], errors: Mapping[str, Callable[[Floats], Error]]
) -> dict[str, Error]:
    """Return the errors of the way with the smallest product of them, which the rows may decide."""
    found = [{figure: error(way[figure]) for figure, error in errors.items()} for way in ways]
    return min(found, key=lambda each: math.prod(error.mean for error in each.values()))


def describe(cell: Measured) -> str:
    """Return one line about a cell."""
    parts = [f"ours {cell.ours.mean:.4g} ± {cell.ours.deviation:.1g}"]
    others = {**({"before": cell.before} if cell.before else {}), **cell.peers}
    parts += [
        f"{name} {each.mean:.4g} (×{divide(cell.ours.mean, each.mean):.3f}, "
        f"half-widths ×{divide(cell.ours.half_width, each.half_width):.3f})"
        for name, each in others.items()
    ]
    return f"{cell.name:75} {'; '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--draws",
        type=int,
        default=20_000,
        help="answers to each quantile, divided by groups; of sums three times as many",
    )
    parser.add_argument("--study", choices=[study.name for study in STUDIES], help="one table instead of all")
    parser.add_argument("--kept-peers", action="store_true", help="take others' figures from docs/measured")
    parser.add_argument("--page", type=Path, help="write this page, and keep the figures in docs/measured")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if not DATA.exists():
        print(f"NOT MEASURED: there is no data at {DATA}; SFUMATO_DATA says where it is")
        return
    measured: list[Measured] = []
    for study in (each for each in STUDIES if options.study in (None, each.name)):
        with tempfile.TemporaryDirectory() as scratch:
            measured += measure_study(Path(scratch), study, options.draws, not options.kept_peers)
    kept = {each.name: each.peers for each in read_kept()}
    for each in measured:
        each.peers = {**kept.get(each.name, {}), **each.peers}
    print("\n".join(["", *summarize(measured)]))
    if options.page:
        write_kept(measured)
        options.page.write_text(write_page(read_kept()), encoding="utf-8")
    if options.plot:
        draw_chart(measured, options.plot)


if __name__ == "__main__":
    main()
