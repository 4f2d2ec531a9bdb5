"""The error of private answers on real tables, beside OpenDP and Tumult Analytics at the same guarantee.

    python benchmarks/usefulness.py [--draws 200] [--epsilon 1] [--study Adult] [--plot errors.png]

Counts, means and medians, of all rows and by key; per patient (diabetes130), per user (MovieTweetings) and
per row (Adult). Everyone gets the same rows, cut to the same number a unit, the same bounds and the same ε.
Means and medians are moved into the declared bounds, which costs nothing and only some do by themselves.
An error is the distance from the exact answer on those rows, for a group-by averaged over the groups; "cut"
is how far that exact answer lies from the one on all rows. Ours are whole releases, each at an ε that is 1e-9
larger than the one before. The output says which library is not installed and which question is refused.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from parts.measuring import from_child
from parts.peak import refusal
from parts.studies import DATA, ROOT, STUDIES, Study, cut, exact, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

PARTS = Path(__file__).parent / "parts"
PEERS = ROOT / ".venv-peers"
LIBRARIES = {
    "OpenDP": (PEERS / "bin" / "python", PARTS / "opendp_draws.py"),
    "Tumult": (PEERS / "tumult" / "bin" / "python", PARTS / "tumult_draws.py"),
}
OURS = "sfumato"
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Error:
    """The mean absolute error of one system in one cell, and its standard error."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, answers: NDArray[np.float64], truth: NDArray[np.float64]) -> Error:
        each = np.abs(answers - truth).mean(axis=1)
        return cls(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))

    def at_most(self, other: Error) -> bool:
        """Not larger, within two standard errors of the difference."""
        return self.mean - other.mean <= 2 * float(np.hypot(self.deviation, other.deviation))

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.deviation:.2g}"


# ---- ours --------------------------------------------------------------------------------------------------


def registered(folder: Path, study: Study, path: Path, keys: list[str]) -> sf.Lab:
    lab = sf.create(folder)
    numbers = {name: sf.between(low, high, step=1) for name, low, high in (study.mean, study.median)}
    unit = sf.ROW if study.unit is None else sf.Unit(study.unit, max_rows=study.max_rows)
    columns: dict[str, Any] = {**numbers, study.key: sf.one_of(*keys)}
    lab.register("t", path, unit=unit, columns=columns, budget=sf.Budget(epsilon=1_000_000))
    return lab


def sql(cell: dict[str, Any]) -> str:
    figure = {"count": "COUNT(*)", "mean": "AVG({column})", "median": "MEDIAN({column})"}[cell["kind"]]
    shown = f"{figure.format(**cell)} AS x"
    return (
        f"SELECT {cell['key']}, {shown} FROM t GROUP BY {cell['key']}"
        if cell["key"]
        else f"SELECT {shown} FROM t"
    )


def our_answers(lab: sf.Lab, cell: dict[str, Any], draws: int, epsilon: float) -> Any:
    """A list of numbers for each release, or the code of the refusal."""
    try:
        query = lab.session().sql(sql(cell))
        released = [query.release(epsilon=epsilon + (i + 1) * TINY).to_arrow() for i in range(draws)]
    except Exception as error:  # the table goes on with the next cell and says so
        return refusal(error)
    middle = (cell["low"] + cell["high"]) / 2
    return [[middle if x is None else x for x in answer["x"].to_pylist()] for answer in released]


# ---- everyone ----------------------------------------------------------------------------------------------


def peer_answers(request: dict[str, Any]) -> dict[str, Any]:
    """Return for each library its answers to every cell, or why there are none."""
    found: dict[str, Any] = {}
    for name, (python, script) in LIBRARIES.items():
        if not python.exists():
            found[name] = f"not installed: no {python.relative_to(ROOT)}; `make bench` makes it"
            continue
        answered = from_child(script, request, str(python))
        found |= {name: answered["refused"]} if "refused" in answered else answered
    return found


def studied(folder: Path, study: Study, options: argparse.Namespace) -> list[tuple[str, dict[str, Error]]]:
    """Print every cell of one table; what was measured comes back, for a picture."""
    whole = study.read()
    kept = cut(whole, study)
    keys = sorted({str(key) for key in whole[study.key].to_pylist()})
    path, cells = folder / "rows.parquet", study.cells(keys)
    pq.write_table(kept, path)
    lab = registered(folder / "lab", study, path, keys)
    unit, draws, epsilon = study.unit, options.draws, options.epsilon
    request = {
        "path": str(path),
        "unit": unit,
        "max_rows": study.max_rows,
        "cells": cells,
        "draws": draws,
        "epsilon": epsilon,
    }
    rows = f"{kept.num_rows:,} of {whole.num_rows:,} rows"
    print(f"\n{study.name}: {rows}, at most {study.max_rows} a {unit or 'row'}")
    peers = peer_answers(request)
    for name, why in peers.items():
        if isinstance(why, str):
            print(f"{name}: NOT MEASURED: {why}")
    mine = [our_answers(lab, cell, draws, epsilon) for cell in cells]
    everyone = {
        OURS: mine,
        **{name: answers for name, answers in peers.items() if not isinstance(answers, str)},
    }
    return [
        (f"{study.name}: {name_of(cell)}", _cell(at, cell, everyone, whole, kept))
        for at, cell in enumerate(cells)
    ]


def _cell(
    at: int, cell: dict[str, Any], everyone: dict[str, Any], whole: pa.Table, kept: pa.Table
) -> dict[str, Error]:
    truth = exact(kept, cell)
    bias = np.abs(truth - exact(whole, cell)).mean()
    answers = {name: cells[at] for name, cells in everyone.items() if cells[at] is not None}
    numbers = {name: possible(given, cell) for name, given in answers.items() if not isinstance(given, str)}
    errors = {name: Error.of(given, truth) for name, given in numbers.items()}
    refused = [
        f"{name} not supported yet: {given}" for name, given in answers.items() if isinstance(given, str)
    ]
    shown = [f"{name} {error}{_verdict(errors, name)}" for name, error in errors.items()]
    print(f"  {name_of(cell):38} cut {bias:<8.3g} {'; '.join([*refused, *shown])}", flush=True)
    return errors


def possible(answers: Any, cell: dict[str, Any]) -> NDArray[np.float64]:
    """Answers within the bounds of the column; a count has none."""
    numbers = np.array(answers, dtype=float)
    return numbers if cell["column"] is None else np.clip(numbers, cell["low"], cell["high"])


def _verdict(errors: dict[str, Error], name: str) -> str:
    if name == OURS or OURS not in errors:
        return ""
    return f" (ours {'at most that' if errors[OURS].at_most(errors[name]) else 'LARGER'})"


def drawing(measured: Sequence[tuple[str, dict[str, Error]]], path: Path) -> None:
    """Each error as a multiple of ours, with two standard errors."""
    from sfumato.viz import grouped_bars

    bars = [
        (cell, name, error.mean / errors[OURS].mean, 2 * error.deviation / errors[OURS].mean)
        for cell, errors in measured
        if OURS in errors and errors[OURS].mean > 0
        for name, error in errors.items()
    ]
    labels, series, height, spread = zip(*bars, strict=True)
    low, high = np.subtract(height, spread), np.add(height, spread)
    title = "Error as a multiple of ours, at the same guarantee"
    grouped_bars(labels, series, height, low, high, title=title, y="error / ours", group="system").save(path)
    print(f"\ndrawn: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--study", choices=[study.name for study in STUDIES], help="one table instead of all")
    options = parser.parse_args()
    if not DATA.exists():
        print(f"NOT MEASURED: there is no data at {DATA}; SFUMATO_DATA says where it is")
        return
    print(f"mean absolute error ± its standard error, {options.draws} draws, pure ε = {options.epsilon}")
    measured = []
    for study in (each for each in STUDIES if options.study in (None, each.name)):
        with tempfile.TemporaryDirectory() as scratch:
            measured += studied(Path(scratch), study, options)
    worse = [
        (cell, name) for cell, errors in measured for name in errors if "LARGER" in _verdict(errors, name)
    ]
    compared = sum(len(errors) - 1 for _, errors in measured if OURS in errors)
    print(
        f"\nours is larger in {len(worse)} of {compared} comparisons"
        + "".join(f"\n  {a}: {b}" for a, b in worse)
    )
    print(f"(of {compared} equal laws about {compared / 44:.1f} would look larger by luck)")
    if options.plot:
        drawing(measured, options.plot)


if __name__ == "__main__":
    main()
